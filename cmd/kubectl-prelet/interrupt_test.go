package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupt checks that Ctrl-C ends the program while it reads a kubeconfig that does not answer.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	if pipe := os.Getenv("PRELET_RUNS_MAIN"); pipe != "" {
		os.Args = []string{"kubectl-prelet", "--kubeconfig", pipe}
		main()
		return
	}
	pipe := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, syscall.Mkfifo(pipe, 0o600))

	cmd := exec.Command(os.Args[0], "-test.run=^TestInterrupt$")
	cmd.Env = append(os.Environ(), "PRELET_RUNS_MAIN="+pipe)
	var text strings.Builder
	cmd.Stderr = &text
	must(t, cmd.Start())
	for { // until it reads
		w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			defer w.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil || !strings.Contains(text.String(), "does not answer") {
		t.Errorf("got %v, %q; want an error that says what does not answer", err, text.String())
	}
}
