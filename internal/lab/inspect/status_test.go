package inspect

import (
	"testing"

	"github.com/prelet/prelet/internal/machine/report"
)

func TestConditionOf(t *testing.T) {
	for _, c := range []struct {
		state string
		want  Condition
	}{
		{report.OK, Healthy}, {report.Degraded, Degraded}, {report.Running, Unfinished},
		{report.Failed, Failing}, {"other", Failing},
	} {
		if got := conditionOf(c.state); got != c.want {
			t.Errorf("conditionOf(%q) = %q, want %q", c.state, got, c.want)
		}
	}
}
