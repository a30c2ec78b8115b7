package activate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Examine looks at a kubelet that was judged before, with the checks that a verdict rests on, each with its own message. It changes
// nothing, and it is no verdict: a generation that was good stays so. A process that has not run for the settling time yet is
// watched until it has. The lock is not needed, and must not be held.
func (m *Machine) Examine(ctx context.Context, gen int) ([]Check, *Cause, error) {
	plan, err := m.planOf(gen)
	if err != nil {
		return nil, nil, err
	}

	w := watcher{m: m, plan: plan, since: m.judgedSince(gen), fullTimeout: true}
	begun := m.Clock.Monotonic()

	var last Unit

	for first := true; ; first = false {
		u, err := m.Units.Look(ctx, plan.Unit)
		if err != nil {
			return []Check{{"unit", "unknown", err.Error()}}, nil, nil
		}

		if u.Active != "active" {
			w.checks = nil
			w.addBad("unit", "it is %s/%s (last result %s, %d automatic restarts)", u.Active, u.Sub, u.Result, u.Restarts)

			return w.checks, m.findCause(ctx, plan, max(w.since, m.Clock.Monotonic()-plan.Timeout)), nil
		}

		if first {
			w.steadySince = u.Started // it has answered well since then, as far as anybody knows
		}

		now := m.Clock.Monotonic()
		last = u

		verdict, _ := w.judge(ctx, u, now)
		if verdict != Pending || !w.hasSettled() || now-begun > plan.Settle {
			break
		}

		if m.Clock.Sleep(ctx, lookInterval) != nil {
			break
		}
	}

	for _, c := range w.checks {
		if c.State == "failed" && !w.podsFailed {
			return w.checks, m.findCause(ctx, plan, max(w.since, m.Clock.Monotonic()-plan.Timeout)), nil
		}
	}

	if len(w.lastChecks) > 0 && w.checks[len(w.checks)-1].Name != "pods" { // the cluster does not answer: the log does
		w.checkPods(ctx, last, m.Clock.Monotonic())
	}

	return w.checks, w.cause, nil
}

// hasSettled says whether all is well but for the time that it has been so.
func (w *watcher) hasSettled() bool {
	for _, c := range w.checks {
		if c.State != "ok" && c.Name != "steady" {
			return false
		}
	}

	return len(w.checks) > 0 && w.checks[len(w.checks)-1].Name == "steady"
}

// verdictReport is what a generation keeps of the verdict that it is good.
type judgedReport struct {
	Verdict Verdict   `json:"verdict"`
	Checks  []Check   `json:"checks"`
	Time    time.Time `json:"time"`
	BootID  string    `json:"boot_id"`
	// Since is when its files were in place, in microseconds on the monotonic clock of that boot.
	Since int64 `json:"since_us,omitempty"`
}

// judgedSince is since when the files of a good generation are in place on this boot's clock: 0 when that was in an earlier boot,
// or is not known.
func (m *Machine) judgedSince(gen int) time.Duration {
	text, err := m.Store.Blob(gen, "report.json")
	if err != nil {
		return 0
	}

	var r judgedReport
	if json.Unmarshal(text, &r) != nil || r.BootID != m.BootID {
		return 0
	}

	return time.Duration(r.Since) * time.Microsecond
}

// checkConfigz compares what the kubelet runs with to what is planned. What cannot be told is no reason to wait: it was asked for
// besides.
func (w *watcher) checkConfigz(ctx context.Context) (ok bool) {
	c := w.plan.Configz

	differ, err := w.m.Probe.Configz(ctx, *c)
	switch {
	case err != nil:
		w.checkProbe("configz", err)
		return w.unknown
	case len(differ) > 0:
		w.addBad("configz", "%s", fmt.Sprintf("the kubelet runs with another configuration than planned: %s; a flag, or a drop-in that is read later, wins over its file", joinShort(differ)))
		return false
	}

	w.addOK("configz")

	return true
}
