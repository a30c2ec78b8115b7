package main

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
)

// A server without the ConfigMap is asked until the site's retry has ended, and a run without a terminal logs that it
// waits.
func TestRunTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put(
		"/etc/prelet/site.hcl",
		strings.Replace(
			strings.Replace(m.site, "kube-system/kubelet-config", "kube-system/none", 1),
			`"5s"`,
			`"3s"`,
			1,
		),
	)
	got := m.as(app.BootUnit, "run")
	if n := strings.Count(got.errors, "prelet: waiting for "+m.server.URL()+": HTTP 404"); n != 1 ||
		!strings.Contains(got.errors, "trying until ") {
		t.Errorf("reported %d times; exit %d\n%s", n, got.exit, got.errors)
	}
}
