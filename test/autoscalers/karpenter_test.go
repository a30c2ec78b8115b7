package autoscalers

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"
)

const recipes = "../../packaging/image/recipes/"

// cloudConfig is what user data of the recipes contains.
type cloudConfig struct {
	Locale string     `json:"locale"`
	Boot   [][]string `json:"bootcmd"`
	Files  []struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	} `json:"write_files"`
}

// readNodePool returns the recipe's NodePool, and the user data of its EC2NodeClass, whose module is not read here.
func readNodePool(t *testing.T) (pool karpenterv1.NodePool, userData string) {
	t.Helper()
	texts := bytes.Split(read(t, recipes+"karpenter/nodepool.yaml"), []byte("\n---\n"))
	var class struct {
		Spec struct {
			Family   string `json:"amiFamily"`
			UserData string `json:"userData"`
		} `json:"spec"`
	}
	must(t, yaml.UnmarshalStrict(texts[0], &pool))
	must(t, yaml.Unmarshal(texts[1], &class))
	if err := pool.RuntimeValidate(t.Context()); err != nil || pool.APIVersion != "karpenter.sh/v1" {
		t.Errorf("NodePool: got %v, want one that Karpenter accepts", err)
	}
	if class.Spec.Family != "Custom" {
		t.Errorf("amiFamily: got %q, want Custom: to others Karpenter adds its own bootstrap", class.Spec.Family)
	}

	return pool, class.Spec.UserData
}

// decode decodes user data strictly.
func decode(t *testing.T, userData string) cloudConfig {
	t.Helper()
	if !strings.HasPrefix(userData, "#cloud-config\n") {
		t.Errorf("user data: got %q, want #cloud-config first", userData[:20])
	}
	var c cloudConfig
	must(t, yaml.UnmarshalStrict([]byte(userData), &c))

	return c
}

// TestKarpenter plans the site of the image with the files of the recipe's user data: the Node registers with the taint
// that Karpenter waits for, and sets no label of the NodePool.
func TestKarpenter(t *testing.T) {
	program := prelet(t)
	pool, userData := readNodePool(t)
	config := decode(t, userData)
	dir := t.TempDir()
	for _, file := range config.Files {
		write(t, dir+file.Path, strings.ReplaceAll(file.Content, "sha256:PIN", objectsPin))
	}
	write(t, dir+"/credentials/bootstrap-token", joinToken)

	out := shell(t, 0, filepath.Dir(program), "mkdir "+dir+"/node\nchmod 400 "+dir+"/credentials/*\n"+
		"CREDENTIALS_DIRECTORY="+dir+"/credentials prelet plan "+
		"--config ../../packaging/image/site/usr/lib/prelet/site --config "+dir+"/etc/prelet --root "+dir+"/node "+
		"--hardware ../../bin/machines/dgx-h100 --objects ../../examples/objects --full")
	for _, want := range []string{karpenterv1.UnregisteredNoExecuteTaint.ToString(), "cloud-provider=external"} {
		if !strings.Contains(out, want) {
			t.Errorf("plan: got no %q, want it in\n%s", want, out)
		}
	}
	for key := range pool.Spec.Template.Labels {
		if strings.Contains(out, key) {
			t.Errorf("plan: got the label %s of the NodePool, which Karpenter sets, want none", key)
		}
	}

	recipe := decode(t, string(read(t, recipes+"cloud-init/user-data")))
	if !reflect.DeepEqual(config.Boot, recipe.Boot) {
		t.Errorf("bootcmd: got %q, want that of the recipe for cloud-init: %q", config.Boot, recipe.Boot)
	}
}

// TestUserDataSchema asks cloud-init whether it knows what the recipes contain.
func TestUserDataSchema(t *testing.T) {
	prelet(t)
	program, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is not installed")
	}
	_, userData := readNodePool(t)
	file := t.TempDir() + "/user-data"
	write(t, file, userData)
	for _, path := range []string{file, recipes + "cloud-init/user-data"} {
		out, err := exec.Command(program, "schema", "--config-file", path).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Valid cloud-config") {
			t.Errorf("cloud-init schema, %s: got %v, want it valid\n%s", path, err, out)
		}
	}
}
