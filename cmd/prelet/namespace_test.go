package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/osfile"
)

const mountNamespace = "PRELET_TEST_NAMESPACE"

// TestNodesInNamespace runs the scripts of TestNodes that mount: mounts_*.txtar, whose folders are read-only or full. It
// starts itself in a user and mount namespace of its own, where / belongs to root only if root made the namespace.
func TestNodesInNamespace(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("needs root: to another user's namespace / belongs to nobody, and prelet trusts no file below it")
	}

	c := exec.Command(os.Args[0], "-test.run=^TestNodes$/^mounts_", "-test.v")
	c.Env = append(os.Environ(), mountNamespace+"=1", "PRELET_SWEEP=") // all of them, also in a quick run
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		t.Skipf("needs a user namespace, which this kernel does not permit: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNodes/mounts_") ||
		strings.Contains(string(out), "--- SKIP") {
		t.Errorf("in the namespace: got error %v, want each script to pass\n%s", err, out)
	}
}

// TestMountsNeedRoot: a script that mounts says so, or the tests of a user who is not root are red with it.
func TestMountsNeedRoot(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/nodes/*.txtar")
	noError(t, err)
	mounts := 0
	for _, name := range scripts {
		text := string(osfile.Read(t, name))
		if !strings.Contains(text, "\nmount ") {
			continue
		}
		mounts++
		if !strings.Contains(text, "[!namespace] skip") && !strings.Contains(text, "[!root] skip") {
			t.Errorf("%s mounts: got neither [!namespace] skip nor [!root] skip, want one", name)
		}
	}
	if mounts == 0 {
		t.Error("got no script that mounts, want some")
	}
}
