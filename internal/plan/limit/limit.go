// Package limit runs a step of a boot within limits of time and memory. It knows nothing about the step.
package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// A read of the cluster in a gather stage has seven time limits. Each is inside the one above it, and the limit that
// is reached first makes the message.
//
//	limit            default   set by                               message
//	the run          5m        deadline in the prelet block         that of the last attempt
//	the stage        3m, 90s   timeout of the stage, Spec.Timeout   that of the last attempt
//	its goroutine    +250ms    abandonAfter, after both             "Timed out waiting for stage …"
//	all attempts     2m        retry in the cluster block; 15s on   that of the worst server
//	                           a joined node with a last good
//	                           generation (Live.Hurry)
//	one server       a share   the rest of these, by the number     "no response within …"
//	                           of servers and addresses
//	one request      25s       cluster.ClientConfig.RequestTimeout  "no complete response within …"
//	one connection   10s       cluster.ClientConfig.DialTimeout     "no connection within …"
//
// Steps that read nothing are bounded by Limits, and by the run's deadline.

// Limits bound evaluation: HCL's evaluator takes no context, and limits on the site's text cannot foresee
// every combination (two nested for over ten thousand elements each, a number of a gigabyte).
type Limits struct {
	Time time.Duration
	end  time.Time     // of several evaluations that share that time; zero: each has its own
	Heap uint64        // bytes that the heap may grow by
	Look time.Duration // between two measurements of the heap

	// GaveUp is set when a step has reached a limit: it goes on, so no further one begins. nil: each is tried.
	GaveUp *atomic.Bool
}

// Default is far above the needs of a real site, which takes milliseconds and a few megabytes.
func Default() Limits {
	return Limits{
		Time: 30 * time.Second,
		Heap: 512 << 20,
		Look: 10 * time.Millisecond,
	}
}

// Shared returns limits whose time begins now, for all evaluations together.
func (l Limits) Shared() Limits {
	l.end = time.Now().Add(l.Time)

	return l
}

// lateStep is the time of a step that starts at the end of the run's deadline or later: where the cluster did not
// answer, a run goes on with the answers of its last good generation.
const lateStep = 5 * time.Second

// Run runs a step of the boot within limits and within ctx's deadline. A step that reaches a limit, is interrupted
// or panics has the zero value and an error: fault.Limit, fault.Interrupted or fault.Internal. A step cannot be
// stopped: an abandoned step still runs, so a step must not write to anything but its result.
func Run[T any](ctx context.Context, limits Limits, step func() T) (value T, failed *hcl.Diagnostic) {
	var panicked any
	var result T
	done := make(chan struct{})
	run := func() {
		defer close(done)
		defer func() { panicked = recover() }()
		result = step()
	}

	switch failed = limits.await(ctx, run, done); {
	case failed != nil: // the step still writes to its result
	case panicked != nil:
		failed = ReportPanic(hcl.Range{}, "prelet failed while it evaluated the site", panicked)
	default:
		return result, nil
	}

	return value, failed
}

// await starts a function and waits until done is closed. Else it returns an error, as described at Run.
func (l Limits) await(ctx context.Context, run func(), done <-chan struct{}) *hcl.Diagnostic {
	if deadline, ok := ctx.Deadline(); ok {
		l.Time = min(l.Time, max(time.Until(deadline), lateStep))
	}
	most := "more than " + l.Time.String()
	if !l.end.IsZero() {
		most += " on all sample machines together"
		l.Time = time.Until(l.end)
	}
	switch hasGivenUp := l.GaveUp != nil && l.GaveUp.Load(); {
	case !l.end.IsZero() && l.Time <= 0: // another one may have given up for that reason
		return tooMuch(most)
	case hasGivenUp:
		return origin.Error(
			fault.Limit, hcl.Range{}, "Not evaluated",
			"An earlier evaluation of this command reached a limit, and takes time and memory until the command ends.",
		)
	}

	interrupted, release := waitForCancel(ctx)
	defer release()
	deadline := time.NewTimer(l.Time)
	defer deadline.Stop()
	tick := time.NewTicker(l.Look)
	defer tick.Stop()

	go run()

	limit := ""
	for before := uint64(0); limit == ""; {
		select {
		case <-done:
			return nil
		case <-interrupted:
			return origin.Error(fault.Interrupted, hcl.Range{}, "Stopped by a signal", "%s.", context.Cause(ctx))
		case <-deadline.C:
			limit = most
		case <-tick.C:
			limit = l.checkHeap(&before)
		}
	}

	if l.GaveUp != nil {
		l.GaveUp.Store(true)
	}
	if paths := nodefile.Waiting(0); limit == most && len(paths) > 0 {
		return origin.Error(
			fault.NoAnswer, hcl.Range{}, "A file system does not answer",
			"The deadline was reached in a read of %s. Make its server answer, or unmount it: umount -l, with the "+
				"mount above it that findmnt lists.", strings.Join(paths, ", "),
		)
	}

	return tooMuch(limit)
}

// tooMuch returns the error of an evaluation that takes more of something than its limit.
func tooMuch(limit string) *hcl.Diagnostic {
	return origin.Error(
		fault.Limit, hcl.Range{}, "Evaluating the site took "+limit,
		"An expression of the site is too large, or the deadline of the prelet block too short: look for nested "+
			"for expressions, and for texts and numbers that are multiplied.",
	)
}

// waitForCancel returns a channel that is closed when ctx is cancelled, but not when its deadline passes. release ends
// the wait.
func waitForCancel(ctx context.Context) (cancelled <-chan struct{}, release func() bool) {
	out := make(chan struct{})
	release = context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			close(out)
		}
	})

	return out, release
}

// ReportPanic returns the error for a panic.
func ReportPanic(at hcl.Range, summary string, panicked any) *hcl.Diagnostic {
	return origin.Error(
		fault.Internal, at, summary,
		"This is a bug in prelet: %v. Please report it with a recording: prelet record.", panicked,
	)
}

// checkHeap returns the limit of the heap as a text if the heap has grown by it since the first call: that sets before.
func (l Limits) checkHeap(before *uint64) string {
	now := readHeapSize()
	*before = cmp.Or(*before, now)
	if now > *before+l.Heap {
		return fmt.Sprintf("more than %d MiB of memory", l.Heap>>20)
	}

	return ""
}

// readHeapSize does not stop the other goroutines, as runtime.ReadMemStats does.
func readHeapSize() uint64 {
	size := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(size)

	return size[0].Value.Uint64()
}
