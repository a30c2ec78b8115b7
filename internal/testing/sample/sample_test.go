package sample

import "testing"

// TestSample checks that the seed decides what is taken, that it is about one in n, and that a full sweep takes all.
func TestSample(t *testing.T) {
	count := func(s Sample) (taken int) {
		for i := range 1000 {
			if s.Has(5, "case", i) {
				taken++
			}
		}
		return taken
	}

	t.Setenv("PRELET_SWEEP", "")
	t.Setenv("PRELET_SEED", "one")
	s := New(t)
	if got := count(s); got < 150 || got > 250 {
		t.Errorf("one in 5 of 1000: got %d, want 150 to 250", got)
	}
	if first, step := s.OneIn(7, "bits"); first < 0 || first > 6 || step != 7 {
		t.Errorf("OneIn(7): got first %d, step %d; want 0 to 6, 7", first, step)
	}
	if again := New(t); again != s {
		t.Errorf("the same seed: got %v, want %v", again, s)
	}
	t.Setenv("PRELET_SEED", "")
	if a, b := New(t), New(t); a == b {
		t.Errorf("without a seed: got %v twice, want two choices", a)
	}

	if got := Quarter(5); got != 5 {
		t.Errorf("Quarter(5): got %d, want 5", got)
	}
	t.Setenv("PRELET_SWEEP", "quick")
	if got := Quarter(5); got != 20 {
		t.Errorf("Quarter(5) of a quick run: got %d, want 20", got)
	}

	t.Setenv("PRELET_SWEEP", "full")
	if got := count(s); got != 1000 {
		t.Errorf("a full sweep of 1000: got %d, want all", got)
	}
	if first, step := s.OneIn(7, "bits"); first != 0 || step != 1 {
		t.Errorf("a full sweep: got first %d, step %d; want 0, 1", first, step)
	}
}
