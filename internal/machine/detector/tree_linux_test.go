package detector

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// TestTree asks about a recorded machine: the detector has its path and can read it, and no grant of this machine.
func TestTree(t *testing.T) {
	t.Parallel()
	b := newBench(t, "tries")
	config := b.field()
	tree := filepath.Dir(b.write("machine/sys/board", []byte("x"), 0o644))
	tree = filepath.Dir(tree)
	b = b.with(func(o *HostConfig) { o.Tree = tree })
	config["read_file"] = tree + "/sys/board"
	delete(config, "signal_neighbour")
	got := b.tries(
		config,
		tape.Grants{
			Devices: []string{"/dev/zero"},
			Read:    []string{"/etc/passwd"},
			Execute: []string{"/usr/bin/id"},
			Sockets: []string{b.dir + "/open/socket"},
			Groups:  []string{"adm"},
		},
	)
	if got["root"] != tree || got["read_file"] != "ok" || got["read_cpuinfo"] != "ok" {
		t.Errorf("got root %q and file %s, want the recorded machine", got["root"], got["read_file"])
	}
	for _, key := range []string{"read_passwd", "run_program", "device_zero", "connect_path", "list_folder"} {
		if got[key] == "ok" || got[key] == "" {
			t.Errorf("%s of this machine: got %q, want a refusal", key, got[key])
		}
	}
	if os.Geteuid() == 0 && !strings.HasPrefix(got["status_Groups"]+" ", " ") {
		t.Errorf("got groups %q, want none", got["status_Groups"])
	}
}

// TestTreePaths checks that match.paths are searched in the recorded machine.
func TestTreePaths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("machine/dev/board/db", nil, 0o644)
	b.write(
		"etc/here/db",
		nil,
		0o644,
	) // below the root, where detectors and locks are
	if err := os.Symlink("/etc", b.dir+"/machine/dev/out"); err != nil { // out of the tree
		t.Fatal(err)
	}
	h := b.with(func(o *HostConfig) { o.Tree = b.dir + "/machine" }).host
	for path, want := range map[string]bool{"/dev/board/*": true, "/dev/board/db": true, "/etc/here/*": false, "/etc/here/db": false,
		"/etc/passwd": false, "/dev/out": false, "/dev/out/*": false} {
		if why, err := h.skipReason(t.Context(), contract.Match{Paths: []string{path}}, nil); (why == "") != want ||
			err != nil {
			t.Errorf("%s: got %q, %v, want match %v", path, why, err, want)
		}
	}
}

// TestTreeScript checks that a script keeps its interpreter, and that a tree that only root can enter is reported.
func TestTreeScript(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tree := filepath.Dir(b.write("machine/board", nil, 0o644))
	b = b.with(func(o *HostConfig) { o.Tree = tree })
	script := b.write("script", []byte("#!/bin/sh\n"), 0o755)
	g, err := b.host.treeGrants(
		script,
		tape.Grants{Execute: []string{"/usr/bin/id", "/bin/sh"}, Devices: []string{"/dev/zero"}},
	)
	if err != nil || !slices.Equal(g.Execute, []string{"/bin/sh"}) || len(g.Devices) > 0 {
		t.Errorf("treeGrants: got %+v, %v, want only the interpreter", g, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	must(t, os.Chmod(tree, 0o700))
	b.install("good")
	if _, ans, _ := b.askFor("good"); ans.Code() != fault.Absent ||
		!strings.Contains(ans.Why(), "chmod o+rx "+tree) {
		t.Errorf("got %+v, want the folder to open", ans)
	}
}

// TestScriptBelowRoot: a script below a root is locked and asked by this machine's interpreter, with a recorded
// machine and without.
func TestScriptBelowRoot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text := []byte("#!/bin/sh\necho this is the script >&2\nexit 7\n")
	script := b.write(Programs+"/script", text, 0o755)
	tree := filepath.Dir(b.write("machine/board", nil, 0o644))
	b.lock("script", fmt.Sprintf("%x", sha256.Sum256(text)))
	allow := tape.Grants{Execute: []string{"/bin/sh"}}
	const want = "it ended before it was ready (exit status 7)"

	if _, trace, err := b.host.Describe(b.context(), script, allow); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("when it is locked: got %v, %q; want %q", err, trace.Stderr, want)
	}
	for _, dir := range []string{"", tree} {
		inner := b.with(func(o *HostConfig) { o.Tree = dir })
		_, ans, _ := inner.ask(tape.DetectorReq{Name: "script", Allow: allow}, longest)
		why := ans.Why()
		if !strings.Contains(why, want+".") || !strings.Contains(why, " Its output: this is the script") {
			t.Errorf("with the tree %q: got %s; want %q and its output", dir, why, want)
		}
	}
}
