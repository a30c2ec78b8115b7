package fakeroot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

func TestParse(t *testing.T) {
	tree, err := fakeroot.Parse(`
# a comment
pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1
@0000:3b:00.0/net/ens1f0/speed = 25000
/sys/class/net/ens1f0 -> ../../devices/pci0000:3b/0000:3b:00.0/net/ens1f0
/proc/version = "no newline"
/sys/class/infiniband/
`)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := tree.Write(dir); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"sys/class/net/ens1f0/speed": "25000\n", "proc/version": "no newline", "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x8086\n",
		"sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n", "sys/bus/pci/devices/0000:3b:00.0/net/ens1f0/speed": "25000\n",
	} {
		if b, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v, want the content of the description", p, b, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "sys/bus/pci/devices/0000:3b:00.0/driver")); err != nil ||
		filepath.Base(to) != "ice" {
		t.Error(to, err)
	}
	if s, err := os.Stat(filepath.Join(dir, "sys/class/infiniband")); err != nil || !s.IsDir() {
		t.Error(err)
	}
}

func TestWrongLines(t *testing.T) {
	for _, line := range []string{"sys/x = y", "/../x = y", "/a//b = c", "nonsense", "/x = \"unfinished", "pci 3b:00.0 8086:159b 8086:0002 020000", "pci 0000:3b:00.0 8086:159b 8086:0002 0200",
		"pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice node=1", "@x/speed = 1", "/ -> x"} {
		if _, err := fakeroot.Parse("# first\n" + line); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("line %q: got %v, want an error", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1\n/a -> ../../etc\n/b/")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = fakeroot.Parse(text) // no panic
	})
}
