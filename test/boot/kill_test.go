package boot

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const kills = 30

// The plug is pulled at some moment of a boot that has something to change, and the machine boots again: it is whole and
// well on the site, and no kubelet ever started on a mixture of two generations.
func TestKilledWhileBooting(t *testing.T) {
	m := joined(t)
	m.off()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n <= kills; n++ {
		name := fmt.Sprintf("v%d", n)
		m.both(name)
		m.start()
		after := time.Duration(random.Int64N(int64(900 * time.Millisecond)))
		time.Sleep(after)
		m.kill()
		state := fmt.Sprintf("killed after %s", after.Round(time.Millisecond))
		if journal := m.read("/var/lib/prelet/journal.json"); journal != "" {
			state += ", with a journal: " + strings.Join(strings.Fields(journal), "")
		}
		t.Log(state)
		m.boot()
		m.within(30*time.Second, "well again, "+state, func() string {
			s := m.status()
			starts := m.starts()
			last := starts[len(starts)-1]
			if s.Code != 0 || m.exists("/var/lib/prelet/journal.json") || last.Labels["example.com/pool"] != name {
				return fmt.Sprintf("%+v, last start %+v", s, last)
			}
			return ""
		})
		m.running()
		m.off()
	}
	m.noMixture()
}

// prelet-apply.service is killed at some moment of its work: systemd starts it again, and it finishes what it had begun.
func TestApplyKilled(t *testing.T) {
	m := joined(t)
	for n := range 6 {
		name := fmt.Sprintf("w%d", n)
		m.edit(pool, `"example.com/pool" = "`+name+`"`)
		after := time.Duration(n) * 40 * time.Millisecond
		m.do("sh", "-c", fmt.Sprintf(`prelet run >/dev/null 2>&1 & sleep %f; systemctl kill -s KILL prelet-apply.service; wait; :`, after.Seconds()))
		m.within(60*time.Second, fmt.Sprintf("well again, killed after %s", after), func() string {
			if s := m.status(); s.State == "running" || m.exists("/var/lib/prelet/journal.json") {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
		if r := m.try("prelet", "run"); r.exit != 0 {
			t.Errorf("killed after %s, and run again: %+v", after, r)
		}
		m.running()
		starts := m.starts()
		if last := starts[len(starts)-1]; last.Labels["example.com/pool"] != name {
			t.Errorf("killed after %s: the kubelet runs on %+v", after, last)
		}
	}
}
