package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	inNamespace = "PRELET_FAULTS_DIR"   // set in the process that runs the tests: its scratch folder
	sweepMode   = "PRELET_FAULTS_SWEEP" // "nightly" or "full"; else the sweep of every change
)

// TestMain runs the tests in a mount namespace of their own, on a tmpfs: when they end, however they end, no mount
// and no loop device is left.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		os.Exit(inside(m))
	}
	dir, err := os.MkdirTemp("", "prelet-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), inNamespace+"="+dir)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	_ = os.Remove(dir) // empty again: what was in it went with the namespace
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		os.Exit(max(1, ended.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "these tests need root and a mount namespace:", err)
		os.Exit(1)
	}
}

func inside(m *testing.M) int {
	var missing []string
	for _, tool := range []string{"strace", "go", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "chattr"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(
			os.Stderr,
			"missing: %s; apt-get install strace e2fsprogs xfsprogs btrfs-progs\n",
			strings.Join(missing, ", "),
		)
		return 1
	}
	dir := os.Getenv(inNamespace)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size=75%"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need root:", err)
		return 1
	}
	code := m.Run()
	summary.print()
	if flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" &&
		!summary.enough() {
		return max(code, 1)
	}
	return code
}

// scratch is a folder of a test's own on the tmpfs.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(inNamespace), "t-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a mount that is still in it is reported by the test that made it
	return dir
}

// build makes one of this repository's programs. args go to go build.
func build(t *testing.T, out, what string, args ...string) string {
	t.Helper()
	at := filepath.Join(scratch(t), out)
	c := exec.Command("go", append(append([]string{"build", "-o", at}, args...), what)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: got %v; want no error:\n%s", c, err, text)
	}
	return at
}
