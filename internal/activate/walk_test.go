package activate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// story is what happens to a node, and what must have come of it. It may be killed at any step of its act: then what
// systemd starts again is started again, and the same must come of it.
type story struct {
	name    string
	prepare func(n *node)
	act     func(n *node)
	again   func(n *node) // what comes after a kill; nil: act again
	after   func(n *node) // nil: prelet-verify looks
	config  string        // what is in both files in the end
	open    string        // what the gate says in the end: whether it is open, unless "shut"
	idle    bool          // the kubelet does not run in the end
	awaits  bool          // a verdict is awaited in the end
	late    bool          // the kubelet runs only with what comes after
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

func (n *node) aside() Outcome {
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

// dies is a run, or prelet-verify for no config, whose process ends before or after a step, if it comes there.
func (n *node) dies(config string, at step, late bool) {
	before := n.step
	n.step = n.guarded(func(s step, after bool) {
		if s == at && after == late {
			panic(killed{Event{Step: stepNames[s].name}})
		}
	})
	n.maybeKilled(func() {
		if config == "" {
			n.verify()
		} else {
			n.runs(config)
		}
	})
	n.step = before
}

// stages is a run whose process ends before its commit, writes one that ends before the files are in place, and
// publishes one that ends when they are, and the gate is shut.
func (n *node) stages(config string)    { n.dies(config, commit, false) }
func (n *node) writes(config string)    { n.dies(config, commit, true) }
func (n *node) publishes(config string) { n.dies(config, openGate, false) }

// leavesUnread is a run that changes a unit file, and whose process ends before systemd has read it.
func (n *node) leavesUnread(config string) {
	n.unitFiles = true
	n.dies(config, reload, false)
}

// waitsAtTheGate is a boot whose prelet.service has failed once, and is started again.
func (n *node) waitsAtTheGate() {
	n.systemd.preletEnds()
	n.clk.advance(time.Second)
	n.systemd.ordered = true
}

func (n *node) mustBeOpen() {
	if n.gateSays() == "" {
		n.t.Error("the run has left the gate shut")
	}
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
		{
			name: "a bad change at run time", prepare: one, act: runs("two healthz=bad"), after: runs("two healthz=bad"),
			config: "one",
		},
		{name: "the first boot", act: func(n *node) { n.runs("one"); n.started() }, config: "one"},
		{
			name: "a change at boot", prepare: both(one, boots), act: func(n *node) { n.runs("two"); n.started(); n.verify() },
			config: "two",
		},
		{
			name: "a bad change at boot", prepare: both(one, boots),
			act: func(n *node) { n.runs("two dies=2s"); n.started(); n.verify() }, config: "one",
		},
		{
			name: "a boot that changes nothing", prepare: both(one, boots), act: func(n *node) { n.runs("one"); n.started() },
			config: "one",
		},
		{
			name: "a boot that fails before its commit", prepare: both(one, boots),
			act: func(n *node) { n.keeps(); n.started() }, config: "one",
		},
		{name: "a boot that fails, on other files", prepare: func(n *node) { one(n); n.reboot(); n.edits(flagsPath) }, act: func(n *node) {
			if out := n.keeps(); !strings.Contains(out.HeldBack, "not in place whole") {
				n.t.Errorf("keep: held back %q; want because it is not whole", out.HeldBack)
			}

			n.started()
		}, config: "one by hand", open: isShut, idle: true},
		{
			name: "a run that fails, on other files", prepare: func(n *node) { one(n); n.edits(flagsPath) },
			act: func(n *node) { n.keeps() }, config: "one by hand",
		},
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
		{name: "a boot without a site", act: func(n *node) { n.aside(); n.started() }, open: "PRELET_GENERATION=0"},
		{
			name: "a boot whose site is gone", prepare: both(one, boots), act: func(n *node) { n.aside(); n.started() },
			config: "one",
		},
		{name: "prelet-verify before a run", prepare: both(one, boots), act: func(n *node) {
			n.started()

			if out := n.verify(); out.HeldBack == "" {
				n.t.Error("prelet-verify: nothing is held back before a run of this boot")
			}
		}, config: "one", open: isShut, idle: true},
		{name: "prelet-verify on what is good", prepare: one, act: func(n *node) { n.verify() }, config: "one"},
		{name: "a lost gate", prepare: func(n *node) {
			one(n)
			n.loses()
			n.systemd.fail("exit-code")
			n.clk.advance(time.Second)
		},
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
		{
			name: "back by hand", prepare: func(n *node) { n.unitFiles = true; one(n); n.runs("two") },
			act: func(n *node) { n.backTo(1) }, config: "one",
		},
		{
			name: "back by hand, at boot", prepare: func(n *node) { one(n); n.runs("two"); n.reboot() },
			act: func(n *node) { n.backTo(1); n.started(); n.verify() }, config: "one",
		},
		{name: "three boots that come to no end", prepare: func(n *node) {
			one(n)

			n.unitFiles = true
			for range maxTries {
				n.reboot()
				n.runs("two")
			}

			n.reboot()
		}, act: func(n *node) {
			n.runs("two")
			n.mustBeOpen()

			if slices.ContainsFunc(n.systemd.starts, func(s startSeen) bool { return s.gate == variable+"2" }) {
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
				n.mustBeOpen()
				n.started()
				n.verify()
			}

			n.apiserver = true
			n.verify()
		}, config: "two"},
		{name: "three boots, and one with prelet=off", prepare: func(n *node) {
			one(n)

			for range maxTries {
				n.reboot()
				n.runs("two")
			}

			n.reboot()
			n.want(Gate{Dir: n.run, BootID: n.boot}.Open(2), "prelet=off")
			n.started()
		}, act: func(n *node) { n.runs("two") }, config: "one"},
		{name: "three boots without a verdict, in which the power fails later", prepare: func(n *node) {
			one(n)
			n.apiserver = false
			n.runs("two")

			for range maxTries + 1 {
				n.reboot()
				n.runs("two")
				n.started()
				n.verify()
				n.dies("", watch, false)
			}

			n.reboot()
			n.apiserver = true
		}, act: func(n *node) {
			n.runs("two")

			if n.read(configPath) != "one" {
				n.t.Error("the fifth boot did not go back")
			}

			n.started()
			n.verify()
		}, config: "one"},
		{name: "the kubelet has failed at the gate", prepare: func(n *node) { one(n); n.reboot(); n.waitsAtTheGate() },
			act: func(n *node) { n.runs("one"); n.started() }, config: "one"},
		{name: "the kubelet has failed at the gate, on what nobody has judged", prepare: func(n *node) {
			one(n)
			n.apiserver = false
			n.runs("two")
			n.reboot()
			n.waitsAtTheGate()
			n.apiserver = true
		}, act: func(n *node) { n.runs("two"); n.started() }, config: "two"},
		{name: "the kubelet has failed at the gate, and there is no site", prepare: func(n *node) { n.waitsAtTheGate() },
			act: func(n *node) { n.aside(); n.started() }, open: "PRELET_GENERATION=0"},
		{name: "prelet.service is started again at run time", prepare: func(n *node) { one(n); n.systemd.ordered, n.systemd.inside = true, true },
			act: func(n *node) { n.runs("two"); n.started() }, config: "two"},
		{name: "the first site is broken, on a node that runs", prepare: func(n *node) { n.aside(); n.started() },
			act: func(n *node) { n.keeps() }, open: "PRELET_GENERATION=0"},
		{name: "a change while the unit is masked", prepare: func(n *node) { one(n); n.systemd.unit.Load = "masked" },
			act: func(n *node) {
				if _, err := n.runSite(n.t.Context(), "two"); n.exit(err) != fault.Systemd {
					n.t.Errorf("a change while the unit is masked: %v", err)
				}
			}, after: func(n *node) { n.systemd.unit.Load = "loaded" }, config: "one"},
		{name: "back by hand while the unit is masked", prepare: func(n *node) { one(n); n.runs("two"); n.systemd.unit.Load = "masked" },
			act: func(n *node) {
				_, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(n.t.Context(), 1, "by hand") })
				if n.exit(err) != fault.Systemd {
					n.t.Errorf("back while the unit is masked: %v", err)
				}
			}, after: func(n *node) { n.systemd.unit.Load = "loaded" }, config: "two"},
		{name: "prelet recover leaves the gate to what follows", prepare: func(n *node) { one(n); n.writes("two") }, act: func(n *node) {
			n.enters("recover", func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err })

			if n.gateSays() != "" || n.read(configPath) != "two" {
				n.t.Errorf("the gate says %q, the file is %q", n.gateSays(), n.read(configPath))
			}

			n.verify()
		}, again: func(n *node) { n.verify() }, config: "two"},
		{name: "the way back is ill as well", prepare: func(n *node) {
			one(n)
			n.systemd.behave = func() conduct { return conduct{dies: time.Second} }
		}, act: runs("two"), after: func(n *node) {
			if n.isHeld("two") {
				n.t.Error("the plan is held, and the node is as ill without it")
			}

			n.systemd.behave = n.behave
			n.runs("two")
		}, config: "two", late: true},
		{name: "ill, with nothing to go back to", prepare: func(n *node) {}, act: func(n *node) {
			n.runs("one healthz=bad")
			n.started()
			n.verify()
		}, config: "one healthz=bad", awaits: true},
		{
			name: "a crash before the files are in place", prepare: func(n *node) { one(n); n.writes("two") }, act: runs("two"),
			config: "two",
		},
		{
			name: "a crash, and prelet-verify comes first", prepare: func(n *node) { one(n); n.writes("two") },
			act: func(n *node) { n.verify() }, config: "two",
		},
		{
			name: "a crash, and the run after it fails", prepare: func(n *node) { one(n); n.writes("two") },
			act: func(n *node) { n.keeps() }, config: "two",
		},
		{
			name:    "a crash before the gate is open, and prelet-verify comes",
			prepare: func(n *node) { one(n); n.publishes("two") }, act: func(n *node) { n.verify() }, config: "two",
		},
		{name: "a crash before the gate is open, and another file", prepare: func(n *node) { one(n); n.publishes("two"); n.edits(flagsPath) },
			act: func(n *node) { n.verify() }, config: "two by hand", open: isShut, idle: true, awaits: true},
		{name: "a commit that never happened", prepare: func(n *node) { one(n); n.stages("two") }, act: func(n *node) {
			n.enters("recover", func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err })

			if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
				n.t.Errorf("what was staged is still there: %v", left)
			}
		}, config: "one"},
		{name: "a commit that never happened, on what nobody has judged", prepare: func(n *node) {
			one(n)
			n.apiserver = false
			n.runs("two")
			n.stages("three")
			n.apiserver = true
		}, act: func(n *node) {
			n.verify()

			if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
				n.t.Errorf("what was staged is still there: %v", left)
			}
		}, config: "two"},
		{name: "another run takes over and is judged", prepare: one, act: func(n *node) {
			n.clk.after(5*time.Second, func() { n.runs("three") })

			if out := n.runs("two healthz=bad"); out.Verdict != Good || out.Generation != n.newest() {
				n.t.Errorf("the first run: %+v; want the other's verdict", out)
			}
		}, again: runs("three"), after: runs("three"), config: "three"},
		{name: "another run takes over and is killed", prepare: one, act: func(n *node) {
			n.clk.after(5*time.Second, func() { n.writes("three") })

			if out := n.runs("two healthz=bad"); out.Verdict != Good || out.Generation != n.newest() {
				n.t.Errorf("the first run: %+v; want it to judge the other's", out)
			}
		}, again: runs("three"), after: runs("three"), config: "three"},
		{name: "others keep taking over", prepare: one, act: func(n *node) {
			for i := range maxRounds + 1 {
				n.clk.after(time.Duration(i+1)*3*time.Second, func() { n.publishes(fmt.Sprintf("other-%d", i)) })
			}

			out := n.runs("two")
			if out.Verdict != Pending || !strings.Contains(out.Why, "keep taking over") {
				n.t.Errorf("the run: %+v", out)
			}
		}, again: runs("three"), after: runs("three"), config: "three", late: true},
		{name: "files that go when it is good", prepare: func(n *node) {
			n.shape = func(p *Plan) { delete(p.Files, flagsPath); p.Retire = []string{flagsPath} }
		}, act: func(n *node) { n.runs("one"); n.started(); n.verify() }, config: "one ", after: func(n *node) {}},
		{
			name: "a crash before systemd reads a unit file", prepare: func(n *node) { one(n); n.leavesUnread("two") },
			act: runs("two"), config: "two",
		},
		{name: "a crash before a systemd that overlooks it reads a unit file", prepare: func(n *node) {
			one(n)
			n.systemd.blind = true
			n.leavesUnread("two")
		}, act: runs("two"), config: "two"},
		{name: "a crash before systemd sees that a unit file is gone", prepare: func(n *node) {
			one(n)
			n.shape = func(p *Plan) { p.UnitFiles = false }
			n.leavesUnread("two")
		}, act: runs("two"), config: "two"},
		{
			name:    "a crash before systemd reads a unit file, and prelet-verify comes",
			prepare: func(n *node) { one(n); n.leavesUnread("two") }, act: func(n *node) { n.verify() }, config: "two",
		},
		{
			name:    "a crash before systemd reads a unit file, and another change",
			prepare: func(n *node) { one(n); n.leavesUnread("two"); n.unitFiles = false }, act: runs("three"), config: "three",
		},
		{name: "a boot after a crash, killed before systemd reads a unit file", prepare: func(n *node) {
			one(n)
			n.unitFiles = true
			n.writes("two")
			n.reboot()
			n.leavesUnread("two")
		}, act: func(n *node) { n.runs("two"); n.started(); n.verify() }, config: "two"},
		{name: "a boot with prelet=off after a crash among unit files", prepare: func(n *node) {
			one(n)
			n.unitFiles = true
			n.writes("two")
			n.reboot()
		}, act: func(n *node) {
			n.enters("recover", func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err })
			n.want(Gate{Dir: n.run, BootID: n.boot}.Open(2), "prelet=off")
			n.started()
		}, config: "two"},
		{name: "a unit file, and a systemd that overlooks it", prepare: func(n *node) {
			one(n)
			n.unitFiles, n.systemd.blind = true, true
		}, act: runs("two healthz=bad"), after: runs("two healthz=bad"), config: "one"},
		{name: "a unit file", prepare: one, act: func(n *node) {
			n.unitFiles = true
			reloads := n.systemd.reloads
			n.runs("two healthz=bad")

			if n.systemd.reloads != reloads+2 {
				n.t.Errorf("%d reloads; want one for the change and one for the way back", n.systemd.reloads-reloads)
			}
		}, again: runs("two healthz=bad"), after: runs("two healthz=bad"), config: "one"},
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

// guarded is a hook that looks, at each step, that no kubelet can read files of two generations.
func (n *node) guarded(then func(step, bool)) func(step, bool) {
	return func(s step, after bool) {
		changes := !after && slices.Contains([]step{publish, complete, comeBack}, s)
		if changes && (n.gateSays() != "" || isAlive(n.systemd.unit)) {
			n.t.Errorf(
				"%s: files change while the gate says %q and the kubelet is %s", stepNames[s].name, n.gateSays(),
				n.systemd.unit.Active,
			)
		}

		if after && n.unitFiles && slices.Contains([]step{publish, complete, comeBack}, s) {
			n.systemd.unread = n.systemd.reloads + 1
		}

		if then != nil {
			then(s, after)
		}
	}
}

// stands looks whether the kubelet runs, as soon as the act is over: nothing but prelet brings it up.
func (n *node) stands(s story) {
	gate := n.gateSays()
	if (gate == "") != (s.open == isShut) || strings.HasPrefix(s.open, variable) && gate != s.open {
		n.t.Errorf("the gate says %q; want it %q", gate, s.open)
	}

	if running := n.systemd.unit.Active == "active"; running == s.idle {
		n.t.Errorf("the kubelet is %s/%s; want it to run: %t", n.systemd.unit.Active, n.systemd.unit.Sub, !s.idle)
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

	n.stands(s)

	if gate := n.gateSays(); s.open == "" && s.config != "" && gate != fmt.Sprintf("%s%d", variable, n.newest()) {
		n.t.Errorf("the gate says %q, and generation %d is in place", gate, n.newest())
	}

	if j := n.journal(); (j != nil) != s.awaits {
		n.t.Errorf("the journal is %+v; want one: %t", j, s.awaits)
	}

	if s.open != isShut && (Gate{Dir: n.run, BootID: n.boot}).Owed(DefaultUnit) {
		n.t.Error("a start is owed")
	}
}

// telling is one way of telling a story.
type telling struct {
	rows   []row     // nil: the table
	killAt int       // the process ends at this moment: before each step, and after the last of all; 0: it does not
	seen   func(row) // each row that is done; may be nil
}

// tell plays a story. It says at which moment it was killed: the row, and before or after which step; "" when it has
// not so many.
func (s story) tell(t testing.TB, how telling) (at string) {
	n := newNode(t)
	n.rows = how.rows

	var now row

	n.seen = func(r row) {
		now = r
		if how.seen != nil {
			how.seen(r)
		}
	}
	if s.prepare != nil {
		s.prepare(n)
	}

	moment := 0
	n.step = n.guarded(func(x step, after bool) {
		if after && !endsWith(now, x) {
			return // as before the next
		}

		if moment++; moment == how.killAt {
			at = momentOf(now, x, after)
			panic(killed{Event{Step: at}})
		}
	})
	n.maybeKilled(func() { s.act(n) })

	if how.killAt == 0 && !s.late {
		n.stands(s)
	}

	if how.killAt > 0 && at == "" {
		return ""
	}

	n.step = n.guarded(nil)
	if at != "" {
		n.clk.advance(time.Second) // RestartSec=1

		if s.again != nil {
			s.again(n)
		} else {
			s.act(n)
		}
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

// endsWith says whether nothing follows a step of a row. What lies on the disk after any other is what lies there before
// the next: between them a process only reads.
func endsWith(r row, s step) bool { return r.Then == done && s == r.Do[len(r.Do)-1] }

// momentOf is before or after a step of a row, in words.
func momentOf(r row, s step, after bool) string {
	side := "before"
	if after {
		side = "after"
	}

	return fmt.Sprintf(
		"%s %s of %s, %s, %s", side, stepNames[s].name, words(phaseNames, r.In), words(triggerNames, r.On),
		factNames[r.When].name,
	)
}

// recorder is a test that keeps what is wrong, and goes on.
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

// record tells a story and returns what is wrong with it, a panic included.
func (s story) record(t testing.TB, how telling) (at string, wrong []string) {
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

	return s.tell(r, how), nil
}

// TestStories walks every row of the table, and finds what must come of it.
func TestStories(t *testing.T) {
	seen := map[string]bool{}

	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) { s.tell(t, telling{seen: func(r row) { seen[fmt.Sprint(r)] = true }}) })
	}

	for i, r := range table {
		if r.Never == "" && !seen[fmt.Sprint(r)] {
			t.Errorf(
				"row %d is in no story: %s, %s, %s", i, words(phaseNames, r.In), words(triggerNames, r.On), factNames[r.When].name,
			)
		}
	}
}

// TestKilledAtEveryStep kills each story before each step and after the last of all, lets systemd start again what it
// starts again, and expects the same to come of it. Somebody is killed at each of these moments of every row.
func TestKilledAtEveryStep(t *testing.T) {
	var mutex sync.Mutex

	killed := map[string]bool{}

	t.Run("stories", func(t *testing.T) {
		for _, s := range stories() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()

				for k := 1; ; k++ {
					at, wrong := s.record(t, telling{killAt: k})
					for _, w := range wrong {
						t.Errorf("killed %s (moment %d): %s", at, k, w)
					}

					if at == "" {
						return
					}

					mutex.Lock()
					killed[at] = true
					mutex.Unlock()
				}
			})
		}
	})

	for _, r := range table {
		for _, s := range r.Do {
			if at := momentOf(r, s, false); !killed[at] {
				t.Errorf("nobody was killed %s", at)
			}

			if at := momentOf(r, s, true); endsWith(r, s) && !killed[at] {
				t.Errorf("nobody was killed %s", at)
			}
		}
	}
}

// mutant is the table with one change.
type mutant struct {
	name string
	rows []row
	at   string // the row that is changed; "" when others may be chosen in place of it, too
}

// mutants are the tables that lack a step or a condition, or go on where they should end, or the other way round.
func mutants() (out []mutant) {
	change := func(i int, what string, do func(r *row)) {
		rows := slices.Clone(table)
		rows[i].Do = slices.Clone(rows[i].Do)
		do(&rows[i])
		name := fmt.Sprintf(
			"%s: %s, %s, %s", what, words(phaseNames, table[i].In), words(triggerNames, table[i].On),
			factNames[table[i].When].name,
		)
		out = append(out, mutant{name, rows, fmt.Sprint(table[i])})
	}
	for i, r := range table {
		if r.Never != "" {
			continue
		}

		for j, s := range r.Do {
			change(i, "without "+stepNames[s].name, func(r *row) { r.Do = slices.Delete(r.Do, j, j+1) })
		}

		if r.When != always {
			change(i, "without its condition", func(r *row) { r.When = always })

			out[len(out)-1].at = ""

			change(i, "never", func(r *row) { r.In = nil })
		}

		if r.Then == done {
			change(i, "goes on", func(r *row) { r.Then = onSame })
		} else {
			change(i, "ends", func(r *row) { r.Then = done })
		}
	}

	return out
}

// survives are the mutants that no story finds, each with the reason why it is in the table all the same.
var survives = map[string]string{
	"goes on: settled, check, gate open":                               nothingToDo,
	"goes on: settled, check, whole":                                   nothingToDo,
	"goes on: settled, superseded, ":                                   nothingToDo,
	"goes on: pending, returning, good, ":                              nothingToDo,
	"goes on: returning, bad, ":                                        nothingToDo,
	"goes on: settled, pending, returning, failed, no site, gate open": "it would judge, as prelet-verify does later",
	"without publish: mixed, committed, ":                              "what follows finds it interrupted, and completes it",
	"never: settled, check, gate open":                                 "the rows below do nothing either, and read the files for it",
	"never: pending, returning, check, gate open":                      "likewise",
}

// nothingToDo: on a settled node whose gate is open, to go on is to do nothing.
const nothingToDo = "the row for it finds the gate open and no start owed, and does nothing"

// TestMutants: whoever changes a row breaks a story. Only those that come through the row are told.
func TestMutants(t *testing.T) {
	through := map[string][]story{}
	long := map[string]int{} // by a story's name: its rows

	for _, s := range stories() {
		seen := map[string]bool{}
		s.record(t, telling{seen: func(r row) { seen[fmt.Sprint(r)] = true; long[s.name]++ }})

		for r := range seen {
			through[r] = append(through[r], s)
		}

		through[""] = append(through[""], s)
	}

	for _, list := range through {
		slices.SortStableFunc(list, func(a, b story) int { return long[a.name] - long[b.name] })
	}

	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()

			why, listed := survives[m.name]
			for _, s := range through[m.at] {
				if _, wrong := s.record(t, telling{rows: m.rows}); len(wrong) > 0 {
					if listed {
						t.Errorf("it is listed to survive (%s), and %q finds it: %s", why, s.name, wrong[0])
					}

					return
				}
			}

			if !listed {
				t.Error("no story finds it")
			}
		})
	}

	for name := range survives {
		if !slices.ContainsFunc(mutants(), func(m mutant) bool { return m.name == name }) {
			t.Errorf("%q is listed to survive, and there is no such mutant", name)
		}
	}
}
