package activation

import (
	"fmt"
	"testing"
	"time"
)

// TestKilledAnywhere kills prelet at each event of a change, at run time and at boot, with good and bad plans. The
// units then do what they do on a real node: prelet-apply.service and prelet.service are started again
// (Restart=on-failure), and each start and crash of the kubelet triggers prelet-verify.service. In the end the kubelet
// must run on the right, complete generation with the journal closed. checkWhole checks every start on the way.
func TestKilledAnywhere(t *testing.T) {
	for _, tc := range []struct {
		name, config, want string
		boot               bool
	}{
		{"run time, good", "two", "two", false},
		{"run time, bad", "two healthz=bad", "one", false},
		{"boot, good", "two", "two", true},
		{"boot, bad", "two healthz=bad", "one", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			killed := 0

			for k := 1; ; k++ {
				n := newNode(t)
				n.bootWith("one")

				if tc.boot {
					n.reboot()
				}

				at := n.changeKilledAt(tc.config, k)
				if at == "" {
					break
				}

				killed++
				where := fmt.Sprintf("killed at event %d, %q", k, at)

				n.clk.advance(15 * time.Second) // a kubelet that waits at the gate tries again meanwhile
				n.verify()

				if _, err := n.runSite(t.Context(), tc.config); err != nil {
					t.Errorf("%s: the next run: %v; want no error", where, err)
				}

				if n.read(configPath) != tc.want || n.read(flagsPath) != tc.want {
					t.Errorf(
						"%s: the files are %q and %q, want %q", where, n.read(configPath), n.read(flagsPath), tc.want,
					)
				}

				if n.systemd.unit.Active != "active" || n.readGate() == "" {
					t.Errorf("%s: kubelet %s/%s, gate %q; want an active kubelet and an open gate",
						where, n.systemd.unit.Active, n.systemd.unit.Sub, n.readGate())
				}

				if n.journal() != nil {
					t.Errorf("%s: the journal is open; want none", where)
				}

				if (Gate{Dir: n.run, BootID: n.boot}).IsOwed(DefaultUnit) {
					t.Errorf("%s: a start is owed; want none", where)
				}
			}

			if killed < 5 {
				t.Errorf("only %d events to be killed at; want at least 5", killed)
			}
		})
	}
}

// changeKilledAt runs a change until its k-th event, restarts what systemd restarts, and returns where it was killed,
// or "".
func (n *node) changeKilledAt(config string, k int) string {
	n.t.Helper()
	n.killAt = k
	inBoot := n.systemd.insidePrelet
	change := func() {
		if _, err := n.runSite(n.t.Context(), config); err != nil {
			n.t.Errorf("run: %v; want no error", err)
		}
	}

	at := n.maybeKilled(change)
	if at != "" {
		n.clk.advance(time.Second) // RestartSec=1
		change()
	}

	if inBoot {
		n.finishPrelet()

		if at == "" {
			at = n.maybeKilled(func() { n.verify() })
		}

		if at == "" {
			n.killAt = 0
		}

		n.clk.advance(time.Second)
		n.verify() // Restart=on-failure of prelet-verify
	}

	return at
}
