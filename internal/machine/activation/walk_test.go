package activation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/script"
)

// story is a series of events on a node with its expected end. The process may be killed at any step of act. Then
// everything that systemd starts again is started again, and the end must be the same.
type story struct {
	name                            string
	prepare, act, afterKill, finish []script.Line
	config                          string   // in both files at the end
	end                             []string // words, see testdata/stories.txtar
}

const shutState = "shut"

// mustRun runs a site and fails on an error.
func (n *node) mustRun(config string) {
	_, err := n.runSite(n.t.Context(), config)
	n.mustSucceed(err, "run of "+config)
}

// enterMachine calls one method of the machine.
func (n *node) enterMachine(what string, do func(m *StateMachine) (Outcome, error)) {
	_, err := n.process(do)
	n.mustSucceed(err, what)
}

// loadStories returns the stories of a file in testdata. Those of stories.txtar use every row of the table.
func loadStories(t testing.TB, file string) (stories []story) {
	t.Helper()
	for _, text := range script.Load(t, filepath.Join("testdata", file)) {
		parts, words := script.Parts(text.Lines)
		s := story{
			name: text.Name, prepare: parts[""], act: parts["act"], afterKill: parts["after-kill"], finish: parts["finish"],
		}
		for part := range words {
			if !slices.Contains([]string{"act", "after-kill", "finish", "end"}, part) {
				t.Fatalf("%s: got the part %s, want act, after-kill, finish or end", s.name, part)
			}
		}
		if end := words["end"]; len(end) > 0 {
			s.end, s.config = end[1:], cmp.Or(contents[end[0]], end[0])
		}
		if s.afterKill == nil {
			s.afterKill = s.act
		}
		if len(s.act) == 0 || s.end == nil {
			t.Fatalf("%s: got %d lines of act and the end %q, want both", s.name, len(s.act), s.end)
		}
		stories = append(stories, s)
	}

	return stories
}

// allStories returns those of the kubelet and those of another unit.
func allStories(t testing.TB) []story {
	return append(loadStories(t, "stories.txtar"), loadStories(t, "stories_of_units.txtar")...)
}

// is reports whether the end of a story has this word.
func (s story) is(word string) bool { return slices.Contains(s.end, word) }

// states are the ways to a generation that is settled, awaits its verdict, or awaits the one of a rollback; contents is
// the content of its files.
var (
	states = map[string]string{
		"settled":   "boot one ; run two",
		"pending":   "boot one ; cluster unreachable ; run two ; cluster reachable",
		"returning": "boot one ; cluster unreachable ; run two healthz=bad ; cluster reachable",
	}
	contents = map[string]string{"settled": "two", "pending": "two", "returning": "one"}
)

// newest returns the number of the generation in place.
func (n *node) newest() (gen int) {
	n.enterMachine("current", func(m *StateMachine) (Outcome, error) {
		current, err := m.Store.Current()
		if current != nil {
			gen = current.Gen
		}

		return Outcome{}, err
	})

	return gen
}

// guardSteps returns a hook that checks at each step that no kubelet can read files of two generations.
func (n *node) guardSteps(then func(step, bool)) func(step, bool) {
	return func(s step, after bool) {
		isOfKubelet := n.ntp == "" // else the kubelet goes on: only the other unit reads what changes
		changes := !after && isOfKubelet && slices.Contains([]step{publish, complete, restore}, s)
		if changes && (n.readGate() != "" || isAlive(n.systemd.unit) && (s == restore || n.changesFile())) {
			n.t.Errorf("%s: files change while the gate says %q and the kubelet is %s; want a shut gate and a stopped kubelet",
				stepNames[s], n.readGate(),
				n.systemd.unit.Active)
		}

		if after && s == stop && n.readGate() != "" {
			n.t.Errorf("the kubelet was stopped while the gate says %q: it may start again; want it shut", n.readGate())
		}

		if after && s == openGate && n.systemd.reloads < n.systemd.unread {
			n.t.Error("the gate is open, and systemd has not read a unit file")
		}

		if after && n.unitFiles && slices.Contains([]step{publish, complete, restore}, s) {
			n.systemd.unread = n.systemd.reloads + 1
		}

		if then != nil {
			then(s, after)
		}
	}
}

// changesFile reports whether the commit in the journal changes a file.
func (n *node) changesFile() bool {
	j, err := n.store.Journal()
	if err != nil || j == nil {
		n.t.Fatalf("the journal during a commit: got %v, %v; want one", j, err)
	}
	info, _ := n.store.Info(j.Gen)

	return slices.ContainsFunc(info.Entries, generation.Entry.HasChange)
}

// checkRunning checks whether the kubelet runs right after act: only prelet starts it.
func (n *node) checkRunning(s story) {
	gate := n.readGate()
	if (gate == "") != s.is(shutState) || s.is("gate=0") && gate != gateVariable+"0" {
		n.t.Errorf("the gate says %q; want it as in %q", gate, s.end)
	}

	if running := n.systemd.unit.Active == "active"; running == s.is("idle") {
		n.t.Errorf("the kubelet is %s/%s; want it to run: %t", n.systemd.unit.Active, n.systemd.unit.Sub, !s.is("idle"))
	}
}

// checkCounted checks that this boot counts as a try if the kubelet may have started on a generation that awaits its
// verdict. prelet=off counts nothing.
func (n *node) checkCounted(at string) {
	if j := n.journal(); j != nil && j.Phase == generation.PhaseVerify && n.readGate() != "" && !n.off &&
		j.BootID != n.boot {
		n.t.Errorf("a power cut %s: the gate is open on generation %d, and got no count of the boot, want one",
			at, j.Gen)
	}
}

// hasMark reports whether the mark for prelet-verify.service exists.
func (n *node) hasMark() bool {
	_, err := os.Stat(filepath.Join(n.run, pendingFile))

	return err == nil
}

// spoilMark removes the mark, or leaves one that is wrong, as somebody who empties or copies the run folder does.
func (n *node) spoilMark() {
	must(n.t, (Gate{Dir: n.run, BootID: n.boot}).SetPending(!n.hasMark()))
}

// checkEnd checks the end of a story.
func (n *node) checkEnd(s story) {
	if j := n.journal(); n.readGate() != "" && n.hasMark() != (j != nil) {
		n.t.Errorf("the gate is open, and the mark for prelet-verify.service exists: %t; want it while a generation awaits "+
			"its verdict: %t", n.hasMark(), j != nil)
	}

	config, flags := s.config, s.config
	if rest, edited := strings.CutSuffix(s.config, " by hand"); edited {
		config, flags = rest, "by hand"
	}

	if rest, retired := strings.CutSuffix(s.config, " "); retired {
		config, flags = rest, ""
	}

	if n.read(configPath) != config || n.read(flagsPath) != flags {
		n.t.Errorf("the files are %q and %q; want %q and %q", n.read(configPath), n.read(flagsPath), config, flags)
	}

	n.checkRunning(s)

	if gate := n.readGate(); !s.is(shutState) && s.config != "" && gate != fmt.Sprintf("%s%d", gateVariable, n.newest()) {
		n.t.Errorf("the gate says %q, and generation %d is in place; want the gate open on that generation",
			gate, n.newest())
	}

	if j := n.journal(); (j != nil) != s.is("awaits") {
		n.t.Errorf("the journal is %+v; want one: %t", j, s.is("awaits"))
	}

	if !s.is(shutState) && (Gate{Dir: n.run, BootID: n.boot}).IsOwed(DefaultUnit) {
		n.t.Error("a start is owed")
	}
}

// playOptions contains how to play a story.
type playOptions struct {
	rows   []row     // nil: the table
	moment func()    // called at each moment; may be nil
	killAt int       // end the process at this moment: before each step, and after the last one of all; 0: never
	killIn string    // only moments in this row count; "": in any
	reboot bool      // a kill is a power cut
	events bool      // the moments are the events, in place of the steps
	seen   func(row) // called with each row; may be nil
}

// play plays a story and returns the moment of the kill: the row, and before or after which step; "" when there are
// fewer moments.
func (s story) play(t testing.TB, how playOptions) (at string) {
	n := newNode(t)
	n.rows = how.rows

	var now row

	n.seen = func(r row) {
		now = r
		if how.seen != nil {
			how.seen(r)
		}
	}
	n.Play(s.prepare)

	moment := 0
	pass := func(x step, after bool, event string) {
		if how.killIn != "" && describeRow(now) != how.killIn {
			return
		}

		if how.moment != nil {
			how.moment()
		}

		if moment++; moment == how.killAt {
			at = momentOf(now, x, after) + event
			panic(killed{report.Event{Stage: at}})
		}
	}
	current := sweep
	n.step = n.guardSteps(func(x step, after bool) {
		current = x
		isMoment := !after || endsWith(now, x) // else it is the same moment as before the next step
		if isMoment && !how.events {
			pass(x, after, "")
		}
	})
	if how.events {
		n.onNote = func(e report.Event) { pass(current, false, ", at the event "+e.Stage+" "+e.State) }
	}
	n.maybeKilled(func() { n.Play(s.act) })
	n.onNote = nil

	if how.killAt == 0 {
		n.checkCounted("after it")

		if !s.is("late") {
			n.checkRunning(s)
		}
	}

	if how.killAt > 0 && at == "" {
		return ""
	}

	n.step = n.guardSteps(nil)
	if at != "" {
		if how.reboot {
			n.checkCounted(at)

			if !s.is("rebooted") {
				return at
			}

			n.reboot()
		} else {
			n.clk.advance(time.Second) // RestartSec=1
		}

		n.Play(s.afterKill)

		if how.reboot && n.systemd.insidePrelet {
			n.finishPrelet()
		}
	}

	n.clk.advance(15 * time.Second) // a kubelet that waits at the gate tries again meanwhile

	if !s.is("idle") {
		n.spoilMark()
		n.verify()
	}

	n.Play(s.finish)

	n.clk.advance(time.Second)
	n.checkEnd(s)

	return at
}

// countMoments returns the number of moments at which the process can be killed.
func (s story) countMoments(t testing.TB, events bool) (n int) {
	s.record(t, playOptions{moment: func() { n++ }, events: events})

	return n
}

// endsWith reports whether a step is the last one of a walk. After any other step the disk is the same as before the
// next step, because a process only reads between them.
func endsWith(r row, s step) bool { return r.Then == done && s == r.Do[len(r.Do)-1] }

// momentOf returns the description of the moment before or after a step of a row.
func momentOf(r row, s step, after bool) string {
	side := "before"
	if after {
		side = "after"
	}

	return fmt.Sprintf(
		"%s %s of %s, %s, %s", side, stepNames[s], joinNames(phaseNames, r.In), joinNames(triggerNames, r.On),
		factName(r.When),
	)
}

// recorder is a test that records its failures and continues.
type recorder struct {
	testing.TB
	wrong   []string
	cleanup []func()
}

type gaveUp struct{}

func (r *recorder) Errorf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any)                 { r.wrong = append(r.wrong, fmt.Sprint(args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); panic(gaveUp{}) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); panic(gaveUp{}) }
func (r *recorder) Cleanup(do func())                 { r.cleanup = append(r.cleanup, do) }

// record plays a story and returns its failures, including a panic.
func (s story) record(t testing.TB, how playOptions) (at string, wrong []string) {
	r := &recorder{TB: t}
	defer func() {
		for _, do := range r.cleanup {
			do()
		}

		wrong = r.wrong
	}()
	defer func() {
		if p := recover(); p != nil && p != (gaveUp{}) {
			r.Errorf("panic: %v", p)
		}
	}()

	return s.play(r, how), nil
}

// TestStories plays every story over the table with one row for each phase and trigger: each row is in a story, or is
// listed as unused. Then a change of a row must break a story that uses it: see checkMutants.
func TestStories(t *testing.T) {
	through := map[string][]story{}
	long := map[string]int{} // number of rows by a story's name

	for _, s := range loadStories(t, "stories_of_units.txtar") {
		t.Run(s.name, func(t *testing.T) { s.play(t, playOptions{}) })
	}

	for _, s := range loadStories(t, "stories.txtar") {
		seen := map[string]bool{}

		t.Run(s.name, func(t *testing.T) {
			s.play(t, playOptions{rows: expand(table), seen: func(r row) {
				seen[describeRow(r)], seen[describePair(r)] = true, true
				long[s.name]++
			}})
		})

		for r := range seen {
			through[r] = append(through[r], s)
		}
	}

	for _, list := range through {
		slices.SortStableFunc(list, func(a, b story) int { return long[a.name] - long[b.name] })
	}

	for _, r := range expand(table) {
		if _, listed := unused[describeRow(r)]; r.Never == "" && listed == (len(through[describeRow(r)]) > 0) {
			t.Errorf("%s: used by %d stories, listed as unused: %t; want exactly one of both",
				describeRow(r), len(through[describeRow(r)]), listed)
		}
	}

	t.Run("mutants", func(t *testing.T) { checkMutants(t, through) })
}

// TestKilledAtEveryStep kills each story before each step and after the last of all, lets systemd start again what it
// starts again, and expects the same end. A second kill at the same moment is a power cut: the boot must have counted
// as a try. A sample of the moments is tried; of all moments, each of every row must occur.
func TestKilledAtEveryStep(t *testing.T) {
	chosen := sample.New(t)

	var mutex sync.Mutex

	killed := map[string]bool{}

	t.Run("stories", func(t *testing.T) {
		for _, s := range allStories(t) {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()

				for _, how := range []playOptions{{}, {reboot: true}, {events: true}, {events: true, reboot: true}} {
					if how.events && !s.is("events") || !chosen.Has(sample.Quarter(4), s.name, how.events, how.reboot) {
						continue // counting costs as much as a kill
					}
					first, step := chosen.OneIn(3, s.name)
					count := s.countMoments(t, how.events)
					for how.killAt = 1 + first; how.killAt <= count; how.killAt += step {
						at, wrong := s.record(t, how)
						for _, w := range wrong {
							t.Errorf("killed %s (moment %d, power cut %t): %s; want the outcome of the story without the kill",
								at, how.killAt, how.reboot, w)
						}

						mutex.Lock()
						killed[at] = true
						mutex.Unlock()
					}
				}
			})
		}
	})

	if !sample.IsFull() {
		return
	}

	for _, r := range table {
		if _, isUnused := unused[describeRow(r)]; isUnused {
			continue
		}

		for _, s := range r.Do {
			if at := momentOf(r, s, false); !killed[at] {
				t.Errorf("no process was killed %s; want a kill at each moment", at)
			}

			if at := momentOf(r, s, true); endsWith(r, s) && !killed[at] {
				t.Errorf("no process was killed %s; want a kill at each moment", at)
			}
		}
	}
}

// expand returns a table with the same meaning and one row for each phase and trigger.
func expand(rows []row) (out []row) {
	for _, r := range rows {
		for _, p := range r.In {
			for _, on := range r.On {
				one := r
				one.In, one.On = []phase{p}, []Trigger{on}
				out = append(out, one)
			}
		}
	}

	return out
}

func describeRow(r row) string {
	return fmt.Sprintf("%s, %s, %s", joinNames(phaseNames, r.In), joinNames(triggerNames, r.On), factName(r.When))
}

func describePair(r row) string {
	return joinNames(phaseNames, r.In) + ", " + joinNames(triggerNames, r.On)
}

// mutant is the expanded table with one change.
type mutant struct {
	name string
	rows []row
	key  string // the row that is changed
	in   string // the row or the pair that is changed: only stories that use it can notice
	row  row    // as it is after the change
}

// mutants returns expanded tables in which a row lacks a step or its condition, has two steps the other way round,
// comes after the next row of its pair, is missing, or continues where it should end, or the other way round.
func mutants() (out []mutant) {
	whole := expand(table)
	change := func(i int, what, in string, do func(r *row)) {
		rows := slices.Clone(whole)
		rows[i].Do = slices.Clone(rows[i].Do)
		do(&rows[i])
		out = append(out, mutant{what + ": " + describeRow(whole[i]), rows, describeRow(whole[i]), in, rows[i]})
	}

	for i, r := range whole {
		if r.Never != "" {
			continue
		}

		key, pair := describeRow(r), describePair(r)
		for j, s := range r.Do {
			change(i, "without "+stepNames[s], key, func(r *row) { r.Do = slices.Delete(r.Do, j, j+1) })

			if j > 0 {
				what := fmt.Sprintf("%s before %s", stepNames[s], stepNames[r.Do[j-1]])
				change(i, what, key, func(r *row) { r.Do[j-1], r.Do[j] = r.Do[j], r.Do[j-1] })
			}
		}

		change(i, "missing", key, func(r *row) { r.In = nil })

		if r.When != nil {
			change(i, "without its condition", pair, func(r *row) { r.When = nil })
		}

		after := slices.IndexFunc(whole[i+1:], func(x row) bool { return describePair(x) == pair })
		if after >= 0 && whole[i+1+after].When != nil {
			change(i, "after the next", pair, func(*row) {})
			rows := out[len(out)-1].rows
			rows[i], rows[i+1+after] = rows[i+1+after], rows[i]
		}

		if r.Then == done {
			change(i, "goes on", key, func(r *row) { r.Then = OnResume })
		} else {
			change(i, "ends", key, func(r *row) { r.Then = done })
		}
	}

	return out
}

// surviving contains the mutants that no story detects, each with the reason why the row is in the table.
var surviving = map[string]string{
	"without preflight: returning, change, ":             looksAgain,
	"without preflight: pending, change, ":               looksAgain,
	"without preflight: none, change, ":                  looksAgain,
	"stage before preflight: returning, change, ":        stagedIsRemoved,
	"stage before preflight: pending, change, ":          stagedIsRemoved,
	"stage before preflight: none, change, ":             stagedIsRemoved,
	"without its condition: none, verify, open":          "the row below, or one of a hold, says the same of a shut gate",
	"after the next: none, no site, open":                exclusive,
	"goes on: returning, verify, held":                   heldToo,
	"goes on: returning, no site, held":                  heldToo,
	"missing: returning, no site, held":                  heldToo,
	"goes on: returning, failed, held":                   heldToo,
	"missing: returning, failed, held":                   heldToo,
	"goes on: returning, unchanged, held":                heldToo,
	"missing: returning, unchanged, held":                heldToo,
	"goes on: pending, verify, held":                     heldToo,
	"after the next: returning, verify, held":            exclusive,
	"goes on: pending, no site, held":                    heldToo,
	"missing: pending, no site, held":                    heldToo,
	"goes on: pending, failed, held":                     heldToo,
	"missing: pending, failed, held":                     heldToo,
	"goes on: pending, unchanged, held":                  heldToo,
	"missing: pending, unchanged, held":                  heldToo,
	"after the next: pending, verify, held":              exclusive,
	"goes on: settled, verify, held":                     heldToo,
	"after the next: pending, resume, held":              exclusive,
	"goes on: settled, no site, held":                    heldToo,
	"missing: settled, no site, held":                    heldToo,
	"goes on: settled, failed, held":                     heldToo,
	"missing: settled, failed, held":                     heldToo,
	"goes on: settled, unchanged, held":                  heldToo,
	"after the next: settled, unchanged, held":           exclusive,
	"missing: settled, unchanged, held":                  heldToo,
	"goes on: none, verify, held":                        heldToo,
	"after the next: none, verify, held":                 exclusive,
	"goes on: none, no site, held":                       heldToo,
	"after the next: none, no site, held":                exclusive,
	"goes on: none, failed, held":                        heldToo,
	"after the next: none, failed, held":                 exclusive,
	"goes on: none, unchanged, held":                     heldToo,
	"after the next: settled, verify, held":              exclusive,
	"after the next: none, verify, shut on purpose":      exclusive,
	"missing: none, verify, shut on purpose":             "the row below reports the same",
	"goes on: returning, no site, open":                  "it would judge, as prelet-verify does later",
	"goes on: returning, failed, open":                   "it would judge, as prelet-verify does later",
	"goes on: pending, no site, open":                    "it would judge, as prelet-verify does later",
	"goes on: pending, failed, open":                     "it would judge, as prelet-verify does later",
	"goes on: settled, no site, open":                    nothingToDo,
	"goes on: settled, failed, open":                     nothingToDo,
	"after the next: settled, no site, may go on":        exclusive,
	"after the next: settled, failed, may go on":         exclusive,
	"without note pending: none, failed, open":           verifyNotes,
	"without note pending: none, no site, open":          verifyNotes,
	"without note pending: returning, verify, open":      "no story ends while a way back awaits its verdict",
	"after the next: settled, verify, shut on purpose":   exclusive,
	"after the next: pending, verify, shut on purpose":   exclusive,
	"after the next: returning, verify, shut on purpose": exclusive,
	"goes on: none, failed, ":                            noGeneration,
	"goes on: settled, verify, ":                         nothingToDo,
	"close as good before retire: returning, good, ":     "no story goes back to a generation with files to retire",
	"goes on: none, failed, open":                        noGeneration,
	"goes on: none, no site, ":                           noGeneration,
	"goes on: none, no site, open":                       noGeneration,
	"goes on: none, off, ":                               noGeneration,
	"goes on: none, unchanged, ":                         noGeneration,
	"goes on: none, verify, open":                        noGeneration,
	"goes on: pending, good, ":                           nothingToDo,
	"goes on: returning, bad, ":                          nothingToDo,
	"goes on: returning, good, ":                         nothingToDo,
	"goes on: settled, off, ":                            nothingToDo,
	"goes on: settled, superseded, ":                     nothingToDo,
	"goes on: settled, verify, open":                     nothingToDo,
	"missing: none, no site, open":                       "the row below opens a gate that is open",
	"reload before sweep: pending, finish, ":             "they are independent",
	"reload before sweep: returning, finish, ":           "they are independent",
	"without count try: returning, judge, may wait":      "only a pending generation is rolled back for its tries",
	"without publish: mixed, committed, ":                "what follows finds it interrupted, and completes it",
	"without its condition: pending, bad, open":          "the row below is for a unit next to the kubelet: TestScripts/units",
	"without retire: returning, good, ":                  "no story goes back to a generation with files to retire",
	"without uncount try: returning, unknown, ":          "only a pending generation is rolled back for its tries",
}

// unused contains the expanded rows that no story uses, each with the reason.
var unused = map[string]string{
	"returning, superseded, has too many rounds": "as on pending: the row has both phases",
	"none, no site, was mixture":                 "TestWaysToGate has a state that was set aside as a mixture",
	"none, verify, ":                             "of a run folder that somebody has emptied, without a generation: WhyLost says what to do",
	"pending, bad, ":                             "it needs a unit next to the kubelet: TestScripts/units",
	"settled, finish, ":                          notRead,
	"settled, change, ":                          notRead,
	"mixed, resume, ":                            finishedFirst,
	"mixed, unchanged, ":                         finishedFirst,
	"mixed, off, ":                               finishedFirst,
	"mixed, verify, ":                            finishedFirst,
	"mixed, rollback, ":                          finishedFirst,
	"mixed, no site, ":                           finishedFirst,
}

const (
	notRead       = "the generation in place is not read for this trigger: the phase is none"
	finishedFirst = "every caller finishes first, under the same lock; the row is for one that does not"
)

// verifyNotes: whatever a run leaves as the mark, the look at the end of each story puts it right.
const verifyNotes = "prelet-verify.service, which ends each story, notes it, too"

// exclusive: what the second row asks for is false, or is not read, where the first one's is true.
const exclusive = "only one of the two can be true"

// looksAgain: the first look is there so that a refused run writes nothing, as cmd/prelet's script no_systemd_at_boot
// has it.
const looksAgain = "commit looks again"

// stagedIsRemoved: a refused change leaves nothing.
const stagedIsRemoved = "Enter removes the staged files of a change that is refused"

// heldToo: a hold of the site is asked for again before the gate opens.
const heldToo = "resume, which follows, is held, too"

// nothingToDo: on a settled node whose gate is open there is nothing to do.
const nothingToDo = "the row for it finds the gate open and no start owed, and does nothing"

// noGeneration: without a generation, to continue is to open the gate, and to request a start that is due.
const noGeneration = "the gate is open already or on purpose, and no start is due that was not requested"

// checkMutants: each change of a row breaks a story, or a story that is killed in this row, with or without a power cut.
// Only stories that use the row are played. A sample of the mutants is tried, without those that survive.
func checkMutants(t *testing.T, through map[string][]story) {
	t.Helper()
	chosen := sample.New(t)

	for _, m := range mutants() {
		if _, listed := unused[m.key]; listed {
			continue
		}

		if _, listed := surviving[m.name]; listed && !sample.IsFull() || !chosen.Has(16, m.name) {
			continue
		}

		t.Run(m.name, func(t *testing.T) {
			t.Parallel()

			why, listed := surviving[m.name]
			by, wrong := m.detect(t, through[m.in])

			switch {
			case listed && wrong != "":
				t.Errorf("it is listed to survive (%s), and %q finds it: %s; want it to survive", why, by, wrong)
			case !listed && wrong == "":
				t.Error("no story finds it")
			}
		})
	}

	for name := range surviving {
		if !slices.ContainsFunc(mutants(), func(m mutant) bool { return m.name == name }) {
			t.Errorf("%q is listed to survive, and there is no such mutant; want only existing ones", name)
		}
	}
}

// detect returns the first story that the mutant breaks, and what went wrong.
func (m mutant) detect(t testing.TB, through []story) (by, wrong string) {
	for _, s := range through {
		if _, wrong := s.record(t, playOptions{rows: m.rows}); len(wrong) > 0 {
			return s.name, wrong[0]
		}
	}

	for i, s := range through {
		if i >= killedStories && !s.is("single") && !sample.IsFull() {
			continue
		}

		for _, reboot := range []bool{false, true} {
			for k := 1; ; k++ {
				how := playOptions{rows: m.rows, killAt: k, reboot: reboot, killIn: describeRow(m.row)}

				at, wrong := s.record(t, how)
				if len(wrong) > 0 && at != "" {
					return s.name + ", killed " + at, wrong[0]
				}

				if at == "" || k >= killedMoments && !sample.IsFull() {
					break
				}
			}
		}
	}

	return "", ""
}

// In a quick run a mutant is killed in so many stories, and at so many moments of each.
const (
	killedStories = 3
	killedMoments = 4
)
