package faults

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/test/faults/scenario"
)

// stage is a scenario on a file system, ready to be killed again and again.
type stage struct {
	filesystem
	scenario.Scenario
	line   func(verb string, d *disk, run string) []string // the writer, or the real binary
	loose  bool                                            // it runs on several threads: a kill may miss
	missed int
	fresh  string // is only in what the step brings
	dir    string
	base   string // image of before the step
	before tree
	after  tree
	calls  []call // of the step from beginning to end
	commit int    // index of the call that makes the journal visible; 0 when there is none
	sure   int    // index of the call after which the journal is durable
}

// prepare makes the disk of before the step, does the step once to see where it leads, and reads its trace.
func prepare(t *testing.T, writer string, f filesystem, sc scenario.Scenario) *stage {
	t.Helper()
	s := &stage{filesystem: f, Scenario: sc, dir: scratch(t)}
	if !slices.ContainsFunc(s.Earlier, hasNewSecret) {
		s.fresh = scenario.NewSecret
	}
	s.program(writer)
	s.build(t)
	return s
}

// program makes a build of the writer do the steps.
func (s *stage) program(writer string) {
	s.line = func(verb string, d *disk, run string) []string { return []string{writer, verb, s.Name, d.root(), run} }
}

func (s *stage) build(t *testing.T) {
	t.Helper()
	s.base = filepath.Join(s.dir, "base.img")
	d := newDisk(t, s.filesystem, s.dir)
	d.format(t, d.image)
	s.boot(t, d)
	must(t, os.MkdirAll(d.root(), 0o755))
	if e := s.act(t, d, "prepare"); e.exit != 0 {
		t.Fatalf("prepare: got exit %d; want 0:\n%s", e.exit, e.output)
	}
	s.before = d.look(t)
	must(t, errors.Join(d.unmount(), copyImage(d.image, s.base), os.Rename(s.run(), s.run()+".before")))

	s.lay(t, d, s.base, true)
	var e ended
	var err error
	if s.loose { // as slow as the runs that follow: which thread does what is a matter of time
		s.calls, e, err = killedTraced(
			filepath.Join(s.dir, "trace"),
			call{name: "openat", nth: 60000},
			s.command("step", d)...)
	} else {
		s.calls, e, err = traced(filepath.Join(s.dir, "trace"), s.command("step", d)...)
	}
	if err != nil || e.exit != 0 || e.killed {
		t.Fatalf("the step by itself: exit %d, %v; want no error, exit 0 and not killed:\n%s", e.exit, err, e.output)
	}
	s.after = d.look(t)
	must(t, d.unmount())
	s.findCommit(t, d)
}

// run is the folder that is /run/prelet.
func (s *stage) run() string { return filepath.Join(s.dir, "run") }

func (s *stage) command(verb string, d *disk) []string { return s.line(verb, d, s.run()) }

// act carries out a command to its end.
func (s *stage) act(t *testing.T, d *disk, verb string) ended {
	t.Helper()
	c := s.command(verb, d)
	e, err := execute(c[0], c[1:]...)
	must(t, err)
	return e
}

// lay boots on a copy of an image; warm: with the run folder as it was.
func (s *stage) lay(t *testing.T, d *disk, image string, warm bool) {
	t.Helper()
	must(t, copyImage(image, d.image))
	s.boot(t, d)
	if warm {
		must(t, os.CopyFS(s.run(), os.DirFS(s.run()+".before")))
	}
}

// boot mounts the disk, with an empty run folder.
func (s *stage) boot(t *testing.T, d *disk) {
	t.Helper()
	must(t, errors.Join(os.RemoveAll(s.run()), os.MkdirAll(s.run(), 0o755), d.mount()))
}

// findCommit finds the call that makes the decision, and the one that makes it last. All that counts is on one thread:
// strace counts by thread.
func (s *stage) findCommit(t *testing.T, d *disk) {
	t.Helper()
	thread := ""
	for _, c := range s.calls {
		if !c.changes() || c.failed || !c.below(d.at) {
			continue
		}
		if thread == "" {
			thread = c.thread
		}
		if c.thread != thread && !s.loose {
			t.Fatalf("got a call of a second thread: %+v, want one thread", c)
		}
	}
	s.commit, s.sure = decision(s.calls)
	if !s.loose {
		s.calls = slices.DeleteFunc(s.calls, func(c call) bool { return c.thread != thread })
	}
}

// decision finds the call that makes the journal visible and the one that makes it durable; 0 when there is none.
func decision(calls []call) (commit, sure int) {
	for _, c := range calls {
		if c.failed {
			continue
		}
		if commit == 0 && strings.HasPrefix(c.name, "rename") &&
			strings.HasSuffix(c.paths()[1], stateDir+"/journal.json") {
			commit = c.index
		}
		if commit != 0 && sure == 0 && c.name == "fsync" && strings.HasSuffix(c.at(0), stateDir) {
			sure = c.index
		}
	}
	return commit, sure
}

// place is where in the traced run a killed one was: before COMMIT, after it, or where it was durable.
func (s *stage) place(calls []call) int {
	commit, sure := decision(calls)
	switch {
	case sure != 0:
		return s.sure + 1
	case commit != 0:
		return s.commit + 1
	}
	return s.commit
}

// points are the calls at which to kill: each one that changes something, and one after the last. With every, also
// those that only read.
func points(calls []call, dir string, every bool) (out []call) {
	for _, c := range calls {
		if c.below(dir) && (every || c.changes()) {
			out = append(out, c)
		}
	}
	if len(out) > 0 {
		out = append(out, call{name: "end", index: calls[len(calls)-1].index + 1})
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// verdicts on one point: what is broken, by invariant.
type broken []string

func (b *broken) add(format string, args ...any) { *b = append(*b, fmt.Sprintf(format, args...)) }

// outcome of a kill.
type outcome struct {
	done    bool   // it ended by itself
	crashed string // image of after the cut, before recovery
	key     string // of what is on that disk
	place   int    // where in the traced run it was killed
	broken  broken
}

// String names a call by its place.
func (c call) String() string {
	if c.name == "" {
		return "no call"
	}
	return fmt.Sprintf("call %d (%s %d)", c.index, c.name, c.nth)
}

// kill runs the step, kills it at a call, cuts the power if cut, recovers, and judges.
func (s *stage) kill(t *testing.T, d *disk, at call, cut bool) outcome {
	t.Helper()
	s.lay(t, d, s.base, true)
	k := at.index
	var e ended
	var err error
	if s.loose {
		for try := 0; try < 6 && !e.killed; try++ {
			if try > 0 {
				must(t, d.unmount())
				s.lay(t, d, s.base, true)
			}
			var calls []call
			calls, e, err = killedTraced(filepath.Join(s.dir, "killed"), at, s.command("step", d)...)
			must(t, err)
			k = s.place(calls)
			if at.nth == 0 {
				break
			}
		}
	} else {
		e, err = killedAt(at, s.command("step", d)...)
	}
	must(t, err)
	o := outcome{done: !e.killed, crashed: d.image + ".crashed", place: k}
	if o.done && at.nth != 0 && s.loose {
		s.missed++
	} else if o.done && (e.exit != 0 || at.nth != 0) {
		o.broken.add("it was not killed: exit %d: %s", e.exit, e.output)
	}
	s.alive(t, d, k, &o.broken)
	if cut {
		must(t, errors.Join(d.cut(), copyImage(d.image, o.crashed)))
		s.boot(t, d)
	}
	crashed := d.look(t)
	o.key = fmt.Sprintf("%x", sha256.Sum256([]byte(crashed.state())))
	s.recovered(t, d, k, o.done, &o.broken)
	must(t, d.unmount())
	return o
}

// alive judges what everybody sees at the moment of the kill.
func (s *stage) alive(t *testing.T, d *disk, k int, b *broken) {
	t.Helper()
	now := d.look(t)
	was, want, have := s.before.targets(), s.after.targets(), now.targets()
	for p, n := range have {
		if temporary.MatchString(p) || n.mode.IsDir() {
			continue
		}
		if old, isOld := was[p]; isOld && old == n {
			continue
		}
		if next, isNew := want[p]; isNew && next == n {
			continue
		}
		b.add("I2: %s is neither old nor new", p)
	}
	for p := range was {
		_, stays := want[p]
		if _, there := have[p]; stays && !there {
			b.add("I2: %s is not there", p)
		}
	}
	if k <= s.commit {
		s.untouched(now, b)
	}
	s.gate(have, b)
}

// gate: where the kubelet may start, every target is of one generation (I4).
func (s *stage) gate(have map[string]node, b *broken) {
	if _, err := os.Stat(filepath.Join(s.run(), "kubelet.env")); err != nil {
		return
	}
	for p := range have {
		if temporary.MatchString(p) {
			delete(have, p)
		}
	}
	if whole(have, s.before.targets()) != "" && whole(have, s.after.targets()) != "" {
		b.add("I4: the gate is open on a mixture:\n%s", whole(have, s.after.targets()))
	}
}

// whole describes how the files of a tree differ from those of another. Folders that are made or left on the way do not
// count.
func whole(have, want map[string]node) string {
	files := func(m map[string]node) map[string]node {
		out := map[string]node{}
		for p, n := range m {
			if !n.mode.IsDir() {
				out[p] = n
			}
		}
		return out
	}
	return differ(files(have), files(want))
}

// untouched: each file of before is the same inode with the same times (I8).
func (s *stage) untouched(now tree, b *broken) {
	for p, n := range s.before {
		if !ours(p) && n.mode.IsRegular() && now[p] != n {
			b.add("I8: %s was touched before COMMIT", p)
		}
	}
}

// recovered recovers and judges the end.
func (s *stage) recovered(t *testing.T, d *disk, k int, done bool, b *broken) {
	t.Helper()
	e := s.act(t, d, "recover")
	if e.exit != 0 {
		b.add("recovery: exit %d: %s", e.exit, e.output)
		return
	}
	now := d.look(t)
	s.judge(now, k, done, b)
	s.gate(now.targets(), b)

	e = s.act(t, d, "recover")
	again := d.look(t)
	if e.exit != 0 || !maps.Equal(now, again) {
		b.add(
			"I5: a second recovery (exit %d) finds something to do:\n%s",
			e.exit,
			differ(nodesOf(now), nodesOf(again)),
		)
	}
	s.lasts(t, d, now, k, done, b)
	if e = s.act(t, d, "step"); e.exit != 0 {
		b.add("the next run: exit %d: %s", e.exit, e.output)
		return
	}
	last := d.look(t)
	if x := differ(last.targets(), s.after.targets()); x != "" {
		b.add("the next run does not finish it:\n%s", x)
	}
	s.secrets(last, b)
}

// lasts cuts the power again: what recovery has done is done (I3).
func (s *stage) lasts(t *testing.T, d *disk, now tree, k int, done bool, b *broken) {
	t.Helper()
	must(t, d.cut())
	s.boot(t, d)
	left := d.look(t)
	if x := differ(left.targets(), now.targets()); x != "" {
		b.add("I3: what recovery did goes with the power:\n%s", x)
	}
	if e := s.act(t, d, "recover"); e.exit != 0 {
		b.add("recovery after a second cut: exit %d: %s", e.exit, e.output)
		return
	}
	s.judge(d.look(t), k, done, b)
}

// judge compares a recovered tree with the invariants. k is the call at which the step was killed.
func (s *stage) judge(now tree, k int, done bool, b *broken) {
	was, want, have := s.before.targets(), s.after.targets(), now.targets()
	old, next := differ(have, was), differ(have, want)
	switch {
	case old != "" && next != "":
		b.add("I1: a mixture; against new:\n%s\nagainst old:\n%s", next, old)
	case done && next != "":
		b.add("I3: it was done, and is lost:\n%s", next)
	case k <= s.commit && old != "":
		b.add("I1: not committed, and new:\n%s", old)
	case s.sure != 0 && k > s.sure && next != "":
		b.add("I1: committed, and old:\n%s", next)
	}
	if l := now.litter(); l != nil {
		b.add("I6: left behind %v", l)
	}
	if next != "" && s.fresh != "" {
		if in := now.holding(s.fresh); in != nil {
			b.add("I6: the secret of what was not committed is in %v", in)
		}
	}
	for p, n := range s.before { // what the step does not write is the same inode as ever (I7)
		if !ours(p) && n.mode.IsRegular() && (s.after[p] == n || next != "" && k <= s.commit) && now[p] != n {
			b.add("I7: %s was touched", p)
		}
	}
}

// secrets: what a generation that is gone held is gone.
func (s *stage) secrets(now tree, b *broken) {
	for _, canary := range []string{scenario.OldSecret, scenario.NewSecret} {
		if s.after.holding(canary) == nil && now.holding(canary) != nil {
			b.add("I6: %s is still in %v", canary, now.holding(canary))
		}
	}
}

func nodesOf(t tree) map[string]node {
	out := map[string]node{}
	for p, n := range t {
		out[p] = n.node
	}
	return out
}

// sweep kills at points of a step. Of each disk that a cut leaves and that was not seen before, the recovery is
// killed too, at every stride-th of its calls; 0: not at all.
func (s *stage) sweep(t *testing.T, at []call, stride int) {
	t.Helper()
	d := newDisk(t, s.filesystem, s.dir)
	offset := sampleOffset()
	seen := map[string]bool{}
	for i, k := range at {
		o := s.kill(t, d, k, true)
		s.report(t, k, call{}, o.broken)
		if !seen[o.key] && !o.done {
			seen[o.key] = true
			if stride > 0 {
				k.index = o.place
				s.twice(t, d, k, o.crashed, stride, offset+len(seen))
			}
		}
		if i%5 == 4 { // without a cut the page cache has it all
			s.report(t, k, call{}, s.kill(t, d, k, false).broken)
		}
	}
	summary.add(func(y *tally) { y.states += len(seen) })
	summary.on(s.filesystem.name)
}

func (s *stage) report(t *testing.T, k, r call, b broken) {
	t.Helper()
	summary.add(func(y *tally) {
		y.points++
		y.broken += len(b)
		if r.name != "" {
			y.twice++
		}
	})
	for _, x := range b {
		t.Errorf("%s on %s, killed at %s %s, recovery at %s: %s", s.Name, s.filesystem.name, k, s.short(k), r, x)
	}
}

// short is what a call was about, without the folder of the test.
func (s *stage) short(c call) string {
	return strings.ReplaceAll(strings.Join(c.paths(), " "), s.dir, "")
}

// twice kills the recovery of a crashed disk at its calls, cuts the power again, and recovers.
func (s *stage) twice(t *testing.T, d *disk, k call, crashed string, stride, offset int) {
	t.Helper()
	kept := filepath.Join(s.dir, "twice.img")
	must(t, copyImage(crashed, kept))
	s.lay(t, d, kept, false)
	calls, e, err := traced(filepath.Join(s.dir, "trace2"), s.command("recover", d)...)
	must(t, errors.Join(err, d.unmount()))
	if e.exit != 0 {
		return // already reported
	}
	for i, r := range points(calls, d.at, false) {
		if (i+offset)%stride != 0 {
			continue
		}
		s.lay(t, d, kept, false)
		e, err := killedAt(r, s.command("recover", d)...)
		must(t, err)
		var b broken
		if !e.killed && r.nth != 0 && !s.loose {
			b.add("it was not killed: exit %d: %s", e.exit, e.output)
		}
		s.alive(t, d, k.index, &b)
		if r.index%2 == 0 { // else only the process is gone, and the next one finds what it had in memory
			must(t, d.cut())
			s.boot(t, d)
		}
		s.recovered(t, d, k.index, false, &b)
		must(t, d.unmount())
		s.report(t, k, r, b)
	}
}

func hasNewSecret(p generation.Proposal) bool {
	return slices.ContainsFunc(
		p.Targets,
		func(t generation.Target) bool { return strings.Contains(string(t.Content), scenario.NewSecret) },
	)
}

// TestSweep is the sweep on ext4, whose one journal loses all that was not fsynced.
func TestSweep(t *testing.T) {
	sweepOn(t, filesystems[0], density{stride: 3, recovery: 15})
}

// density is how much of a step a sweep tries: each stride-th point, also those that change nothing if every is set.
// recovery is the stride of the kills of the recovery.
type density struct {
	stride, recovery int
	every            bool
}

// chooseDensity returns quick for every change. The nightly sweep takes each point that changes something and three
// times as many kills of the recovery; the full one takes everything.
func chooseDensity(quick density) density {
	switch os.Getenv(sweepMode) {
	case "full":
		return density{stride: 1, recovery: 1, every: true}
	case "nightly":
		return density{stride: 1, recovery: quick.recovery / 3}
	default:
		return quick
	}
}

// sampleOffset moves the samples by one each day, so that all points are tried in time. The message of a failure names
// its points, and the full sweep has them all.
func sampleOffset() int {
	return time.Now().YearDay()
}

// sweepOn sweeps every scenario.
func sweepOn(t *testing.T, f filesystem, quick density) {
	f.needed(t)
	writer := build(t, "writer", "./writer")
	chosen := chooseDensity(quick)

	for i, sc := range scenario.All() {
		t.Run(f.name+"/"+sc.Name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, writer, f, sc)
			at := points(s.calls, s.dir, chosen.every)

			var pick []call
			for n, k := range at {
				if (n+i+sampleOffset())%chosen.stride == 0 || n == len(at)-1 {
					pick = append(pick, k)
				}
			}

			s.sweep(t, pick, chosen.recovery)
			t.Logf("%d of %d calls", len(pick), len(s.calls))
		})
	}
}
