package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestFindRepositories looks for files of repositories one folder below the working folder, but not in the root of a
// machine: there it must open no folder.
func TestFindRepositories(t *testing.T) {
	const asChild = "PRELET_TEST_FIND"
	if root := os.Getenv(asChild); root != "" {
		if err := errors.Join(syscall.Chroot(root), os.Chdir(os.Getenv("FOLDER"))); err != nil {
			t.Fatal(err)
		}
		fmt.Println("found", findRepositories())
		return
	}
	if os.Getuid() != 0 {
		t.Skip("chroot(2) needs root")
	}

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	osfile.Write(t, filepath.Join(root, "sites/.prelet.hcl"), "", 0o644)
	osfile.Write(t, filepath.Join(root, "home/sites/.prelet.hcl"), "", 0o644)

	for folder, want := range map[string]string{"/": "found []", "/home": "found [sites/.prelet.hcl]"} {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestFindRepositories$")
		cmd.Env = []string{asChild + "=" + root, "FOLDER=" + folder}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want+"\n") {
			t.Errorf("in %s: got %q, %v; want %q", folder, out, err, want)
		}
	}
}
