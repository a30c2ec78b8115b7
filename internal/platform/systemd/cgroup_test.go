package systemd

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestUnitOfCgroup(t *testing.T) {
	for _, c := range table.Rows[struct{ Cgroup, Want string }](t, `
		"0::/system.slice/prelet.service\n" | prelet.service
		"12:cpu:/x.service\n1:name=systemd:/system.slice/prelet-apply.service\n" | prelet-apply.service
		"0::/machine.slice/node.scope/payload/system.slice/prelet-verify.service\n" | prelet-verify.service
		"0::/user.slice/user-0.slice/session-3.scope\n" | session-3.scope
		"0::/\n"                            |
		""                                  |
		nonsense                            |
	`) {
		if got := parseCgroup(c.Cgroup); got != c.Want {
			t.Errorf("parseCgroup(%q): got %q, want %q", c.Cgroup, got, c.Want)
		}
	}
}
