package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
)

// byNewer rewrites a document of the state folder as a prelet of a later format would have written it: with another
// version, a member that this one does not know, and its own checksum. What follows the first line stays.
func (m *machine) byNewer(name string, change func(doc map[string]any)) {
	m.t.Helper()
	path := filepath.Join(m.stateDir(), name)
	text, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	doc := map[string]any{}
	if err := json.Unmarshal(line, &doc); err != nil {
		m.t.Fatal(err)
	}
	delete(doc, "sha256")
	doc["version"] = 99
	doc["later"] = "unknown"
	if change != nil {
		change(doc)
	}
	if line, err = json.Marshal(doc); err != nil {
		m.t.Fatal(err)
	}
	body := line[:len(line)-1]
	sealed := fmt.Sprintf("%s,\"sha256\":%q}\n%s", body, generation.Checksum(body), rest)
	if err := os.WriteFile(path, []byte(sealed), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// planByNewer changes a text in the stored activation plan of a generation, with the checksums of plan and manifest.
func (m *machine) planByNewer(gen int, old, new string) {
	m.t.Helper()
	name := fmt.Sprintf("generations/%d", gen)
	plan := m.blob(gen, activation.PlanBlob)
	changed := strings.Replace(plan, old, new, 1)
	if changed == plan || len(changed) != len(plan) {
		m.t.Fatalf("%q in %s: got no replacement of the same length", old, plan)
	}
	text, err := os.ReadFile(filepath.Join(m.stateDir(), name))
	if err != nil {
		m.t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(plan), []byte(changed), 1)
	if err := os.WriteFile(filepath.Join(m.stateDir(), name), text, 0o600); err != nil {
		m.t.Fatal(err)
	}
	was, is := generation.Checksum([]byte(plan)), generation.Checksum([]byte(changed))
	m.byNewer(name, func(doc map[string]any) {
		doc["version"] = 2
		delete(doc, "later")
		for _, p := range doc["parts"].([]any) {
			if part := p.(map[string]any); part["sha256"] == was {
				part["sha256"] = is
			}
		}
	})
}

// newerCase is a way in which a newer prelet has written the state of a node.
type newerCase struct {
	name string
	do   func(m *machine)
}

func newerCases() []newerCase {
	return []newerCase{
		{"generation", func(m *machine) { m.byNewer("generations/2", nil) }},
		{"generation of another shape", func(m *machine) {
			m.byNewer("generations/2", func(doc map[string]any) { doc["entries"] = "elsewhere" })
		}},
		{"generation without a checksum", func(m *machine) { m.putState("generations/2", `{"version":99}`+"\n") }},
		{"verdict", func(m *machine) { m.byNewer("generations/2.status.json", nil) }},
		{"verdict of another shape", func(m *machine) {
			m.byNewer("generations/2.status.json", func(doc map[string]any) { doc["status"] = "splendid" })
		}},
		{"list of held plans", func(m *machine) {
			m.putState("held.json", `{"version":2}`)
			m.byNewer("held.json", nil)
		}},
		{"plan", func(m *machine) { m.planByNewer(2, `"format_version":1,`, `"format_version":9,`) }},
		{"member of the plan", func(m *machine) { m.planByNewer(2, `"timeout_ms":`, `"Zimeout_ms":`) }},
	}
}

// goodTwo is a node at generation 2, which is good and on which its kubelet runs.
func goodTwo(t *testing.T) *machine {
	t.Helper()
	m := goodNode(t)
	m.relabel("b")
	m.want("run", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})

	return m
}

// A newer prelet made what is in place, and the site differs: a boot changes no file, opens the gate and starts the
// kubelet. So do a run and a verification by hand, and what would write is refused.
func TestNewerGeneration(t *testing.T) {
	t.Parallel()
	for _, c := range newerCases() {
		t.Run(c.name, func(t *testing.T) {
			m := goodTwo(t)
			c.do(m)
			m.relabel("c")
			before := m.disk()

			m.reboot()
			run, _ := m.boot()
			m.want("boot", run, ended{0, "Generation 2 stays: a newer prelet made what is in place", ""})
			m.want("verify at boot", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
			if m.gateSays() != "PRELET_GENERATION=2" || len(m.starts) != 1 || m.kubelet.Active != "active" {
				t.Errorf("gate %q, starts %q; want one start on generation 2", m.gateSays(), m.starts)
			}
			if s := m.says(); s.State != "degraded" || !strings.Contains(fmt.Sprint(s.Degraded), "newer-prelet") {
				t.Errorf("status: got %s, %+v; want degraded by newer-prelet", s.State, s.Degraded)
			}

			m.want("status", m.as("", "status"), ended{2, "", ""})
			m.want("run by hand", m.as("", "run"), ended{0, "a newer prelet made what is in place", ""})
			m.want("verify by hand", m.as("", "verify"), ended{0, "", "a newer prelet made what is in place"})
			m.want("recover", m.as("", "recover"), ended{0, "Nothing was interrupted", "a newer prelet"})
			m.want("rollback", m.as("", "rollback", "1"), ended{40, "", "a newer prelet made what is in place"})
			m.want("rollback 0", m.as("", "rollback", "0"), ended{40, "", "a newer prelet made what is in place"})
			m.want("run --root", m.as("", "run", "--root", m.root), ended{40, "", "a newer prelet"})
			m.want("recover --root", m.as("", "recover", "--root", m.root), ended{0, "", "a newer prelet"})
			m.want("rollback --root", m.as("", "rollback", "1", "--root", m.root), ended{40, "", "a newer prelet"})
			m.want("release", m.as("", "rollback", "--release"), ended{40, "", "a newer prelet"})
			m.want("release --root", m.as("", "rollback", "--release", "--root", m.root), ended{40, "", "a newer prelet"})
			m.want("history", m.as("", "history"), ended{0, "2 ", "a newer prelet"})
			m.want("doctor", m.as("", "doctor"), ended{m.as("", "doctor").exit, "a newer prelet", ""})

			if after := m.disk(); !maps.Equal(before, after) {
				t.Errorf("files: got %v, want them as before: %v", after, before)
			}
		})
	}
}

// The gate is lost while the kubelet runs on a generation of a newer prelet: prelet-verify opens it again.
func TestNewerGenerationLosesItsGate(t *testing.T) {
	t.Parallel()
	m := goodTwo(t)
	m.byNewer("generations/2", nil)
	m.emptyRun()
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", "a newer prelet"})
	if m.gateSays() != "PRELET_GENERATION=2" {
		t.Errorf("gate: got %q, want it open on generation 2", m.gateSays())
	}
}

// A file is not as the newer prelet made it: whether that fits is not known, so the gate stays shut.
func TestNewerGenerationThatDiffers(t *testing.T) {
	t.Parallel()
	m := goodTwo(t)
	m.byNewer("generations/2", nil)
	m.put("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=9\n")
	before := m.disk()
	m.reboot()
	run, _ := m.boot()
	m.want("boot", run, ended{40, "", "/etc/default/kubelet"})
	if m.gateSays() != "" || !maps.Equal(before, m.disk()) {
		t.Errorf("gate %q, files %v; want it shut and nothing changed", m.gateSays(), m.disk())
	}
}

// A newer prelet was interrupted while it published files: they may be a mixture, so the gate stays shut, and the
// kubelet that runs is left alone.
func TestNewerJournal(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"publish":       `{"version":2,"phase":"publish","gen":2,"commit_time":"2026-01-01T00:00:00Z"}`,
		"unknown phase": `{"version":2,"phase":"settle","gen":2,"commit_time":"2026-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := goodTwo(t)
			m.putState("journal.json", doc)
			m.byNewer("journal.json", func(doc map[string]any) { doc["manifest"] = generation.Checksum(nil) })
			before, pid := m.disk(), m.kubelet.MainPID

			m.want("run by hand", m.as("", "run"), ended{41, "", "newer"})
			m.want("recover", m.as("", "recover"), ended{41, "", "install"})
			if m.kubelet.MainPID != pid || m.gateSays() != "PRELET_GENERATION=2" {
				t.Errorf("kubelet %+v, gate %q; want both as before", m.kubelet, m.gateSays())
			}
			m.reboot()
			run, verify := m.boot()
			m.want("boot", run, ended{41, "", "newer"})
			m.want("verify", verify, ended{verify.exit, "", ""})
			if m.gateSays() != "" || !maps.Equal(before, m.disk()) {
				t.Errorf("gate %q, files %v; want it shut and nothing changed", m.gateSays(), m.disk())
			}
		})
	}
}

// A newer prelet has published its generation and was replaced before the verdict: nothing is judged or rolled back.
func TestNewerJournalAwaitsItsVerdict(t *testing.T) {
	t.Parallel()
	m := awaitsVerdict(t)
	m.byNewer("journal.json", nil)
	before := m.disk()
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", "a newer prelet"})
	m.reboot()
	run, _ := m.boot()
	m.want("boot", run, ended{0, "a newer prelet made what is in place", ""})
	m.want("verify at boot", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
	if m.gateSays() != "PRELET_GENERATION=2" || !maps.Equal(before, m.disk()) {
		t.Errorf("gate %q, files %v; want it open on generation 2, and nothing changed", m.gateSays(), m.disk())
	}
}

// The way to stay with the older prelet, as the page of the code has it.
func TestStayWithOlderPrelet(t *testing.T) {
	t.Parallel()
	m := goodTwo(t)
	m.byNewer("generations/2", nil)
	if err := os.Rename(m.stateDir(), m.stateDir()+".newer"); err != nil {
		t.Fatal(err)
	}
	m.want("run", m.as("", "run"), ended{0, "Generation 3 is in place", ""})
	m.relabel("c")
	m.want("a change", m.as("", "run"), ended{0, "Generation 4 is in place", ""})
}

// status.json of a newer prelet is not a failure of the node, and the next run writes it again.
func TestNewerStatus(t *testing.T) {
	t.Parallel()
	m := goodTwo(t)
	path := filepath.Join(m.run, "status.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"format_version": 1`), []byte(`"format_version": 99`), 1)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	m.want("status", m.as("", "status"), ended{2, "a newer prelet wrote it", ""})
	m.want("run", m.as("", "run"), ended{0, "No changes", ""})
	m.want("status", m.as("", "status"), ended{0, "", ""})
}
