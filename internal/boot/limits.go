package boot

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// evalLimits bounds evaluation: HCL's evaluator takes no context, and limits on the site's text cannot foresee every
// combination (two nested for over ten thousand elements each, a number of a gigabyte).
type evalLimits struct {
	time time.Duration
	heap uint64        // bytes that the heap may grow by
	look time.Duration // between two looks at the heap
}

// defaultLimits is far beyond any honest site: one takes milliseconds, and a few megabytes.
func defaultLimits() evalLimits {
	return evalLimits{time: 30 * time.Second, heap: 512 << 20, look: 10 * time.Millisecond}
}

// runStep runs a step of the boot within limits. A step that is given up has the zero value and one error: fault.Limit,
// or fault.Internal if it panicked.
func runStep[T any](limits evalLimits, step func() (T, Findings)) (T, Findings) {
	type result struct {
		value T
		found Findings
	}
	r, d := runBounded(limits, func() result {
		v, found := step()
		return result{v, found}
	})
	if d != nil {
		r.found.report(d)
	}

	return r.value, r.found
}

// runBounded returns the result of f, or the zero value and an error if f reaches a limit or panics. Nothing can stop
// f: if it is given up it still runs, so it must not write to anything but its result.
func runBounded[T any](limits evalLimits, f func() T) (T, *hcl.Diagnostic) {
	type result struct {
		value    T
		panicked any
	}
	done := make(chan result, 1) // nobody receives the result of one that is given up
	go func() {
		var r result
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.value = f()
	}()

	watched, stop := context.WithCancel(context.Background())
	defer stop()

	var zero T
	select {
	case r := <-done:
		if r.panicked != nil {
			return zero, origin.Error(fault.Internal, hcl.Range{}, "prelet broke while deciding",
				"This is a fault of prelet: %v. Please report it with `prelet record`.", r.panicked)
		}
		return r.value, nil
	case what := <-limits.watch(watched):
		return zero, refuseTooMuch(what)
	}
}

// watch returns a channel that receives the limit that was reached, in words, unless ctx ends before. The heap is
// measured against its size at the first look.
func (l evalLimits) watch(ctx context.Context) <-chan string {
	reached := make(chan string, 1)
	go func() {
		deadline, tick := time.NewTimer(l.time), time.NewTicker(l.look)
		defer deadline.Stop()
		defer tick.Stop()

		var before uint64
		for {
			select {
			case <-ctx.Done():
				return
			case <-deadline.C:
				reached <- "more than " + l.time.String()
				return
			case <-tick.C:
			}
			switch now := readHeapSize(); {
			case before == 0:
				before = now
			case now > before+l.heap:
				reached <- fmt.Sprintf("more than %d MiB of memory", l.heap>>20)
				return
			}
		}
	}()

	return reached
}

func readHeapSize() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)

	return s.HeapAlloc
}

func refuseTooMuch(what string) *hcl.Diagnostic {
	return origin.Error(fault.Limit, hcl.Range{}, "Deciding took "+what, "An expression of the site is too large: "+
		"look for nested for expressions, and for texts and numbers that are multiplied.")
}
