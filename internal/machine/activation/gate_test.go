package activation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
)

// TestGate opens and shuts a gate, and owes a start. Another boot does not count what this one did.
func TestGate(t *testing.T) {
	g := Gate{Dir: t.TempDir(), BootID: strings.Repeat("a", 32)}
	next := Gate{Dir: g.Dir, BootID: strings.Repeat("b", 32)}
	const unit = "kubelet.service"
	for i, step := range []struct {
		do   func() error
		want string // generation, open, opened in this boot and in the next, reason, owed in this boot and in the next
	}{
		{func() error { return nil }, `0 false; opened false false ""; owed false false`},
		{func() error { return g.Shut("site\ninvalid") }, `0 false; opened false false "site invalid"; owed false false`},
		{func() error { return g.Open(12) }, `12 true; opened true false ""; owed false false`},
		{func() error { return g.Shut("changing") }, `0 false; opened true false "changing"; owed false false`},
		{func() error { return g.MarkOwed(unit) }, `0 false; opened true false "changing"; owed true false`},
		{g.ClearOwed, `0 false; opened true false "changing"; owed false false`},
		{g.ClearOwed, `0 false; opened true false "changing"; owed false false`},
	} {
		must(t, step.do())
		gen, open, err := g.State()
		must(t, err)
		got := fmt.Sprintf("%d %t; opened %t %t %q; owed %t %t",
			gen, open, g.WasOpened(), next.WasOpened(), g.Reason(), g.IsOwed(unit), next.IsOwed(unit))
		if got != step.want || g.IsOwed("k3s.service") {
			t.Errorf("step %d: got %s, owed to another unit: %t; want %s, false", i, got, g.IsOwed("k3s.service"), step.want)
		}
		if !open {
			continue
		}
		text, err := os.ReadFile(g.Path())
		if err != nil || string(text) != "PRELET_GENERATION=12\n" {
			t.Errorf("systemd reads %q (%v); want generation 12", text, err)
		}
		if info, _ := os.Stat(g.Path()); info.Mode().Perm() != 0o644 {
			t.Errorf("mode %v; want 0644", info.Mode())
		}
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
