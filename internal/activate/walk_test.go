package activate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// story is what happens to a node, and what must have come of it. It may be killed at any step of its act: then what systemd
// starts again is started again, and the same must come of it.
type story struct {
	name    string
	prepare func(n *node)
	act     func(n *node) // may be done again
	after   func(n *node) // nil: prelet-verify looks
	config  string        // what is in both files in the end
	open    string        // what the gate says in the end: whether it is open, unless "shut"
	idle    bool          // the kubelet does not run in the end
	awaits  bool          // a verdict is awaited in the end
}

const isShut = "shut"

// runs is a run on a site, at which only what must not be is an error.
func (n *node) runs(config string) Outcome {
	out, err := n.runSite(n.t.Context(), config)
	n.want(err, "run of "+config)
	return out
}

// enters is one entry into the machine.
func (n *node) enters(what string, do func(m *Machine) (Outcome, error)) Outcome {
	out, err := n.process(do)
	n.want(err, what)
	return out
}

func (n *node) keeps() Outcome {
	return n.enters("keep", func(m *Machine) (Outcome, error) { return m.Keep(n.t.Context(), "the site is invalid") })
}

func (n *node) stands() Outcome {
	return n.enters("stand aside", func(m *Machine) (Outcome, error) { return m.StandAside(n.t.Context()) })
}

// backTo goes back by hand, unless that was done.
func (n *node) backTo(gen int) {
	n.enters("back", func(m *Machine) (Outcome, error) {
		if _, err := m.Recover(n.t.Context()); err != nil {
			return Outcome{}, err
		}
		if current, err := m.Store.Current(); err != nil || current.Restores == gen {
			return Outcome{}, err
		}
		return m.GoBack(n.t.Context(), gen, "by hand")
	})
}

// writes is a commit whose process ends before the files are in place.
func (n *node) writes(config string) {
	n.step = func(s step, after bool) {
		if s == commit && after {
			panic(killed{Event{Step: "commit"}})
		}
	}
	if n.maybeKilled(func() { n.runs(config) }) == "" {
		n.t.Fatalf("%s was not killed at its commit", config)
	}
	n.step = nil
}

// publishes is a commit whose process ends when the files are in place and the gate is shut.
func (n *node) publishes(config string) {
	n.step = func(s step, after bool) {
		if s == openGate && !after {
			panic(killed{Event{Step: "gate"}})
		}
	}
	if n.maybeKilled(func() { n.runs(config) }) == "" {
		n.t.Fatalf("%s was not killed at the gate", config)
	}
	n.step = nil
}

func boots(n *node) { n.reboot() }

func one(n *node) { n.bootWith("one") }

func both(first, then func(*node)) func(*node) { return func(n *node) { first(n); then(n) } }

func (n *node) edits(path string) {
	if err := os.WriteFile(n.disk+path, []byte("by hand"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) loses() { os.Remove(gatePath(n.run)) }

// stories lead through every row of the table.
func stories() []story {
	runs := func(config string) func(*node) { return func(n *node) { n.runs(config) } }
	return []story{
		{name: "a change at run time", prepare: one, act: runs("two"), config: "two"},
		{name: "a bad change at run time", prepare: one, act: runs("two healthz=bad"), after: runs("two healthz=bad"), config: "one"},
		{name: "the first boot", act: func(n *node) { n.runs("one"); n.started() }, config: "one"},
		{name: "a change at boot", prepare: both(one, boots), act: func(n *node) { n.runs("two"); n.started(); n.verify() }, config: "two"},
		{name: "a bad change at boot", prepare: both(one, boots), act: func(n *node) { n.runs("two dies=2s"); n.started(); n.verify() }, config: "one"},
		{name: "a boot that changes nothing", prepare: both(one, boots), act: func(n *node) { n.runs("one"); n.started() }, config: "one"},
		{name: "a boot that fails before its commit", prepare: both(one, boots), act: func(n *node) { n.keeps(); n.started() }, config: "one"},
		{name: "a boot that fails, on other files", prepare: func(n *node) { one(n); n.reboot(); n.edits(flagsPath) }, act: func(n *node) {
			if out := n.keeps(); !strings.Contains(out.HeldBack, "not in place whole") {
				n.t.Errorf("keep: held back %q; want because it is not whole", out.HeldBack)
			}
			n.started()
		}, config: "one by hand", open: isShut, idle: true},
		{name: "a run that fails, on other files", prepare: func(n *node) { one(n); n.edits(flagsPath) }, act: func(n *node) { n.keeps() }, config: "one by hand"},
		{name: "a boot that fails, on what nobody has judged", prepare: func(n *node) {
			n.apiserver = false
			n.runs("one")
			n.reboot()
			n.apiserver = true
		}, act: func(n *node) { n.keeps(); n.started(); n.verify() }, config: "one"},
		{name: "the first boot fails", act: func(n *node) {
			if out := n.keeps(); !strings.Contains(out.HeldBack, "no generation was ever in place") {
				n.t.Errorf("keep: held back %q", out.HeldBack)
			}
			n.started()
			if out := n.verify(); !strings.Contains(out.HeldBack, "no generation was ever in place") {
				n.t.Errorf("prelet-verify: held back %q", out.HeldBack)
			}
		}, open: isShut, idle: true},
		{name: "a boot without a site", act: func(n *node) { n.stands(); n.started() }, open: "PRELET_GENERATION=0"},
		{name: "a boot whose site is gone", prepare: both(one, boots), act: func(n *node) { n.stands(); n.started() }, config: "one"},
		{name: "prelet-verify before a run", prepare: both(one, boots), act: func(n *node) {
			n.started()
			if out := n.verify(); out.HeldBack == "" {
				n.t.Error("prelet-verify: nothing is held back before a run of this boot")
			}
		}, config: "one", open: isShut, idle: true},
		{name: "prelet-verify on what is good", prepare: one, act: func(n *node) { n.verify() }, config: "one"},
		{name: "a lost gate", prepare: func(n *node) { one(n); n.loses(); n.systemd.fail("exit-code"); n.clk.advance(time.Second) },
			act: func(n *node) { n.verify(); n.clk.advance(time.Second) }, config: "one"},
		{name: "a lost gate, and other files", prepare: func(n *node) {
			one(n)
			n.edits(flagsPath)
			n.loses()
			n.systemd.fail("exit-code")
			n.clk.advance(time.Second)
		},
			act: func(n *node) {
				if out := n.verify(); !strings.Contains(out.HeldBack, "was changed") {
					n.t.Errorf("prelet-verify: held back %q", out.HeldBack)
				}
			}, config: "one by hand", open: isShut, idle: true},
		{name: "back by hand", prepare: func(n *node) { one(n); n.runs("two") }, act: func(n *node) { n.backTo(1) }, config: "one"},
		{name: "back by hand, at boot", prepare: func(n *node) { one(n); n.runs("two"); n.reboot() }, act: func(n *node) { n.backTo(1); n.started(); n.verify() }, config: "one"},
		{name: "three boots that come to no end", prepare: func(n *node) {
			one(n)
			for range maxTries {
				n.reboot()
				n.runs("two")
			}
			n.reboot()
		}, act: func(n *node) {
			n.runs("two")
			if len(n.systemd.starts) > 0 {
				n.t.Error("the kubelet started a fourth time on what nobody could judge")
			}
			n.started()
			n.verify()
		}, config: "one"},
		{name: "four boots without the apiserver", prepare: func(n *node) {
			one(n)
			n.apiserver = false
			n.runs("two")
		}, act: func(n *node) {
			for range maxTries + 1 {
				n.reboot()
				n.runs("two")
				n.started()
				n.verify()
			}
			n.apiserver = true
			n.verify()
		}, config: "two"},
		{name: "the way back is ill as well", prepare: func(n *node) {
			one(n)
			n.systemd.behave = func() conduct { return conduct{dies: time.Second} }
		}, act: runs("two"), after: func(n *node) {
			if n.isHeld("two") {
				n.t.Error("the plan is held, and the node is as ill without it")
			}
			n.systemd.behave = n.behave
			n.runs("two")
		}, config: "two"},
		{name: "ill, with nothing to go back to", prepare: func(n *node) {}, act: func(n *node) {
			n.runs("one healthz=bad")
			n.started()
			n.verify()
		}, config: "one healthz=bad", awaits: true},
		{name: "a crash before the files are in place", prepare: func(n *node) { one(n); n.writes("two") }, act: runs("two"), config: "two"},
		{name: "a crash, and prelet-verify comes first", prepare: func(n *node) { one(n); n.writes("two") }, act: func(n *node) { n.verify() }, config: "two"},
		{name: "a crash, and the run after it fails", prepare: func(n *node) { one(n); n.writes("two") }, act: func(n *node) { n.keeps() }, config: "two"},
		{name: "a crash before the gate is open, and prelet-verify comes", prepare: func(n *node) { one(n); n.publishes("two") }, act: func(n *node) { n.verify() }, config: "two"},
		{name: "a crash before the gate is open, and another file", prepare: func(n *node) { one(n); n.publishes("two"); n.edits(flagsPath) },
			act: func(n *node) { n.verify() }, config: "two by hand", open: isShut, idle: true, awaits: true},
		{name: "a commit that never happened", prepare: func(n *node) { one(n); n.stages("two") }, act: func(n *node) {
			n.enters("recover", func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err })
			if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
				n.t.Errorf("what was staged is still there: %v", left)
			}
		}, config: "one"},
		{name: "another run takes over and is judged", prepare: one, act: func(n *node) {
			n.clk.after(5*time.Second, func() { n.runs("three") })
			if out := n.runs("two healthz=bad"); out.Verdict != Good || out.Generation != n.newest() {
				n.t.Errorf("the first run: %+v; want the other's verdict", out)
			}
		}, after: runs("three"), config: "three"},
		{name: "another run takes over and is killed", prepare: one, act: func(n *node) {
			n.clk.after(5*time.Second, func() { n.writes("three") })
			n.runs("two healthz=bad")
		}, after: runs("three"), config: "three"},
		{name: "others keep taking over", prepare: one, act: func(n *node) {
			for i := range maxRounds + 1 {
				n.clk.after(time.Duration(i+1)*3*time.Second, func() { n.publishes(fmt.Sprintf("other-%d", i)) })
			}
			out := n.runs("two")
			if out.Verdict != Pending || !strings.Contains(out.Why, "keep taking over") {
				n.t.Errorf("the run: %+v", out)
			}
		}, after: runs("three"), config: "three"},
		{name: "files that go when it is good", prepare: func(n *node) {
			n.shape = func(p *Plan) { delete(p.Files, flagsPath); p.Retire = []string{flagsPath} }
		}, act: func(n *node) { n.runs("one"); n.started(); n.verify() }, config: "one ", after: func(n *node) {}},
		{name: "a unit file", prepare: one, act: func(n *node) {
			n.unitFiles = true
			reloads := n.systemd.reloads
			n.runs("two healthz=bad")
			if n.systemd.reloads != reloads+2 {
				n.t.Errorf("%d reloads; want one for the change and one for the way back", n.systemd.reloads-reloads)
			}
		}, after: runs("two healthz=bad"), config: "one"},
	}
}

// newest is the number of the generation in place.
func (n *node) newest() (gen int) {
	n.enters("current", func(m *Machine) (Outcome, error) {
		current, err := m.Store.Current()
		if current != nil {
			gen = current.Gen
		}
		return Outcome{}, err
	})
	return gen
}

// stages is a process that ends before its commit.
func (n *node) stages(config string) {
	n.step = func(s step, after bool) {
		if s == commit && !after {
			panic(killed{Event{Step: "commit"}})
		}
	}
	n.maybeKilled(func() { n.runs(config) })
	n.step = nil
}

// guarded is a hook that looks, at each step, that no kubelet can read files of two generations.
func (n *node) guarded(then func(step, bool)) func(step, bool) {
	return func(s step, after bool) {
		if !after && slices.Contains([]step{publish, complete, comeBack}, s) && (n.gateSays() != "" || alive(n.systemd.unit)) {
			n.t.Errorf("%s: files change while the gate says %q and the kubelet is %s", stepNames[s].name, n.gateSays(), n.systemd.unit.Active)
		}
		if then != nil {
			then(s, after)
		}
	}
}

// ends looks what came of a story.
func (n *node) ends(s story) {
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
	gate := n.gateSays()
	if s.open == isShut && gate != "" || s.open != isShut && gate == "" || strings.HasPrefix(s.open, variable) && gate != s.open {
		n.t.Errorf("the gate says %q; want it %q", gate, s.open)
	}
	if s.open == "" && s.config != "" && gate != fmt.Sprintf("%s%d", variable, n.newest()) {
		n.t.Errorf("the gate says %q, and generation %d is in place", gate, n.newest())
	}
	if running := n.systemd.unit.Active == "active"; running == s.idle {
		n.t.Errorf("the kubelet is %s/%s; want it to run: %t", n.systemd.unit.Active, n.systemd.unit.Sub, !s.idle)
	}
	if j := n.journal(); (j != nil) != s.awaits {
		n.t.Errorf("the journal is %+v; want one: %t", j, s.awaits)
	}
	if s.open != isShut && (Gate{Dir: n.run, BootID: n.boot}).Owed(DefaultUnit) {
		n.t.Error("a start is owed")
	}
}

// tell plays a story, killed at the k-th moment before or after a step; 0 is not killed. It says where that was, and "" when there
// are not so many.
func (s story) tell(t testing.TB, rows []row, k int, seen func(row)) (at string) {
	n := newNode(t)
	if s.prepare != nil {
		s.prepare(n)
	}
	n.rows, n.seen = rows, seen
	moment := 0
	hook := func(x step, after bool) {
		if moment++; moment == k {
			at = map[bool]string{false: "before ", true: "after "}[after] + stepNames[x].name
			panic(killed{Event{Step: at}})
		}
	}
	n.step = n.guarded(hook)
	n.maybeKilled(func() { s.act(n) })
	if k > 0 && at == "" {
		return ""
	}
	n.step = n.guarded(nil)
	if at != "" {
		n.clk.advance(time.Second) // RestartSec=1
		s.act(n)
	}
	n.clk.advance(15 * time.Second) // a kubelet that waits at the gate tries again meanwhile
	if !s.idle {
		n.verify()
	}
	if s.after != nil {
		s.after(n)
	}
	n.clk.advance(time.Second)
	n.ends(s)
	return at
}

// TestStories walks every row of the table, and finds what must come of it.
func TestStories(t *testing.T) {
	done := map[string]bool{}
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) { s.tell(t, nil, 0, func(r row) { done[fmt.Sprint(r)] = true }) })
	}
	for i, r := range table {
		if r.Never == "" && !done[fmt.Sprint(r)] {
			t.Errorf("row %d is in no story: %v %v if %q", i, words(phaseNames, r.In), words(triggerNames, r.On), factNames[r.When].name)
		}
	}
}
