package activate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/generation"
)

// TestScenarios are nodes over several boots and runs. Each begins with a node that has never seen prelet.
func TestScenarios(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, n *node)
	}{
		{"first boot: the kubelet starts once, behind the gate, and is judged good", func(t *testing.T, n *node) {
			run, verify := n.bootWith("one")
			expect(t, "run", run, Outcome{Verdict: Pending, Generation: 1})
			expect(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})
			if len(n.systemd.starts) != 1 || n.systemd.starts[0].gate != "PRELET_GENERATION=1" {
				t.Errorf("starts: %v", n.systemd.starts)
			}
			if n.journal() != nil {
				t.Error("the journal is still there")
			}
			names := []string{}
			for _, check := range verify.Checks {
				names = append(names, check.Name+"="+check.State)
			}
			if got := strings.Join(names, " "); got != "unit=ok started=ok healthz=ok steady=ok flags=ok files=ok kubeconfig=ok node=ok" {
				t.Errorf("checks: %s", got)
			}
		}},
		{"second boot, unchanged: the gate opens, nothing else happens", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			n.events = nil
			run, verify := n.bootWith("one")
			expect(t, "run", run, Outcome{Generation: 1})
			expect(t, "verify", verify, Outcome{Generation: 1})
			if got := strings.Join(n.events, ", "); got != "gate ok" {
				t.Errorf("events: %s", got)
			}
			if len(n.systemd.starts) != 1 {
				t.Errorf("starts: %v", n.systemd.starts)
			}
		}},
		{"run time, unchanged: nothing is touched", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.events = nil
			out, err := n.runSite(t.Context(), "one")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Generation: 1})
			if len(n.events) != 0 || len(n.systemd.starts) != 1 {
				t.Errorf("events %v, starts %v", n.events, n.systemd.starts)
			}
		}},
		{"run time, changed: stopped before the files change, restarted, good", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.events = nil
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Good, Generation: 2})
			want := "commit started, commit ok, gate ok, stop started, stop ok, publish started, publish ok, gate ok, restart started, restart ok, verify started, verify ok"
			if got := strings.Join(n.events, ", "); got != want {
				t.Errorf("order:\n got %s\nwant %s", got, want)
			}
			if len(n.systemd.starts) != 2 || n.systemd.starts[1].gate != "PRELET_GENERATION=2" {
				t.Errorf("starts: %v", n.systemd.starts)
			}
		}},
		{"run time, the new one crashes in a loop: back, good again, held and not applied again", func(t *testing.T, n *node) {
			n.bootWith("one")
			out, err := n.runSite(t.Context(), "two dies=2s")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
			if !strings.Contains(out.Why, "crash loop") {
				t.Errorf("why: %s", out.Why)
			}
			if n.read(configPath) != "one" || n.systemd.unit.Active != "active" {
				t.Errorf("config %q, kubelet %s", n.read(configPath), n.systemd.unit.Active)
			}
			if status := n.status(3); status != generation.StatusGood {
				t.Errorf("what was gone back to is %q, not good", status)
			}
			out, err = n.runSite(t.Context(), "two dies=2s")
			n.want(err, "run again")
			expect(t, "run again", out, Outcome{Generation: 3})
			n.reboot()
			run, verify := n.bootWith("two dies=2s")
			expect(t, "next boot", run, Outcome{Generation: 3})
			expect(t, "next boot's verify", verify, Outcome{Generation: 3})
			if n.read(configPath) != "one" {
				t.Errorf("the held plan was applied: %q", n.read(configPath))
			}
			// The one gone back to was judged good, so it is what a later failure goes back to.
			out, err = n.runSite(t.Context(), "three healthz=bad")
			n.want(err, "a third")
			expect(t, "a third", out, Outcome{Verdict: Bad, Generation: 5, From: 4, Held: true, Exit: ExitUnhealthy})
		}},
		{"boot, the new one dies 3 s after its start: prelet-verify goes back", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			run, verify := n.bootWith("two dies=3s")
			expect(t, "run", run, Outcome{Verdict: Pending, Generation: 2})
			expect(t, "verify", verify, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
			if n.systemd.unit.Active != "active" || n.gateSays() != "PRELET_GENERATION=3" {
				t.Errorf("kubelet %s, gate %q", n.systemd.unit.Active, n.gateSays())
			}
		}},
		{"never ready: systemd's own timeout, then back", func(t *testing.T, n *node) {
			n.bootWith("one")
			out, err := n.runSite(t.Context(), "two ready=never")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
		}},
		{"somebody restarts the kubelet during the watch: it settles anew, and that is no death", func(t *testing.T, n *node) {
			n.bootWith("one")
			at := n.clk.now
			for range 4 {
				n.clk.after(8*time.Second, func() { n.systemd.enqueue("restart") })
				n.clk.after(16*time.Second, func() { n.systemd.enqueue("restart") })
			}
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Good, Generation: 2})
			if took := n.clk.now - at; took < 26*time.Second || took > 30*time.Second {
				t.Errorf("it took %s; 10 s after the last restart were due", took)
			}
		}},
		{"a process that is older than the files still runs: it is replaced before it is judged", func(t *testing.T, n *node) {
			n.bootWith("one")
			ctx, term := context.WithCancel(t.Context())
			n.clk.after(2*time.Second, term)
			_, err := n.runSite(ctx, "two")
			if n.exit(err) != ExitInterrupted {
				t.Fatal(err)
			}
			pid := n.systemd.unit.MainPID
			n.systemd.unit.Started = time.Second
			expect(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
			if n.systemd.unit.MainPID == pid {
				t.Error("the old process still runs")
			}
		}},
		{"a process that is older than the files cannot be replaced: never good", func(t *testing.T, n *node) {
			n.bootWith("one")
			w := watcher{m: &Machine{Probe: n, Clock: n.clk}, plan: n.plan("one").withDefaults(), since: n.systemd.unit.Started + 1}
			for range 1000 {
				n.clk.advance(time.Second)
				if verdict, why := w.look(t.Context(), n.systemd.unit, n.clk.now); verdict != Pending {
					t.Fatalf("%s: %s", verdict, why)
				}
			}
		}},
		{"the unit fails and is not started again: bad at once, not after two minutes", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.noRestart = true
			at := n.clk.now
			out, err := n.runSite(t.Context(), "two dies=1s")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
			if took := n.clk.now - at; took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		}},
		{"other flags than planned: bad, however well it runs", func(t *testing.T, n *node) {
			n.bootWith("one")
			bad := n.systemd.pids + 1
			n.foreign = func(pid uint32) error {
				if pid == 1000+bad {
					return errors.New("--node-labels is overridden by a drop-in")
				}
				return nil
			}
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
			if !strings.Contains(out.Why, "flags: --node-labels is overridden") {
				t.Errorf("why: %s", out.Why)
			}
		}},
		{"what is gone back to is ill as well: 51, the plan is not held", func(t *testing.T, n *node) {
			n.bootWith("one")
			broken := false
			n.systemd.behave = func() conduct {
				if broken {
					return conduct{dies: time.Second}
				}
				return n.behave()
			}
			broken = true // the machine itself
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Exit: ExitStillIll})
			broken = false
			n.systemd.somebodyStops()
			n.clk.advance(time.Second)
			n.systemd.enqueue("start")
			n.clk.advance(time.Second)
			out, err = n.runSite(t.Context(), "two")
			n.want(err, "run again")
			expect(t, "run again", out, Outcome{Verdict: Good, Generation: 4})
		}},
		{"nothing good to go back to: the generation stays, is not held, and each boot verifies it again", func(t *testing.T, n *node) {
			_, verify := n.bootWith("one healthz=bad")
			expect(t, "verify", verify, Outcome{Verdict: Bad, Generation: 1, Exit: ExitUnhealthy})
			for range 4 {
				n.reboot()
				_, verify = n.bootWith("one healthz=bad")
				expect(t, "verify", verify, Outcome{Verdict: Bad, Generation: 1, Exit: ExitUnhealthy})
			}
			n.systemd.conduct.healthz = true
			expect(t, "when it is well", n.verify(), Outcome{Verdict: Good, Generation: 1})
		}},
		{"rollback = false: it stays", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.rollback = false
			out, err := n.runSite(t.Context(), "two healthz=bad")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 2, Exit: ExitUnhealthy})
			if n.journal() == nil {
				t.Error("nothing will judge it again")
			}
		}},
		{"somebody stops the kubelet during the watch: unknown, no try; the next start judges", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.after(3*time.Second, n.systemd.somebodyStops)
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})
			if n.systemd.unit.Active != "inactive" || n.journal() == nil {
				t.Error("the kubelet was started against somebody's will, or the journal is gone")
			}
			out, err = n.runSite(t.Context(), "two")
			n.want(err, "run while it is stopped")
			expect(t, "run while it is stopped", out, Outcome{Verdict: Unknown, Generation: 2})
			n.systemd.enqueue("start")
			n.clk.advance(100 * time.Millisecond)
			expect(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{"the kubelet was stopped before the change: it is not started", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.somebodyStops()
			n.clk.advance(time.Second)
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})
			if n.systemd.unit.Active != "inactive" || n.gateSays() != "PRELET_GENERATION=2" {
				t.Errorf("kubelet %s, gate %q", n.systemd.unit.Active, n.gateSays())
			}
		}},
		{"the apiserver does not answer: unknown, however often, and never a reason to go back", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.apiserver = false
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})
			for range 5 {
				n.reboot()
				_, verify := n.bootWith("two")
				expect(t, "verify", verify, Outcome{Verdict: Unknown, Generation: 2})
			}
			n.apiserver = true
			n.reboot()
			_, verify := n.bootWith("two")
			expect(t, "verify", verify, Outcome{Verdict: Good, Generation: 2})
		}},
		{"SIGTERM in the watch: unknown, 42, the journal stays", func(t *testing.T, n *node) {
			n.bootWith("one")
			ctx, term := context.WithCancelCause(t.Context())
			n.clk.after(2*time.Second, func() { term(errors.New("SIGTERM")) })
			out, err := n.runSite(ctx, "two")
			if n.exit(err) != ExitInterrupted || out.Verdict != Unknown {
				t.Errorf("%+v, %v", out, err)
			}
			if n.systemd.unit.Active != "active" {
				t.Error("the kubelet was left stopped")
			}
			expect(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{"SIGTERM right after COMMIT: the files get in place and the kubelet gets its start", func(t *testing.T, n *node) {
			n.bootWith("one")
			ctx, term := context.WithCancelCause(t.Context())
			n.onCommit = func() { term(errors.New("SIGTERM")) }
			_, err := n.runSite(ctx, "two")
			if n.exit(err) != ExitInterrupted {
				t.Errorf("%v", err)
			}
			n.clk.advance(time.Second)
			if n.systemd.unit.Active != "active" || n.read(configPath) != "two" || n.gateSays() != "PRELET_GENERATION=2" {
				t.Errorf("kubelet %s, config %q, gate %q", n.systemd.unit.Active, n.read(configPath), n.gateSays())
			}
			expect(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{"two at once: a run in the middle of another's watch takes over; both end with the last plan", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.after(5*time.Second, func() {
				out, err := n.runSite(t.Context(), "three")
				n.want(err, "the second run")
				expect(t, "the second run", out, Outcome{Verdict: Good, Generation: 3})
			})
			out, err := n.runSite(t.Context(), "two healthz=bad")
			n.want(err, "the first run")
			expect(t, "the first run", out, Outcome{Verdict: Good, Generation: 3})
			if n.read(configPath) != "three" {
				t.Errorf("config %q", n.read(configPath))
			}
		}},
		{"two at once: what takes over is not judged yet, so the first one judges it", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.after(5*time.Second, func() {
				ctx, term := context.WithCancel(t.Context())
				n.clk.after(time.Second, term)
				_, err := n.runSite(ctx, "three")
				if n.exit(err) != ExitInterrupted {
					t.Errorf("the second run: %v", err)
				}
			})
			out, err := n.runSite(t.Context(), "two healthz=bad")
			n.want(err, "the first run")
			expect(t, "the first run", out, Outcome{Verdict: Good, Generation: 3})
		}},
		{"two at once, the second while the first writes: it is told that the lock is held", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.onCommit = func() {
				if _, err := n.runSite(t.Context(), "three"); n.exit(err) != generation.ExitLocked {
					t.Errorf("the second run: %v", err)
				}
			}
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "the first run")
			expect(t, "the first run", out, Outcome{Verdict: Good, Generation: 2})
		}},
		{"masked: 52 before COMMIT, nothing changed", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.Load = "masked"
			refused(t, n, "systemctl unmask kubelet.service")
		}},
		{"missing unit: 52 before COMMIT, nothing changed", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.Name = "k3s.service"
			refused(t, n, "there is no kubelet.service")
		}},
		{"gate overridden by a drop-in: 52 before COMMIT, with the line to paste", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.EnvironmentFiles = nil
			refused(t, n, "paste EnvironmentFile="+gatePath(n.run))
		}},
		{"gate made optional by a drop-in: 52 before COMMIT", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.unit.EnvironmentFiles[0].Optional = true
			refused(t, n, "would start without waiting")
		}},
		{"D-Bus gone before COMMIT: 52, nothing changed", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.gone = true
			refused(t, n, "systemctl status")
		}},
		{"D-Bus gone after COMMIT: 42, the gate is shut, and the next run finishes it", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.onCommit = func() { n.systemd.gone = true }
			_, err := n.runSite(t.Context(), "two")
			if n.exit(err) != ExitInterrupted || n.gateSays() != "" || n.journal() == nil {
				t.Errorf("%v, gate %q", err, n.gateSays())
			}
			n.systemd.gone = false
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "the next run")
			expect(t, "the next run", out, Outcome{Verdict: Good, Generation: 2})
		}},
		{"D-Bus gone in the watch: 42, state kept", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.after(4*time.Second, func() { n.systemd.gone = true })
			_, err := n.runSite(t.Context(), "two")
			if n.exit(err) != ExitInterrupted || n.journal() == nil {
				t.Errorf("%v", err)
			}
			n.systemd.gone = false
			expect(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{"D-Bus away for a moment in the watch: no matter", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.after(4*time.Second, func() { n.systemd.gone = true })
			n.clk.after(7*time.Second, func() { n.systemd.gone = false })
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", out, Outcome{Verdict: Good, Generation: 2})
		}},
		{"a unit that the kubelet requires fails: bad", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.onCommit = func() { n.systemd.dependency = true }
			out, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			// It cannot start on the old files either, and was not stopped by somebody: so it is not the plan.
			expect(t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Exit: ExitStillIll})
		}},
		{"power fails in each verification: the fourth boot goes back before the kubelet starts", func(t *testing.T, n *node) {
			n.bootWith("one")
			for boot := range 3 {
				n.reboot()
				run, err := n.runSite(t.Context(), "two")
				n.want(err, "run")
				expect(t, fmt.Sprintf("boot %d", boot+1), run, Outcome{Verdict: Pending, Generation: 2})
				n.started()
				// prelet-verify watches, and the lights go out.
				n.killAt = 1
				if at := n.maybeKilled(func() { n.verify() }); at != "verify started" {
					t.Fatalf("killed at %q", at)
				}
			}
			n.reboot()
			run, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "fourth boot", run, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
			if len(n.systemd.starts) != 0 {
				t.Error("the kubelet had started on it")
			}
			n.started()
			if n.systemd.unit.Active != "active" || n.read(configPath) != "one" {
				t.Errorf("kubelet %s, config %q", n.systemd.unit.Active, n.read(configPath))
			}
		}},
		{"at boot nobody asked for the kubelet (disabled): it is not started", func(t *testing.T, n *node) {
			n.systemd.end("canceled")
			n.systemd.unit.File = "disabled"
			run, err := n.runSite(t.Context(), "one")
			n.want(err, "run")
			expect(t, "run", run, Outcome{Verdict: Pending, Generation: 1})
			n.started()
			n.clk.advance(time.Minute)
			if len(n.systemd.starts) != 0 || n.gateSays() != "PRELET_GENERATION=1" {
				t.Errorf("starts %v, gate %q", n.systemd.starts, n.gateSays())
			}
		}},
		{"the kubelet waits at the shut gate: restarted without waiting, so RestartSec= is not sat out", func(t *testing.T, n *node) {
			// prelet.service failed once (nothing of it left a trace), so the kubelet went into auto-restart; now it is retried.
			n.systemd.preletEnds()
			n.clk.advance(time.Second)
			if !waitsToRestart(n.systemd.unit) {
				t.Fatalf("%+v", n.systemd.unit)
			}
			n.systemd.ordered = true
			_, err := n.runSite(t.Context(), "one")
			n.want(err, "run")
			at := n.clk.now
			n.started()
			if n.systemd.unit.Active != "active" || n.clk.now-at > time.Second {
				t.Errorf("%s: %+v", n.clk.now-at, n.systemd.unit)
			}
		}},
		{"restart of prelet.service at run time: the kubelet comes back after it, nobody waits", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.ordered, n.systemd.inside = true, true
			run, err := n.runSite(t.Context(), "two")
			n.want(err, "run")
			expect(t, "run", run, Outcome{Verdict: Pending, Generation: 2})
			n.started()
			expect(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{"the gate is lost at run time: the kubelet's next crash heals it", func(t *testing.T, n *node) {
			n.bootWith("one")
			os.Remove(gatePath(n.run))
			n.systemd.fail("exit-code")
			n.clk.advance(time.Second)
			expect(t, "verify", n.verify(), Outcome{Generation: 1})
			n.clk.advance(time.Second)
			if n.systemd.unit.Active != "active" || n.gateSays() != "PRELET_GENERATION=1" {
				t.Errorf("kubelet %s, gate %q", n.systemd.unit.Active, n.gateSays())
			}
		}},
		{"the gate is lost and a file was changed: it stays shut, and says which", func(t *testing.T, n *node) {
			n.bootWith("one")
			os.Remove(gatePath(n.run))
			os.WriteFile(n.disk+flagsPath, []byte("by hand"), 0o644)
			out := n.verify()
			if n.gateSays() != "" || !strings.Contains(out.HeldBack, flagsPath+" was changed") {
				t.Errorf("gate %q, %q", n.gateSays(), out.HeldBack)
			}
		}},
		{"a run fails before COMMIT on a node with a good generation: the gate opens on that", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			out, err := n.process(func(m *Machine) (Outcome, error) { return m.Keep(t.Context(), "site invalid") })
			n.want(err, "keep")
			expect(t, "keep", out, Outcome{Generation: 1})
			n.started()
			if n.systemd.unit.Active != "active" {
				t.Errorf("%+v", n.systemd.unit)
			}
		}},
		{"a run fails before COMMIT on a node that never had a generation: shut, and prelet-verify says why again", func(t *testing.T, n *node) {
			out, err := n.process(func(m *Machine) (Outcome, error) { return m.Keep(t.Context(), "cluster unreachable") })
			n.want(err, "keep")
			if !strings.Contains(out.HeldBack, "cluster unreachable") {
				t.Errorf("%+v", out)
			}
			n.started()
			if got := n.verify(); got.HeldBack != out.HeldBack || n.gateSays() != "" {
				t.Errorf("verify says %q, gate %q", got.HeldBack, n.gateSays())
			}
		}},
		{"a run fails before COMMIT and a file is not that of the generation: shut", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			os.WriteFile(n.disk+flagsPath, []byte("by hand"), 0o644)
			out, err := n.process(func(m *Machine) (Outcome, error) { return m.Keep(t.Context(), "site invalid") })
			n.want(err, "keep")
			if n.gateSays() != "" || !strings.Contains(out.HeldBack, "not in place whole") {
				t.Errorf("gate %q, %+v", n.gateSays(), out)
			}
		}},
		{"prelet is not in use: the gate opens on nothing", func(t *testing.T, n *node) {
			_, err := n.process(func(m *Machine) (Outcome, error) { return m.StandAside(t.Context()) })
			n.want(err, "stand aside")
			n.started()
			if n.systemd.unit.Active != "active" || n.gateSays() != "PRELET_GENERATION=0" {
				t.Errorf("kubelet %s, gate %q", n.systemd.unit.Active, n.gateSays())
			}
		}},
		{"back by hand, to as before prelet", func(t *testing.T, n *node) {
			n.bootWith("one")
			out, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 0, "by hand") })
			n.want(err, "back")
			expect(t, "back", out, Outcome{Verdict: Good, Generation: 2, From: 1})
			if n.read(configPath) != "" || n.systemd.unit.Active != "active" {
				t.Errorf("config %q, kubelet %s", n.read(configPath), n.systemd.unit.Active)
			}
		}},
		{"a unit file changed: systemd reads it before the start, and again on the way back", func(t *testing.T, n *node) {
			n.bootWith("one")
			out, err := n.process(func(m *Machine) (Outcome, error) {
				plan := n.plan("two healthz=bad")
				plan.UnitFiles = true
				blob, _ := plan.Encode()
				txn, err := n.store.Begin(generation.Proposal{PlanID: "two", Blobs: map[string][]byte{PlanBlob: blob}, Targets: []generation.Target{
					{Path: configPath, Kind: generation.File, Content: []byte("two healthz=bad"), Mode: 0o644, UID: -1, GID: -1},
					{Path: flagsPath, Kind: generation.File, Content: []byte("two healthz=bad"), Mode: 0o644, UID: -1, GID: -1}}})
				n.want(err, "begin")
				return m.Apply(t.Context(), Change{Txn: txn, Plan: plan, Reload: true})
			})
			n.want(err, "apply")
			expect(t, "apply", out, Outcome{Verdict: Bad, Generation: 3, From: 2, Held: true, Exit: ExitUnhealthy})
			if n.systemd.reloads != 2 {
				t.Errorf("%d reloads", n.systemd.reloads)
			}
			i := slices.Index(n.events, "reload ok")
			if i < 0 || !slices.Equal(n.events[i:i+3], []string{"reload ok", "gate ok", "restart started"}) {
				t.Errorf("events: %v", n.events)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.do(t, newNode(t))
		})
	}
}

// expect compares what is said of an outcome, without its texts and checks.
func expect(t *testing.T, who string, got, want Outcome) {
	t.Helper()
	why := got.Why
	got.Why, got.Checks = "", nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %+v (%s)\nwant %+v", who, got, why, want)
	}
}

// refused is a run that must fail before COMMIT and leave everything as it is.
func refused(t *testing.T, n *node, says string) {
	t.Helper()
	pid, gate := n.systemd.unit.MainPID, n.gateSays()
	before, _ := os.Stat(n.disk + configPath)
	_, err := n.runSite(t.Context(), "two")
	if n.exit(err) != ExitSystemd || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want exit %d and %q", err, ExitSystemd, says)
	}
	after, _ := os.Stat(n.disk + configPath)
	if !os.SameFile(before, after) || before.ModTime() != after.ModTime() || n.read(configPath) != "one" {
		t.Error("a target was touched")
	}
	if left, _ := os.ReadDir(filepath.Dir(n.disk + configPath)); len(left) != 1 {
		t.Errorf("what was staged is still there: %v", left)
	}
	if n.systemd.unit.MainPID != pid || n.gateSays() != gate || n.journal() != nil {
		t.Error("the kubelet, the gate or the journal was touched")
	}
}
