package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
)

// hangingSite has a file of a block, and a path that an expression asks for.
const hangingSite = `
stage "write" "kubelet" {
  file "extra" {
    path    = "/etc/extra/pool"
    content = fileexists("/mnt/data/x") ? "b" : "a"
  }
}
`

// hangingJoin is a file that import reads, before the patches that it is given.
const hangingJoin = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: 10.0.0.1:6443
    token: abcdef.0123456789abcdef
    caCertHashes: ["sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]
`

// TestNoCommandHangs runs each command on a node of which one folder never answers: by itself it ends within its
// bound, and after SIGTERM it ends at once. What waited says for which path.
func TestNoCommandHangs(t *testing.T) {
	t.Parallel()

	m := newMachine(t)
	m.site = strings.Replace(m.site, "stage \"write\" \"kubelet\" {}\n", hangingSite, 1)
	m.put("/etc/prelet/site.hcl", m.site)
	for _, folder := range []string{"/mnt/data", "/opt/bin", namedFolder} {
		m.put(folder+"/.keep", "")
	}
	m.mustBeGood(m.boot())

	paths := []string{
		"/var/lib/prelet", "/etc/prelet", "/etc/extra", "/mnt/data", "/etc/kubernetes", "/opt/bin", namedFolder,
	}
	hanging := map[string]string{} // by the place, a root in which it does not answer
	for _, path := range paths {
		root := filepath.Join(t.TempDir(), "root")
		m.copyTree(m.root, root)
		hangfs.MountOn(t, root+path)
		hanging[path] = root
	}

	var all sync.WaitGroup
	waited := make(chan string, 2*len(paths)*len(namingCommands()))
	cases := 0
	free := make(chan struct{}, 24)
	for path, root := range hanging {
		commands := plainCommands()
		if path == namedFolder {
			commands = namingCommands()
		}
		for _, command := range commands {
			for _, isStopped := range []bool{false, true} {
				cases++
				h := hangingCase{t, m.creds, root, path, command, isStopped, t.TempDir()}
				all.Go(func() {
					free <- struct{}{}
					defer func() { <-free }()
					if h.run() {
						waited <- path
					}
				})
			}
		}
	}
	all.Wait()
	close(waited)

	var of []string
	for path := range waited {
		of = append(of, path)
	}
	for _, path := range paths {
		if !slices.Contains(of, path) {
			t.Errorf("%s: got no command that waits for it, want some", path)
		}
	}
	t.Logf("%d cases, %d of them waited", cases, len(of))
}

// plainCommands are the commands that read a node by themselves.
func plainCommands() []string {
	return []string{
		"plan --root ROOT", "status --root ROOT", "history --root ROOT", "doctor --root ROOT", "run --root ROOT",
		"detectors list --root ROOT", "record out.prelet --root ROOT", "bundle out.tar.gz --root ROOT",
		"rollback --root ROOT", "recover --root ROOT", "validate",
	}
}

// namedFolder is on no path that a command reads by itself.
const namedFolder = "/mnt/named"

// namingCommands are the commands that name a path, each with every flag and argument that is one.
func namingCommands() []string {
	return []string{
		"plan --root ROOT --config HANGING", "plan --hardware HANGING", "plan --hardware HANGING/x",
		"plan --root ROOT --kubelet HANGING/kubelet", "plan --root ROOT --kubelet HANGING",
		"plan --root ROOT --objects HANGING", "plan --root ROOT --var-file HANGING/x", "plan --root HANGING",
		"plan --from HANGING", "plan --from HANGING/x.prelet", "plan --from HANGING/x.tar.gz",
		"upgrade --to 1.36 --from HANGING", "upgrade --root ROOT --kubelet HANGING/kubelet",
		"explain --from HANGING node", "validate HANGING", "validate HANGING/x.hcl", "seal --root HANGING",
		"fmt HANGING", "fmt HANGING/x.hcl", "test HANGING", "test HANGING/x.prelettest.hcl",
		"import HANGING --out new", "import HANGING/x --out new", "import x --out HANGING/new",
		"import kubeadm.yaml --out new --patches HANGING/patches",
		"detectors check HANGING/x", "detectors lock HANGING/x", "fleet merge out HANGING",
		"site sign HANGING --key x", "site sign ROOT/etc/prelet --key HANGING/x",
		"site verify HANGING --signers x", "site verify ROOT/etc/prelet --signers HANGING/x", "eval 1 --root HANGING", "report --html page --from HANGING", "plan --root ROOT --against HANGING",
	}
}

// hangingCase is a command on a node on which a folder never answers.
type hangingCase struct {
	t         *testing.T
	creds     string
	root      string
	path      string // the folder
	command   string
	isStopped bool // by SIGTERM, once it says that it waits
	folder    string
}

// run runs the case, and reports whether the command waited.
func (h hangingCase) run() (hasWaited bool) {
	at := h.root + h.path
	args := strings.Fields(strings.NewReplacer("HANGING", at, "ROOT", h.root).Replace(h.command))
	must(h.t, os.WriteFile(filepath.Join(h.folder, "kubeadm.yaml"), []byte(hangingJoin), 0o644))
	c := exec.Command("prelet", args...)
	c.Dir = h.folder
	c.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+h.creds)
	var out lockedBuffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		h.t.Error(err)
		return false
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()

	const waiting = "prelet: waiting for "
	end := time.After(10 * time.Minute)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	isSignalled, isInTime := false, false
	began := time.Now()
	for isOver := false; !isOver; {
		select {
		case <-ended:
			isOver = true
		case <-end:
			h.t.Errorf("%s with %s: got no end, want one:\n%s", h.command, h.path, out.String())
			_ = c.Process.Kill()
			return true
		case <-look.C:
			if h.isStopped && !isSignalled && strings.Contains(out.String(), waiting+at) {
				isSignalled = true
				// On a machine that stood still the wait is over by now, and the command may be at its end.
				isInTime = time.Since(began) < nodefile.Patience/2
				_ = c.Process.Signal(syscall.SIGTERM)
			}
		}
	}

	text := out.String()
	first, _, _ := strings.Cut(text, waiting)
	if strings.HasPrefix(h.command, "status") && h.path == "/var/lib/prelet" && !strings.Contains(first, "kubelet  ") {
		h.t.Errorf("status with %s: got no line before it waits, want what needs no generation:\n%s", h.path, text)
	}
	hasWaited = strings.Contains(text, waiting)
	if hasWaited && !strings.Contains(text, waiting+at) {
		h.t.Errorf("%s with %s: got a wait for another path, want one for it:\n%s", h.command, h.path, text)
	}
	if isInTime && !strings.Contains(strings.ToLower(text), "stopped by a signal") {
		h.t.Errorf("%s with %s, after SIGTERM: got an end without its reason, want one:\n%s", h.command, h.path, text)
	}
	if isInTime && strings.Contains(text, "did not answer within") {
		h.t.Errorf("%s with %s, after SIGTERM: got the end of the wait, want an end before it:\n%s", h.command, h.path, text)
	}

	return hasWaited
}

// lockedBuffer can be read while a process writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}
