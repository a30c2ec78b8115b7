package systemd

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestUnitOfCgroup(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Cgroup, Want string }](t, `
- {cgroup: "0::/system.slice/prelet.service\n", want: prelet.service}
- {cgroup: "12:cpu:/x.service\n1:name=systemd:/system.slice/prelet-apply.service\n", want: prelet-apply.service}
- {cgroup: "0::/machine.slice/node.scope/payload/system.slice/prelet-verify.service\n", want: prelet-verify.service}
- {cgroup: "0::/user.slice/user-0.slice/session-3.scope\n", want: session-3.scope}
- {cgroup: "0::/\n"}
- {}
- {cgroup: nonsense}
`) {
		if got := parseCgroup(c.Cgroup); got != c.Want {
			t.Errorf("parseCgroup(%q): got %q, want %q", c.Cgroup, got, c.Want)
		}
	}
}
