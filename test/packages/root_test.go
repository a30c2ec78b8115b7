package packages

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// recorder is the systemctl of a root: it appends its arguments to /systemctl.calls. Enabling works without a systemd.
const recorder = `#!/bin/sh
echo "$*" >>/systemctl.calls
case $* in
*preset* | *enable* | *disable*) SYSTEMD_OFFLINE=1 exec "$0.real" "$@" ;;
esac
`

// root is a Debian system that looks like one that runs.
type root struct {
	t   *testing.T
	dir string
}

// newRoot mounts an overlay over the root of a Debian suite. The caller's goroutine stays on its thread, which is in a
// mount namespace of its own: the mounts go with the goroutine.
func newRoot(t *testing.T, suite string) *root {
	t.Helper()
	lower, err := filepath.Abs(filepath.Join(".cache", suite))
	must(t, err)
	requireWanted(t)
	if _, err := os.Stat(lower); err != nil {
		t.Fatalf("%v. Try: test/packages/roots.sh", err)
	}

	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Fatalf("unshare: %v. The tests need root", err)
	}

	disk := t.TempDir()
	mount(t, "none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	mount(t, "tmpfs", disk, "tmpfs", 0, "mode=0755")
	r := &root{t: t, dir: filepath.Join(disk, "root")}
	for _, dir := range []string{"upper", "work", "root"} {
		must(t, os.Mkdir(filepath.Join(disk, dir), 0o755))
	}
	mount(t, "overlay", r.dir, "overlay", 0,
		fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, disk, disk))
	mount(t, "proc", r.dir+"/proc", "proc", 0, "")
	t.Cleanup(func() {
		_ = syscall.Unmount(r.dir+"/proc", syscall.MNT_DETACH)
		_ = syscall.Unmount(r.dir, syscall.MNT_DETACH)
		_ = syscall.Unmount(disk, syscall.MNT_DETACH)
	})

	systemctl := strings.TrimSpace(r.run("sh", "-c", "command -v systemctl")) // in /bin where /usr is not merged
	r.run("mv", systemctl, systemctl+".real")
	r.write(systemctl, recorder)
	r.run("chmod", "755", systemctl)
	r.run("mkdir", "-p", "/run/systemd/system")

	return r
}

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mount %s at %s: %v", kind, target, err)
	}
}

// run runs a command in the root and returns its output.
func (r *root) run(name string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("/usr/sbin/chroot", append([]string{r.dir, name}, args...)...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %s: got %v, want no error\n%s", name, strings.Join(args, " "), err, out)
	}

	return string(out)
}

func (r *root) write(path, content string) {
	r.t.Helper()
	path = filepath.Join(r.dir, path)
	must(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(r.t, os.WriteFile(path, []byte(content), 0o600))
}

// exists reports whether something is at path. A link is not followed.
func (r *root) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(r.dir, path))
	return err == nil
}

// calls returns the arguments of all calls of systemctl since the last time.
func (r *root) calls() []string {
	path := filepath.Join(r.dir, "systemctl.calls")
	content, _ := os.ReadFile(path) // missing: not called
	_ = os.Remove(path)

	return strings.FieldsFunc(string(content), func(c rune) bool { return c == '\n' })
}

// state returns what is below some folders: from path to what describe returns.
func (r *root) state(folders ...string) map[string]string {
	r.t.Helper()
	state := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(r.dir, folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == filepath.Join(r.dir, folder) {
				return err
			}
			state[strings.TrimPrefix(path, r.dir)], err = describe(path, e)

			return err
		})
		must(r.t, err)
	}

	return state
}

// describe returns the mode and the owner of a file, and for a regular one its time and its content, for a link its
// target.
func describe(path string, e fs.DirEntry) (string, error) {
	info, err := e.Info()
	if err != nil {
		return "", err
	}

	var content string
	owner := info.Sys().(*syscall.Stat_t)
	switch {
	case e.Type().IsRegular():
		var text []byte
		text, err = os.ReadFile(path)
		content = fmt.Sprintf("%s\n%s", info.ModTime(), text)
	case e.Type() == fs.ModeSymlink:
		content, err = os.Readlink(path)
	}

	return fmt.Sprintf("%s %d:%d %s", info.Mode(), owner.Uid, owner.Gid, content), err
}

// diff describes the first file that differs between two states, or is empty.
func diff(got, want map[string]string) string {
	paths := slices.Sorted(maps.Keys(want))
	for path := range got {
		paths = append(paths, path)
	}
	for _, path := range paths {
		if got[path] != want[path] {
			return fmt.Sprintf("%s: got %q, want %q", path, got[path], want[path])
		}
	}

	return ""
}
