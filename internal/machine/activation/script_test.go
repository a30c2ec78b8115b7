package activation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/testing/script"
)

// TestScripts plays the scripts of testdata/scripts, each on a node that has never run prelet. A site is a text that
// prelet writes into the kubelet's configuration and into its flags file. The kubelet behaves as the words of its
// configuration: see behave.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata/scripts: got %d, %v; want some", len(files), err)
	}
	for _, file := range files {
		scripts := script.Load(t, file)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			for _, s := range scripts {
				t.Run(s.Name, func(t *testing.T) { newNode(t).Play(s.Lines) })
			}
		})
	}
}

func TestExamples(t *testing.T) {
	script.Examples(t, "machine", func(t *testing.T, lines []script.Line) { newNode(t).Play(lines) })
}

// newPlayer returns what plays scripts on the node.
func (n *node) newPlayer() *script.Player {
	disk := script.Disk{T: n.t, Path: n.path}

	return script.New(n.t, script.Node{
		Name:     "machine",
		Commands: script.Merge(disk.Commands(), n.commands()),
		Facts:    script.Merge(disk.Facts(), n.facts()),
		Is:       func(err error, code string) bool { return string(n.codeOf(err)) == code },
		Holds:    n.holds,
		Wait:     n.wait,
	})
}

// path returns the place of a name: config, flags and other are files of the site, state and run folders of prelet.
func (n *node) path(name string) string {
	if file, isOfRun := strings.CutPrefix(name, "run/"); isOfRun {
		return filepath.Join(n.run, file)
	}
	names := map[string]string{"config": configPath, "flags": flagsPath, "other": ntpPath, "state": "/var/lib/prelet"}

	return filepath.Join(n.disk, cmp.Or(names[name], name))
}

// holds knows the condition [rebooted]: since the snapshot.
func (n *node) holds(condition string) (bool, error) {
	if condition != "rebooted" {
		return false, fmt.Errorf("got the condition %s, want rebooted", condition)
	}

	return n.since.boot != n.boots, nil
}

func (n *node) wait(what string, check func() string) {
	n.t.Helper()
	n.clk.runUntil(time.Minute, func() bool { return check() == "" })
	if why := check(); why != "" {
		n.t.Errorf("%s: timed out after a minute\n%s", what, why)
	}
}

// snapshot is what later commands and facts compare with.
type snapshot struct {
	now                      time.Duration
	boot                     int
	starts, reloads, patches int
	pid                      uint32
	untouched                string
}

func (n *node) snapshot() {
	n.events, n.systemd.acts = nil, nil
	n.since = snapshot{
		n.clk.now, n.boots, len(n.systemd.starts), n.systemd.reloads, n.patches, n.systemd.unit.MainPID, n.untouched(),
	}
}

// untouched returns the gate and the site's files, of which one that was written again is another one.
func (n *node) untouched() string {
	text := n.readGate() + "\n"
	for _, path := range []string{configPath, flagsPath, ntpPath} {
		if info, err := os.Stat(n.disk + path); err == nil {
			text += fmt.Sprintln(path, info.Sys().(*syscall.Stat_t).Ino, info.ModTime(), n.read(path))
		}
	}

	return text
}

func (n *node) commands() map[string]script.Command {
	return map[string]script.Command{
		"run":      n.cmdRun,
		"boot":     n.cmdBoot,
		"enter":    n.cmdEnter,
		"rollback": n.cmdRollback,
		"recover":  func([]string) error { return n.enter(Entry{On: OnFinish}) },
		"reboot":   func([]string) error { n.reboot(); return nil },
		"finish":   func([]string) error { n.finishPrelet(); return nil },
		"at":       func(a []string) error { n.clk.schedule(n.Duration(a[0]), n.Later(a[1:])); return nil },
		"on":       n.cmdOn,
		"die":      n.cmdDie,
		"refused":  n.cmdRefused,
		"snapshot": func([]string) error { n.snapshot(); return nil },
		"same":     n.same,
		"site":     n.cmdSite,
		"kubelet":  n.cmdKubelet,
		"systemd":  n.cmdSystemd,
		"cluster":  n.cmdCluster,
		"clock":    n.cmdClock,
	}
}

// run SITE: `prelet run`. The command `systemd terminate` ends it as SIGTERM does.
func (n *node) cmdRun(a []string) error {
	ctx, cancel := context.WithCancelCause(n.t.Context())
	end := func() { cancel(errors.New("SIGTERM")) }
	if n.signals = append(n.signals, end); n.isSignalled {
		end()
	}
	defer func() { n.signals = n.signals[:len(n.signals)-1] }()
	var err error
	n.out, err = n.runSite(ctx, strings.Join(a, " "))

	return err
}

// boot SITE: prelet.service, the kubelet, and prelet-verify.service.
func (n *node) cmdBoot(a []string) error {
	if err := n.cmdRun(a); err != nil {
		return err
	}
	n.finishPrelet()
	n.out = n.verify()

	return nil
}

// enter HOW: a process of prelet; or, with a state, those that lead to it.
func (n *node) cmdEnter(a []string) error {
	e := Entry{Failure: "the site is invalid"}
	switch a[0] {
	case "verify":
		e.On = OnVerify
	case "keep":
		e.On = OnFailed
	case "keep-without-site":
		e.On = OnNoSite
	case "off":
		e.On, n.off = OnOff, true
	case "unchanged": // SITE
		e.On, e.Spec = OnUnchanged, n.spec(strings.Join(a[1:], " "))
	case "resume":
		e.On = OnResume
	case "examine":
		return n.examine()
	case "settled", "pending", "returning":
		n.PlayWords(strings.Fields(states[a[0]]))
		return nil
	default:
		return script.Unknown("way to enter", a[0])
	}

	return n.enter(e)
}

func (n *node) enter(e Entry) (err error) {
	e.Held = n.held
	n.out, err = n.process(func(m *StateMachine) (Outcome, error) { return m.Enter(n.t.Context(), e) })

	return err
}

// examine is `prelet verify` by hand on generation 1, which was judged.
func (n *node) examine() error {
	var checks []CheckResult
	var cause *Cause
	_, err := n.process(func(m *StateMachine) (out Outcome, err error) {
		if err = m.Store.Unlock(); err != nil {
			return out, err
		}
		if checks, cause, err = m.Examine(n.t.Context(), 1); err != nil {
			return out, err
		}

		return out, m.relock(n.t.Context())
	})
	n.out = Outcome{Judgement: Judgement{Checks: checks, Cause: cause}}

	return err
}

// rollback TO [+once]: by hand; with +once unless it was done already.
func (n *node) cmdRollback(a []string) (err error) {
	to := n.Number(a[0], 10)
	n.out, err = n.process(func(m *StateMachine) (Outcome, error) {
		if slices.Contains(a, "+once") {
			out, err := m.Enter(n.t.Context(), Entry{On: OnFinish, Held: n.held})
			if err != nil {
				return out, err
			}
			current, err := m.Store.Current()
			if err != nil || current.Restores == to {
				return out, err
			}
		}

		return m.Enter(n.t.Context(), Entry{On: OnRollback, To: to, Why: generation.ByHand, Held: n.held})
	})

	return err
}

// on MOMENT COMMAND: at each commit or opening of the gate, or at each start of the kubelet in this boot.
func (n *node) cmdOn(a []string) error {
	do := n.Later(a[1:])
	switch a[0] {
	case "commit":
		n.onCommit = do
	case "open":
		n.onOpen = do
	case "start":
		n.systemd.onStart = func() { n.checkWhole(); do() }
	default:
		return script.Unknown("moment", a[0])
	}

	return nil
}

// die MOMENT COMMAND: its process ends before or after a step, as in before:commit, or at an event, as in `gate ok`. A
// process that has nothing to do does not come to a step.
func (n *node) cmdDie(a []string) error {
	side, name, isStep := strings.Cut(a[0], ":")
	hook, onNote := n.step, n.onNote
	if isStep {
		n.step = n.guardSteps(func(s step, after bool) {
			if stepNames[s] == name && after == (side == "after") {
				panic(killed{report.Event{Stage: name}})
			}
		})
	} else {
		n.onNote = func(e report.Event) { panic(killed{e}) }
	}
	at := n.maybeKilled(func() { n.PlayWords(a[1:]) })
	n.step, n.onNote = hook, onNote
	if !isStep && at != a[0] {
		return fmt.Errorf("got %q as the first event, want %s", at, a[0])
	}

	if isStep && !slices.Contains(stepNames, name) {
		return script.Unknown("step", name)
	}

	return nil
}

// refused TEXT COMMAND: it fails before the commit, and nothing has changed.
func (n *node) cmdRefused(a []string) error {
	n.snapshot()
	n.PlayWords(append([]string{"fails", string(fault.Systemd), a[0]}, a[1:]...))
	n.PlayWords(strings.Fields("is litter none ; is journal none"))
	if got := n.untouched(); got != n.since.untouched {
		return fmt.Errorf("got %s, want it as it was: %s", got, n.since.untouched)
	}

	return n.same(nil)
}

// same kubelet: its process.
func (n *node) same([]string) error {
	if got := n.systemd.unit.MainPID; got != n.since.pid {
		return fmt.Errorf("process of the kubelet: got %d, want %d", got, n.since.pid)
	}

	return nil
}

func (n *node) cmdSite(a []string) error {
	switch a[0] {
	case "plan": // JSON…, over that of the site
		n.shape = a[1:]
	case "holds": // [WHY]: it holds the kubelet, or no longer
		n.held = strings.Join(a[1:], " ")
	case "unit-files": // yes or no: it has a unit file
		n.unitFiles = a[1] == "yes"
	case "other-file": // CONTENT ACTION: it has a file that another unit reads
		n.ntp, n.ntpAction = a[1], a[2]
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

func (n *node) cmdKubelet(a []string) error {
	all := strings.Join(a[1:], " ")
	switch a[0] {
	case "conduct": // [CONFIG]: each process behaves as with this one, or no longer
		n.conduct = all
	case "joined": // the files are those of a node that has joined
		n.joined = true
	case "log": // LINE…
		n.log = a[1:]
	case "start-log": // LINE…, of each process at first
		n.startLog = a[1:]
	case "log-fails": // ERROR
		n.logErr = errors.New(all)
	case "expired": // [WHY]: its certificate has expired, or no longer
		n.expired = all
	case "driver": // the container runtime has another cgroup driver now
		n.driven = true
	case "fixed": // its pods start now
		n.fixedSince = n.clk.now
	case "other-flags": // ERROR, of the next process
		next := 1000 + n.systemd.pids + 1
		n.foreign = func(pid uint32) error { return map[bool]error{true: errors.New(all)}[pid == next] }
	case "configz": // DIFFERENCE…
		n.configz = func() []string { return a[1:] }
	case "serving": // signed, ERROR, or unknown ERROR
		switch n.serving = errors.New(a[1]); a[1] {
		case "signed":
			n.serving = nil
		case "unknown":
			n.serving = unknownError{errors.New(a[2])}
		}
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

func (n *node) cmdSystemd(a []string) error {
	s := n.systemd
	switch a[0] {
	case "gone", "back":
		s.unreachable = a[0] == "gone"
	case "terminate": // the innermost run, or the next one
		if n.isSignalled = len(n.signals) == 0; !n.isSignalled {
			n.signals[len(n.signals)-1]()
		}
	case "runs-prelet": // prelet.service, which the kubelet's start waits for
		s.ordered, s.insidePrelet = true, true
	case "wait-at-gate": // prelet.service has failed once, and is started again
		s.endPrelet()
		n.clk.advance(time.Second)
		s.ordered = true
	case "end": // RESULT: of the kubelet's process
		s.fail(a[1])
	case "job": // KIND: somebody requests it, or with none cancels it
		if a[1] == "none" {
			s.end("canceled")
		} else {
			s.enqueue(a[1])
		}
	case "mounts": // PATH=STATE…
		s.mounts = nil
		for _, text := range a[1:] {
			path, state, _ := strings.Cut(text, "=")
			s.mounts = append(s.mounts, Mount{Path: path, Unit: "x.mount", State: state, Active: state == "active"})
		}
	case "unit": // NAME FIELD=VALUE…
		unit := &s.unit
		if a[1] == s.other.Name {
			unit = &s.other
		}
		return script.Assign(&struct {
			*Unit
			*settings
		}{unit, &s.settings}, a[2:])
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

func (n *node) cmdCluster(a []string) error {
	switch a[0] {
	case "unreachable", "reachable":
		n.apiserver = a[0] == "reachable"
	case "label": // NAME=VALUE…
		for _, text := range a[1:] {
			name, value, _ := strings.Cut(text, "=")
			n.labels[name] = value
		}
	case "taints": // TAINT…
		n.taints = nil
		for _, text := range a[1:] {
			taint, err := kubelet.ParseTaint(text)
			n.Must(err)
			n.taints = append(n.taints, taint)
		}
	case "node": // FIELD=VALUE…
		return script.Assign(&n.object, a[1:])
	case "machines": // ID…: they update the Node in turn, each until a kubelet updates it again; "-" is this one
		const updateEvery = 10 * time.Second
		ids, began := a[1:], time.Duration(0)
		n.reports = func() string {
			began = cmp.Or(began, n.clk.now)

			return strings.TrimPrefix(ids[int((n.clk.now-began)/updateEvery)%len(ids)], "-")
		}
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

func (n *node) cmdClock(a []string) error {
	switch a[0] {
	case "advance":
		n.clk.advance(n.Duration(a[1]))
	case "set": // +DURATION or -DURATION
		n.clk.set += n.Duration(a[1])
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

func (n *node) facts() map[string]script.Fact {
	text := func(get func() string) script.Fact {
		return script.Fact{Get: func([]string) (string, error) { return cmp.Or(get(), "none"), nil }}
	}
	number := func(get func() int) script.Fact { return text(func() string { return strconv.Itoa(get()) }) }
	of := func(get func(arg string) string) script.Fact {
		return script.Fact{Args: 1, Get: func(a []string) (string, error) { return cmp.Or(get(a[0]), "none"), nil }}
	}

	return map[string]script.Fact{
		"verdict":   text(n.verdict),
		"why":       text(func() string { return n.out.Why }),
		"held-back": text(func() string { return n.out.HeldBack }),
		"warnings":  text(func() string { return strings.Join(n.out.Unwritten, "\n") }),
		"checks":    text(n.checks),
		"check":     of(func(name string) string { return n.check(name).State }),
		"message":   of(func(name string) string { return n.check(name).Message }),
		"cause": text(func() string {
			c := cmp.Or(n.out.Cause, &Cause{})
			return strings.TrimSpace(c.ID + " " + c.At)
		}),

		"gen":         number(n.newest),
		"generations": text(n.generations),
		"held":        of(n.whyHeld),
		"journal":     text(n.journalText),
		"counted":     text(n.counted),
		"litter":      text(n.litter),
		"gate": text(func() string {
			return cmp.Or(strings.TrimPrefix(n.readGate(), gateVariable), shutState)
		}),

		"kubelet":    text(func() string { return n.systemd.unit.Active }),
		"starts":     number(func() int { return len(n.systemd.starts) - n.since.starts }),
		"started-on": text(n.startedOn),
		"log-since":  text(func() string { return (n.clk.now - n.logged).String() }),
		"reloads":    number(func() int { return n.systemd.reloads - n.since.reloads }),
		"acts":       text(func() string { return strings.Join(n.systemd.acts, ", ") }),
		"events":     text(func() string { return strings.Join(n.events, ", ") }),
		"labels":     text(n.labelsText),
		"patches":    number(func() int { return n.patches - n.since.patches }),
		"took":       text(func() string { return (n.clk.now - n.since.now).String() }),
	}
}

// verdict returns VERDICT GENERATION [from=N in-place=VERDICT held code=CODE overtaken held-back].
func (n *node) verdict() string {
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

	return strings.Join(got, " ")
}

// checks returns NAME=STATE of each.
func (n *node) checks() string {
	var all []string
	for _, c := range n.out.Checks {
		all = append(all, c.Name+"="+c.State)
	}

	return strings.Join(all, " ")
}

func (n *node) check(name string) (none CheckResult) {
	i := slices.IndexFunc(n.out.Checks, func(c CheckResult) bool { return c.Name == name })
	if i < 0 {
		return none
	}

	return n.out.Checks[i]
}

// journalText returns PHASE [from=N].
func (n *node) journalText() string {
	j := n.journal()
	if j == nil {
		return ""
	}
	text := string(j.Phase)
	if j.From != 0 {
		text += fmt.Sprintf(" from=%d", j.From)
	}

	return text
}

// counted returns whether the generation that awaits its verdict counts this boot as a try.
func (n *node) counted() string {
	j := n.journal()

	return yesNo(j != nil && j.BootID == n.boot)
}

func yesNo(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

// litter returns the other names in the folder of the flags.
func (n *node) litter() string {
	flags := n.path("flags")
	entries, _ := os.ReadDir(filepath.Dir(flags))
	var names []string
	for _, e := range entries {
		if e.Name() != filepath.Base(flags) {
			names = append(names, e.Name())
		}
	}

	return strings.Join(names, " ")
}

// startedOn returns the generation that the gate had at each start.
func (n *node) startedOn() string {
	var all []string
	for _, s := range n.systemd.starts[n.since.starts:] {
		all = append(all, strings.TrimPrefix(s.gate, gateVariable))
	}

	return strings.Join(all, " ")
}

func (n *node) labelsText() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(n.labels)) {
		all = append(all, key+"="+n.labels[key])
	}

	return strings.Join(all, " ")
}
