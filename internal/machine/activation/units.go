package activation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/kubelet/failure"
)

// UnitSpec is the action on a unit other than the kubelet's, or of systemd-tmpfiles, after a change of some files of a
// generation.
type UnitSpec struct {
	Unit          string   `json:"unit"`
	Action        string   `json:"action"` // restart | reload | create
	TimeoutMillis int64    `json:"timeout_ms"`
	SettleMillis  int64    `json:"settle_ms"`
	Files         []string `json:"files"` // the managed files that notify it
	// System is set for units of systemd that also apply files which are not the site's: a failure there says nothing
	// about the generation. They are started if they do not run.
	System bool `json:"system,omitempty"`
}

const (
	actionReload = "reload"
	actionCreate = "create"
	tryRestart   = "try-restart"
	restartUnit  = "restart"
)

// touchedUnits returns the units that files of the generation in place notify which it changed, systemd's first.
func (m *StateMachine) touchedUnits(h *location) (out []UnitSpec) {
	specs := m.specsOfChange(h)
	hasUnits := slices.ContainsFunc(specs, func(p Spec) bool {
		return len(p.Units) > 0
	})
	if !hasUnits {
		return nil
	}

	changed := m.changedPaths(h.journal.Gen)
	for _, system := range []bool{true, false} {
		for _, p := range specs {
			for _, u := range p.Units {
				isIn := slices.ContainsFunc(out, func(x UnitSpec) bool {
					return x.Unit == u.Unit
				})
				u.Files = slices.DeleteFunc(
					slices.Clone(u.Files),
					func(f string) bool { return !slices.Contains(changed, f) },
				)
				if u.System == system && !isIn && len(u.Files) > 0 {
					out = append(out, u)
				}
			}
		}
	}

	return out
}

// actUnits restarts or reloads the units that the current generation's files notify, if that is still pending. A unit
// that started after the files were published has read them, and after a reboot all have. Only actions that systemd
// does not record, such as a reload, are noted in the run folder. A failure is noted too: then the next process acts
// on the unit again.
//
// It returns onBad if a unit of the site fails, and onReady otherwise. A failure is only reported after a rollback,
// of a unit that was unhealthy before the commit, and where systemd refuses the request.
func (m *StateMachine) actUnits(ctx context.Context, h location, t *walkState) Trigger {
	if h.journal.BootID != m.BootID || h.journal.Tries > 1 { // published in an earlier boot
		return onReady
	}

	for _, u := range m.touchedUnits(&h) {
		key := unitKey(h.journal, u)
		why, err := m.actUnit(ctx, u, h, key, t)
		if why == "" && err == nil {
			if err := m.Gate.ClearFailure(key); err != nil {
				m.note("units", "notice", "%v", err)
			}

			continue
		}

		if err != nil {
			why = err.Error()
		}

		switch {
		case err != nil, u.System, h.phase == returning, m.isExempt(u.Unit):
			t.trouble = append(t.trouble, u.Unit+": "+why)
			m.note("units", "failed", "%s: %s", u.Unit, why)
		default:
			if err := m.Gate.MarkFailed(key, why); err != nil {
				why += "; " + err.Error()
			}

			m.note("units", "failed", "%s: %s", u.Unit, why)
			t.judged = Judgement{Verdict: Bad, Why: u.Unit + ": " + why}

			return onBad
		}
	}

	return onReady
}

// exemptUnhealthy notes which units of the site are unhealthy before a commit. They have no part in its verdict.
func (m *StateMachine) exemptUnhealthy(ctx context.Context, specs ...Spec) error {
	var unhealthy []string

	for _, p := range specs {
		for _, u := range p.Units {
			now, err := m.Node.Look(ctx, u.Unit)
			crashed := now.Restarts > 0 &&
				m.Node.Monotonic()-now.Started < p.Timeout() // it would in the verdict's time
			isUnhealthy := crashed || now.Active == "failed" || isWaitingToRestart(now) ||
				!isLoadable(now)

			if err == nil && !u.System && isUnhealthy {
				unhealthy = append(unhealthy, u.Unit)
				m.note(
					"units",
					"notice",
					"%s is %s/%s (result %s) before the commit, so the verdict ignores it",
					u.Unit,
					now.Active,
					now.Sub,
					now.DescribeResult(),
				)
			}
		}
	}

	return systemdFault("noting which units are unhealthy", m.Gate.SetExempt(unhealthy))
}

func (m *StateMachine) isExempt(unit string) bool {
	return slices.Contains(m.Gate.Exempt(), unit)
}

// unitKey names what follows a commit for one unit.
func unitKey(j *generation.Journal, u UnitSpec) string {
	return fmt.Sprintf("%d %d %s", j.Gen, j.CommitTime.UnixNano(), u.Unit)
}

// actUnit acts on one unit, and returns what failed. An error means that systemd refused, or did not answer.
func (m *StateMachine) actUnit(
	ctx context.Context,
	u UnitSpec,
	h location,
	key string,
	t *walkState,
) (why string, err error) {
	if m.Gate.IsDone(key) {
		return "", nil
	}

	steady := context.WithoutCancel(ctx)

	wait := time.Duration(u.TimeoutMillis) * time.Millisecond
	if ctx.Err() != nil { // after SIGTERM it is requested, and not waited for
		wait = 0
	}

	if u.Action == actionCreate {
		t.addAct(u.Unit, u.Action)

		return m.createTmpfiles(steady, u, h, key, wait)
	}

	now, err := m.Node.Look(steady, u.Unit)
	if err != nil {
		return "", err
	}

	isLeftBroken := h.phase == returning && now.Active == "failed" // by the generation that was left
	isBroken := isLeftBroken && !m.isExempt(u.Unit)
	hasRead := !isAlive(now) || startedAt(now) >= h.placed

	switch {
	case !isLoadable(now):
		return fmt.Sprintf("systemd cannot load it (%s)", now.Load), nil
	case now.Load != "loaded" && u.System:
		return fmt.Sprintf("it does not exist (%s)", now.Load), nil
	case now.Load != "loaded": // the plan has reported it
		return "", nil
	case !u.System && !isBroken && hasRead && m.Gate.Failure(key) == "":
		return "", nil
	}

	may, err := m.Node.MayWait(steady, u.Unit)
	if err != nil || !may {
		wait = 0
	}

	verb := chooseVerb(u, isBroken)
	m.note("units", "started", "%s %s", verb, u.Unit)
	m.extendTimeout(wait + time.Duration(u.SettleMillis)*time.Millisecond)

	begin := m.Node.Monotonic()
	result, err := m.Node.Act(steady, verb, u.Unit, wait)
	if err != nil {
		return "", err
	}

	t.addAct(u.Unit, verb)

	isLeft := m.isLeft(steady, u, result)
	leavesNoTrace := u.System || verb == actionReload || isBroken

	if leavesNoTrace && (isLeft || result == jobDone) {
		if err := m.Gate.MarkDone(key); err != nil {
			return "", err
		}
	}

	if isLeft { // the verdict looks at it
		m.note("units", "notice", "%s %s: %s", verb, u.Unit, result)
		return "", nil
	}

	why, err = m.concludeAct(ctx, u, verb, result)
	if why != "" {
		why += m.quoteLog(steady, u.Unit, begin)
	}

	return why, err
}

// quoteLog returns the last journal lines of a unit since a moment, and how to read more. It only explains a failure
// and does not change it.
func (m *StateMachine) quoteLog(ctx context.Context, unit string, since time.Duration) string {
	see := fmt.Sprintf("; journalctl -u %s shows more", unit)

	lines, err := m.Node.Log(ctx, unit, since)
	if err != nil {
		return see
	}
	if last := failure.LastLine(lines); last != "" {
		return "; its last line is: " + m.Node.Redact(last) + see
	}

	return see
}

// chooseVerb returns the job for a unit that is notified.
func chooseVerb(u UnitSpec, isBroken bool) string {
	switch {
	case isBroken, u.System && u.Action != actionReload:
		return restartUnit
	case u.Action == actionReload:
		return actionReload
	}

	return tryRestart
}

// isLeft reports whether a job continues without prelet.
func (m *StateMachine) isLeft(ctx context.Context, u UnitSpec, result string) bool {
	switch result {
	case jobQueued, jobSkipped:
		return true
	case jobUnanswered:
		now, err := m.Node.Look(ctx, u.Unit)
		return err == nil && now.Job != 0
	}

	return false
}

// concludeAct returns why a job on a unit has failed; "" if it has not.
func (m *StateMachine) concludeAct(ctx context.Context, u UnitSpec, verb, result string) (why string, err error) {
	switch {
	case result == jobCanceled && !u.System:
		m.note("units", "notice", "%s %s: somebody stopped it", verb, u.Unit)
		return "", m.Gate.SetExempt(append(m.Gate.Exempt(), u.Unit))
	case result != jobDone:
		return fmt.Sprintf("its %s ended with %q", verb, result), nil
	case !u.System && verb != actionReload:
		why = m.settleUnit(ctx, u)
	}

	if why == "" {
		m.note("units", "ok", "%s %s", verb, u.Unit)
	}

	return why, nil
}

// createTmpfiles creates the files and folders of changed files of tmpfiles.d, and returns what failed as actUnit does.
func (m *StateMachine) createTmpfiles(
	ctx context.Context, u UnitSpec, h location, key string, wait time.Duration,
) (why string, err error) {
	var files []string

	info, _ := m.Store.Info(h.journal.Gen)
	for _, e := range info.Entries {
		if slices.Contains(u.Files, e.Path) && e.New.Kind == generation.File {
			files = append(files, e.Path)
		}
	}
	if len(files) == 0 {
		return "", nil
	}

	m.note("units", "started", "systemd-tmpfiles --create")
	m.extendTimeout(wait)

	result, err := m.Node.CreateTmpfiles(ctx, files, wait)

	switch {
	case err != nil:
		return "", err
	case result != jobDone && result != jobQueued && result != jobUnanswered:
		return fmt.Sprintf("it ended with %q", result), nil
	}

	return "", m.Gate.MarkDone(key)
}

// startedAt returns when a unit last began to start, or its main process did.
func startedAt(u Unit) time.Duration { return max(u.Since, u.Started) }

// settleUnit watches a unit that was restarted until its time to settle is over, and returns what failed.
func (m *StateMachine) settleUnit(ctx context.Context, u UnitSpec) (why string) {
	end := m.Node.Monotonic() + time.Duration(u.SettleMillis)*time.Millisecond
	pid := uint32(0)

	for {
		now, err := m.Node.Look(context.WithoutCancel(ctx), u.Unit)
		switch {
		case err != nil:
			return "" // the verdict looks at it again
		case now.Active == "failed" || isWaitingToRestart(now):
			return fmt.Sprintf("it is %s/%s (result %s)", now.Active, now.Sub, now.DescribeResult())
		case pid != 0 && now.MainPID != 0 && now.MainPID != pid:
			return "its process died, and another one runs"
		case !isAlive(now), m.Node.Monotonic() >= end:
			return "" // a process that exited with success has settled
		}

		pid = now.MainPID
		if m.Node.Sleep(ctx, lookInterval) != nil {
			return ""
		}
	}
}

// judgeUnits returns the verdict on the units that this generation restarted; Pending with the reason to wait.
func (w *watcher) judgeUnits(ctx context.Context) (Verdict, string) {
	for _, u := range w.units {
		if w.m.isExempt(u.Unit) {
			continue
		}

		if why := w.m.Gate.Failure(unitKey(w.journal, u)); why != "" {
			return Bad, w.addBad(u.Unit, "%s", why)
		}

		now, err := w.m.Node.Look(ctx, u.Unit)
		if err != nil || now.Load != "loaded" {
			continue
		}

		switch isNew := startedAt(now) >= w.placed; {
		case isNew && now.Active == "failed", isNew && isWaitingToRestart(now):
			return Bad, w.addBad(u.Unit, "it is %s/%s (result %s)", now.Active, now.Sub, now.DescribeResult())
		case now.Job != 0 && now.Active != "inactive":
			return Pending, w.addUnknown(u.Unit, "systemd has not finished its %s", u.Action)
		}
	}

	return Good, ""
}
