package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report"
)

// keepsRecording makes the site keep the recording of each run for a group.
func (m *machine) keepsRecording(group string) {
	m.put("/etc/prelet/site.hcl", "prelet { recording_group = \""+group+"\" }\n"+m.site)
	m.put("/etc/group", fmt.Sprintf("root:x:0:\nagents:x:%d:\n", os.Getgid()))
}

// kept is the path of the kept recording.
func (m *machine) kept() string { return filepath.Join(m.run, app.RecordingFile) }

// notes returns the notes of the last run, and fails if it is degraded.
func (m *machine) notes() string {
	m.t.Helper()
	s, err := report.Load(m.run)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(s.Degraded) > 0 {
		m.t.Errorf("status: got degraded %v, want only notes", s.Degraded)
	}

	return fmt.Sprint(s.Notes)
}

// Each run replaces the recording, which makes the same plan elsewhere and has no secret and no identity. Without the
// setting it is removed.
func TestKeptRecording(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.keepsRecording("agents")
	run, _ := m.boot()
	m.want("run", run, ended{0, "Generation 1 is in place", ""})

	st, err := os.Stat(m.kept())
	if err != nil {
		t.Fatal(err)
	}
	owner, _ := st.Sys().(*syscall.Stat_t)
	if st.Mode() != 0o640 || int(owner.Gid) != os.Getgid() {
		t.Errorf("recording: got mode %v and group %d, want 0640 and %d", st.Mode(), owner.Gid, os.Getgid())
	}
	text, err := os.ReadFile(m.kept())
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{"token": m.server.Token(), "machine id": "0123456789abcdef0123456789abcdef"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("recording: got the %s, want none", what)
		}
	}
	m.want("plan", m.as("", "plan", "--from", m.kept()), ended{0, "example.com/pool=a", ""})

	m.want("second run", m.as("", "run"), ended{0, "", ""})
	if again, err := os.Stat(m.kept()); err != nil || os.SameFile(st, again) {
		t.Errorf("recording after a second run: got the same file (%v), want another one", err)
	}

	m.put("/etc/prelet/site.hcl", m.site)
	m.want("run without the setting", m.as("", "run"), ended{0, "", ""})
	if _, err := os.Stat(m.kept()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("recording without the setting: got %v, want no file", err)
	}
}

// A recording that cannot be kept is a note, and an older one does not stay in its place.
func TestRecordingThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group string
		spoil func(m *machine)
		want  string
		stays bool // what is in the way
	}{
		"unknown group":            {"ghosts", func(*machine) {}, "group ghosts: it is not in /etc/group", false},
		"no room for the new file": {"agents", func(m *machine) { fill(t, m.kept()+".new") }, "recording.prelet.new", false},
		"something else is there":  {"agents", func(m *machine) { fill(t, m.kept()) }, "recording.prelet", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.keepsRecording(c.group)
			c.spoil(m)
			if !c.stays {
				if err := os.WriteFile(m.kept(), []byte("older"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run, verify := m.boot()
			m.want("run", run, ended{0, "Generation 1 is in place", ""})
			m.want("verify", verify, ended{0, "the kubelet is healthy", ""})
			if got := m.notes(); !strings.Contains(got, "cannot-write") || !strings.Contains(got, c.want) {
				t.Errorf("notes: got %s, want cannot-write with %q", got, c.want)
			}
			if _, err := os.Stat(m.kept()); c.stays != (err == nil) {
				t.Errorf("older recording: got %v, want that it stays: %v", err, c.stays)
			}
		})
	}
}

// fill puts a folder with a file where a file is to be written.
func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, "in-the-way"), 0o755); err != nil {
		t.Fatal(err)
	}
}
