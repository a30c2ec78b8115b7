package images

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// isMachine is true only for the root of the first process of the machine, in the first PID namespace.
func TestIsMachine(t *testing.T) {
	for name, c := range map[string]struct {
		processes, first string
		want             bool
	}{
		"machine":               {firstProcesses, "root", true},
		"chroot":                {firstProcesses, "other", false},
		"container":             {"pid:[4026532201]", "root", false},
		"unknown first process": {firstProcesses, "none", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			err := errors.Join(
				os.MkdirAll(at("proc/self/ns"), 0o700),
				os.MkdirAll(at("proc/1"), 0o700),
				os.Mkdir(at("root"), 0o700),
				os.Mkdir(at("other"), 0o700),
				os.Symlink(c.processes, at("proc/self/ns/pid")),
				os.Symlink(at(c.first), at("proc/1/root")),
			)
			if err != nil {
				t.Fatal(err)
			}
			if got := isMachine(at("root"), at("proc")); got != c.want {
				t.Errorf("got %t; want %t", got, c.want)
			}
		})
	}
}
