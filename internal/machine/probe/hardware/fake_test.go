package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
)

// minimal is the least that Detect takes: one CPU and some memory.
var minimal = map[string]string{
	"proc/cpuinfo":                  "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test\nflags\t\t: fpu\n",
	"proc/meminfo":                  "MemTotal:        1048576 kB\n",
	"sys/devices/system/cpu/online": "0\n",
}

// tree makes a machine: minimal, with files over it. A text "-> x" is a link to x, "-" takes a file away.
func tree(t testing.TB, files map[string]string) rootTree {
	t.Helper()
	opened, err := openRoot(t.TempDir())
	must(t, err)
	t.Cleanup(func() { opened.Close() })
	machine := opened.(rootTree)
	for _, layer := range []map[string]string{minimal, files} {
		for name, text := range layer {
			if files[name] != "-" {
				machine.put(t, name, text)
			}
		}
	}
	return machine
}

func (t rootTree) put(tb testing.TB, name, text string) {
	tb.Helper()
	err := t.root.MkdirAll(path.Dir(name), 0o755)
	if target, isLink := strings.CutPrefix(text, "-> "); isLink {
		err = errors.Join(err, t.root.Symlink(target, name))
	} else {
		err = errors.Join(err, t.root.WriteFile(name, []byte(text), 0o644))
	}
	must(tb, err)
}

// pci adds a function to files, as its folder below /sys/bus/pci/devices.
func pci(files map[string]string, address, id, class, driver string, more map[string]string) {
	folder := pciFolder + "/" + address + "/"
	files[folder+"vendor"], files[folder+"device"], files[folder+"class"] = "0x"+id[:4], "0x"+id[5:], "0x"+class
	files[folder+"subsystem_vendor"], files[folder+"subsystem_device"], files[folder+"numa_node"] = "0x0000", "0x0000", "0"
	if driver != "" {
		files[folder+"driver"] = "-> ../../../../bus/pci/drivers/" + driver
	}
	for name, text := range more {
		files[folder+name] = text
	}
}

// shuffled lists folders in another order each time, as kernels may.
type shuffled struct {
	Tree
	random *rand.Rand
}

func (s shuffled) ReadDir(name string) ([]string, error) {
	names, err := s.Tree.ReadDir(name)
	s.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names, err
}

// faulty fails to read the files for which fail returns an error, hangs or panics.
type faulty struct {
	Tree
	fail func(name string) error
}

func (f faulty) ReadFile(name string, limit int) ([]byte, error) {
	if err := f.fail(name); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return f.Tree.ReadFile(name, limit)
}

// hanging is a machine that calls hung and hangs at one file, until the end of the test.
func hanging(t *testing.T, machine Tree, file string, hung func()) faulty {
	let := make(chan struct{})
	t.Cleanup(func() { close(let) })
	return faulty{machine, func(name string) error {
		if name == file {
			hung()
			<-let
		}
		return nil
	}}
}

func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// number prints a number as it is written, and - for what is not known.
func number[T int | int64 | float64](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}
