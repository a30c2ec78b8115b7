package growth

import "testing"

// TestCompare measures work in proportion to the size, and to its square.
func TestCompare(t *testing.T) {
	work := func(rounds func(size int) int) float64 {
		sum := 0
		defer func() { t.Log(sum) }() // else the compiler may leave it out

		return compare(400, func(size int) func() {
			return func() {
				for n := range rounds(size) {
					sum += n
				}
			}
		})
	}

	if got := work(func(size int) int { return size }); got > most {
		t.Errorf("in proportion: got %.1f times, want at most %d", got, most)
	}
	if got := work(func(size int) int { return size * size }); got <= most {
		t.Errorf("the square: got %.1f times, want more than %d", got, most)
	}
}
