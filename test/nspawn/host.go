package nspawn

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/test/matrix"
)

const (
	cacheVariable = "PRELET_BOOT_CACHE" // the folder that test/boot/image.sh has filled
	inNamespaces  = "PRELET_TEST_NAMESPACES"
)

// Cache returns the folder that test/boot/image.sh has filled; machines are in its folder run. Without one the test is
// skipped.
func Cache(t *testing.T) string {
	t.Helper()
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		t.Skip("this boots machines: make e2e-boot, make e2e-hostile")
	}

	return cache
}

// Main runs the tests in their own mount namespace: other mount namespaces that are made meanwhile do not keep the
// disks busy, and none is left mounted. First it checks that the folder contains the output of this tree, and removes
// the machines of tests that were killed, because they do not end by themselves. It returns the exit status.
func Main(tests *testing.M, image string) int {
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		return tests.Run()
	}
	run := filepath.Join(cache, "run")
	if InNamespaces() {
		if err := shareMounts(run); err != nil {
			fmt.Fprintln(os.Stderr, "the folder of the machines:", err)
			return 1
		}
		return runWatched(tests, cache)
	}
	if out, err := exec.Command(image, "--check", cache).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", cache, err, out)
		return 1
	}
	left, _ := filepath.Glob(run + "/prelet-*")
	for _, dir := range left {
		var pid, number int
		if _, err := fmt.Sscanf(filepath.Base(dir), "prelet-%d-%d", &pid, &number); err == nil &&
			syscall.Kill(pid, 0) == syscall.ESRCH {
			removeMachine(dir)
		}
	}

	return Unshare(syscall.CLONE_NEWNS)
}

// booted are the tests that have booted a machine, or would have.
var booted matrix.Run

// Watch counts a test that may end before it has a machine.
func Watch(t *testing.T) { booted.Watch(t) }

// runWatched runs the tests, and writes the result if they are all of the suite.
func runWatched(tests *testing.M, cache string) int {
	status := tests.Run()
	selected := flag.Lookup("test.run")
	if selected != nil && selected.Value.String() != "" || os.Getenv("PRELET_BOOT_SAMPLE") != "" {
		return status
	}
	if status != 0 {
		booted.Fail("what needs no machine")
	}
	if err := booted.Write(cache, cache+"/debian"); err != nil {
		fmt.Fprintln(os.Stderr, "the result:", err)
		return 1
	}

	return status
}

// InNamespaces reports whether Unshare has started this process.
func InNamespaces() bool { return os.Getenv(inNamespaces) != "" }

// Unshare runs this program again in namespaces of its own, and returns its exit status.
func Unshare(namespaces uintptr) int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespaces+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: namespaces, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		return max(1, ended.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "machines are booted by root only, in namespaces of the test:", err)
		return 1
	}

	return 0
}

// shareMounts makes an unmount below a folder reach every machine's namespace: a machine inherits the mounts of the
// others when it starts, and would otherwise hold their disks and loop devices for as long as it runs.
func shareMounts(folder string) error {
	return errors.Join(
		os.MkdirAll(folder, 0o755),
		syscall.Mount(folder, folder, "", syscall.MS_BIND, ""),
		syscall.Mount("", folder, "", syscall.MS_SHARED, ""),
	)
}

// groups are the control groups that systemd needs: one where this host has version 2 only, else its two.
func groups(name string) (out []string) {
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"} {
		if _, err := os.Stat(hierarchy + "/cgroup.procs"); err == nil {
			out = append(out, filepath.Join(hierarchy, name))
		}
	}

	return out
}

// Processes returns the processes in the control groups of a machine.
func Processes(name string) (pids []int) {
	for _, group := range groups(name) {
		_ = filepath.WalkDir(group, func(path string, _ fs.DirEntry, _ error) error {
			procs, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for _, field := range strings.Fields(string(procs)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}

	return pids
}

// removeMachine removes the files and mounts of a machine, and ends the processes that still run in it.
func removeMachine(dir string) {
	name := filepath.Base(dir)
	for _, pid := range Processes(name) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, at := range []string{dir + "/root", dir + "/disk"} {
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
	}
	if left, err := os.ReadDir(dir + "/root"); err == nil && len(left) == 0 { // never below a mount that stayed
		_ = os.RemoveAll(dir)
	}
	for _, group := range groups(name) {
		for range 40 { // killed processes are in it for a moment
			_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
			if _, err := os.Stat(group); err != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	_ = exec.Command("ip", "netns", "del", name).Run()
}
