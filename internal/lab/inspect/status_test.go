package inspect

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestConditionOf(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		State string
		Want  Condition
	}](t, `
- {state: ok, want: healthy}
- {state: degraded, want: degraded}
- {state: running, want: unfinished}
- {state: failed, want: failing}
- {state: other, want: failing}
`) {
		if got := conditionOf(c.State); got != c.Want {
			t.Errorf("conditionOf(%q) = %q, want %q", c.State, got, c.Want)
		}
	}
}
