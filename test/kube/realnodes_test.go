package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestRealNodes runs the scripts of testdata/nodes, each with clusters and machines of its own. README.md in that
// folder describes the commands.
func TestRealNodes(t *testing.T) {
	t.Parallel()
	p := programs(t)
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name := range sceneCommands() {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(sceneKey{}).(*scene)
			s.ts, s.isShown = ts, false
			err := s.do(neg, append([]string{name}, args...))
			if s.isShown {
				fmt.Fprint(ts.Stdout(), s.last.Out)
				fmt.Fprint(ts.Stderr(), s.last.Err)
			}
			ts.Check(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/nodes",
		Cmds: commands,
		Setup: func(e *testscript.Env) error {
			s := &scene{
				t: e.T().(testing.TB), work: e.WorkDir,
				clusters: map[string]*Cluster{}, machines: map[string]*Node{}, doors: map[string]*Door{},
				asked: map[string]int{}, authorities: map[string]authority{},
			}
			e.Defer(s.later.Wait)
			e.Values[sceneKey{}] = s
			repository, err := filepath.Abs("../..")
			e.Setenv("REPO", repository)
			e.Setenv("GOARCH", runtime.GOARCH)
			e.Setenv(readinessVariable, os.Getenv(readinessVariable))
			return errors.Join(err, os.CopyFS(e.WorkDir, os.DirFS("testdata/nodes/common")))
		},
		Condition: func(name string) (bool, error) { // containerd, a variable, or a program of this machine
			_, err := exec.LookPath(name)
			return err == nil || name == Containerd && p.HasContainerd() || os.Getenv(name) != "", nil
		},
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

// readinessVariable is a folder: see readiness_controller.txtar.
const readinessVariable = "PRELET_READINESS_CONTROLLER"

type sceneKey struct{}

// scene is what a script has.
type scene struct {
	t    testing.TB
	ts   *testscript.TestScript
	work string // the folder of the script's files

	clusters map[string]*Cluster
	c        *Cluster // the first one
	machines map[string]*Node
	n        *Node // the current one
	doors    map[string]*Door
	asked    map[string]int // requests at a cluster that the script has seen

	authorities map[string]authority // by name; "cluster" is that of the first cluster
	between     *between
	later       sync.WaitGroup

	last    CommandResult // of the last command with an output
	isShown bool          // this command has one
	took    time.Duration // of the last `node`
	disk    map[string]string
}

// sceneCommands are the commands of the scripts. Each returns an error that contains got and want.
func sceneCommands() map[string]func(*scene, []string) error {
	return map[string]func(*scene, []string) error{
		// The cluster.
		"cluster":      (*scene).cmdCluster,
		"kubectl":      (*scene).cmdKubectl,
		"api":          (*scene).cmdAPI,
		"controllers":  (*scene).cmdControllers,
		"token":        (*scene).cmdToken,
		"signed":       func(s *scene, args []string) error { return s.c.Signed(s.t.Context(), args[0]) },
		"unsigned":     (*scene).cmdUnsigned,
		"config-map":   (*scene).cmdConfigMap,
		"requests":     (*scene).cmdRequests,
		"asked":        (*scene).cmdAsked,
		"busy":         (*scene).cmdBusy,
		"heartbeats":   (*scene).cmdHeartbeats,
		"beats":        (*scene).cmdBeats,
		"ready":        (*scene).cmdReady,
		"labels":       (*scene).cmdLabels,
		"all":          (*scene).cmdAll,
		"takes-effect": (*scene).cmdTakesEffect,
		"taints":       (*scene).cmdTaints,
		"machine-id":   (*scene).cmdMachineID,
		"condition":    (*scene).cmdCondition,
		"configz":      (*scene).cmdConfigz,
		"declared":     (*scene).cmdDeclared,

		// Machines.
		"machine":        (*scene).cmdMachine,
		"site":           (*scene).cmdSite,
		"node":           (*scene).cmdNode,
		"in":             (*scene).cmdIn,
		"put":            (*scene).cmdPut,
		"credential":     (*scene).cmdCredential,
		"door":           (*scene).cmdDoor,
		"shut":           (*scene).cmdShut,
		"off":            (*scene).cmdOff,
		"joins":          (*scene).cmdJoins,
		"untouched":      (*scene).cmdUntouched,
		"fields":         (*scene).cmdFields,
		"kubelet":        (*scene).cmdKubelet,
		"kubelet-log":    (*scene).cmdKubeletLog,
		"reboot":         (*scene).cmdReboot,
		"snapshot":       (*scene).cmdSnapshot,
		"same":           (*scene).cmdSame,
		"journal":        (*scene).cmdJournal,
		"containerd":     (*scene).cmdContainerd,
		"image":          (*scene).cmdImage,
		"hidden":         (*scene).cmdHidden,
		"memory-machine": (*scene).cmdMemoryMachine,
		"memory-state":   (*scene).cmdMemoryState,
		"add-memory":     (*scene).cmdAddMemory,

		// Servers of others.
		"authority": (*scene).cmdAuthority,
		"sign":      (*scene).cmdSign,
		"between":   (*scene).cmdBetween,
		"passed":    (*scene).cmdPassed,
		"serve":     (*scene).cmdServe,
		"silent":    (*scene).cmdSilent,
		"present":   (*scene).cmdPresent,
		"with-ca":   (*scene).cmdWithCA,
		"trusts":    (*scene).cmdTrusts,
		"proxy":     (*scene).cmdProxy,
		"unopened":  (*scene).cmdUnopened,

		// Time and output.
		"until": (*scene).cmdUntil,
		"later": (*scene).cmdLater,
		"out":   func(s *scene, args []string) error { return wantText("stdout", s.last.Out, args[0]) },
		"err":   func(s *scene, args []string) error { return wantText("stderr", s.last.Err, args[0]) },
		"paste": (*scene).cmdPaste,
		"took":  (*scene).cmdTook,
		"cause": (*scene).cmdCause,
	}
}

// do carries out a command. With neg it must fail.
func (s *scene) do(neg bool, words []string) error {
	command, ok := sceneCommands()[words[0]]
	if !ok {
		return fmt.Errorf("unknown command %q", words[0])
	}
	err := command(s, words[1:])
	if neg && err == nil {
		return errors.New("got no failure, want one")
	}
	if neg {
		return nil
	}

	return err
}

// show makes the output of a program the current one. The exit status must be one of want, "0,41" or "any".
func (s *scene) show(want string, r CommandResult, err error) error {
	s.last, s.isShown = r, true
	if err == nil && want != "any" && !slices.Contains(strings.Split(want, ","), strconv.Itoa(r.Exit)) {
		err = fmt.Errorf("got exit %d, want %s:\n%s%s", r.Exit, want, r.Out, r.Err)
	}

	return err
}

// wantText looks for a text, wherever lines are broken.
func wantText(stream, got, want string) error {
	if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(want), " ")) {
		return fmt.Errorf("%s: got\n%s\nwant text with %q", stream, got, want)
	}

	return nil
}

var placeholder = regexp.MustCompile(`@([A-Z]+)@`)

// text returns a word with its \n as line ends, or the content of the file if the word is @FILE. @NAME@ is replaced by
// the variable NAME.
func (s *scene) text(word string) string {
	text := strings.ReplaceAll(word, `\n`, "\n")
	if file, ok := strings.CutPrefix(word, "@"); ok {
		text = s.ts.ReadFile(file)
	}

	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		return s.ts.Getenv(strings.Trim(name, "@"))
	})
}

// until [!] COMMAND… [; [!] COMMAND…]…: repeats the commands for at most two minutes until all succeed.
func (s *scene) cmdUntil(args []string) error {
	return waitFor(s.t.Context(), 2*time.Minute, strings.Join(args, " "), func() string {
		for rest := args; len(rest) > 0; {
			end := slices.Index(append(rest, ";"), ";")
			words := slices.Clone(rest[:end])
			rest = rest[min(end+1, len(rest)):]
			neg := words[0] == "!"
			if neg {
				words = words[1:]
			}
			if err := s.do(neg, words); err != nil {
				return err.Error()
			}
		}

		return ""
	})
}

// later COMMAND…: as `until`, while the next commands of the script run.
func (s *scene) cmdLater(args []string) error {
	other := &scene{ts: s.ts, t: s.t, c: s.c, n: s.n, clusters: s.clusters, doors: s.doors, asked: maps.Clone(s.asked)}
	s.later.Go(func() {
		if err := other.cmdUntil(args); err != nil {
			s.t.Error(err)
		}
	})

	return nil
}

// paste REGEXP: runs the commands of kubectl in the last output that match, if there are any.
func (s *scene) cmdPaste(args []string) error {
	flat := strings.Join(strings.Fields(s.last.Out+s.last.Err), " ")
	for _, line := range regexp.MustCompile("kubectl "+args[0]).FindAllString(flat, -1) {
		if err := s.cmdKubectl(strings.Fields(line)[1:]); err != nil {
			return err
		}
	}

	return nil
}

// took MAX: the last `node` took at most this long.
func (s *scene) cmdTook(args []string) error {
	most, err := time.ParseDuration(args[0])
	if s.took > most {
		return fmt.Errorf("it took %s, want at most %s", s.took, most)
	}

	return err
}

// hidden TEXT: neither the last output nor a file of prelet or the kubelet contains it.
func (s *scene) cmdHidden(args []string) error {
	if strings.Contains(s.last.String(), args[0]) {
		return fmt.Errorf("got %s in the output, want it not there", args[0])
	}
	folders := []string{"/run/prelet", "/etc/kubernetes", "/etc/default", "/var/lib", "/var/log"}

	return s.cmdIn(append([]string{"1", "grep", "-rsl", args[0]}, folders...))
}

// cause ID ITEM [FILE TEXT]: `verify -o json` or `run -o json` has printed this cause of an unhealthy kubelet. It
// points to the text in the site's file, or outside of the site.
func (s *scene) cmdCause(args []string) error {
	var got struct {
		Cause *struct{ ID, Sentence, Item, At string }
	}
	if err := json.Unmarshal([]byte(s.last.Out), &got); err != nil || got.Cause == nil {
		return fmt.Errorf("got %v and %+v, want a cause", err, got)
	}
	at := ""
	if len(args) > 2 {
		text, err := s.n.Read("/etc/prelet/" + args[2])
		before, _, found := strings.Cut(text, s.text(args[3]))
		if err != nil || !found {
			return fmt.Errorf("%s: got %v and\n%s\nwant text with %q", args[2], err, text, args[3])
		}
		column := len(before) - strings.LastIndex(before, "\n")
		at = fmt.Sprintf("/etc/prelet/%s:%d:%d", args[2], 1+strings.Count(before, "\n"), column)
	}
	gotAt, _, _ := strings.Cut(got.Cause.At, ",")
	if got.Cause.ID != args[0] || got.Cause.Item != args[1] || gotAt != at {
		return fmt.Errorf("cause: got %+v, want %s of %s at %q", *got.Cause, args[0], args[1], at)
	}

	return nil
}
