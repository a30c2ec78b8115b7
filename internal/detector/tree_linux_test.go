package pluginhost

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/detector/hostile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

// TestTree asks about a recorded machine: the detector is told where it lies and may read it; and nothing that a site grants on its own
// node is granted on this one.
func TestTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.install("tries")
	config := b.field()
	tree := filepath.Dir(b.write("machine/sys/board", []byte("x"), 0o644))
	tree = filepath.Dir(tree)
	o := b.host.o
	o.Tree = tree
	b.host = New(o)
	config["read_file"] = tree + "/sys/board"
	delete(config, "signal_neighbour")
	got := b.tries(config, world.Grants{Devices: []string{"/dev/zero"}, Read: []string{"/etc/passwd"}, Execute: []string{"/usr/bin/id"}, Sockets: []string{b.dir + "/open/socket"}, Groups: []string{"adm"}})
	if got["root"] != tree || got["read_file"] != "ok" || got["read_cpuinfo"] != "ok" {
		t.Errorf("root %q, its file: %s", got["root"], got["read_file"])
	}
	for _, key := range []string{"read_passwd", "run_program", "device_zero", "connect_path", "list_folder"} {
		if got[key] == "ok" || got[key] == "" {
			t.Errorf("%s: %q on a machine that is not the recorded one", key, got[key])
		}
	}
	if os.Geteuid() == 0 && !strings.HasPrefix(got["status_Groups"]+" ", " ") {
		t.Errorf("groups: %q", got["status_Groups"])
	}
}

// TestTreePaths: what a detector matches by path is looked for in the tree, and not here.
func TestTreePaths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("machine/dev/board/db", nil, 0o644)
	b.write("etc/here/db", nil, 0o644)                                   // below the root, where detectors and locks are
	if err := os.Symlink("/etc", b.dir+"/machine/dev/out"); err != nil { // out of the tree
		t.Fatal(err)
	}
	o := b.host.o
	o.Tree = b.dir + "/machine"
	h := New(o)
	for path, want := range map[string]bool{"/dev/board/*": true, "/dev/board/db": true, "/etc/here/*": false, "/etc/here/db": false,
		"/etc/passwd": false, "/dev/out": false, "/dev/out/*": false} {
		if why, err := h.nothingToDo(t.Context(), contract.Match{Paths: []string{path}}, nil); (why == "") != want || err != nil {
			t.Errorf("%s: %q, %v", path, why, err)
		}
	}
}

// TestTreeScript: of a script's grants the interpreter stays, and a tree that nobody but root may enter is told: a detector would take it
// for an empty machine.
func TestTreeScript(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	o := b.host.o
	o.Tree = filepath.Dir(b.write("machine/board", nil, 0o644))
	h := New(o)
	script := b.write("script", []byte("#!/bin/sh\n"), 0o755)
	g, err := h.onTree(script, world.Grants{Execute: []string{"/usr/bin/id", "/bin/sh"}, Devices: []string{"/dev/zero"}})
	if err != nil || !slices.Equal(g.Execute, []string{"/bin/sh"}) || len(g.Devices) > 0 {
		t.Errorf("%v: %+v", err, g)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chmod(o.Tree, 0o700); err != nil {
		t.Fatal(err)
	}
	b.install("good")
	if _, ans, _ := b.askOf(h, "good"); ans.Code() != fault.Absent || !strings.Contains(ans.Why(), "chmod o+rx "+o.Tree) {
		t.Errorf("%+v", ans)
	}
}

func (b *bench) askOf(h *Host, name string) (world.DetectorAns, world.Answer, time.Duration) {
	inner := *b
	inner.host = h
	return inner.ask(world.DetectorReq{Name: name}, 10*time.Second)
}

// TestScriptBelowRoot: a script below a root is locked and asked by this machine's interpreter, with a recorded machine and without.
func TestScriptBelowRoot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	script := b.write(Programs+"/script", []byte("#!/bin/sh\necho this is the script >&2\nexit 7\n"), 0o755)
	tree := filepath.Dir(b.write("machine/board", nil, 0o644))
	f, err := openProgram(script)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	describe, err := json.Marshal(hostile.Describe("script"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := WriteFragment(world.Lock{Name: "script", SHA256: hash(f), Describe: describe})
	if err != nil {
		t.Fatal(err)
	}
	b.write(filepath.Join(Fragments, "script.json"), text, 0o644)
	allow := world.Grants{Execute: []string{"/bin/sh"}}
	const want = "it ended before it was ready (exit status 7)"

	if _, trace, err := b.host.Describe(t.Context(), script, allow); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("when it is locked: got %v, %q; want %q", err, trace.Stderr, want)
	}
	for _, dir := range []string{"", tree} {
		o := b.host.o
		o.Tree = dir
		inner := *b
		inner.host = New(o)
		if _, ans, _ := inner.ask(world.DetectorReq{Name: "script", Allow: allow}, 10*time.Second); !strings.Contains(ans.Why(), want+". It said: this is the script") {
			t.Errorf("with the tree %q: got %s; want %q", dir, ans.Why(), want)
		}
	}
}
