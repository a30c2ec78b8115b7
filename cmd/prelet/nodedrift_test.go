package main

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report"
)

// A Node whose labels differ from the plan is reported, with the command that fixes it. The kubelet is healthy in
// spite of that.
func TestNodeDrift(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.labels = map[string]string{"example.com/pool": "a"}
	m.boot()
	if s := m.says(); len(s.Notes) != 0 {
		t.Errorf("without drift: %+v", s.Notes)
	}
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `"a"`, `"b"`, 1))
	plan := m.as("", "plan", "--root", m.root)
	m.want("plan", plan, ended{0, "when registered", ""})
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "Generation 2 is in place, and the kubelet is healthy", ""})
	s := m.says()
	if s.State != report.OK || len(s.Notes) != 1 || s.Notes[0].Code != "node-drift" ||
		!strings.Contains(s.Notes[0].Summary, `kubectl label node n1 --overwrite example.com/pool=b`) ||
		!strings.Contains(s.Notes[0].Summary, "/etc/prelet/site.hcl:10:") {
		t.Errorf("status: %+v", s)
	}
	m.want("status", m.as("", "status"), ended{0, "node-drift", ""})
	m.want("verify by hand", m.as("", "verify"), ended{0, "labels     drift", ""})

	// After the patch there is no drift; another run has nothing to do and writes no file.
	m.put(
		"/etc/prelet/site.hcl",
		strings.NewReplacer(`"a"`, `"b"`, `stage "restart" "kubelet" {}`, `stage "restart" "kubelet" { reconcile_labels = true }`).
			Replace(m.site),
	)
	m.want("plan", m.as("", "plan", "--root", m.root), ended{0, "patched", ""})
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""}) // of files
	if s := m.says(); strings.Join(m.patched, " ") != "example.com/pool=b" || len(s.Notes) != 0 {
		t.Errorf("patched %q, status %+v", m.patched, s)
	}
	before := m.disk()
	m.want("again", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.unchanged("again", before)

	// A value that the site no longer sets is removed, if it was not changed since.
	m.put(
		"/etc/prelet/site.hcl",
		strings.NewReplacer(`{ "example.com/pool" = "a" }`, `{ "example.com/other" = "c" }`, `stage "restart" "kubelet" {}`, `stage "restart" "kubelet" { reconcile_labels = true }`).
			Replace(m.site),
	)
	m.patched = nil
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "Generation 3 is in place", ""})
	if got := strings.Join(m.patched, " "); got != "example.com/other=c example.com/pool-" {
		t.Errorf("patched %q", got)
	}
}
