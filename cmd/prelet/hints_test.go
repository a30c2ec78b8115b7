package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
)

// commands are the lines of a message that are for a shell, in their order.
func commands(message string) (out []string) {
	for line := range strings.Lines(message) {
		line = strings.TrimSpace(line)
		for _, program := range []string{"mv ", "rm ", "find ", "mkdir ", "(umask ", "prelet "} {
			if strings.HasPrefix(line, program) {
				out = append(out, line)
			}
		}
	}

	return out
}

// paste runs a line as it was printed: in a shell, or in this process where it is prelet's.
func (m *machine) paste(line string) ended {
	m.t.Helper()
	if args, ok := strings.CutPrefix(line, "prelet "); ok {
		args, _, _ = strings.Cut(args, " --root ") // where these machines have their files
		return m.as("", strings.Fields(args)...)
	}
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		m.t.Errorf("%s: %v\n%s", line, err, out)
	}

	return ended{}
}

// stuckNode is a node on which the files of generation 3 are half in place, and which was then spoilt.
type stuckNode struct {
	name  string
	spoil func(m *machine)
}

func stuckNodes() []stuckNode {
	name := func(name string) func(m *machine) { return func(m *machine) { m.damage(name, 9) } }
	half := func(do func(m *machine)) func(m *machine) {
		return func(m *machine) { m.interrupted("/etc/default/kubelet"); do(m) }
	}

	return []stuckNode{
		{"the journal, in the middle of a publish", half(name("journal.json"))},
		{"the journal is empty", half(func(m *machine) { m.putState("journal.json", "") })},
		{"the journal, and the generation in place", half(func(m *machine) {
			m.damage("journal.json", 9)
			m.damage("generations/2", 9)
		})},
		{"the generation that is published", half(name("generations/3.staged"))},
		{"the generation that is published is gone", half(func(m *machine) {
			if err := os.Remove(m.stateDir() + "/generations/3.staged"); err != nil {
				m.t.Fatal(err)
			}
		})},
		{
			"a content of the generation that is published",
			half(func(m *machine) { m.damage("generations/3.staged", -2) }),
		},
		{"the generation in place", name("generations/2")},
		{"the generation in place, cut", func(m *machine) { m.putState("generations/2", "{") }},
		{"its verdict", name("generations/2.status.json")},
		{"what was staged and never committed", func(m *machine) {
			m.staged("/etc/default/kubelet", func(*generation.Txn) error { return nil })
			m.damage("generations/3.staged", 9)
		}},
		{
			"a file was edited in the middle of a publish",
			half(func(m *machine) { m.put("/etc/default/kubelet", "by hand") }),
		},
		{"a file was removed in the middle of a publish", half(func(m *machine) {
			if err := os.Remove(m.root + "/etc/default/kubelet"); err != nil {
				m.t.Fatal(err)
			}
		})},
	}
}

func (m *machine) putState(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.stateDir(), name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// staged makes a commit of one file ready, and ends there.
func (m *machine) staged(path string, then func(*generation.Txn) error) {
	m.t.Helper()
	store := m.lock()
	defer store.Close() // as when the process is killed
	cur, err := store.Current()
	if err != nil {
		m.t.Fatal(err)
	}
	act, err := store.Blob(cur.Gen, "activation.json")
	if err != nil {
		m.t.Fatal(err)
	}
	targets := targetsOf(m, cur, store)
	for i := range targets {
		if targets[i].Path == path {
			targets[i].Content = append(targets[i].Content, "# half\n"...)
		}
	}
	txn, err := store.Begin(
		generation.Proposal{PlanID: "half", Targets: targets, Blobs: map[string][]byte{"activation.json": act}},
	)
	if err == nil {
		err = then(txn)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// interrupted is staged with the commit, and a gate that is shut for it.
func (m *machine) interrupted(path string) {
	m.t.Helper()
	m.staged(path, func(t *generation.Txn) error { _, err := t.Commit(); return err })
	gate := activation.Gate{Dir: m.run, BootID: m.bootID()}
	if err := errors.Join(gate.Shut("in the middle"), gate.MarkOwed("kubelet.service")); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.Stop(m.t.Context(), "kubelet.service", 0); err != nil {
		m.t.Fatal(err)
	}
}

// Each command that a message of 41 prints is run as it is printed, by hand and after a reboot: it ends with the gate
// open, the kubelet healthy, and nothing left behind.
func TestWaysOutOfNeedsPerson(t *testing.T) {
	t.Parallel()
	for _, c := range stuckNodes() {
		for _, boot := range []bool{false, true} {
			name := c.name
			if boot {
				name += ", at a boot"
			}
			t.Run(name, func(t *testing.T) { wayOut(t, c, boot) })
		}
	}
}

func wayOut(t *testing.T, c stuckNode, boot bool) {
	m := losingNode(t)
	c.spoil(m)
	unit := ""
	if boot {
		m.reboot()
		unit = app.BootUnit
		m.inside = true
	}
	res := m.as(unit, "run")
	m.inside = false
	if boot {
		m.units.start()
	}
	for tries := 0; res.exit == 41 && tries < 4; tries++ {
		lines := commands(res.errors)
		if len(lines) < 2 {
			t.Fatalf("no way out is printed:\n%s", res.errors)
		}
		for _, line := range lines {
			res = m.paste(line)
		}
	}
	if res.exit != 0 {
		t.Fatalf("the way out ends with %d\n%s%s", res.exit, res.out, res.errors)
	}
	m.want("run", m.as("", "run"), ended{0, "", ""})
	if m.gateSays() == "" || m.kubelet.Active != "active" && m.kubelet.Job == 0 {
		t.Errorf("gate %q, kubelet %+v; want it open, and the kubelet to run", m.gateSays(), m.kubelet)
	}
	if flags := m.read("/etc/default/kubelet"); strings.Contains(flags, "half") || !strings.Contains(flags, "pool=b") {
		t.Errorf("flags: got %s, want those of the site", flags)
	}
	for p := range m.disk() {
		if strings.HasPrefix(filepath.Base(p), ".prelet-") {
			t.Errorf("left behind: %s", p)
		}
	}
}

// The journal is moved aside in the middle of a publish: recover removes what was staged, a secret among it, and names
// the file that is of no generation; the kubelet does not start on it, and a run puts it in place.
func TestJournalMovedAside(t *testing.T) {
	t.Parallel()
	m := losingNode(t)
	m.interrupted("/etc/default/kubelet")
	m.put("/etc/default/kubelet", "of neither")
	if err := os.Rename(m.stateDir()+"/journal.json", m.root+"/journal.json"); err != nil {
		t.Fatal(err)
	}
	res := m.as("", "recover")
	m.want("recover", res, ended{0, "/etc/default/kubelet is not as generation 2 made it; prelet run", ""})
	m.want("recover", res, ended{0, "Nothing was interrupted.", ""})
	for p := range m.disk() {
		if strings.HasPrefix(filepath.Base(p), ".prelet-") {
			t.Errorf("left behind: %s", p)
		}
	}
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", "is not in place whole"})
	if m.gateSays() != "" {
		t.Errorf("gate: got %q, want it shut", m.gateSays())
	}
	m.want("run", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})
	m.want("recover", m.as("", "recover"), ended{0, "Nothing was interrupted.\n", ""})
}

// A held.json that cannot be read stops neither history nor rollback.
func TestHeldUnreadable(t *testing.T) {
	t.Parallel()
	m := losingNode(t)
	m.putState("held.json", "{")
	m.want("history", m.as("", "history"), ended{0, "What is held on this node cannot be read", ""})
	m.want("run", m.as("", "run"), ended{0, "cannot be read", ""})
	m.want("verify", m.as("", "verify"), ended{0, "", ""})
	m.want("rollback", m.as("", "rollback", "1"), ended{0, "has the contents of generation 1", ""})
	m.want("history", m.as("", "history"), ended{0, "Generation 1 is pinned", ""})
	m.putState("held.json", "[[[")
	m.want("release", m.as("", "rollback", "--release"), ended{0, "Released", ""})
	m.want("run", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})
}
