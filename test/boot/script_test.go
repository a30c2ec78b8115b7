package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/demo/nodestatus"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/test/nspawn"
)

// TestBoots runs the scripts of testdata/boots, each on a machine of its own. README.md in that folder describes
// their commands. PRELET_BOOT_SAMPLE=4 takes one in four.
func TestBoots(t *testing.T) {
	t.Parallel()
	_ = nspawn.Cache(t) // or skip
	files, err := filepath.Glob("testdata/boots/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata/boots: got %d, %v; want some", len(files), err)
	}
	chosen, oneIn := sample.Sample{}, 1
	if part := os.Getenv("PRELET_BOOT_SAMPLE"); part != "" {
		chosen = sample.New(t)
		if oneIn, err = strconv.Atoi(part); err != nil || oneIn < 1 {
			t.Fatalf("PRELET_BOOT_SAMPLE: got %q, want a number from 1", part)
		}
	}
	var ends failedEnds
	t.Cleanup(func() { ends.print(t) })
	for _, file := range files {
		if !chosen.Has(oneIn, file) {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runScript(scriptT{t, &ends}, file)
		})
	}
}

// scriptT runs a script in the test itself, and not in a test below it.
type scriptT struct {
	*testing.T
	ends *failedEnds
}

// failedEnds are the last lines of the scripts that failed. They are printed again at the end: the log of all scripts
// has 20,000 lines.
type failedEnds struct {
	mu    sync.Mutex
	texts []string
}

func (f *failedEnds) print(t *testing.T) {
	for _, text := range f.texts {
		t.Log(text)
	}
}

// Log prints the log of a script, and keeps the end of one that has failed.
func (t scriptT) Log(args ...any) {
	t.T.Log(args...)
	if t.Failed() {
		const most = 1500
		text := fmt.Sprint(args...)
		t.ends.mu.Lock()
		defer t.ends.mu.Unlock()
		t.ends.texts = append(t.ends.texts, t.Name()+": …"+text[max(0, len(text)-most):])
	}
}

func (t scriptT) Run(_ string, run func(testscript.T)) { run(t) }
func (t scriptT) Parallel()                            {}
func (t scriptT) Verbose() bool                        { return testing.Verbose() }

func runScript(t scriptT, file string) {
	n := &scriptMachine{}
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range scriptCommands() {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			n.ts, n.neg = ts, neg
			do(n, args)
			if t.Failed() { // a method of the machine has reported why
				ts.Fatalf("%s failed", name)
			}
		}
	}
	for name, look := range scriptChecks() {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			n.ts, n.neg = ts, neg
			if why := look(n, args); (why != "") != neg {
				ts.Fatalf("%s: got %q, want none: %t", name, why, !neg)
			}
		}
	}
	testscript.RunT(t, testscript.Params{
		Files: []string{file},
		Cmds:  commands,
		Setup: func(e *testscript.Env) error {
			n.machine = newMachine(t.T)
			e.Defer(func() { n.wantNoHold(file) })
			e.Setenv("ROOT", n.Root)
			e.Setenv("TOKEN", demo.Token)
			e.Setenv("TOKEN_SECRET", demo.TokenSecret)
			root := filepath.Join(e.WorkDir, "root")
			if _, err := os.Stat(root); err == nil { // the script's files
				out, err := exec.Command("cp", "--recursive", "--no-target-directory", root, n.Root).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
			}
			return errors.Join(os.RemoveAll(root), os.Symlink(n.Root, root),
				os.Symlink(n.Dir+"/console.log", filepath.Join(e.WorkDir, "console")))
		},
		Condition: func(unit string) (bool, error) { // [UNIT]: the unit is active; [systemd:250]: it is 250 or newer
			if least, isVersion := strings.CutPrefix(unit, "systemd:"); isVersion {
				version, err := strconv.Atoi(least)
				return n.hasSystemd(version), err
			}
			return n.property(unit, "ActiveState") == "active", nil
		},
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

// wantNoHold looks for a kubelet that a hold has kept, in a script that has none.
func (n *scriptMachine) wantNoHold(file string) {
	script, err := os.ReadFile(file)
	console, errConsole := os.ReadFile(n.Dir + "/console.log")
	if errors.Is(errConsole, fs.ErrNotExist) { // it was never started
		errConsole = nil
	}
	const hold = "hold \""
	switch {
	case errors.Join(err, errConsole) != nil:
		n.T.Error(errors.Join(err, errConsole))
	case !strings.Contains(string(script), hold) && strings.Contains(string(console), hold):
		n.T.Errorf("%s: got a kubelet that is held, want none:\n%s", file, console)
	}
}

// scriptMachine is the machine of one script.
type scriptMachine struct {
	*machine
	ts        *testscript.TestScript
	neg       bool       // the command has "!" before it
	isWaiting bool       // the check is one of `until`
	command   <-chan ran // of `later`
	image     *machine   // whose disk `clone` copies
	atHold    *hold

	before struct {
		disk           map[string]string
		pid, run       string
		authorizations int
		requests       int
		starts         int
	}
}

// scriptCommands are the commands that do something, or wait for it.
func scriptCommands() map[string]func(n *scriptMachine, args []string) {
	return map[string]func(n *scriptMachine, args []string){
		// Boots and commands.
		"boot":         (*scriptMachine).cmdBoot,
		"start":        func(n *scriptMachine, args []string) { n.Start(args...) },
		"off":          func(n *scriptMachine, _ []string) { n.Off() },
		"unplug":       func(n *scriptMachine, _ []string) { n.Kill() },
		"settle":       func(n *scriptMachine, _ []string) { n.Settle() },
		"good":         (*scriptMachine).cmdGood,
		"node":         (*scriptMachine).cmdNode,
		"later":        func(n *scriptMachine, args []string) { n.command = n.later(args...) },
		"ended":        func(n *scriptMachine, args []string) { n.wantExit(args[0], <-n.command) },
		"hold":         (*scriptMachine).cmdHold,
		"held":         func(n *scriptMachine, _ []string) { n.atHold.reached() },
		"caught":       (*scriptMachine).cmdCaught,
		"release":      func(n *scriptMachine, _ []string) { n.atHold.release() },
		"clone":        (*scriptMachine).cmdClone,
		"detector":     func(n *scriptMachine, args []string) { n.detector(args[0]) },
		"package":      func(n *scriptMachine, _ []string) { n.putPackage() },
		"counts-boots": func(n *scriptMachine, _ []string) { n.countsBoots() },
		"image-works":  func(n *scriptMachine, args []string) { n.requireBlessed(true, args[0]) },
		"image-fails":  func(n *scriptMachine, args []string) { n.requireBlessed(false, args[0]) },
		"chroot":       func(n *scriptMachine, args []string) { n.chroot(args...) },
		"sleep":        func(n *scriptMachine, args []string) { time.Sleep(n.duration(args[0])) },
		"until":        (*scriptMachine).cmdWait,

		// The node as a whole.
		"verdict":  func(n *scriptMachine, args []string) { n.verdict(args[0]) },
		"well":     func(n *scriptMachine, args []string) { n.well(n.number(args[0])) },
		"healthy":  func(n *scriptMachine, args []string) { n.running(args...) },
		"runs-on":  func(n *scriptMachine, args []string) { n.runsOn("script", args[0]) },
		"whole-on": func(n *scriptMachine, args []string) { n.wholeOn("script", args[0]) },
		"held-on":  func(n *scriptMachine, args []string) { n.heldOn(n.number(args[0]), args[1:]...) },
		"snapshot": (*scriptMachine).cmdSnapshot,

		// The site, files and the cluster.
		"site":     (*scriptMachine).cmdSite,
		"label":    (*scriptMachine).cmdLabel,
		"both":     func(n *scriptMachine, args []string) { n.both(args[0]) },
		"patience": func(n *scriptMachine, args []string) { n.patience(args[0], args[1]) },
		"put":      (*scriptMachine).cmdPut,
		"unreadable": func(n *scriptMachine, args []string) {
			hangfs.SpoilFile(n.T, n.Root+strings.TrimPrefix(args[0], "root"))
		},
		"edit":       (*scriptMachine).cmdEdit,
		"api":        (*scriptMachine).cmdAPI,
		"config-map": func(n *scriptMachine, args []string) { n.configMap(n.ts.ReadFile(args[0])) },
		"object":     func(n *scriptMachine, args []string) { n.print(ran{Out: string(n.cluster.Node(args[0]))}) },

		"out": func(n *scriptMachine, args []string) { n.wantText("stdout", args[0]) },
		"err": func(n *scriptMachine, args []string) { n.wantText("stderr", args[0]) },
	}
}

// scriptChecks are the commands that look: each returns what is otherwise than the script wants, or "".
func scriptChecks() map[string]func(n *scriptMachine, args []string) string {
	return map[string]func(n *scriptMachine, args []string) string{
		"inside":        (*scriptMachine).checkInside,
		"status":        (*scriptMachine).checkStatus,
		"status-has":    (*scriptMachine).checkStatusHas,
		"unit":          (*scriptMachine).checkUnit,
		"starts":        (*scriptMachine).checkStarts,
		"last-start":    (*scriptMachine).checkLastStart,
		"crashed":       (*scriptMachine).checkCrashed,
		"between":       (*scriptMachine).checkBetween,
		"same":          (*scriptMachine).checkSame,
		"file":          (*scriptMachine).checkFile,
		"journal":       (*scriptMachine).checkJournal,
		"journal-count": (*scriptMachine).checkJournalCount,
		"requests":      (*scriptMachine).checkRequests,
		"condition":     (*scriptMachine).checkCondition,
		"still":         (*scriptMachine).checkStill,
		"job":           (*scriptMachine).checkJob,
	}
}

func (n *scriptMachine) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	n.ts.Check(err)
	return d
}

func (n *scriptMachine) number(text string) int {
	i, err := strconv.Atoi(text)
	n.ts.Check(err)
	return i
}

// unescape makes new lines of \n.
func unescape(text string) string { return strings.ReplaceAll(text, `\n`, "\n") }

// oneLine returns a text on one line, wherever its lines were broken.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// lacks returns "" for a text with these words.
func lacks(text, words string) string {
	if strings.Contains(oneLine(text), oneLine(words)) {
		return ""
	}
	return fmt.Sprintf("got no %q in:\n%s", words, text)
}

// differ returns "" if got is want.
func differ(what, got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: got %q, want %q", what, got, want)
}

// boot [OPTION...]: a boot until no job is left, with these options of systemd-nspawn.
func (n *scriptMachine) cmdBoot(args []string) {
	const writable = "SYSTEMD_NSPAWN_API_VFS_WRITABLE" // what of /proc/sys is writable
	if value := n.ts.Getenv(writable); value != "" {
		n.Env = []string{writable + "=" + value}
	}
	n.Boot(args...)
}

// clone NAME: another machine, which is off, has a copy of the disk, and is the current one. It is in the same network,
// and gets what a provisioner gives: a host name and a token.
func (n *scriptMachine) cmdClone(args []string) {
	if n.image == nil {
		n.image = n.machine
	}
	from, name := n.image, args[0]
	n.machine = machineOn(from.T, func(m *machine, cache string) error {
		return errors.Join(m.layers(cache), exec.Command("cp", "-aT", from.Root+"/.", m.Root).Run())
	})
	n.cluster, n.site = from.cluster, from.site
	n.useNetwork(from.Name)
	for path, text := range map[string]string{
		"/etc/machine-id":                "", // as in the image
		"/etc/hostname":                  name + "\n",
		"/etc/prelet/site.hcl":           from.site,
		"/etc/standin/kubelet.conf":      string(n.cluster.NodeKubeconfig(name)), // what the cluster will sign for it
		"/etc/credstore/bootstrap-token": demo.Token + "\n",
	} {
		n.put(path, text)
	}
	root := n.ts.MkAbs("root")
	n.ts.Check(errors.Join(os.Remove(root), os.Symlink(n.Root, root)))
}

// until CHECK...: waits until a check of the script holds, or with `!` until it does not.
func (n *scriptMachine) cmdWait(args []string) {
	want := args[0] != "!"
	if !want {
		args = args[1:]
	}
	look := scriptChecks()[args[0]]
	if look == nil {
		n.ts.Fatalf("until: got %q, want a check", args[0])
	}
	n.isWaiting = true
	defer func() { n.isWaiting = false }()
	n.Within(150*time.Second, strings.Join(args, " "), func() string {
		why := look(n, args[1:])
		if !want && why == "" {
			return "it still holds"
		}
		if !want {
			return ""
		}
		return why
	})
}

// print makes the output of a command the current one.
func (n *scriptMachine) print(r ran) {
	_, _ = io.WriteString(n.ts.Stdout(), r.Out)
	_, _ = io.WriteString(n.ts.Stderr(), r.Errors)
}

func (n *scriptMachine) wantExit(want string, r ran) {
	n.print(r)
	if want != "any" && (strconv.Itoa(r.Exit) == want) == n.neg {
		n.ts.Fatalf("exit status: got %d, want %s: %t", r.Exit, want, !n.neg)
	}
}

func (n *scriptMachine) wantText(stream, text string) {
	if why := lacks(n.ts.ReadFile(stream), text); (why != "") != n.neg {
		n.ts.Fatalf("%s contains %q: got %t, want %t", stream, text, why == "", !n.neg)
	}
}

// good N: the machine has booted and has N good generations, with the labels a, b, c.
func (n *scriptMachine) cmdGood(args []string) {
	n.Boot()
	n.verdict("good")
	for _, label := range []string{"a", "b", "c"}[1:n.number(args[0])] {
		n.cmdLabel([]string{label})
		n.Do("prelet", "run")
	}
}

// node N ARGS...: a person runs prelet, which ends with N, or with any.
func (n *scriptMachine) cmdNode(args []string) {
	n.wantExit(args[0], n.Try(append([]string{"prelet"}, args[1:]...)...))
}

// hold: the next run is held when its files are in place, and the gate is still shut.
func (n *scriptMachine) cmdHold([]string) {
	n.atHold = n.hold(atTheGate, func() bool { return n.journalNow().Phase == "verify" && !n.open() })
}

// caught MOMENT GENERATION NAME [COMMAND...]: the command, by default `prelet run`, makes the generation of
// `both NAME`, and is held at a moment of middles.
func (n *scriptMachine) cmdCaught(args []string) {
	command := args[3:]
	if len(command) == 0 {
		command = []string{"prelet", "run"}
	}
	n.atHold, n.command = n.caught(n.moment(args[0]), n.number(args[1]), args[2], command...)
}

func (n *scriptMachine) moment(name string) middle {
	at := slices.IndexFunc(middles(), func(m middle) bool { return m.name == name })
	if at < 0 {
		n.ts.Fatalf("unknown moment %s", name)
	}
	return middles()[at]
}

// still MOMENT NAME: of `both NAME` the files of that moment are in place, and no others.
func (n *scriptMachine) checkStill(args []string) string {
	return differ("files in place", n.targets(args[1]), n.moment(args[0]).targets)
}

// inside COMMAND...: a command of the machine succeeds.
func (n *scriptMachine) checkInside(args []string) string {
	r := n.Try(args...)
	if !n.isWaiting {
		n.print(r)
	}
	if r.Exit == 0 {
		return ""
	}
	return fmt.Sprintf("exit status %d", r.Exit)
}

// site [OLD NEW...]: the first site, with these replacements.
func (n *scriptMachine) cmdSite(args []string) {
	text := n.site
	for ; len(args) > 0; args = args[2:] {
		if !strings.Contains(text, args[0]) {
			n.ts.Fatalf("the site: got no %q, want one:\n%s", args[0], text)
		}
		text = strings.ReplaceAll(text, args[0], unescape(args[1]))
	}
	n.put("/etc/prelet/site.hcl", text)
}

// label POOL [KIND]: the site gives the node this pool, and a label with which the kubelet becomes unhealthy in a way.
func (n *scriptMachine) cmdLabel(args []string) {
	labels := strconv.Quote("example.com/pool") + " = " + strconv.Quote(args[0])
	if len(args) > 1 {
		labels += `, "e2e.prelet.dev/crash" = ` + strconv.Quote(args[1])
	}
	n.cmdSite([]string{pool, labels})
}

// put FILE TEXT: writes a file of the disk, and makes the folders above it.
func (n *scriptMachine) cmdPut(args []string) {
	n.put(strings.TrimPrefix(args[0], "root"), unescape(args[1]))
}

// edit FILE OLD NEW: replaces each OLD, of which there must be one.
func (n *scriptMachine) cmdEdit(args []string) {
	text := n.ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		n.ts.Fatalf("%s: got no %q in it, want one:\n%s", args[0], args[1], text)
	}
	n.ts.Check(os.WriteFile(n.ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], unescape(args[2]))), 0o644))
}

// api away|back: no server answers at the API server's address, or the cluster does. api portal|other-cluster|itself:
// another server answers there, or the cluster again. api token-expires: the bootstrap token is not valid any more. api
// signs NAME: a node that joins gets a certificate of this name. api node-made-again: the Node has no status.
func (n *scriptMachine) cmdAPI(args []string) {
	switch args[0] {
	case "away":
		n.cluster.away()
	case "back":
		n.cluster.back()
	case "portal":
		portal := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><body>Please log in.</body></html>")
		}))
		n.T.Cleanup(portal.Close)
		n.cluster.instead(strings.TrimPrefix(portal.URL, "https://"))
	case "other-cluster":
		other := demo.Start(demo.ServerConfig{PatchStatus: nodestatus.Patch})
		n.T.Cleanup(other.Close)
		n.cluster.instead(strings.TrimPrefix(other.URL, "https://"))
	case "itself":
		n.cluster.instead("")
	case "token-expires":
		n.cluster.ExpireToken()
	case "signs":
		n.put("/etc/standin/kubelet.conf", string(n.cluster.NodeKubeconfig(args[1])))
	case "node-made-again":
		var node map[string]any
		n.ts.Check(json.Unmarshal(n.cluster.Node(nodeName), &node))
		delete(node, "status")
		text, err := json.Marshal(node)
		n.ts.Check(err)
		n.cluster.SetNode(nodeName, text)
	default:
		n.ts.Fatalf("unknown: api %s", args[0])
	}
}

// configMap makes a text the cluster's configuration of kubelets.
func (m *machine) configMap(text string) {
	m.cluster.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": text})
}

// status FIELD=VALUE...: `prelet status` reports this. summary, held, degraded and notes contain the text, or have
// none with "no"; reasons is the number of reasons for which the node is degraded; gate is a generation or shut.
func (n *scriptMachine) checkStatus(args []string) string {
	s := n.status()
	got := map[string]string{
		"exit": strconv.Itoa(s.Exit), "code": strconv.Itoa(s.Code), "generation": strconv.Itoa(s.Generation),
		"state": s.State, "verdict": s.Verdict, "gate": "shut", "reasons": strconv.Itoa(len(s.Degraded)),
	}
	if s.Gate.Open {
		got["gate"] = strconv.Itoa(s.Gate.Generation)
	}
	texts := map[string]string{"summary": s.Summary}
	if s.Held != nil {
		texts["held"] = "held: " + s.Held.Why
	}
	for _, d := range s.Degraded {
		texts["degraded"] += d.Code + ": " + d.Summary + "\n"
	}
	for _, note := range s.Notes {
		texts["notes"] += note.Code + ": " + note.Summary + "\n"
	}
	for _, arg := range args {
		field, want, _ := strings.Cut(arg, "=")
		value, isExact := got[field]
		why := differ(field, value, want)
		if !isExact && want != "no" {
			why = lacks(texts[field], want)
		} else if !isExact {
			why = differ(field, texts[field], "")
		}
		if why != "" {
			return fmt.Sprintf("%s: %s; status: %+v", arg, why, s)
		}
	}

	return ""
}

// status-has TEXT: the text of `prelet status` contains this.
func (n *scriptMachine) checkStatusHas(args []string) string {
	return lacks(n.Try("prelet", "status").Out, args[0])
}

// unit NAME is|has PROPERTY=VALUE...: so is the unit, or so long a part of it.
func (n *scriptMachine) checkUnit(args []string) string {
	for _, arg := range args[2:] {
		name, want, _ := strings.Cut(arg, "=")
		got := n.property(args[0], name)
		if args[1] == "has" && strings.Contains(got, want) || got == want {
			continue
		}
		return fmt.Sprintf("%s of %s: got %q, want %q", name, args[0], got, want)
	}

	return ""
}

// job N RESULT: so ended the job that started the kubelet on generation N.
func (n *scriptMachine) checkJob(args []string) string {
	return differ("job", n.job(n.number(args[0])), args[1])
}

// starts [N...]: the kubelet has started on these generations since the snapshot, or since the machine was made.
func (n *scriptMachine) checkStarts(args []string) string {
	starts := n.starts()[n.before.starts:]
	var got []string
	for _, s := range starts {
		got = append(got, s.Generation)
	}
	if slices.Equal(got, args) {
		return ""
	}
	return fmt.Sprintf("starts of the kubelet: got generations %q, want %q: %+v", got, args, starts)
}

// last-start FIELD=VALUE...: so the kubelet has started the last time.
func (n *scriptMachine) checkLastStart(args []string) string {
	starts := n.starts()
	if len(starts) == 0 {
		return "starts of the kubelet: got none"
	}
	s := starts[len(starts)-1]
	got := map[string]string{
		"generation": s.Generation, "pool": s.Labels["example.com/pool"], "crash": s.Labels["e2e.prelet.dev/crash"],
		"domain": s.Domain, "joined": strconv.FormatBool(s.Joined), "error": s.Error,
	}
	for _, arg := range args {
		field, want, _ := strings.Cut(arg, "=")
		if got[field] != want {
			return fmt.Sprintf("last start of the kubelet: got %s %q, want %q: %+v", field, got[field], want, s)
		}
	}

	return ""
}

// crashed N: with a label with which it becomes unhealthy, the kubelet has started N times at most since the snapshot.
func (n *scriptMachine) checkCrashed(args []string) string {
	crashed := 0
	for _, s := range n.starts()[n.before.starts:] {
		if s.Labels["e2e.prelet.dev/crash"] != "" {
			crashed++
		}
	}
	if crashed > 0 && crashed <= n.number(args[0]) {
		return ""
	}
	return fmt.Sprintf("starts of an unhealthy kubelet: got %d, want 1 to %s", crashed, args[0])
}

// between UNIT.TIME UNIT.TIME [MIN MAX]: from the first of two times of units, such as kubelet.ExecMainStart, to the
// second of this boot it took so long, or any time.
func (n *scriptMachine) checkBetween(args []string) string {
	var at [2]time.Duration
	for i := range at {
		dot := strings.LastIndex(args[i], ".")
		at[i] = n.monotonic(args[i][:dot], args[i][dot+1:])
	}
	least, most := time.Duration(0), time.Hour
	if len(args) > 2 {
		least, most = n.duration(args[2]), n.duration(args[3])
	}
	if took := at[1] - at[0]; at[0] > 0 && took >= least && took <= most {
		return ""
	}
	return fmt.Sprintf("%s was at %s, and %s at %s; want %s to %s between", args[0], at[0], args[1], at[1], least, most)
}

// snapshot: what `same` compares with.
func (n *scriptMachine) cmdSnapshot([]string) {
	n.before.disk, n.before.starts, n.before.pid = n.disk(), len(n.starts()), ""
	n.before.authorizations, n.before.requests = n.cluster.Authorizations(), len(n.cluster.Requests())
	if n.Leader != 0 {
		n.before.pid, n.before.run = n.property("kubelet", "MainPID"), n.property("prelet", "InvocationID")
	}
}

// same disk [PATH...]: nothing was written since the snapshot, except for these files. same kubelet: its process is
// the same. same run: prelet.service has not run again. same authorizations: no client has used the bootstrap token.
func (n *scriptMachine) checkSame(args []string) string {
	switch args[0] {
	case "kubelet":
		return differ("process of the kubelet", n.property("kubelet", "MainPID"), n.before.pid)
	case "run":
		return differ("run of prelet.service", n.property("prelet", "InvocationID"), n.before.run)
	case "authorizations":
		return differ("uses of the token", fmt.Sprint(n.cluster.Authorizations()), fmt.Sprint(n.before.authorizations))
	}
	after := n.disk()
	for _, path := range args[1:] {
		delete(n.before.disk, path)
		delete(after, path)
	}
	return cmp.Diff(n.before.disk, after)
}

// file FILE TEXT: the file contains the text.
func (n *scriptMachine) checkFile(args []string) string {
	text, err := os.ReadFile(n.ts.MkAbs(args[0]))
	if err != nil {
		return err.Error()
	}
	return lacks(string(text), args[1])
}

// journal TEXT [FIELD=VALUE...]: a message in this boot's journal contains the text, and has these fields.
func (n *scriptMachine) checkJournal(args []string) string {
	return lacks(strings.Join(n.said(args[1:]...), "\n"), args[0])
}

// journal-count N TEXT [FIELD=VALUE...]: so many messages in this boot's journal contain the text, and have these
// fields.
func (n *scriptMachine) checkJournalCount(args []string) string {
	said := n.said(args[2:]...)
	count := 0
	for _, message := range said {
		if strings.Contains(message, args[1]) {
			count++
		}
	}
	if count == n.number(args[0]) {
		return ""
	}
	return fmt.Sprintf("messages with %q: got %d, want %s: %q", args[1:], count, args[0], said)
}

// condition TYPE [STATUS(REASON)]: the Node has this condition, or none of the type.
func (n *scriptMachine) checkCondition(args []string) string {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason string }
		}
	}
	n.ts.Check(json.Unmarshal(n.cluster.Node(nodeName), &node))
	got := ""
	for _, c := range node.Status.Conditions {
		if c.Type == args[0] {
			got = fmt.Sprintf("%s(%s)", c.Status, c.Reason)
		}
	}
	return differ(args[0], got, strings.Join(args[1:], ""))
}

// requests N TEXT: the cluster has received N requests at most, since the snapshot, whose path contains the text.
func (n *scriptMachine) checkRequests(args []string) string {
	var got []string
	for _, r := range n.cluster.Requests()[n.before.requests:] {
		if strings.Contains(r.Path, args[1]) {
			got = append(got, r.Path)
		}
	}
	if len(got) <= n.number(args[0]) {
		return ""
	}
	return fmt.Sprintf("requests: got %q, want %s at most", got, args[0])
}
