package main

import (
	"strings"
	"testing"
)

// TestForcedFileInStatus: the status of each run has the reason for which the site writes a file of the system.
func TestForcedFileInStatus(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "fstab" {
    path    = "/etc/fstab"
    content = "\n"
    force   = "the site has all mounts"
  }
}`, 1))

	for _, run := range []string{"first", "second"} {
		m.boot()
		s := m.says()
		if len(s.Notes) != 1 || s.Notes[0].Code != "system-file" ||
			!strings.Contains(s.Notes[0].Summary, "because of force: the site has all mounts") || len(s.Degraded) > 0 {
			t.Errorf("%s boot: got notes %+v, degraded %+v; want one note with the reason", run, s.Notes, s.Degraded)
		}
		m.reboot()
	}
}
