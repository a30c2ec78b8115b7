package live

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prelet/prelet/internal/hardware"
	"github.com/prelet/prelet/internal/world"
)

func (l *Live) facts(ctx context.Context, r world.FactsReq) world.Answer {
	o := hardware.Options{Root: l.o.Hardware}
	var missing hardware.Missing
	if len(r.WaitLinks)+len(r.WaitDrivers) > 0 {
		var err error
		if missing, err = hardware.WaitFor(ctx, o, r.WaitLinks, r.WaitDrivers, time.Duration(r.WaitMillis)*time.Millisecond); err != nil {
			return world.Answer{Fail: world.Unusable, Detail: err.Error()}
		}
	}
	var f world.Facts
	var err error
	if r.WaitMillis == 0 && l.o.Early != nil && l.o.Early.taken.CompareAndSwap(false, true) {
		f, err = l.o.Early.take(ctx)
	} else {
		f, err = hardware.Detect(ctx, o)
	}
	if err != nil {
		return world.Answer{Fail: world.Unusable, Detail: err.Error(), Hint: "`prelet detect` shows what can be read"}
	}
	for _, n := range missing.Links {
		f.Unknown = append(f.Unknown, l.notThere("link "+n, "it did not come up", "it is down", missing.Waited))
	}
	for _, n := range missing.Drivers {
		f.Unknown = append(f.Unknown, l.notThere("driver "+n, "no device was bound to it", "no device is bound to it", missing.Waited))
	}
	return world.FactsOf.Answer(f)
}

// notThere says that what the site waits for did not come, or is not there in a recorded tree.
func (l *Live) notThere(what, didNot, isNot string, waited time.Duration) world.UnknownFact {
	why := fmt.Sprintf("%s in %s", didNot, waited.Round(100*time.Millisecond))
	if l.o.Hardware != "" {
		why = isNot + " in this recording"
	}
	return world.UnknownFact{Fact: what, Why: why, Degraded: true}
}

// Early is a detection that began before the site was read: it needs nothing of the site, unless that waits for links
// or drivers, and takes longer than reading the site does.
//
// One question has it: facts are given away with the answer.
type Early struct {
	taken atomic.Bool
	done  chan struct{}
	facts world.Facts
	err   error
}

// DetectEarly starts looking at the hardware; "" is this machine. It ends when ctx does.
func DetectEarly(ctx context.Context, tree string) *Early {
	return early(func() (world.Facts, error) { return hardware.Detect(ctx, hardware.Options{Root: tree}) })
}

// early runs detect beside its caller. A panic there is an answer that failed, as it is inside a stage: it must not end
// the process, which has the gate to see to.
func early(detect func() (world.Facts, error)) *Early {
	e := &Early{done: make(chan struct{})}
	go func() {
		defer close(e.done)
		defer func() {
			if p := recover(); p != nil {
				e.facts, e.err = world.Facts{}, fmt.Errorf("looking at the hardware broke: %v. This is a fault of prelet; please report it", p)
			}
		}()
		e.facts, e.err = detect()
	}()
	return e
}

func (e *Early) take(ctx context.Context) (world.Facts, error) {
	select {
	case <-e.done:
		return e.facts, e.err
	case <-ctx.Done():
		return world.Facts{}, fmt.Errorf("looking at the hardware did not end in time: %w", context.Cause(ctx))
	}
}
