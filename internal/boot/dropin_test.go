package boot

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestEmptyListInDropIn: a kubelet that merges drop-ins loses an empty list of config.yaml to its default, so that
// the drop-in says it again; the only one that has another default than none.
func TestEmptyListInDropIn(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n"
	for base, want := range map[string]string{
		"cgroupsPerQOS: false\\nenforceNodeAllocatable: []\\nallowedUnsafeSysctls: []\\n": "enforceNodeAllocatable: []\n" +
			"kind: KubeletConfiguration\n",
		"enforceNodeAllocatable: [pods]\\n": "kind: KubeletConfiguration\n",
		"maxPods: 20\\n":                    "kind: KubeletConfiguration\n",
	} {
		s, diags := parseCase(&txtar.Archive{Files: []txtar.File{{Name: "site.hcl", Data: []byte(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { layout = "drop-in" }
}
`)}}})
		if diags.HasErrors() {
			t.Fatalf("parsing the site: got %v, want no error", diags)
		}
		p := Run(context.Background(), s, Options{Source: fakeWorld(t, &txtar.Archive{Files: []txtar.File{{Name: "world",
			Data: []byte(`original config.yaml => {"value":{"exists":true,"text":"` + head + base + `"}}` + "\n")}}})})
		if !p.Complete {
			t.Fatalf("got %v\nwant a complete plan", p.Diagnostics)
		}
		for _, f := range p.Node.Files {
			if text, ok := strings.CutPrefix(f.Text.Template(),
				"apiVersion: kubelet.config.k8s.io/v1beta1\n"); f.Purpose == "kubelet-config" && (!ok || text != want) {
				t.Errorf("beside %s: %q, want %q", base, text, want)
			}
		}
	}
}
