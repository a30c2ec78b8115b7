package live

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/hardware"
	"github.com/prelet/prelet/internal/world"
)

func (l *Live) facts(ctx context.Context, r world.FactsReq) world.Answer {
	o := hardware.Options{Root: l.o.Hardware}
	var missing hardware.Missing
	if len(r.WaitLinks)+len(r.WaitDrivers) > 0 {
		var err error
		if missing, err = hardware.WaitFor(ctx, o, r.WaitLinks, r.WaitDrivers, time.Duration(r.WaitMillis)*time.Millisecond); err != nil {
			return world.Failure(fault.HardwareFailed, err.Error(), "")
		}
	}

	f, err := hardware.Detect(ctx, o)
	if err != nil {
		return world.Failure(fault.HardwareFailed, err.Error(), "`prelet detect` shows what can be read")
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
