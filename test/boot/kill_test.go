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
