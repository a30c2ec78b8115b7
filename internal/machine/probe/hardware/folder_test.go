package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestFolder reads names of a recorded tree in a folder. It is input from outside: a link inside of the tree is
// followed, and one that leads out of it, or is absolute, is refused.
func TestFolder(t *testing.T) {
	tree := tree(t, map[string]string{
		"sys/devices/gpu/vendor": "0x10de\n", "proc/empty": "", "proc/page": strings.Repeat("x", 4096),
		"proc/256": strings.Repeat("y", 256), "proc/long": strings.Repeat("line\n", 9000),
		"sys/bus/gpu": "-> ../devices/gpu", "sys/bus/round": "-> ../../sys/../proc/page", "sys/bus/out": "-> ../../../secret",
		"sys/bus/absolute": "-> /proc/meminfo", "sys/bus/loop": "-> loop", "sys/bus/nowhere": "-> nothing",
		"sys/bus/top": "-> ../..", "sys/bus/above": "-> ../../..",
	})
	dir := tree.root.Name()
	write(t, filepath.Join(dir, "../secret"), "outside\n")
	must(t, syscall.Mkfifo(filepath.Join(dir, "proc/pipe"), 0o600))

	const long = "line\n"
	for name, want := range map[string]string{
		"sys/devices/gpu/vendor": "0x10de\n", "sys/bus/gpu/vendor": "0x10de\n", "sys/bus/round": strings.Repeat("x", 4096),
		"sys/bus/top/proc/256": strings.Repeat("y", 256), "sys/../proc/256": strings.Repeat("y", 256), "proc/empty": "",
		"proc/long": strings.Repeat(long, 9000),
	} {
		for _, limit := range []int{1, 256, 4096, 1 << 20} {
			got, err := tree.ReadFile(name, limit)
			if cut := want[:min(limit, len(want))]; err != nil || string(got) != cut {
				t.Errorf("first %d bytes of %s: got %d bytes and %v, want %d", limit, name, len(got), err, len(cut))
			}
		}
	}

	for name, want := range map[string]error{
		"sys/bus/out": errEscapes, "sys/bus/absolute": errEscapes, "sys/bus/above/secret": errEscapes, "../secret": errEscapes,
		"/etc/passwd": errEscapes, "sys/../../secret": errEscapes, "sys/bus/loop": syscall.ELOOP, "sys/bus/nowhere": fs.ErrNotExist,
		"proc/page/x": syscall.ENOTDIR, "proc/pipe": errNotRegular, "proc": errNotRegular, "sys/bus/gpu": errNotRegular,
	} {
		got, err := tree.ReadFile(name, 10)
		if path := (*fs.PathError)(nil); !errors.Is(err, want) || !errors.As(err, &path) || path.Path != name {
			t.Errorf("%s: got %q and %v, want the error %v with the path in the tree", name, got, err, want)
		}
	}

	names, err := tree.ReadDir("sys/bus/gpu")
	if err != nil || !slices.Equal(names, []string{"vendor"}) {
		t.Errorf("folder behind a link: got %q and %v, want vendor", names, err)
	}
	if names, err := tree.ReadDir("sys/bus/above"); !errors.Is(err, errEscapes) {
		t.Errorf("folder above the tree: got %q and %v, want %v", names, err, errEscapes)
	}

	target, err := tree.ReadLink("sys/bus/out")
	if err != nil || target != "../../../secret" {
		t.Errorf("link that leads out: got %q and %v, want its target as it is written", target, err)
	}
	if target, err := tree.ReadLink("proc/page"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("link that is a file: got %q and %v, want %v", target, err, syscall.EINVAL)
	}
}

// TestReadTreeNamesWhatItTakes refuses other files, and pipes without opening them: reading one would wait.
func TestReadTreeNamesWhatItTakes(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "machine.tar.gz"), filepath.Join(dir, "pipe")
	must(t, errors.Join(os.WriteFile(file, nil, 0o644), syscall.Mkfifo(pipe, 0o600)))
	for _, name := range []string{file, pipe} {
		if _, err := ReadTree(name); err == nil || !strings.Contains(err.Error(), "neither a folder nor a .json") {
			t.Errorf("%s: got %v, want an error that lists what it takes", name, err)
		}
	}
}
