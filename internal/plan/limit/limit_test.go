package limit

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestWatchdog runs on synctest's clock: a sleep costs no time.
func TestWatchdog(t *testing.T) { synctest.Test(t, testWatchdog) }

func testWatchdog(t *testing.T) {
	w := Limits{Time: time.Minute, Heap: 64 << 20, Look: time.Millisecond}
	watch := func(f func()) *hcl.Diagnostic {
		_, failed := Run(t.Context(), w, func() struct{} { f(); return struct{}{} })
		return failed
	}
	if d := watch(func() { time.Sleep(5 * time.Millisecond) }); d != nil {
		t.Errorf("what ends: got %s, want no error", d)
	}
	if d := watch(func() { panic("x") }); d == nil || !strings.Contains(d.Detail, "bug in prelet: x") {
		t.Errorf("a panic: got %v, want a bug in prelet", d)
	}

	stop := make(chan struct{})
	defer close(stop)
	w.Time = 20 * time.Millisecond
	if d := watch(func() { <-stop }); d == nil || !strings.Contains(d.Summary, "20ms") {
		t.Errorf("what never ends: got %v, want the limit of 20ms", d)
	}

	runtime.GC() // else a collection of the garbage of earlier tests hides what grows
	w.Time = time.Minute
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

// TestGaveUp: after an evaluation that goes on behind its limit no other begins.
func TestGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		w := Limits{Time: time.Second, Heap: 64 << 20, Look: time.Hour, GaveUp: new(atomic.Bool)}
		if _, d := Run(t.Context(), w, func() int { return 1 }); d != nil || w.GaveUp.Load() {
			t.Errorf("what ends: got %v, gave up %t; want neither", d, w.GaveUp.Load())
		}
		if _, d := Run(t.Context(), w, func() int { <-stop; return 1 }); d == nil || !w.GaveUp.Load() {
			t.Errorf("what never ends: got %v, gave up %t; want both", d, w.GaveUp.Load())
		}
		if _, d := Run(t.Context(), w, func() int { t.Error("got another evaluation, want none"); return 1 }); d == nil {
			t.Error("the next one: got no error, want one")
		}
	})
}

// TestStepWithinDeadline: a step that no read limits ends with the run's deadline, or by a signal. After the deadline,
// with the answers of the last good generation, it still has time.
func TestStepWithinDeadline(t *testing.T) {
	for name, c := range table.YAML[map[string]struct {
		Deadline, Work, Want table.Duration
		Signal               table.Duration
		Code                 fault.Code
	}](t, `
it ends: {deadline: 1m, work: 1s, want: 1s}
the deadline comes: {deadline: 10s, work: 1h, want: 10s, code: limit}
the deadline has passed: {work: 1s, want: 1s}
it takes too long then: {work: 1h, want: 5s, code: limit}
a signal: {deadline: 1m, work: 1h, want: 2s, signal: 2s, code: interrupted}
`) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if c.Signal.Duration > 0 {
					time.AfterFunc(c.Signal.Duration, cancel)
				}
				ctx, stop := context.WithTimeout(ctx, c.Deadline.Duration)
				defer stop()

				ended := make(chan struct{})
				defer close(ended)
				limits := Default()
				limits.Look = time.Hour
				began := time.Now()
				_, failed := Run(ctx, limits, func() struct{} {
					select {
					case <-time.After(c.Work.Duration):
					case <-ended:
					}
					return struct{}{}
				})
				var code fault.Code
				if failed != nil {
					code = origin.CodeOf(failed)
				}
				if took := time.Since(began); took != c.Want.Duration || code != c.Code {
					t.Errorf("got %s, %q; want %s, %q", took, code, c.Want, c.Code)
				}
			})
		})
	}
}

// TestPastTheSharedTime gives the reason of the limit to an evaluation that is due after it, also if another one has
// given up before.
func TestPastTheSharedTime(t *testing.T) {
	for _, hasGivenUp := range []bool{false, true} {
		limits := Limits{Time: time.Nanosecond, Heap: 1 << 30, Look: time.Second, GaveUp: &atomic.Bool{}}.Shared()
		limits.GaveUp.Store(hasGivenUp)
		time.Sleep(time.Millisecond)

		_, failed := Run(t.Context(), limits, func() bool { t.Error("got an evaluation, want none"); return true })
		if failed == nil || !strings.HasSuffix(failed.Summary, "on all sample machines together") {
			t.Errorf("given up %t: got %v, want the limit of all", hasGivenUp, failed)
		}
	}
}
