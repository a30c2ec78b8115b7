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

// story is a series of events on a node with its expected end. The process may be killed at any step of act. Then
// everything that systemd starts again is started again, and the end must be the same.
type story struct {
	name      string
	prepare   func(n *node)
	act       func(n *node)
	afterKill func(n *node) // runs after a kill; nil: act
	finish    func(n *node) // nil: prelet-verify
	config    string        // in both files at the end
	open      string        // content of the gate at the end; "": any, "shut": shut
	idle      bool          // the kubelet does not run at the end
	awaits    bool          // a verdict is awaited at the end
	late      bool          // the kubelet runs only after finish
}

const shutState = "shut"

// mustRun runs a site and fails on an error.
func (n *node) mustRun(config string) Outcome {
	out, err := n.runSite(n.t.Context(), config)
	n.mustSucceed(err, "run of "+config)

	return out
}

// enterMachine calls one method of the machine.
func (n *node) enterMachine(what string, do func(m *Machine) (Outcome, error)) Outcome {
	out, err := n.process(do)
	n.mustSucceed(err, what)

	return out
}

func (n *node) keep() Outcome {
	return n.enterMachine(
		"keep", func(m *Machine) (Outcome, error) { return m.Keep(n.t.Context(), "the site is invalid") },
	)
}

func (n *node) keepWithoutSite() Outcome {
	return n.enterMachine("stand aside", func(m *Machine) (Outcome, error) { return m.KeepWithoutSite(n.t.Context()) })
}

// rollbackTo rolls back by hand, unless that was done already.
func (n *node) rollbackTo(gen int) {
	n.enterMachine("back", func(m *Machine) (Outcome, error) {
		if _, err := m.Recover(n.t.Context()); err != nil {
			return Outcome{}, err
		}

		if current, err := m.Store.Current(); err != nil || current.Restores == gen {
			return Outcome{}, err
		}

		return m.GoBack(n.t.Context(), gen, "by hand")
	})
}

// dieAt runs a site (or prelet-verify if config is "") and ends the process before or after a step.
func (n *node) dieAt(config string, at step, late bool) {
	before := n.step
	n.step = n.guardSteps(func(s step, after bool) {
		if s == at && after == late {
			panic(killed{Event{Step: stepNames[s].name}})
		}
	})
	n.maybeKilled(func() {
		if config == "" {
			n.verify()
		} else {
			n.mustRun(config)
		}
	})
	n.step = before
}

// dieBeforeCommit, dieAfterCommit and dieBeforeOpenGate run a site whose process ends before the commit, after the
// commit, or with the files in place and the gate shut.
func (n *node) dieBeforeCommit(config string)   { n.dieAt(config, commit, false) }
func (n *node) dieAfterCommit(config string)    { n.dieAt(config, commit, true) }
func (n *node) dieBeforeOpenGate(config string) { n.dieAt(config, openGate, false) }

// dieBeforeReload runs a site that changes a unit file, and ends the process before systemd has read it.
func (n *node) dieBeforeReload(config string) {
	n.unitFiles = true
	n.dieAt(config, reload, false)
}

// waitAtGate is a boot whose prelet.service has failed once and is started again.
func (n *node) waitAtGate() {
	n.systemd.endPrelet()
	n.clk.advance(time.Second)
	n.systemd.ordered = true
}

func (n *node) mustBeOpen() {
	if n.readGate() == "" {
		n.t.Error("the run has left the gate shut")
	}
}

func rebootNode(n *node) { n.reboot() }

func bootOne(n *node) { n.bootWith("one") }

func chain(first, then func(*node)) func(*node) { return func(n *node) { first(n); then(n) } }

func (n *node) editFile(path string) {
	if err := os.WriteFile(n.disk+path, []byte("by hand"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) loseGate() { os.Remove(gatePath(n.run)) }

// stories returns stories that use every row of the table.
func stories() []story {
	runs := func(config string) func(*node) { return func(n *node) { n.mustRun(config) } }

	return []story{
		{name: "a change at run time", prepare: bootOne, act: runs("two"), config: "two"},
		{
			name:    "a bad change at run time",
			prepare: bootOne,
			act:     runs("two healthz=bad"),
			finish:  runs("two healthz=bad"),
			config:  "one",
		},
		{name: "the first boot", act: func(n *node) { n.mustRun("one"); n.finishPrelet() }, config: "one"},
		{
			name:    "a change at boot",
			prepare: chain(bootOne, rebootNode),
			act:     func(n *node) { n.mustRun("two"); n.finishPrelet(); n.verify() },
			config:  "two",
		},
		{
			name: "a bad change at boot", prepare: chain(bootOne, rebootNode),
			act: func(n *node) { n.mustRun("two dies=2s"); n.finishPrelet(); n.verify() }, config: "one",
		},
		{
			name:    "a boot that changes nothing",
			prepare: chain(bootOne, rebootNode),
			act:     func(n *node) { n.mustRun("one"); n.finishPrelet() },
			config:  "one",
		},
		{
			name: "a boot that fails before its commit", prepare: chain(bootOne, rebootNode),
			act: func(n *node) { n.keep(); n.finishPrelet() }, config: "one",
		},
		{
			name:    "a boot that fails, on other files",
			prepare: func(n *node) { bootOne(n); n.reboot(); n.editFile(flagsPath) },
			act: func(n *node) {
				if out := n.keep(); !strings.Contains(out.HeldBack, "not in place whole") {
					n.t.Errorf("keep: held back %q; want because it is not whole", out.HeldBack)
				}

				n.finishPrelet()
			},
			config: "one by hand",
			open:   shutState,
			idle:   true,
		},
		{
			name: "a run that fails, on other files", prepare: func(n *node) { bootOne(n); n.editFile(flagsPath) },
			act: func(n *node) { n.keep() }, config: "one by hand",
		},
		{name: "a boot that fails, on what nobody has judged", prepare: func(n *node) {
			n.apiserver = false
			n.mustRun("one")
			n.reboot()
			n.apiserver = true
		}, act: func(n *node) { n.keep(); n.finishPrelet(); n.verify() }, config: "one"},
		{name: "the first boot fails", act: func(n *node) {
			if out := n.keep(); !strings.Contains(out.HeldBack, "no generation was ever in place") {
				n.t.Errorf("keep: held back %q", out.HeldBack)
			}

			n.finishPrelet()

			if out := n.verify(); !strings.Contains(out.HeldBack, "no generation was ever in place") {
				n.t.Errorf("prelet-verify: held back %q", out.HeldBack)
			}
		}, open: shutState, idle: true},
		{
			name: "a boot without a site",
			act:  func(n *node) { n.keepWithoutSite(); n.finishPrelet() },
			open: "PRELET_GENERATION=0",
		},
		{
			name:    "a boot whose site is gone",
			prepare: chain(bootOne, rebootNode),
			act:     func(n *node) { n.keepWithoutSite(); n.finishPrelet() },
			config:  "one",
		},
		{name: "prelet-verify before a run", prepare: chain(bootOne, rebootNode), act: func(n *node) {
			n.finishPrelet()

			if out := n.verify(); out.HeldBack == "" {
				n.t.Error("prelet-verify: nothing is held back before a run of this boot")
			}
		}, config: "one", open: shutState, idle: true},
		{name: "prelet-verify on what is good", prepare: bootOne, act: func(n *node) { n.verify() }, config: "one"},
		{name: "a lost gate", prepare: func(n *node) {
			bootOne(n)
			n.loseGate()
			n.systemd.fail("exit-code")
			n.clk.advance(time.Second)
		},
			act: func(n *node) { n.verify(); n.clk.advance(time.Second) }, config: "one"},
		{name: "a lost gate, and other files", prepare: func(n *node) {
			bootOne(n)
			n.editFile(flagsPath)
			n.loseGate()
			n.systemd.fail("exit-code")
			n.clk.advance(time.Second)
		},
			act: func(n *node) {
				if out := n.verify(); !strings.Contains(out.HeldBack, "was changed") {
					n.t.Errorf("prelet-verify: held back %q", out.HeldBack)
				}
			}, config: "one by hand", open: shutState, idle: true},
		{
			name: "back by hand", prepare: func(n *node) { n.unitFiles = true; bootOne(n); n.mustRun("two") },
			act: func(n *node) { n.rollbackTo(1) }, config: "one",
		},
		{
			name: "back by hand, at boot", prepare: func(n *node) { bootOne(n); n.mustRun("two"); n.reboot() },
			act: func(n *node) { n.rollbackTo(1); n.finishPrelet(); n.verify() }, config: "one",
		},
		{name: "three boots that come to no end", prepare: func(n *node) {
			bootOne(n)

			n.unitFiles = true
			for range maxTries {
				n.reboot()
				n.mustRun("two")
			}

			n.reboot()
		}, act: func(n *node) {
			n.mustRun("two")
			n.mustBeOpen()

			if slices.ContainsFunc(n.systemd.starts, func(s startSeen) bool { return s.gate == gateVariable+"2" }) {
				n.t.Error("the kubelet started a fourth time on what nobody could judge")
			}

			n.finishPrelet()
			n.verify()
		}, config: "one"},
		{name: "four boots without the apiserver", prepare: func(n *node) {
			bootOne(n)
			n.apiserver = false
			n.mustRun("two")
		}, act: func(n *node) {
			for range maxTries + 1 {
				n.reboot()
				n.mustRun("two")
				n.mustBeOpen()
				n.finishPrelet()
				n.verify()
			}

			n.apiserver = true
			n.verify()
		}, config: "two"},
		{name: "three boots, and one with prelet=off", prepare: func(n *node) {
			bootOne(n)

			for range maxTries {
				n.reboot()
				n.mustRun("two")
			}

			n.reboot()
			n.mustSucceed(Gate{Dir: n.run, BootID: n.boot}.Open(2), "prelet=off")
			n.finishPrelet()
		}, act: func(n *node) { n.mustRun("two") }, config: "one"},
		{name: "three boots without a verdict, in which the power fails later", prepare: func(n *node) {
			bootOne(n)
			n.apiserver = false
			n.mustRun("two")

			for range maxTries + 1 {
				n.reboot()
				n.mustRun("two")
				n.finishPrelet()
				n.verify()
				n.dieAt("", watch, false)
			}

			n.reboot()
			n.apiserver = true
		}, act: func(n *node) {
			n.mustRun("two")

			if n.read(configPath) != "one" {
				n.t.Error("the fifth boot did not go back")
			}

			n.finishPrelet()
			n.verify()
		}, config: "one"},
		{name: "the kubelet has failed at the gate", prepare: func(n *node) { bootOne(n); n.reboot(); n.waitAtGate() },
			act: func(n *node) { n.mustRun("one"); n.finishPrelet() }, config: "one"},
		{name: "the kubelet has failed at the gate, on what nobody has judged", prepare: func(n *node) {
			bootOne(n)
			n.apiserver = false
			n.mustRun("two")
			n.reboot()
			n.waitAtGate()
			n.apiserver = true
		}, act: func(n *node) { n.mustRun("two"); n.finishPrelet() }, config: "two"},
		{name: "the kubelet has failed at the gate, and there is no site", prepare: func(n *node) { n.waitAtGate() },
			act: func(n *node) { n.keepWithoutSite(); n.finishPrelet() }, open: "PRELET_GENERATION=0"},
		{
			name:    "prelet.service is started again at run time",
			prepare: func(n *node) { bootOne(n); n.systemd.ordered, n.systemd.insidePrelet = true, true },
			act:     func(n *node) { n.mustRun("two"); n.finishPrelet() },
			config:  "two",
		},
		{
			name:    "the first site is broken, on a node that runs",
			prepare: func(n *node) { n.keepWithoutSite(); n.finishPrelet() },
			act:     func(n *node) { n.keep() },
			open:    "PRELET_GENERATION=0",
		},
		{
			name:    "a change while the unit is masked",
			prepare: func(n *node) { bootOne(n); n.systemd.unit.Load = "masked" },
			act: func(n *node) {
				if _, err := n.runSite(n.t.Context(), "two"); n.codeOf(err) != fault.Systemd {
					n.t.Errorf("a change while the unit is masked: %v", err)
				}
			},
			finish: func(n *node) { n.systemd.unit.Load = "loaded" },
			config: "one",
		},
		{
			name:    "back by hand while the unit is masked",
			prepare: func(n *node) { bootOne(n); n.mustRun("two"); n.systemd.unit.Load = "masked" },
			act: func(n *node) {
				_, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(n.t.Context(), 1, "by hand") })
				if n.codeOf(err) != fault.Systemd {
					n.t.Errorf("back while the unit is masked: %v", err)
				}
			},
			finish: func(n *node) { n.systemd.unit.Load = "loaded" },
			config: "two",
		},
		{
			name:    "prelet recover leaves the gate to what follows",
			prepare: func(n *node) { bootOne(n); n.dieAfterCommit("two") },
			act: func(n *node) {
				n.enterMachine(
					"recover",
					func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err },
				)

				if n.readGate() != "" || n.read(configPath) != "two" {
					n.t.Errorf("the gate says %q, the file is %q", n.readGate(), n.read(configPath))
				}

				n.verify()
			},
			afterKill: func(n *node) { n.verify() },
			config:    "two",
		},
		{name: "the way back is ill as well", prepare: func(n *node) {
			bootOne(n)
			n.systemd.behave = func() conduct { return conduct{dies: time.Second} }
		}, act: runs("two"), finish: func(n *node) {
			if n.isHeld("two") {
				n.t.Error("the plan is held, and the node is as ill without it")
			}

			n.systemd.behave = n.behave
			n.mustRun("two")
		}, config: "two", late: true},
		{name: "ill, with nothing to go back to", prepare: func(n *node) {}, act: func(n *node) {
			n.mustRun("one healthz=bad")
			n.finishPrelet()
			n.verify()
		}, config: "one healthz=bad", awaits: true},
		{
			name:    "a crash before the files are in place",
			prepare: func(n *node) { bootOne(n); n.dieAfterCommit("two") },
			act:     runs("two"),
			config:  "two",
		},
		{
			name:    "a crash, and prelet-verify comes first",
			prepare: func(n *node) { bootOne(n); n.dieAfterCommit("two") },
			act:     func(n *node) { n.verify() },
			config:  "two",
		},
		{
			name: "a crash, and the run after it fails", prepare: func(n *node) { bootOne(n); n.dieAfterCommit("two") },
			act: func(n *node) { n.keep() }, config: "two",
		},
		{
			name:    "a crash before the gate is open, and prelet-verify comes",
			prepare: func(n *node) { bootOne(n); n.dieBeforeOpenGate("two") },
			act:     func(n *node) { n.verify() },
			config:  "two",
		},
		{
			name:    "a crash before the gate is open, and another file",
			prepare: func(n *node) { bootOne(n); n.dieBeforeOpenGate("two"); n.editFile(flagsPath) },
			act:     func(n *node) { n.verify() },
			config:  "two by hand",
			open:    shutState,
			idle:    true,
			awaits:  true,
		},
		{
			name:    "a commit that never happened",
			prepare: func(n *node) { bootOne(n); n.dieBeforeCommit("two") },
			act: func(n *node) {
				n.enterMachine(
					"recover",
					func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err },
				)

				if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
					n.t.Errorf("what was staged is still there: %v", left)
				}
			},
			config: "one",
		},
		{name: "a commit that never happened, on what nobody has judged", prepare: func(n *node) {
			bootOne(n)
			n.apiserver = false
			n.mustRun("two")
			n.dieBeforeCommit("three")
			n.apiserver = true
		}, act: func(n *node) {
			n.verify()

			if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
				n.t.Errorf("what was staged is still there: %v", left)
			}
		}, config: "two"},
		{name: "another run takes over and is judged", prepare: bootOne, act: func(n *node) {
			n.clk.schedule(5*time.Second, func() { n.mustRun("three") })

			if out := n.mustRun("two healthz=bad"); out.Verdict != Good || out.Generation != n.newest() {
				n.t.Errorf("the first run: %+v; want the other's verdict", out)
			}
		}, afterKill: runs("three"), finish: runs("three"), config: "three"},
		{name: "another run takes over and is killed", prepare: bootOne, act: func(n *node) {
			n.clk.schedule(5*time.Second, func() { n.dieAfterCommit("three") })

			if out := n.mustRun("two healthz=bad"); out.Verdict != Good || out.Generation != n.newest() {
				n.t.Errorf("the first run: %+v; want it to judge the other's", out)
			}
		}, afterKill: runs("three"), finish: runs("three"), config: "three"},
		{name: "others keep taking over", prepare: bootOne, act: func(n *node) {
			for i := range maxRounds + 1 {
				n.clk.schedule(
					time.Duration(i+1)*3*time.Second, func() { n.dieBeforeOpenGate(fmt.Sprintf("other-%d", i)) },
				)
			}

			out := n.mustRun("two")
			if out.Verdict != Pending || !strings.Contains(out.Why, "keep taking over") {
				n.t.Errorf("the run: %+v", out)
			}
		}, afterKill: runs("three"), finish: runs("three"), config: "three", late: true},
		{name: "files that go when it is good", prepare: func(n *node) {
			n.shape = func(p *Plan) { delete(p.Files, flagsPath); p.Retire = []string{flagsPath} }
		}, act: func(n *node) { n.mustRun("one"); n.finishPrelet(); n.verify() }, config: "one ", finish: func(n *node) {}},
		{
			name:    "a crash before systemd reads a unit file",
			prepare: func(n *node) { bootOne(n); n.dieBeforeReload("two") },
			act:     runs("two"),
			config:  "two",
		},
		{name: "a crash before a systemd that overlooks it reads a unit file", prepare: func(n *node) {
			bootOne(n)
			n.systemd.blind = true
			n.dieBeforeReload("two")
		}, act: runs("two"), config: "two"},
		{name: "a crash before systemd sees that a unit file is gone", prepare: func(n *node) {
			bootOne(n)
			n.shape = func(p *Plan) { p.UnitFiles = false }
			n.dieBeforeReload("two")
		}, act: runs("two"), config: "two"},
		{
			name:    "a crash before systemd reads a unit file, and prelet-verify comes",
			prepare: func(n *node) { bootOne(n); n.dieBeforeReload("two") },
			act:     func(n *node) { n.verify() },
			config:  "two",
		},
		{
			name:    "a crash before systemd reads a unit file, and another change",
			prepare: func(n *node) { bootOne(n); n.dieBeforeReload("two"); n.unitFiles = false },
			act:     runs("three"),
			config:  "three",
		},
		{name: "a boot after a crash, killed before systemd reads a unit file", prepare: func(n *node) {
			bootOne(n)
			n.unitFiles = true
			n.dieAfterCommit("two")
			n.reboot()
			n.dieBeforeReload("two")
		}, act: func(n *node) { n.mustRun("two"); n.finishPrelet(); n.verify() }, config: "two"},
		{name: "a boot with prelet=off after a crash among unit files", prepare: func(n *node) {
			bootOne(n)
			n.unitFiles = true
			n.dieAfterCommit("two")
			n.reboot()
		}, act: func(n *node) {
			n.enterMachine(
				"recover",
				func(m *Machine) (Outcome, error) { _, err := m.Recover(n.t.Context()); return Outcome{}, err },
			)
			n.mustSucceed(Gate{Dir: n.run, BootID: n.boot}.Open(2), "prelet=off")
			n.finishPrelet()
		}, config: "two"},
		{name: "a unit file, and a systemd that overlooks it", prepare: func(n *node) {
			bootOne(n)
			n.unitFiles, n.systemd.blind = true, true
		}, act: runs("two healthz=bad"), finish: runs("two healthz=bad"), config: "one"},
		{name: "a unit file", prepare: bootOne, act: func(n *node) {
			n.unitFiles = true
			reloads := n.systemd.reloads
			n.mustRun("two healthz=bad")

			if n.systemd.reloads != reloads+2 {
				n.t.Errorf("%d reloads; want one for the change and one for the way back", n.systemd.reloads-reloads)
			}
		}, afterKill: runs("two healthz=bad"), finish: runs("two healthz=bad"), config: "one"},
	}
}

// newest returns the number of the generation in place.
func (n *node) newest() (gen int) {
	n.enterMachine("current", func(m *Machine) (Outcome, error) {
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
		changes := !after && slices.Contains([]step{publish, complete, restore}, s)
		if changes && (n.readGate() != "" || isAlive(n.systemd.unit)) {
			n.t.Errorf(
				"%s: files change while the gate says %q and the kubelet is %s", stepNames[s].name, n.readGate(),
				n.systemd.unit.Active,
			)
		}

		if after && n.unitFiles && slices.Contains([]step{publish, complete, restore}, s) {
			n.systemd.unread = n.systemd.reloads + 1
		}

		if then != nil {
			then(s, after)
		}
	}
}

// checkRunning checks whether the kubelet runs right after act: only prelet starts it.
func (n *node) checkRunning(s story) {
	gate := n.readGate()
	if (gate == "") != (s.open == shutState) || strings.HasPrefix(s.open, gateVariable) && gate != s.open {
		n.t.Errorf("the gate says %q; want it %q", gate, s.open)
	}

	if running := n.systemd.unit.Active == "active"; running == s.idle {
		n.t.Errorf("the kubelet is %s/%s; want it to run: %t", n.systemd.unit.Active, n.systemd.unit.Sub, !s.idle)
	}
}

// checkEnd checks the end of a story.
func (n *node) checkEnd(s story) {
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

	if gate := n.readGate(); s.open == "" && s.config != "" && gate != fmt.Sprintf("%s%d", gateVariable, n.newest()) {
		n.t.Errorf("the gate says %q, and generation %d is in place", gate, n.newest())
	}

	if j := n.journal(); (j != nil) != s.awaits {
		n.t.Errorf("the journal is %+v; want one: %t", j, s.awaits)
	}

	if s.open != shutState && (Gate{Dir: n.run, BootID: n.boot}).IsOwed(DefaultUnit) {
		n.t.Error("a start is owed")
	}
}

// playOptions contains how to play a story.
type playOptions struct {
	rows   []row     // nil: the table
	killAt int       // end the process at this moment: before each step, and after the last one of all; 0: never
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
	if s.prepare != nil {
		s.prepare(n)
	}

	moment := 0
	n.step = n.guardSteps(func(x step, after bool) {
		if after && !endsWith(now, x) {
			return // the same moment as before the next step
		}

		if moment++; moment == how.killAt {
			at = momentOf(now, x, after)
			panic(killed{Event{Step: at}})
		}
	})
	n.maybeKilled(func() { s.act(n) })

	if how.killAt == 0 && !s.late {
		n.checkRunning(s)
	}

	if how.killAt > 0 && at == "" {
		return ""
	}

	n.step = n.guardSteps(nil)
	if at != "" {
		n.clk.advance(time.Second) // RestartSec=1

		if s.afterKill != nil {
			s.afterKill(n)
		} else {
			s.act(n)
		}
	}

	n.clk.advance(15 * time.Second) // a kubelet that waits at the gate tries again meanwhile

	if !s.idle {
		n.verify()
	}

	if s.finish != nil {
		s.finish(n)
	}

	n.clk.advance(time.Second)
	n.checkEnd(s)

	return at
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
		"%s %s of %s, %s, %s", side, stepNames[s].name, joinNames(phaseNames, r.In), joinNames(triggerNames, r.On),
		factNames[r.When].name,
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

// TestStories plays every story, and checks that they use every row of the table.
func TestStories(t *testing.T) {
	seen := map[string]bool{}

	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) { s.play(t, playOptions{seen: func(r row) { seen[fmt.Sprint(r)] = true }}) })
	}

	for i, r := range table {
		if r.Never == "" && !seen[fmt.Sprint(r)] {
			t.Errorf(
				"row %d is in no story: %s, %s, %s", i, joinNames(phaseNames, r.In), joinNames(triggerNames, r.On),
				factNames[r.When].name,
			)
		}
	}
}

// TestKilledAtEveryStep kills each story before each step and after the last of all, lets systemd start again what it
// starts again, and expects the same end. Each of these moments of every row must occur.
func TestKilledAtEveryStep(t *testing.T) {
	var mutex sync.Mutex

	killed := map[string]bool{}

	t.Run("stories", func(t *testing.T) {
		for _, s := range stories() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()

				for k := 1; ; k++ {
					at, wrong := s.record(t, playOptions{killAt: k})
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
	at   string // the row that is changed; "" when other rows may be chosen instead
}

// mutants returns tables without a step or a condition, or that continue where they should end, or the other way round.
func mutants() (out []mutant) {
	change := func(i int, what string, do func(r *row)) {
		rows := slices.Clone(table)
		rows[i].Do = slices.Clone(rows[i].Do)
		do(&rows[i])
		name := fmt.Sprintf(
			"%s: %s, %s, %s", what, joinNames(phaseNames, table[i].In), joinNames(triggerNames, table[i].On),
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
			change(i, "goes on", func(r *row) { r.Then = onResume })
		} else {
			change(i, "ends", func(r *row) { r.Then = done })
		}
	}

	return out
}

// surviving contains the mutants that no story detects, each with the reason why the row is in the table.
var surviving = map[string]string{
	"goes on: settled, verify, gate open":                              nothingToDo,
	"goes on: settled, verify, whole":                                  nothingToDo,
	"goes on: settled, superseded, ":                                   nothingToDo,
	"goes on: pending, returning, good, ":                              nothingToDo,
	"goes on: returning, bad, ":                                        nothingToDo,
	"goes on: settled, pending, returning, failed, no site, gate open": "it would judge, as prelet-verify does later",
	"without publish: mixed, committed, ":                              "what follows finds it interrupted, and completes it",
	"never: settled, verify, gate open":                                "the rows below do nothing either, and read the files for it",
	"never: pending, returning, verify, gate open":                     "likewise",
}

// nothingToDo: on a settled node whose gate is open there is nothing to do.
const nothingToDo = "the row for it finds the gate open and no start owed, and does nothing"

// TestMutants: each change of a row breaks a story. Only stories that use the row are played.
func TestMutants(t *testing.T) {
	through := map[string][]story{}
	long := map[string]int{} // number of rows by a story's name

	for _, s := range stories() {
		seen := map[string]bool{}
		s.record(t, playOptions{seen: func(r row) { seen[fmt.Sprint(r)] = true; long[s.name]++ }})

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

			why, listed := surviving[m.name]
			for _, s := range through[m.at] {
				if _, wrong := s.record(t, playOptions{rows: m.rows}); len(wrong) > 0 {
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

	for name := range surviving {
		if !slices.ContainsFunc(mutants(), func(m mutant) bool { return m.name == name }) {
			t.Errorf("%q is listed to survive, and there is no such mutant", name)
		}
	}
}
