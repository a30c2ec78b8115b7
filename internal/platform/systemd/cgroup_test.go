package systemd

import "testing"

func TestUnitOfCgroup(t *testing.T) {
	for _, c := range []struct{ cgroup, want string }{
		{"0::/system.slice/prelet.service\n", "prelet.service"},
		{"12:cpu:/x.service\n1:name=systemd:/system.slice/prelet-apply.service\n", "prelet-apply.service"},
		{"0::/machine.slice/node.scope/payload/system.slice/prelet-verify.service\n", "prelet-verify.service"},
		{"0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"},
		{"0::/\n", ""},
		{"", ""},
		{"nonsense", ""},
	} {
		if got := parseCgroup(c.cgroup); got != c.want {
			t.Errorf("parseCgroup(%q): got %q, want %q", c.cgroup, got, c.want)
		}
	}
}
