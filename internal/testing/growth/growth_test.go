package growth

import (
	"testing"
	"time"
)

// TestCompare measures work in proportion to the size, and to its square, on a clock of this test: a busy machine makes
// neither longer.
func TestCompare(t *testing.T) {
	work := func(rounds func(size int) int) float64 {
		var now time.Duration
		clock := func() time.Duration { return now }

		return compare(400, func(size int) func() {
			return func() { now += time.Duration(rounds(size)) * time.Microsecond }
		}, clock)
	}

	if got := work(func(size int) int { return size }); got != times {
		t.Errorf("in proportion: got %.1f times, want %d", got, times)
	}
	if got := work(func(size int) int { return size * size }); got != times*times || got <= most {
		t.Errorf("the square: got %.1f times, want %d, which is more than %d", got, times*times, most)
	}
}

// TestUsed works until the processor time of this process has grown.
func TestUsed(t *testing.T) {
	const enough = 10 * time.Millisecond
	began := used()
	for range 1 << 28 { // minutes
		if used()-began >= enough {
			return
		}
	}
	t.Errorf("processor time: got %s, want at least %s", used()-began, enough)
}
