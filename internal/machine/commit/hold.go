package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// holdFile is the name of the file in the state folder that says since when each hold keeps the kubelet.
const holdFile = "holds.json"

// leastBoot is the part of its time that a hold uses up in each boot at least: a tenth.
const leastBoot = 10

// maxUnread is how long a boot, from its begin on, holds the kubelet at most if the file of holds cannot be read.
const maxUnread = time.Hour

// firstYear is the year before which a clock is not set.
const firstYear = 2020

// holding is how long a hold has kept the kubelet from starting, on the clocks of the boots: the time in which the
// machine was off, and a clock that is set, do not count.
type holding struct {
	Boot    string        `json:"boot"`       // the id of the last boot in which it was true
	Began   time.Duration `json:"began_ns"`   // when it was first true in that boot
	Last    time.Duration `json:"last_ns"`    // when it was last true in that boot
	Earlier time.Duration `json:"earlier_ns"` // the sum of earlier boots
	Limit   time.Duration `json:"limit_ns"`
	Message string        `json:"message"`
}

// rest returns how long it may keep the kubelet yet.
func (h holding) rest() time.Duration { return h.Limit - h.Earlier - (h.Last - h.Began) }

// at returns the holding at a time of a boot. An earlier boot counts with the time that it was held, at least a tenth
// of the limit.
func (h holding) at(boot string, now time.Duration) holding {
	spent := h.Last - h.Began
	if h.Boot != "" && h.Boot != boot {
		spent = max(spent, h.Limit/leastBoot) // a machine that resets before its second run is not held forever
	}
	if h.Boot != boot || now < h.Last {
		h.Earlier += spent
		h.Boot = boot
		h.Began = now
	}
	h.Last = now

	return h
}

// pausedAt returns it at a time of a boot in which it is not known whether it is true: it belongs to no boot then.
func (h holding) pausedAt(boot string, now time.Duration) holding {
	if h.Boot == boot {
		h = h.at(boot, now)
	}

	return h.at("", 0)
}

// readHolds returns the holds by their names. A file that cannot be read is one without a name, of this boot.
func readHolds(stateDir, bootID string) (all map[string]holding) {
	name := filepath.Join(stateDir, holdFile)
	text, err := nodefile.ReadFile(name, nodefile.Max)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		unread := holding{Boot: bootID, Limit: maxUnread}

		return unread.because(fmt.Sprintf("%s cannot be read: %s", name, err))
	}

	return all
}

// because returns a single hold without a name, which replaces the holds that were lost.
func (h holding) because(why string) map[string]holding {
	h.Message = "it is not known what holds it, because " + why + "; a run with a complete plan asks the holds again"

	return map[string]holding{"": h}
}

// findHolds returns the holds by their names. If their file is gone, it is a single hold for the time that the last run
// of this boot has reported. A file that cannot be read has no hold of this boot before its first run.
func (r *Run) findHolds(ctx context.Context) map[string]holding {
	all := readHolds(r.Machine.StateDir, r.Machine.BootID)
	rest := min(maxUnread, r.Report.LastHold().Sub(r.Machine.Node.Now())) // a clock that was set back has no bound
	_, isUnread := all[""]
	switch {
	case isUnread && rest <= 0 && !activation.HasRun(ctx, r.Machine.Node):
		return nil
	case all != nil || rest <= 0:
		return all
	}

	now := r.Machine.Node.Monotonic()
	gone := holding{Boot: r.Machine.BootID, Began: now, Last: now, Limit: rest}

	return gone.because(filepath.Join(r.Machine.StateDir, holdFile) + " is gone")
}

// FindHolds returns the names and messages of the holds that a run in this boot found to be true, and how long they
// still keep the kubelet; 0 for none.
func FindHolds(stateDir, bootID string, now time.Duration) (all []string, rest time.Duration) {
	for name, h := range readHolds(stateDir, bootID) {
		if h.Boot != bootID {
			continue
		}
		if left := h.at(bootID, now).rest(); left > 0 {
			all = append(all, describeHold(desired.Hold{Name: name, Message: h.Message}))
			rest = max(rest, left)
		}
	}
	slices.Sort(all)

	return all, rest
}

// mayHold reports whether the kubelet waits for the gate, and has not been let through in this boot: a kubelet that
// runs, or has run, is not held.
func (r *Run) mayHold(ctx context.Context, unit string) bool {
	u, err := r.Machine.Node.Look(ctx, unit)
	isRunning := err == nil && u.Active == "active"

	return !isRunning && r.Machine.Gate.IsShut() && !r.Machine.Gate.WasOpened()
}

// whyHeld returns why holds of the site keep the kubelet from starting, with the next step; "" if none does. Without a
// plan, or with a plan that does not know its holds, the last known holds of this boot count, because only an
// evaluation can show that they are over. It asks once.
func (r *Run) whyHeld(ctx context.Context) string {
	if !r.areHoldsAsked {
		r.askHolds(ctx, nil, strings.Clone)
	}
	if r.held == nil {
		return ""
	}

	return r.held.Error()
}

// askHolds finds out whether holds of the site keep the kubelet from starting, and counts how long those do that a plan
// has found to be true. Where that cannot be recorded, nothing is held. The plan may be nil.
func (r *Run) askHolds(ctx context.Context, p *evaluate.Plan, redact func(string) string) {
	r.areHoldsAsked = true
	r.held = nil

	was := r.findHolds(ctx)
	all, areKnown := r.listHolds(p, was)
	r.isHoldPlanned = areKnown
	r.wereHoldsKnown = len(was) > 0
	if len(all) == 0 && (!areKnown || len(was) == 0) {
		return
	}

	now := r.Machine.Node.Monotonic()
	mayHold := r.mayHold(ctx, r.UnitName())
	counts := map[string]holding{}
	var held []string
	var longest time.Duration
	for _, h := range all {
		c, isCounted := was[h.Name]
		if h.Unknown {
			if isCounted {
				counts[h.Name] = c.pausedAt(r.Machine.BootID, now)
			}
			continue
		}

		c.Limit = h.For
		c.Message = redact(h.Message)
		switch {
		case !mayHold && !areKnown: // it may have ended since
		case !mayHold:
			r.degradeHold(h, "the kubelet is not stopped for it")
		case r.NoHold:
			r.degradeHold(h, "the kubelet starts by --no-hold")
		default:
			c = c.at(r.Machine.BootID, now)
			if c.rest() <= 0 {
				r.degradeHold(h, fmt.Sprintf("it has kept the kubelet for %s, and the kubelet starts", h.For))
				break
			}
			held = append(held, describeHold(h))
			longest = max(longest, c.rest())
		}
		counts[h.Name] = c
	}

	var err error
	if areKnown {
		err = r.keepHolds(counts, len(held) > 0)
	}
	switch {
	case len(held) == 0:
	case err != nil:
		r.Report.Degrade(fault.KubeletHeld, fmt.Sprintf("%s; the kubelet starts, because it could not be counted how "+
			"long it waits: %s", strings.Join(held, "; "), err))
	default:
		r.reportHeld(held, longest)
	}
}

// listHolds returns the holds of a plan, which knows all of them; otherwise those that a run of this boot found to be
// true, in the order of their names.
func (r *Run) listHolds(p *evaluate.Plan, was map[string]holding) (all []desired.Hold, areKnown bool) {
	var planned []desired.Hold
	areKnown = p != nil && (p.Complete || p.Node.Activation != nil)
	if areKnown && p.Node.Activation != nil {
		planned = p.Node.Activation.Holds
	}
	isUnknown := func(h desired.Hold) bool { return h.Unknown }
	if areKnown && (p.Complete || !slices.ContainsFunc(planned, isUnknown)) {
		return planned, true
	}

	for _, name := range slices.Sorted(maps.Keys(was)) {
		if h := was[name]; h.Boot == r.Machine.BootID {
			all = append(all, desired.Hold{Name: name, For: h.Limit, Message: h.Message})
		}
	}

	return all, false
}

// keepHolds stores how long holds have kept the kubelet. The file is durable if one does: a machine that loses its
// power while it is held goes on counting.
func (r *Run) keepHolds(counts map[string]holding, isHeld bool) error {
	text, _ := json.Marshal(counts) // cannot fail: it has texts and numbers only
	name := filepath.Join(r.Machine.StateDir, holdFile)
	err := WriteIfChanged(name, text)
	if err == nil && isHeld {
		err = syncFile(name)
	}

	return err
}

// reportHeld reports that holds keep the kubelet from starting, and for how long at most. The end is in front: some
// lines for people are cut.
func (r *Run) reportHeld(holds []string, rest time.Duration) {
	now := r.Machine.Node.Now()
	until := now.Add(rest).UTC()
	r.Report.HoldKubelet(until)
	end := fmt.Sprintf("until %s at the latest", until.Format(time.RFC3339))
	if now.Year() < firstYear {
		end = fmt.Sprintf("for %s at most", rest.Round(time.Second))
	}
	r.held = &fault.Fault{
		Code:    fault.KubeletHeld,
		Summary: "The kubelet is held, " + end,
		Why:     strings.Join(holds, "; "),
		Next:    "repair the machine; or start it now: prelet run --no-hold",
	}
}

// syncFile makes a file durable.
func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}

func (r *Run) degradeHold(h desired.Hold, so string) {
	r.Report.Degrade(fault.KubeletHeld, describeHold(h)+"; "+so)
}

func describeHold(h desired.Hold) string {
	if h.Name == "" {
		return h.Message
	}

	return fmt.Sprintf("hold %q: %s", h.Name, h.Message)
}
