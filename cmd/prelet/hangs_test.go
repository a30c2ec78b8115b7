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

// TestNoCommandHangs runs each command on a node of which one folder never answers: by itself it ends within its
// bound, and after SIGTERM it ends at once. What waited says for which path.
func TestNoCommandHangs(t *testing.T) {
	t.Parallel()

	m := newMachine(t)
	m.site = strings.Replace(m.site, "stage \"write\" \"kubelet\" {}\n", hangingSite, 1)
	m.put("/etc/prelet/site.hcl", m.site)
	m.put("/mnt/data/.keep", "")
	m.mustBeGood(m.boot())

	paths := []string{"/var/lib/prelet", "/etc/prelet", "/etc/extra", "/mnt/data", "/etc/kubernetes"}
	commands := []string{
		"plan", "status", "history", "doctor", "detectors list", "run", "record out.prelet", "bundle out.tar.gz",
		"validate", "plan --config HANGING", "validate HANGING", "plan --hardware HANGING",
	}
	hanging := map[string]string{} // by the place, a root in which it does not answer
	for _, path := range paths {
		root := filepath.Join(t.TempDir(), "root")
		m.copyTree(m.root, root)
		hangfs.MountOn(t, root+path)
		hanging[path] = root
	}

	var all sync.WaitGroup
	waited := make(chan string, 2*len(paths)*len(commands))
	free := make(chan struct{}, 24)
	for path, root := range hanging {
		for _, command := range commands {
			for _, isStopped := range []bool{false, true} {
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
	t.Logf("%d cases, %d of them waited", 2*len(paths)*len(commands), len(of))
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
	args := strings.Fields(strings.ReplaceAll(h.command, "HANGING", at))
	if args[0] != "validate" {
		args = append(args, "--root", h.root)
	}
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
	end := time.After(2 * time.Minute)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	isSignalled := false
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
				_ = c.Process.Signal(syscall.SIGTERM)
			}
		}
	}

	text := out.String()
	first, _, _ := strings.Cut(text, waiting)
	if h.command == "status" && h.path == "/var/lib/prelet" && !strings.Contains(first, "kubelet  ") {
		h.t.Errorf("status with %s: got no line before it waits, want what needs no generation:\n%s", h.path, text)
	}
	hasWaited = strings.Contains(text, waiting)
	if hasWaited && !strings.Contains(text, waiting+at) {
		h.t.Errorf("%s with %s: got a wait for another path, want one for it:\n%s", h.command, h.path, text)
	}
	if isSignalled && !strings.Contains(strings.ToLower(text), "stopped by a signal") {
		h.t.Errorf("%s with %s, after SIGTERM: got an end without its reason, want one:\n%s", h.command, h.path, text)
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
