package activation

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// threeBoots returns a node with generation 2 in place that three boots began to verify and did not finish. The fourth
// boot rolls back in prelet.service, which must not wait for the kubelet.
func threeBoots(t *testing.T) (*node, Outcome) {
	n := newNode(t)
	n.bootWith("one")

	var out Outcome

	for range maxTries + 1 {
		n.reboot()

		var err error

		out, err = n.runSite(t.Context(), "two")
		n.mustSucceed(err, "run")
	}

	checkOutcome(
		t, "the fourth boot", out,
		Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Pending, Held: true, Code: fault.RolledBack},
	)

	if n.read(configPath) != "one" {
		t.Fatalf("config %q; want one", n.read(configPath))
	}

	return n, out
}

func (n *node) isHeld(plan string) (held bool) {
	n.t.Helper()
	_, err := n.process(func(*Machine) (Outcome, error) { _, held = n.store.Held(plan); return Outcome{}, nil })
	n.mustSucceed(err, "held")

	return held
}

// A rollback at boot awaits a verdict too. prelet-verify decides then whether the plan is held: it is at fault only if
// the node is healthy without it.
func TestBackAtBootIsJudged(t *testing.T) {
	t.Run("well: held", func(t *testing.T) {
		n, _ := threeBoots(t)
		if !n.isHeld("two") {
			t.Error("the plan that was left could be applied before anybody has looked")
		}

		n.finishPrelet()
		checkOutcome(
			t, "verify", n.verify(),
			Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
		)

		if n.journal() != nil || !n.isHeld("two") || n.status(3) != generation.StatusGood {
			t.Errorf("journal %+v, held %v, generation 3 is %s; want no journal, the plan held and generation 3 good",
				n.journal(), n.isHeld("two"), n.status(3))
		}

		n.reboot()
		run, verify := n.bootWith("two")
		checkOutcome(t, "next boot", run, Outcome{Generation: 3})
		checkOutcome(t, "next boot's verify", verify, Outcome{Generation: 3})
	})
	t.Run("unhealthy: not held, 51", func(t *testing.T) {
		n, _ := threeBoots(t)
		n.systemd.behave = func() conduct { return conduct{dies: time.Second} } // the machine itself is broken
		n.finishPrelet()
		checkOutcome(
			t, "verify", n.verify(),
			Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Bad, Code: fault.RollbackFails},
		)

		if n.journal() != nil || n.isHeld("two") || n.status(3) != generation.StatusRestored {
			t.Errorf("journal %+v, held %v, generation 3 is %s; want no journal, the plan not held and generation 3 restored",
				n.journal(), n.isHeld("two"), n.status(3))
		}
	})
	t.Run("it was not looked at: the next boot goes on with it, and does not try the plan", func(t *testing.T) {
		n, _ := threeBoots(t)
		for range maxTries + 2 { // nor does it roll back again
			n.reboot()
			run, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "next boot", run, Outcome{Verdict: Pending, Generation: 3})
		}

		n.finishPrelet()
		checkOutcome(
			t, "verify", n.verify(),
			Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
		)
	})
}

// After a rollback by hand without a verdict the next verify judges the kubelet healthy, and holds no plan.
func TestBackByHandIsJudgedLater(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")
	_, err := n.runSite(t.Context(), "two")
	n.mustSucceed(err, "run")
	n.clk.schedule(3*time.Second, func() { n.systemd.stopByHand() })
	out, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 1, generation.ByHand) })
	n.mustSucceed(err, "back")
	checkOutcome(t, "back", out, Outcome{Verdict: Unknown, Generation: 3, From: 2, InPlace: Unknown})

	if j := n.journal(); j == nil || j.Phase != generation.PhaseVerify || j.From != 2 {
		t.Fatalf("journal %+v; want phase verify, from 2", j)
	}

	n.systemd.enqueue("start")
	n.clk.advance(100 * time.Millisecond)
	checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 3})

	if n.isHeld("two") || n.journal() != nil {
		t.Error("held, or still awaited")
	}
}

// TestWarningsOfRollback rolls back through a folder that others may write, which the outcome reports.
func TestWarningsOfRollback(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")
	_, err := n.runSite(t.Context(), "two")
	n.mustSucceed(err, "run")
	if err := os.Chmod(n.disk+"/etc/kubernetes", 0o777); err != nil {
		t.Fatal(err)
	}

	out, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 1, "by hand") })
	n.mustSucceed(err, "back")
	want := "/etc/kubernetes can be written by everybody"
	if len(out.Unwritten) != 1 || !strings.Contains(out.Unwritten[0], want) {
		t.Errorf("got the warnings %q; want one with %q", out.Unwritten, want)
	}
}

// TestBadAfterAsBefore has the state before prelet as the last good generation, chosen by hand and released. An
// unhealthy change rolls back to it. It has no plan, so only that the kubelet runs is checked.
func TestBadAfterAsBefore(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")
	out, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 0, "by hand") })
	n.mustSucceed(err, "back")
	checkOutcome(t, "back", out, Outcome{Verdict: Good, Generation: 2, From: 1, InPlace: Good})
	out, err = n.runSite(t.Context(), "two healthz=bad")
	n.mustSucceed(err, "run")
	checkOutcome(
		t, "run", out, Outcome{Verdict: Bad, Generation: 4, From: 3, InPlace: Good, Held: true, Code: fault.RolledBack},
	)

	if n.read(configPath) != "" || n.systemd.unit.Active != "active" || n.journal() != nil {
		t.Errorf("config %q, the kubelet is %s, journal %+v; want no file, an active kubelet and no journal",
			n.read(configPath), n.systemd.unit.Active, n.journal())
	}

	out, err = n.runSite(t.Context(), "two healthz=bad")
	n.mustSucceed(err, "run while it is held")
	checkOutcome(t, "run while it is held", out, Outcome{Generation: 4})
	out, err = n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 2, "by hand") })
	n.mustSucceed(err, "back to it by its number")
	checkOutcome(t, "back to it by its number", out, Outcome{Verdict: Good, Generation: 5, From: 4, InPlace: Good})
	out, err = n.runSite(t.Context(), "three")
	n.mustSucceed(err, "a third")
	checkOutcome(t, "a third", out, Outcome{Verdict: Good, Generation: 6})
}

// In TestTwoWatchTheWayBack the stop of a kubelet that hung in its start lets prelet-verify begin, so both it and the
// run watch the rollback. The second one reports the same.
func TestTwoWatchTheWayBack(t *testing.T) {
	for _, well := range []bool{true, false} {
		n := newNode(t)
		n.bootWith("one")

		var first Outcome

		if !well {
			behave := n.systemd.behave
			n.systemd.behave = func() conduct { c := behave(); c.healthz = false; return c }
		}

		n.onCommit = func() {
			n.clk.schedule(n.timeout+5*time.Second, func() { first = n.verify() }) // the run watches generation 3
		}
		second, err := n.runSite(t.Context(), "two healthz=bad")
		n.mustSucceed(err, "run")

		want := Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack}
		if !well {
			want.InPlace, want.Held, want.Code = Bad, false, fault.RollbackFails
		}

		checkOutcome(t, "prelet-verify", first, want)
		checkOutcome(t, "the run", second, want)

		if n.journal() != nil || n.isHeld("two healthz=bad") != well {
			t.Errorf("journal %+v, held %v; want no journal, held: %t", n.journal(), n.isHeld("two healthz=bad"), well)
		}
	}
}

// TestStartedBySystemd lets systemd start the kubelet itself, by its Restart=, as soon as the gate is open: prelet
// waits for that start and does not restart the kubelet.
func TestStartedBySystemd(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")
	before := len(n.systemd.starts)
	n.onOpen = func() {
		n.systemd.enqueue("start")
		n.clk.runUntil(time.Minute, func() bool { return n.systemd.unit.Active == "active" })
	}

	out, err := n.runSite(t.Context(), "two")
	n.mustSucceed(err, "run")
	checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

	if got := len(n.systemd.starts) - before; got != 1 {
		t.Errorf("got %d starts of the kubelet on generation 2, want 1", got)
	}
}
