package generation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/sample"
)

// walk is a node's life: sites change, plans fail, people edit and go back, and at any moment it is killed or loses its
// power. Each state that recovery leaves is what the next step begins with.
type walk struct {
	*box
	t      *testing.T
	r      *rand.Rand
	ignore func(op, path string) bool // fsyncs that the model forgets
}

// TestLife lives four lives by chance, 500 with PRELET_SWEEP=full, or with PRELET_SWEEP=10m as many as fit into that
// time. After every step the targets are all as before it or all as after it.
func TestLife(t *testing.T) {
	lives, end := 4, time.Time{}
	if sample.IsFull() {
		lives = 500
	}
	if d, err := time.ParseDuration(os.Getenv("PRELET_SWEEP")); err == nil {
		end = time.Now().Add(d)
	}

	lived, steps := 0, map[string]int{}
	const unfinishedFolder = 1315844515471045365 // a recovery that died too left a folder with the mode of mkdir
	if wrong := oneLife(t, unfinishedFolder, nil, steps); wrong != "" {
		t.Fatal(wrong)
	}
	for first := rand.Uint64(); lived < lives || time.Now().Before(end); lived++ {
		if wrong := oneLife(t, first+uint64(lived), nil, steps); wrong != "" {
			t.Fatal(wrong)
		}
	}
	t.Logf("%d lives: %v", lived, steps)
}

// TestLifeFindsForgottenFsyncs: lives that end well on a disk that keeps nothing would prove nothing.
func TestLifeFindsForgottenFsyncs(t *testing.T) {
	for name, ignore := range map[string]func(op, path string) bool{
		"all":         func(string, string) bool { return true },
		"generations": func(_, path string) bool { return strings.HasSuffix(path, "/generations") },
		"journal":     func(_, path string) bool { return strings.HasSuffix(path, "/journal.json.staged") },
		"awaiting":    func(_, path string) bool { return strings.HasSuffix(path, "/journal.json.tmp") },
		"temporaries": func(_, path string) bool { return strings.Contains(path, "/.prelet-") },
		"targets":     func(_, path string) bool { return strings.HasSuffix(path, "/kubernetes") },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed < 100; seed++ {
				if wrong := oneLife(t, seed, ignore, map[string]int{}); wrong != "" {
					t.Logf("%.120s", wrong)
					return
				}
			}
			t.Error("it was not noticed")
		})
	}
}

// oneLife lives one life, and says what went wrong in it.
func oneLife(t *testing.T, seed uint64, ignore func(op, path string) bool, steps map[string]int) string {
	w := &walk{box: newBox(t), t: t, r: rand.New(rand.NewPCG(seed, 7)), ignore: ignore}
	for i := range 3 {
		w.write(fmt.Sprintf("/etc/kubernetes/f%d", i), "before", 0o644)
	}
	for n := range 12 {
		how, wrong := w.step(n)
		if wrong != "" {
			return fmt.Sprintf("seed %d, step %d, %s: %s", seed, n, how, wrong)
		}
		steps[how]++
	}
	return ""
}

// paths that a site may declare: each is always of one kind, so that no site contradicts what is there.
var paths = []string{
	"/etc/kubernetes/f0",
	"/etc/kubernetes/f1",
	"/etc/kubernetes/f2",
	"/etc/kubernetes/d/f3",
	"/etc/kubernetes/d/e/f4",
	"/srv/a/b/f5",
	"/srv/f6",
}

func (w *walk) site(n int) Proposal {
	p := Proposal{
		PlanID: fmt.Sprint("plan ", n),
		Blobs:  map[string][]byte{"plan.json": fmt.Appendf(nil, `{"n":%d}`, n)},
	}
	for _, x := range paths {
		if w.r.IntN(3) == 0 {
			continue
		}
		t := Target{
			Path:       x,
			Kind:       File,
			Content:    fmt.Appendf(nil, "%d of %d", w.r.IntN(3), n/(1+w.r.IntN(1+n))),
			UID:        Keep,
			GID:        Keep,
			Mode:       []int{Keep, 0o600, 0o640, 0o644}[w.r.IntN(4)],
			Secret:     w.r.IntN(5) == 0,
			CreateOnly: w.r.IntN(8) == 0,
		}
		if w.r.IntN(20) == 0 {
			t.Content = []byte(strings.Repeat("x", 100_000))
		}
		if w.r.IntN(8) == 0 {
			t.Kind, t.Content = Absent, nil
		}
		p.Targets = append(p.Targets, t)
	}
	if w.r.IntN(2) == 0 {
		p.Targets = append(
			p.Targets,
			with(folderTarget("/etc/kubernetes/dir"), func(t *Target) { t.Mode = []int{0o755, 0o750}[w.r.IntN(2)] }),
		)
	}
	if w.r.IntN(3) == 0 {
		p.Unjudged = []byte(`{"why":"not judged"}`)
	}
	return p
}

// step does something by chance, and kills it by chance. how is what was done; wrong is what broke.
func (w *walk) step(n int) (how, wrong string) {
	if w.r.IntN(4) == 0 { // somebody edits
		w.write(
			[]string{"/etc/kubernetes/f0", "/etc/kubernetes/f1", "/etc/kubernetes/foreign"}[w.r.IntN(3)],
			fmt.Sprint("edited ", n),
			0o644,
		)
	}
	how, do := w.choose(n)
	old := nodes(w.look())
	model := w.copyTo(w.t, memory(w.t))
	s, hook := model.openHooked()
	count := &killAt{}
	*hook = count.hook
	err := do(s)
	s.Close()
	if errors.Is(err, ErrNothing) {
		return "nothing to do", ""
	}
	if err != nil {
		return how, err.Error()
	}
	want := nodes(model.look())

	done, err := w.killed(do, count.seen)
	if err != nil {
		return how, fmt.Sprintf("only when it is killed: %v", err)
	}
	how += map[bool]string{true: ", to its end", false: ", killed"}[done]
	if w.r.IntN(3) == 0 {
		how += ", recovery killed"
		if _, err := w.killed(func(s *Store) error { _, err := s.Recover(); return err }, 12); err != nil {
			return how, fmt.Sprintf("recovery: %v", err)
		}
	}
	return how, w.whole(done, old, want)
}

// killed does something that makes about so many operations, and ends it at one of them, or a little after the last;
// mostly the power goes as well.
func (w *walk) killed(do func(*Store) error, about int) (done bool, err error) {
	p := arm(w.box)
	p.ignore = w.ignore
	s, hook := w.openHooked()
	*hook = p.killAt(1 + w.r.IntN(about+about/4+1))
	err = do(s)
	*hook = nil
	s.Close()
	if w.r.IntN(3) > 0 {
		w.box = p.cut(memory(w.t), func() bool { return w.r.IntN(2) == 0 })
	}
	if errors.Is(err, errKilled) {
		return false, nil
	}
	return err == nil, err
}

// choose is the step, which may be done twice: on a copy, to see where it leads, and where it is killed.
func (w *walk) choose(n int) (how string, do func(*Store) error) {
	s := w.open()
	defer s.Close()
	all, err := s.List()
	must(w.t, err)
	site, good, keep := w.site(n), w.r.IntN(2) == 0, 1+w.r.IntN(3)
	switch dice := w.r.IntN(8); {
	case dice == 0 && len(all) > 0:
		return "collect", func(s *Store) error { return s.Collect(keep) }
	case dice < 3 && len(all) > 0:
		from, to, hold := all[len(all)-1].Gen, 0, w.r.IntN(2) == 0
		if earlier := all[:len(all)-1]; len(earlier) > 0 && w.r.IntN(3) > 0 {
			to = earlier[w.r.IntN(len(earlier))].Gen
		}
		return "rollback", func(s *Store) error { _, err := s.Rollback(from, to, "by chance", hold, nil); return err }
	}
	return "commit", func(s *Store) error {
		n, err := apply(s, site)
		if err == nil && good && site.Unjudged == nil {
			err = s.Good(n, nil)
		}
		return err
	}
}

// whole recovers, and says what is wrong with what is there then.
func (w *walk) whole(done bool, old, want map[string]node) string {
	s := w.open()
	defer s.Close()
	j, err := s.Recover()
	if err != nil {
		return fmt.Sprintf("recovery: %v", err)
	}
	if j != nil && j.Phase != PhaseVerify {
		return fmt.Sprintf("recovery left %+v", j)
	}
	switch now := nodes(w.look()); {
	case done && !same(now, want):
		return fmt.Sprintf("it was done, and is not new (I3):\nnow  %v\nwant %v", now, want)
	case !same(now, old) && !same(now, want):
		return fmt.Sprintf("a mixture (I1):\nnow  %v\nold  %v\nwant %v", now, old, want)
	}
	if l := w.litter(); l != nil {
		return fmt.Sprintf("left behind: %v (I6)", l)
	}
	all, err := s.List()
	if err != nil {
		return err.Error()
	}
	if a := s.FindAside(); a != nil {
		return a.String()
	}
	if len(all) == 0 {
		return ""
	}
	return incomplete(s)
}
