package activation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// checkNotPublished runs a site that is committed and cannot be published, and checks that no file has changed and that
// the error contains why.
func (n *node) checkNotPublished(why string) {
	n.t.Helper()

	_, err := n.runSite(n.t.Context(), "two")
	if n.codeOf(err) != fault.Interrupted || !strings.Contains(err.Error(), why) {
		n.t.Errorf("%v; want one of %s that says %q", err, fault.Interrupted, why)
	}

	if n.read(configPath) != "one" || n.read(flagsPath) != "one" || n.readGate() != "" {
		n.t.Errorf("config %q, flags %q, gate %q, and the kubelet is %s; want one, one, a shut gate",
			n.read(configPath), n.read(flagsPath), n.readGate(),
			n.systemd.unit.Active)
	}

	if j := n.journal(); j == nil || j.Phase != generation.PhasePublish {
		n.t.Errorf("journal %+v; want phase publish", j)
	}
}

// TestNeverUnderARunningKubelet: between commit and publish the kubelet has to stop. A shut gate does not prove that:
// an earlier process may have shut it and got no further.
func TestNeverUnderARunningKubelet(t *testing.T) {
	finishes := func(t *testing.T, n *node) {
		out, err := n.runSite(t.Context(), "two")
		n.mustSucceed(err, "the run after it")
		checkOutcome(t, "the run after it", out, Outcome{Verdict: Good, Generation: 2})
	}
	play(t, []scenario{
		{"it does not stop: no run publishes, however many come, until it has", func(t *testing.T, n *node) {
			n.bootWith("one")

			n.systemd.stopping = time.Hour
			for range 3 {
				n.checkNotPublished("did not stop")
			}

			_, err := n.process(func(m *Machine) (Outcome, error) { return m.Verify(t.Context()) })
			if n.codeOf(err) != fault.Interrupted || n.read(configPath) != "one" {
				t.Errorf("prelet-verify: %v, config %q; want code interrupted and config one", err, n.read(configPath))
			}

			n.clk.advance(time.Hour)
			n.systemd.stopping = 0
			finishes(t, n)
		}},
		{
			"systemd does not answer after COMMIT: the next run knows no more, and does not publish either",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.onCommit = func() { n.systemd.unreachable = true }
				n.checkNotPublished("connection closed")

				if n.systemd.unit.Active != "active" {
					t.Fatalf("the kubelet is %s: nothing is shown; want an active one, or the test shows nothing",
						n.systemd.unit.Active)
				}

				n.checkNotPublished("it may be running")
				n.systemd.unreachable = false
				finishes(t, n)
			},
		},
		{
			"the kubelet ran before there was a gate, and systemd does not answer after COMMIT: that the gate " +
				"was never open proves nothing",
			func(t *testing.T, n *node) {
				n.bootWith("one")

				for _, name := range []string{gateFile, openedFile, seenFile} {
					if err := os.Remove(filepath.Join(n.run, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}

				n.onCommit = func() { n.systemd.unreachable = true }
				n.checkNotPublished("connection closed")
				n.checkNotPublished("it may be running")
				n.systemd.unreachable = false
				finishes(t, n)
			},
		},
		{"going back, and it does not stop: nothing is undone under it", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.schedule(30*time.Second, func() { n.systemd.stopping = time.Hour })

			_, err := n.runSite(t.Context(), "two healthz=bad")
			if n.codeOf(err) != fault.Interrupted || n.read(configPath) != "two healthz=bad" || n.readGate() != "" {
				t.Errorf("%v, config %q, gate %q; want code interrupted, the new config and a shut gate",
					err, n.read(configPath), n.readGate())
			}
		}},
		{
			"a boot after a crash, before systemd answers: behind a gate that was never open no kubelet has started",
			func(t *testing.T, n *node) {
				n.bootWith("one")
				n.onCommit = func() { n.systemd.unreachable = true }
				n.checkNotPublished("connection closed")
				n.reboot()
				n.systemd.unreachable = true
				j, err := (*generation.Journal)(nil), error(nil)
				_, failed := n.process(
					func(m *Machine) (Outcome, error) { j, err = m.Recover(t.Context()); return Outcome{}, err },
				)
				n.mustSucceed(failed, "recover")

				if j == nil || j.Phase != generation.PhaseVerify || n.read(configPath) != "two" ||
					n.read(flagsPath) != "two" || n.readGate() != "" {
					t.Errorf("journal %+v, config %q, gate %q; want phase verify, both files two, a shut gate",
						j, n.read(configPath), n.readGate())
				}
			},
		},
	})
}

// TestBackByHandKeepsState: a rollback to another policy of the kubelet's managers removes a state file that lists what
// pods hold. While pods may run it is refused, as in a run, with nothing changed.
func TestBackByHandKeepsState(t *testing.T) {
	const state = "/var/lib/kubelet/cpu_manager_state"

	changed := func(t *testing.T) *node {
		n := newNode(t)
		n.bootWith("one")
		n.shape = func(p *Plan) { p.States = map[string]string{state: "static"} }
		n.reboot()
		n.bootWith("two")

		return n
	}

	back := func(n *node, to int) (Outcome, error) {
		return n.process(func(m *Machine) (Outcome, error) { return m.GoBack(n.t.Context(), to, "by hand") })
	}
	for _, to := range []int{0, 1} {
		n := changed(t)
		n.events = nil

		_, err := back(n, to)
		if n.codeOf(err) != fault.CannotWrite || !strings.Contains(err.Error(), state) ||
			!strings.Contains(err.Error(), "drain the node, systemctl stop kubelet.service, prelet rollback") {
			t.Errorf("to %d: %v; want code cannot-write with the commands that stop the kubelet first", to, err)
		}

		if n.read(configPath) != "two" || n.systemd.unit.Active != "active" || len(n.events) != 0 {
			t.Errorf("to %d: config %q, the kubelet is %s, events %v; want config two, an active kubelet, no events",
				to, n.read(configPath), n.systemd.unit.Active,
				n.events)
		}

		n.systemd.stopByHand()
		n.clk.advance(time.Second)
		out, err := back(n, to)
		n.mustSucceed(err, "with the kubelet stopped")
		checkOutcome(
			t, "with the kubelet stopped", out, Outcome{Verdict: Unknown, Generation: 3, From: 2, InPlace: Unknown},
		)

		if n.systemd.unit.Active != "inactive" {
			t.Errorf("the kubelet is %s; want inactive", n.systemd.unit.Active)
		}
	}

	n := changed(t) // the same policy in both generations: the rollback is allowed
	_, err := n.runSite(t.Context(), "three")
	n.mustSucceed(err, "run")
	out, err := back(n, 2)
	n.mustSucceed(err, "back to the same policy")
	checkOutcome(t, "back to the same policy", out, Outcome{Verdict: Good, Generation: 4, From: 3, InPlace: Good})
}
