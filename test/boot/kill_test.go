package boot

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

const (
	cuts        = 30              // by the clock of the boot
	heldCuts    = 8               // in the middle of what prelet does
	twiceEvery  = 4               // of these, the power goes again in the boot after it
	longestBoot = 2 * time.Second // in which a moment is chosen
)

// cutShort is a boot onto a new site that ends in a power cut: after some time, with nth at the nth file or folder
// that prelet opens among its own, with at in a state of the disk.
type cutShort struct {
	after time.Duration
	nth   int
	at    *middle
}

func (c cutShort) String() string {
	switch {
	case c.at != nil:
		return "cut where it is " + c.at.name
	case c.nth > 0:
		return fmt.Sprintf("cut at prelet's open number %d", c.nth)
	}
	return fmt.Sprintf("cut after %s", c.after.Round(time.Millisecond))
}

// happens boots and cuts, and says whether the run had said before that all was done: exit 0.
func (c cutShort) happens(m *machine, generation int, name string) (promised bool) {
	m.T.Helper()
	m.flush()
	var h *hold
	switch {
	case c.at != nil:
		h = m.hold(onDisk, func() bool { return m.isAt(*c.at, generation, name) })
	case c.nth > 0:
		seen := 0
		h = m.hold(onDisk, func() bool { seen++; return seen == c.nth })
	}
	m.Start()
	if h != nil {
		h.reached()
	} else {
		time.Sleep(c.after)
	}
	var said struct {
		State      string
		Exit       int
		Generation int
	}
	text, err := os.ReadFile(m.inside("/run/prelet/status.json"))
	promised = err == nil && json.Unmarshal(text, &said) == nil && said.State != "running" && said.Exit == 0 &&
		said.Generation == generation
	m.cut(h)
	return promised
}

// TestPowerCuts takes the power of a machine in the middle of boots that have something to change, by the clock, and
// looks at its disk before anything runs again, and when it has booted: the invariants I1 to I8 of docs/develop/testing.md.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	c := newCutting(t)
	var all []cutShort
	for range cuts {
		all = append(all, cutShort{after: time.Duration(c.random.Int64N(int64(longestBoot)))})
	}
	c.cut(all)
}

// TestPowerCutsInTheMiddle takes it in the middle of what prelet does.
func TestPowerCutsInTheMiddle(t *testing.T) {
	t.Parallel()
	c := newCutting(t)
	opens := c.m.countOpens()
	t.Logf("prelet opens %d of its files and folders in a boot that changes something", opens)
	if opens < 2*heldCuts {
		t.Fatalf("got %d opens: most are not seen; want at least %d", opens, 2*heldCuts)
	}
	var all []cutShort
	// One in each stretch; not in the last, since how often prelet-verify looks is a matter of time.
	for n := range heldCuts {
		all = append(all, cutShort{nth: 1 + n*opens/2/heldCuts})
	}
	for _, at := range middles() {
		if !slices.Equal(at.folders, atTheGate) { // that is in memory, and not made yet
			all = append(all, cutShort{at: &at})
		}
	}
	phases := c.cut(all)
	for _, phase := range []string{"before COMMIT", "publishing", "in place"} {
		if phases[phase] == 0 {
			t.Errorf("no cut came %s; want phases other than 0", phase)
		}
	}
}

// cutting is a machine that has joined, and whose power goes again and again.
type cutting struct {
	m         *machine
	seed      uint64
	random    *rand.Rand
	strangers map[string]string // path → content of files next to the targets that are not ours
}

func newCutting(t *testing.T) *cutting {
	t.Helper()
	m := newPowered(t)
	m.plantForeign()
	m.flush()
	m.Boot()
	m.verdict("good")
	m.Off()
	m.flush()
	seed := uint64(time.Now().UnixNano())
	c := &cutting{m, seed, rand.New(rand.NewPCG(seed, 0)), map[string]string{}}
	for _, p := range foreign {
		c.strangers[p] = m.stamp(p)
	}
	m.put("/var/lib/unfsynced", "lost\n")
	m.cut(nil)
	if m.Exists("/var/lib/unfsynced") {
		t.Fatal("a cut loses nothing here, so nothing would be shown")
	}
	return c
}

// cut takes the power once for each, and says how many first met the run in which phase.
func (c *cutting) cut(all []cutShort) map[string]int {
	m, t := c.m, c.m.T
	t.Helper()
	phases := map[string]int{}
	for n, short := range all {
		name := fmt.Sprintf("v%d", n)
		generation := m.generation() + 1
		before := map[string]string{configFile: m.stamp(configFile), flagsFile: m.stamp(flagsFile)}
		old := map[string]string{configFile: m.read(configFile), flagsFile: m.read(flagsFile)}
		m.both(name)
		promised := short.happens(m, generation, name)
		what := fmt.Sprintf("%s (seed %d, number %d)", short, c.seed, n)
		phase := m.afterCut(what, name, generation, before, old, promised)
		if n%twiceEvery == 0 {
			again := cutShort{nth: 1 + c.random.IntN(8)}
			if again.happens(m, generation, name) {
				promised = true
			}
			what += ", and " + again.String()
			m.afterCut(what, name, generation, before, old, promised)
			phases["recoveries cut"]++
		}
		phases[phase]++
		m.Boot()
		m.Within(60*time.Second, "well again, "+what, func() string {
			s, starts := m.status(), m.starts()
			if last := starts[len(starts)-1]; s.Code != 0 || m.Exists("/var/lib/prelet/journal.json") ||
				last.Labels["example.com/pool"] != name {
				return fmt.Sprintf("%+v, last start %+v", s, last)
			}
			return ""
		})
		m.running()
		m.noMixture() // I4
		if !m.has(configFile, name) || !m.has(flagsFile, name) {
			t.Errorf("%s: I1: %s", what, m.targets(name))
		}
		for p, want := range c.strangers {
			if got := m.stamp(p); got != want {
				t.Errorf("%s: I7: %s is %s, was %s", what, p, got, want)
			}
		}
		if l := m.litter(); len(l) > 0 {
			t.Errorf("%s: I6: left %q; want none", what, l)
		}
		m.cut(nil) // no flush has happened since: what is good is durable (I3)
		if j := m.journalNow(); m.generation() != generation || j.Phase != "" || !m.has(configFile, name) ||
			!m.has(flagsFile, name) {
			t.Errorf(
				"%s: I3: it was good, and a cut has left generation %d, %s, journal %+v; want generation %d "+
					"and empty Phase",
				what,
				m.generation(),
				m.targets(name),
				j,
				generation,
			)
		}
		if t.Failed() {
			t.FailNow() // each of the next begins with what this one left
		}
	}
	t.Logf("%d power cuts, %d of them at rest; where the first of each met the run: %v",
		2*len(all)+phases["recoveries cut"], len(all), phases)
	return phases
}

// afterCut looks at the disk as the cut has left it, before anything runs, and says how far the run had come.
func (m *machine) afterCut(
	what, name string,
	generation int,
	before, old map[string]string,
	promised bool,
) (phase string) {
	t := m.T
	t.Helper()
	for p := range old { // I2
		if got := m.read(p); got != old[p] && !m.has(p, name) {
			t.Errorf("%s: I2: %s is neither old nor new: %q", what, p, got)
		}
	}
	done := m.generation() >= generation
	switch j := m.journalNow(); {
	case j.Phase == "" && !done:
		phase = "before COMMIT"
		for p, want := range before { // I8
			if got := m.stamp(p); got != want {
				t.Errorf("%s: I8: %s is %s, was %s", what, p, got, want)
			}
		}
	case j.Phase == "publish":
		phase = "publishing"
	default:
		phase = "in place"
		if !m.has(configFile, name) || !m.has(flagsFile, name) {
			t.Errorf("%s: I1: %s, and the journal says %+v", what, m.targets(name), j)
		}
	}
	if promised && (!m.has(configFile, name) || !m.has(flagsFile, name)) { // I3
		t.Errorf("%s: I3: the run had ended with 0, and the disk has %s", what, m.targets(name))
	}
	return phase
}

// generation is the newest that was committed.
func (m *machine) generation() (newest int) {
	m.T.Helper()
	names, err := os.ReadDir(m.Root + "/var/lib/prelet/generations")
	must(m.T, err)
	for _, e := range names {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d", &n); err == nil && e.Name() == fmt.Sprint(n) {
			newest = max(newest, n)
		}
	}
	return newest
}

// countOpens boots onto a change, undisturbed.
func (m *machine) countOpens() (opens int) {
	m.T.Helper()
	m.both("counted1")
	h := m.hold(onDisk, func() bool { opens++; return false })
	m.Boot()
	m.verdict("good")
	h.release()
	m.Off()
	return opens
}
