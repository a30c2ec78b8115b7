package boot

import (
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/demo/nodestatus"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/script"
	"github.com/prelet/prelet/test/nspawn"
)

// TestBoots plays the scripts of testdata/boots, each on a machine of its own that was never booted, whose site is
// that of machine_test.go. The files of a script below root/ are on its disk; a relative path is of the script's own
// folder. A condition is a unit that is active, or systemd:250 for that version or a newer one.
// PRELET_BOOT_SAMPLE=4 takes one script in four.
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
		for _, s := range script.Load(t, file) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				n := newScriptNode(t, &ends)
				t.Cleanup(func() { n.wantNoHold(file) })
				n.extract(s)
				n.player.Play(s.Lines)
			})
		}
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	_ = nspawn.Cache(t) // or skip
	var ends failedEnds
	script.Examples(t, "system", func(t *testing.T, lines []script.Line) {
		t.Parallel()
		newScriptNode(t, &ends).player.Play(lines)
	})
}

// scriptT keeps the log of a script: its lines, what they have printed, and why it has failed.
type scriptT struct {
	*testing.T
	log strings.Builder
}

func (t *scriptT) Errorf(format string, args ...any) {
	t.Helper()
	fmt.Fprintf(&t.log, format+"\n", args...)
	t.T.Errorf(format, args...)
}

func (t *scriptT) Fatalf(format string, args ...any) {
	t.Helper()
	fmt.Fprintf(&t.log, format+"\n", args...)
	t.T.Fatalf(format, args...)
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

// end prints the log of a script, and keeps the end of one that has failed.
func (f *failedEnds) end(t *scriptT) {
	text := t.log.String()
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + text)
	}
	if t.Failed() {
		const most = 1500
		f.mu.Lock()
		defer f.mu.Unlock()
		f.texts = append(f.texts, t.Name()+": …"+text[max(0, len(text)-most):])
	}
}

// scriptNode is the machine of a script.
type scriptNode struct {
	*machine
	player  *script.Player
	log     *strings.Builder
	dir     string     // of the script's own files
	image   *machine   // whose disk `clone` copies
	atHold  *hold      // of `pause`
	entered <-chan ran // the command of `enter` or `pause`
	last    ran        // the command that has ended last

	before struct {
		disk           map[string]string
		pid, run       string
		authorizations int
		requests       int
		starts         int
	}
}

func newScriptNode(t *testing.T, ends *failedEnds) *scriptNode {
	t.Helper()
	logged, begin := &scriptT{T: t}, time.Now()
	n := &scriptNode{machine: newMachine(t), log: &logged.log, dir: t.TempDir()}
	t.Cleanup(func() { ends.end(logged) })
	disk := script.Disk{T: logged, Path: n.path}
	n.player = script.New(logged, script.Node{
		Name:     "system",
		Commands: script.Merge(disk.Commands(), n.commands()),
		Facts:    script.Merge(disk.Facts(), n.facts()),
		Holds:    n.holds,
		Wait:     n.wait,
		Begin: func(l script.Line) {
			if t.Failed() { // what follows would wait for long
				t.FailNow()
			}
			fmt.Fprintf(n.log, "%.1fs %s\n", time.Since(begin).Seconds(), l)
		},
	})
	n.player.Set("ROOT", n.Root)
	n.player.Set("TOKEN", demo.Token)
	n.player.Set("TOKEN_SECRET", demo.TokenSecret)

	return n
}

// extract writes the files of a script, and those below root/ to the disk of the machine.
func (n *scriptNode) extract(s script.Script) {
	n.Must(s.Extract(n.dir))
	root := filepath.Join(n.dir, "root")
	if _, err := os.Stat(root); err == nil {
		n.machine.command("cp", "--recursive", "--no-target-directory", root, n.Root)
		n.Must(os.RemoveAll(root))
	}
}

// path returns the place of a file: of the machine, of the script, or the package that was built.
func (n *scriptNode) path(name string) string {
	switch {
	case name == "package":
		return n.deb()
	case strings.HasPrefix(name, "/"):
		return n.inside(name)
	}

	return filepath.Join(n.dir, name)
}

// holds reports whether a unit is active, or, for systemd:250, whether systemd is of that version or newer.
func (n *scriptNode) holds(condition string) (bool, error) {
	if least, isVersion := strings.CutPrefix(condition, "systemd:"); isVersion {
		version, err := strconv.Atoi(least)
		return n.hasSystemd(version), err
	}

	return n.property(condition, "ActiveState") == "active", nil
}

// wait waits until a check returns "".
func (n *scriptNode) wait(what string, check func() string) {
	why := ""
	defer func() {
		if why != "" {
			fmt.Fprintln(n.log, why)
		}
	}()
	n.Within(150*time.Second, n.player.Line.At+": "+what, func() string {
		why = check()
		return why
	})
}

// wantNoHold looks for a kubelet that a hold has kept, in a script that has none.
func (n *scriptNode) wantNoHold(file string) {
	text, err := os.ReadFile(file)
	console, errConsole := n.console(nil)
	const hold = "hold \""
	switch {
	case errors.Join(err, errConsole) != nil:
		n.T.Error(errors.Join(err, errConsole))
	case !strings.Contains(string(text), hold) && strings.Contains(console, hold):
		n.T.Errorf("%s: got a kubelet that is held, want none:\n%s", file, console)
	}
}

func (n *scriptNode) commands() map[string]script.Command {
	do := func(f func(args []string)) script.Command {
		return func(args []string) error {
			f(args)
			return nil
		}
	}

	return map[string]script.Command{
		"boot":     do(n.boot),
		"start":    do(func(args []string) { n.Start(args...) }),
		"power":    n.power,
		"good":     do(n.good),
		"clone":    do(n.clone),
		"prelet":   n.prelet,
		"command":  n.command,
		"enter":    n.enter,
		"finish":   n.finish,
		"pause":    n.pause,
		"snapshot": do(n.snapshot),
		"same":     n.same,
		"site":     n.changeSite,
		"cluster":  n.changeCluster,
		"systemd":  n.systemd,
		"clock":    n.clock,
	}
}

func (n *scriptNode) facts() map[string]script.Fact {
	text := func(get func() string) script.Fact {
		return script.Fact{Get: func([]string) (string, error) { return get(), nil }}
	}
	of := func(get func(name string) string) script.Fact {
		return script.Fact{Args: 1, Get: func(args []string) (string, error) { return get(args[0]), nil }}
	}

	return map[string]script.Fact{
		"out":     text(func() string { return n.last.Out }),
		"err":     text(func() string { return n.last.Errors }),
		"console": {Get: n.console},
		"shell": of(func(line string) string {
			r := n.Try("sh", "-c", line)
			return r.Out + r.Errors
		}),

		"settled": text(n.wellOn),
		"healthy": text(n.healthy),
		"held-on": text(n.heldOn),
		"runs-on": text(n.runsOn),
		"image":   text(n.imageCheck),
		"judged": text(func() string {
			if s := n.status(); s.State != "running" {
				return s.Verdict
			}
			return "none yet"
		}),
		"status": of(n.statusFields),

		"unit": {Args: 2, Get: func(args []string) (string, error) {
			return joinValues(args[1], func(name string) string { return n.property(args[0], name) }), nil
		}},
		"job":     of(func(generation string) string { return n.job(n.player.Number(generation, 10)) }),
		"between": {Args: 2, Get: n.between},
		"logged":  of(func(match string) string { return strings.Join(n.said(selectEntries(match)...), "\n") }),
		"logged-times": {Args: 2, Get: func(args []string) (string, error) {
			with := func(message string) bool { return strings.Contains(message, args[1]) }
			return count(n.said(selectEntries(args[0])...), with), nil
		}},

		"started-on": text(n.generationsStarted),
		"last-start": {Args: 1, Get: n.lastStart},
		"crashes": text(func() string {
			return count(n.newStarts(), func(s start) bool { return s.Labels["e2e.prelet.dev/crash"] != "" })
		}),
		"placed": of(n.targets),

		"condition": {Args: 1, Get: n.condition},
		"node":      of(func(node string) string { return string(n.cluster.Node(node)) }),
		"requested": of(func(path string) string {
			requests := n.cluster.Requests()[n.before.requests:]
			return count(requests, func(r demo.Request) bool { return strings.Contains(r.Path, path) })
		}),
	}
}

// joinValues returns the values of names that are separated by commas.
func joinValues(names string, get func(name string) string) string {
	var values []string
	for name := range strings.SplitSeq(names, ",") {
		values = append(values, get(name))
	}

	return strings.Join(values, " ")
}

// selectEntries returns the arguments of journalctl for `all`, for a unit, or for FIELD=VALUE,... .
func selectEntries(text string) []string {
	switch {
	case text == "all":
		return nil
	case strings.Contains(text, "="):
		return strings.Split(text, ",")
	}

	return []string{"--unit=" + text}
}

// count returns how many of the values are so.
func count[V any](values []V, is func(V) bool) string {
	n := 0
	for _, v := range values {
		if is(v) {
			n++
		}
	}

	return strconv.Itoa(n)
}

// compareTexts returns "" if got is want.
func compareTexts(what, got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: got %q, want %q", what, got, want)
}

// boot [OPTION...]: a boot until no job is left, with these options of systemd-nspawn.
func (n *scriptNode) boot(args []string) {
	const writable = "SYSTEMD_NSPAWN_API_VFS_WRITABLE" // what of /proc/sys is writable
	if value := n.player.Value(writable); value != "" {
		n.Env = []string{writable + "=" + value}
	}
	n.Boot(args...)
}

func (n *scriptNode) power(args []string) error {
	switch args[0] {
	case "off":
		n.Off()
	case "cut":
		n.Kill()
	default:
		return script.Unknown("power", args[0])
	}

	return nil
}

// good N: the machine has booted and has N good generations, with the labels a, b, c.
func (n *scriptNode) good(args []string) {
	n.Boot()
	n.verdict("good")
	for _, label := range []string{"a", "b", "c"}[1:n.player.Number(args[0], 10)] {
		n.Must(n.label([]string{label}))
		n.Do("prelet", "run")
	}
}

// clone NAME: another machine, which is off, has a copy of the disk, and is the current one. It is in the same network,
// and gets what a provisioner gives: a host name and a token.
func (n *scriptNode) clone(args []string) {
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
	n.player.Set("ROOT", n.Root)
}

// keep makes the output of a command the current one, which is the file stdout, too.
func (n *scriptNode) keep(r ran) {
	n.last = r
	for name, text := range map[string]string{"stdout": r.Out, "stderr": r.Errors} {
		if text != "" {
			fmt.Fprintf(n.log, "[%s]\n%s\n", name, strings.TrimSuffix(text, "\n"))
		}
	}
	n.Must(os.WriteFile(filepath.Join(n.dir, "stdout"), []byte(r.Out), 0o600))
}

// end returns an error for a command that ended otherwise than with one of these, such as 0,2.
func (n *scriptNode) end(want string, r ran) error {
	n.keep(r)
	if want == "any" || slices.Contains(strings.Split(want, ","), strconv.Itoa(r.Exit)) {
		return nil
	}

	return fmt.Errorf("got exit status %d, want %s", r.Exit, want)
}

// prelet N ARGS...: a person runs prelet. That of a machine that is off runs outside of it, with --root.
func (n *scriptNode) prelet(args []string) error {
	if n.Leader == 0 {
		return n.end(args[0], n.runOutside(n.Root+"/usr/bin/prelet", args[1:]...))
	}

	return n.end(args[0], n.Try(append([]string{"prelet"}, args[1:]...)...))
}

// command WORDS...: a command of the machine, which runs in its root while it is off.
func (n *scriptNode) command(args []string) error {
	if n.Leader == 0 {
		return n.end("0", n.runOutside("chroot", append([]string{n.Root}, args...)...))
	}

	return n.end("0", n.Try(args...))
}

// runOutside runs a program of the machine that runs the test.
func (n *scriptNode) runOutside(name string, args ...string) ran {
	var out, errs strings.Builder
	c := exec.CommandContext(n.T.Context(), name, args...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); c.ProcessState == nil {
		n.T.Fatalf("%s: got %v, want it to run", c, err)
	}

	return ran{Exit: c.ProcessState.ExitCode(), Out: out.String(), Errors: errs.String()}
}

// enter later COMMAND...: a command of the machine runs while the script goes on, until `finish`.
func (n *scriptNode) enter(args []string) error {
	if args[0] != "later" {
		return script.Unknown("way to enter", args[0])
	}
	n.entered = n.later(args[1:]...)

	return nil
}

// finish N: the command of `enter` or `pause` ends with N.
func (n *scriptNode) finish(args []string) error {
	if n.entered == nil {
		return errors.New("got no command that runs, want one of `enter` or `pause`")
	}
	entered := n.entered
	n.entered = nil

	return n.end(args[0], <-entered)
}

// clock advance DURATION: time passes.
func (n *scriptNode) clock(args []string) error {
	if args[0] != "advance" {
		return script.Unknown("verb", args[0])
	}
	time.Sleep(n.player.Duration(args[1]))

	return nil
}

// pause MOMENT GENERATION NAME [COMMAND...]: the command, by default `prelet run`, makes the generation of `site both
// NAME`, and is held at a moment of middles. pause gate: `prelet run` is held when its files are in place, and the gate
// is still shut. pause none: it goes on.
func (n *scriptNode) pause(args []string) error {
	switch args[0] {
	case "none":
		if n.atHold == nil {
			return errors.New("got no process that is held, want one")
		}
		n.atHold.release()
		return nil
	case "gate":
		n.atHold = n.hold(atTheGate, func() bool { return n.journalNow().Phase == "verify" && !n.open() })
		n.entered = n.later("prelet", "run")
		n.atHold.reached()
		return nil
	}
	at := slices.IndexFunc(middles(), func(m middle) bool { return m.name == args[0] })
	if at < 0 {
		return script.Unknown("moment", args[0])
	}
	command := args[3:]
	if len(command) == 0 {
		command = []string{"prelet", "run"}
	}
	n.atHold, n.entered = n.caught(middles()[at], n.player.Number(args[1], 10), args[2], command...)

	return nil
}

// changeSite changes the site. first [OLD NEW...]: it is the first one, with these replacements. label POOL [KIND]: the
// first one gives the node this pool, and a label with which the kubelet becomes unhealthy; the kinds are in
// standin/main.go. both NAME: a change of flags and configuration. patience SETTLE TIMEOUT: so long the kubelet is
// watched. detector NAME: one of internal/machine/detector/hostile is installed, with its lock.
func (n *scriptNode) changeSite(args []string) error {
	verb, args := args[0], args[1:]
	switch verb {
	case "first":
		return n.first(args)
	case "label":
		return n.label(args)
	case "both":
		n.both(args[0])
	case "patience":
		n.patience(args[0], args[1])
	case "detector":
		n.detector(args[0])
	default:
		return script.Unknown("verb", verb)
	}

	return nil
}

func (n *scriptNode) first(changes []string) error {
	text := n.site
	if len(changes)%2 != 0 {
		return fmt.Errorf("got %q, want each text with another one", changes)
	}
	for ; len(changes) > 0; changes = changes[2:] {
		if !strings.Contains(text, changes[0]) {
			return fmt.Errorf("the site: got no %q, want one:\n%s", changes[0], text)
		}
		text = strings.ReplaceAll(text, changes[0], script.Unescape(changes[1]))
	}
	n.put("/etc/prelet/site.hcl", text)

	return nil
}

func (n *scriptNode) label(args []string) error {
	labels := strconv.Quote("example.com/pool") + " = " + strconv.Quote(args[0])
	if len(args) > 1 {
		labels += `, "e2e.prelet.dev/crash" = ` + strconv.Quote(args[1])
	}

	return n.first([]string{pool, labels})
}

// changeCluster changes what answers. unreachable, reachable: no server does, or the cluster does again. portal,
// other-cluster: another server answers at its address. token-expires: the bootstrap token is not valid any
// more. signs NAME: a node that joins gets a certificate of this name. node-made-again: the Node has no status.
// config-map FILE: the configuration of kubelets is the file.
func (n *scriptNode) changeCluster(args []string) error {
	switch args[0] {
	case "unreachable":
		n.cluster.away()
	case "reachable":
		n.cluster.instead("")
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
	case "token-expires":
		n.cluster.ExpireToken()
	case "signs":
		n.put("/etc/standin/kubelet.conf", string(n.cluster.NodeKubeconfig(args[1])))
	case "node-made-again":
		return n.forgetStatus()
	case "config-map":
		text, err := os.ReadFile(n.path(args[1]))
		n.configMap(string(text))
		return err
	default:
		return script.Unknown("verb", args[0])
	}

	return nil
}

// forgetStatus makes the Node one without a status.
func (n *scriptNode) forgetStatus() error {
	var node map[string]any
	if err := json.Unmarshal(n.cluster.Node(nodeName), &node); err != nil {
		return err
	}
	delete(node, "status")
	text, err := json.Marshal(node)
	n.cluster.SetNode(nodeName, text)

	return err
}

// configMap makes a text the cluster's configuration of kubelets.
func (m *machine) configMap(text string) {
	m.cluster.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": text})
}

// systemd settle: no job is left. systemd counts-boots: the machine counts boots, with the check of the image enabled.
func (n *scriptNode) systemd(args []string) error {
	switch args[0] {
	case "settle":
		n.Settle()
	case "counts-boots":
		n.countsBoots()
	default:
		return script.Unknown("verb", args[0])
	}

	return nil
}

// statusFields returns fields of `prelet status`. gate is a generation or shut, reasons the number of reasons for which
// the node is degraded, code the exit status of `prelet status`, and text what it prints; summary, held, degraded and
// notes are texts, or no.
func (n *scriptNode) statusFields(names string) string {
	if names == "text" {
		return n.Try("prelet", "status").Out
	}
	s := n.status()
	got := map[string]string{
		"exit": strconv.Itoa(s.Exit), "code": strconv.Itoa(s.Code), "generation": strconv.Itoa(s.Generation),
		"state": s.State, "verdict": s.Verdict, "gate": "shut", "reasons": strconv.Itoa(len(s.Degraded)),
		"summary": s.Summary,
	}
	if s.Gate.Open {
		got["gate"] = strconv.Itoa(s.Gate.Generation)
	}
	if s.Held != nil {
		got["held"] = "held: " + s.Held.Why
	}
	for _, d := range s.Degraded {
		got["degraded"] += d.Code + ": " + d.Summary + "\n"
	}
	for _, note := range s.Notes {
		got["notes"] += note.Code + ": " + note.Summary + "\n"
	}
	for _, name := range []string{"summary", "held", "degraded", "notes"} {
		if got[name] == "" {
			got[name] = "no"
		}
	}

	return joinValues(names, func(name string) string {
		value, isKnown := got[name]
		if !isKnown {
			n.T.Errorf("status: got the field %s, want a known one", name)
		}
		return value
	})
}

// newStarts are the starts of the kubelet since the snapshot, or since the machine was made.
func (n *scriptNode) newStarts() []start { return n.starts()[n.before.starts:] }

// generationsStarted returns the generations of newStarts, or none.
func (n *scriptNode) generationsStarted() string {
	var got []string
	for _, s := range n.newStarts() {
		got = append(got, s.Generation)
	}
	if len(got) == 0 {
		return "none"
	}

	return strings.Join(got, " ")
}

// lastStart FIELD,...: so the kubelet has started the last time.
func (n *scriptNode) lastStart(args []string) (string, error) {
	starts := n.starts()
	if len(starts) == 0 {
		return "", errors.New("starts of the kubelet: got none")
	}
	s := starts[len(starts)-1]

	return joinValues(args[0], func(field string) string {
		return map[string]string{
			"generation": s.Generation, "pool": s.Labels["example.com/pool"], "domain": s.Domain,
			"joined": strconv.FormatBool(s.Joined), "error": s.Error,
		}[field]
	}), nil
}

// between UNIT.TIME UNIT.TIME: from the first of two times of units, such as kubelet.ExecMainStart, to the second of
// this boot it took so long.
func (n *scriptNode) between(args []string) (string, error) {
	var at [2]time.Duration
	for i := range at {
		dot := strings.LastIndex(args[i], ".")
		at[i] = n.monotonic(args[i][:dot], args[i][dot+1:])
	}
	if at[0] == 0 {
		return "", fmt.Errorf("%s: got no such time yet", args[0])
	}

	return (at[1] - at[0]).String(), nil
}

// snapshot is what `same`, started-on, crashes and requested compare with.
func (n *scriptNode) snapshot([]string) {
	n.before.disk, n.before.starts, n.before.pid = n.disk(), len(n.starts()), ""
	n.before.authorizations, n.before.requests = n.cluster.Authorizations(), len(n.cluster.Requests())
	if n.Leader != 0 {
		n.before.pid, n.before.run = n.property("kubelet", "MainPID"), n.property("prelet", "InvocationID")
	}
}

// same disk [PATH...]: nothing was written since the snapshot, except for these files. same kubelet: its process is
// the same. same run: prelet.service has not run again. same authorizations: no client has used the bootstrap token.
// same file FILE FILE: the files have the same content.
func (n *scriptNode) same(args []string) error {
	why := ""
	switch args[0] {
	case "kubelet":
		why = compareTexts("process of the kubelet", n.property("kubelet", "MainPID"), n.before.pid)
	case "run":
		why = compareTexts("run of prelet.service", n.property("prelet", "InvocationID"), n.before.run)
	case "authorizations":
		now, before := fmt.Sprint(n.cluster.Authorizations()), fmt.Sprint(n.before.authorizations)
		why = compareTexts("uses of the token", now, before)
	case "file":
		a, errA := os.ReadFile(n.path(args[1]))
		b, errB := os.ReadFile(n.path(args[2]))
		n.Must(errA, errB)
		why = cmp.Diff(string(a), string(b))
	case "disk":
		after := n.disk()
		for _, path := range args[1:] {
			delete(n.before.disk, path)
			delete(after, path)
		}
		why = cmp.Diff(n.before.disk, after)
	default:
		return script.Unknown("kind", args[0])
	}
	if why != "" {
		return errors.New(why)
	}

	return nil
}

// condition TYPE: the Node's condition, as STATUS(REASON), or none.
func (n *scriptNode) condition(args []string) (string, error) {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason string }
		}
	}
	if err := json.Unmarshal(n.cluster.Node(nodeName), &node); err != nil {
		return "", err
	}
	got := "none"
	for _, c := range node.Status.Conditions {
		if c.Type == args[0] {
			got = fmt.Sprintf("%s(%s)", c.Status, c.Reason)
		}
	}

	return got, nil
}

// console is what the machine has printed, which is nothing before its first boot.
func (n *scriptNode) console([]string) (string, error) {
	text, err := os.ReadFile(n.Dir + "/console.log")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}

	return string(text), err
}
