package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/machine/probe/hardware"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// unitsEvery is the time between two looks at units that are waited for.
const unitsEvery = 250 * time.Millisecond

// disabledPart is the part of the limit, a tenth, for which a unit is waited for that is disabled and that nothing has
// started: another unit, a udev rule or a person may.
const disabledPart = 10

// lateUnits are prelet's units, after which a unit cannot start before the end of this run.
var lateUnits = []string{"prelet.service", "prelet-apply.service"}

// awaitUnits waits until the units have ended or run, and returns the state of each in their order, with the reason
// where that is not done. The states are those of tape.Facts. It never waits for what cannot come.
func (l *Live) awaitUnits(ctx context.Context, names []string, limit time.Duration) (states, why []string) {
	states = make([]string, len(names))
	why = make([]string, len(names))
	began := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		limit = hardware.LimitWait(limit, time.Until(deadline))
	}

	for isReported := false; ; isReported = true {
		waiting := ""
		for i, name := range names {
			u, err := l.o.Units.Look(ctx, name)
			if err != nil {
				states[i], why[i] = tape.UnitUnknown, err.Error()
				continue
			}
			late := l.findLate(ctx, u, map[string]bool{})
			states[i], why[i] = classifyUnit(u, late)
			isGivenUp := states[i] == tape.UnitNotStarted && u.File == "disabled" &&
				time.Since(began) > limit/disabledPart
			if mayCome(states[i]) && !isGivenUp && waiting == "" {
				waiting = name + ": " + why[i]
			}
		}

		left := limit - time.Since(began)
		if waiting == "" || left <= 0 || ctx.Err() != nil {
			return states, why
		}
		if !isReported {
			name, reason, _ := strings.Cut(waiting, ": ")
			l.reportWait(name, reason, left)
		}
		if (systemd.Clock{}).Sleep(ctx, min(unitsEvery, left)) != nil {
			return states, why
		}
	}
}

// mayCome reports whether a unit of this state may be done later.
func mayCome(state string) bool {
	return state == tape.UnitUnfinished || state == tape.UnitNotStarted
}

// findLate returns the unit of prelet or of the kubelet, which starts after this run, that a queued start waits for:
// the unit itself is ordered after it, or after a queued unit that is. It returns "" for none.
func (l *Live) findLate(ctx context.Context, u systemd.Unit, seen map[string]bool) string {
	if u.Job == 0 || u.Active != "inactive" {
		return ""
	}
	for _, name := range u.After {
		if name == l.o.Unit || slices.Contains(lateUnits, name) {
			return name
		}
	}

	for _, name := range u.After {
		if seen[name] {
			continue
		}
		seen[name] = true
		other, err := l.o.Units.Look(ctx, name)
		if err != nil {
			continue
		}
		if late := l.findLate(ctx, other, seen); late != "" {
			return name + ", and that after " + late
		}
	}

	return ""
}

// classifyUnit returns the state of a unit that is waited for, and why it is not done. late is that of findLate.
func classifyUnit(u systemd.Unit, late string) (state, why string) {
	hasRun := u.Since > 0

	switch {
	case u.Load == "masked":
		return tape.UnitMasked, "it is masked"
	case u.Load != "loaded":
		return tape.UnitMissing, fmt.Sprintf("systemd cannot load it (%s)", u.Load)
	case u.Active == "active":
		return tape.UnitDone, ""
	case u.Active == "failed", u.Active == "inactive" && hasRun && u.Result != "success":
		return tape.UnitFailed, fmt.Sprintf("it has failed (%s)", u.Result)
	case u.Active == "inactive" && hasRun && u.Job == 0:
		return tape.UnitDone, ""
	case u.Skipped > 0 && u.Job == 0:
		return tape.UnitSkipped, "a Condition= or Assert= of it does not hold"
	case late != "":
		return tape.UnitLate, "it is ordered after " + late + ", so it starts only when this run has ended"
	case u.Job != 0 && u.Active == "inactive":
		return tape.UnitUnfinished, "its start job waits for another unit (systemctl list-jobs --after)"
	case u.Active == "inactive" && u.File == "disabled":
		return tape.UnitNotStarted, "nothing has started it, and it is disabled"
	case u.Active == "inactive":
		return tape.UnitNotStarted, "nothing has started it"
	}

	return tape.UnitUnfinished, fmt.Sprintf("it is %s (%s)", u.Active, u.Sub)
}
