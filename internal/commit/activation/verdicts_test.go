package activation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// scenario is a series of boots and runs of a node. Each begins with a node that has never run prelet.
type scenario struct {
	name string
	do   func(t *testing.T, n *node)
}

func play(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.do(t, newNode(t))
		})
	}
}

// TestVerdicts covers the verdicts and their results.
func TestVerdicts(t *testing.T) {
	play(t, []scenario{
		{"first boot: the kubelet starts once, behind the gate, and is judged good", func(t *testing.T, n *node) {
			run, verify := n.bootWith("one")
			checkOutcome(t, "run", run, Outcome{Verdict: Pending, Generation: 1})
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})

			if len(n.systemd.starts) != 1 || n.systemd.starts[0].gate != "PRELET_GENERATION=1" {
				t.Errorf("starts: %v; want one, on generation 1", n.systemd.starts)
			}

			if n.journal() != nil {
				t.Error("the journal is still there")
			}

			names := []string{}
			for _, check := range verify.Checks {
				names = append(names, check.Name+"="+check.State)
			}

			got := strings.Join(names, " ")
			if got != "unit=ok started=ok healthz=ok steady=ok flags=ok files=ok kubeconfig=ok node=ok pods=ok" {
				t.Errorf("checks: %s; want all of them ok", got)
			}
		}},
		{"second boot, unchanged: the gate opens, nothing else happens", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			n.events = nil
			run, verify := n.bootWith("one")
			checkOutcome(t, "run", run, Outcome{Generation: 1})
			checkOutcome(t, "verify", verify, Outcome{Generation: 1})

			if got := strings.Join(n.events, ", "); got != "gate ok" {
				t.Errorf("events: %s; want gate ok", got)
			}

			if len(n.systemd.starts) != 1 {
				t.Errorf("starts: %v; want one", n.systemd.starts)
			}
		}},
		{"run time, unchanged: nothing is touched", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.events = nil
			out, err := n.runSite(t.Context(), "one")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Generation: 1})

			if len(n.events) != 0 || len(n.systemd.starts) != 1 {
				t.Errorf("events %v, starts %v; want no event and one start", n.events, n.systemd.starts)
			}
		}},
		{"run time, changed: stopped before the files change, restarted, good", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.events = nil
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

			want := "commit started, commit ok, gate ok, stop started, stop ok, publish started, publish ok, " +
				"gate ok, restart started, restart ok, verify started, verify ok"
			if got := strings.Join(n.events, ", "); got != want {
				t.Errorf("order:\n got %s\nwant %s", got, want)
			}

			if len(n.systemd.starts) != 2 || n.systemd.starts[1].gate != "PRELET_GENERATION=2" {
				t.Errorf("starts: %v; want a second one on generation 2", n.systemd.starts)
			}
		}},
		{
			"systemd's watchdog kills the new one: the reason is the watchdog, and not its last error",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.systemd.unit.Watchdog = 2 * time.Second
				n.log = []string{`E1122 10:00:00.000000       1 reflector.go:1] "Failed to watch" err="x"`}
				out, err := n.runSite(t.Context(), "two dies=2s result=watchdog")
				n.mustSucceed(err, "run")
				checkOutcome(
					t, "run", out,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
				)
				const want = "the kubelet: systemd's watchdog killed it, because it did not report for WatchdogSec=2s"
				if !strings.Contains(out.Why, want) {
					t.Errorf("why: got %s; want %q", out.Why, want)
				}
			},
		},
		{
			"the kubelet's certificate has expired: no verdict, nothing is undone or held, and it is judged again",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.expired = "the certificate expired"
				out, err := n.runSite(t.Context(), "two dies=2s")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})
				if !strings.Contains(out.Why, "set the clock") || n.journal() == nil || n.read(configPath) != "two dies=2s" {
					t.Errorf("why %s, journal %+v, config %q; want a verdict that is awaited", out.Why, n.journal(), n.read(configPath))
				}

				n.expired = "" // the clock is right again, and the plan is at fault
				out = n.verify()
				checkOutcome(
					t, "verify", out,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
				)
			},
		},
		{
			"the certificate has expired, and the kubelet's log names the plan: rolled back",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.expired = "the certificate expired"
				const line = `E1122 10:00:00.000000       1 run.go:72] "command failed" err="failed to parse kubelet flag: ` +
					`unknown flag: --x"`
				n.log = []string{line}
				out, err := n.runSite(t.Context(), "two dies=2s")
				n.mustSucceed(err, "run")
				if out.Verdict != Bad || out.From != 2 {
					t.Errorf("got %+v; want it rolled back", out)
				}
			},
		},
		{
			"the clock is set while the kubelet is watched: no verdict, and it is judged again",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.systemd.onStart = func() { n.clk.set += 24 * time.Hour }
				out, err := n.runSite(t.Context(), "two dies=2s")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})
				if !strings.Contains(out.Why, "the clock was set by") {
					t.Errorf("why: got %s; want that the clock was set", out.Why)
				}

				n.systemd.onStart = func() {}
				out = n.verify()
				if out.Verdict != Bad || out.From != 2 {
					t.Errorf("got %+v; want it rolled back", out)
				}
			},
		},
		{
			"run time, the new one crashes in a loop: back, good again, held and not applied again",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				out, err := n.runSite(t.Context(), "two dies=2s")
				n.mustSucceed(err, "run")
				checkOutcome(
					t, "run", out,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
				)

				if !strings.Contains(out.Why, "crash loop") {
					t.Errorf("why: %s; want crash loop", out.Why)
				}

				if n.read(configPath) != "one" || n.systemd.unit.Active != "active" {
					t.Errorf("config %q, kubelet %s; want config one and an active kubelet",
						n.read(configPath), n.systemd.unit.Active)
				}

				if status := n.status(3); status != generation.StatusGood {
					t.Errorf("what was gone back to is %q, not good; want good", status)
				}

				out, err = n.runSite(t.Context(), "two dies=2s")
				n.mustSucceed(err, "run again")
				checkOutcome(t, "run again", out, Outcome{Generation: 3})
				n.reboot()
				run, verify := n.bootWith("two dies=2s")
				checkOutcome(t, "next boot", run, Outcome{Generation: 3})
				checkOutcome(t, "next boot's verify", verify, Outcome{Generation: 3})

				if n.read(configPath) != "one" {
					t.Errorf("the held plan was applied: %q; want config one", n.read(configPath))
				}

				// The restored generation was judged good, so a later failure rolls back to it.
				out, err = n.runSite(t.Context(), "three healthz=bad")
				n.mustSucceed(err, "a third")
				checkOutcome(
					t, "a third", out,
					Outcome{Verdict: Bad, Generation: 5, From: 4, InPlace: Good, Held: true, Code: fault.RolledBack},
				)
			},
		},
		{"boot, the new one dies 3 s after its start: prelet-verify goes back", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			run, verify := n.bootWith("two dies=3s")
			checkOutcome(t, "run", run, Outcome{Verdict: Pending, Generation: 2})
			checkOutcome(
				t, "verify", verify,
				Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
			)

			if n.systemd.unit.Active != "active" || n.readGate() != "PRELET_GENERATION=3" {
				t.Errorf("kubelet %s, gate %q; want an active kubelet and the gate open on 3",
					n.systemd.unit.Active, n.readGate())
			}
		}},
		{"never ready: systemd's own timeout, then back", func(t *testing.T, n *node) {
			n.bootWith("one")
			out, err := n.runSite(t.Context(), "two ready=never")
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out,
				Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
			)
		}},
		{
			"the activation's time is up while going back: no verdict on that, and the plan is not held",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.bound = n.timeout + 5*time.Second
				at := n.clk.now
				out, err := n.runSite(t.Context(), "two healthz=bad")
				n.mustSucceed(err, "run")
				checkOutcome(
					t, "run", out,
					Outcome{Verdict: Unknown, Generation: 3, From: 2, InPlace: Unknown, Code: fault.RolledBack},
				)

				if took := n.clk.now - at; took > n.bound+time.Second {
					t.Errorf("it took %s; %s were given; want at most that", took, n.bound)
				}

				if n.read(configPath) != "one" || n.systemd.unit.Active != "active" {
					t.Errorf("config %q, kubelet %s; want config one and an active kubelet",
						n.read(configPath), n.systemd.unit.Active)
				}
			},
		},
		{"a stop that is slow takes the verdict's time: what is left is no verdict", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.bound, n.systemd.stopping = n.timeout, time.Minute
			out, err := n.runSite(t.Context(), "two healthz=bad")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})

			if n.journal() == nil {
				t.Error("nothing will judge it any more")
			}
		}},
		{
			"the kubelet says why it ends: back at the first death, with the line of the site",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				at := n.clk.now
				n.log = []string{
					`E0101 00:00:00.000000 1 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --network-plugin"`,
				}
				n.sources = map[string]string{"flag/network-plugin": "site.hcl:7:3, write.kubelet"}
				out, err := n.runSite(t.Context(), "two dies=1s")
				n.mustSucceed(err, "run")
				checkOutcome(
					t, "run", out,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
				)

				if !strings.Contains(out.Why, "the kubelet: it does not know the flag --network-plugin") ||
					!strings.Contains(out.Why, "(flag/network-plugin, site.hcl:7:3, write.kubelet)") {
					t.Errorf("why: %s; want the unknown flag and its place", out.Why)
				}

				if out.Cause == nil || out.Cause.ID != "flag-unknown" || out.Cause.At != "site.hcl:7:3, write.kubelet" {
					t.Errorf("cause: %+v; want flag-unknown at its place", out.Cause)
				}

				if took := n.clk.now - at; took > 13*time.Second { // including the settling time of the old generation
					t.Errorf("it took %s; want at most 13 s", took)
				}

				if n.logged.Before(n.clk.Now().Add(-20*time.Second)) || n.logged.After(n.clk.Now()) {
					t.Errorf("it was asked for the log since %s, and now is %s; want the last 20 s",
						n.logged, n.clk.Now())
				}
			},
		},
		{
			"the kubelet dies of what may pass: the loop decides, and its last words are reported",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.log = []string{`E0101 00:00:00.000000 1 server.go:1] "Something new" err="that nobody knows"`}
				out, err := n.runSite(t.Context(), "two dies=2s")
				n.mustSucceed(err, "run")
				checkOutcome(
					t, "run", out,
					Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
				)

				want := `the kubelet: its last error is: "Something new" err="that nobody knows"`
				if !strings.Contains(out.Why, `crash loop`) || !strings.Contains(out.Why, want) {
					t.Errorf("got reason %q; want a crash loop and %q", out.Why, want)
				}
			},
		},
		{
			"somebody restarts the kubelet during the watch: it settles again, and that is no death",
			func(t *testing.T, n *node) {
				n.bootWith("one")

				at := n.clk.now
				for range 4 {
					n.clk.schedule(8*time.Second, func() { n.systemd.enqueue("restart") })
					n.clk.schedule(16*time.Second, func() { n.systemd.enqueue("restart") })
				}

				out, err := n.runSite(t.Context(), "two")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

				if took := n.clk.now - at; took < 26*time.Second || took > 30*time.Second {
					t.Errorf("it took %s; 10 s after the last restart were due; want 26 s to 30 s", took)
				}
			},
		},
		{
			"a process that is older than the files still runs: it is replaced before it is judged",
			func(t *testing.T, n *node) {
				n.bootWith("one")

				ctx, term := context.WithCancel(t.Context())
				n.clk.schedule(2*time.Second, term)

				_, err := n.runSite(ctx, "two")
				if n.codeOf(err) != fault.Interrupted {
					t.Fatal(err)
				}

				pid := n.systemd.unit.MainPID
				n.systemd.unit.Started = time.Second
				checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})

				if n.systemd.unit.MainPID == pid {
					t.Error("the old process still runs")
				}
			},
		},
		{"a process that is older than the files cannot be replaced: never good", func(t *testing.T, n *node) {
			n.bootWith("one")

			w := watcher{
				m:     &Machine{Probe: n, Clock: n.clk},
				plan:  n.plan("one").withDefaults(),
				since: n.systemd.unit.Started + 1,
			}
			for range 1000 {
				n.clk.advance(time.Second)

				if verdict, why := w.judge(t.Context(), n.systemd.unit, n.clk.now); verdict != Pending {
					t.Fatalf("got verdict %s (%s); want none", verdict, why)
				}
			}
		}},
		{"the unit fails and is not started again: bad at once, not after two minutes", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.noRestart = true
			at := n.clk.now
			out, err := n.runSite(t.Context(), "two dies=1s")
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out,
				Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
			)

			if took := n.clk.now - at; took > 20*time.Second {
				t.Errorf("it took %s; want at most 20 s", took)
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
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out,
				Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
			)

			if !strings.Contains(out.Why, "flags: --node-labels is overridden") {
				t.Errorf("why: %s; want the overridden flag", out.Why)
			}
		}},
		{"what is gone back to is unhealthy as well: 51, the plan is not held", func(t *testing.T, n *node) {
			n.bootWith("one")

			broken := false
			n.systemd.behave = func() conduct {
				if broken {
					return conduct{dies: time.Second}
				}

				return n.behave()
			}
			broken = true // the machine itself is broken
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Bad, Code: fault.RollbackFails},
			)

			broken = false

			n.systemd.stopByHand()
			n.clk.advance(time.Second)
			n.systemd.enqueue("start")
			n.clk.advance(time.Second)
			out, err = n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run again")
			checkOutcome(t, "run again", out, Outcome{Verdict: Good, Generation: 4})
		}},
		{
			"without a good generation it stays, is not held, and each boot verifies it again",
			func(t *testing.T, n *node) {
				_, verify := n.bootWith("one healthz=bad")
				checkOutcome(t, "verify", verify, Outcome{Verdict: Bad, Generation: 1, Code: fault.RolledBack})

				for range 4 {
					n.reboot()
					_, verify = n.bootWith("one healthz=bad")
					checkOutcome(t, "verify", verify, Outcome{Verdict: Bad, Generation: 1, Code: fault.RolledBack})
				}

				n.systemd.conduct.healthz = true
				checkOutcome(t, "when it is well", n.verify(), Outcome{Verdict: Good, Generation: 1})
			},
		},
		{"rollback = false: it stays", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.rollback = false
			out, err := n.runSite(t.Context(), "two healthz=bad")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Bad, Generation: 2, Code: fault.RolledBack})

			if n.journal() == nil {
				t.Error("nothing will judge it again")
			}
		}},
		{
			"somebody stops the kubelet during the watch: unknown, no try; the next start judges",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.clk.schedule(3*time.Second, n.systemd.stopByHand)
				out, err := n.runSite(t.Context(), "two")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})

				if n.systemd.unit.Active != "inactive" || n.journal() == nil {
					t.Error("the kubelet was started against somebody's will, or the journal is gone")
				}

				out, err = n.runSite(t.Context(), "two")
				n.mustSucceed(err, "run while it is stopped")
				checkOutcome(t, "run while it is stopped", out, Outcome{Verdict: Unknown, Generation: 2})
				n.systemd.enqueue("start")
				n.clk.advance(100 * time.Millisecond)
				checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
			},
		},
		{"the kubelet was stopped before the change: it is not started", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.stopByHand()
			n.clk.advance(time.Second)
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})

			if n.systemd.unit.Active != "inactive" || n.readGate() != "PRELET_GENERATION=2" {
				t.Errorf("kubelet %s, gate %q; want inactive and the gate open on 2",
					n.systemd.unit.Active, n.readGate())
			}
		}},
		{
			"the apiserver does not answer: unknown, however often, and never a reason to go back",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.apiserver = false
				out, err := n.runSite(t.Context(), "two")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", out, Outcome{Verdict: Unknown, Generation: 2})

				for range 5 {
					n.reboot()
					_, verify := n.bootWith("two")
					checkOutcome(t, "verify", verify, Outcome{Verdict: Unknown, Generation: 2})
				}

				n.apiserver = true
				n.reboot()
				_, verify := n.bootWith("two")
				checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 2})
			},
		},
		{"SIGTERM in the watch: unknown, 42, the journal stays", func(t *testing.T, n *node) {
			n.bootWith("one")

			ctx, term := context.WithCancelCause(t.Context())

			n.clk.schedule(2*time.Second, func() { term(errors.New("SIGTERM")) })

			out, err := n.runSite(ctx, "two")
			if n.codeOf(err) != fault.Interrupted || out.Verdict != Unknown {
				t.Errorf("got outcome %+v and error %v; want verdict unknown and code %s", out, err, fault.Interrupted)
			}

			if n.systemd.unit.Active != "active" {
				t.Error("the kubelet was left stopped")
			}

			checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
		}},
		{
			"SIGTERM right after COMMIT: the files get in place and the kubelet gets its start",
			func(t *testing.T, n *node) {
				n.bootWith("one")

				ctx, term := context.WithCancelCause(t.Context())
				n.onCommit = func() { term(errors.New("SIGTERM")) }

				_, err := n.runSite(ctx, "two")
				if n.codeOf(err) != fault.Interrupted {
					t.Errorf("got error %v; want code %s", err, fault.Interrupted)
				}

				n.clk.advance(time.Second)

				if n.systemd.unit.Active != "active" || n.read(configPath) != "two" ||
					n.readGate() != "PRELET_GENERATION=2" {
					t.Errorf("kubelet %s, config %q, gate %q; want an active kubelet on config two and the gate open on 2",
						n.systemd.unit.Active, n.read(configPath), n.readGate())
				}

				checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
			},
		},
		{
			"two at once: a run in the middle of another's watch takes over; both end with the last plan",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.clk.schedule(5*time.Second, func() {
					out, err := n.runSite(t.Context(), "three")
					n.mustSucceed(err, "the second run")
					checkOutcome(t, "the second run", out, Outcome{Verdict: Good, Generation: 3})
				})
				out, err := n.runSite(t.Context(), "two healthz=bad")
				n.mustSucceed(err, "the first run")
				checkOutcome(t, "the first run", out, Outcome{Verdict: Good, Generation: 3, Overtaken: true})

				if n.read(configPath) != "three" {
					t.Errorf("config %q; want three", n.read(configPath))
				}
			},
		},
		{"two at once: what takes over is not judged yet, so the first one judges it", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.schedule(5*time.Second, func() {
				ctx, term := context.WithCancel(t.Context())
				n.clk.schedule(time.Second, term)

				_, err := n.runSite(ctx, "three")
				if n.codeOf(err) != fault.Interrupted {
					t.Errorf("the second run: %v; want code interrupted", err)
				}
			})
			out, err := n.runSite(t.Context(), "two healthz=bad")
			n.mustSucceed(err, "the first run")
			checkOutcome(t, "the first run", out, Outcome{Verdict: Good, Generation: 3, Overtaken: true})
		}},
		{
			"two at once, the second while the first writes: it reports that the lock is held",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.onCommit = func() {
					if _, err := n.runSite(t.Context(), "three"); n.codeOf(err) != fault.Locked {
						t.Errorf("the second run: %v; want code locked", err)
					}
				}
				out, err := n.runSite(t.Context(), "two")
				n.mustSucceed(err, "the first run")
				checkOutcome(t, "the first run", out, Outcome{Verdict: Good, Generation: 2})
			},
		},
	})
}

// checkOutcome compares an outcome without its texts and checks.
func checkOutcome(t *testing.T, who string, got, want Outcome) {
	t.Helper()

	why := got.Why

	got.Why, got.Checks, got.Cause = "", nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %+v (%s)\nwant %+v", who, got, why, want)
	}
}

// mustRefuse runs a site that must fail before the commit and leave everything unchanged.
func mustRefuse(t *testing.T, n *node, says string) {
	t.Helper()

	pid, gate := n.systemd.unit.MainPID, n.readGate()
	before, _ := os.Stat(n.disk + configPath)

	_, err := n.runSite(t.Context(), "two")
	if n.codeOf(err) != fault.Systemd || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want %s and %q", err, fault.Systemd, says)
	}

	after, _ := os.Stat(n.disk + configPath)
	if !os.SameFile(before, after) || before.ModTime() != after.ModTime() || n.read(configPath) != "one" {
		t.Error("a target was touched")
	}

	if left, _ := os.ReadDir(filepath.Dir(n.disk + configPath)); len(left) != 1 {
		t.Errorf("what was staged is still there: %v; want only the file", left)
	}

	if n.systemd.unit.MainPID != pid || n.readGate() != gate || n.journal() != nil {
		t.Error("the kubelet, the gate or the journal was touched")
	}
}
