package live

import (
	"context"
	"fmt"
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
	f, err := hardware.Detect(ctx, o)
	if err != nil {
		return world.Answer{Fail: world.Unusable, Detail: err.Error(), Hint: "`prelet detect` shows what can be read"}
	}
	for _, n := range missing.Links {
		f.Unknown = append(f.Unknown, world.UnknownFact{Fact: "link " + n, Why: fmt.Sprintf("it did not come up in %s", time.Duration(r.WaitMillis)*time.Millisecond), Degraded: true})
	}
	for _, n := range missing.Drivers {
		f.Unknown = append(f.Unknown, world.UnknownFact{Fact: "driver " + n, Why: fmt.Sprintf("no device is bound to it after %s", time.Duration(r.WaitMillis)*time.Millisecond), Degraded: true})
	}
	return world.FactsOf.Answer(f)
}

// detector says plainly that vendor detectors cannot run in this version.
func (l *Live) detector(r world.DetectorReq) world.Answer {
	return world.Answer{Fail: world.Absent, Detail: fmt.Sprintf("This version of prelet runs no vendors' detectors, so %q gives no facts and has state = \"absent\"", r.Name),
		Hint: "See that the site does without them: required = false, and try(…, null) or a test of the state where they are used"}
}
