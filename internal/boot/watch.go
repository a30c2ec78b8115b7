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
type watchdog struct {
	time time.Duration
	heap uint64 // bytes that may be added
	look time.Duration
}

// patience is far beyond any honest site: one takes milliseconds, and a few megabytes.
func patience() watchdog {
	return watchdog{time: 30 * time.Second, heap: 512 << 20, look: 10 * time.Millisecond}
}

// watch runs f, and gives it up at a limit. Then f still runs, since nothing can stop it: whoever calls must not
// use anything that it writes. The diagnostic is nil if f ended.
func (w watchdog) watch(f func()) *hcl.Diagnostic {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	deadline, tick := time.NewTimer(w.time), time.NewTicker(w.look)
	defer deadline.Stop()
	defer tick.Stop()
	var before uint64
	for first := true; ; first = false {
		select {
		case p := <-done:
			if p != nil {
				return origin.Error(fault.Internal, hcl.Range{}, "prelet broke while deciding", "This is a fault of prelet: %v. Please report it with `prelet record`.", p)
			}
			return nil
		case <-deadline.C:
			return tooMuch("more than " + w.time.String())
		case <-tick.C:
			now := heap()
			if first {
				before = now
			} else if now > before+w.heap {
				return tooMuch(fmt.Sprintf("more than %d MiB of memory", w.heap>>20))
			}
		}
	}
}

func tooMuch(what string) *hcl.Diagnostic {
	return origin.Error(fault.Limit, hcl.Range{}, "Deciding took "+what, "An expression of the site is too large: look for nested for expressions, and for texts and numbers that are multiplied.")
}
