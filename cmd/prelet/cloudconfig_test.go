package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestCloudConfigs checks the user data of the recipes by cloud-init's own schema.
func TestCloudConfigs(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is not installed (Debian package cloud-init): the user data of recipes is not checked")
	}

	const recipes = repository + "/packaging/image/recipes/"
	texts := map[string]string{"cloud-init/user-data": string(osfile.Read(t, recipes+"cloud-init/user-data"))}
	for _, text := range strings.Split(string(osfile.Read(t, recipes+"karpenter/nodepool.yaml")), "\n---\n") {
		var object struct{ Spec struct{ UserData string } }
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("karpenter/nodepool.yaml: got %v, want YAML", err)
		}
		if object.Spec.UserData != "" {
			texts["karpenter/nodepool.yaml"] = object.Spec.UserData
		}
	}
	if len(texts) != 2 {
		t.Errorf("got user data of %d recipes, want that of cloud-init and of Karpenter", len(texts))
	}

	for name, text := range texts {
		if out, err := checkCloudConfig(t, program, text); err != nil {
			t.Errorf("%s: got %v, want it valid for cloud-init\n%s", name, err, out)
		}
		broken := strings.Replace(text, "\n  - path: ", "\n  - paths: ", 1)
		if out, err := checkCloudConfig(t, program, broken); err == nil {
			t.Errorf("%s with write_files of no path: got it valid, want an error\n%s", name, out)
		}
	}
}

// TestKarpenterSite plans the site of the image with the files of the recipe's user data on an EC2 instance: AWS's
// controller finds it by the name of the Node, and sets the label of the zone.
func TestKarpenterSite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short is set, and the test starts a process")
	}

	dir := t.TempDir()
	recipe := string(osfile.Read(t, repository+"/packaging/image/recipes/karpenter/nodepool.yaml"))
	_, text, _ := strings.Cut(recipe, "\n---\n")
	var class struct{ Spec struct{ UserData string } }
	noError(t, yaml.Unmarshal([]byte(text), &class))
	var userData struct {
		Files []struct{ Path, Content string } `json:"write_files"`
	}
	noError(t, yaml.Unmarshal([]byte(class.Spec.UserData), &userData))
	site := string(osfile.Read(t, repository+"/examples/minimal/site.hcl"))
	pin := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(site)
	files := map[string]string{"node/empty": ""}
	for _, file := range userData.Files {
		files[file.Path] = strings.Replace(file.Content, "sha256:PIN", pin, 1)
	}
	osfile.WriteTree(t, dir, files)
	noError(t, hwtree.BuildFile(repository+"/testdata/hardware/spec/dgx-h100.json", filepath.Join(dir, "machine")))
	tag := filepath.Join(dir, "machine/sys/devices/virtual/dmi/id/board_asset_tag")
	osfile.Write(t, tag, "i-0123456789abcdef0\n", 0o644)

	repo, err := filepath.Abs(repository)
	noError(t, err)
	out := runCI(t, dir, []string{"REPO=" + repo}, 0,
		"prelet plan --config $REPO/packaging/image/site/usr/lib/prelet/site --config etc/prelet --root node "+
			"--hardware machine --objects $REPO/examples/objects")
	for _, want := range []string{
		"--hostname-override=i-0123456789abcdef0 ", "--cloud-provider=external ", "karpenter.sh/unregistered:NoExecute ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("plan: got no %q, want it in\n%s", want, out)
		}
	}
	if strings.Contains(out, "topology.kubernetes.io/zone") {
		t.Errorf("plan: got a label of the zone, want none in\n%s", out)
	}
}

// checkCloudConfig returns what cloud-init has to say about user data.
func checkCloudConfig(t *testing.T, program, text string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "schema", "--config-file", file).CombinedOutput()

	return string(out), err
}
