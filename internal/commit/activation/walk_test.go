package activation

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
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
	rebooted  bool          // a boot after a power cut anywhere comes to the same end
	single    bool          // it covers what no other story does, so a quick run kills mutants in it too
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

// switchOff is a run with prelet=off on the kernel command line.
func (n *node) switchOff() {
	n.off = true
	n.enterMachine("prelet=off", func(m *Machine) (Outcome, error) { return m.SwitchOff(n.t.Context()) })
}

func (n *node) keepWithoutSite() Outcome {
	return n.enterMachine("keep without a site", func(m *Machine) (Outcome, error) { return m.KeepWithoutSite(n.t.Context()) })
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

// loseState removes the state folder.
func (n *node) loseState() {
	if err := os.RemoveAll(n.disk + "/var/lib/prelet"); err != nil {
		n.t.Fatal(err)
	}
}

// restoreInterrupted copies the state folder of a commit whose process ends in the middle of it, goes on without that
// commit, and restores the copy at the next boot.
func (n *node) restoreInterrupted() {
	state, backup := n.disk+"/var/lib/prelet", n.disk+"/backup"
	n.dieAfterCommit("other")

	if err := os.Rename(state, backup); err != nil {
		n.t.Fatal(err)
	}

	n.reboot()
	n.bootWith("one")
	n.loseState()

	if err := os.Rename(backup, state); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) loseGate() { os.Remove(gatePath(n.run)) }

// stories returns stories that use every row of the table.
func stories() []story {
	runs := func(config string) func(*node) { return func(n *node) { n.mustRun(config) } }

	return append(awaitingStories(), []story{
		{
			name: "a site that writes nothing",
			act: func(n *node) {
				n.enterMachine("unchanged", func(m *Machine) (Outcome, error) {
					return m.ResumeUnchanged(n.t.Context(), n.plan(""))
				})
				n.finishPrelet()
			},
			open: "PRELET_GENERATION=0",
		},
		{
			name: "a held plan, and no generation",
			act: func(n *node) {
				n.enterMachine("resume", func(m *Machine) (Outcome, error) { return m.Resume(n.t.Context()) })
				n.finishPrelet()
			},
			open: "PRELET_GENERATION=0",
		},
		{
			name:    "the state is lost at run time",
			prepare: chain(bootOne, (*node).loseState),
			act:     runs("one"),
			config:  "one",
		},
		{
			name: "the state is lost before a boot", prepare: chain(chain(bootOne, (*node).loseState), rebootNode),
			act: func(n *node) { n.mustRun("one"); n.finishPrelet(); n.verify() }, config: "one", rebooted: true,
		},
		{
			name:    "the state of an interrupted commit is restored",
			prepare: chain(bootOne, (*node).restoreInterrupted), act: runs("one"), config: "one",
		},
		{
			name:    "the state of an interrupted commit is restored, and the site has changed",
			prepare: chain(bootOne, (*node).restoreInterrupted), act: runs("two"), config: "two",
		},
		{name: "a change at run time", prepare: bootOne, act: runs("two"), config: "two", rebooted: true},
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
			config:  "two", rebooted: true,
		},
		{
			name: "a bad change at boot", prepare: chain(bootOne, rebootNode),
			act: func(n *node) { n.mustRun("two dies=2s"); n.finishPrelet(); n.verify() }, config: "one",
		},
		{
			name:    "a boot that changes nothing",
			prepare: chain(bootOne, rebootNode),
			act:     func(n *node) { n.mustRun("one"); n.finishPrelet() },
			config:  "one", rebooted: true,
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
		{name: "a boot that fails, on what was not judged", prepare: func(n *node) {
			n.apiserver = false
			n.mustRun("one")
			n.reboot()
			n.apiserver = true
		}, act: func(n *node) { n.keep(); n.finishPrelet(); n.verify() }, config: "one"},
		{name: "the first boot fails", act: func(n *node) {
			if out := n.keep(); !strings.Contains(out.HeldBack, "no generation was ever in place") {
				n.t.Errorf("keep: held back %q; want that no generation was ever in place", out.HeldBack)
			}

			n.finishPrelet()

			if out := n.verify(); !strings.Contains(out.HeldBack, "no generation was ever in place") {
				n.t.Errorf("prelet-verify: held back %q; want that no generation was ever in place", out.HeldBack)
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
					n.t.Errorf("prelet-verify: held back %q; want the changed file", out.HeldBack)
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
				n.t.Error("the kubelet started a fourth time on what was not judged")
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
			n.switchOff()
			n.finishPrelet()
		}, act: func(n *node) { n.mustRun("two") }, config: "one"},
		{
			name: "prelet=off on a good generation", prepare: chain(bootOne, rebootNode),
			act: func(n *node) { n.switchOff(); n.finishPrelet() }, config: "one",
		},
		{
			name: "prelet=off where prelet was never used",
			act:  func(n *node) { n.switchOff(); n.finishPrelet() }, open: "PRELET_GENERATION=0",
		},
		{
			name:    "prelet=off after a crash",
			prepare: func(n *node) { bootOne(n); n.dieAfterCommit("two"); n.reboot() },
			act:     func(n *node) { n.switchOff(); n.finishPrelet() },
			config:  "two",
		},
		{
			name: "a label that somebody has edited",
			prepare: func(n *node) {
				n.shape = func(p *Plan) { p.Reconcile, p.Labels = true, map[string]string{"example.com/a": "1"} }
				n.labels, n.age = map[string]string{"example.com/a": "1"}, time.Hour
				bootOne(n)
				n.labels["example.com/a"] = "somebody's"
				n.loseGate()
			},
			act: func(n *node) {
				n.mustRun("one")

				if got := n.labels["example.com/a"]; got != "1" {
					n.t.Errorf("got label %q after the run; want it patched to 1", got)
				}
			},
			config: "one",
		},
		{
			name: "a label that somebody has edited, at boot",
			prepare: func(n *node) {
				n.shape = func(p *Plan) { p.Reconcile, p.Labels = true, map[string]string{"example.com/a": "1"} }
				n.labels, n.age = map[string]string{"example.com/a": "1"}, time.Hour
				bootOne(n)
				n.reboot()
				n.labels["example.com/a"] = "somebody's"
			},
			act: func(n *node) {
				n.mustRun("one")

				if got := n.labels["example.com/a"]; got != "somebody's" {
					n.t.Errorf("got label %q after the run at boot; want it not patched: prelet must not wait", got)
				}

				n.finishPrelet()
			},
			config: "one",
		},
		{name: "a crash among unit files, and prelet-verify comes", prepare: func(n *node) {
			bootOne(n)
			n.unitFiles = true
			n.dieAfterCommit("two")
		}, act: func(n *node) { n.verify() }, config: "two"},
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
		{name: "the kubelet has failed at the gate, on what was not judged", prepare: func(n *node) {
			bootOne(n)
			n.apiserver = false
			n.mustRun("two")
			n.reboot()
			n.waitAtGate()
			n.apiserver = true
		}, act: func(n *node) { n.mustRun("two"); n.finishPrelet() }, config: "two"},
		{
			name:    "the kubelet has failed at the gate, and the site writes nothing",
			prepare: (*node).waitAtGate,
			act: func(n *node) {
				n.enterMachine("unchanged", func(m *Machine) (Outcome, error) {
					return m.ResumeUnchanged(n.t.Context(), n.plan(""))
				})
				n.finishPrelet()
			},
			open: "PRELET_GENERATION=0",
		},
		{
			name:    "the kubelet has failed at the gate, the plan is held, and no generation",
			prepare: (*node).waitAtGate,
			act: func(n *node) {
				n.enterMachine("resume", func(m *Machine) (Outcome, error) { return m.Resume(n.t.Context()) })
				n.finishPrelet()
			},
			open: "PRELET_GENERATION=0",
		},
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
					n.t.Errorf("a change while the unit is masked: %v; want code systemd", err)
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
					n.t.Errorf("back while the unit is masked: %v; want code systemd", err)
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
					n.t.Errorf("the gate says %q, the file is %q; want a shut gate and two",
						n.readGate(), n.read(configPath))
				}

				n.verify()
			},
			afterKill: func(n *node) { n.verify() },
			config:    "two",
		},
		{name: "the way back is unhealthy as well", prepare: func(n *node) {
			bootOne(n)
			n.systemd.behave = func() conduct { return conduct{dies: time.Second} }
		}, act: runs("two"), finish: func(n *node) {
			if n.isHeld("two") {
				n.t.Error("the plan is held, and the node is as unhealthy without it")
			}

			n.systemd.behave = n.behave
			n.mustRun("two")
		}, config: "two", late: true},
		{name: "unhealthy, with nothing to go back to", prepare: func(n *node) {}, act: func(n *node) {
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
					n.t.Errorf("what was staged is still there: %v; want only the file", left)
				}
			},
			config: "one",
		},
		{name: "a commit that never happened, on what was not judged", prepare: func(n *node) {
			bootOne(n)
			n.apiserver = false
			n.mustRun("two")
			n.dieBeforeCommit("three")
			n.apiserver = true
		}, act: func(n *node) {
			n.verify()

			if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
				n.t.Errorf("what was staged is still there: %v; want only the file", left)
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
		{
			name:    "there is no site, on a node that runs",
			prepare: func(n *node) { n.keepWithoutSite(); n.finishPrelet() },
			act:     func(n *node) { n.keepWithoutSite() },
			open:    "PRELET_GENERATION=0",
		},
		{name: "another run goes back and is killed", prepare: bootOne, act: func(n *node) {
			n.clk.schedule(5*time.Second, func() { n.dieAt("three healthz=bad", restore, true) })

			if out := n.mustRun("two"); out.InPlace != Good || out.Generation != n.newest() {
				n.t.Errorf("the first run: %+v; want it to judge the rollback", out)
			}
		}, afterKill: runs("three healthz=bad"), finish: runs("three healthz=bad"), config: "one"},
		{name: "others keep taking over", prepare: bootOne, act: func(n *node) {
			for i := range maxRounds + 1 {
				n.clk.schedule(
					time.Duration(i+1)*3*time.Second, func() { n.dieBeforeOpenGate(fmt.Sprintf("other-%d", i)) },
				)
			}

			out := n.mustRun("two")
			if out.Verdict != Pending || !strings.Contains(out.Why, "keep taking over") {
				n.t.Errorf("the run: %+v; want a pending verdict: others keep taking over", out)
			}
		}, afterKill: runs("three"), finish: runs("three"), config: "three", late: true},
		{name: "files that go when it is good", prepare: func(n *node) {
			n.shape = func(p *Plan) { delete(p.Files, flagsPath); p.Retire = []string{flagsPath} }
		}, act: func(n *node) { n.mustRun("one"); n.finishPrelet(); n.verify() }, config: "one ", finish: func(n *node) {}, single: true},
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
			n.switchOff()
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
	}...)
}

// awaitPending leaves a generation that awaits its verdict, and awaitReturning the same after a rollback.
func awaitPending(n *node) {
	bootOne(n)
	n.apiserver = false
	n.mustRun("two")
	n.apiserver = true
}

func awaitReturning(n *node) {
	bootOne(n)
	n.apiserver = false
	n.mustRun("two healthz=bad")
	n.apiserver = true
}

// awaitingStories returns stories of each entry on a generation that awaits its verdict, before and after a rollback.
func awaitingStories() (out []story) {
	for _, w := range []struct {
		name    string
		prepare func(n *node)
		config  string // of the generation in place
		edited  string // the end when a file was edited and the gate is open
		awaits  bool
	}{
		{"settled", func(n *node) { bootOne(n); n.mustRun("two") }, "two", "two by hand", false},
		{"pending", awaitPending, "two", "one", true},
		{"returning", awaitReturning, "one", "one by hand", true},
	} {
		edit := func(n *node) { n.editFile(flagsPath) }
		lose := func(n *node) { n.loseGate(); n.systemd.fail("exit-code"); n.clk.advance(time.Second) }
		heldBack := func(what string, do func(n *node) Outcome) func(n *node) {
			return func(n *node) {
				if out := do(n); out.HeldBack == "" {
					n.t.Errorf("%s: got %+v; want it held back", what, out)
				}

				n.finishPrelet()
			}
		}
		entries := []struct {
			name string
			do   func(n *node) Outcome
		}{{"a failed run", (*node).keep}, {"a run without a site", (*node).keepWithoutSite}}

		for _, e := range entries {
			out = append(out,
				story{
					name: e.name + " on " + w.name + " judges it", prepare: w.prepare, config: w.config,
					act: func(n *node) {
						e.do(n)

						if j := n.journal(); j != nil {
							n.t.Errorf("%s: the journal is %+v; want a verdict", e.name, j)
						}
					},
				},
				story{
					name:    e.name + " on " + w.name + " at boot",
					prepare: chain(w.prepare, rebootNode),
					config:  w.config,
					act:     func(n *node) { e.do(n); n.finishPrelet() },
				},
				story{
					name: e.name + " on " + w.name + " with another file", prepare: chain(w.prepare, edit),
					config: w.edited, act: func(n *node) { e.do(n) },
				},
				story{
					name:    e.name + " on " + w.name + " with another file, at boot",
					prepare: chain(chain(w.prepare, rebootNode), edit),
					config:  w.config + " by hand", open: shutState, idle: true, awaits: w.awaits,
					act: heldBack(e.name, e.do),
				},
			)
		}

		out = append(out,
			story{
				name: "prelet-verify before a run, on " + w.name, prepare: chain(w.prepare, rebootNode),
				config: w.config, open: shutState, idle: true, awaits: w.awaits,
				act: heldBack("prelet-verify", func(n *node) Outcome { n.finishPrelet(); return n.verify() }),
			},
			story{
				name: "prelet-verify on " + w.name, prepare: w.prepare, config: w.config,
				act: func(n *node) { n.verify() },
			},
			story{
				name: "a lost gate on " + w.name, prepare: chain(w.prepare, lose), config: w.config,
				act: func(n *node) { n.verify(); n.clk.advance(time.Second) },
			},
			story{
				name: "a lost gate and another file on " + w.name, prepare: chain(chain(w.prepare, edit), lose),
				config: w.config + " by hand", open: shutState, idle: true, awaits: w.awaits,
				act: heldBack("prelet-verify", func(n *node) Outcome { return n.verify() }),
			},
			story{
				name: "prelet=off on " + w.name, prepare: chain(w.prepare, rebootNode), config: w.config,
				act: func(n *node) {
					n.switchOff()

					if j := n.journal(); j != nil && j.BootID == n.boot {
						n.t.Errorf("prelet=off: the journal is %+v; want this boot not counted", j)
					}

					n.finishPrelet()
				},
			},
			story{
				name: "back by hand from " + w.name, prepare: w.prepare, config: "",
				act: func(n *node) { n.rollbackTo(0) },
			},
			story{
				name: "a change on " + w.name, prepare: w.prepare, config: "three",
				act: func(n *node) {
					n.mustRun("three")

					if got := n.read(configPath); got != "three" {
						n.t.Errorf("got file %q after the run; want three", got)
					}
				},
			},
			story{
				name: "a change while the unit is masked, on " + w.name, config: w.config,
				prepare: func(n *node) { w.prepare(n); n.systemd.unit.Load = "masked" },
				act: func(n *node) {
					if _, err := n.runSite(n.t.Context(), "three"); n.codeOf(err) != fault.Systemd {
						n.t.Errorf("a change while the unit is masked: got %v; want code %s", err, fault.Systemd)
					}
				},
				finish: func(n *node) { n.systemd.unit.Load = "loaded" },
			},
			story{
				name: "back by hand while the unit is masked, on " + w.name, config: w.config,
				prepare: func(n *node) { w.prepare(n); n.systemd.unit.Load = "masked" },
				act: func(n *node) {
					_, err := n.process(func(m *Machine) (Outcome, error) { return m.GoBack(n.t.Context(), 0, "me") })
					if n.codeOf(err) != fault.Systemd || n.readGate() == "" {
						n.t.Errorf("got %v, gate %q; want code %s and the gate open", err, n.readGate(), fault.Systemd)
					}
				},
				finish: func(n *node) { n.systemd.unit.Load = "loaded" },
			},
			story{
				name: "a commit that never happened, on " + w.name, config: w.config,
				prepare: func(n *node) { w.prepare(n); n.dieBeforeCommit("three") },
				act: func(n *node) {
					n.verify()

					if left, _ := os.ReadDir(n.disk + "/etc/default"); len(left) != 1 {
						n.t.Errorf("what was staged still exists: %v; want only the file", left)
					}
				},
			},
			story{
				name: "the kubelet has failed at the gate, on " + w.name, config: w.config,
				prepare: func(n *node) { w.prepare(n); n.reboot(); n.waitAtGate() },
				act:     func(n *node) { n.mustRun(w.config); n.finishPrelet() },
			},
			story{
				name: "nothing to change on " + w.name + ", at boot", prepare: chain(w.prepare, rebootNode),
				config: w.config, act: func(n *node) { n.mustRun(w.config); n.finishPrelet() },
			},
			story{
				name: "nothing to change on " + w.name, prepare: w.prepare, config: w.config,
				act: func(n *node) { n.mustRun(w.config) },
			},
			story{
				name:    "a crash from " + w.name + ", and prelet=off",
				config:  "three",
				act:     func(n *node) { n.switchOff(); n.finishPrelet() },
				prepare: func(n *node) { w.prepare(n); n.dieAfterCommit("three"); n.reboot() },
			},
		)
	}

	return append(out, story{
		name: "a crash after going back, before systemd reads a unit file", config: "one",
		prepare: func(n *node) { bootOne(n); n.unitFiles = true; n.dieAt("two healthz=bad", restore, true) },
		act:     func(n *node) { n.verify() },
	})
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
			n.t.Errorf("%s: files change while the gate says %q and the kubelet is %s; want a shut gate and a stopped kubelet",
				stepNames[s].name, n.readGate(),
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

// checkCounted checks that this boot counts as a try if the kubelet may have started on a generation that awaits its
// verdict. prelet=off counts nothing.
func (n *node) checkCounted(at string) {
	if j := n.journal(); j != nil && j.Phase == generation.PhaseVerify && n.readGate() != "" && !n.off &&
		j.BootID != n.boot {
		n.t.Errorf("a power cut %s: the gate is open on generation %d, and got no count of the boot, want one",
			at, j.Gen)
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
		n.t.Errorf("the gate says %q, and generation %d is in place; want the gate open on that generation",
			gate, n.newest())
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
	moment func()    // called at each moment; may be nil
	killAt int       // end the process at this moment: before each step, and after the last one of all; 0: never
	killIn string    // only moments in this row count; "": in any
	reboot bool      // a kill is a power cut
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

		if how.killIn != "" && describeRow(now) != how.killIn {
			return
		}

		if how.moment != nil {
			how.moment()
		}

		if moment++; moment == how.killAt {
			at = momentOf(now, x, after)
			panic(killed{Event{Step: at}})
		}
	})
	n.maybeKilled(func() { s.act(n) })

	if how.killAt == 0 {
		n.checkCounted("after it")

		if !s.late {
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

			if !s.rebooted {
				return at
			}

			n.reboot()
		} else {
			n.clk.advance(time.Second) // RestartSec=1
		}

		if s.afterKill != nil {
			s.afterKill(n)
		} else {
			s.act(n)
		}

		if how.reboot && n.systemd.insidePrelet {
			n.finishPrelet()
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

// countMoments returns the number of moments at which the process can be killed.
func (s story) countMoments(t testing.TB) (n int) {
	s.record(t, playOptions{moment: func() { n++ }})

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
		_, isUnused := unused[describeRow(r)]
		if r.Never == "" && !seen[fmt.Sprint(r)] && !isUnused {
			t.Errorf("row %d is in no story: %s, %s, %s; want it in one",
				i, joinNames(phaseNames, r.In), joinNames(triggerNames, r.On),
				factNames[r.When].name)
		}
	}
}

// TestKilledAtEveryStep kills each story before each step and after the last of all, lets systemd start again what it
// starts again, and expects the same end. A second kill at the same moment is a power cut: the boot must have counted
// as a try. PRELET_SWEEP=full kills at all moments, of which each of every row must occur; else at a fixed sample.
func TestKilledAtEveryStep(t *testing.T) {
	var mutex sync.Mutex

	killed := map[string]bool{}

	t.Run("stories", func(t *testing.T) {
		for _, s := range stories() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()

				count := s.countMoments(t)
				for k := 1; k <= count; k++ {
					if !isSampled(fmt.Sprint(s.name, k)) {
						continue
					}

					for _, reboot := range []bool{false, true} {
						at, wrong := s.record(t, playOptions{killAt: k, reboot: reboot})
						for _, w := range wrong {
							t.Errorf("killed %s (moment %d, power cut %t): %s; want the outcome of the story without the kill",
								at, k, reboot, w)
						}

						mutex.Lock()
						killed[at] = true
						mutex.Unlock()
					}
				}
			})
		}
	})

	if !isFullSweep() {
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
				one.In, one.On = []phase{p}, []trigger{on}
				out = append(out, one)
			}
		}
	}

	return out
}

func describeRow(r row) string {
	return fmt.Sprintf("%s, %s, %s", joinNames(phaseNames, r.In), joinNames(triggerNames, r.On), factNames[r.When].name)
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
			change(i, "without "+stepNames[s].name, key, func(r *row) { r.Do = slices.Delete(r.Do, j, j+1) })

			if j > 0 {
				what := fmt.Sprintf("%s before %s", stepNames[s].name, stepNames[r.Do[j-1]].name)
				change(i, what, key, func(r *row) { r.Do[j-1], r.Do[j] = r.Do[j], r.Do[j-1] })
			}
		}

		change(i, "missing", key, func(r *row) { r.In = nil })

		if r.When != always {
			change(i, "without its condition", pair, func(r *row) { r.When = always })
		}

		after := slices.IndexFunc(whole[i+1:], func(x row) bool { return describePair(x) == pair })
		if after >= 0 && whole[i+1+after].When != always {
			change(i, "after the next", pair, func(*row) {})
			rows := out[len(out)-1].rows
			rows[i], rows[i+1+after] = rows[i+1+after], rows[i]
		}

		if r.Then == done {
			change(i, "goes on", key, func(r *row) { r.Then = onResume })
		} else {
			change(i, "ends", key, func(r *row) { r.Then = done })
		}
	}

	return out
}

// surviving contains the mutants that no story detects, each with the reason why the row is in the table.
var surviving = map[string]string{
	"after the next: pending, verify, gate open":     "the rows below do nothing either, and read the files for it",
	"after the next: returning, verify, gate open":   "the rows below do nothing either, and read the files for it",
	"after the next: settled, failed, whole":         nothingToDo,
	"after the next: settled, no site, whole":        nothingToDo,
	"after the next: settled, verify, gate open":     "the rows below do nothing either, and read the files for it",
	"close as good before retire: returning, good, ": "no story goes back to a generation with files to retire",
	"goes on: none, failed, gate open":               noGeneration,
	"goes on: none, no site, ":                       noGeneration,
	"goes on: none, no site, gate open":              noGeneration,
	"goes on: none, off, ":                           noGeneration,
	"goes on: none, unchanged, ":                     noGeneration,
	"goes on: none, verify, gate open":               noGeneration,
	"goes on: pending, failed, gate open":            "it would judge, as prelet-verify does later",
	"goes on: pending, good, ":                       nothingToDo,
	"goes on: pending, no site, gate open":           "it would judge, as prelet-verify does later",
	"goes on: returning, bad, ":                      nothingToDo,
	"goes on: returning, failed, gate open":          "it would judge, as prelet-verify does later",
	"goes on: returning, good, ":                     nothingToDo,
	"goes on: returning, no site, gate open":         "it would judge, as prelet-verify does later",
	"goes on: settled, failed, gate open":            nothingToDo,
	"goes on: settled, no site, gate open":           nothingToDo,
	"goes on: settled, off, ":                        nothingToDo,
	"goes on: settled, superseded, ":                 nothingToDo,
	"goes on: settled, verify, gate open":            nothingToDo,
	"goes on: settled, verify, whole":                nothingToDo,
	"missing: none, no site, gate open":              "the row below opens a gate that is open",
	"missing: none, verify, gate open":               "the rows below do nothing either, and read the files for it",
	"missing: pending, verify, gate open":            "the rows below do nothing either, and read the files for it",
	"missing: returning, verify, gate open":          "the rows below do nothing either, and read the files for it",
	"missing: settled, verify, gate open":            "the rows below do nothing either, and read the files for it",
	"reload before sweep: pending, finish, ":         "they are independent",
	"reload before sweep: returning, finish, ":       "they are independent",
	"without count try: returning, judge, may wait":  "only a pending generation is rolled back for its tries",
	"without publish: mixed, committed, ":            "what follows finds it interrupted, and completes it",
	"without its condition: pending, bad, gate open": "the row below is for a unit next to the kubelet: TestOtherUnitFailsAtFirst",
	"without retire: returning, good, ":              "no story goes back to a generation with files to retire",
	"without uncount try: returning, unknown, ":      "only a pending generation is rolled back for its tries",
}

// unused contains the expanded rows that no story uses, each with the reason.
var unused = map[string]string{
	"returning, superseded, too many rounds": "as on pending: the row has both phases",
	"pending, bad, ":                         "it needs a unit next to the kubelet: TestOtherUnitFailsAtFirst",
	"settled, finish, ":                      notRead,
	"settled, change, ":                      notRead,
	"mixed, resume, ":                        finishedFirst,
	"mixed, unchanged, ":                     finishedFirst,
	"mixed, off, ":                           finishedFirst,
	"mixed, verify, ":                        finishedFirst,
	"mixed, rollback, ":                      finishedFirst,
	"mixed, no site, ":                       finishedFirst,
}

const (
	notRead       = "the generation in place is not read for this trigger: the phase is none"
	finishedFirst = "every caller finishes first, under the same lock; the row is for one that does not"
)

// nothingToDo: on a settled node whose gate is open there is nothing to do.
const nothingToDo = "the row for it finds the gate open and no start owed, and does nothing"

// noGeneration: without a generation, to continue is to open the gate, and to request a start that is due.
const noGeneration = "the gate is open already or on purpose, and no start is due that was not requested"

// TestMutants: each change of a row breaks a story, or a story that is killed in this row, with or without a power
// cut. Only stories that use the row are played. PRELET_SWEEP=full tries all mutants in all of them; else a fixed
// sample, without those that survive.
func TestMutants(t *testing.T) {
	through := map[string][]story{}
	long := map[string]int{} // number of rows by a story's name

	for _, s := range stories() {
		seen := map[string]bool{}
		s.record(t, playOptions{rows: expand(table), seen: func(r row) {
			seen[describeRow(r)], seen[describePair(r)] = true, true
			long[s.name]++
		}})

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

	for _, m := range mutants() {
		if _, listed := unused[m.key]; listed {
			continue
		}

		if _, listed := surviving[m.name]; listed && !isFullSweep() || !isSampled(m.name) {
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
		if i >= killedStories && !s.single && !isFullSweep() {
			continue
		}

		for _, reboot := range []bool{false, true} {
			for k := 1; ; k++ {
				how := playOptions{rows: m.rows, killAt: k, reboot: reboot, killIn: describeRow(m.row)}

				at, wrong := s.record(t, how)
				if len(wrong) > 0 && at != "" {
					return s.name + ", killed " + at, wrong[0]
				}

				if at == "" || k >= killedMoments && !isFullSweep() {
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

// isSampled reports whether a quick run includes the case with this name.
func isSampled(name string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))

	return isFullSweep() || h.Sum32()%sampleOf == 0
}

// sampleOf is the divisor of the sample of a quick run.
const sampleOf = 8

func isFullSweep() bool { return os.Getenv("PRELET_SWEEP") == "full" }
