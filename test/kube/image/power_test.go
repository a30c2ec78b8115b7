package image

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// cuts is how often TestPower pulls the plug.
const cuts = 10

// TestPower pulls the plug at random moments of runs that change each of the kubelet's files, one in each tenth of the
// time that a run takes. The boot after it has a value that the site refuses, so that it can plan nothing: it starts the
// kubelet on what was on the disk, which must be of one generation, the one before or the new one.
func TestPower(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "POWER-1")
	args := slices.Concat(credentials(t, c), m.smbiosToken(c.Token), roundFlags("none"))
	m.start(args...)
	node(t, c, m, "power-1")
	m.healthy()
	m.addRounds()
	m.reboot() // as each run after a cut, the first one comes after a boot
	m.settled(10)

	seed := rand.Uint64()
	if text := os.Getenv("PRELET_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("PRELET_SEED=%s: %v", text, err)
		}
	}
	t.Logf("PRELET_SEED=%d takes the same moments again", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	// change starts a run, which takes as long as this first one.
	change := func(round int) {
		t.Helper()
		unit, value := fmt.Sprint("--unit=change-", round), fmt.Sprint("round=", round)
		m.run("systemd-run", "--quiet", unit, "--collect", "prelet", "run", "--var", value)
	}
	began := time.Now()
	change(100)
	var s status
	m.within(patience, "the kubelet is healthy with the change", func() string {
		if s = m.status(); s.Generation == 2 && s.Verdict == "good" {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	whole := time.Since(began)
	t.Logf("a run takes %s until its verdict", whole.Round(time.Millisecond))

	in, changed := 100, 0
	for i := range cuts {
		next := 101 + i
		change(next)
		after := (time.Duration(i)*whole + time.Duration(random.Int64N(int64(whole)))) / cuts
		time.Sleep(after)
		m.cut()

		m.start(args...)
		now := m.settled(10)
		got := m.round()
		t.Logf("cut after %s: round %d, was %d; generation %d, was %d; verdict %q", after.Round(time.Millisecond), got, in,
			now.Generation, s.Generation, now.Verdict)
		if got != in && got != next {
			t.Errorf("after a cut: got round %d; want %d or %d", got, in, next)
		}
		if isNew := now.Generation > s.Generation; isNew != (got == next) {
			t.Errorf("after a cut: got generation %d with round %d; want %d with %d, or a later one with %d",
				now.Generation, got, s.Generation, in, next)
		}
		if got == next {
			changed++
		}
		in, s = got, now

		// A generation without a verdict after several boots is rolled back to the last good one.
		m.within(patience, "the kubelet has a verdict", func() string {
			if now = m.status(); now.Verdict == "pending" { // empty: it has been good in an earlier boot
				return fmt.Sprintf("%+v", now)
			}
			return ""
		})
		if now.Generation != s.Generation {
			t.Fatalf("after the verdict: got generation %d; want %d", now.Generation, s.Generation)
		}
	}
	t.Logf("%d of %d cuts came after the commit", changed, cuts)
	if changed == 0 || changed == cuts {
		t.Errorf("%d of %d cuts came after the commit; want some before it, and some after", changed, cuts)
	}
	node(t, c, m, "power-1")
}
