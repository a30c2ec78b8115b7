package activation

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// joinedNode is a node on which a generation is good and runs, with a file that another unit reads.
func joinedNode(t *testing.T, action string) *node {
	n := newNode(t)
	n.ntp, n.ntpAction = "one", action
	n.bootWith("good")
	n.systemd.acts = nil

	return n
}

func (n *node) checkUnits(kubelet uint32, acts ...string) {
	n.t.Helper()
	if got := n.systemd.unit.MainPID; got != kubelet {
		n.t.Errorf("the kubelet's process: got %d, want %d", got, kubelet)
	}
	if !slices.Equal(n.systemd.acts, acts) {
		n.t.Errorf("acts on units: got %q, want %q", n.systemd.acts, acts)
	}
	if n.readGate() == "" {
		n.t.Error("the gate is shut; want it open")
	}
}

func TestOtherUnitAtBoot(t *testing.T) {
	n := newNode(t)
	n.ntp, n.ntpAction = "one", "restart"

	_, out := n.bootWith("good")
	if out.Verdict != Good || !slices.Equal(n.systemd.acts, []string{"try-restart " + ntpUnit}) {
		t.Errorf("first boot: got %+v, %q; want good, and one restart of the unit that started before",
			out, n.systemd.acts)
	}

	n.reboot()
	n.bootWith("good")
	if len(n.systemd.acts) != 0 {
		t.Errorf("after a reboot: got %q; want nothing: the unit has read the file", n.systemd.acts)
	}
}

// TestOtherUnitOnly changes a file that the kubelet does not read.
func TestOtherUnitOnly(t *testing.T) {
	for action, act := range map[string]string{"restart": "try-restart ", "reload": "reload "} {
		t.Run(action, func(t *testing.T) {
			n := joinedNode(t, action)
			pid := n.systemd.unit.MainPID
			n.ntp = "two"

			out, err := n.runSite(t.Context(), "good")
			if err != nil || out.Verdict != Good {
				t.Errorf("got %+v, %v; want good", out, err)
			}
			n.checkUnits(pid, act+ntpUnit)

			if _, err := n.runSite(t.Context(), "good"); err != nil {
				t.Fatal(err)
			}
			n.checkUnits(pid, act+ntpUnit)
		})
	}
}

// TestOtherUnitFails: the whole generation is rolled back, and the unit is acted on again.
func TestOtherUnitFails(t *testing.T) {
	n := joinedNode(t, "restart")
	pid := n.systemd.unit.MainPID
	n.ntp = "broken"
	n.log = []string{"reading", "ntp: bad line 3", ""}

	out, err := n.runSite(t.Context(), "good")
	if err != nil || out.Verdict != Bad || out.Code != fault.RolledBack || out.InPlace != Good || !out.Held {
		t.Errorf("got %+v, %v; want a rollback to a good generation, and the plan held", out, err)
	}
	for _, want := range []string{ntpUnit + ": ", "its last line is: ntp: bad line 3; journalctl -u " + ntpUnit + " shows more"} {
		if !strings.Contains(out.Why, want) {
			t.Errorf("why: got %q, want %q in it", out.Why, want)
		}
	}
	if got := n.read(ntpPath); got != "one" {
		t.Errorf("%s: got %q, want %q", ntpPath, got, "one")
	}
	// A try-restart of a failed unit would do nothing.
	n.checkUnits(pid, "try-restart "+ntpUnit, "restart "+ntpUnit)
}

// TestOtherUnitFailsAtFirst: with nothing to go back to the kubelet starts all the same.
func TestOtherUnitFailsAtFirst(t *testing.T) {
	n := newNode(t)
	n.ntp, n.ntpAction = "broken", "restart"

	_, out := n.bootWith("good")
	if out.Verdict != Bad || n.readGate() == "" || n.systemd.unit.Active != "active" {
		t.Errorf("got %+v, gate %q, kubelet %s; want a bad verdict and a kubelet that runs",
			out, n.readGate(), n.systemd.unit.Active)
	}
}

// TestReloadFailsAtFirst: with nothing to go back to the generation stays bad in this boot, although the unit runs,
// until a reload succeeds. After a reboot the unit has read the file.
func TestReloadFailsAtFirst(t *testing.T) {
	n := newNode(t)
	n.ntp, n.ntpAction = "broken", "reload"

	run, verify := n.bootWith("good")
	for what, out := range map[string]Outcome{"run": run, "verify": verify, "verify again": n.verify()} {
		if out.Verdict == Good || what != "run" && (out.Verdict != Bad || !strings.Contains(out.Why, ntpUnit)) {
			t.Errorf("%s: got %+v; want it bad, with the unit in the reason", what, out)
		}
	}
	if got := n.status(1); got == generation.StatusGood || n.systemd.unit.Active != "active" {
		t.Errorf("got status %s, kubelet %s; want no good one, and a kubelet that runs", got, n.systemd.unit.Active)
	}

	n.systemd.otherEnds = func() string { return "" }
	out, err := n.runSite(t.Context(), "good")
	if err != nil || out.Verdict != Good ||
		!slices.Equal(n.systemd.acts, []string{"reload " + ntpUnit, "reload " + ntpUnit}) {
		t.Errorf("a run once it can reload: got %+v, %v, acts %q; want good after a second reload",
			out, err, n.systemd.acts)
	}
}

// TestReloadFailsKilledAnywhere kills the run at each event: the next one goes back all the same.
func TestReloadFailsKilledAnywhere(t *testing.T) {
	for k := 1; ; k++ {
		n := joinedNode(t, "reload")
		n.ntp = "broken"
		n.killAt = k
		at := n.maybeKilled(func() { _, _ = n.runSite(t.Context(), "good") })
		n.killAt = 0

		if at == "" {
			return
		}

		_, err := n.runSite(t.Context(), "good")
		n.mustSucceed(err, "the next run")
		if got := n.status(2); n.read(ntpPath) != "one" || got != generation.StatusRolledBack {
			t.Errorf("killed at %s: got %q, %s; want the content before it, rolledback", at, n.read(ntpPath), got)
		}
	}
}

// TestOtherUnitWasIll: one that failed before cannot make a verdict bad.
func TestOtherUnitWasIll(t *testing.T) {
	n := joinedNode(t, "restart")
	n.systemd.other.Active, n.systemd.other.Sub = "failed", "failed"
	n.ntp = "broken"

	out, err := n.runSite(t.Context(), "good")
	if err != nil || out.Verdict != Good || len(n.systemd.acts) != 0 {
		t.Errorf("got %+v, %v, acts %q; want good without an act", out, err, n.systemd.acts)
	}
}

// TestOtherUnitByHand rolls back by hand.
func TestOtherUnitByHand(t *testing.T) {
	n := joinedNode(t, "restart")
	pid := n.systemd.unit.MainPID
	n.ntp = "two"
	if _, err := n.runSite(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}

	out, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(t.Context(), 1, "x") })
	if err != nil || out.Verdict != Good || n.read(ntpPath) != "one" {
		t.Errorf("got %+v, %v, %q; want good on the first content", out, err, n.read(ntpPath))
	}
	n.checkUnits(pid, "try-restart "+ntpUnit, "try-restart "+ntpUnit)
}

// TestOtherUnitKilledAnywhere kills the run at each event, with and without a reboot.
func TestOtherUnitKilledAnywhere(t *testing.T) {
	for k := 1; ; k++ {
		for _, reboots := range []bool{false, true} {
			n := joinedNode(t, "restart")
			pid := n.systemd.unit.MainPID
			n.ntp = "two"
			n.killAt = k
			at := n.maybeKilled(func() { _, _ = n.runSite(t.Context(), "good") })
			n.killAt = 0

			if at == "" {
				return
			}
			if reboots {
				n.reboot()
				n.bootWith("good")
			} else {
				_, err := n.runSite(t.Context(), "good")
				n.mustSucceed(err, "the next run")
				if got := n.systemd.unit.MainPID; got != pid {
					t.Errorf("killed at %s: the kubelet's process: got %d, want %d", at, got, pid)
				}
				if len(n.systemd.acts) == 0 {
					t.Errorf("killed at %s: nothing was done with the unit; want a restart", at)
				}
			}
			if n.read(ntpPath) != "two" || n.status(2) != generation.StatusGood {
				t.Errorf("killed at %s, reboot %t: got %q, %s; want the new content, good",
					at, reboots, n.read(ntpPath), n.status(2))
			}
		}
	}
}
