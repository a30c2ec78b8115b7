package activation

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Examine runs the checks of a verdict on a kubelet that was judged before, and returns each with its message. It
// changes nothing, and a good generation stays good. A process that is younger than the settling time is watched until
// it has settled, and a Node that was another machine's until that has not updated it for a while. The lock is not
// needed, and must not be held.
func (m *StateMachine) Examine(ctx context.Context, gen int) ([]CheckResult, *Cause, error) {
	spec, err := m.SpecOf(gen)
	if err != nil {
		return nil, nil, err
	}

	checks, cause := m.examine(ctx, spec, m.judgedSince(gen))

	return checks, cause, nil
}

// ExamineUnmanaged is Examine on a node without a generation: that the kubelet runs, and answers at a URL.
func (m *StateMachine) ExamineUnmanaged(ctx context.Context, healthz string) []CheckResult {
	checks, _ := m.examine(ctx, Spec{KubeletState: KubeletState{Healthz: healthz}}.withDefaults(), 0)

	return checks
}

// examine is Examine on a spec whose files are in place since a time on the monotonic clock; 0: not known.
func (m *StateMachine) examine(ctx context.Context, spec Spec, since time.Duration) ([]CheckResult, *Cause) {
	w := watcher{m: m, placement: placement{spec: spec, since: since}}
	begun := m.Node.Monotonic()

	var last Unit

	for first := true; ; first = false {
		u, err := m.Node.Look(ctx, spec.Unit)
		if err != nil {
			return []CheckResult{{unitCheck, "unknown", err.Error()}}, nil
		}

		w.pid = u.MainPID
		if u.Active != "active" {
			w.checks = nil
			w.addInactive(u)

			return w.checks, m.findRecentCause(ctx, w)
		}

		if first {
			w.steadySince = u.Started // assume that it has been healthy since its start
		}

		now := m.Node.Monotonic()
		last = u

		verdict, _ := w.judge(ctx, u, now)
		isSettling := w.hasSettled() && now-begun <= spec.settle()
		if verdict != Pending || !isSettling && !w.awaitsRival(now) {
			break
		}

		if m.Node.Sleep(ctx, lookInterval) != nil {
			break
		}
	}

	for _, c := range w.checks {
		if c.State == "failed" && !w.podsFailed {
			return w.checks, m.findRecentCause(ctx, w)
		}
	}

	// If the cluster does not answer, only the log can be checked.
	isPods := func(c CheckResult) bool { return c.Name == podsCheck }
	if len(w.lastChecks) > 0 && !slices.ContainsFunc(w.checks, isPods) {
		w.checkPods(ctx, &look{unit: last, now: m.Node.Monotonic()})
	}

	return w.checks, w.cause
}

// findRecentCause reads the cause of a failure from the part of the log that the site's timeout covers.
func (m *StateMachine) findRecentCause(ctx context.Context, w watcher) *Cause {
	since := max(w.since, m.Node.Monotonic()-w.spec.Timeout())

	return w.explainFailure(ctx, since)
}

// hasSettled reports whether all checks passed except the settling time.
func (w *watcher) hasSettled() bool {
	for _, c := range w.checks {
		if c.State != "ok" && c.Name != steadyCheck {
			return false
		}
	}

	return len(w.checks) > 0 && w.checks[len(w.checks)-1].Name == steadyCheck
}

// judgedReport is the report of a good verdict in a generation.
type judgedReport struct {
	Verdict Verdict       `json:"verdict"`
	Checks  []CheckResult `json:"checks"`
	Time    time.Time     `json:"time"`
	BootID  string        `json:"boot_id"`
	// Since is when the files were in place, in microseconds on the monotonic clock of that boot.
	Since int64 `json:"since_us,omitempty"`
}

// judgedSince returns when the files of a good generation were in place, on this boot's clock; 0 when that was in an
// earlier boot or is not known.
func (m *StateMachine) judgedSince(gen int) time.Duration {
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
