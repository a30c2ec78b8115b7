package main

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// askingCommands are the commands that ask a server, each with the arguments with which it does: SERVER never answers.
var askingCommands = map[string]string{
	"bundle":      "new.tar.gz --root ROOT",
	"console":     "--root ROOT",
	"eval":        "node.labels --root ROOT",
	"explain":     "node --root ROOT",
	"plan":        "--root ROOT",
	"pull":        "SERVER/site:stable new --plain-http",
	"push":        "ROOT/etc/prelet SERVER/site:stable --plain-http",
	"record":      "new.prelet --root ROOT",
	"report":      "--html page --root ROOT",
	"run":         "--root ROOT",
	"site update": "--root DELIVERED",
	"upgrade":     "--to 1.36 --root ROOT",
	// The references of --config are pulled before anything else.
	"graph":    "--config oci://SERVER/site:stable",
	"site":     "oci://SERVER/site:stable",
	"validate": "oci://SERVER/site:stable",
}

// silentCommands ask no server: TestNoCommandHangs stops those that name a path.
var silentCommands = map[string]string{
	"analyze blame":   "reads the report of a boot",
	"analyze chain":   "reads the report of a boot",
	"detect":          "reads the machine",
	"detectors check": "starts a program, which has a timeout",
	"detectors list":  "reads the machine",
	"detectors lock":  "starts a program, which has a timeout",
	"doctor":          "asks a cluster on a running machine only",
	"fleet merge":     "reads files",
	"fmt":             "reads files",
	"history":         "reads the state of a node",
	"history diff":    "reads the state of a node",
	"history show":    "reads the state of a node",
	"import":          "reads files",
	"init":            "reads files",
	"recover":         "finishes a commit",
	"rollback":        "below a root no kubelet is judged",
	"schema":          "reads nothing",
	"seal":            "reads an image",
	"site sign":       "reads files, and calls ssh-keygen",
	"site verify":     "reads files",
	"status":          "reads the report of a boot",
	"test":            "plans recorded machines",
	"verify":          "has no --root",
	"version":         "reads nothing",
}

// TestStoppedCommands stops each command while a server does not answer: it ends at once, and says why. A command
// that is in neither list is an error.
func TestStoppedCommands(t *testing.T) {
	t.Parallel()
	for name := range commandsByPath(t) {
		if (askingCommands[name] == "") == (silentCommands[name] == "") {
			t.Errorf("%s: got it in no list of this test or in both, want it in one", name)
		}
	}
	if listed, all := len(askingCommands)+len(silentCommands), len(commandsByPath(t)); listed != all {
		t.Errorf("the lists of this test: got %d commands, want all %d", listed, all)
	}

	m := newMachine(t)
	free := make(chan struct{}, 4)
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(askingCommands)) {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			stopAsking(t, m, name)
		})
	}
	all.Wait()
}

// stopAsking starts a command, and stops it once its server was asked.
func stopAsking(t *testing.T, m *testMachine, name string) {
	folder := t.TempDir()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	asked := make(chan struct{})
	go func() {
		for isFirst := true; ; isFirst = false {
			c, err := server.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if isFirst {
				close(asked)
			}
		}
	}()

	address := server.Addr().String()
	site := strings.ReplaceAll(m.site, m.server.URL, "https://"+address)
	root, delivered := filepath.Join(folder, "root"), filepath.Join(folder, "delivered")
	for _, file := range []string{"/etc/machine-id", "/etc/os-release", "/proc/cmdline"} {
		osfile.Write(t, root+file, m.read(file), 0o644)
		osfile.Write(t, delivered+file, m.read(file), 0o644)
	}
	osfile.Write(t, root+"/etc/prelet/site.hcl", site, 0o644)
	reference := "oci://" + address + "/site@sha256:" + strings.Repeat("0", 64)
	osfile.Write(t, delivered+"/usr/lib/prelet/site/delivery.hcl", "delivery { from = [\""+reference+"\"] }\n", 0o644)

	line := strings.NewReplacer("ROOT", root, "DELIVERED", delivered, "SERVER", address).Replace(askingCommands[name])
	program := exec.Command("prelet", strings.Fields(name+" "+line)...)
	program.Dir = folder
	program.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+m.creds)
	var out lockedBuffer
	program.Stdout, program.Stderr = &out, &out
	input, err := program.StdinPipe() // of console
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = input.Write([]byte("node.labels\n")) // a command that does not read it may have ended
	ended := make(chan struct{})
	go func() { _ = program.Wait(); close(ended) }()
	watchdog := time.AfterFunc(10*time.Minute, func() { _ = program.Process.Kill() })
	defer watchdog.Stop()

	select {
	case <-asked:
	case <-ended:
		t.Errorf("%s: got an end before a server was asked, want one asked:\n%s", name, out.String())
		return
	}
	stopped := time.Now()
	_ = program.Process.Signal(syscall.SIGTERM)
	<-ended

	took := time.Since(stopped)
	t.Logf("%s: %s after SIGTERM", name, took.Round(time.Millisecond))
	const most = 14 * time.Second // of a busy machine; no server is waited for this shortly
	status, text := program.ProcessState.ExitCode(), strings.ToLower(out.String())
	if want := fault.Interrupted.Exit(); status != want || took > most || !strings.Contains(text, "stopped") {
		t.Errorf("%s: got status %d after %s, want %d in 2s, with the reason:\n%s", name, status, took, want, out.String())
	}
}
