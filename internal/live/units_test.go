package live

import "testing"

func TestOwnUnit(t *testing.T) {
	for _, c := range []struct{ cgroup, unit string }{
		{"0::/system.slice/prelet.service\n", "prelet.service"},
		{"12:cpu:/x.service\n1:name=systemd:/system.slice/prelet-apply.service\n", "prelet-apply.service"},
		{"0::/machine.slice/node.scope/payload/system.slice/prelet-verify.service\n", "prelet-verify.service"},
		{"0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"},
		{"0::/\n", ""}, {"", ""}, {"nonsense", ""},
	} {
		if got := OwnUnit(c.cgroup); got != c.unit {
			t.Errorf("%q: %q, want %q", c.cgroup, got, c.unit)
		}
	}
}
