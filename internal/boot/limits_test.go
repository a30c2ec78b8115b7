package boot

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
)

// TestWatchdog runs on synctest's clock: a sleep costs no time.
func TestWatchdog(t *testing.T) { synctest.Test(t, testWatchdog) }

func testWatchdog(t *testing.T) {
	w := evalLimits{time: time.Minute, heap: 64 << 20, look: time.Millisecond}
	watch := func(f func()) *hcl.Diagnostic {
		_, found := runStep(t.Context(), w, func() (struct{}, Findings) { f(); return struct{}{}, Findings{} })
		if len(found.Diags) == 0 {
			return nil
		}
		return found.Diags[0]
	}
	if d := watch(func() { time.Sleep(5 * time.Millisecond) }); d != nil {
		t.Errorf("what ends: got %s, want no error", d)
	}
	if d := watch(func() { panic("x") }); d == nil || !strings.Contains(d.Detail, "bug in prelet: x") {
		t.Errorf("a panic: got %v, want a bug in prelet", d)
	}

	stop := make(chan struct{})
	defer close(stop)
	w.time = 20 * time.Millisecond
	if d := watch(func() { <-stop }); d == nil || !strings.Contains(d.Summary, "20ms") {
		t.Errorf("what never ends: got %v, want the limit of 20ms", d)
	}

	runtime.GC() // else a collection of the garbage of earlier tests hides what grows
	w.time = time.Minute
	ended := make(chan struct{})
	d := watch(func() {
		defer close(ended)
		var all [][]byte
		for range 400 {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				all = append(all, make([]byte, 1<<20))
			}
		}
		_ = all[0][0]
	})
	select {
	case <-ended:
		t.Error("what grows: got its end, want it given up before")
	default:
	}
	if d == nil || !strings.Contains(d.Summary, "64 MiB of memory") {
		t.Errorf("what grows: got %v, want the limit of 64 MiB", d)
	}
}

// TestLimitOnSamples checks that a site whose evaluation reaches the limit is evaluated on one sample machine only: each
// further one would take the limit again.
func TestLimitOnSamples(t *testing.T) {
	limits := defaultLimits()
	limits.time = 20 * time.Millisecond
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
	if got := found[0].diagnostic.Summary; !strings.Contains(got, "20ms") {
		t.Errorf("got %q, want the limit of 20ms", got)
	}
}

// TestSamplesShareTheLimit checks that all sample machines together have the time of one evaluation, so that a check is
// bounded also where each machine alone stays below the limit.
func TestSamplesShareTheLimit(t *testing.T) {
	limits := defaultLimits()
	limits.time = time.Second
	s := mustParse(t, `
stage "label" "slow" {
  labels = { slow = tostring(length([for a in range(200) : [for b in range(200) : b if b == a * a]])) }
}
`)
	machines := slices.Repeat(SampleMachines()[:1], 400) // one takes 50 ms

	start := time.Now()
	got, _ := checkWithin(s, machines, CheckOptions{}, limits.shared())

	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the check took %s, want about the limit of 1s", took)
	}
	isLimit := func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) == fault.Limit && d.Summary == "Evaluating the site took more than 1s on all sample machines together"
	}
	if !slices.ContainsFunc(got, isLimit) {
		t.Errorf("got %v, want the limit of 1s for all machines", got)
	}
}
