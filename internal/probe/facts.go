package live

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/probe/hardware"
	"github.com/prelet/prelet/internal/world"
)

// answerFacts returns the hardware, after waiting for the links and drivers that the site names. One that did not come
// in time is an unknown fact.
func (l *Live) answerFacts(ctx context.Context, r world.FactsReq) world.Answer {
	o := hardware.Options{Root: l.o.Hardware}
	var missing hardware.Missing
	if len(r.WaitLinks)+len(r.WaitDrivers) > 0 {
		var err error
		timeout := time.Duration(r.WaitMillis) * time.Millisecond
		if missing, err = hardware.WaitFor(ctx, o, r.WaitLinks, r.WaitDrivers, timeout); err != nil {
			return world.Failure(fault.HardwareFailed, err.Error(), "")
		}
	}

	f, err := hardware.Detect(ctx, o)
	if err != nil {
		return world.Failure(fault.HardwareFailed, err.Error(), "`prelet detect` shows what can be read")
	}

	for _, n := range missing.Links {
		f.Unknown = append(f.Unknown, l.missingFact("link "+n, "it did not come up", "it is down", missing.Waited))
	}
	for _, n := range missing.Drivers {
		f.Unknown = append(f.Unknown,
			l.missingFact("driver "+n, "no device was bound to it", "no device is bound to it", missing.Waited))
	}
	return world.FactsOf.Answer(f)
}

// missingFact returns the unknown fact for something that the site waits for. Its reason is didNot on this machine,
// where it was waited for, and isNot on a recorded one.
func (l *Live) missingFact(what, didNot, isNot string, waited time.Duration) world.UnknownFact {
	why := fmt.Sprintf("%s in %s", didNot, waited.Round(100*time.Millisecond))
	if l.o.Hardware != "" {
		why = isNot + " in this recording"
	}
	return world.UnknownFact{Fact: what, Why: why, Degraded: true}
}
