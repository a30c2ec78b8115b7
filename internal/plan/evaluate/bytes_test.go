package evaluate

import (
	"strings"
	"testing"
)

// TestForeignBytesStay: values of the language combine e and an accent to one character (Unicode NFC). Text that is
// not the site's own stays as it is, or the site hears of it.
func TestForeignBytesStay(t *testing.T) {
	const accent = "e\u0301"
	const flags = "# caf" + accent + "\nFOO=\"" + accent + "\"\n"
	p := planSite(t, `
stage "detect-hw" "node" {}
stage "label" "l" { labels = { "example.com/a" = "b" } }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { layout = "drop-in" }
}
`, original("/etc/default/kubelet", flags)+original("config.yaml", testKubeletConfig))
	if got := textOf(p, "kubelet-flags"); !strings.HasPrefix(got, flags) {
		t.Errorf("got %q, want it to begin with %q", got, flags)
	}
	if len(p.Node.Files) != 2 {
		t.Errorf("got %d files, %v, want 2", len(p.Node.Files), p.Diagnostics)
	}
}
