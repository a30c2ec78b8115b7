package activation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/generation"
)

// TestFilesSince: the time of a commit in another boot is on another clock.
func TestFilesSince(t *testing.T) {
	for _, c := range []struct {
		boot string
		want time.Duration
	}{{"this", 5 * time.Second}, {"another", 0}} {
		j := &generation.Journal{BootID: c.boot, CommitMono: 5_000_000}
		if got := (&walkState{}).filesSince(&StateMachine{BootID: "this"}, j); got != c.want {
			t.Errorf("a commit of %s boot: got %s; want %s", c.boot, got, c.want)
		}
	}
}

// TestForeignIsNotGood: a generation that was good on the machine of the image is nothing to go back to.
func TestForeignIsNotGood(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")

	for _, foreign := range []bool{false, true} {
		n.enterMachine("look", func(m *StateMachine) (Outcome, error) {
			m.Node.(*nodeOfTest).foreign = map[bool]string{true: "of the image"}[foreign]

			if gen, ok := m.lastGood(Spec{}); ok == foreign || ok && gen != 1 {
				t.Errorf("foreign %t: got last good generation %d, %t; want generation 1, unless it is foreign",
					foreign, gen, ok)
			}

			return Outcome{}, nil
		})
	}
}

// TestFinishedRollbackOpensTheGate: a rollback without a verdict (one below a root) leaves no journal once it is
// finished, and the process that finishes it opens the gate in a boot without a run.
func TestFinishedRollbackOpensTheGate(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")
	n.mustRun("two")

	killed := errors.New("killed")
	s, err := generation.Open(t.Context(), generation.StoreConfig{
		Root: n.disk, Dir: n.disk + "/var/lib/prelet", Now: n.clk.Now, BootID: n.boot,
		Fault: func(op, path string) error {
			if op == "rename" && path == flagsPath {
				return killed
			}

			return nil
		},
	})
	n.mustSucceed(err, "open")

	if _, err := s.Rollback(2, 1, "below a root", false, nil); !errors.Is(err, killed) {
		t.Fatalf("got %v; want the rollback killed", err)
	}

	n.mustSucceed(s.Close(), "close")
	n.reboot()
	n.finishPrelet()

	if out := n.verify(); out.HeldBack != "" || n.readGate() == "" || n.read(flagsPath) != "one" {
		t.Errorf("got %+v, gate %q, flags %q; want the gate open on the contents of one",
			out, n.readGate(), n.read(flagsPath))
	}
}

// TestOlderProcessIsNeverGood watches a process that is older than the files and cannot be replaced.
func TestOlderProcessIsNeverGood(t *testing.T) {
	n := newNode(t)
	n.bootWith("one")

	w := watcher{
		m:         &StateMachine{Node: n.asNode()},
		placement: placement{spec: n.spec("one").withDefaults(), since: n.systemd.unit.Started + 1},
	}
	for range 1000 {
		n.clk.advance(time.Second)

		if verdict, why := w.judge(t.Context(), n.systemd.unit, n.clk.now); verdict != Pending {
			t.Fatalf("got verdict %s (%s); want none", verdict, why)
		}
	}
}

// TestClusterIsAwayAfterTheVerdict: that is reported, and the verdict stays.
func TestClusterIsAwayAfterTheVerdict(t *testing.T) {
	n := newNode(t)
	n.shape = []string{`{"labels":{"example.com/a":"2"},"reconcile_labels":true}`}
	n.apiserver = false
	m := &StateMachine{Node: n.asNode()}

	checks := m.reconcile(t.Context(), n.spec("two"), []CheckResult{{Name: "unit", State: "ok"}})
	if len(checks) != 2 || checks[1].State != "unknown" ||
		!strings.Contains(checks[1].Message, "not patched: the apiserver does not answer") {
		t.Errorf("got %+v; want a second check that is unknown", checks)
	}
}

// TestSpecBeforePrelet: a rollback to the state before prelet keeps how its kubelet is judged, whatever becomes of the
// generations next to it, and a rollback to that one has the same. One that 0.1.0 made has that of the generation it left.
func TestSpecBeforePrelet(t *testing.T) {
	n := newNode(t)
	run := func(config, healthz string) {
		n.shape = []string{`{"healthz":"` + healthz + `"}`}
		n.bootWith(config)
	}
	back := func(to int) {
		n.enterMachine("roll back", func(m *StateMachine) (Outcome, error) {
			return m.Enter(t.Context(), Entry{On: OnRollback, To: to, Why: generation.ByHand})
		})
	}
	check := func(gen int, want string) {
		n.enterMachine("look", func(m *StateMachine) (Outcome, error) {
			if spec, err := m.SpecOf(gen); err != nil || spec.Healthz != want {
				t.Errorf("generation %d: got %q, %v; want %s", gen, spec.Healthz, err, want)
			}

			return Outcome{}, nil
		})
	}

	run("one", "http://127.0.0.1:1/healthz")
	back(0)
	n.mustSucceed(os.Remove(filepath.Join(n.disk, "var/lib/prelet/generations/1")), "remove the generation before")
	check(2, "http://127.0.0.1:1/healthz")

	run("two", "http://127.0.0.1:2/healthz")
	back(2)
	check(4, "http://127.0.0.1:1/healthz")

	run("three", "http://127.0.0.1:3/healthz")
	n.enterMachine("0.1.0", func(m *StateMachine) (Outcome, error) {
		_, err := m.Store.(lockedStore).Rollback(5, 0, generation.ByHand, false, nil)

		return Outcome{}, err
	})
	check(6, "http://127.0.0.1:3/healthz")
	n.mustSucceed(os.Remove(filepath.Join(n.disk, "var/lib/prelet/generations/5")), "remove the generation that it left")
	check(6, "")
	run("four", "http://127.0.0.1:4/healthz")
	back(6)
	check(8, "")
}
