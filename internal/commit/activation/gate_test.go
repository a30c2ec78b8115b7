package activation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

func TestGate(t *testing.T) {
	g := Gate{Dir: t.TempDir(), BootID: strings.Repeat("a", 32)}
	state := func(wantGen int, wantOpen bool) {
		t.Helper()

		gen, open, err := g.State()
		if err != nil || gen != wantGen || open != wantOpen {
			t.Errorf("State = %d, %v, %v; want %d, %v", gen, open, err, wantGen, wantOpen)
		}
	}

	state(0, false)

	if g.WasOpened() {
		t.Error("opened, before it was")
	}

	must(t, g.Shut("site\ninvalid")) // shutting a shut gate is not an error

	if got := g.Reason(); got != "site invalid" {
		t.Errorf("Reason: got %q, want one line", got)
	}

	must(t, g.Open(12))
	state(12, true)

	text, err := os.ReadFile(g.Path())
	if err != nil || string(text) != "PRELET_GENERATION=12\n" {
		t.Errorf("systemd reads %q (%v); want generation 12", text, err)
	}

	if info, _ := os.Stat(g.Path()); info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v; want 0644", info.Mode())
	}

	if g.Reason() != "" || !g.WasOpened() {
		t.Error("an open gate still has a reason, or does not know that it was opened")
	}

	if next := (Gate{Dir: g.Dir, BootID: strings.Repeat("b", 32)}); next.WasOpened() {
		t.Error("another boot's opening counts")
	}

	must(t, g.Shut("changing"))
	state(0, false)

	if !g.WasOpened() {
		t.Error("shutting forgets that this boot had opened it")
	}

	must(t, g.MarkOwed("kubelet.service"))

	if !g.IsOwed("kubelet.service") || g.IsOwed("k3s.service") {
		t.Error("owed to the wrong unit")
	}

	if next := (Gate{Dir: g.Dir, BootID: strings.Repeat("b", 32)}); next.IsOwed("kubelet.service") {
		t.Error("a debt of another boot counts")
	}

	must(t, g.ClearOwed())
	must(t, g.ClearOwed())

	if g.IsOwed("kubelet.service") {
		t.Error("paid and still owed")
	}

	left, _ := filepath.Glob(filepath.Join(g.Dir, ".*"))
	if len(left) != 0 {
		t.Errorf("temporaries are left: %v; want none", left)
	}
}

func TestGateThatSomebodyElseWrote(t *testing.T) {
	for _, text := range []string{"", "FOO=1\n", "PRELET_GENERATION=\n", "PRELET_GENERATION=-3\n", "PRELET_GENERATION=1\nX=2\n"} {
		g := Gate{Dir: t.TempDir()}
		must(t, os.WriteFile(g.Path(), []byte(text), 0o600))

		if gen, open, err := g.State(); gen != -1 || !open || err != nil {
			t.Errorf("%q: got %d, %v, %v; want it open on generation -1, as systemd would start the kubelet with it",
				text, gen, open, err)
		}
	}
}

// TestGateErrors: an error of the gate has the code cannot-write and the path of the file.
func TestGateErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	blocked := t.TempDir()

	for _, name := range []string{gateFile, reasonFile, openedFile} {
		must(t, os.MkdirAll(filepath.Join(blocked, name, "x"), 0o755))
	}

	state := func(g Gate) error { _, _, err := g.State(); return err }

	for _, c := range []struct {
		name string
		dir  string
		do   func(g Gate) error
		path string
	}{
		{"open without a folder", missing, func(g Gate) error { return g.Open(1) }, openedFile},
		{"owe without a folder", missing, func(g Gate) error { return g.MarkOwed("x") }, owedFile},
		{"shut without a folder", missing, func(g Gate) error { return g.Shut("so") }, reasonFile},
		{"read a folder", blocked, state, gateFile},
		{"remove a folder", blocked, func(g Gate) error { return g.Shut("so") }, gateFile},
		{"replace a folder", blocked, func(g Gate) error { return g.Open(1) }, openedFile},
	} {
		err := c.do(Gate{Dir: c.dir, BootID: "b"})

		var f *fault.Fault
		if !errors.As(err, &f) || f.Code != fault.CannotWrite {
			t.Errorf("%s: got %v with code %q; want code %s", c.name, err, fault.CodeOf(err), fault.CannotWrite)
			continue
		}

		at, ok := generation.OnPath(f)
		if want := filepath.Join(c.dir, c.path); !ok || at.Path != want || f.Next == "" {
			t.Errorf("%s: got %v, next %q; want the path %s and a next step", c.name, err, f.Next, want)
		}
	}
}
