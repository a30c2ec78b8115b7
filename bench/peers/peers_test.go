package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// TestCheckFiles: a program that did not do its work is an error, and not a fast program.
func TestCheckFiles(t *testing.T) {
	b := &bench{base: t.TempDir()}
	first := &node{root: filepath.Join(b.base, "n1")}
	put(t, first.root, "etc/a", "text")
	if err := b.checkFiles(program{name: firstName, files: []string{"etc/a"}}, first); err != nil {
		t.Fatalf("the first run: got %v, want no error", err)
	}

	tests := []struct {
		text string
		same bool
		want string // of the error; "" for none
	}{
		{"text", true, ""},
		{"other", false, ""},
		{"other", true, "want prelet's\ntext"},
		{"", false, "empty file etc/a"},
	}
	for _, test := range tests {
		n := &node{root: t.TempDir()}
		put(t, n.root, "etc/a", test.text)
		err := b.checkFiles(program{name: "peer", files: []string{"etc/a"}, same: test.same}, n)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("file %q, same %v: got %v, want %q", test.text, test.same, err, test.want)
		}
	}

	err := b.checkFiles(program{name: "peer", files: []string{"etc/a"}}, &node{root: t.TempDir()})
	if err == nil {
		t.Error("a missing file: got no error, want one")
	}
}

// TestStatFiles: a file with the same text was still written.
func TestStatFiles(t *testing.T) {
	n, p := &node{root: t.TempDir()}, program{keeps: true, files: []string{"etc/a"}}
	stat := func() []fileState {
		t.Helper()
		all, err := p.statFiles(n)
		if err != nil || len(all) != 1 {
			t.Fatalf("statFiles: got %+v, %v; want one file and no error", all, err)
		}

		return all
	}

	put(t, n.root, "etc/a", "text")
	before := stat()
	if after := stat(); !slices.Equal(before, after) {
		t.Errorf("an unchanged file: got %+v, want %+v", after, before)
	}
	put(t, n.root, "etc/b", "text")
	if err := os.Rename(filepath.Join(n.root, "etc/b"), filepath.Join(n.root, "etc/a")); err != nil {
		t.Fatal(err)
	}
	if after := stat(); slices.Equal(before, after) {
		t.Errorf("a file that was replaced with the same text: got %+v, want another state", after)
	}
}

// TestRemoveLeftovers: the folder of a killed run is removed, that of a run in progress is not.
func TestRemoveLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{prefix + "killed", prefix + "running", "other"} {
		put(t, dir, name+"/n1/file", "text")
	}
	lock, err := os.Open(filepath.Join(dir, prefix+"running"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}

	if err := removeLeftovers(dir); err != nil {
		t.Fatalf("removeLeftovers: got %v, want no error", err)
	}
	var got []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{prefix + "running", "other"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("folders: got %q, %v; want %q", got, err, want)
	}
}

func TestDescribePackage(t *testing.T) {
	b := &bench{options: options{peers: t.TempDir()}}
	put(t, b.peers, "sizes", "cloud-init 22.4.2-1 84763\nignition 2.14.0 23251\n")

	version, size, err := b.describePackage("ignition")
	if version != "2.14.0" || size != 23251<<10 || err != nil {
		t.Errorf("ignition: got %q, %d, %v; want 2.14.0, %d and no error", version, size, err, 23251<<10)
	}
	if _, _, err := b.describePackage("cloud"); err == nil || !strings.Contains(err.Error(), "no package cloud") {
		t.Errorf("a package that is not listed: got %v, want its name", err)
	}
}

// TestSystemd connects the library that nodeadm uses to the stand-in for systemd.
func TestSystemd(t *testing.T) {
	b, path := &bench{}, filepath.Join(t.TempDir(), "private")
	if err := b.serveSystemd(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.closers[0].Close() })

	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) {
		c, err := dbus.Dial("unix:path=" + path)
		if err != nil {
			return nil, err
		}

		return c, c.Auth([]dbus.Auth{dbus.AuthExternal("0")})
	})
	if err != nil {
		t.Fatalf("connect: got %v, want no error", err)
	}
	conn.Close()
}

// TestMachines: the machines of the plots have as many threads and GPUs as they should, and the original is unchanged.
func TestMachines(t *testing.T) {
	machine, err := hwtree.Read("../../" + spec)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(machine)
	if err != nil {
		t.Fatal(err)
	}

	for _, threads := range []int{1, 2, 4, 8, 16, 128, 224} {
		m := withThreads(machine, threads)
		if got := m.CPU.Sockets * m.CPU.Cores * m.CPU.Threads; got != threads {
			t.Errorf("withThreads(%d): got %d threads, want as many", threads, got)
		}
		for _, d := range m.Devices {
			if d.NUMA != nil && *d.NUMA >= m.CPU.Sockets {
				t.Errorf("withThreads(%d): got %s on node %d, want one of %d", threads, d.Address, *d.NUMA, m.CPU.Sockets)
			}
		}
	}
	for _, gpus := range []int{0, 1, 64} {
		dir := t.TempDir()
		if err := hwtree.Build(withGPUs(withThreads(machine, 1), gpus), dir); err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "proc/driver/nvidia/gpus/*"))
		if len(found) != gpus || err != nil {
			t.Errorf("withGPUs(%d): got %d GPUs, %v; want as many", gpus, len(found), err)
		}
	}

	if after, err := json.Marshal(machine); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the original: got\n%s, %v\nwant\n%s", after, err, before)
	}
}

// TestNetwork: without a network namespace of its own, nothing is changed.
func TestNetwork(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) < 2 {
		t.Skip("this machine has no network besides loopback")
	}
	if err := prepareNetwork(t.Context()); err == nil || !strings.Contains(err.Error(), "of its own") {
		t.Errorf("in this machine's network: got %v, want an error", err)
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
