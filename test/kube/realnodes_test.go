package kube

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRealNodes runs the scripts of testdata/nodes, each with clusters and machines of its own. README.md in that folder
// describes the commands.
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

	last    Result        // of the last command with an output
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
func (s *scene) show(want string, r Result, err error) error {
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

	return placeholder.ReplaceAllStringFunc(text, func(name string) string { return s.ts.Getenv(strings.Trim(name, "@")) })
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

// cluster [NAME [audit] [--controllers=LIST]]: starts a cluster with the same bootstrap token as the others, which is $TOKEN. The first one is
// that of the machines; its pin is $PIN, its port
// $PORT, its folder $DIR, its version $VERSION.
func (s *scene) cmdCluster(args []string) error {
	name := append(args, "")[0]
	o := Options{Audit: slices.Contains(args, "audit")}
	for _, word := range args {
		if list, ok := strings.CutPrefix(word, "--controllers="); ok {
			o.Controllers = list
		}
	}
	c := start(s.t, o)
	s.clusters[name] = c
	if s.c != nil {
		return nil
	}
	s.c = c
	pin, err := c.Pin()
	s.ts.Setenv("PIN", pin)
	s.ts.Setenv("TOKEN", c.Token)
	s.ts.Setenv("PORT", strconv.Itoa(c.Port))
	s.ts.Setenv("DIR", c.Dir)
	s.ts.Setenv("VERSION", filepath.Base(c.Kubernetes))
	s.ts.Setenv("BUSYBOX", filepath.Join(c.Cache, "containerd/usr/bin/busybox"))
	s.ts.Setenv("PRELET", c.Prelet)
	s.ts.Setenv("KUBECONFIG", c.Path("super-admin.conf"))
	s.ts.Setenv("PATH", filepath.Dir(c.Prelet)+":"+c.Kubernetes+":"+os.Getenv("PATH"))

	return err
}

// kubectl ARGS…: runs it as cluster-admin. A word *.yaml is a file of the script. `exec kubectl` does the same.
func (s *scene) cmdKubectl(args []string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for i, word := range args {
		if strings.HasSuffix(word, ".yaml") && !filepath.IsAbs(word) {
			args[i] = filepath.Join(s.t.TempDir(), word)
			must(s.t, os.WriteFile(args[i], []byte(s.text("@"+word)), 0o600))
		}
	}
	environment := []string{"HOME=" + s.c.Dir, "PATH=" + s.ts.Getenv("PATH"), "KUBECONFIG=" + s.ts.Getenv("KUBECONFIG")}
	r, err := command(ctx, environment, append([]string{s.c.of("kubectl")}, args...)...)

	return s.show("0", r, err)
}

// api stop|start: kills the API server, or starts it again.
func (s *scene) cmdAPI(args []string) error {
	if args[0] == "stop" {
		s.c.StopAPIServer()
		return nil
	}

	return s.c.StartAPIServer(s.t.Context())
}

// controllers pause|resume: nothing is signed or approved meanwhile.
func (s *scene) cmdControllers(args []string) error {
	resume := s.c.PauseControllers()
	if args[0] == "resume" {
		resume()
	}

	return nil
}

// token NAME TTL [FLAG…]: makes a bootstrap token, the variable NAME.
func (s *scene) cmdToken(args []string) error {
	token, err := s.c.NewToken(s.t.Context(), args[1], args[2:]...)
	s.ts.Setenv(args[0], token)

	return err
}

// config-map NAMESPACE/NAME KEY FILE: replaces all of a ConfigMap.
func (s *scene) cmdConfigMap(args []string) error {
	namespace, name, _ := strings.Cut(args[0], "/")

	return s.c.SetConfigMap(s.t.Context(), namespace, name, map[string]string{args[1]: s.text("@" + args[2])})
}

// unsigned TOKEN: cluster-info has no signature of it.
func (s *scene) cmdUnsigned(args []string) error {
	info, err := s.c.ConfigMap(s.t.Context(), "kube-public", "cluster-info")
	if err == nil && info["jws-kubeconfig-"+args[0][:6]] != "" {
		err = errors.New("cluster-info: got a signature, want none")
	}

	return err
}

// requests [CLUSTER]: shows the requests of prelet since the last time, a line each: VERB USER URI STATUS, and what is
// patched.
func (s *scene) cmdRequests(args []string) error {
	name := append(args, "")[0]
	all, err := s.clusters[name].Requests("prelet")
	var b strings.Builder
	for _, r := range all[min(s.asked[name], len(all)):] {
		line := fmt.Sprintf("%s %s %s %d %s", r.Verb, r.User.Username, r.URI, r.Response.Code, r.Patch)
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	s.asked[name] = len(all)

	return s.show("0", Result{Out: b.String()}, err)
}

// asked N: prelet has sent N requests or more since `requests`.
func (s *scene) cmdAsked(args []string) error {
	all, err := s.c.Requests("prelet")
	want, err2 := strconv.Atoi(args[0])
	if got := len(all) - s.asked[""]; got < want {
		return fmt.Errorf("got %d requests, want %d or more", got, want)
	}

	return errors.Join(err, err2)
}

// busy COMMAND…: carries it out while another client changes the Node all the time.
func (s *scene) cmdBusy(args []string) error {
	ctx, stop := context.WithCancel(s.t.Context())
	var other errgroup.Group
	other.Go(func() error {
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"busy":"%d"}}}`, i)
			_, err := s.c.Client.CoreV1().Nodes().
				Patch(ctx, s.n.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}

		return nil
	})
	err := s.do(false, args)
	stop()

	return errors.Join(err, other.Wait())
}

// heartbeats N: waits until the kubelet has updated the status of its Node N times.
func (s *scene) cmdHeartbeats(args []string) error {
	seen := map[time.Time]bool{}

	return waitFor(s.t.Context(), time.Minute, "updates of the status", func() string {
		n, err := s.c.Node(s.t.Context(), s.n.Name)
		if err != nil {
			return err.Error()
		}
		for _, x := range n.Status.Conditions {
			if x.Type == corev1.NodeReady {
				seen[x.LastHeartbeatTime.Time] = true
			}
		}
		if got := fmt.Sprint(len(seen) - 1); got != args[0] {
			return fmt.Sprintf("got %s, want %s", got, args[0])
		}
		return ""
	})
}

// ready [NAME]: waits until the Node is Ready.
func (s *scene) cmdReady(args []string) error {
	_, err := s.c.Ready(s.t.Context(), cmp.Or(append(args, "")[0], s.n.Name))

	return err
}

// labels KEY=VALUE…: the Node has these labels; those without a value it does not have.
func (s *scene) cmdLabels(args []string) error {
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err != nil {
		return err
	}
	for _, word := range args {
		key, want, _ := strings.Cut(word, "=")
		if got := n.Labels[key]; got != want {
			return fmt.Errorf("label %s: got %q, want %q", key, got, want)
		}
	}

	return nil
}

// all VALUE KEYS…: the Node has labels of these keys, and all have the value. KEYS is a list in one word.
func (s *scene) cmdAll(args []string) error {
	var words []string
	for key := range strings.FieldsSeq(strings.Join(args[1:], " ")) {
		words = append(words, key+"="+args[0])
	}

	return s.cmdLabels(words)
}

// takes-effect WHEN KEYS…: by the plan, labels of these keys take effect then: registration, restart or reconcile.
func (s *scene) cmdTakesEffect(args []string) error {
	p := planOf(s.t, s.n)
	for key := range strings.FieldsSeq(strings.Join(args[1:], " ")) {
		if got := p.Node.Labels[key].TakesEffect; got != args[0] {
			return fmt.Errorf("plan, label %s: got that it takes effect at %q, want %q", key, got, args[0])
		}
	}

	return nil
}

// taints KEY=VALUE:EFFECT…: the Node has these taints and no other ones, except those of Kubernetes itself.
func (s *scene) cmdTaints(args []string) error {
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err != nil {
		return err
	}
	var got []string
	for _, x := range n.Spec.Taints {
		if !strings.HasPrefix(x.Key, "node.kubernetes.io/") {
			got = append(got, x.ToString())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, args) {
		return fmt.Errorf("taints: got %q, want %q", got, args)
	}

	return nil
}

// machine-id NAME: the Node of the current machine has the ID of that machine.
func (s *scene) cmdMachineID(args []string) error {
	want, err := s.machines[args[0]].Read("/etc/machine-id")
	if err != nil {
		return err
	}
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err == nil && n.Status.NodeInfo.MachineID != strings.TrimSpace(want) {
		err = fmt.Errorf("machine of the Node: got %s, want %s", n.Status.NodeInfo.MachineID, want)
	}

	return err
}

// condition TYPE STATUS(REASON): the Node has this condition.
func (s *scene) cmdCondition(args []string) error {
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(n.Status.Conditions, func(x corev1.NodeCondition) bool { return string(x.Type) == args[0] })
	if i < 0 {
		return fmt.Errorf("condition %s: got none in %+v", args[0], n.Status.Conditions)
	}
	x := n.Status.Conditions[i]
	if got := fmt.Sprintf("%s(%s)", x.Status, x.Reason); got != args[1] {
		return fmt.Errorf("condition %s: got %s: %s, want %s", args[0], got, x.Message, args[1])
	}

	return nil
}

// configz FIELD=VALUE…: the kubelet runs with these fields.
func (s *scene) cmdConfigz(args []string) error {
	running, err := s.c.Configz(s.t.Context(), s.n)
	if err != nil {
		return err
	}
	for _, word := range args {
		field, want, _ := strings.Cut(word, "=")
		if got := fmt.Sprint(running[field]); got != want {
			return fmt.Errorf("/configz, %s: got %s, want %s", field, got, want)
		}
	}

	return nil
}

// declared: the Node has the features that a plan of a fleet counts for a recording of this node, less those that the
// container runtime would have to support.
func (s *scene) cmdDeclared([]string) error {
	record := "mkdir -p /srv/one && prelet record --config /etc/prelet - >/srv/one/n1.prelet"
	err := s.cmdIn([]string{"0", "sh", "-c", record + " && prelet plan --from /srv/one --names -o json"})
	var report struct {
		Declares struct {
			Features []struct {
				Name      string
				ByRuntime bool `json:"by_runtime"`
			}
		} `json:"declared_features"`
	}
	var want []string
	err = errors.Join(err, json.Unmarshal([]byte(s.last.Out), &report))
	for _, f := range report.Declares.Features {
		if !f.ByRuntime {
			want = append(want, f.Name)
		}
	}
	n, err2 := s.c.Node(s.t.Context(), s.n.Name)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if got := n.Status.DeclaredFeatures; len(want) == 0 || !slices.Equal(got, want) {
		return fmt.Errorf("declared features: got %q, want %q", got, want)
	}

	return nil
}

// machine NAME [OPTION…]: makes a machine that has the bootstrap token and, at 10.0.0.11:6443, a door to the cluster; its
// kubelet waits for the gate. Or it makes an earlier machine the current one. Options are clone=NAME (its disk),
// again=NAME (that machine after another boot), hardware=FOLDER, containerd, driver=DRIVER (which its
// runtime reports), kubelet=FILE and no-door.
func (s *scene) cmdMachine(args []string) error {
	if n, ok := s.machines[args[0]]; ok {
		s.n = n
		return nil
	}
	o := NodeOptions{Name: args[0], Loopback: []string{"10.0.0.11", "10.0.0.12"}}
	container, driver := FakeRuntime, "cgroupfs"
	for _, option := range args[1:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "clone":
			o.Clone = s.machines[value]
		case "again":
			o.Clone = s.machines[value]
			o.Name = o.Clone.Name
			id, err := o.Clone.Read("/etc/machine-id")
			must(s.t, err)
			o.MachineID = strings.TrimSpace(id)
		case "driver":
			driver = value
		case "hardware":
			o.Hardware = s.ts.MkAbs(value)
		case "kubelet":
			o.Kubelet = s.ts.MkAbs(value)
		case Containerd:
			container = Containerd
		}
	}
	s.n = nodeWith(s.t, s.c, container, driver, o)
	s.machines[args[0]] = s.n
	s.ts.Setenv("ROOT", s.n.Root())
	if !slices.Contains(args, "no-door") {
		if err := s.cmdDoor([]string{"10.0.0.11:6443"}); err != nil {
			return err
		}
	}

	return s.n.Credential("bootstrap-token", s.c.Token)
}

// off: the current machine is turned off for good. Each kubelet takes some of what the kernel has of inotify.
func (s *scene) cmdOff([]string) error {
	s.n.Stop()

	return nil
}

// site FILE…: the site has these files of the script and no other ones.
func (s *scene) cmdSite(args []string) error {
	files := map[string]string{}
	for _, name := range args {
		files[name] = s.text("@" + name)
	}

	return s.n.Site(files)
}

// node N ARGS…: a person runs prelet, which must exit with N. The secret of the token is never printed.
func (s *scene) cmdNode(args []string) error {
	began := time.Now()
	r, err := s.n.Prelet(context.WithoutCancel(s.t.Context()), args[1:]...)
	s.took = time.Since(began)
	if _, secret, _ := strings.Cut(s.c.Token, "."); strings.Contains(r.String(), secret) {
		err = errors.New("got the secret of the bootstrap token in the output, want it not printed")
	}

	return s.show(args[0], r, err)
}

// in N WORDS…: a command in the machine, which must exit with N.
func (s *scene) cmdIn(args []string) error {
	r, err := s.n.Run(context.WithoutCancel(s.t.Context()), args[1:]...)

	return s.show(args[0], r, err)
}

// put PATH TEXT|@FILE [MODE]: writes a file of the machine.
func (s *scene) cmdPut(args []string) error {
	mode, err := strconv.ParseUint(append(args, "644")[2], 8, 32)

	return errors.Join(err, s.n.Write(args[0], s.text(args[1]), os.FileMode(mode)))
}

// credential NAME [TEXT|@FILE]: gives prelet's units a credential, or takes it away.
func (s *scene) cmdCredential(args []string) error {
	return s.n.Credential(args[0], s.text(append(args, "")[1]))
}

// door ADDRESS [CLUSTER]: at this address the machine reaches the API server.
func (s *scene) cmdDoor(args []string) error {
	c := s.clusters[append(args, "")[1]]
	if c == nil {
		c = s.c
	}

	return s.doorTo(args[0], fmt.Sprintf("127.0.0.1:%d", c.Port))
}

// doorTo opens a door to an address outside.
func (s *scene) doorTo(address, to string) (err error) {
	s.doors[address], err = s.n.Door(address, to)

	return err
}

// shut ADDRESS: nothing answers at this address.
func (s *scene) cmdShut(args []string) error {
	s.doors[args[0]].Shut()

	return nil
}

// authority NAME: makes a CA that is not the cluster's: NAME.crt, its pin $NAME, and its end $NAME_UNTIL.
func (s *scene) cmdAuthority(args []string) error {
	a := newAuthority(s.t, args[0])
	s.authorities[args[0]] = a
	pin, err := PinOf(a.pem())
	s.ts.Setenv(args[0], pin)
	s.ts.Setenv(args[0]+"_UNTIL", a.cert.NotAfter.UTC().Format(time.RFC3339))

	return errors.Join(err, os.WriteFile(filepath.Join(s.work, args[0]+".crt"), []byte(a.pem()), 0o600))
}

// issue returns a certificate of a CA, valid for a day from now+FROM.
func (s *scene) issue(ca, user, from string, names ...string) tls.Certificate {
	a, ok := s.authorities[ca]
	if !ok {
		a = authorityOf(s.t, s.c)
	}
	subject := pkix.Name{}
	name, group, hasGroup := strings.Cut(user, "/")
	if subject.CommonName = name; hasGroup {
		subject.Organization = []string{group}
	}
	after, err := time.ParseDuration(from)
	must(s.t, err)

	return a.issue(s.t, subject, time.Now().Add(after), names...)
}

// sign FILE CA USER[/GROUP] FROM: writes a certificate and its key, valid for a day from now+FROM. CA is that of
// `authority`, or cluster.
func (s *scene) cmdSign(args []string) error {
	cert, key := pair(s.t, s.issue(args[1], args[2], args[3]))

	return os.WriteFile(filepath.Join(s.work, args[0]), []byte(cert+key), 0o600)
}

// between ADDRESS CA FROM [spoil]: a server at this address, with a certificate valid from now+FROM, passes requests on
// to the cluster. With spoil its second response is changed. $FROM and $UNTIL are the dates of the certificate.
func (s *scene) cmdBetween(args []string) error {
	host, _, _ := net.SplitHostPort(args[0])
	s.between = &between{}
	if len(args) > 3 {
		s.between.change = func(_ string, n int, body string) string {
			if n == 2 {
				return strings.Replace(body, "https://", "https://x", 1)
			}
			return body
		}
	}
	cert := s.issue(args[1], "kube-apiserver", args[2], host)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	must(s.t, err)
	s.ts.Setenv("FROM", leaf.NotBefore.Format(time.RFC3339))
	s.ts.Setenv("UNTIL", leaf.NotAfter.Format(time.RFC3339))

	return s.doorTo(args[0], serve(s.t, cert, s.between.handler(s.t, s.c)))
}

// passed TOKENS [N]: the server of `between` has got so many requests with a credential, and N without.
func (s *scene) cmdPassed(args []string) error {
	got := []string{fmt.Sprint(s.between.withToken), fmt.Sprint(s.between.anonymous)}
	if !slices.Equal(got[:len(args)], args) {
		return fmt.Errorf("requests with a credential and without: got %q, want %q", got, args)
	}

	return nil
}

// serve ADDRESS CA FILE: an HTTPS server at this address returns the file.
func (s *scene) cmdServe(args []string) error {
	host, _, _ := net.SplitHostPort(args[0])
	text := s.text("@" + args[2])
	file := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })

	return s.doorTo(args[0], serve(s.t, s.issue(args[1], "files", "-1h", host), file))
}

// silent ADDRESS: a server at this address accepts connections, and sends nothing.
func (s *scene) cmdSilent(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	s.t.Cleanup(func() { _ = l.Close() })

	return s.doorTo(args[0], l.Addr().String())
}

// proxy ADDRESS: a proxy at this address, which passes CONNECT to the address of the cluster on.
func (s *scene) cmdProxy(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	server := &http.Server{Handler: tunnel(s.c)}
	go func() { _ = server.Serve(l) }()
	s.t.Cleanup(func() { _ = server.Close() })

	return s.doorTo(args[0], l.Addr().String())
}

// tunnel passes CONNECT 10.0.0.11:6443 on to a cluster.
func tunnel(c *Cluster) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
		if err != nil || r.Method != http.MethodConnect || r.Host != "10.0.0.11:6443" {
			http.Error(w, fmt.Sprint("only CONNECT to the cluster; ", err), http.StatusForbidden)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(here, there)
	})
}

// unopened ADDRESS: no connection has come to a door.
func (s *scene) cmdUnopened(args []string) error {
	if got := s.doors[args[0]].Opened.Load(); got > 0 {
		return fmt.Errorf("connections to %s: got %d, want none", args[0], got)
	}

	return nil
}

// joins: prelet succeeds, and the kubelet joins the cluster through the site's first server.
func (s *scene) cmdJoins([]string) error {
	if err := s.cmdNode([]string{"0", "run"}); err != nil {
		return err
	}
	if err := s.cmdReady(nil); err != nil {
		return err
	}
	conf, err := s.n.Read("/etc/kubernetes/kubelet.conf")

	return errors.Join(
		err, wantText("stdout", s.last.Out, "healthy"), wantText("kubelet.conf", conf, "server: https://10.0.0.11:6443"),
	)
}

// untouched: prelet has written nothing, and no kubelet runs.
func (s *scene) cmdUntouched([]string) error {
	for _, path := range []string{
		"/var/lib/kubelet/config.yaml", "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt",
		"/etc/default/kubelet",
	} {
		if _, err := s.n.Read(path); err == nil {
			return fmt.Errorf("got %s, want it not written", path)
		}
	}
	if k, err := s.n.Service(s.t.Context()); err != nil || k.PID != 0 {
		return fmt.Errorf("kubelet: got %+v, %v; want it not to run", k, err)
	}

	return nil
}

// kubelet start|stop|restart: asks systemd.
func (s *scene) cmdKubelet(args []string) error {
	if args[0] == "stop" {
		return s.n.StopKubelet(s.t.Context())
	}

	return s.n.Systemctl(s.t.Context(), args[0])
}

// kubelet-log TEXT: the kubelet's log contains it.
func (s *scene) cmdKubeletLog(args []string) error {
	if log := s.n.KubeletLog(); !strings.Contains(log, args[0]) {
		return fmt.Errorf("the kubelet's log: got\n%s\nwant text with %q", last(log, 2000), args[0])
	}

	return nil
}

// reboot stops the kubelet and empties /run/prelet, and starts the kubelet, which waits for the gate.
func (s *scene) cmdReboot([]string) error {
	return errors.Join(
		s.n.StopKubelet(s.t.Context()), os.RemoveAll(s.n.Root()+"/run/prelet"), s.n.WantKubelet(s.t.Context()),
	)
}

// snapshot: for `same`.
func (s *scene) cmdSnapshot([]string) (err error) {
	s.disk, err = s.n.disk()

	return err
}

// same: nothing was written since `snapshot`.
func (s *scene) cmdSame([]string) error {
	now, err := s.n.disk()
	if err == nil && !maps.Equal(s.disk, now) {
		err = fmt.Errorf("files: got %q, want none changed", difference(s.disk, now))
	}

	return err
}

// journal: journalctl of the machine prints the kubelet's log.
func (s *scene) cmdJournal([]string) error { return journal(s.n) }

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

// containerd start DRIVER|start-other DRIVER|stop: what Debian's containerd does, with a cgroup driver.
func (s *scene) cmdContainerd(args []string) error {
	switch args[0] {
	case "start":
		return s.n.StartContainerd(s.t.Context(), args[1])
	case "start-other":
		return s.n.StartOtherContainerd(s.t.Context(), args[1])
	}

	return s.n.StopContainerd(s.t.Context())
}

// image SOCKET ENTRYPOINT [PATH=FILE…]: a runtime has an image localhost/pause:1 with programs of this machine, which
// serves as that of a sandbox, too.
func (s *scene) cmdImage(args []string) error {
	var files [][2]string
	for _, word := range args[2:] {
		to, from, _ := strings.Cut(word, "=")
		files = append(files, [2]string{to, s.ts.ReadFile(from)})
	}
	err := s.n.Write("/run/image.tar", image(s.t, PauseImage, strings.Fields(args[1]), files...), 0o644)

	return errors.Join(err, s.cmdIn([]string{"0", "ctr", "-a", args[0], "-n", "k8s.io", "images", "import", "/run/image.tar"}))
}

// hidden TEXT: neither the last output nor a file of prelet or the kubelet contains it.
func (s *scene) cmdHidden(args []string) error {
	if strings.Contains(s.last.String(), args[0]) {
		return fmt.Errorf("got %s in the output, want it not there", args[0])
	}
	words := []string{"1", "grep", "-rsl", args[0], "/run/prelet", "/etc/kubernetes", "/etc/default", "/var/lib", "/var/log"}

	return s.cmdIn(words)
}

// cause ID ITEM [FILE TEXT]: `verify -o json` or `run -o json` has printed this cause of an unhealthy kubelet. It points
// to the text in the site's file, or outside of the site.
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

// journal replaces journald on a node without it: journalctl prints the kubelet's log since a time, by the time in
// each of its lines, and lines without a time with the line before. Without a time it prints the lines of one process,
// by the number in each of its lines.
func journal(n *Node) error {
	return n.Write("/usr/local/bin/journalctl", `#!/bin/sh
for word; do case $word in --since=*) since=${word#--since=};; _PID=*) pid=${word#_PID=};; esac; done
[ -n "$since" ] || exec awk -v pid="$pid" '/^[IWEF][0-9][0-9][0-9][0-9] / { own = $3 == pid } own' /var/log/kubelet.log
from=$(date -d "$since" "+%m%d %H:%M:%S.%6N") || exit 1
exec awk -v from="$from" '/^[IWEF][0-9][0-9][0-9][0-9] / { new = substr($1, 2) " " $2 >= from } new || !NF' /var/log/kubelet.log
`, 0o755)
}

// image returns an archive, as docker save makes it, of an image with these files, as pairs of path and content. The
// sandbox of an image without its program never starts.
func image(t testing.TB, name string, entrypoint []string, files ...[2]string) string {
	t.Helper()
	archive := func(files ...[2]string) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}))
			_, err := w.Write([]byte(f[1]))
			must(t, err)
		}
		must(t, w.Close())
		return b.String()
	}
	object := func(v any) string {
		b, err := json.Marshal(v)
		must(t, err)
		return string(b)
	}
	layer := archive(files...)
	return archive(
		[2]string{"layer.tar", layer},
		[2]string{
			"config.json",
			object(map[string]any{
				"architecture": runtime.GOARCH,
				"os":           "linux",
				"config":       map[string]any{"Entrypoint": entrypoint},
				"rootfs": map[string]any{
					"type":     "layers",
					"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(layer)))},
				},
			}),
		},
		[2]string{
			"manifest.json",
			object(
				[]map[string]any{
					{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}},
				},
			),
		},
	)
}
