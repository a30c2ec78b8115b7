package autoscalers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/types"
	"sigs.k8s.io/yaml"
)

const (
	clusterAPI = "../../packaging/image/recipes/cluster-api/"

	joinToken = "ghijkl.0123456789abcdef"
	hostName  = "gpu-workers-x7k2p"
	// objectsPin is the pin of examples/objects/ca.crt.
	objectsPin = "sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"
)

// readWorkers returns the recipe's template, which Cluster API would accept.
func readWorkers(t *testing.T) bootstrapv1.KubeadmConfigSpec {
	t.Helper()
	var template bootstrapv1.KubeadmConfigTemplate
	if err := yaml.UnmarshalStrict(read(t, clusterAPI+"workers.yaml"), &template); err != nil {
		t.Fatalf("workers.yaml: got %v, want a KubeadmConfigTemplate", err)
	}
	if got, want := template.APIVersion, bootstrapv1.GroupVersion.String(); got != want {
		t.Errorf("workers.yaml, apiVersion: got %s, want %s", got, want)
	}
	spec := template.Spec.Template.Spec
	if errs := spec.Validate(false, field.NewPath("spec")); len(errs) > 0 {
		t.Errorf("workers.yaml: got %v, want no error of Cluster API's validation", errs)
	}

	return spec
}

// bootstrap writes below root what cloud-init would write of the user data of Cluster API: the join configuration, to
// which its controller adds discovery and a taint, and the files.
func bootstrap(t *testing.T, root string, spec bootstrapv1.KubeadmConfigSpec) {
	t.Helper()
	join := spec.JoinConfiguration.DeepCopy()
	join.Discovery.BootstrapToken = bootstrapv1.BootstrapTokenDiscovery{
		Token: joinToken, APIServerEndpoint: "10.0.0.11:6443", CACertHashes: []string{objectsPin},
	}
	join.NodeRegistration.Taints = &[]corev1.Taint{clusterv1.NodeUninitializedTaint}
	text, err := kubeadmtypes.MarshalJoinConfigurationForVersion(join, semver.MustParse("1.34.0"))
	must(t, err)
	write(t, root+"/run/kubeadm/kubeadm-join-config.yaml", "---\n"+jinja(text))
	write(t, root+"/run/cluster-api/placeholder", "")
	for _, file := range spec.Files {
		write(t, root+file.Path, jinja(file.Content))
	}
}

// jinja does what the templates of the recipe need.
func jinja(text string) string {
	return strings.ReplaceAll(text, "{{ ds.meta_data.local_hostname }}", hostName)
}

// below replaces the folders of a node in a script with those below root.
func below(root, script string) string {
	for _, dir := range []string{"/run/", "/etc/"} {
		script = strings.ReplaceAll(script, dir, root+dir)
	}

	return script
}

// TestClusterAPISite runs the script of the image on the files of Cluster API, and plans the site that results: one
// of the join configuration and of the template's file.
func TestClusterAPISite(t *testing.T) {
	program := prelet(t)
	root := t.TempDir()
	bootstrap(t, root, readWorkers(t))
	shell(t, 0, filepath.Dir(program), below(root, string(read(t, clusterAPI+"prelet-cluster-api.sh"))))

	if got := string(read(t, root+"/run/credstore/bootstrap-token")); got != joinToken+"\n" {
		t.Errorf("credential: got %q, want the token", got)
	}
	info, err := os.Stat(root + "/run/credstore/bootstrap-token")
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode of the credential: got %v, %v, want 0600", info.Mode(), err)
	}
	if site := string(read(t, root+"/etc/prelet/50-cluster-api.hcl")); strings.Contains(site, joinToken) {
		t.Errorf("site: got the token in it, want none\n%s", site)
	}

	out := shell(t, 0, filepath.Dir(program), "mkdir "+root+"/node\n"+
		"CREDENTIALS_DIRECTORY="+root+"/run/credstore prelet plan --config "+root+"/etc/prelet --root "+root+"/node "+
		"--hardware ../../bin/machines/two-sockets --objects ../../examples/objects --full")
	for _, want := range []string{
		"example.com/pool=gpu", clusterv1.NodeUninitializedTaint.ToString(), "kubeReserved", "cloud-provider=external",
		hostName,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("plan: got no %q, want it in\n%s", want, out)
		}
	}
}

// TestClusterAPICommands runs the commands as cloud-init does: one script of preKubeadmCommands and of `kubeadm join`.
// kubeadm never runs, and the file that infrastructure providers look for is written if the node is in the cluster.
func TestClusterAPICommands(t *testing.T) {
	prelet(t)
	spec := readWorkers(t)
	theirs := moduleFile(t, "bootstrap/kubeadm/internal/cloudinit/node.go") +
		moduleFile(t, "bootstrap/kubeadm/internal/cloudinit/cloudinit.go")
	const success = "echo success > /run/cluster-api/bootstrap-success.complete"
	for _, want := range []string{
		"runcmd:\n{{- template \"commands\" .PreKubeadmCommands }}\n" +
			"  - {{ .KubeadmCommand }} && {{ .SentinelFileCommand }}\n",
		"path: /run/cluster-api/placeholder\n", "path: /run/kubeadm/kubeadm-join-config.yaml\n", `"` + success + `"`,
	} {
		if !strings.Contains(theirs, want) {
			t.Errorf("user data of Cluster API: got no %q, want it: the recipe assumes that", want)
		}
	}

	for status, joined := range map[string]bool{"0": true, "2": true, "1": false, "3": false} {
		root := t.TempDir()
		bootstrap(t, root, spec)
		writeProgram(t, root+"/bin/prelet", "exit "+status)
		writeProgram(t, root+"/bin/kubeadm", "touch "+root+"/kubeadm-ran")
		script := strings.Join(append(spec.PreKubeadmCommands, "kubeadm join && "+success), "\n")
		shell(t, map[bool]int{true: 0, false: 1}[joined], root+"/bin", below(root, script))

		_, err := os.Stat(root + "/run/cluster-api/bootstrap-success.complete")
		if got := err == nil; got != joined {
			t.Errorf("prelet status ends with %s: got success %t, want %t", status, got, joined)
		}
		if _, err := os.Stat(root + "/kubeadm-ran"); err == nil {
			t.Errorf("prelet status ends with %s: got a run of kubeadm, want none", status)
		}
	}
}

// prelet returns the program to test, or skips the test.
func prelet(t *testing.T) string {
	t.Helper()
	program := os.Getenv(wanted)
	if program == "" {
		t.Skipf("%s is not set; run make e2e-autoscalers", wanted)
	}

	return program
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)

	return text
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// writeProgram writes a program of one command.
func writeProgram(t *testing.T, path, command string) {
	t.Helper()
	write(t, path, "#!/bin/sh\n"+command+"\n")
	must(t, os.Chmod(path, 0o755))
}

// shell runs a script with the programs of a folder first, and returns its output.
func shell(t *testing.T, status int, programs, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("%s: got status %d, want %d\n%s", script, got, status, out)
	}

	return string(out)
}

// moduleFile returns a file of the module of Cluster API.
func moduleFile(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("go list: got %v, want the folder of the module", err)
	}

	return string(read(t, strings.TrimSpace(string(dir))+"/"+name))
}
