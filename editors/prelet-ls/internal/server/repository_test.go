package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of a repository names the layers of the site, and machines whose findings are shown. Its own mistakes have
// their place.
func TestRepository(t *testing.T) {
	const site = "stage \"detect-hw\" \"hw\" {}\nstage \"reserve\" \"x\" {\n  policy = var.policy\n  static {\n    cpu = \"100\"\n" +
		"    memory = \"1Gi\"\n  }\n}\nstage \"write\" \"x\" {\n  bootstrap_kubeconfig { when = false }\n" +
		"  ca_certificate { when = false }\n  kubelet_config {\n    base = \"apiVersion: " +
		"kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n\"\n  }\n  kubelet_flags { base = \"\" }\n}\n"
	facts, err := os.ReadFile("../../../../testdata/hardware/facts/bare-vm.json")
	must(t, err)
	s, dir, _ := openSite(t, map[string]string{"site.hcl": ""})
	e := watch(s)
	for name, text := range map[string]string{
		"image/10-base.hcl": "variable \"policy\" { default = \"static\" }\n", "prod/site.hcl": site, "vm.json": string(facts),
		".prelet.hcl": "layers = [\"image\", \"prod\"]\nmachines = [\"vm.json\"]\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	file, repository := filepath.Join(dir, "prod/site.hcl"), filepath.Join(dir, ".prelet.hcl")
	open := func(file, text string) {
		doc := map[string]any{"uri": uriOf(file), "version": 1, "text": text}
		send(t, s, "textDocument/didOpen", map[string]any{"textDocument": doc})
		s.validatePending()
	}

	open(file, site)
	if got := strings.Join(s.sitePaths(file), " "); got != filepath.Join(dir, "image")+" "+filepath.Join(dir, "prod") {
		t.Errorf("site of %s: got %s, want both layers", file, got)
	}
	if got := e.summaries(file); !strings.Contains(got, "Policy static leaves too little cpu to pods") {
		t.Errorf("diagnostics with a small machine: got %q, want that the policy reserves too much", got)
	}

	open(repository, "layers = [\"image\", \"prod\"]\nmachine = []\n")
	if got := e.summaries(repository); got != `Unknown argument "machine"` {
		t.Errorf("diagnostics of the file of the repository: got %q, want the unknown argument", got)
	}
	if got := e.shown[uriOf(repository)]; len(got) != 1 || got[0].Range.Start.Line != 1 {
		t.Errorf("diagnostics of the file of the repository: got %+v, want one in the second line", got)
	}
	found := askFor[struct{ Items []struct{ Label string } }](t, s, "completion", map[string]any{
		"textDocument": textDocument{URI: uriOf(repository)}, "position": position{Line: 2},
	})
	var labels []string
	for _, item := range found.Items {
		labels = append(labels, item.Label)
	}
	if got := strings.Join(labels, " "); got != "kubelets machines objects" {
		t.Errorf("completion in the file of the repository: got %s, want the arguments that are missing", got)
	}
}
