package activation

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// TestTrouble covers failures of systemd, of the gate and of the order of units.
func TestTrouble(t *testing.T) {
	play(t, []scenario{
		{"masked: 52 before COMMIT, nothing changed", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.Load, n.systemd.unit.NoStart = "masked", true // as systemd reports it
			mustRefuse(t, n, "systemctl unmask kubelet.service")
		}},
		{"missing unit: 52 before COMMIT, nothing changed", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.Name = "k3s.service"
			mustRefuse(t, n, "cannot find kubelet.service")
		}},
		{"gate overridden by a drop-in: 52 before COMMIT, with the line to paste", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.EnvironmentFiles = nil
			mustRefuse(t, n, "paste EnvironmentFile="+gatePath(n.run))
		}},
		{"gate made optional by a drop-in: 52 before COMMIT", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.EnvironmentFiles[0].Optional = true
			mustRefuse(t, n, "would start without waiting")
		}},
		{"RefuseManualStop=: 52 before COMMIT, with the line to paste", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.NoStop = true
			mustRefuse(t, n, "paste RefuseManualStop=no")
		}},
		{"RefuseManualStart=: 52 before COMMIT, with the line to paste", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.NoStart = true
			mustRefuse(t, n, "paste RefuseManualStart=no")
		}},
		{"Conflicts= with a unit of prelet: 52 before COMMIT", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.NeverWith = []string{"shutdown.target", "prelet-apply.service"}
			mustRefuse(t, n, "kubelet.service and prelet-apply.service conflict")
		}},
		{"Requires= of a unit of prelet: 52 before COMMIT", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.FailsWith = []string{"sysinit.target", "prelet.service"}
			mustRefuse(t, n, "kubelet.service requires prelet.service")
		}},
		{"a Condition= that does not hold: bad, and back", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.skips = func() bool { return strings.Contains(n.read(configPath), "two") }
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")

			if out.Code != fault.RolledBack || out.InPlace != Good ||
				!strings.Contains(out.Why, "a Condition= or Assert=") {
				t.Errorf("got %+v; want a way back because of a condition", out)
			}
		}},
		{"D-Bus gone before COMMIT: 52, nothing changed", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unreachable = true
			mustRefuse(t, n, "systemctl status")
		}},
		{"D-Bus gone after COMMIT: 42, the gate is shut, and the next run finishes it", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.onCommit = func() { n.systemd.unreachable = true }

			_, err := n.runSite(t.Context(), "two")
			if n.codeOf(err) != fault.Interrupted || n.readGate() != "" || n.journal() == nil {
				t.Errorf("%v, gate %q; want code interrupted, a shut gate and a journal", err, n.readGate())
			}

			n.systemd.unreachable = false
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "the next run")
			checkOutcome(t, "the next run", out, Outcome{Verdict: Good, Generation: 2})
		}},
		{"D-Bus gone in the watch: 42, state kept", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.schedule(4*time.Second, func() { n.systemd.unreachable = true })

			_, err := n.runSite(t.Context(), "two")
			if n.codeOf(err) != fault.Interrupted || n.journal() == nil {
				t.Errorf("got error %v, journal %+v; want code %s and a journal", err, n.journal(), fault.Interrupted)
			}

			n.systemd.unreachable = false
			checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{"D-Bus away for a moment in the watch: no matter", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.schedule(4*time.Second, func() { n.systemd.unreachable = true })
			n.clk.schedule(7*time.Second, func() { n.systemd.unreachable = false })
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})
		}},
		{"a unit that the kubelet requires fails: bad", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.onCommit = func() { n.systemd.dependency = true }
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			// The kubelet cannot start on the old files either, and was not stopped by hand, so the plan is not at
			// fault.
			checkOutcome(
				t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Bad, Code: fault.RollbackFails},
			)
		}},
		{
			"power fails in each verification: the fourth boot goes back before the kubelet starts",
			func(t *testing.T, n *node) {
				n.bootWith("one")

				for boot := range 3 {
					n.reboot()
					run, err := n.runSite(t.Context(), "two")
					n.mustSucceed(err, "run")
					checkOutcome(t, fmt.Sprintf("boot %d", boot+1), run, Outcome{Verdict: Pending, Generation: 2})
					n.finishPrelet()
					// The power fails while prelet-verify watches.
					n.killAt = 1
					if at := n.maybeKilled(func() { n.verify() }); at != "verify started" {
						t.Fatalf("killed at %q; want verify started", at)
					}
				}

				n.reboot()
				run, err := n.runSite(t.Context(), "two")
				n.mustSucceed(err, "run")
				checkOutcome(
					t, "fourth boot", run,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Pending, Held: true, Code: fault.RolledBack},
				)

				if len(n.systemd.starts) != 0 {
					t.Error("the kubelet had started on it")
				}

				n.finishPrelet()

				if n.systemd.unit.Active != "active" || n.read(configPath) != "one" {
					t.Errorf("kubelet %s, config %q; want an active kubelet on config one",
						n.systemd.unit.Active, n.read(configPath))
				}
			},
		},
		{"at boot nobody asked for the kubelet (disabled): it is not started", func(t *testing.T, n *node) {
			n.systemd.end("canceled")
			n.systemd.unit.File = "disabled"
			run, err := n.runSite(t.Context(), "one")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", run, Outcome{Verdict: Pending, Generation: 1})
			n.finishPrelet()
			n.clk.advance(time.Minute)

			if len(n.systemd.starts) != 0 || n.readGate() != "PRELET_GENERATION=1" {
				t.Errorf("starts %v, gate %q; want no start and the gate open on 1", n.systemd.starts, n.readGate())
			}
		}},
		{
			"the kubelet waits at the shut gate: restarted without waiting, so RestartSec= is not sat out",
			func(t *testing.T, n *node) {
				// prelet.service failed once without a trace, so the kubelet is in auto-restart; now prelet.service is
				// started again.
				n.systemd.endPrelet()
				n.clk.advance(time.Second)

				if !isWaitingToRestart(n.systemd.unit) {
					t.Fatalf("got unit %+v; want it in auto-restart", n.systemd.unit)
				}

				n.systemd.ordered = true
				_, err := n.runSite(t.Context(), "one")
				n.mustSucceed(err, "run")
				at := n.clk.now
				n.finishPrelet()

				if n.systemd.unit.Active != "active" || n.clk.now-at > time.Second {
					t.Errorf("got unit %+v after %s; want it active within 1s", n.systemd.unit, n.clk.now-at)
				}
			},
		},
		{
			"restart of prelet.service at run time: the kubelet comes back after it, nobody waits",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.systemd.ordered, n.systemd.insidePrelet = true, true
				run, err := n.runSite(t.Context(), "two")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", run, Outcome{Verdict: Pending, Generation: 2})
				n.finishPrelet()
				checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
			},
		},
		{"the gate is lost at run time: the kubelet's next crash heals it", func(t *testing.T, n *node) {
			n.bootWith("one")
			os.Remove(gatePath(n.run))
			n.systemd.fail("exit-code")
			n.clk.advance(time.Second)
			checkOutcome(t, "verify", n.verify(), Outcome{Generation: 1})
			n.clk.advance(time.Second)

			if n.systemd.unit.Active != "active" || n.readGate() != "PRELET_GENERATION=1" {
				t.Errorf("kubelet %s, gate %q; want an active kubelet and the gate open on 1",
					n.systemd.unit.Active, n.readGate())
			}
		}},
		{"the gate is lost and a file was changed: it stays shut, and says which", func(t *testing.T, n *node) {
			n.bootWith("one")
			os.Remove(gatePath(n.run))

			if err := os.WriteFile(n.disk+flagsPath, []byte("by hand"), 0o644); err != nil {
				t.Fatal(err)
			}

			out := n.verify()
			if n.readGate() != "" || !strings.Contains(out.HeldBack, flagsPath+" was changed") {
				t.Errorf("gate %q, %q; want a shut gate and the changed file as the reason", n.readGate(), out.HeldBack)
			}
		}},
		{
			"a run fails before COMMIT on a node with a good generation: the gate opens on that",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.reboot()
				out, err := n.process(func(m *Machine) (Outcome, error) { return m.Keep(t.Context(), "site invalid") })
				n.mustSucceed(err, "keep")
				checkOutcome(t, "keep", out, Outcome{Generation: 1})
				n.finishPrelet()

				if n.systemd.unit.Active != "active" {
					t.Errorf("got unit %+v; want it active", n.systemd.unit)
				}
			},
		},
		{
			"a run fails before COMMIT on a node that never had a generation: shut, and prelet-verify says why again",
			func(t *testing.T, n *node) {
				out, err := n.process(
					func(m *Machine) (Outcome, error) { return m.Keep(t.Context(), "cluster unreachable") },
				)
				n.mustSucceed(err, "keep")

				if !strings.Contains(out.HeldBack, "cluster unreachable") {
					t.Errorf("got outcome %+v; want it held back: cluster unreachable", out)
				}

				n.finishPrelet()

				if got := n.verify(); got.HeldBack != out.HeldBack || n.readGate() != "" {
					t.Errorf("verify says %q, gate %q; want the reason of the run and a shut gate",
						got.HeldBack, n.readGate())
				}
			},
		},
		{"a run fails before COMMIT and a file is not that of the generation: shut", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()

			if err := os.WriteFile(n.disk+flagsPath, []byte("by hand"), 0o644); err != nil {
				t.Fatal(err)
			}

			out, err := n.process(func(m *Machine) (Outcome, error) { return m.Keep(t.Context(), "site invalid") })
			n.mustSucceed(err, "keep")

			if n.readGate() != "" || !strings.Contains(out.HeldBack, "not in place whole") {
				t.Errorf("gate %q, %+v; want a shut gate, held back: not in place whole", n.readGate(), out)
			}
		}},
		{"prelet is not in use: the gate opens on nothing", func(t *testing.T, n *node) {
			_, err := n.process(func(m *Machine) (Outcome, error) { return m.KeepWithoutSite(t.Context()) })
			n.mustSucceed(err, "keep without a site")
			n.finishPrelet()

			if n.systemd.unit.Active != "active" || n.readGate() != "PRELET_GENERATION=0" {
				t.Errorf("kubelet %s, gate %q; want an active kubelet and the gate open on 0",
					n.systemd.unit.Active, n.readGate())
			}
		}},
		{"back by hand, to as before prelet", func(t *testing.T, n *node) {
			n.bootWith("one")
			out, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 0, "by hand") })
			n.mustSucceed(err, "back")
			checkOutcome(t, "back", out, Outcome{Verdict: Good, Generation: 2, From: 1, InPlace: Good})

			if n.read(configPath) != "" || n.systemd.unit.Active != "active" {
				t.Errorf("config %q, kubelet %s; want no file and an active kubelet",
					n.read(configPath), n.systemd.unit.Active)
			}
		}},
		{
			"a unit file changed: systemd reads it before the start, and again on the way back",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				out, err := n.process(func(m *Machine) (Outcome, error) {
					plan := n.plan("two healthz=bad")
					plan.UnitFiles = true
					blob, _ := plan.Encode()
					txn, err := n.store.Begin(
						generation.Proposal{
							PlanID: "two",
							Blobs:  map[string][]byte{PlanBlob: blob},
							Targets: []generation.Target{
								{
									Path:    configPath,
									Kind:    generation.File,
									Content: []byte("two healthz=bad"),
									Mode:    0o644,
									UID:     -1,
									GID:     -1,
								},
								{
									Path:    flagsPath,
									Kind:    generation.File,
									Content: []byte("two healthz=bad"),
									Mode:    0o644,
									UID:     -1,
									GID:     -1,
								},
							},
						},
					)
					n.mustSucceed(err, "begin")

					out, _, err := m.Apply(t.Context(), Change{Txn: txn, Plan: plan, Reload: true})

					return out, err
				})
				n.mustSucceed(err, "apply")
				checkOutcome(
					t, "apply", out,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
				)

				if n.systemd.reloads != 2 {
					t.Errorf("%d reloads; want 2", n.systemd.reloads)
				}

				i := slices.Index(n.events, "reload ok")
				if i < 0 || !slices.Equal(n.events[i:i+3], []string{"reload ok", "gate ok", "restart started"}) {
					t.Errorf("events: %v; want reload, gate, restart", n.events)
				}
			},
		},
	})
}
