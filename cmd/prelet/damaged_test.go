package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/testing/sample"
)

// killedAt ends what a process does to the store at its n-th operation, and counts the operations.
type killedAt struct{ n, done int }

var errProcessKilled = errors.New("killed")

func (k *killedAt) fault(string, string) error {
	if k.done++; k.done > k.n {
		return errProcessKilled
	}

	return nil
}

// damagedChange is what a process was killed in.
type damagedChange struct {
	name string
	do   func(m *testMachine, s *generation.Store) error
}

var damagedChanges = []damagedChange{
	{"nothing", func(*testMachine, *generation.Store) error { return nil }},
	{"publish", func(m *testMachine, s *generation.Store) error {
		cur := must(s.Current())
		targets := targetsOf(m, cur, s)
		for i := range targets {
			if slices.Contains([]string{"/etc/default/kubelet", "/etc/motd.site"}, targets[i].Path) {
				targets[i].Content = append(targets[i].Content, "# half\n"...)
			}
		}
		spec := must(s.Blob(cur.Gen, activation.SpecBlob))
		txn, err := s.Begin(generation.Proposal{
			PlanID: "half", Targets: targets, Blobs: map[string][]byte{activation.SpecBlob: spec},
		})
		if err == nil {
			_, err = txn.Commit()
		}
		if err == nil {
			err = txn.Publish()
		}
		return err
	}},
	{"rollback", func(_ *testMachine, s *generation.Store) error {
		_, err := s.RollbackToJudge(must(s.Current()).Gen, 2, "unhealthy", true, nil)
		return err
	}},
	{"rollback-by-hand", func(_ *testMachine, s *generation.Store) error {
		_, err := s.RollbackToJudge(must(s.Current()).Gen, 1, generation.ByHand, false, nil)
		return err
	}},
}

// damages are what a disk or a person does to one file of the state folder. other is another one of them.
var damages = []struct {
	name string
	do   func(r *rand.Rand, file, other string) error
}{
	{"none", func(*rand.Rand, string, string) error { return nil }},
	{"flip", func(r *rand.Rand, file, _ string) error {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			return err
		}
		text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		return os.WriteFile(file, text, 0o600)
	}},
	{"cut", func(r *rand.Rand, file, _ string) error {
		st, err := os.Stat(file)
		if err != nil || st.Size() == 0 {
			return err
		}
		return os.Truncate(file, r.Int64N(st.Size()))
	}},
	{"missing", func(_ *rand.Rand, file, _ string) error { return os.Remove(file) }},
	{"swapped", func(_ *rand.Rand, file, other string) error {
		if file == other {
			return nil
		}
		return errors.Join(os.Rename(file, file+"-"), os.Rename(other, file), os.Rename(file+"-", other))
	}},
}

// TestDamagedStores: a run, a verdict or a rollback is killed at any operation, then a file of the state folder is
// damaged, lost or swapped, and the machine boots, or a person runs prelet. Each command that a message prints is run
// as printed, and after one round of them at most the kubelet runs, on the files of one generation.
func TestDamagedStores(t *testing.T) {
	t.Parallel()
	chosen := sample.New(t)
	for _, change := range damagedChanges {
		t.Run(change.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.site = strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "motd" {
    path    = "/etc/motd.site"
    content = <<-END
      pool" = "a"
    END
  }
}`, 1)
			m.put("/etc/prelet/site.hcl", m.site)
			m.mustBeGood(m.boot())
			for _, label := range []string{"b", "c"} {
				m.relabel(label)
				m.mustBeGood(m.as("", "run"), ended{})
			}
			kept := filepath.Join(t.TempDir(), "kept")
			m.copyTree(m.root, kept)
			tried := 0
			for n, isOver := 0, false; !isOver; n++ {
				for i, damage := range damages {
					for _, how := range []string{"boot", "hand"} {
						const oneIn = 40
						if !chosen.Has(oneIn, change.name, n, damage.name, how) && (n > 0 || i > 0) {
							continue
						}
						m.restore(kept)
						isOver = m.killedIn(change, n)
						file := m.damageOne(rand.New(rand.NewPCG(uint64(n), uint64(i))), damage.do)
						what := fmt.Sprintf("killed at operation %d, %s %s, %s", n, file, damage.name, how)
						m.followOnce(what, how == "boot")
						tried++
					}
				}
				isOver = isOver || n > 200
			}
			t.Logf("%d states", tried)
		})
	}
}

func (m *testMachine) mustBeGood(run, verify ended) {
	m.t.Helper()
	if run.exit != 0 || verify.exit != 0 {
		m.t.Fatalf("got %+v and %+v, want 0", run, verify)
	}
}

// restore makes the root a copy of a folder, after a power cycle.
func (m *testMachine) restore(kept string) {
	m.t.Helper()
	m.must(os.RemoveAll(m.root))
	m.copyTree(kept, m.root)
	m.reboot()
}

func (m *testMachine) copyTree(from, to string) {
	m.t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		m.t.Fatalf("cp: %v\n%s", err, out)
	}
}

// killedIn makes a change of which the process is killed at its n-th operation, with the gate shut for it. It reports
// that the change came to its end.
func (m *testMachine) killedIn(change damagedChange, n int) (isOver bool) {
	m.t.Helper()
	k := &killedAt{n: n}
	s, err := generation.Open(m.t.Context(), generation.StoreConfig{
		Root: m.root, Dir: m.stateDir(), Now: m.Now, BootID: m.bootID(), Fault: k.fault,
	})
	if err == nil {
		defer s.Close()
		err = change.do(m, s)
	}
	if err != nil && !errors.Is(err, errProcessKilled) {
		m.t.Fatal(err)
	}
	gate := activation.Gate{Dir: m.run, BootID: m.bootID()}
	if shut := gate.Shut("in the middle"); shut != nil {
		m.t.Fatal(shut)
	}
	m.units.start() // and waits for the gate

	return err == nil
}

// damageOne damages one file of the state folder.
func (m *testMachine) damageOne(r *rand.Rand, do func(r *rand.Rand, file, other string) error) (file string) {
	m.t.Helper()
	var files []string
	err := filepath.WalkDir(m.stateDir(), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			files = append(files, p)
		}
		return err
	})
	file, other := files[r.IntN(len(files))], files[r.IntN(len(files))]
	if err = errors.Join(err, do(r, file, other)); err != nil {
		m.t.Fatal(err)
	}

	return strings.TrimPrefix(file, m.stateDir())
}

// followOnce boots, or runs prelet by hand, and then follows the commands that the messages show, once.
func (m *testMachine) followOnce(what string, isBoot bool) {
	m.t.Helper()
	var said []ended
	if isBoot {
		m.reboot()
		run, verify := m.boot()
		said = append(said, run, verify)
	} else {
		said = append(said, m.as("", "run"))
		m.startAgain()
	}
	first := said
	for _, e := range first {
		for _, line := range commands(e.errors) {
			if !strings.HasPrefix(line, "prelet ") {
				m.t.Errorf("%s: got %q in a message, want no file moved by hand", what, line)
			}
			said = append(said, m.paste(line))
			m.startAgain()
		}
	}
	problems := m.listProblems()
	if len(problems) == 0 {
		said = append(said, m.as("", "run"))
		problems = m.listProblems()
		if left := must(filepath.Glob(m.root + "/etc/*/.prelet-*")); len(left) > 0 {
			problems = append(problems, fmt.Sprint("temporaries: ", left))
		}
	}
	if len(problems) > 0 {
		m.t.Errorf("%s: %s, after\n%+v", what, strings.Join(problems, "; "), said)
	}
}

// startAgain is what systemd does with a kubelet that waits for the gate.
func (m *testMachine) startAgain() {
	if m.kubelet.Active == "activating" {
		m.units.start()
	}
}

// listProblems returns why the node is not up on the files of one generation.
func (m *testMachine) listProblems() (out []string) {
	if m.gateSays() == "" {
		out = append(out, "the gate is shut")
	}
	if m.kubelet.Active != "active" {
		out = append(out, "the kubelet is "+m.kubelet.Active)
	}
	flags, more := m.read("/etc/default/kubelet"), m.read("/etc/motd.site")
	isOne := slices.ContainsFunc([]string{"a", "b", "c"}, func(label string) bool {
		return strings.Contains(flags, "pool="+label+`"`) && more == fmt.Sprintf("pool\" = %q\n", label)
	})
	if !isOne {
		out = append(out, fmt.Sprintf("the files are a mixture: %q, %q", flags, more))
	}

	return out
}
