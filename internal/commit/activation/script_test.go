package activation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/scripttest"
)

// TestScripts runs the scripts of testdata/scripts, each on a node that has never run prelet. README.md in testdata
// describes the commands.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata/scripts: got %d, %v; want some", len(files), err)
	}
	for _, file := range files {
		scripts := scripttest.Load(t, file)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			for _, s := range scripts {
				t.Run(s.Name, func(t *testing.T) { newNode(t).play(s.Lines) })
			}
		})
	}
}

// play carries out the lines of a script.
func (n *node) play(lines []scripttest.Line) {
	n.t.Helper()
	scripttest.Run(n.t, n, commands(), lines, func(l scripttest.Line) { n.line = l })
}

// later returns the commands of one line, to be carried out at another time.
func (n *node) later(words []string) func() {
	at := n.line.At

	return func() {
		n.t.Helper()
		outer := n.line
		n.play(scripttest.Sequence(at, words, "at", "on", "repeat"))
		n.line = outer
	}
}

// check reports a difference, with the line of the script.
func (n *node) check(what string, got, want any) {
	n.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		n.t.Errorf("%s\n%s: got %v, want %v", n.line, what, got, want)
	}
}

// contains reports a text that lacks a part.
func (n *node) contains(what, got string, parts []string) {
	n.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			n.t.Errorf("%s\n%s: got %q, want %q in it", n.line, what, got, part)
		}
	}
}

func (n *node) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	n.mustSucceed(err, n.line.String())

	return d
}

func (n *node) number(text string) int {
	i, err := strconv.Atoi(text)
	n.mustSucceed(err, n.line.String())

	return i
}

// mark is what later commands compare with.
type mark struct {
	now             time.Duration
	boot            int
	starts, reloads int
	pid             uint32
	patches         int
	config          os.FileInfo
	gate            string
}

func (n *node) setMark() {
	n.events, n.systemd.acts = nil, nil
	config, _ := os.Stat(n.disk + configPath)
	n.since = mark{
		now: n.clk.now, boot: n.boots, starts: len(n.systemd.starts), reloads: n.systemd.reloads, pid: n.systemd.unit.MainPID,
		patches: n.patches, config: config, gate: n.readGate(),
	}
}

// end keeps how a process of prelet ended.
func (n *node) end(out Outcome, err error) {
	n.t.Helper()
	if n.out, n.err = out, err; err != nil && !n.mayFail {
		n.t.Fatalf("%s: got %v, want no error", n.line, err)
	}
}

// enters is a command that calls one method of the machine.
func enters(do func(n *node, m *Machine, args []string) (Outcome, error)) func(*node, []string) {
	return func(n *node, args []string) {
		n.t.Helper()
		n.end(n.process(func(m *Machine) (Outcome, error) { return do(n, m, args) }))
	}
}

// run CONFIG: `prelet run`. The command `signal` ends it as SIGTERM does.
func (n *node) cmdRun(args []string) {
	n.t.Helper()
	ctx, cancel := context.WithCancelCause(n.t.Context())
	end := func() { cancel(errors.New("SIGTERM")) }
	if n.signals = append(n.signals, end); n.isSignalled {
		end()
	}
	defer func() { n.signals = n.signals[:len(n.signals)-1] }()
	n.end(n.runSite(ctx, strings.Join(args, " ")))
}

func (n *node) cmdSignal([]string) {
	if n.isSignalled = len(n.signals) == 0; !n.isSignalled {
		n.signals[len(n.signals)-1]()
	}
}

// boot CONFIG: prelet.service, the kubelet, and prelet-verify.service.
func (n *node) cmdBoot(args []string) {
	n.t.Helper()
	n.cmdRun(args)
	n.finishPrelet()
	n.end(n.verify(), nil)
}

// fails CODE TEXT COMMAND: the command ends with this code and a text in its message.
func (n *node) cmdFails(args []string) {
	n.t.Helper()
	n.mayFail = true
	n.later(args[2:])()
	n.mayFail = false
	if got := n.codeOf(n.err); string(got) != args[0] || !strings.Contains(n.err.Error(), args[1]) {
		n.t.Errorf("%s\ngot %v with code %q, want code %s and %q", n.line, n.err, got, args[0], args[1])
	}
}

// die before|after STEP CONFIG: the process of a run, or of prelet-verify without CONFIG, ends at a step.
func (n *node) cmdDie(args []string) {
	at := slices.IndexFunc(stepNames, func(w word) bool { return w.name == args[1] })
	if at < 0 {
		n.t.Fatalf("%s: got an unknown step, want one of the page", n.line)
	}
	n.dieAt(strings.Join(args[2:], " "), step(at), args[0] == "after")
}

// at DURATION COMMAND, on commit|open|start COMMAND: the command is carried out then.
func (n *node) cmdAt(args []string) { n.clk.schedule(n.duration(args[0]), n.later(args[1:])) }

func (n *node) cmdOn(args []string) {
	do := n.later(args[1:])
	switch args[0] {
	case "commit":
		n.onCommit = do
	case "open":
		n.onOpen = do
	case "start":
		n.systemd.onStart = do
	default:
		n.t.Fatalf("%s: got an unknown moment, want commit, open or start", n.line)
	}
}

// systemd WORD: what systemd and the kubelet's unit do.
func (n *node) cmdSystemd(args []string) {
	s := n.systemd
	switch args[0] {
	case "gone", "back":
		s.unreachable = args[0] == "gone"
	case "stops": // DURATION
		s.stopping = n.duration(args[1])
	case "no-restart":
		s.noRestart = true
	case "dependency-fails":
		s.dependency = true
	case "blind":
		s.blind = true
	case "runs-prelet":
		s.ordered, s.insidePrelet = true, true
	case "skips": // WORD: a condition of the unit does not hold with this word in the configuration
		s.skips = func() bool { return strings.Contains(n.read(configPath), args[1]) }
	case "gate": // optional, none
		if s.unit.EnvironmentFiles[0].Optional = true; args[1] == "none" {
			s.unit.EnvironmentFiles = nil
		}
	case "end": // RESULT: of the kubelet's process
		s.fail(args[1])
		n.clk.advance(time.Second)
	case "end-now":
		s.fail(args[1])
	case "job": // KIND: somebody requests it
		s.enqueue(args[1])
	case "disabled":
		s.end("canceled")
		s.unit.File = "disabled"
	case "mounts": // PATH
		s.mounts = []Mount{{Path: args[1], Unit: "x.mount", State: "active", Active: true}}
	default:
		n.t.Fatalf("%s: got an unknown word, want one of cmdSystemd", n.line)
	}
}

// kubelet ACTIVE: the state of its unit.
func (n *node) cmdKubelet(args []string) {
	n.t.Helper()
	n.check("the kubelet's unit", n.systemd.unit.Active, args[0])
}

// broken CONFIG, or without CONFIG no longer: each process behaves as with this configuration.
func (n *node) cmdBroken(args []string) {
	n.conduct = strings.Join(args, " ")
}

// cluster away|back; age DURATION, taints TAINT…, machines ID…: the Node. `machines` are those that update it in turn,
// each for as long as a kubelet waits until it updates its Node again; "-" is this one.
func (n *node) cmdMachines(args []string) {
	const updateEvery = 10 * time.Second
	var began time.Duration
	n.reports = func() string {
		began = cmp.Or(began, n.clk.now)

		return strings.TrimPrefix(args[int((n.clk.now-began)/updateEvery)%len(args)], "-")
	}
}

func (n *node) cmdTaints(args []string) {
	n.taints = nil
	for _, text := range args {
		taint, err := kubelet.ParseTaint(text)
		n.mustSucceed(err, n.line.String())
		n.taints = append(n.taints, taint)
	}
}

func pairs(args []string) map[string]string {
	m := map[string]string{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		m[key] = value
	}

	return m
}

// outcome VERDICT GENERATION [from=N in-place=VERDICT held code=CODE overtaken]: of the last command.
func (n *node) cmdOutcome(args []string) {
	n.t.Helper()
	o := n.out
	got := []string{cmp.Or(string(o.Verdict), "none"), strconv.Itoa(o.Generation)}
	for _, field := range []struct {
		isSet bool
		text  string
	}{
		{o.From != 0, fmt.Sprintf("from=%d", o.From)},
		{o.InPlace != "", "in-place=" + string(o.InPlace)},
		{o.Held, "held"},
		{o.Code != "", "code=" + string(o.Code)},
		{o.Overtaken, "overtaken"},
		{len(o.Trouble) > 0, fmt.Sprint("trouble=", o.Trouble)},
		{o.HeldBack != "", "held-back"},
	} {
		if field.isSet {
			got = append(got, field.text)
		}
	}
	if !slices.Equal(got, args) {
		n.t.Errorf("%s\ngot outcome %s (%s%s)", n.line, strings.Join(got, " "), o.Why, o.HeldBack)
	}
}

// check NAME STATE [TEXT…]: a check of the last command, with a text, or after a "=" all of it. STATE is - if there is no
// check with this name.
func (n *node) cmdCheck(args []string) {
	n.t.Helper()
	got := Check{State: "-"}
	if i := slices.IndexFunc(n.out.Checks, func(c Check) bool { return c.Name == args[0] }); i >= 0 {
		got = n.out.Checks[i]
	}
	n.check("state of "+args[0]+" ("+got.Message+")", got.State, args[1])
	for _, text := range args[2:] {
		if whole, isWhole := strings.CutPrefix(text, "="); isWhole {
			n.check("message of "+args[0], got.Message, whole)
			continue
		}
		n.contains("message of "+args[0], got.Message, []string{text})
	}
}

// cause ID [AT], or none: of the last command.
func (n *node) cmdCause(args []string) {
	n.t.Helper()
	got := cmp.Or(n.out.Cause, &Cause{ID: "none"})
	n.check("cause", got.ID, args[0])
	for _, at := range args[1:] {
		n.check("place of the cause", got.At, at)
	}
}

// journal none, or PHASE [from=N]: the journal.
func (n *node) cmdJournal(args []string) {
	n.t.Helper()
	got := "none"
	if j := n.journal(); j != nil {
		got = string(j.Phase)
		if j.From != 0 {
			got += fmt.Sprintf(" from=%d", j.From)
		}
	}
	n.check("journal", got, strings.Join(args, " "))
}

// gate N, open or shut.
func (n *node) cmdGate(args []string) {
	n.t.Helper()
	got := strings.TrimPrefix(n.readGate(), gateVariable)
	if args[0] == "open" && got != "" {
		return
	}
	n.check("gate", cmp.Or(got, "shut"), args[0])
}

// took MIN MAX: the time since mark.
func (n *node) cmdTook(args []string) {
	n.t.Helper()
	if took := n.clk.now - n.since.now; took < n.duration(args[0]) || took > n.duration(args[1]) {
		n.t.Errorf("%s\ngot %s, want %s to %s", n.line, took, args[0], args[1])
	}
}

// refused TEXT: a run of the site "two" fails before the commit, and nothing has changed.
func (n *node) cmdRefused(args []string) {
	n.t.Helper()
	n.setMark()
	n.cmdFails([]string{string(fault.Systemd), args[0], "run", "two"})
	config, _ := os.Stat(n.disk + configPath)
	if !os.SameFile(n.since.config, config) || n.since.config.ModTime() != config.ModTime() {
		n.t.Errorf("%s\ngot another %s, want it untouched", n.line, configPath)
	}
	n.check("files", n.read(configPath)+" "+n.read(flagsPath), "one one")
	n.cmdStaged([]string{"none"})
	n.check("the kubelet's process", n.systemd.unit.MainPID, n.since.pid)
	n.check("gate", n.readGate(), n.since.gate)
	n.cmdJournal([]string{"none"})
}

// not-published TEXT: a run of the site "two" is committed and not published.
func (n *node) cmdNotPublished(args []string) {
	n.t.Helper()
	n.cmdFails([]string{string(fault.Interrupted), args[0], "run", "two"})
	n.check("files", n.read(configPath)+" "+n.read(flagsPath), "one one")
	n.cmdGate([]string{"shut"})
	n.cmdJournal([]string{string(generation.PhasePublish)})
}

// staged none: only the file is in the folder of the flags.
func (n *node) cmdStaged([]string) {
	n.t.Helper()
	left, _ := os.ReadDir(filepath.Dir(n.disk + flagsPath))
	n.check("files in the folder of the flags", len(left), 1)
}

// examine: `prelet verify` by hand on generation 1, which was judged.
func (n *node) cmdExamine([]string) {
	n.t.Helper()
	var checks []Check
	var cause *Cause
	n.end(n.process(func(m *Machine) (Outcome, error) {
		if err := m.Store.Unlock(); err != nil {
			return Outcome{}, err
		}
		var err error
		if checks, cause, err = m.Examine(n.t.Context(), 1); err != nil {
			return Outcome{}, err
		}

		return Outcome{}, m.relock(n.t.Context())
	}))
	n.out = Outcome{Checks: checks, Cause: cause}
}

// back-once GEN: a rollback by hand, unless it was done already.
func goBackOnce(n *node, m *Machine, args []string) (Outcome, error) {
	if _, err := m.Recover(n.t.Context()); err != nil {
		return Outcome{}, err
	}
	current, err := m.Store.Current()
	if err != nil || current.Restores == n.number(args[0]) {
		return Outcome{}, err
	}

	return m.GoBack(n.t.Context(), n.number(args[0]), "by hand")
}

// forgetGate removes what a gate leaves, as if the kubelet had run before there was one.
func (n *node) forgetGate() {
	for _, name := range []string{gateFile, openedFile, seenFile} {
		if err := os.Remove(filepath.Join(n.run, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.t.Fatal(err)
		}
	}
}

// commands are those of the scripts: README.md in testdata.
func commands() map[string]func(*node, []string) {
	text := func(do func(n *node, text string)) func(*node, []string) {
		return func(n *node, args []string) { do(n, strings.Join(args, " ")) }
	}
	file := func(path string) func(*node, []string) {
		return text(func(n *node, want string) { n.t.Helper(); n.check(path, n.read(path), want) })
	}
	bare := func(do func(*node)) func(*node, []string) { return func(n *node, _ []string) { do(n) } }

	return map[string]func(*node, []string){
		// Processes of prelet.
		"run": (*node).cmdRun, "boot": (*node).cmdBoot, "signal": (*node).cmdSignal, "examine": (*node).cmdExamine,
		"verify": enters(func(n *node, m *Machine, _ []string) (Outcome, error) { return m.Verify(n.t.Context()) }),
		"keep": enters(func(n *node, m *Machine, _ []string) (Outcome, error) {
			return m.Keep(n.t.Context(), "the site is invalid")
		}),
		"keep-without-site": enters(func(n *node, m *Machine, _ []string) (Outcome, error) {
			return m.KeepWithoutSite(n.t.Context())
		}),
		"switch-off": func(n *node, args []string) {
			n.off = true
			enters(func(n *node, m *Machine, _ []string) (Outcome, error) { return m.SwitchOff(n.t.Context()) })(n, args)
		},
		"back": enters(func(n *node, m *Machine, args []string) (Outcome, error) {
			return m.GoBack(n.t.Context(), n.number(args[0]), generation.ByHand)
		}),
		"back-once": enters(goBackOnce),
		"unchanged": enters(func(n *node, m *Machine, args []string) (Outcome, error) {
			return m.ResumeUnchanged(n.t.Context(), n.plan(strings.Join(args, " ")))
		}),
		"resume": enters(func(n *node, m *Machine, _ []string) (Outcome, error) { return m.Resume(n.t.Context()) }),
		"recover": enters(func(n *node, m *Machine, _ []string) (Outcome, error) {
			_, err := m.Recover(n.t.Context())
			return Outcome{}, err
		}),
		"fails": (*node).cmdFails, "die": (*node).cmdDie, "at": (*node).cmdAt, "on": (*node).cmdOn,
		"reach": func(n *node, args []string) { n.later(strings.Fields(states[args[0]]))() },
		"repeat": func(n *node, args []string) { // N COMMAND
			for range n.number(args[0]) {
				n.later(args[1:])()
			}
		},
		"dies-at": func(n *node, args []string) { // EVENT COMMAND
			n.killAt = 1
			n.check("killed at", n.maybeKilled(n.later(args[1:])), args[0])
		},

		// The machine.
		"reboot": bare((*node).reboot), "finish": bare((*node).finishPrelet), "mark": bare((*node).setMark),
		"advance":      func(n *node, args []string) { n.clk.advance(n.duration(args[0])) },
		"set-clock":    func(n *node, args []string) { n.clk.set += n.duration(args[0]) },
		"wait-at-gate": bare((*node).waitAtGate), "lose-gate": bare((*node).loseGate),
		"lose-state": bare((*node).loseState), "restore-interrupted": bare((*node).restoreInterrupted),
		"edit":        bare(func(n *node) { n.editFile(flagsPath) }),
		"hide":        func(n *node, args []string) { n.editFile(configPath) },
		"open-folder": func(n *node, args []string) { n.mustSucceed(os.Chmod(n.disk+args[0], 0o777), "chmod") },
		"forget-gate": bare((*node).forgetGate), "unit-files": func(n *node, args []string) { n.unitFiles = args[0] == "yes" },
		"systemd": (*node).cmdSystemd, "broken": (*node).cmdBroken,
		"unit":         text(func(n *node, t string) { n.mustSucceed(json.Unmarshal([]byte(t), &n.systemd.unit), t) }),
		"other-unit":   text(func(n *node, t string) { n.mustSucceed(json.Unmarshal([]byte(t), &n.systemd.other), t) }),
		"heal":         bare(func(n *node) { n.systemd.conduct.healthz = true }),
		"until-active": bare(func(n *node) { n.clk.runUntil(time.Minute, func() bool { return n.systemd.unit.Active == "active" }) }),
		"older":        bare(func(n *node) { n.systemd.unit.Started = time.Second }),
		"other-file":   func(n *node, args []string) { n.ntp, n.ntpAction = args[0], args[1] },
		"other-ends": func(n *node, args []string) {
			n.systemd.otherEnds = func() string { return map[bool]string{true: args[0]}[args[0] != "well"] }
		},
		"log": func(n *node, args []string) { n.log = args }, "start-log": func(n *node, args []string) { n.startLog = args },
		"log-fails": text(func(n *node, t string) { n.logErr = errors.New(t) }),
		"expired":   text(func(n *node, t string) { n.expired = t }),
		"driven":    bare(func(n *node) { n.driven = true }), "fixed": bare(func(n *node) { n.fixedSince = n.clk.now }),
		"other-flags": text(func(n *node, t string) {
			pid := 1000 + n.systemd.pids + 1
			n.foreign = func(of uint32) error {
				if of == pid {
					return errors.New(t)
				}
				return nil
			}
		}),

		// The site and the cluster.
		"plan":        func(n *node, args []string) { n.shape = args }, // JSON…, over that of the site
		"bound":       func(n *node, args []string) { n.bound = n.duration(args[0]) },
		"no-rollback": bare(func(n *node) { n.rollback = false }),
		"configz":     func(n *node, args []string) { n.configz = func() []string { return args } },
		"serving": func(n *node, args []string) { // signed, TEXT, or unknown TEXT
			switch n.serving = errors.New(args[0]); args[0] {
			case "signed":
				n.serving = nil
			case "unknown":
				n.serving = unknownError{errors.New(args[1])}
			}
		},
		"cluster":    func(n *node, args []string) { n.apiserver = args[0] == "back" },
		"set-labels": func(n *node, args []string) { n.labels = pairs(args) },
		"set-label":  func(n *node, args []string) { maps.Copy(n.labels, pairs(args)) },
		"age":        func(n *node, args []string) { n.age = n.duration(args[0]) },
		"taints":     (*node).cmdTaints, "machines": (*node).cmdMachines,

		// Checks.
		"outcome": (*node).cmdOutcome, "check": (*node).cmdCheck, "cause": (*node).cmdCause, "journal": (*node).cmdJournal,
		"gate": (*node).cmdGate, "took": (*node).cmdTook, "refused": (*node).cmdRefused, "staged": (*node).cmdStaged,
		"not-published": (*node).cmdNotPublished, "kubelet": (*node).cmdKubelet,
		"config": file(configPath), "flags": file(flagsPath), "other": file(ntpPath),
		"why": func(n *node, args []string) { n.t.Helper(); n.contains("why", n.out.Why, args) },
		"held-back": func(n *node, args []string) {
			n.t.Helper()
			n.check("something is held back", n.out.HeldBack != "", true)
			n.contains("held back", n.out.HeldBack, args)
		},
		"newest": bare(func(n *node) { n.check("generation of the outcome", n.out.Generation, n.newest()) }),
		"warning": func(n *node, args []string) {
			n.check("warnings", len(n.out.Unwritten), 1)
			n.contains("warnings", strings.Join(n.out.Unwritten, "\n"), args)
		},
		"checks": text(func(n *node, want string) {
			n.t.Helper()
			var got []string
			for _, c := range n.out.Checks {
				got = append(got, c.Name+"="+c.State)
			}
			n.check("checks", strings.Join(got, " "), want)
		}),
		"held":     text(func(n *node, t string) { n.t.Helper(); n.check("held", n.isHeld(t), true) }),
		"not-held": text(func(n *node, t string) { n.t.Helper(); n.check("held", n.isHeld(t), false) }),
		"status":   func(n *node, args []string) { n.check("status", n.status(n.number(args[0])), args[1]) },
		"labels":   func(n *node, args []string) { n.check("labels", n.labels, pairs(args)) },
		"events":   text(func(n *node, want string) { n.check("events", strings.Join(n.events, ", "), want) }),
		"event-order": text(func(n *node, want string) {
			n.contains("events", strings.Join(n.events, ", "), []string{want})
		}),
		"acts": func(n *node, args []string) {
			n.check("acts on units", strings.Join(n.systemd.acts, ", "), strings.Join(args, ", "))
		},
		"starts": func(n *node, args []string) { // N [GENERATION of the last]
			n.check("starts of the kubelet since mark", len(n.systemd.starts)-n.since.starts, args[0])
			for _, gen := range args[1:] {
				n.check("gate at the last start", n.systemd.starts[len(n.systemd.starts)-1].gate, gateVariable+gen)
			}
		},
		"not-started-on": func(n *node, args []string) {
			for _, s := range n.systemd.starts {
				n.check("a start on generation "+args[0], s.gate == gateVariable+args[0], false)
			}
		},
		"reloads": func(n *node, args []string) {
			n.check("reloads since mark", n.systemd.reloads-n.since.reloads, args[0])
		},
		"patches": func(n *node, args []string) { n.check("patches since mark", n.patches-n.since.patches, args[0]) },
		"same-process": func(n *node, args []string) {
			if n.since.boot == n.boots {
				n.check("the kubelet's process is the same", n.systemd.unit.MainPID == n.since.pid, args[0] == "yes")
			}
		},
		"acted": bare(func(n *node) {
			if n.since.boot == n.boots {
				n.check("something was done with a unit", len(n.systemd.acts) > 0, true)
			}
		}),
		"logged-since": func(n *node, args []string) { // DURATION, or start: the log that was asked for begins then or later
			from := n.clk.Now().Add(n.systemd.unit.Started - n.clk.now)
			if args[0] != "start" {
				from = n.clk.Now().Add(-n.duration(args[0]))
			}
			n.check(fmt.Sprintf("asked for the log since %s, after %s", n.logged, from), !n.logged.Before(from) && !n.logged.After(n.clk.Now()), true)
		},
		"boot-not-counted": bare(func(n *node) {
			if j := n.journal(); j != nil {
				n.check("the journal's boot is this one", j.BootID == n.boot, false)
			}
		}),
	}
}
