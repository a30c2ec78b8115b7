package boot

import (
	"fmt"
	"strings"
	"testing"

	"time"

	"github.com/prelet/prelet/test/nspawn"
)

// A machine that dies three times before the verdict on a change: the fourth boot goes back before the kubelet
// starts, holds the plan, and is well.
func TestThreeTries(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.site = strings.Replace(m.site, `settle  = "1s"`, `settle  = "30s"`, 1)
	m.edit(pool, `"example.com/pool" = "b"`)
	for n := 2; n <= 4; n++ {
		m.Start()
		m.Within(nspawn.BootTime, fmt.Sprintf("boot %d begins to verify", n-1), func() string {
			if starts := m.starts(); len(starts) != n || m.property("prelet-verify", "ActiveState") != "active" ||
				m.journalNow().Tries != n-1 {
				return fmt.Sprintf("%d starts, journal %+v", len(starts), m.journalNow())
			}
			return ""
		})
		m.Kill()
	}
	m.Boot()
	m.Within(60*time.Second, "a verdict on what it went back to", func() string {
		if s := m.status(); s.State == "running" || m.Exists("/var/lib/prelet/journal.json") {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if s := m.status(); s.Held == nil || s.Generation != 3 || !s.Gate.Open {
		t.Errorf("status: got %+v; want Held other than nil, Generation 3 and Gate.Open", s)
	}
	starts := m.starts()
	if last := starts[len(starts)-1]; len(starts) != 5 || last.Generation != "3" ||
		last.Labels["example.com/pool"] != "a" {
		t.Errorf("starts: got %+v; want 5 starts, Generation \"3\" and Labels[example.com/pool] \"a\"", starts)
	}
}
