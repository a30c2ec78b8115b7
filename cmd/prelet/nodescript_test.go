package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/script"
)

// TestNodes plays the scripts of testdata/nodes, each on a node of its own, with a systemd and a clock that the script
// controls: internal/testing/script/README.md has their words. A quick run takes a quarter of them. Of a matrix, a
// sample of the combinations is played, at least one; PRELET_SWEEP=full takes all. A failed test has the values in its
// name, which repeats it:
// `PRELET_SWEEP=full go test ./cmd/prelet -run TestNodes/SCRIPT/VALUES`.
func TestNodes(t *testing.T) {
	t.Parallel()
	chosen := sample.New(t)
	for _, file := range chosenScripts(t, "testdata/nodes") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			scripts := script.Load(t, file)
			if len(scripts) == 1 {
				newScriptNode(t, scripts[0]).Play(scripts[0].Lines)
				return
			}
			first, step := chosen.OneIn(sample.Quarter(8), file)
			first %= len(scripts) // at least one
			for i := first; i < len(scripts); i += step {
				if testing.Short() && i > first { // with the race detector: one is enough
					break
				}
				t.Run(strings.Join(scripts[i].Values, ","), func(t *testing.T) {
					t.Parallel()
					newScriptNode(t, scripts[i]).Play(scripts[i].Lines)
				})
			}
		})
	}
}

// TestExamples plays the examples of the language that this node shows.
func TestExamples(t *testing.T) {
	t.Parallel()
	script.Examples(t, "program", func(t *testing.T, lines []script.Line) {
		t.Parallel()
		newScriptNode(t, script.Script{}).Play(lines)
	})
}

// scriptNode is the node of one script.
type scriptNode struct {
	*testMachine
	*script.Player
	dir    string // with root/, run/, credentials/, and the files of the script
	last   ended  // the last command
	verify ended  // prelet-verify.service of the last boot; exit -1: it was not started
	began  time.Duration
	events []event
	looks  []func() // at the next look at /healthz
	asked  int      // starts of prelet-apply.service since the last `systemd apply-unit`
	locked *generation.Store

	before struct {
		disk, files map[string]osfile.Inode
		pid         uint32
		starts      int
		requests    int
	}
}

// event is what happens while a command of prelet waits.
type event struct {
	isDue func(elapsed time.Duration) bool
	do    func()
}

// newScriptNode returns a node before its first boot. Its site is nodeSite, or the script's site.hcl.
func newScriptNode(t *testing.T, s script.Script) *scriptNode {
	t.Helper()
	n := &scriptNode{dir: t.TempDir(), verify: ended{exit: -1}}
	noError(t, s.Extract(n.dir))
	n.testMachine = newMachineIn(t, n.dir)
	disk := script.Disk{T: t, Path: n.path}
	n.Player = script.New(t, script.Node{
		Name:     "program",
		Commands: script.Merge(disk.Commands(), n.commands(disk)),
		Facts:    n.facts(disk),
		Holds:    isHere,
		Replace:  strings.NewReplacer("$ROOT", n.root, "$WORK", n.dir).Replace,
	})
	if _, err := os.Stat(n.path("site.hcl")); err == nil {
		n.Must(n.useSite(n.path("site.hcl")))
	}

	return n
}

// isHere reports whether a condition of a line holds here.
func isHere(condition string) (bool, error) {
	switch condition {
	case "root":
		return os.Geteuid() == 0, nil
	case "namespace":
		return os.Getenv(mountNamespace) != "", nil
	}

	return false, errors.New("got another one than root, namespace, and those of the matrix")
}

// path returns the file with a name: /FILE is one of the node, state/FILE one of its state folder, others are next to
// its root.
func (n *scriptNode) path(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	switch first {
	case "":
		return filepath.Join(n.root, rest)
	case "state":
		return filepath.Join(n.stateDir(), rest)
	}

	return filepath.Join(n.dir, name)
}

// commands are those of the language that a disk has not, or otherwise.
func (n *scriptNode) commands(disk script.Disk) map[string]script.Command {
	do := func(do func(a []string)) script.Command { return func(a []string) error { do(a); return nil } }

	return map[string]script.Command{
		"boot":     n.bootNode,
		"reboot":   do(func([]string) { n.reboot(); n.before.starts = 0 }),
		"good":     n.good,
		"clone":    do(n.clone),
		"prelet":   func(a []string) error { return n.carryOut(a[0], func() ended { return n.as("", a[1:]...) }) },
		"service":  n.service,
		"command":  n.command,
		"at":       do(n.at),
		"on":       n.on,
		"die":      do(n.die),
		"snapshot": do(n.snapshot),
		"same":     n.same,
		"lock":     n.takeLock,
		"spoil":    n.spoilFile(disk.Commands()["spoil"]),
		"site":     n.siteHas,
		"kubelet":  verbs(n.kubeletVerbs()),
		"systemd":  verbs(n.systemdVerbs()),
		"cluster":  verbs(n.clusterVerbs()),
		"clock":    n.clock,
	}
}

// verbs returns a command whose first argument is the name of what it does.
func verbs(of map[string]func(a []string)) script.Command {
	return func(a []string) error {
		do, isKnown := of[a[0]]
		if !isKnown {
			return script.Unknown("verb", a[0])
		}
		do(a[1:])

		return nil
	}
}

// useSite makes a file the site, with @SERVER@ and @PIN@ replaced.
func (m *testMachine) useSite(file string) error {
	text, err := os.ReadFile(file)
	m.site = strings.NewReplacer("@SERVER@", m.server.URL, "@PIN@", m.server.CAHash()).Replace(string(text))
	m.put("/etc/prelet/site.hcl", m.site)

	return err
}

// carryOut runs a command of prelet, makes its output the current one, and compares its exit status. What `at` has
// prepared happens while it waits. A limit of virtual time ends a test whose command would wait for ever.
func (n *scriptNode) carryOut(want string, command func() ended) error {
	const limit = time.Hour
	began, outer := n.now, n.sleeping
	isOutermost := outer == nil // not a command that is carried out during another one
	n.sleeping = func() {
		if n.now-began > limit {
			n.t.Fatalf("%s: got a command that goes on, want its end within %s of the node's time", n.Line, limit)
		}
		for isOutermost && len(n.events) > 0 && n.events[0].isDue(n.now-began) {
			next := n.events[0]
			n.events = n.events[1:]
			next.do()
		}
	}
	if isOutermost {
		n.forgetExtensions()
	}
	n.last = command()
	n.began, n.sleeping = began, outer
	if len(n.events) > 0 && isOutermost {
		return fmt.Errorf("got the end of the command before %d commands of `at`, want them before it", len(n.events))
	}
	if want != "any" && !slices.Contains(strings.Split(want, ","), strconv.Itoa(n.last.exit)) {
		return fmt.Errorf("exit status %d, want %s\n%s%s", n.last.exit, want, n.last.out, n.last.errors)
	}

	return nil
}

// boot N: prelet.service, which ends with N, the kubelet, and prelet-verify.service if its conditions hold.
func (n *scriptNode) bootNode(a []string) error {
	return n.carryOut(a[0], func() (run ended) {
		run, n.verify = n.boot()
		return run
	})
}

// service UNIT N [ARGS...]: a unit of prelet runs its command, or that one. prelet.service runs as at a boot.
func (n *scriptNode) service(a []string) error {
	unit, line := a[0], a[2:]
	if len(line) == 0 {
		line = []string{"run"}
		if unit == machine.VerifyUnit {
			line = []string{"verify"}
		}
	}

	return n.carryOut(a[1], func() ended {
		n.inside = unit == machine.BootUnit && !n.restart && line[0] == "run"
		defer func() { n.inside = false }()
		return n.as(unit, line...)
	})
}

// good N [NAME]: the node has booted and has N good generations, with the labels a, b, c. With a name, it has joined
// so, with its certificate where a kubelet keeps it, and has a host name.
func (n *scriptNode) good(a []string) error {
	if len(a) > 1 {
		n.put("/etc/hostname", a[1]+"\n")
		n.onStart = n.joinAs(a[1])
	}
	if err := n.bootNode([]string{"0"}); err != nil {
		return err
	}
	if n.verify.exit != 0 {
		return fmt.Errorf("prelet-verify.service: got %+v, want exit status 0", n.verify)
	}
	if len(a) > 1 {
		n.put("/var/lib/kubelet/cpu_manager_state", `{"policyName":"none"}`)
	}
	for _, label := range []string{"a", "b", "c"}[1:n.Number(a[0], 10)] {
		n.relabel(label)
		if err := n.carryOut("0", func() ended { return n.as("", "run") }); err != nil {
			return err
		}
	}

	return nil
}

// clone NAME: the disk is in another machine from now on, whose kubelet joins under this name.
func (n *scriptNode) clone(a []string) {
	n.put("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	n.put("/etc/hostname", a[0]+"\n")
	n.onStart = n.joinAs(a[0])
	n.reboot()
}

// command WORDS...: a command of this machine, in the folder with the root.
func (n *scriptNode) command(a []string) error {
	var out, errors bytes.Buffer
	c := exec.Command(a[0], a[1:]...)
	c.Dir, c.Stdout, c.Stderr = n.dir, &out, &errors
	err := c.Run()
	n.last = ended{c.ProcessState.ExitCode(), out.String(), errors.String()}
	if err != nil {
		return fmt.Errorf("%w: %s", err, &errors)
	}

	return nil
}

// at DURATION COMMAND: during the next command of prelet, at its first wait after that time. at judged COMMAND: at its
// first wait after a good verdict. at look COMMAND: at the next look at /healthz.
func (n *scriptNode) at(a []string) {
	do := n.Later(a[1:])
	isDue := func(time.Duration) bool { return n.says().Finished != nil && n.says().Verdict == "good" }
	switch a[0] {
	case "look":
		n.atLook(do)
		return
	case "judged":
	default:
		at := n.Duration(a[0])
		isDue = func(elapsed time.Duration) bool { return elapsed >= at }
	}
	n.events = append(n.events, event{isDue, do})
}

func (n *scriptNode) atLook(do func()) {
	n.looks = append(n.looks, do)
	if look := n.sick; len(n.looks) == 1 {
		n.sick = func() error {
			for len(n.looks) > 0 {
				next := n.looks[0]
				n.looks = n.looks[1:]
				next()
			}
			if look != nil {
				return look()
			}
			return nil
		}
	}
}

// on plan|reload|start [if FILE|unless FILE] COMMAND: after each plan of a run, at each reload of systemd, or start of
// the kubelet, if the file is there, or is not. on healthy N COMMAND: at each look that finds the kubelet healthy,
// after N more starts.
func (n *scriptNode) on(a []string) error {
	moment, a := a[0], a[1:]
	if moment == "healthy" {
		n.onHealthy(len(n.starts)+n.Number(a[0], 10), n.Later(a[1:]))
		return nil
	}
	file, isUnless := "/", a[0] == "unless"
	if isUnless || a[0] == "if" {
		file, a = a[1], a[2:]
	}
	hook := map[string]*func(){"plan": &n.planned, "reload": &n.onReload, "start": &n.onStart}[moment]
	if hook == nil {
		return script.Unknown("moment", moment)
	}
	before, do := *hook, n.Later(a)
	*hook = func() {
		if before != nil {
			before()
		}
		if _, err := os.Stat(n.path(file)); (err != nil) == isUnless {
			do()
		}
	}

	return nil
}

func (n *scriptNode) onHealthy(starts int, do func()) {
	look := n.sick
	n.sick = func() error {
		if look != nil && look() != nil {
			return look()
		}
		if len(n.starts) >= starts {
			do()
		}
		return nil
	}
}

// die stage|commit|publish FILE: a commit that changes a file, or adds it, is interrupted before it is committed, after
// it with the gate open, or while it publishes. die earlier FOLDER: a state folder has such a commit of an earlier
// boot.
func (n *scriptNode) die(a []string) {
	switch a[0] {
	case "stage":
		n.staged(a[1], func(*generation.Txn) error { return nil })
	case "commit":
		n.staged(a[1], func(t *generation.Txn) error { _, err := t.Commit(); return err })
	case "publish":
		n.interrupted(a[1])
	case "earlier":
		n.halfPublished(n.path(a[1]))
	default:
		n.t.Fatalf("%s: got %v", n.Line, script.Unknown("moment", a[0]))
	}
}

// lock take|give: another prelet takes the lock of the state folder, or gives it.
func (n *scriptNode) takeLock(a []string) error {
	switch a[0] {
	case "take":
		n.locked = n.lock()
	case "give":
		return n.locked.Close()
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

// clock advance DURATION: time passes. clock set DURATION: the wall clock jumps.
func (n *scriptNode) clock(a []string) error {
	switch a[0] {
	case "advance":
		n.now += n.Duration(a[1])
	case "set":
		n.wrong += n.Duration(a[1])
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

// site label VALUE: it plans another label. site file FILE: it is that one. site pulled FILE: that is pulled.
func (n *scriptNode) siteHas(a []string) error {
	switch a[0] {
	case "file":
		return n.useSite(n.path(a[1]))
	case "label":
		n.relabel(a[1])
	case "pulled":
		n.pull(n.path(a[1]))
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

// pull stores a file as node.hcl of the pulled site, as prelet site update does; its digest is that of the text.
func (n *scriptNode) pull(file string) {
	text := must(os.ReadFile(file))
	sum := sha256.Sum256(text)
	d := machine.NewDelivery()
	d.Digest = "sha256:" + hex.EncodeToString(sum[:])
	d.Content = machine.SumFiles(map[string][]byte{"node.hcl": text})
	d.PulledAt, d.LookedAt, d.BootID = time.Now().UTC(), time.Now().UTC(), n.bootID()

	state := filepath.Join(n.root, machine.StateFolder)
	osfile.Write(n.t, filepath.Join(machine.PulledFolder(state, d.Digest), "node.hcl"), string(text), 0o644)
	record := filepath.Join(state, machine.SitesFolder, machine.DeliveryFile)
	osfile.Write(n.t, record, string(must(json.Marshal(d))), 0o644)
}

// spoilFile adds to the ways to spoil a file those of a state folder: bit AT, a bit of the byte at AT, or from the end;
// bit AT with K/N, of the begin of the K-th of N parts of what follows the first line; bit-of TEXT, a bit of a text in
// it; empty, half, garbage, short, full-folder and link; newer [KEY VALUE], a prelet of a later format has written it,
// and that member; newer-plan OLD NEW, it has such a text in its plan. unreadable: each read fails with EIO, until the
// file is replaced.
func (n *scriptNode) spoilFile(others script.Command) script.Command {
	return func(a []string) error {
		name, rest := strings.TrimPrefix(a[0], "state/"), a[2:]
		switch a[1] {
		case "unreadable":
			n.T.Cleanup(hangfs.SpoilFile(n.t, n.path(a[0])))
		case "bit":
			n.editState(name, func(text []byte) []byte { text[n.offset(text, rest[0])] ^= 1; return text })
		case "bit-of":
			n.flip(name, script.Unescape(rest[0]))
		case "newer":
			n.byNewer(name, func(doc map[string]any) {
				if len(rest) > 1 {
					doc[rest[0]] = rest[1]
				}
			})
		case "newer-plan":
			n.planByNewer(n.Number(filepath.Base(name), 10), rest[0], rest[1])
		case "empty", "half", "garbage", "short", "full-folder", "link":
			n.spoil(name, a[1])
		default:
			return others(a)
		}

		return nil
	}
}

// offset returns the place AT or K/N of a text.
func (n *scriptNode) offset(text []byte, at string) int {
	part, parts, isPart := strings.Cut(at, "/")
	i := n.Number(part, 10)
	if isPart {
		begin := bytes.IndexByte(text, '\n') + 64
		return begin + (i-1)*(len(text)-begin)/n.Number(parts, 10)
	}
	if i < 0 {
		i += len(text)
	}

	return i
}

// kubeletVerbs are what the kubelet does, and what is known of it.
func (n *scriptNode) kubeletVerbs() map[string]func(a []string) {
	keepsFlags := func(isForEver bool) func([]string) {
		return func([]string) {
			running, process := n.args, n.kubelet.MainPID
			n.lacks = func(pid uint32, flags []string) error {
				if (pid == process || isForEver) && !slices.Equal(flags, running) {
					return errors.New("the process has not the flag")
				}
				return nil
			}
		}
	}

	return map[string]func(a []string){
		// What systemd does with it. After a crash systemd starts it again.
		"start": func([]string) { n.units.start() },
		"stop": func([]string) {
			n.kubelet.Active, n.kubelet.Sub, n.kubelet.MainPID, n.kubelet.Job = "inactive", "dead", 0, 0
		},
		"crash": func([]string) {
			n.kubelet.Active, n.kubelet.Sub, n.kubelet.MainPID = "activating", "auto-restart", 0
			n.units.start()
		},

		// It does not join, joins under a name with its certificate in a file, or has joined: n1 by its kubeconfig only.
		"waits":    func([]string) { n.onStart = nil },
		"joins-as": func(a []string) { n.onStart = n.joinAs(a[0]) },
		"joined": func(a []string) {
			if len(a) == 0 {
				n.put(kubeletConf, string(n.server.NodeKubeconfig("n1")))
				return
			}
			const bootstrap = "/etc/kubernetes/bootstrap-kubelet.conf"
			n.put(bootstrap, "x")
			n.joinAs(a[0])()
			n.Must(os.Remove(n.root + bootstrap))
		},
		"key-of-another-certificate": func([]string) {
			cert, _ := n.server.IssueNode("n1")
			_, key := n.server.IssueNode("n1")
			n.put(oldPEM, string(cert)+string(key))
		},
		"expired": func(a []string) { n.expired = strings.Join(a, " ") }, // its certificate, or no longer

		"version":       func(a []string) { n.answered(a[0]) },
		"healthz":       n.healthz,
		"files-changed": func(a []string) { n.changed = n.kubelet.Started + n.Duration(a[0]) }, // after its start
		"reads-flags":   keepsFlags(false),                                                     // from its next start on
		"keeps-flags":   keepsFlags(true),
	}
}

// healthz ok: the kubelet is healthy. healthz TEXT [FILE TEXT]: it is not, always or while the file contains the text.
func (n *scriptNode) healthz(a []string) {
	n.sick = func() error {
		if a[0] == "ok" {
			return nil
		}
		if len(a) == 3 {
			text, err := os.ReadFile(n.path(a[1]))
			if err != nil || !strings.Contains(string(text), a[2]) {
				return nil // a file that is missing does not contain it
			}
		}
		return errors.New(a[0])
	}
}

// systemdVerbs are what systemd does, and which units it has.
func (n *scriptNode) systemdVerbs() map[string]func(a []string) {
	return map[string]func(a []string){
		"gone":          func([]string) { n.gone = true },
		"without-order": func([]string) { n.noOrder = true }, // it does not answer which unit runs a process
		"back":          func([]string) { n.gone, n.noOrder = false, false },
		"unit":          func(a []string) { n.assign(n.unit(a[0]), a[1:]) },
		"mounts":        n.mountUnits,
		"jobs-end":      n.jobsEnd,
		"job-of-prelet": func(a []string) { n.restart = a[0] == "restart" },
		"apply-unit":    n.applyUnit,
	}
}

// unit returns the unit of this name: the kubelet's, prelet's, or one of the site's.
func (n *scriptNode) unit(name string) *activation.Unit {
	switch name {
	case n.kubelet.Name:
		return &n.kubelet
	case machine.BootUnit:
		return &n.self
	case machine.VerifyUnit:
		n.verifier.Name = name

		return &n.verifier
	}
	n.other.Name = name

	return &n.other
}

// assign sets fields of activation.Unit. A time may be now.
func (n *scriptNode) assign(unit *activation.Unit, assignments []string) {
	for _, a := range assignments {
		if name, isNow := strings.CutSuffix(a, "=now"); isNow {
			a = name + "=" + n.now.String()
		}
		n.Must(script.Assign(unit, []string{a}))
	}
}

// mounts [PATH=STATE...]: systemd has these mount units, in these states; that of one that is activating has a job.
func (n *scriptNode) mountUnits(a []string) {
	n.mounts = nil
	for _, arg := range a {
		path, state, _ := strings.Cut(arg, "=")
		unit := strings.ReplaceAll(path[1:], "/", "-") + ".mount"
		n.mounts = append(n.mounts, activation.Mount{
			Path: path, Unit: unit, State: state, Active: state == "active", Job: state == "activating",
		})
	}
}

// jobs-end RESULT [FIELD=VALUE...]: jobs of the site's unit end so, and it is like that then. jobs-end refused TEXT:
// systemd refuses them.
func (n *scriptNode) jobsEnd(a []string) {
	n.act = func(string) (string, error) {
		if a[0] == "refused" {
			return "unanswered", errors.New(a[1])
		}
		n.assign(&n.other, a[1:])
		return a[0], nil
	}
}

// apply-unit serves|serves-second: a start of prelet-apply.service, or only a second one, serves requests, with the
// credentials that a person has not. apply-unit dies: it takes them, and is killed. apply-unit ignores [STATE]: it does
// nothing; STATE is its ActiveState. apply-unit ends RESULT: so ends the job of its start. apply-unit none: there is no
// systemd.
func (n *scriptNode) applyUnit(a []string) {
	serve := func() {}
	switch a[0] {
	case "none":
		n.apply = nil
		return
	case "ends":
		n.units.job = a[1]
		return
	case "serves", "serves-second":
		n.served()
		serve = n.apply
	case "dies":
		serve = n.takeRequests
	case "ignores":
		n.applyIs = strings.Join(a[1:], "")
	default:
		n.t.Fatalf("%s: got %v", n.Line, script.Unknown("verb", a[0]))
	}
	n.asked = 0
	n.apply = func() {
		if n.asked++; n.asked > 1 || a[0] != "serves-second" {
			serve()
		}
	}
}

// takeRequests takes the requests for prelet-apply.service, and does not answer.
func (n *scriptNode) takeRequests() {
	for _, request := range n.requests() {
		folder, err := os.Open(filepath.Dir(request))
		n.Must(err)
		defer folder.Close()
		asker, err := net.Dial("unixpacket", // an address has at most 107 bytes
			fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(request)))
		n.Must(err)
		_, err = asker.Read(make([]byte, 4096))
		n.Must(err)
		n.Must(asker.Close())
	}
}

// clusterVerbs are what the API server does, and what other clients do to the Node.
func (n *scriptNode) clusterVerbs() map[string]func(a []string) {
	return map[string]func(a []string){
		"unreachable": func([]string) {
			n.server.Close()

			const site, brief = "/etc/prelet/site.hcl", `"1s"` // a run waits for so long, in real time
			n.site = strings.Replace(n.site, goodRetry, brief, 1)
			if text := n.read(site); strings.Contains(text, goodRetry) {
				n.put(site, strings.Replace(text, goodRetry, brief, 1))
			}
		},
		"answers": n.answers,
		"csr":     n.listRequests,
		"config-map": func(a []string) {
			text := string(must(os.ReadFile(n.path(a[0]))))
			n.server.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": text})
		},
		"node": func(a []string) { // the machine id of n1, and the status of its condition Ready
			var node struct{ MachineID, Ready string }
			n.Must(script.Assign(&node, a))
			const begin = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"status":`
			n.server.SetNode("n1", fmt.Appendf(nil, begin+
				`{"nodeInfo":{"machineID":%q},"conditions":[{"type":"Ready","status":%q}]}}`, node.MachineID, node.Ready))
		},
		"jitter": func(a []string) { n.jitter = float64(n.Number(a[0], 10)) / 100 }, // in %, of each wait

		"machines": func(ids []string) { // machines with these ids update the Node in turn
			n.nodeID = func(*testMachine) string {
				const update = 10 * time.Second
				return ids[int((n.now-n.began)/update)%len(ids)]
			}
		},
		"label":      setIn(n.labels),
		"annotation": setIn(n.annotations),
		"taints": func(a []string) {
			n.taints = nil
			for _, text := range a {
				n.taints = append(n.taints, must(kubelet.ParseTaint(text)))
			}
		},
		"cordoned": func(a []string) { n.isCordoned, n.pods = a[0] == "yes", a[1:] },
		"conditions": func(a []string) { // each as TYPE=STATUS
			n.conditions = nil
			for _, text := range a {
				typ, status, _ := strings.Cut(text, "=")
				n.conditions = append(n.conditions, condition.Condition{Type: typ, Status: status})
			}
		},
	}
}

// setIn returns a verb that adds NAME=VALUE.
func setIn(values map[string]string) func(a []string) {
	return func(a []string) {
		for _, text := range a {
			name, value, _ := strings.Cut(text, "=")
			values[name] = value
		}
	}
}

// answers get|taints|conditions|annotations|events|serving ok|refused|changed|unreachable|TEXT: so the API server
// answers a request for the Node, or a patch.
func (n *scriptNode) answers(a []string) {
	answer, isKnown := map[string]error{
		"ok": nil, "refused": refusal{}, "changed": changed{}, "unreachable": unreachable{},
	}[a[1]]
	if !isKnown {
		answer = errors.New(a[1])
	}
	n.fails[a[0]] = answer
}

// csr STATUS: the API server lists the script's csr.json, with this text for @STATUS@.
func (n *scriptNode) listRequests(a []string) {
	list := strings.Replace(string(must(os.ReadFile(n.path("csr.json")))), "@STATUS@", a[0], 1)
	n.server.SetIntercept(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		isList := strings.HasSuffix(r.URL.Path, "/certificatesigningrequests")
		if isList {
			_, _ = io.WriteString(w, list)
		}
		return isList
	})
}

// snapshot: what `same` and `patched` compare with.
func (n *scriptNode) snapshot([]string) {
	clear(n.sent)
	n.before.disk, n.before.files = n.disk(), withoutOwn(n.disk())
	n.before.pid, n.before.starts, n.before.requests = n.kubelet.MainPID, len(n.starts), len(n.server.Requests())
}

// same disk [EXCEPT...]: nothing was written since the snapshot, but to these files. same files: no managed file was.
// same kubelet: it was neither stopped nor started. same file A B: two files are alike.
func (n *scriptNode) same(a []string) error {
	var got, want any
	switch rest := a[1:]; a[0] {
	case "disk":
		now, before := n.disk(), maps.Clone(n.before.disk)
		for _, file := range rest {
			name := strings.TrimPrefix(n.path(file), n.root)
			delete(now, name)
			delete(before, name)
		}
		got, want = now, before
	case "files":
		got, want = withoutOwn(n.disk()), n.before.files
	case "kubelet":
		got = fmt.Sprint(n.kubelet.MainPID, len(n.starts), n.kubelet.Active)
		want = fmt.Sprint(n.before.pid, n.before.starts, "active")
	case "file":
		got, want = string(must(os.ReadFile(n.path(rest[0])))), string(must(os.ReadFile(n.path(rest[1]))))
	default:
		return script.Unknown("kind", a[0])
	}
	if d := gocmp.Diff(want, got); d != "" {
		return fmt.Errorf("%s (-want +got):\n%s", a, d)
	}

	return nil
}
