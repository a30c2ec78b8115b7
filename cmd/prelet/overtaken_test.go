package main

import (
	"context"
	"reflect"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report"
)

// `prelet rollback` takes over from a prelet-verify that watches: the report stays that of the rollback, and
// prelet-verify ends well.
func TestRollbackTakesOver(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.relabel("b")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "Generation 2 is in place", ""})
	m.inside = false
	m.units.start()

	var reported *report.Status
	m.slept = func(context.Context) {
		m.labels["example.com/pool"] = "a"
		m.want("rollback", m.as("", "rollback", "1"), ended{0, "Generation 3 is in place; it has the contents of generation 1", ""})
		reported = m.says()
	}
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
	if s := m.says(); !reflect.DeepEqual(s, reported) || s.State != report.Degraded || s.Generation != 3 {
		t.Errorf("status.json: got %+v, want that of the rollback, %+v", s, reported)
	}
	m.want("status", m.as("", "status"), ended{2, "is pinned", ""})
}
