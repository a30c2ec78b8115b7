package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/scripttest"
)

// TestNodes runs the scripts of testdata/nodes, each on a node of its own, with a systemd and a clock that the script
// controls. README.md in that folder describes the commands. Of a matrix, a sample of the combinations is run, at least
// one.
func TestNodes(t *testing.T) {
	t.Parallel()
	chosen := sample.New(t)
	files, err := filepath.Glob("testdata/nodes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata/nodes: got %d, %v; want some", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		combinations := scripttest.Combinations(strings.Split(string(archive.Comment), "\n"))
		if len(combinations) == 1 {
			runNodeScript(t, file, nil, nil)
			continue
		}
		known := slices.Concat(combinations...)
		first, step := chosen.OneIn(sample.Quarter(8), file)
		first %= len(combinations) // at least one
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			for i := first; i < len(combinations); i += step {
				if testing.Short() && i > first { // with the race detector: one is enough
					break
				}
				values := combinations[i]
				t.Run(strings.Join(values, ","), func(t *testing.T) {
					t.Parallel()
					runNodeScript(t, file, values, known)
				})
			}
		})
	}
}

type nodeKey struct{}

// runNodeScript runs a script with these values of its matrix, of all that are known.
func runNodeScript(t *testing.T, file string, values, known []string) {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"matrix": func(*testscript.TestScript, bool, []string) {}, "json": cmdJSON, "err": cmdErr, "mode": cmdMode,
		"kept": cmdKept,
	}
	for name, do := range nodeCommands() {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			n := ts.Value(nodeKey{}).(*scriptNode)
			n.ts, n.neg = ts, neg
			do(n, args)
		}
	}
	testscript.Run(t, testscript.Params{
		Files: []string{file},
		Cmds:  commands,
		Setup: func(e *testscript.Env) error {
			n := &scriptNode{testMachine: newMachineIn(e.T().(testing.TB), e.WorkDir)}
			e.Values[nodeKey{}] = n
			e.Setenv("ROOT", n.root)
			e.Setenv("STATE", "root/var/lib/prelet")
			for _, value := range values {
				name, text, _ := strings.Cut(value, "=")
				e.Setenv(name, text)
			}
			if _, err := os.Stat(filepath.Join(e.WorkDir, "site.hcl")); err != nil {
				return nil // the site of all machines
			}
			return n.useSite(filepath.Join(e.WorkDir, "site.hcl"))
		},
		Condition: func(c string) (bool, error) { // [NAME:VALUE]
			switch c {
			case "root":
				return os.Geteuid() == 0, nil
			case "namespace":
				return os.Getenv(mountNamespace) != "", nil
			}
			value := strings.Replace(c, ":", "=", 1)
			if !slices.Contains(known, value) {
				return false, errors.New("want NAME:VALUE of a line matrix")
			}
			return slices.Contains(values, value), nil
		},
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

// scriptNode is the node of one script.
type scriptNode struct {
	*testMachine
	ts     *testscript.TestScript
	neg    bool  // the command has "!" before it
	exit   int   // of the last command
	verify ended // of the last boot
	began  time.Duration
	events []event
	looks  [][]string // commands of kubelet at-next-look
	asked  int        // starts of prelet-apply.service
	locked *generation.Store

	before struct {
		disk, files map[string]string
		pid         uint32
		starts      int
		requests    int
	}
}

// event is a command of the script that is carried out while a command of prelet waits.
type event struct {
	isDue   func(elapsed time.Duration) bool
	command []string
}

// nodeCommands are the commands of the scripts. What they do is described at their functions, and in
// testdata/nodes/README.md.
func nodeCommands() map[string]func(n *scriptNode, args []string) {
	return map[string]func(n *scriptNode, args []string){
		// Time, boots and commands.
		"boot":     (*scriptNode).cmdBoot,
		"verified": (*scriptNode).cmdVerified,
		"reboot":   func(n *scriptNode, _ []string) { n.reboot() },
		"node":     (*scriptNode).cmdNode,
		"service":  (*scriptNode).cmdService,
		"good":     (*scriptNode).cmdGood,
		"template": (*scriptNode).cmdTemplate,
		"copied":   (*scriptNode).cmdCopied,
		"later":    (*scriptNode).cmdLater,
		"took":     (*scriptNode).cmdTook,
		"clock":    (*scriptNode).cmdClock,
		"sleep":    func(n *scriptNode, args []string) { n.now += n.duration(args[0]) },

		// Output and reports.
		"out":           func(n *scriptNode, args []string) { cmdOut(n.ts, n.neg, args) },
		"status-has":    (*scriptNode).cmdStatusHas,
		"journal":       (*scriptNode).cmdJournal,
		"journal-count": (*scriptNode).cmdJournalCount,
		"console":       (*scriptNode).cmdConsole,
		"notified":      (*scriptNode).cmdNotified,
		"extended":      (*scriptNode).cmdExtended,

		// Units.
		"gate":       (*scriptNode).cmdGate,
		"starts":     (*scriptNode).cmdStarts,
		"restarted":  (*scriptNode).cmdRestarted,
		"kubelet":    (*scriptNode).cmdKubelet,
		"unit":       (*scriptNode).cmdUnit,
		"wanted":     (*scriptNode).cmdWanted,
		"apply-unit": (*scriptNode).cmdApplyUnit,
		"asked":      (*scriptNode).cmdAsked,
		"on":         (*scriptNode).cmdOn,
		"job":        (*scriptNode).cmdJob,
		"systemd": func(n *scriptNode, args []string) {
			n.gone, n.noOrder = args[0] == "gone", args[0] == "without-order"
		},
		"mounts":         (*scriptNode).cmdMounts,
		"job-of-prelet":  func(n *scriptNode, args []string) { n.restart = args[0] == "restart" },
		"verify-masked":  func(n *scriptNode, _ []string) { n.noJudge = true },
		"no-verify-unit": func(n *scriptNode, _ []string) { n.noVerify = true },

		// The cluster.
		"api":            (*scriptNode).cmdAPI,
		"object":         (*scriptNode).cmdObject,
		"patched":        (*scriptNode).cmdPatched,
		"requests":       (*scriptNode).cmdRequests,
		"unauthorized":   (*scriptNode).cmdUnauthorized,
		"config-map":     func(n *scriptNode, args []string) { n.putKubeletConfig(n.ts.ReadFile(args[0])) },
		"jitter":         func(n *scriptNode, args []string) { n.jitter = float64(n.number(args[0])) / 100 },
		"forget-patches": func(n *scriptNode, _ []string) { clear(n.sent) },

		// Files.
		"put":                 func(n *scriptNode, args []string) { cmdPut(n.ts, false, args) },
		"rm":                  (*scriptNode).cmdRm,
		"label":               func(n *scriptNode, args []string) { n.relabel(args[0]) },
		"site":                func(n *scriptNode, args []string) { n.ts.Check(n.useSite(n.ts.MkAbs(args[0]))) },
		"keep":                (*scriptNode).cmdKeep,
		"edit":                (*scriptNode).cmdEdit,
		"append":              (*scriptNode).cmdAppend,
		"snapshot":            (*scriptNode).cmdSnapshot,
		"same":                (*scriptNode).cmdSame,
		"identity":            (*scriptNode).cmdIdentity,
		"empty-run":           func(n *scriptNode, _ []string) { n.emptyRun() },
		"make-state-folder":   func(n *scriptNode, _ []string) { n.ts.Check(os.Mkdir(n.stateDir(), 0o700)) },
		"certificate-expired": func(n *scriptNode, args []string) { n.expired = args[0] },
		"files-changed":       func(n *scriptNode, args []string) { n.changed = n.kubelet.Started + n.duration(args[0]) },

		// prelet's state folder.
		"blob":       func(n *scriptNode, args []string) { cmdBlob(n.ts, false, append([]string{"root"}, args...)) },
		"lock":       func(n *scriptNode, _ []string) { n.locked = n.testMachine.lock() },
		"unlock":     func(n *scriptNode, _ []string) { n.ts.Check(n.locked.Close()) },
		"damage":     (*scriptNode).cmdDamage,
		"unreadable": func(n *scriptNode, args []string) { n.ts.Defer(hangfs.SpoilFile(n.t, n.ts.MkAbs(args[0]))) },
		"flip":       func(n *scriptNode, args []string) { n.flip(args[0], unescape(args[1])) },
		"spoil":      func(n *scriptNode, args []string) { n.spoil(args[0], args[1]) },
		"stray":      (*scriptNode).cmdStray,
		"interrupt":  (*scriptNode).cmdInterrupt,
		"newer":      (*scriptNode).cmdNewer,
		"newer-plan": func(n *scriptNode, args []string) { n.planByNewer(n.number(args[0]), args[1], args[2]) },
	}
}

// useSite makes a file the site, with @SERVER@ and @PIN@ replaced.
func (m *testMachine) useSite(file string) error {
	text, err := os.ReadFile(file)
	m.site = strings.NewReplacer("@SERVER@", m.server.URL, "@PIN@", m.server.CAHash()).Replace(string(text))
	m.put("/etc/prelet/site.hcl", m.site)

	return err
}

// carryOut runs a command of prelet, makes its output the current one, and checks its exit status. Events of `later`
// happen while it waits. A limit of virtual time ends a test whose command would wait for ever.
func (n *scriptNode) carryOut(want string, command func() ended) {
	const limit = time.Hour
	began, outer := n.now, n.sleeping
	isOutermost := outer == nil // not a command that is carried out during another one
	n.sleeping = func() {
		if n.now-began > limit {
			n.t.Fatalf("the command goes on for more than %s of the node's time", limit)
		}
		for isOutermost && len(n.events) > 0 && n.events[0].isDue(n.now-began) {
			next := n.events[0]
			n.events = n.events[1:]
			n.perform(next.command)
		}
	}
	got := command()
	n.began, n.sleeping = began, outer
	n.print(got)
	n.exit = got.exit
	if want != "any" && !slices.Contains(strings.Split(want, ","), strconv.Itoa(got.exit)) {
		n.ts.Fatalf("exit status: got %d, want %s", got.exit, want)
	}
	if len(n.events) > 0 && isOutermost {
		n.ts.Fatalf("the command ended before %v", n.events)
	}
}

// perform carries out a command of the script during a command of prelet.
func (n *scriptNode) perform(command []string) {
	do := nodeCommands()[command[0]]
	if do == nil {
		n.ts.Fatalf("unknown command for `later`: %q", command[0])
	}
	n.neg = false
	do(n, command[1:])
}

func (n *scriptNode) print(e ended) {
	_, _ = io.WriteString(n.ts.Stdout(), e.out)
	_, _ = io.WriteString(n.ts.Stderr(), e.errors)
}

// boot N: prelet.service, which ends with N, the kubelet, and prelet-verify.service if its conditions hold.
func (n *scriptNode) cmdBoot(args []string) {
	n.carryOut(args[0], func() (run ended) {
		run, n.verify = n.boot()
		return run
	})
}

// verified N: prelet-verify.service of the last boot ended with N. Its output is the current one. `! verified`: it
// was not started.
func (n *scriptNode) cmdVerified(args []string) {
	n.print(n.verify)
	want := "-1"
	if !n.neg {
		want = args[0]
	}
	if got := strconv.Itoa(n.verify.exit); !slices.Contains(strings.Split(want, ","), got) {
		n.ts.Fatalf("exit status of prelet-verify.service: got %s, want %s (-1: not started)", got, want)
	}
}

// service UNIT N [ARGS...]: a unit of prelet runs its command, or that one. prelet.service runs as at a boot.
func (n *scriptNode) cmdService(args []string) {
	unit, line := args[0], args[2:]
	if len(line) == 0 {
		line = []string{"run"}
		if unit == machine.VerifyUnit {
			line = []string{"verify"}
		}
	}
	n.carryOut(args[1], func() ended {
		n.inside = unit == machine.BootUnit && !n.restart && line[0] == "run"
		defer func() { n.inside = false }()
		return n.as(unit, line...)
	})
}

// node N ARGS...: a person runs prelet, which ends with N. N may be a list, such as 0,41, or any.
func (n *scriptNode) cmdNode(args []string) {
	n.carryOut(args[0], func() ended { return n.as("", args[1:]...) })
}

// good N: the node has booted and has N good generations, with the labels a, b, c.
func (n *scriptNode) cmdGood(args []string) {
	n.cmdBoot([]string{"0"})
	n.cmdVerified([]string{"0"})
	for _, label := range []string{"a", "b", "c"}[1:n.number(args[0])] {
		n.relabel(label)
		n.cmdNode([]string{"0", "run"})
	}
}

// template: the node has joined as n1, with its certificate where a kubelet keeps it, and has a host name.
func (n *scriptNode) cmdTemplate([]string) {
	n.put("/etc/hostname", "n1\n")
	n.onStart = n.joinAs("n1")
	n.cmdBoot([]string{"0"})
	n.cmdVerified([]string{"0"})
	n.put("/var/lib/kubelet/cpu_manager_state", `{"policyName":"none"}`)
}

// copied: the disk is now in another machine, whose kubelet joins as n2.
func (n *scriptNode) cmdCopied([]string) {
	n.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
}

// later DURATION COMMAND: during the next command of prelet, at its first wait after that time, the script's COMMAND
// is carried out. later judged COMMAND: at its first wait after a good verdict.
func (n *scriptNode) cmdLater(args []string) {
	isDue := func(time.Duration) bool { return n.says().Finished != nil && n.says().Verdict == "good" }
	if args[0] != "judged" {
		at := n.duration(args[0])
		isDue = func(elapsed time.Duration) bool { return elapsed >= at }
	}
	n.events = append(n.events, event{isDue, args[1:]})
}

// clock right|YEAR: the wall clock is right, or at the begin of a year.
func (n *scriptNode) cmdClock(args []string) {
	if n.wrong = 0; args[0] != "right" {
		n.wrong = time.Until(time.Date(n.number(args[0]), 1, 1, 0, 0, 0, 0, time.UTC))
	}
}

func (n *scriptNode) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	n.ts.Check(err)
	return d
}

func (n *scriptNode) number(text string) int {
	i, err := strconv.Atoi(text)
	n.ts.Check(err)
	return i
}

// took MIN MAX: so long was the last command of prelet, by the node's clock.
func (n *scriptNode) cmdTook(args []string) {
	if got := n.now - n.began; got < n.duration(args[0]) || got > n.duration(args[1]) {
		n.ts.Fatalf("the command took %s, want %s to %s", got, args[0], args[1])
	}
}

// gate N|open|shut: the gate is open on generation N, open on any, or shut.
func (n *scriptNode) cmdGate(args []string) {
	if args[0] == "open" && n.gateSays() != "" {
		return
	}
	want := "PRELET_GENERATION=" + args[0]
	if args[0] == "shut" {
		want = ""
	}
	if got := n.gateSays(); got != want {
		n.ts.Fatalf("gate: got %q, want %q", got, want)
	}
}

// starts [N...]: the kubelet has started on these generations since the reboot.
func (n *scriptNode) cmdStarts(args []string) {
	var got []string
	for _, start := range n.starts {
		got = append(got, strings.TrimPrefix(start, "PRELET_GENERATION="))
	}
	if !slices.Equal(got, args) {
		n.ts.Fatalf("starts of the kubelet: got generations %q, want %q", got, args)
	}
}

// kubelet start|stop|crash: what systemd does with it; after a crash it starts the kubelet again. kubelet waits: it
// does not join. kubelet joins-as NAME: with a bootstrap kubeconfig it joins under this name, with its certificate in a file. kubelet join NAME: it
// has joined so. kubelet key-of-another-certificate: that file has the key of another one. kubelet when-healthy N
// COMMAND: at each look that finds it healthy, after N more starts, the script's COMMAND is carried out. kubelet
// at-next-look COMMAND: at the next look. kubelet has-kubeconfig: it has joined. kubelet version V: its version is
// known. kubelet is UNIT: its unit has this name. kubelet masked, kubelet unmasked: its unit is. kubelet asked-for-flag
// TEXT: the verification looked for such a flag. kubelet reads-flags, kubelet keeps-flags: it has the flags of the file
// from its next start on, or never. kubelet healthz ok, kubelet healthz TEXT [FILE TEXT]: how it is, always or while
// the file contains the text.
func (n *scriptNode) cmdKubelet(args []string) {
	switch args[0] {
	case "start":
		n.units.start()
	case "stop":
		n.kubelet.Active, n.kubelet.Sub, n.kubelet.MainPID, n.kubelet.Job = "inactive", "dead", 0, 0
	case "crash":
		n.kubelet.Active, n.kubelet.Sub, n.kubelet.MainPID = "activating", "auto-restart", 0
		n.units.start()
	case "waits":
		n.onStart = nil
	case "joins-as":
		n.onStart = n.joinAs(args[1])
	case "join":
		const bootstrap = "/etc/kubernetes/bootstrap-kubelet.conf"
		n.put(bootstrap, "x")
		n.joinAs(args[1])()
		n.ts.Check(os.Remove(n.root + bootstrap))
	case "when-healthy":
		look, starts := n.sick, len(n.starts)+n.number(args[1])
		n.sick = func() error {
			if look != nil && look() != nil {
				return look()
			}
			if len(n.starts) >= starts {
				n.perform(args[2:])
			}
			return nil
		}
	case "version":
		n.answered(args[1])
	case "is":
		n.kubelet.Name = args[1]
	case "masked", "unmasked":
		n.masked = args[0] == "masked"
	case "asked-for-flag":
		if got := strings.Join(n.args, " "); !strings.Contains(got, args[1]) {
			n.ts.Fatalf("flags that the verification asked for: got %s, want %s in them", got, args[1])
		}
	case "at-next-look":
		n.looks = append(n.looks, args[1:])
		if look := n.sick; len(n.looks) == 1 {
			n.sick = func() error {
				for len(n.looks) > 0 {
					next := n.looks[0]
					n.looks = n.looks[1:]
					n.perform(next)
				}
				if look != nil {
					return look()
				}
				return nil
			}
		}
	case "has-kubeconfig":
		n.put(kubeletConf, string(n.server.NodeKubeconfig("n1")))
	case "reads-flags", "keeps-flags":
		running, process := n.args, n.kubelet.MainPID
		n.lacks = func(pid uint32, flags []string) error {
			if (pid == process || args[0] == "keeps-flags") && !slices.Equal(flags, running) {
				return errors.New("the process has not the flag")
			}
			return nil
		}
	case "key-of-another-certificate":
		cert, _ := n.server.IssueNode("n1")
		_, key := n.server.IssueNode("n1")
		n.put(oldPEM, string(cert)+string(key))
	case "healthz":
		n.sick = func() error {
			if args[1] == "ok" {
				return nil
			}
			if len(args) == 4 {
				text, err := os.ReadFile(n.ts.MkAbs(args[2]))
				if err != nil || !strings.Contains(string(text), args[3]) {
					return nil // a file that is missing does not contain it
				}
			}
			return errors.New(args[1])
		}
	default:
		n.ts.Fatalf("unknown: kubelet %s", args[0])
	}
}

// unit NAME FIELD=VALUE...: systemd describes a unit so, in the fields of activation.Unit. A unit of another name
// than the kubelet's and prelet's is one of the site's. `unit NAME is FIELD=VALUE...` checks them, and `unit NAME
// runs` that it is active or about to be.
func (n *scriptNode) cmdUnit(args []string) {
	unit := map[string]*activation.Unit{n.kubelet.Name: &n.kubelet, machine.BootUnit: &n.self}[args[0]]
	if unit == nil {
		unit = &n.other
		unit.Name = args[0]
	}
	if args[1] == "runs" {
		if unit.Active != "active" && unit.Job == 0 {
			n.ts.Fatalf("%s: got %+v, want it active, or a job that starts it", args[0], *unit)
		}
		return
	}
	isCheck := args[1] == "is"
	for _, assignment := range args[1:] {
		name, text, ok := strings.Cut(assignment, "=")
		if !ok {
			continue
		}
		field := reflect.ValueOf(unit).Elem().FieldByName(name)
		if isCheck {
			if got := fmt.Sprint(field.Interface()); (got != text) != n.neg {
				n.ts.Fatalf("%s of %s: got %s, want %s: %t", name, args[0], got, text, !n.neg)
			}
			continue
		}
		switch v := field.Addr().Interface().(type) {
		case *time.Duration:
			if *v = n.now; text != "now" {
				*v = n.duration(text)
			}
		case *string:
			*v = text
		case *[]unitfile.EnvironmentFile:
			if *v = (*v)[:0:0]; text != "" {
				*v = append(*v, unitfile.EnvironmentFile{Path: text})
			}
		default:
			_, err := fmt.Sscan(text, v)
			n.ts.Check(err)
		}
	}
}

// mounts [PATH=STATE...]: systemd has these mount units, in these states; that of one that is activating has a job.
func (n *scriptNode) cmdMounts(args []string) {
	n.mounts = nil
	for _, arg := range args {
		path, state, _ := strings.Cut(arg, "=")
		unit := strings.ReplaceAll(path[1:], "/", "-") + ".mount"
		n.mounts = append(n.mounts, activation.Mount{
			Path: path, Unit: unit, State: state, Active: state == "active", Job: state == "activating",
		})
	}
}

// on plan|reload|start [if FILE|unless FILE] COMMAND: after each plan of a run, at each reload of systemd, or start of
// the kubelet, the script's COMMAND is carried out if the file is there, or is not.
func (n *scriptNode) cmdOn(args []string) {
	hook := map[string]*func(){"plan": &n.planned, "reload": &n.onReload, "start": &n.onStart}[args[0]]
	before, command, file := *hook, args[1:], "root"
	isUnless := command[0] == "unless"
	if isUnless || command[0] == "if" {
		file, command = command[1], command[2:]
	}
	*hook = func() {
		if before != nil {
			before()
		}
		if _, err := os.Stat(n.ts.MkAbs(file)); (err != nil) == isUnless {
			n.perform(command)
		}
	}
}

// job RESULT [COMMAND]: jobs of the site's unit end so, after the script's COMMAND. job refused TEXT: systemd refuses
// them.
func (n *scriptNode) cmdJob(args []string) {
	n.act = func(string) (string, error) {
		if args[0] == "refused" {
			return "unanswered", errors.New(args[1])
		}
		if len(args) > 1 {
			n.perform(args[1:])
		}
		return args[0], nil
	}
}

// rm FILE...: removes files and folders, during a command of prelet.
func (n *scriptNode) cmdRm(args []string) {
	for _, arg := range args {
		n.ts.Check(os.RemoveAll(n.ts.MkAbs(arg)))
	}
}

// keep FILE COPY: copies a file, during a command of prelet.
func (n *scriptNode) cmdKeep(args []string) {
	n.ts.Check(os.WriteFile(n.ts.MkAbs(args[1]), []byte(n.ts.ReadFile(args[0])), 0o600))
}

// edit FILE OLD NEW: replaces each OLD, of which there must be one.
func (n *scriptNode) cmdEdit(args []string) {
	text := n.ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		n.ts.Fatalf("%s: got no %q in it, want one:\n%s", args[0], args[1], text)
	}
	n.ts.Check(os.WriteFile(n.ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], unescape(args[2]))), 0o644))
}

// append FILE TEXT: adds a text at the end.
func (n *scriptNode) cmdAppend(args []string) {
	text := n.ts.ReadFile(args[0]) + unescape(args[1])
	n.ts.Check(os.WriteFile(n.ts.MkAbs(args[0]), []byte(text), 0o644))
}

// snapshot: what `same` compares with.
func (n *scriptNode) cmdSnapshot([]string) {
	n.before.disk, n.before.files = n.disk(), withoutOwn(n.disk())
	n.before.pid, n.before.starts, n.before.requests = n.kubelet.MainPID, len(n.starts), len(n.server.Requests())
}

// same disk|disk-without-lock|files|kubelet...: as at the snapshot are the whole disk, all of it but the lock of the
// state folder or that folder, or the kubelet, which was neither stopped nor started.
func (n *scriptNode) cmdSame(args []string) {
	for _, what := range args {
		got, want := n.disk(), n.before.disk
		switch what {
		case "files":
			got, want = withoutOwn(got), n.before.files
		case "disk-without-lock":
			const lock = "/var/lib/prelet/lock"
			delete(got, lock)
			delete(want, lock)
		case "kubelet":
			if n.kubelet.MainPID != n.before.pid || len(n.starts) != n.before.starts || n.kubelet.Active != "active" {
				n.ts.Fatalf("kubelet: got %+v after %d starts, want process %d, active, after %d",
					n.kubelet, len(n.starts), n.before.pid, n.before.starts)
			}
			continue
		}
		if d := gocmp.Diff(want, got); d != "" {
			n.ts.Fatalf("%s (-want +got):\n%s", what, d)
		}
	}
}

// object: prints the Node as JSON. object taints|conditions [ITEM...]: another client makes them so; a condition is
// TYPE=STATUS, and object add-condition TYPE=STATUS adds one. object label|annotation KEY VALUE: it adds one. object
// ready true|false: it is ready, or not. object machine-id ID...: machines with these ids update it in turn, each
// every 10 s.
func (n *scriptNode) cmdObject(args []string) {
	if len(args) == 0 {
		taints := []string{}
		for _, t := range n.taints {
			taints = append(taints, t.String())
		}
		n.print(ended{out: string(must(json.Marshal(map[string]any{
			"labels": n.labels, "taints": taints, "annotations": n.annotations, "conditions": n.conditions,
		})))})
		return
	}
	switch args[0] {
	case "taints":
		n.taints = nil
		for _, text := range args[1:] {
			n.taints = append(n.taints, must(kubelet.ParseTaint(text)))
		}
	case "conditions":
		n.conditions = nil
		for _, text := range args[1:] {
			n.cmdObject([]string{"add-condition", text})
		}
	case "ready":
		n.nodeReady = args[1] == "true"
	case "machine-id":
		n.nodeID = func(*testMachine) string {
			const update = 10 * time.Second
			return args[1+int((n.now-n.began)/update)%(len(args)-1)]
		}
	case "add-condition":
		typ, status, _ := strings.Cut(args[1], "=")
		n.conditions = append(n.conditions, condition.Condition{Type: typ, Status: status})
	case "label":
		n.labels[args[1]] = args[2]
	case "annotation":
		n.annotations[args[1]] = args[2]
	}
}

// patched taints|conditions|annotations|labels [PATCH...]: these patches were sent since the last such check; one
// that ends in "..." is the begin of a patch.
func (n *scriptNode) cmdPatched(args []string) {
	got, want := n.sent[args[0]], args[1:]
	delete(n.sent, args[0])
	if !slices.EqualFunc(got, want, func(got, want string) bool {
		begin, isBegin := strings.CutSuffix(want, "...")
		return got == want || isBegin && strings.HasPrefix(got, begin)
	}) {
		n.ts.Fatalf("patches of %s: got %q, want %q", args[0], got, want)
	}
}

// api gone: the API server has ended. api get|taints|conditions|annotations ok|refused|changed|TEXT: how it answers a
// request for the Node, or a patch. api node ID STATUS: it has the Node n1 of the machine with this id, and its
// condition Ready. api csr STATUS: it lists the script's csr.json, with this text for @STATUS@.
func (n *scriptNode) cmdAPI(args []string) {
	switch args[0] {
	case "gone":
		n.server.Close()
		return
	case "node":
		n.server.SetNode("n1", fmt.Appendf(nil, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"status":`+
			`{"nodeInfo":{"machineID":%q},"conditions":[{"type":"Ready","status":%q}]}}`, args[1], args[2]))
		return
	case "csr":
		list := strings.Replace(n.ts.ReadFile("csr.json"), "@STATUS@", args[1], 1)
		n.server.SetIntercept(func(w http.ResponseWriter, r *http.Request, _ int) bool {
			isList := strings.HasSuffix(r.URL.Path, "/certificatesigningrequests")
			if isList {
				_, _ = io.WriteString(w, list)
			}
			return isList
		})
		return
	}
	answer, isKnown := map[string]error{
		"ok": nil, "refused": refusal{}, "changed": changed{}, "unreachable": unreachable{},
	}[args[1]]
	if !isKnown {
		answer = errors.New(args[1])
	}
	n.fails[args[0]] = answer
}

// apply-unit serves|serves-second: a start of prelet-apply.service, or only a second one, serves requests, with the
// credentials that a person has not. apply-unit dies: it takes them, and is killed. apply-unit ignores
// [STATE]: it does nothing; STATE is its ActiveState. apply-unit ends RESULT: so ends the job of its start.
// apply-unit none: there is no systemd.
func (n *scriptNode) cmdApplyUnit(args []string) {
	serve := func() {}
	switch args[0] {
	case "none":
		n.apply = nil
		return
	case "ends":
		n.job = args[1]
		return
	case "serves", "serves-second":
		n.served()
		serve = n.apply
	case "dies":
		serve = func() {
			for _, request := range n.requests() {
				folder, err := os.Open(filepath.Dir(request))
				n.ts.Check(err)
				defer folder.Close()
				asker, err := net.Dial("unixpacket", // an address has at most 107 bytes
					fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(request)))
				n.ts.Check(err)
				_, err = asker.Read(make([]byte, 4096))
				n.ts.Check(err)
				n.ts.Check(asker.Close())
			}
		}
	default:
		n.applyIs = strings.Join(args[1:], "")
	}
	n.asked = 0
	n.apply = func() {
		if n.asked++; n.asked > 1 || args[0] != "serves-second" {
			serve()
		}
	}
}

// asked N: prelet-apply.service was started so often since the last apply-unit.
func (n *scriptNode) cmdAsked(args []string) {
	if got := strconv.Itoa(n.asked); got != args[0] {
		n.ts.Fatalf("starts of prelet-apply.service: got %s, want %s", got, args[0])
	}
}

// journal TEXT [KEY=VALUE...]: a message in the journal contains the text, and its first entry has these fields.
func (n *scriptNode) cmdJournal(args []string) {
	entries := n.entries(args[0])
	if (len(entries) == 0) != n.neg {
		n.ts.Fatalf("journal entries with %q: got %d\n%s", args[0], len(entries), &n.log)
	}
	for _, field := range args[1:] {
		key, want, _ := strings.Cut(field, "=")
		if got := entries[0][key]; got != want {
			n.ts.Fatalf("journal entry with %q: got %s %s, want %s", args[0], key, got, want)
		}
	}
}

// console N [TEXT]: N lines were written to the machine's console, and each contains the text.
func (n *scriptNode) cmdConsole(args []string) {
	text := strings.Join(args[1:], "")
	if got := strconv.Itoa(len(n.console)); got != args[0] ||
		slices.ContainsFunc(n.console, func(line string) bool { return !strings.Contains(line, text) }) {
		n.ts.Fatalf("console: got %q, want %s lines with %q", n.console, args[0], text)
	}
}

// identity NAME|none: the node in the certificate that the kubelet would start with.
func (n *scriptNode) cmdIdentity(args []string) {
	if got := cmp.Or(n.node(), "none"); got != args[0] {
		n.ts.Fatalf("identity: got %s, want %s", got, args[0])
	}
}

// interrupt FILE: a commit that changes a file, or adds it, is interrupted while it publishes. interrupt before FILE:
// it is, before it is committed. interrupt committed FILE: the same after it, with the gate open. interrupt earlier DIR:
// a state folder has such a commit of an earlier boot.
func (n *scriptNode) cmdInterrupt(args []string) {
	switch args[0] {
	case "before":
		n.staged(args[1], func(*generation.Txn) error { return nil })
	case "committed":
		n.staged(args[1], func(t *generation.Txn) error { _, err := t.Commit(); return err })
	case "earlier":
		n.halfPublished(n.ts.MkAbs(args[1]))
	default:
		n.interrupted(args[0])
	}
}

// newer FILE [KEY VALUE]: a prelet of a later format has written this file of the state folder, and that member.
func (n *scriptNode) cmdNewer(args []string) {
	n.byNewer(args[0], func(doc map[string]any) {
		if len(args) > 1 {
			doc[args[1]] = args[2]
		}
	})
}

// damage FILE AT: changes a bit of a file of the state folder: of the byte at AT, or from the end if that is
// negative. With K/N it is the begin of the K-th of N parts of what follows the file's first line.
func (n *scriptNode) cmdDamage(args []string) {
	part, parts, isPart := strings.Cut(args[1], "/")
	n.editState(args[0], func(text []byte) []byte {
		at := n.number(part)
		if isPart {
			begin := bytes.IndexByte(text, '\n') + 64
			at = begin + (at-1)*(len(text)-begin)/n.number(parts)
		} else if at < 0 {
			at += len(text)
		}
		text[at] ^= 1
		return text
	})
}

// stray FILE [TEXT]: a file of the state folder, which has this text or is there already, belongs to another user.
func (n *scriptNode) cmdStray(args []string) {
	if len(args) == 2 {
		n.ts.Check(os.WriteFile(filepath.Join(n.stateDir(), args[0]), []byte(args[1]), 0o600))
	}
	n.ts.Check(os.Lchown(filepath.Join(n.stateDir(), args[0]), 1000, 1000))
}

// restarted N: the kubelet was restarted N times since the snapshot.
func (n *scriptNode) cmdRestarted(args []string) {
	if got := fmt.Sprint(n.kubelet.MainPID - n.before.pid); got != args[0] {
		n.ts.Fatalf("restarts of the kubelet: got %s, want %s", got, args[0])
	}
}

// wanted UNIT: a start of the unit was requested.
func (n *scriptNode) cmdWanted(args []string) {
	if !slices.Contains(n.wanted, args[0]) {
		n.ts.Fatalf("requested starts: got %q, want one of %s", n.wanted, args[0])
	}
}

// status-has TEXT: prelet status contains the text now, during another command.
func (n *scriptNode) cmdStatusHas(args []string) {
	if got := n.as("", "status"); !mentions(got.out, args[0]) {
		n.ts.Fatalf("status: got\n%s\nwant %q in it", got.out, args[0])
	}
}

// journal-count N TEXT: N messages in the journal contain the text.
func (n *scriptNode) cmdJournalCount(args []string) {
	if got := n.entries(args[1]); strconv.Itoa(len(got)) != args[0] {
		n.ts.Fatalf("journal entries with %q: got %v, want %s", args[1], got, args[0])
	}
}

// notified TEXT: systemd was given a status with the text in this boot.
func (n *scriptNode) cmdNotified(args []string) {
	if !strings.Contains(n.status.String(), args[0]) {
		n.ts.Fatalf("STATUS=: got\n%s\nwant %q in it", n.status, args[0])
	}
}

// extended: systemd was asked for the time that the last command took, before it took it.
func (n *scriptNode) cmdExtended([]string) {
	if took := n.now - n.began; len(n.extend) == 0 || slices.Max(n.extend) < took {
		n.ts.Fatalf("EXTEND_TIMEOUT_USEC: got %s, want %s or more", n.extend, took)
	}
	n.extend = nil
}

// unauthorized: the API server was shown no credential.
func (n *scriptNode) cmdUnauthorized([]string) {
	if got := n.server.Authorizations(); got != 0 {
		n.ts.Fatalf("requests with a credential: got %d, want none", got)
	}
}

// requests N: the API server has received N requests at most since the snapshot.
func (n *scriptNode) cmdRequests(args []string) {
	if got := len(n.server.Requests()) - n.before.requests; got > n.number(args[0]) {
		n.ts.Fatalf("requests to the API server: got %d, want %s at most", got, args[0])
	}
}
