package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/sample"
)

// power is a model of what survives when the power goes: the content of a file as of its last fsync, the names in a
// folder as of that folder's last fsync. Everything later may be lost or not, each name and each content by itself.
type power struct {
	b      *box
	names  map[uint64]map[string]entry // by the folder's inode
	bytes  map[uint64]string           // by the file's inode
	ignore func(op, path string) bool  // a mutant: an fsync that the code forgot
	// adverse: of what was not fsynced, names that came are lost, and names that went are gone, whatever luck says.
	adverse bool
}

type entry struct {
	ino  uint64
	mode fs.FileMode
}

// arm takes everything that is there for durable. A file is known by its inode number, which a tmpfs uses once only.
func arm(b *box) *power {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.root, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		b.t.Skipf("needs a tmpfs: %s has type %#x, %v", b.root, fs.Type, err)
	}

	p := &power{b: b, names: map[uint64]map[string]entry{}, bytes: map[uint64]string{}}
	p.names, p.bytes = p.now()
	return p
}

// now reads the tree as running processes see it.
func (p *power) now() (map[uint64]map[string]entry, map[uint64]string) {
	names, bytes := map[uint64]map[string]entry{}, map[uint64]string{}
	err := filepath.WalkDir(p.b.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			names[inoOf(i)] = p.list(path)
			return nil
		}
		c, err := os.ReadFile(path)
		bytes[inoOf(i)] = string(c)
		return err
	})
	must(p.b.t, err)
	return names, bytes
}

func (p *power) list(dir string) map[string]entry {
	all, err := os.ReadDir(dir)
	must(p.b.t, err)
	out := map[string]entry{}
	for _, d := range all {
		i, err := d.Info()
		must(p.b.t, err)
		out[d.Name()] = entry{ino: inoOf(i), mode: i.Mode()}
	}
	return out
}

func inoOf(i fs.FileInfo) uint64 { return i.Sys().(*syscall.Stat_t).Ino }

// hook learns from each operation just before it.
func (p *power) hook(op, path string) {
	if !strings.HasPrefix(path, p.b.root) {
		path = p.b.path(path)
	}
	i, err := os.Lstat(path)
	if err != nil {
		return
	}
	switch {
	case op == opWrite:
		delete(p.bytes, inoOf(i)) // a new file, perhaps under the number of one that is gone
	case op == opFsync && p.ignore != nil && p.ignore(op, path):
	case op == opFsync && i.IsDir():
		p.names[inoOf(i)] = p.list(path)
	case op == opFsync:
		c, err := os.ReadFile(path)
		must(p.b.t, err)
		p.bytes[inoOf(i)] = string(c)
	}
}

// killAt returns a hook that kills the process at the k-th operation, and learns from those before.
func (p *power) killAt(k int) func(op, path string) error {
	kill := &killAt{at: k}
	return func(op, path string) error {
		err := kill.hook(op, path)
		if err == nil {
			p.hook(op, path)
		}
		return err
	}
}

// cut builds what is found after the power came back. luck says of a change that was not fsynced whether it survived.
func (p *power) cut(dir string, luck func() bool) *box {
	names, bytes := p.now()
	root := filepath.Join(dir, "root")
	must(p.b.t, os.RemoveAll(root))
	i, err := os.Lstat(p.b.root)
	must(p.b.t, err)
	var build func(at string, e entry)
	build = func(at string, e entry) {
		var err error
		if e.mode.IsDir() {
			if err = os.Mkdir(at, 0o700); err == nil {
				err = os.Chmod(at, e.mode)
			}
			now, was := names[e.ino], p.names[e.ino]
			all := append(sortedKeys(now), sortedKeys(was)...)
			slices.Sort(all)
			for _, n := range slices.Compact(all) {
				pick, ok := was[n]
				_, came := now[n]
				if survives := luck() && !p.adverse || p.adverse && !came; now[n] != was[n] && survives {
					pick, ok = now[n]
				}
				if ok {
					build(filepath.Join(at, n), pick)
				}
			}
		} else {
			c, durable := p.bytes[e.ino]
			if cur, ok := bytes[e.ino]; ok && (!durable || c != cur) && luck() {
				c = cur
			}
			if err = os.WriteFile(at, []byte(c), 0o600); err == nil {
				err = os.Chmod(at, e.mode)
			}
		}
		must(p.b.t, err)
	}
	build(root, entry{ino: inoOf(i), mode: i.Mode()})
	return boxAt(p.b.t, root)
}

// powerCut runs a step until its k-th operation, cuts the power, and says what is wrong after recovery. done: the
// step ended.
func powerCut(
	t *testing.T,
	w *sweepWorld,
	st step,
	k int,
	old, want map[string]node,
	ignore func(op, p string) bool,
	luck func() bool,
) (done bool, wrong string) {
	b := w.copyTo(t, w.scratch)
	p := arm(b)
	p.ignore = ignore
	s, hook := b.openHooked()
	*hook = p.killAt(k)
	err := st.do(s, w.next)
	*hook = nil
	ended, jerr := s.Journal()
	s.Close()
	if err != nil && !errors.Is(err, errKilled) || jerr != nil {
		t.Fatalf("k=%d: got %v, %v; want no errors", k, err, jerr)
	}
	c := p.cut(memory(t), luck)
	// The power goes again, during recovery or just after it, and what that one did not make durable may be lost too.
	p = arm(c)
	s, hook = c.openHooked()
	if err == nil { // else somebody's edit in the meantime would look like a target that is neither old nor new
		if j, jerr := s.Journal(); jerr != nil || !ended.Same(j) {
			s.Close()
			return true, fmt.Sprintf("it was done with journal %+v, which is %+v after the cut (%v)", ended, j, jerr)
		}
	}
	*hook = p.killAt(1 + k%17)
	_, rerr := s.Recover()
	*hook = nil
	s.Close()
	if rerr != nil && !errors.Is(rerr, errKilled) {
		return err == nil, fmt.Sprintf("recovery: %v", rerr)
	}
	between := nodes(c.look())
	c = p.cut(memory(t), luck)
	s = c.open()
	defer s.Close()
	if _, err2 := s.Recover(); err2 != nil {
		return err == nil, fmt.Sprintf("recovery after recovery: %v", err2)
	}
	if rerr == nil && !same(between, nodes(c.look())) {
		return err == nil, "what recovery did was lost with the power"
	}
	now := nodes(c.look())
	switch {
	case err == nil && !same(now, want):
		return true, "it was done, and is not new (I3)"
	case !same(now, old) && !same(now, want):
		return err == nil, fmt.Sprintf("a mixture (I1): %v", now)
	case c.litter() != nil:
		return err == nil, fmt.Sprintf("left behind: %v (I6)", c.litter())
	}
	in, err2 := s.Current()
	if err2 != nil || in == nil || (in.Gen == 2) != same(now, want) {
		return err == nil, fmt.Sprintf("the generation in place is reported as %+v (%v)", in, err2)
	}
	return err == nil, incomplete(s)
}

// incomplete says what a generation that is in place lacks for being put in place again, or left.
func incomplete(s *Store) string {
	m, _, err := s.current()
	if err != nil {
		return err.Error()
	}
	for _, sha := range contentsOf(m) {
		if _, err := s.contentOf(m.Gen, sha); err != nil {
			return err.Error()
		}
	}
	for _, q := range m.Parts {
		if q.Blob == "" {
			continue
		}
		if b, err := s.Blob(m.Gen, q.Blob); err != nil || len(b) == 0 {
			return fmt.Sprintf("blob %s: %q %v", q.Blob, b, err)
		}
	}
	return ""
}

// TestPowerCutAnywhere loses at a sample of the operations what was not fsynced: all of it, and parts by chance.
func TestPowerCutAnywhere(t *testing.T) {
	chosen, seeds := sample.New(t), 1
	if sample.IsFull() {
		seeds = 20
	}
	for seed := range seeds {
		for _, st := range append(steps(), backUnheld(), backToJudge()) {
			t.Run(fmt.Sprint(st.name, seed), func(t *testing.T) {
				w := sweepBox(t, uint64(100+seed))
				old := nodes(w.look())
				want := st.new(t, w.box, w.next)
				r := rand.New(rand.NewPCG(uint64(seed), 2))
				for name, luck := range map[string]func() bool{"all": func() bool { return false }, "by chance": func() bool { return r.IntN(2) == 0 }} {
					first, step := chosen.OneIn(sample.Quarter(5), st.name, name)
					for k, done := 1+first, false; !done; k += step {
						var wrong string
						if done, wrong = powerCut(t, w, st, k, old, want, nil, luck); wrong != "" {
							t.Fatalf("lost %s, k=%d: want the promises kept: %s", name, k, wrong)
						}
					}
				}
			})
		}
	}
}

// TestPowerCutOfTheFirst: the state folder is new, or a process was killed while it made it. The first commit is cut off
// at each operation, and loses what was not fsynced.
func TestPowerCutOfTheFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, luck := range map[string]func() bool{
		"all":       func() bool { return false },
		"by chance": func() bool { return r.IntN(2) == 0 },
	} {
		for _, isSecond := range []bool{false, true} {
			for k, done := 1, false; !done; k++ {
				var wrong string
				if done, wrong = cutFirst(t, k, isSecond, luck); wrong != "" {
					t.Fatalf("lost %s, k=%d, after a killed process: %t: want all or nothing: %s", name, k, isSecond, wrong)
				}
			}
		}
	}
}

// cutFirst is powerCut of the first commit of a node.
func cutFirst(t *testing.T, k int, isSecond bool, luck func() bool) (done bool, wrong string) {
	b := newBox(t)
	old := nodes(b.look())
	p := arm(b)
	kill := p.killAt(k)
	b.o.Fault = func(op, path string) error { return kill(op, path) }
	if isSecond {
		first := b.o
		first.Fault = func(op, path string) error {
			p.hook(op, path)
			return endIf(op == opFsync && strings.HasSuffix(path, gensName))
		}
		s, err := Open(t.Context(), first)
		must(t, err)
		if _, err = apply(s, flipNext("1")); !errors.Is(err, errKilled) {
			t.Fatalf("got %v, want it killed", err)
		}
		s.Close()
	}
	s, err := Open(t.Context(), b.o)
	if err == nil {
		_, err = apply(s, flipNext("1"))
		s.Close()
	}
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatalf("k=%d: got %v, want no error", k, err)
	}

	want := nodes(b.look())
	c := p.cut(memory(t), luck)
	s = c.open()
	defer s.Close()
	_, rerr := s.Recover()
	in, ierr := s.Current()
	now := nodes(c.look())
	isOld := err != nil && in == nil && same(now, old)
	isNew := in != nil && c.litter() == nil && (err != nil || same(now, want))
	if rerr != nil || ierr != nil || !isOld && !isNew {
		wrong = fmt.Sprintf("%v, %v, generation %+v, and the files\n%v", rerr, ierr, in, now)
	}

	return err == nil, wrong
}

// TestPowerCutAfterRecovery: a writer is killed before it fsyncs a folder of prelet's own, so that others see what is
// not yet durable; recovery builds on that, and is killed too, at a sample of its operations; then the power goes.
func TestPowerCutAfterRecovery(t *testing.T) {
	chosen := sample.New(t)
	for _, st := range steps() {
		t.Run(st.name, func(t *testing.T) {
			w := sweepBox(t, 100)
			old := nodes(w.look())
			want := st.new(t, w.box, w.next)
			kills := fsyncsOfOwn(t, w, st)
			if len(kills) < 3 {
				t.Fatalf("got %d fsyncs of prelet's own folders, want those of the generation and of the journal",
					len(kills))
			}
			for _, k := range kills {
				first, step := chosen.OneIn(sample.Quarter(4), st.name, k)
				for at, done := 1+first, false; !done; at += step {
					var wrong string
					if done, wrong = cutAfterRecovery(t, w, st, k, at, old, want); wrong != "" {
						t.Fatalf("killed at %d, recovery at %d: want the promises kept: %s", k, at, wrong)
					}
				}
			}
		})
	}
}

// fsyncsOfOwn lists which operations of a step are fsyncs of prelet's own folders.
func fsyncsOfOwn(t *testing.T, w *sweepWorld, st step) (at []int) {
	b := w.copyTo(t, w.scratch)
	s, hook := b.openHooked()
	defer s.Close()
	k := 0
	*hook = func(op, path string) error {
		k++
		if op == opFsync && (path == b.o.Dir || path == filepath.Join(b.o.Dir, gensName)) {
			at = append(at, k)
		}
		return nil
	}
	must(t, st.do(s, w.next))
	return at
}

func cutAfterRecovery(
	t *testing.T,
	w *sweepWorld,
	st step,
	k, at int,
	old, want map[string]node,
) (done bool, wrong string) {
	b := w.copyTo(t, w.scratch)
	s, hook := b.openHooked()
	p := arm(b)
	*hook = p.killAt(k)
	if err := st.do(s, w.next); !errors.Is(err, errKilled) {
		t.Fatalf("got %v, want it killed", err)
	}
	*hook = p.killAt(at)
	_, err := s.Recover()
	s.Close()
	if err != nil && !errors.Is(err, errKilled) {
		return true, err.Error()
	}
	c := p.cut(memory(t), func() bool { return false })
	c.recover(t)
	if now := nodes(c.look()); !same(now, old) && !same(now, want) {
		return true, fmt.Sprintf("a mixture:\ngot  %v\nold  %v\nwant %v", now, old, want)
	}
	if l := c.litter(); l != nil {
		return true, fmt.Sprintf("left behind %v", l)
	}
	return err == nil, ""
}

// TestPowerCutFindsAForgottenFsync: the model is worth something only if it sees each fsync that is left out.
func TestPowerCutFindsAForgottenFsync(t *testing.T) {
	in := func(part string) func(op, p string) bool {
		return func(_, p string) bool { return strings.Contains(p, part) && !strings.Contains(p, "/var/") }
	}
	// always leaves out each fsync of its kind; nth only the nth of a run, counted from 1.
	always := func(of func(op, p string) bool) func() func(op, p string) bool {
		return func() func(op, p string) bool { return of }
	}
	nth := func(n int, suffix string) func() func(op, p string) bool {
		return func() func(op, p string) bool {
			seen := 0
			return func(_, p string) bool {
				if strings.HasSuffix(p, suffix) {
					seen++
				}
				return strings.HasSuffix(p, suffix) && seen == n
			}
		}
	}
	commit, unjudged := steps()[0], steps()[2]
	for name, m := range map[string]struct {
		st     step
		ignore func() func(op, p string) bool
	}{
		"temporaries":                      {commit, always(in(".prelet-"))},
		"folders of targets":               {commit, always(func(op, p string) bool { return in("/etc/kubernetes")(op, p) && !in(".prelet-")(op, p) })},
		"journal":                          {commit, nth(1, "/journal.json.staged")},
		"journal that awaits a verdict":    {commit, nth(1, "/journal.json.tmp")},
		"state folder, commit":             {commit, nth(1, "/var/lib/prelet")},
		"state folder, end":                {unjudged, nth(2, "/var/lib/prelet")},
		"generation":                       {commit, nth(1, "/generations/2.staged")},
		"generations, before temporaries":  {commit, nth(1, "/generations")},
		"generations, after their renames": {unjudged, nth(2, "/generations")},
	} {
		t.Run(name, func(t *testing.T) {
			w := sweepBox(t, 100)
			old := nodes(w.look())
			want := m.st.new(t, w.box, w.next)
			r := rand.New(rand.NewPCG(3, 2))
			for k := countOps(t, w, m.st) + 1; k > 0; k-- { // most are found late, or after the end
				for _, luck := range []func() bool{func() bool { return false }, func() bool { return r.IntN(2) == 0 }} {
					if _, wrong := powerCut(t, w, m.st, k, old, want, m.ignore(), luck); wrong != "" {
						t.Log(wrong[:min(len(wrong), 200)])
						return
					}
				}
			}
			t.Error("it was not noticed")
		})
	}
}

func countOps(t *testing.T, w *sweepWorld, st step) int {
	b := w.copyTo(t, w.scratch)
	s, hook := b.openHooked()
	defer s.Close()
	k := &killAt{}
	*hook = k.hook
	must(t, st.do(s, w.next))
	return k.seen
}

// TestTakenBackAnywhere: a publish is killed at one of its renames, and one of its files is edited. The generation
// before is put back whole by a recovery that is killed at each of its operations, with the power or without; and the
// way back to before prelet leads there.
func TestTakenBackAnywhere(t *testing.T) {
	chosen, seeds := sample.New(t), 3
	if sample.IsFull() {
		seeds = 40
	}
	for seed := range seeds {
		w := sweepBox(t, uint64(200+seed))
		first := nodes(w.look())
		s := w.open()
		_, err := s.Rollback(1, 0, ByHand, false, nil)
		must(t, err)
		s.Close()
		before := nodes(w.look())
		w = sweepBox(t, uint64(200+seed))
		for rename, last := 1, ""; last != "always"; rename++ {
			b := w.copyTo(t, memory(t))
			s, hook := b.openHooked()
			seen := 0
			*hook = func(op, p string) error {
				if op == opRename && !strings.HasPrefix(p, b.o.Dir) {
					seen++
					last = filepath.Base(p)
				}
				return endIf(seen == rename)
			}
			if _, err := apply(s, w.next); !errors.Is(err, errKilled) {
				t.Fatalf("got %v, want it killed", err)
			}
			s.Close()
			b.write("/etc/kubernetes/always", "by hand", 0o644)
			at, step := chosen.OneIn(sample.Quarter(5), seed, rename)
			for done := false; !done; at += step {
				done = takenBack(t, b, 1+at, first, before)
			}
		}
	}
}

// takenBack kills a recovery at its k-th operation, and checks what the next one makes of that.
func takenBack(t *testing.T, b *box, k int, first, before map[string]node) (done bool) {
	t.Helper()
	b = b.copyTo(t, memory(t))
	p := arm(b)
	s, hook := b.openHooked()
	*hook = p.killAt(k)
	_, err := s.Recover()
	s.Close()
	if done = err == nil; !done && !errors.Is(err, errKilled) {
		t.Fatalf("k=%d: got %v, want it killed", k, err)
	}
	for name, c := range map[string]*box{"killed": b, "without power": p.cut(memory(t), func() bool { return k%2 == 0 })} {
		j := c.recover(t)
		s := c.open()
		now := nodes(c.look())
		in, err := s.Current()
		must(t, err)
		if !same(now, first) || j == nil || j.Phase != PhaseVerify || in.Gen != j.Gen || incomplete(s) != "" {
			t.Fatalf("%s, k=%d: got journal %+v, generation %+v, %s, and\n%v\nwant a verdict to await on\n%v",
				name, k, j, in, incomplete(s), now, first)
		}
		if l := c.litter(); l != nil {
			t.Fatalf("%s, k=%d: left behind: got %v, want nothing", name, k, l)
		}
		if _, err := s.Rollback(in.Gen, 0, ByHand, false, nil); err != nil || !same(nodes(c.look()), before) {
			t.Fatalf("%s, k=%d: as before prelet: got %v, and\n%v\nwant\n%v", name, k, err, nodes(c.look()), before)
		}
		s.Close()
	}
	return done
}
