package hardware

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestFoldersAgree reads the same names through the kernel's resolution and through os.Root, which must not differ in
// what they give or refuse: a recorded tree is input from outside.
func TestFoldersAgree(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "tree")
	for _, d := range []string{"sys/devices/gpu", "sys/bus", "proc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"../secret": "outside\n", "sys/devices/gpu/vendor": "0x10de\n", "proc/empty": "", "proc/page": strings.Repeat("x", 4096),
		"proc/256": strings.Repeat("y", 256), "proc/long": strings.Repeat("line\n", 9000),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"sys/bus/gpu": "../devices/gpu", "sys/bus/round": "../../sys/../proc/page", "sys/bus/out": "../../../secret", "sys/bus/absolute": "/proc/meminfo",
		"sys/bus/loop": "loop", "sys/bus/nowhere": "nothing", "sys/bus/top": "../..", "sys/bus/above": "../../..",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "proc/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}

	kernel, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	root, err := openRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if reflect.TypeOf(kernel) == reflect.TypeOf(root) {
		t.Skip("this kernel or sandbox has no openat2")
	}
	given := 0
	agree := func(what, name string, a, b string, errA, errB error) {
		t.Helper()
		if (errA == nil) != (errB == nil) || absent(errA) != absent(errB) || a != b {
			t.Errorf("%s %s: the kernel's way gives %.40q (%v), os.Root %.40q (%v)", what, name, a, errA, b, errB)
		}
		if errA == nil {
			given++
		} else if p, ok := errA.(*fs.PathError); !ok || p.Path != name {
			t.Errorf("%s %s: the error %v does not name it by its path in the tree", what, name, errA)
		}
	}
	for _, name := range []string{
		"sys/devices/gpu/vendor", "sys/bus/gpu/vendor", "sys/bus/gpu", "sys/bus/round", "sys/bus/out", "sys/bus/absolute", "sys/bus/loop",
		"sys/bus/nowhere", "sys/bus/top", "sys/bus/top/proc/256", "sys/bus/above", "sys/bus/above/secret", "proc/empty", "proc/page", "proc/256", "proc/long",
		"proc/pipe", "proc", "proc/page/x", "../secret", "/etc/passwd", "sys/../proc/256", "sys/../../secret",
	} {
		for _, limit := range []int{1, 256, 4096, 1 << 20} {
			a, errA := kernel.ReadFile(name, limit)
			b, errB := root.ReadFile(name, limit)
			agree("file", name, string(a), string(b), errA, errB)
			if len(a) > limit {
				t.Errorf("file %s: %d bytes, at most %d were asked for", name, len(a), limit)
			}
		}
		a, errA := kernel.ReadDir(name)
		b, errB := root.ReadDir(name)
		slices.Sort(a)
		slices.Sort(b)
		agree("folder", name, strings.Join(a, "/"), strings.Join(b, "/"), errA, errB)
		x, errA := kernel.ReadLink(name)
		y, errB := root.ReadLink(name)
		agree("link", name, x, y, errA, errB)
	}
	if given < 40 {
		t.Errorf("only %d of the answers are no error: the tree is not what this test thinks", given)
	}
}
