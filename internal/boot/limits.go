package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
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
// Steps that read nothing are bounded by evalLimits, and by the run's deadline.

// evalLimits bounds evaluation: HCL's evaluator takes no context, and limits on the site's text cannot foresee
// every combination (two nested for over ten thousand elements each, a number of a gigabyte).
type evalLimits struct {
	time time.Duration
	end  time.Time     // of several evaluations that share that time; zero: each has its own
	heap uint64        // bytes that the heap may grow by
	look time.Duration // between two measurements of the heap

	gaveUp *atomic.Bool // Input.GaveUp
}

// defaultLimits is far above the needs of a real site, which takes milliseconds and a few megabytes.
func defaultLimits() evalLimits {
	return evalLimits{
		time: 30 * time.Second,
		heap: 512 << 20,
		look: 10 * time.Millisecond,
	}
}

// shared returns limits whose time begins now, for all evaluations together.
func (l evalLimits) shared() evalLimits {
	l.end = time.Now().Add(l.time)

	return l
}

// lateStep is the time of a step that starts at the end of the run's deadline or later: where the cluster did not
// answer, a run goes on with the answers of its last good generation.
const lateStep = 5 * time.Second

// runStep runs a step of the boot within limits and within ctx's deadline. A step that reaches a limit, is interrupted
// or panics has the zero value and one error: fault.Limit, fault.Interrupted or fault.Internal. A step cannot be
// stopped: an abandoned step still runs, so a step must not write to anything but its result.
func runStep[T any](
	ctx context.Context,
	limits evalLimits,
	step func() (T, Findings),
) (value T, found Findings) {
	var panicked any
	var result T
	var resultFound Findings
	done := make(chan struct{})
	run := func() {
		defer close(done)
		defer func() { panicked = recover() }()
		result, resultFound = step()
	}

	switch found = limits.await(ctx, run, done); {
	case found.Diags.HasErrors(): // the step still writes to its results
	case panicked != nil:
		found.Report(reportPanic(hcl.Range{}, "prelet failed while it evaluated the site", panicked))
	default:
		return result, resultFound
	}

	return value, found
}

// await starts a function and waits until done is closed. Else it returns one error, as described at runStep.
func (l evalLimits) await(ctx context.Context, run func(), done <-chan struct{}) (found Findings) {
	if deadline, ok := ctx.Deadline(); ok {
		l.time = min(l.time, max(time.Until(deadline), lateStep))
	}
	most := "more than " + l.time.String()
	if !l.end.IsZero() {
		most += " on all sample machines together"
		l.time = time.Until(l.end)
	}
	if l.gaveUp != nil && l.gaveUp.Load() {
		found.Error(
			fault.Limit, hcl.Range{}, "Not evaluated",
			"An earlier evaluation of this command reached a limit, and takes time and memory until the command ends.",
		)
		return found
	}
	interrupted, release := waitForCancel(ctx)
	defer release()
	deadline := time.NewTimer(l.time)
	defer deadline.Stop()
	tick := time.NewTicker(l.look)
	defer tick.Stop()

	go run()

	limit := ""
	for before := uint64(0); limit == ""; {
		select {
		case <-done:
			return found
		case <-interrupted:
			found.Error(fault.Interrupted, hcl.Range{}, "Stopped by a signal", "%s.", context.Cause(ctx))
			return found
		case <-deadline.C:
			limit = most
		case <-tick.C:
			limit = l.checkHeap(&before)
		}
	}

	if l.gaveUp != nil {
		l.gaveUp.Store(true)
	}
	found.Error(
		fault.Limit, hcl.Range{}, "Evaluating the site took "+limit,
		"An expression of the site is too large, or the deadline of the prelet block too short: look for nested "+
			"for expressions, and for texts and numbers that are multiplied.",
	)

	return found
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

// EvaluateWithinLimits runs a function that evaluates in a plan's scope, within the limits of a run. An evaluation
// cannot be stopped, so the function must use a fork of the scope. ok is false if it reached a limit or panicked.
// gaveUp is that of Options.
func EvaluateWithinLimits[T any](gaveUp *atomic.Bool, evaluate func() T) (value T, diags hcl.Diagnostics, ok bool) {
	limits := defaultLimits()
	limits.gaveUp = gaveUp
	value, found := runStep(context.Background(), limits, func() (T, Findings) {
		return evaluate(), Findings{}
	})

	return value, found.Diags, !found.Diags.HasErrors()
}

// reportPanic returns the error for a panic.
func reportPanic(at hcl.Range, summary string, panicked any) *hcl.Diagnostic {
	return origin.Error(
		fault.Internal, at, summary,
		"This is a bug in prelet: %v. Please report it with a recording: prelet record.", panicked,
	)
}

// checkHeap returns the limit of the heap as a text if the heap has grown by it since the first call: that sets before.
func (l evalLimits) checkHeap(before *uint64) string {
	now := readHeapSize()
	*before = cmp.Or(*before, now)
	if now > *before+l.heap {
		return fmt.Sprintf("more than %d MiB of memory", l.heap>>20)
	}

	return ""
}

// readHeapSize does not stop the other goroutines, as runtime.ReadMemStats does.
func readHeapSize() uint64 {
	size := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(size)

	return size[0].Value.Uint64()
}

// limit is a time that ends all that is inside of it.
type limit struct {
	name string
	time time.Duration
}

// checkNested warns of a time that a site writes and that is longer than one around it, which ends first: see the table
// above. A time that is not a literal is not checked.
func checkNested(s *lang.Site, deadline time.Duration) (found Findings) {
	// check checks a time, whose default is 0 or t, and returns the limit of what is inside of it.
	check := func(x hclsyntax.Expression, name string, t time.Duration, outer limit) limit {
		if x != nil {
			text, _ := value.LiteralText(x)
			if written, err := time.ParseDuration(text); err == nil {
				t = written
			}
			if t > outer.time {
				found.Warn(fault.WrongType, x.Range(), name+" is longer than "+outer.name,
					"It is %s, and %s ends it after %s. Raise that, or lower this.", text, outer.name, outer.time)
			}
		}
		if t == 0 || t > outer.time {
			return outer
		}

		return limit{"the timeout of its stage", t}
	}
	find := func(b *hclsyntax.Body, name string) hclsyntax.Expression {
		if b == nil || b.Attributes[name] == nil {
			return nil
		}

		return b.Attributes[name].Expr
	}

	site := limit{"the deadline of the prelet block", deadline}
	check(find(s.Cluster, schema.Retry.Name), "retry", 0, site)
	hardware := site
	for _, i := range s.Stages {
		if i.Spec.Phase != schema.Gather {
			continue
		}
		stage := check(i.Timeout, "timeout", i.Spec.Timeout, site)
		check(find(i.Body, "wait"), "wait", 0, stage)
		for _, b := range i.Body.Blocks {
			check(find(b.Body, "timeout"), "timeout", 0, stage)
		}
		if i.Type == stages.DetectHW {
			hardware = stage
		}
	}
	for _, name := range sortKeys(s.Detectors) {
		check(find(s.Detectors[name].Body, "timeout"), "timeout", 0, hardware)
	}

	return found
}
