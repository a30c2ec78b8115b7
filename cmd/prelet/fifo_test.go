package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
)

// A FIFO or a folder in the place of one of prelet's own small files keeps no command waiting, and no kubelet down.
func TestSmallFileIsNotAFile(t *testing.T) {
	t.Parallel()
	stateFiles := []string{"unknown.json", "kubelet.json"}
	runFiles := []string{
		"kubelet.reason", "kubelet.opened", "kubelet.owed", "kubelet.seen", "units.done", "units.failed",
		"units.exempt", "run.asked", "attempts", "status.json", "reply-AB.json", "request-AB.json", "serving-AB.json",
	}

	for kind, put := range map[string]func(name string) error{
		"FIFO":   func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"folder": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			m := goodNode(t)
			m.relabel("b")
			m.reboot()
			m.inside = true
			m.want("the first boot", m.as(app.BootUnit, "run"), ended{0, "", ""}) // the verdict is awaited
			m.reboot()

			for _, name := range stateFiles {
				name = filepath.Join(m.root, "var/lib/prelet", name)
				_ = os.Remove(name)
				if err := put(name); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range runFiles {
				if kind == "folder" && name != "units.exempt" { // what cannot be replaced is another matter
					continue
				}
				if err := put(filepath.Join(m.run, name)); err != nil {
					t.Fatal(err)
				}
			}

			defer time.AfterFunc(2*time.Minute, func() { panic("a command waits for a small file; want it to go on") }).
				Stop()

			m.inside = true
			m.want("run", m.as(app.BootUnit, "run"), ended{0, "", ""})
			m.inside = false
			m.units.start()
			m.as(app.VerifyUnit, "verify")
			m.as("", "status")
			m.as(app.ApplyUnit, "run")
			if m.kubelet.Active != "active" || m.gateSays() == "" {
				t.Errorf("kubelet %s, gate %q; want it active and the gate open", m.kubelet.Active, m.gateSays())
			}
		})
	}
}
