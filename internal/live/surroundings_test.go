package live

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

func TestSurroundings(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/v2/cgroup.controllers", "cpu\n")
	place(t, root, "/v1/memory/tasks", "1\n")
	for dir, want := range map[string]int{"/v2": 2, "/v1": 1, "/none": 0} {
		if got := cgroupVersion(filepath.Join(root, dir)); got != want {
			t.Errorf("%s: %d, want %d", dir, got, want)
		}
	}
	place(t, root, "/mounts", "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"+
		"cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\ncgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
	if got := hierarchies(filepath.Join(root, "mounts")); !slices.Equal(got, []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd"}) {
		t.Errorf("%q", got)
	}
	if got := hierarchies(filepath.Join(root, "none")); got != nil {
		t.Errorf("%q", got)
	}
	if got, whole := diskBytes(root), diskBytes(filepath.Join(root, "none/at/all")); got <= 0 || got != whole {
		t.Errorf("%d, and for what is not there %d", got, whole)
	}
	place(t, root, "/sys/kernel/panic", "10\n")
	place(t, root, "/sys/vm/panic_on_oom", "no number\n")
	if got := sysctls(filepath.Join(root, "sys")); len(got) != 1 || got["kernel/panic"] != 10 {
		t.Errorf("%v", got)
	}
	place(t, root, "/off", "Filename\tType\tSize\tUsed\tPriority\n")
	place(t, root, "/on", "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2\tpartition\t1\t0\t-2\n")
	for file, want := range map[string]bool{"/off": false, "/on": true} {
		if got := swapOn(filepath.Join(root, file)); got == nil || *got != want {
			t.Errorf("%s: %v, want %t", file, got, want)
		}
	}
	if got := swapOn(filepath.Join(root, "/none")); got != nil {
		t.Errorf("got %v", *got)
	}
}

func TestExists(t *testing.T) {
	dir := t.TempDir()
	here := &Live{}
	for p, want := range map[string]string{dir: `{"exists":true}`, filepath.Join(dir, "none"): `{"exists":false}`} {
		if a := here.exists(p); a.Fault != nil || string(a.Value) != want {
			t.Errorf("%s: %+v", p, a)
		}
	}
	if a := (&Live{o: Options{Root: dir}}).exists("/etc"); a.Code() != fault.Absent {
		t.Errorf("below another root: %+v", a)
	}
}

func place(t *testing.T, root, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
