package rules

import (
	"path"
	"testing"
)

// TestLaterName compares the advised drop-in with the present ones: logind reads it last.
func TestLaterName(t *testing.T) {
	for _, later := range []string{
		"",
		"/usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf",
		"/etc/systemd/logind.conf.d/zz.conf",
		"/etc/systemd/logind.conf.d/zz-kubelet.conf",
		"/etc/systemd/logind.conf.d/zzz-z.conf",
	} {
		got := Logind{Later: later}.laterName()
		if path.Dir(got) != "/etc/systemd/logind.conf.d" || path.Base(got) <= path.Base(later) ||
			path.Base(got) < "zz-kubelet.conf" {
			t.Errorf("after %q: got %q, want a later name in /etc/systemd/logind.conf.d", later, got)
		}
	}
}
