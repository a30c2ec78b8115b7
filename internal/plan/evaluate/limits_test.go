package evaluate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/limit"
)

// TestLimitOnSamples checks that a site whose evaluation reaches the limit is evaluated on one sample machine only: each
// further one would take the limit again.
func TestLimitOnSamples(t *testing.T) {
	limits := limit.Default()
	limits.Time = 20 * time.Millisecond
	s := mustParse(t, `
stage "label" "slow" {
  labels = { slow = tostring(length([for a in range(1000) : [for b in range(100) : b if b == a * a]])) }
}
`)

	found, _, _ := checkOnSamples(s, SampleMachines(), CheckOptions{}, limits)

	if len(found) == 0 {
		t.Fatal("no findings, want the limit of 20ms")
	}
	for _, f := range found {
		if len(f.machines) != 1 || f.machines[0] != SampleMachines()[0].Name {
			t.Errorf("%q came from %q, want the first sample machine only", f.diagnostic.Summary, f.machines)
		}
	}
	if !slices.ContainsFunc(found, func(f machineFinding) bool { return strings.Contains(f.diagnostic.Summary, "20ms") }) {
		t.Errorf("got %+v, want the limit of 20ms", found)
	}
}

// TestSamplesShareTheLimit checks that all sample machines together have the time of one evaluation, so that a check is
// bounded also where each machine alone stays below the limit.
func TestSamplesShareTheLimit(t *testing.T) {
	limits := limit.Default()
	limits.Time = time.Second
	s := mustParse(t, `
stage "label" "slow" {
  labels = { slow = tostring(length([for a in range(200) : [for b in range(200) : b if b == a * a]])) }
}
`)
	machines := slices.Repeat(SampleMachines()[:1], 4000) // one takes 50 ms

	got, _ := checkWithin(s, machines, CheckOptions{}, limits.Shared())

	isLimit := func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) == fault.Limit && d.Summary == "Evaluating the site took more than 1s on all sample machines together"
	}
	if !slices.ContainsFunc(got, isLimit) {
		t.Errorf("got %v, want the limit of 1s for all machines", got)
	}
}
