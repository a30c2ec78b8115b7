package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// scene is the state of one scenario.
type scene struct {
	t       testing.TB
	work    string
	ca      *demo.Authority
	server  *demo.Server            // the one that was started last
	before  map[string]osfile.Inode // what `snapshot` saw
	secrets []string                // what must not be seen
	stop    []func()
	shared  *machines
}

type sceneKey struct{}

func of(ts *testscript.TestScript) *scene { return ts.Value(sceneKey{}).(*scene) }

// setUp makes a node: an empty root with an os-release, a bare VM's hardware, a bootstrap token, and a site template
// unless the scenario has its own.
func setUp(e *testscript.Env, shared *machines) error {
	s := &scene{t: e.T().(testing.TB), work: e.WorkDir, ca: demo.NewAuthority("kubernetes"), secrets: []string{demo.TokenSecret}, shared: shared}
	e.Values[sceneKey{}] = s
	e.Defer(func() {
		for _, f := range slices.Backward(s.stop) {
			f()
		}
	})
	cm := map[string]any{
		"kind":       "ConfigMap",
		"apiVersion": "v1",
		"metadata":   map[string]string{"name": "kubelet-config", "namespace": "kube-system", "resourceVersion": "7"},
		"data":       map[string]string{"kubelet": servedConfig},
	}
	files := map[string]string{
		"root/etc/os-release":                     "ID=debian\nNAME=Debian\n",
		"credentials/bootstrap-token":             demo.Token + "\n",
		"objects/ca.crt":                          string(s.ca.CAPEM()),
		"objects/kube-system/kubelet-config.yaml": string(must(json.Marshal(cm))),
	}
	if _, err := os.Stat(filepath.Join(e.WorkDir, "site.in")); err != nil {
		files["site.in/site.hcl"] = baseSite
	}
	osfile.WriteTree(s.t, e.WorkDir, files)
	if err := os.Chmod(filepath.Join(e.WorkDir, "credentials/bootstrap-token"), 0o400); err != nil {
		return err
	}
	if err := s.machine("bare-vm", false); err != nil {
		return err
	}
	repo, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	e.Setenv("REPO", repo)
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} { // of `make test`, to collect less often
		if value := os.Getenv(name); value != "" {
			e.Setenv(name, value)
		}
	}
	e.Setenv("CREDENTIALS_DIRECTORY", filepath.Join(e.WorkDir, "credentials"))
	e.Setenv("SERVER", "https://127.0.0.1:1")
	e.Setenv("PIN", s.ca.CAHash())
	// A server that answers well sets more, and so does a scenario of answers that are final: then a loaded machine has
	// time to give them. One of answers that are waited for takes this long each time.
	retry := "600ms"
	if isEmulated() {
		retry = "10s"
	}
	e.Setenv("RETRY", retry)
	return expandSite(s, func(k string) string {
		return map[string]string{"SERVER": "https://127.0.0.1:1", "PIN": s.ca.CAHash(), "RETRY": retry}[k]
	})
}

// isEmulated reports whether qemu-user runs the programs: it lacks seccomp, and is several times slower.
func isEmulated() bool { return os.Getenv("PRELET_EMULATED") != "" }

const baseSite = `cluster {
  servers        = ["@SERVER@"]
  ca_cert_hashes = ["@PIN@"]
  token          = credential("bootstrap-token")
  retry          = "@RETRY@"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "site" { labels = { "example.com/zone" = "az1" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`

// expandSite writes site/ from site.in/: @NAME@ is the environment's NAME.
func expandSite(s *scene, env func(string) string) error {
	in := filepath.Join(s.work, "site.in")
	return filepath.WalkDir(in, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(in, p)
		if err != nil {
			return err
		}
		to := filepath.Join(s.work, "site", rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		parts := strings.Split(string(b), "@")
		for i := 1; i < len(parts)-1; i++ {
			if parts[i] != "" && strings.ToUpper(parts[i]) == parts[i] && !strings.ContainsAny(parts[i], " \n.") {
				parts[i-1] += env(parts[i]) + parts[i+1]
				parts = append(parts[:i], parts[i+2:]...)
				i--
			}
		}
		return os.WriteFile(to, []byte(strings.Join(parts, "@")), 0o644)
	})
}

func isRunAs(c string) (bool, error) {
	switch c {
	case "root":
		return os.Geteuid() == 0, nil
	case "detectors":
		return canHostDetectors(), nil
	case "emulated":
		return isEmulated(), nil
	}
	return false, fmt.Errorf("unknown condition %q", c)
}

func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":        cmdExits,
		"node":         cmdNode,
		"refused":      cmdRefused,
		"stopped":      cmdStopped,
		"apiserver":    cmdAPIServer,
		"blackhole":    cmdBlackhole,
		"site":         cmdSite,
		"machine":      cmdMachine,
		"unauthorized": cmdUnauthorized,
		"requests":     cmdRequests,
		"snapshot":     cmdSnapshot,
		"same":         cmdSame,
		"tells":        cmdTells,
		"out":          cmdOut,
		"err":          cmdErr,
		"json":         cmdJSON,
		"plain":        cmdPlain,
		"secret":       cmdSecret,
		"hidden":       cmdHidden,
		"put":          cmdPut,
		"fill":         cmdFill,
		"bytes":        cmdBytes,
		"public":       cmdPublic,
		"mode":         cmdMode,
		"joined":       cmdJoined,
		"facts":        cmdFacts,
		"blob":         cmdBlob,
		"mount":        ofDisk("mount"),
		"attribute":    ofDisk("attribute"),
		"spoil":        ofDisk("spoil"),

		"detector-host": cmdDetectorHost,
	}
}

// exits N COMMAND ARGS...: runs it and looks at its exit status. Whatever it says is searched for secrets.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var x *exec.ExitError
	if errors.As(err, &x) {
		got = x.ExitCode()
	} else {
		ts.Check(err)
	}
	noSecret(ts, "stdout", []byte(ts.ReadFile("stdout")))
	noSecret(ts, "stderr", []byte(ts.ReadFile("stderr")))
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// about is which node and site a command of a scenario is about. The doctor looks at this machine only.
func about(ts *testscript.TestScript, command string, args []string) []string {
	w := of(ts).work
	if command == "doctor" {
		return append([]string{"--config", w + "/site"}, args...)
	}
	out := []string{}
	has := func(f string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return a == f || strings.HasPrefix(a, f+"=") })
	}
	for _, x := range [][2]string{{"--config", w + "/site"}, {"--root", w + "/root"}, {"--hardware", w + "/machine"}} {
		if !has(x[0]) {
			out = append(out, x[0], x[1])
		}
	}
	return append(out, args...)
}

// node N COMMAND ARGS...: `prelet COMMAND` on the scenario's node.
func cmdNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: node N COMMAND [ARGS...]")
	}
	cmdExits(ts, false, append([]string{args[0], "prelet", args[1]}, about(ts, args[1], args[2:])...))
}

// stopped COMMAND [ARGS...]: `prelet COMMAND` gets a SIGTERM once it has asked the last server, and says so as its
// exit status. All that it prints is left for `stdout`.
func cmdStopped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: stopped COMMAND [ARGS...]")
	}

	server, asked := of(ts).server, make(chan struct{}, 1)
	respond := server.Intercept
	server.SetIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return respond != nil && respond(w, r, n)
	})
	defer server.SetIntercept(respond)

	var said bytes.Buffer
	program := exec.Command("prelet", append(args[:1:1], about(ts, args[0], args[1:])...)...)
	program.Dir = of(ts).work
	program.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+ts.Getenv("CREDENTIALS_DIRECTORY"))
	program.Stdout, program.Stderr = &said, &said
	ts.Check(program.Start())

	watchdog := time.AfterFunc(10*time.Minute, func() { _ = program.Process.Kill() })
	defer watchdog.Stop()

	ended := make(chan struct{})
	go func() {
		_ = program.Wait() // how it ended is looked at below
		close(ended)
	}()

	select {
	case <-asked:
		ts.Check(program.Process.Signal(syscall.SIGTERM))
		<-ended
	case <-ended:
	}

	if got, want := program.ProcessState.String(), "exit status 42"; got != want {
		ts.Fatalf("got %s, want %s; it said:\n%s", got, want, &said)
	}
	if !strings.Contains(strings.ToLower(said.String()), "stopped by a signal") {
		ts.Fatalf("it does not say that it was stopped: %s", &said)
	}
	_, _ = ts.Stdout().Write(said.Bytes())
}

// refused N ARGS...: plan -o json and run both end with N. The plan is one JSON document that says that it is not
// complete and why; neither touches a target. What run said is left for `stderr`.
func cmdRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused N [ARGS...]")
	}
	before := targets(ts)
	cmdNode(ts, false, append([]string{args[0], "plan", "-o", "json"}, args[1:]...))
	doc := document(ts)
	if doc["complete"] != false {
		ts.Fatalf("the plan says complete = %v", doc["complete"])
	}
	if ds, ok := doc["diagnostics"].([]any); !ok ||
		!slices.ContainsFunc(ds, func(d any) bool { return d.(map[string]any)["severity"] == "error" }) {
		ts.Fatalf("the plan does not say why: %v", doc["diagnostics"])
	}
	cmdNode(ts, false, append([]string{args[0], "run"}, args[1:]...))
	if d := cmp.Diff(before, targets(ts)); d != "" {
		ts.Fatalf("targets were touched (-before +after):\n%s", d)
	}
	if ts.ReadFile("stdout") != "" {
		ts.Fatalf("a result was printed on stdout")
	}
	if e := ts.ReadFile("stderr"); !strings.HasPrefix(e, "Error: ") && !strings.Contains(e, "\nError: ") &&
		!strings.Contains(e, "prelet: ") {
		ts.Fatalf("got no error; want one")
	}
}
