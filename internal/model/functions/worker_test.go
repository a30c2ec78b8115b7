package functions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestFeatures gives a file of nfd_features() to NFD's real worker, in a root that has only this file. `make e2e-nfd`
// builds the worker and names it in PRELET_NFD_WORKER.
func TestFeatures(t *testing.T) {
	worker := os.Getenv("PRELET_NFD_WORKER")
	if worker == "" || os.Getuid() != 0 {
		t.Skip("needs root, and NFD's worker in PRELET_NFD_WORKER: run make e2e-nfd")
	}

	features, err := All()["nfd_features"].Call([]cty.Value{cty.MapVal(map[string]cty.Value{
		"example.com/rack":                 cty.StringVal("r7"),
		"example.com/rail":                 cty.StringVal("2"),
		"example.com/none":                 cty.NullVal(cty.String),
		"feature.node.kubernetes.io/sriov": cty.StringVal("true"),
	})})
	if err != nil {
		t.Fatalf("nfd_features: got %v, want no error", err)
	}

	// NFD refuses to start without a kubeconfig, also if it publishes nothing.
	const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": [{"name": "x", "context": {"cluster": "x"}}],
		"clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}]}`
	program, err := os.ReadFile(worker)
	noError(t, err)
	root := t.TempDir()
	for name, text := range map[string]string{
		"nfd-worker": string(program),
		"kubeconfig": kubeconfig,
		"etc/kubernetes/node-feature-discovery/features.d/prelet": features.AsString(),
	} {
		full := filepath.Join(root, name)
		noError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		noError(t, os.WriteFile(full, []byte(text), 0o755))
	}

	cmd := exec.CommandContext(t.Context(), "/nfd-worker", "-oneshot", "-no-publish", "-v=1",
		"-kubeconfig", "/kubeconfig", "-label-sources=local", "-feature-sources=local")
	cmd.Dir = "/"
	cmd.Env = []string{"NODE_NAME=peer"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	out, err := cmd.CombinedOutput()
	_, labels, _ := strings.Cut(string(out), "labels=<\n")
	labels, _, _ = strings.Cut(labels, "\n >")
	const want = "\texample.com/rack: r7\n\texample.com/rail: \"2\"\n\tfeature.node.kubernetes.io/sriov: \"true\""
	if err != nil || labels != want {
		t.Errorf("labels of NFD's worker: got %v,\n%s\nwant\n%s\nof the output\n%s", err, labels, want, out)
	}
}
