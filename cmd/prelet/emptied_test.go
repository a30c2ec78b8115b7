package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
)

// emptyRun removes everything from /run/prelet, as systemctl clean --what=runtime does.
func (m *machine) emptyRun() {
	m.t.Helper()
	left, err := filepath.Glob(m.run + "/*")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range left {
		if err := os.RemoveAll(p); err != nil {
			m.t.Fatal(err)
		}
	}
}

// /run/prelet is emptied on a healthy node, and then the kubelet crashes: prelet-verify opens the gate again, and the
// status says what is so before and after.
func TestRunFolderEmptied(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.self.Active = "active" // prelet.service has ended well
	m.emptyRun()
	m.want("status", m.as("", "status"), ended{2, "has run in this boot", ""})
	m.want("status", m.as("", "status"), ended{2, "1 (good)", ""})
	m.want("status", m.as("", "status"), ended{2, "was removed", ""})

	m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "activating", "auto-restart", 0
	m.units.start()
	before := m.disk()
	m.want("verify", m.as("prelet-verify.service", "verify"), ended{0, "eneration 1 awaits no verdict", ""})
	if m.gateSays() != "PRELET_GENERATION=1" || m.kubelet.Job == 0 {
		t.Errorf("gate %q, kubelet %+v; want it open and a start requested", m.gateSays(), m.kubelet)
	}
	if len(before) != len(m.disk()) {
		t.Error("prelet-verify wrote to the disk")
	}
	m.units.start()
	m.want("status", m.as("", "status"), ended{0, "may start, on generation 1", ""})
}

// TestKubeletEndsAgain: a kubelet that ends again and again is never ok, also while it runs for a moment. One that has run
// for some minutes is.
func TestKubeletEndsAgain(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.self.Active = "active"
	m.want("status", m.as("", "status"), ended{0, "may start, on generation 1", ""})

	m.now += time.Minute
	m.units.start()
	m.kubelet.Restarts, m.kubelet.Left = 1, m.now
	m.want("status", m.as("", "status"), ended{1, "systemd has started it again (restarted 1 times)", ""})

	m.now += 6 * time.Minute
	m.want("status", m.as("", "status"), ended{0, "may start, on generation 1", ""})
}

// The same after a boot whose run failed and kept the node on its last good generation, and after prelet.service was
// stopped. A generation without a verdict on a node that has not joined stays shut, as that run left it.
func TestRunFolderEmptiedAfterFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		active string
		spoil  func(*machine)
		want   string // the gate
	}{
		"the run failed": {"failed", func(*machine) {}, "PRELET_GENERATION=1"},
		"it was stopped": {"inactive", func(*machine) {}, "PRELET_GENERATION=1"},
		"only the gate and the note of it are gone": {"failed", func(m *machine) {
			m.remove(m.run + "/kubelet.opened")
			m.remove(m.gate)
		}, "PRELET_GENERATION=1"},
		"a file was changed": {"failed", func(m *machine) { m.put("/etc/default/kubelet", "x") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := goodNode(t)
			m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
			m.reboot()
			run, _ := m.boot()
			m.want("boot", run, ended{10, "", ""})
			if m.gateSays() != "PRELET_GENERATION=1" {
				t.Fatalf("gate after a boot with an invalid site: got %q, want it open on generation 1", m.gateSays())
			}

			m.self.Active, m.self.Started = c.active, 6*time.Second
			if name != "only the gate and the note of it are gone" {
				m.emptyRun()
			}
			c.spoil(m)
			m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "activating", "auto-restart", 0
			m.units.start()
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
			if m.gateSays() != c.want {
				t.Errorf("gate: got %q, want %q", m.gateSays(), c.want)
			}
			if c.want == "" {
				return
			}
			m.units.start()
			if status := m.as("", "status"); strings.Contains(status.out, "prelet has not finished a run") {
				t.Errorf("status: got %q, want no word of an unfinished run", status.out)
			}
		})
	}
}

// The same where it must not heal: the files are not those of the generation, or prelet.service has not succeeded.
func TestRunFolderEmptiedAndShut(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*machine){
		"no run has ended well": func(m *machine) { m.self.Active = "activating" },
		"no run has begun":      func(m *machine) { m.self.Active = "failed" },
		"a file was changed":    func(m *machine) { m.put("/etc/default/kubelet", "x") },
		"systemd is gone":       func(m *machine) { m.gone = true },
	} {
		t.Run(name, func(t *testing.T) {
			m := goodNode(t)
			m.self.Active = "active"
			m.emptyRun()
			spoil(m)
			m.kubelet.Active, m.kubelet.MainPID = "failed", 0
			m.want("verify", m.as("prelet-verify.service", "verify"), ended{0, "", "the kubelet may not start"})
			if m.gateSays() != "" {
				t.Errorf("gate: got %q, want it shut", m.gateSays())
			}
		})
	}
}

// What is in /run/prelet cannot be read: the status says so, and still says the rest.
func TestStatusOfDamagedRunFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(m *machine)
		want  string
	}{
		"status.json is broken": {func(m *machine) { m.write("status.json", "{") }, "may start, on generation 1"},
		"status.json is empty":  {func(m *machine) { m.write("status.json", "") }, "may start, on generation 1"},
		"status.json is a folder": {func(m *machine) {
			if err := os.Remove(m.run + "/status.json"); err != nil {
				m.t.Fatal(err)
			}
			if err := os.Mkdir(m.run+"/status.json", 0o755); err != nil {
				m.t.Fatal(err)
			}
		}, "may start, on generation 1"},
		"the gate is a folder": {func(m *machine) {
			if err := os.Remove(m.gate); err != nil {
				m.t.Fatal(err)
			}
			if err := os.Mkdir(m.gate, 0o755); err != nil {
				m.t.Fatal(err)
			}
		}, "may not start: "},
		"the gate was removed": {func(m *machine) {
			if err := os.Remove(m.gate); err != nil {
				m.t.Fatal(err)
			}
		}, "was removed. A kubelet that runs goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			m := goodNode(t)
			c.spoil(m)
			text := m.as("", "status")
			if text.exit != 0 && text.exit != 1 {
				t.Errorf("exit: got %d, want 0 or 1", text.exit)
			}
			m.want("status", text, ended{text.exit, c.want, ""})
			m.want("status", text, ended{text.exit, "1 (good)", ""})
			m.want("json", m.as("", "status", "-o", "json"), ended{text.exit, `"gate"`, ""})
		})
	}
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.run, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// The state folder and /run/prelet are emptied together on a healthy node (systemctl clean --what=all), or the state
// folder and the gate: every command says what to do, the next crash of the kubelet asks for a run, and that adopts
// the files.
func TestStateAndRunFolderEmptied(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(*machine){
		"both":                     (*machine).emptyRun,
		"the state and the gate":   func(m *machine) { m.remove(m.gate) },
		"the same, after a reboot": func(m *machine) { m.reboot(); m.boot(); m.emptyRun() },
	} {
		t.Run(name, func(t *testing.T) {
			m := goodNode(t)
			m.self.Active = "active"
			empty(m)
			m.self.Active = "active"
			m.lose("")
			m.want("status", m.as("", "status"), ended{m.as("", "status").exit, "prelet run adopts the files", ""})
			m.want("verify by hand", m.as("", "verify"), ended{50, "", "prelet run adopts the files"})
			m.want("recover", m.as("", "recover"), ended{0, "prelet run adopts the files", ""})

			asked := 0
			m.apply, m.applyIs = func() { asked++ }, "inactive"
			m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "activating", "auto-restart", 0
			m.units.start()
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", "prelet run adopts the files"})
			if asked != 1 || m.gateSays() != "" {
				t.Errorf("runs requested: got %d, want 1; gate: got %q, want it shut", asked, m.gateSays())
			}
			m.want("status", m.as("", "status"), ended{1, "prelet run adopts", ""})

			m.applyIs = "failed"
			m.as(app.VerifyUnit, "verify")
			if asked != 1 {
				t.Errorf("runs requested after one that failed: got %d, want 1", asked)
			}

			before := m.managed()
			m.apply = nil // the run, without systemd between
			m.want(
				"run",
				m.as(app.ApplyUnit, "run"),
				ended{0, "eneration 1 is in place, and the kubelet is healthy", ""},
			)
			m.sameFiles(before)
			if m.gateSays() != "PRELET_GENERATION=1" || m.kubelet.Active != "active" {
				t.Errorf("gate %q, kubelet %+v; want it to run on generation 1", m.gateSays(), m.kubelet)
			}
			m.want("status", m.as("", "status"), ended{0, "adopted:", ""})
		})
	}
}
