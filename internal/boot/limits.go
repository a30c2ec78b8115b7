package boot

import (
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
)

// watchdog bounds evaluation: HCL's evaluator takes no context, and limits on the site's text cannot foresee every
// combination (two nested for over ten thousand elements each, a number of a gigabyte).
type evalLimits struct {
	time time.Duration
	heap uint64 // bytes that may be added
	look time.Duration
}

// patience is far beyond any honest site: one takes milliseconds, and a few megabytes.
func defaultLimits() evalLimits {
	return evalLimits{time: 30 * time.Second, heap: 512 << 20, look: 10 * time.Millisecond}
}

// bounded is what f returns, or nothing and an error when f is given up at a limit or panics. Nothing can stop f, so
// one that is given up still runs: it must not write to anything but what it returns.
func runBounded[T any](w evalLimits, f func() T) (T, *hcl.Diagnostic) {
	type result struct {
		value T
		broke any
	}
	done := make(chan result, 1) // nobody receives from one that is given up
	go func() {
		var r result
		defer func() {
			r.broke = recover()
			done <- r
		}()
		r.value = f()
	}()

	var nothing T
	deadline, tick := time.NewTimer(w.time), time.NewTicker(w.look)
	defer deadline.Stop()
	defer tick.Stop()
	var before uint64
	for first := true; ; first = false {
		select {
		case r := <-done:
			if r.broke != nil {
				return nothing, origin.Error(fault.Internal, hcl.Range{}, "prelet broke while deciding",
					"This is a fault of prelet: %v. Please report it with `prelet record`.", r.broke)
			}

			return r.value, nil
		case <-deadline.C:
			return nothing, refuseTooMuch("more than " + w.time.String())
		case <-tick.C:
			now := readHeapSize()
			if first {
				before = now
			} else if now > before+w.heap {
				return nothing, refuseTooMuch(fmt.Sprintf("more than %d MiB of memory", w.heap>>20))
			}
		}
	}
}

// step is bounded for a step of the boot: the finding of one that is given up is that, and its value is nothing.
func runStep[T any](w evalLimits, f func() (T, Findings)) (T, Findings) {
	type both struct {
		value T
		found Findings
	}
	b, limit := runBounded(w, func() both {
		v, found := f()
		return both{v, found}
	})
	if limit != nil {
		b.found.report(limit)
	}

	return b.value, b.found
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
