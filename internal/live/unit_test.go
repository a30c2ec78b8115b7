package live

import (
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/systemd"
)

// TestDescribeUnit: what systemd refuses to do with a unit by hand.
func TestDescribeUnit(t *testing.T) {
	for name, c := range map[string]struct {
		unit systemd.Unit
		want []string
	}{
		"neither":              {systemd.Unit{Load: "loaded"}, nil},
		"a stop, as auditd":    {systemd.Unit{Load: "loaded", NoStop: true, CanReload: true}, []string{"restart"}},
		"a start, no reload":   {systemd.Unit{Load: "loaded", NoStart: true}, []string{"restart", "reload"}},
		"there is no such one": {systemd.Unit{Load: "not-found", NoStart: true, NoStop: true}, nil},
	} {
		if got := describeUnit(c.unit).Refuses; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
