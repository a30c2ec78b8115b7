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

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/testing/scripttest"
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
	scripttest.Run(n.t, lines, func(l scripttest.Line) bool {
		n.line = l
		return n.do(l.Words[0], l.Words[1:])
	})
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
	at := slices.Index(stepNames, args[1])
	if at < 0 {
		n.t.Fatalf("%s: got an unknown step, want one of stepNames", n.line)
	}
	n.dieAt(strings.Join(args[2:], " "), step(at), args[0] == "after")
}

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
	case "restart-sec": // DURATION
		s.restarts = n.duration(args[1])
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
	got := CheckResult{State: "-"}
	if i := slices.IndexFunc(n.out.Checks, func(c CheckResult) bool { return c.Name == args[0] }); i >= 0 {
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
	n.do("staged", nil)
	n.check("the kubelet's process", n.systemd.unit.MainPID, n.since.pid)
	n.check("gate", n.readGate(), n.since.gate)
	n.do("journal", []string{"none"})
}

// examine: `prelet verify` by hand on generation 1, which was judged.
func (n *node) cmdExamine() {
	n.t.Helper()
	var checks []CheckResult
	var cause *Cause
	n.end(n.process(func(m *StateMachine) (Outcome, error) {
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

// do carries out a command and reports whether there is one with this name. README.md in testdata describes the
// commands.
func (n *node) do(name string, a []string) bool {
	n.t.Helper()
	all := strings.Join(a, " ")
	switch name {
	// Processes of prelet.
	case "run":
		n.cmdRun(a)
	case "boot": // prelet.service, the kubelet, and prelet-verify.service
		n.cmdRun(a)
		n.finishPrelet()
		n.end(n.verify(), nil)
	case "signal":
		if n.isSignalled = len(n.signals) == 0; !n.isSignalled {
			n.signals[len(n.signals)-1]()
		}
	case "verify", "keep", "keep-without-site", "switch-off", "back", "back-once", "unchanged", "resume", "recover":
		n.off = n.off || name == "switch-off"
		n.end(n.process(func(m *StateMachine) (Outcome, error) { return n.enter(m, name, all) }))
	case "examine":
		n.cmdExamine()
	case "fails":
		n.cmdFails(a)
	case "die":
		n.cmdDie(a)
	case "dies-at": // EVENT COMMAND
		n.killAt = 1
		n.check("killed at", n.maybeKilled(n.later(a[1:])), a[0])
	case "at": // DURATION COMMAND
		n.clk.schedule(n.duration(a[0]), n.later(a[1:]))
	case "on":
		n.cmdOn(a)
	case "repeat": // N COMMAND
		for range n.number(a[0]) {
			n.later(a[1:])()
		}
	case "reach":
		n.later(strings.Fields(states[a[0]]))()

	// The machine.
	case "reboot":
		n.reboot()
	case "finish":
		n.finishPrelet()
	case "mark":
		n.setMark()
	case "advance":
		n.clk.advance(n.duration(a[0]))
	case "set-clock":
		n.clk.set += n.duration(a[0])
	case "wait-at-gate":
		n.waitAtGate()
	case "lose-gate":
		n.loseGate()
	case "forget-gate": // as if the kubelet had run before there was one
		for _, file := range []string{gateFile, openedFile, seenFile} {
			if err := os.Remove(filepath.Join(n.run, file)); !errors.Is(err, fs.ErrNotExist) {
				n.mustSucceed(err, n.line.String())
			}
		}
	case "joined": // the files are those of a node that has joined
		n.joined = true
	case "lose-state":
		n.loseState()
	case "restore-interrupted":
		n.restoreInterrupted()
	case "edit":
		n.editFile(flagsPath)
	case "edit-other": // edited, removed, or replaced by a folder
		must(n.t, os.RemoveAll(n.disk+ntpPath))
		switch a[0] {
		case "edited":
			n.editFile(ntpPath)
		case "folder":
			must(n.t, os.Mkdir(n.disk+ntpPath, 0o755))
		}
	case "hide":
		n.editFile(configPath)
	case "open-folder":
		n.mustSucceed(os.Chmod(n.disk+a[0], 0o777), n.line.String())
	case "unit-files":
		n.unitFiles = a[0] == "yes"
	case "systemd":
		n.cmdSystemd(a)
	case "broken": // CONFIG: each process behaves as with this one; without CONFIG no longer
		n.conduct = all
	case "heal":
		n.systemd.conduct.healthz = true
	case "until-active":
		n.clk.runUntil(time.Minute, func() bool { return n.systemd.unit.Active == "active" })
	case "unit":
		n.mustSucceed(json.Unmarshal([]byte(all), &n.systemd.unit), all)
	case "other-unit":
		n.mustSucceed(json.Unmarshal([]byte(all), &n.systemd.other), all)
	case "older":
		n.systemd.unit.Started = time.Second
	case "other-file": // CONTENT ACTION
		n.ntp, n.ntpAction = a[0], a[1]
	case "other-ends": // RESULT, or well
		n.systemd.otherEnds = func() string { return map[bool]string{true: a[0]}[a[0] != "well"] }
	case "log":
		n.log = a
	case "start-log":
		n.startLog = a
	case "log-fails":
		n.logErr = errors.New(all)
	case "expired":
		n.expired = all
	case "driven":
		n.driven = true
	case "fixed":
		n.fixedSince = n.clk.now
	case "other-flags": // TEXT: of the next process
		next := 1000 + n.systemd.pids + 1
		n.foreign = func(pid uint32) error { return map[bool]error{true: errors.New(all)}[pid == next] }

	// The site and the cluster.
	case "plan": // JSON…, over that of the site
		n.shape = a
	case "site-holds": // [WHY]
		n.held = all
	case "bound":
		n.bound = n.duration(a[0])
	case "no-rollback":
		n.rollback = false
	case "configz":
		n.configz = func() []string { return a }
	case "serving": // signed, TEXT, or unknown TEXT
		switch n.serving = errors.New(a[0]); a[0] {
		case "signed":
			n.serving = nil
		case "unknown":
			n.serving = unknownError{errors.New(a[1])}
		}
	case "cluster":
		n.apiserver = a[0] == "back"
	case "set-labels":
		n.labels = pairs(a)
	case "set-label":
		maps.Copy(n.labels, pairs(a))
	case "age":
		n.age = n.duration(a[0])
	case "deleted":
		n.deleted = a[0]
	case "taints":
		n.taints = nil
		for _, text := range a {
			taint, err := kubelet.ParseTaint(text)
			n.mustSucceed(err, n.line.String())
			n.taints = append(n.taints, taint)
		}
	case "machines":
		n.cmdMachines(a)

	// Checks.
	case "outcome":
		n.cmdOutcome(a)
	case "why":
		n.contains("why", n.out.Why, a)
	case "held-back":
		n.check("something is held back", n.out.HeldBack != "", true)
		n.contains("held back", n.out.HeldBack, a)
	case "newest":
		n.check("generation of the outcome", n.out.Generation, n.newest())
	case "warning":
		n.check("warnings", len(n.out.Unwritten), 1)
		n.contains("warnings", strings.Join(n.out.Unwritten, "\n"), a)
	case "checks":
		var got []string
		for _, c := range n.out.Checks {
			got = append(got, c.Name+"="+c.State)
		}
		n.check("checks", strings.Join(got, " "), all)
	case "check":
		n.cmdCheck(a)
	case "cause": // ID [AT], or none: of the last command
		got := cmp.Or(n.out.Cause, &Cause{ID: "none"})
		n.check("cause", got.ID, a[0])
		for _, at := range a[1:] {
			n.check("place of the cause", got.At, at)
		}
	case "journal":
		n.cmdJournal(a)
	case "boot-not-counted":
		j := n.journal()
		n.check("the journal's boot is this one", j != nil && j.BootID == n.boot, false)
	case "gate": // N, open or shut
		got := strings.TrimPrefix(n.readGate(), gateVariable)
		if got == "" || a[0] != "open" {
			n.check("gate", cmp.Or(got, "shut"), a[0])
		}
	case "took": // MIN MAX: since mark
		took := n.clk.now - n.since.now
		isWithin := took >= n.duration(a[0]) && took <= n.duration(a[1])
		n.check(fmt.Sprintf("%s since mark is within %s", took, all), isWithin, true)
	case "refused":
		n.cmdRefused(a)
	case "not-published": // TEXT: a run of the site "two" is committed and not published
		n.cmdFails([]string{string(fault.Interrupted), a[0], "run", "two"})
		n.check("files", n.read(configPath)+" "+n.read(flagsPath), "one one")
		n.do("gate", []string{"shut"})
		n.do("journal", []string{string(generation.PhasePublish)})
	case "staged": // none: only the file is in the folder of the flags
		left, _ := os.ReadDir(filepath.Dir(n.disk + flagsPath))
		n.check("files in the folder of the flags", len(left), 1)
	case "config", "flags", "other":
		path := map[string]string{"config": configPath, "flags": flagsPath, "other": ntpPath}[name]
		n.check(path, n.read(path), all)
	case "kubelet":
		n.check("the kubelet's unit", n.systemd.unit.Active, a[0])
	case "held", "not-held":
		n.check("held", n.isHeld(all), name == "held")
	case "status": // GEN STATUS
		n.check("status", n.status(n.number(a[0])), a[1])
	case "labels":
		n.check("labels", n.labels, pairs(a))
	case "events":
		n.check("events", strings.Join(n.events, ", "), all)
	case "event-order":
		n.contains("events", strings.Join(n.events, ", "), a)
	case "acts":
		n.check("acts on units", n.systemd.acts, a)
	case "acted":
		n.check("something was done with a unit", n.since.boot != n.boots || len(n.systemd.acts) > 0, true)
	case "starts": // N [GENERATION of the last]
		n.check("starts of the kubelet since mark", len(n.systemd.starts)-n.since.starts, a[0])
		for _, gen := range a[1:] {
			n.check("gate at the last start", n.systemd.starts[len(n.systemd.starts)-1].gate, gateVariable+gen)
		}
	case "not-started-on": // GENERATION
		on := slices.ContainsFunc(n.systemd.starts, func(s startSeen) bool { return s.gate == gateVariable+a[0] })
		n.check("a start on generation "+a[0], on, false)
	case "reloads":
		n.check("reloads since mark", n.systemd.reloads-n.since.reloads, a[0])
	case "patches":
		n.check("patches since mark", n.patches-n.since.patches, a[0])
	case "same-process": // yes or no; of another boot it is another one
		if n.since.boot == n.boots {
			n.check("the kubelet's process is the same", n.systemd.unit.MainPID == n.since.pid, a[0] == "yes")
		}
	case "logged-since": // DURATION, or start: the log that was asked for begins then or later
		from := n.systemd.unit.Started
		if a[0] != "start" {
			from = n.clk.now - n.duration(a[0])
		}
		isWithin := n.logged >= from && n.logged <= n.clk.now
		n.check(fmt.Sprintf("asked for the log since %s, after %s", n.logged, from), isWithin, true)
	default:
		return false
	}

	return true
}

// enter calls the method of the machine that a command is about.
func (n *node) enter(m *StateMachine, name, arg string) (out Outcome, err error) {
	ctx := n.t.Context()
	e := Entry{Failure: "the site is invalid", Held: n.held}
	switch name {
	case "verify":
		e.On = OnVerify
	case "keep":
		e.On = OnFailed
	case "keep-without-site":
		e.On = OnNoSite
	case "switch-off":
		e.On = OnOff
	case "unchanged":
		e.On, e.Spec = OnUnchanged, n.spec(arg)
	case "resume":
		e.On = OnResume
	case "back":
		e.On, e.To, e.Why = OnRollback, n.number(arg), generation.ByHand
	}

	out, err = m.Enter(ctx, e)
	if err != nil || name != "back-once" {
		return out, err
	}
	// back-once GEN: a rollback by hand, unless it was done already.
	current, err := m.Store.Current()
	if err != nil || current.Restores == n.number(arg) {
		return out, err
	}

	return m.Enter(ctx, Entry{On: OnRollback, To: n.number(arg), Why: "by hand", Held: n.held})
}
