package check

import (
	"errors"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestFirst checks that a run ends with the first error of a list, and that a report of the same list has both.
func TestFirst(t *testing.T) {
	first := &fault.Fault{Code: fault.CannotWrite, Err: errors.New("the disk is full"), Next: "make room"}
	ran := 0
	var l List
	l.Add("disk", Running, func(r *Recorder) { ran++; r.Warn("slow", "", ""); r.Fail(nil) })
	l.Add("disk", Running, func(r *Recorder) { ran++; r.Fail(first); r.Fail(errors.New("later")) })
	l.Add("unit", Running, func(r *Recorder) { ran++; r.Fail(errors.New("masked")) })
	l.Add("unit", Files, func(r *Recorder) { ran++; r.Fine("it waits") })

	if err := l.First(); !errors.Is(err, first) || ran != 2 {
		t.Errorf("First: got %v after %d checks, want %v after 2", err, ran, first)
	}

	got := l.Run(Running)
	want := []Finding{
		{Check: "disk", State: Problem, Summary: "the disk is full", Why: "a run ends with 40 before it writes anything", Do: "make room"},
		{Check: "disk", State: Problem, Summary: "later", Why: "a run ends with 70 before it writes anything"},
		{Check: "disk", State: Warning, Summary: "slow"},
		{Check: "unit", State: Problem, Summary: "masked", Why: "a run ends with 70 before it writes anything"},
	}
	if !slices.Equal(got, want) || Fit(got) {
		t.Errorf("Run: got %+v, fit %t; want %+v, unfit", got, Fit(got), want)
	}

	got = l.Run(Files)
	want = []Finding{
		{Check: "unit", State: OK, Summary: "it waits"},
		{Check: "disk", State: Skipped, Summary: "only a running machine can be checked for it"},
	}
	if !slices.Equal(got, want) || !Fit(got) {
		t.Errorf("Run on files: got %+v, fit %t; want %+v, fit", got, Fit(got), want)
	}
}
