package activation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// Probe checks a running kubelet, in addition to systemd. A method returns nil when the check passes, and an error with
// the reason when it fails. An error with a method Unknown() bool that returns true means that the result could not be
// determined, for example because the API server does not answer. An unknown result never fails a generation.
type Probe interface {
	// Healthz requests /healthz on loopback. Connection refused is a failure, not unknown.
	Healthz(ctx context.Context, url string) error
	// Kubeconfig checks that the file exists and is usable. While it is missing and the API server is unreachable, the
	// result is unknown.
	Kubeconfig(ctx context.Context, name string) error
	// Expired returns that the kubelet's client certificate has expired, with its end and the clock's time; "" if it
	// has not, or if there is none.
	Expired() string
	// Flags checks that the process has all flags on its command line.
	Flags(ctx context.Context, pid uint32, flags []string) error
	// Files checks the content of each path by its sha256.
	Files(ctx context.Context, sha256 map[string]string) error
	// ChangedAgo returns how long ago the newest of these files was changed; false if that cannot be read.
	ChangedAgo(paths []string) (time.Duration, bool)
	NodeObject(ctx context.Context, name string) (kubelet.NodeObject, error)
	// Patch changes the Node with the node's own identity, or as the client of a credential, completely or not at all.
	// An error with a method Refused() bool that returns true means that the cluster does not allow it; with a method
	// Changed() bool that returns true, that the Node was changed after it was read.
	Patch(ctx context.Context, name, credential string, change kubelet.NodeChange) error
	// Configz returns the fields in which the running configuration differs from the planned one.
	Configz(ctx context.Context, c kubelet.Configz) (differ []string, err error)
	// Serving checks that the kubelet has a certificate for its API, in a folder, or that the cluster has signed one.
	Serving(ctx context.Context, dir string) error
	// Log returns the log of the unit's processes since a time of the monotonic clock, oldest line first.
	Log(ctx context.Context, unit string, since time.Duration) ([]string, error)
	// StartLog returns the first lines of the log of one process of the unit, oldest first.
	StartLog(ctx context.Context, unit string, pid uint32) ([]string, error)
}

type CheckResult struct {
	Name    string `json:"name"`  // such as unit, healthz, flags or node
	State   string `json:"state"` // ok, failed, unknown, drift
	Message string `json:"message,omitempty"`
}

// Drift is the state of a check that found a difference which is not the generation's fault: the Node was edited, or it
// is older.
const Drift = "drift"

// Names of checks.
const (
	unitCheck    = "unit" // of the state of the kubelet's unit
	startedCheck = "started"
	healthzCheck = "healthz"
	steadyCheck  = "steady"
	// FilesCheck is the check of the managed files that the kubelet reads, OtherFilesCheck of the others. Edited files
	// are never the reason of a verdict.
	FilesCheck      = "files"
	OtherFilesCheck = "other files"
)

const (
	lookInterval  = 100 * time.Millisecond
	probeInterval = time.Second // for expensive checks: the API server, hashing files
	// crashLoopDeaths is the number of deaths within one watch after which waiting longer is pointless.
	crashLoopDeaths = 3
	// maxSilence is how long systemd may be unreachable before the watch ends. A reload or a re-execution of systemd
	// takes less.
	maxSilence = 10 * time.Second
)

// watch checks the unit at least once, until there is a verdict or until deadline on the monotonic clock. result is
// how the job ended that started the unit, if that was waited for. h is the generation, with its spec. full is set if
// the deadline leaves the whole timeout of the spec, and not only the rest of the activation's time.
func (m *StateMachine) watch(
	ctx context.Context, h location, deadline time.Duration, result string, full bool,
) (Judgement, error) {
	p := h.spec
	m.note("verify", "started", "%s", p.Unit)
	m.extendTimeout(max(0, deadline-m.Node.Monotonic()))
	w := watcher{m: m, placement: h.placement, watchLimit: watchLimit{result, deadline, full}}
	if h.phase == pending && h.journal.BootID == m.BootID &&
		h.journal.Tries <= 1 { // after a reboot all have read the files
		w.units = slices.DeleteFunc(m.touchedUnits(&h), func(u UnitSpec) bool {
			return u.System
		})
	}

	before := m.clockOffset()
	var changed []string
	if h.current != nil {
		changed = ListUnitFiles([]string{p.Unit}, h.current.Entries)
	}
	f := Judgement{Verdict: Bad, Why: m.whyUngated(ctx, p.Unit, changed)}
	var err error
	if f.Why == "" {
		f, err = w.run(ctx)
	}
	if err == nil && f.Verdict == Bad {
		if w.cause == nil {
			w.cause = w.explainFailure(ctx, h.since)
		}
		if isGuess := w.cause == nil || w.cause.ID == ""; isGuess && w.watchdog > 0 {
			w.cause = newWatchdogCause(p.Unit, w.watchdog)
		}

		if f.Cause = w.cause; f.Cause != nil {
			f.Why += "; the kubelet: " + f.Cause.String()
		}
		if why := m.whyEdited(ctx, p); why != "" {
			f.Why += "; " + why + ", which may be the cause"
		}
		if len(changed) > 0 {
			f.Why += "; this generation changed " + strings.Join(changed, ", ")
		}

		var why string
		why, f.clockSet = m.whyClock(p, f.Cause, m.clockOffset()-before)
		if why != "" {
			f.Verdict = Unknown
			f.Why = why + "; " + f.Why
		}
	}

	m.hideSecrets(&f)
	switch {
	case err != nil:
		m.note("verify", "failed", "%v", err)
	case f.Verdict == Good:
		m.note("verify", "ok", "%s is healthy", p.Unit)
	case f.Verdict == Bad:
		m.note("verify", "failed", "%s is unhealthy: %s", p.Unit, f.Why)
	default:
		m.note("verify", "notice", "%s: no verdict: %s", p.Unit, f.Why)
	}

	return f, err
}

// hideSecrets hides secrets in the kubelet's words, which are stored.
func (m *StateMachine) hideSecrets(f *Judgement) {
	f.Why = m.Node.Redact(f.Why)
	for i := range f.Checks {
		f.Checks[i].Message = m.Node.Redact(f.Checks[i].Message)
	}
	if f.Cause != nil {
		f.Cause.Sentence = m.Node.Redact(f.Cause.Sentence)
		f.Cause.Words = m.Node.Redact(f.Cause.Words)
	}
}

// whyUngated returns why a unit whose files a generation changed would start without the gate; "" if it does not.
func (m *StateMachine) whyUngated(ctx context.Context, unit string, changed []string) string {
	if len(changed) == 0 {
		return ""
	}
	u, err := m.Node.Look(ctx, unit)
	if err != nil || u.Load != "loaded" || u.RequiresFile(m.Gate.Path()) {
		return ""
	}

	return describeUngated(unit, m.Gate.Path())
}

// clockJump is how much the clock is set at least for a verdict to be doubtful: slewing sets it by less.
const clockJump = 10 * time.Minute

// clockOffset returns the wall clock without the time since boot. It changes only if the wall clock is set.
func (m *StateMachine) clockOffset() time.Duration {
	return time.Duration(m.Node.Now().UnixNano()) - m.Node.Monotonic()
}

// whyClock returns why an unhealthy kubelet says nothing about its plan, or "": its certificate has expired, which is
// the same on each generation, or the clock was set by jump while it was watched. A cause in its log that no clock
// changes counts nevertheless. isSet is the second reason, which another watch may not have.
func (m *StateMachine) whyClock(p Spec, cause *Cause, jump time.Duration) (why string, isSet bool) {
	if cause != nil && cause.final {
		return "", false
	}
	if p.Kubeconfig != "" {
		if expired := m.Node.Expired(); expired != "" {
			return expired + ", on each generation: set the clock, or join again with a token; the plan is not at " +
				"fault and is judged again", false
		}
	}
	if jump.Abs() >= clockJump {
		const format = "the clock was set by %s while the kubelet was watched, so it is judged again"
		return fmt.Sprintf(format, jump.Round(time.Second)), true
	}

	return "", false
}

// watcher watches the kubelet on one generation: each look adds to its observations.
type watcher struct {
	m *StateMachine
	placement
	watchLimit
	process
	settledChecks
	nodeOwner
	logFindings
	findings

	units []UnitSpec // of the site, that this generation restarted or reloaded
}

// watchLimit is how a watch begins and ends. watch fills it; it is empty for an examination.
type watchLimit struct {
	result      string        // how the job ended that started the unit; "" where none was waited for
	deadline    time.Duration // on the monotonic clock
	fullTimeout bool          // the deadline leaves the whole timeout of the spec
}

// process has the observations of the main process of the unit so far. countDeaths and judge fill it.
type process struct {
	hasLooked   bool
	pid         uint32        // of the last look
	restarts    uint32        // NRestarts at the first look, or after a manual restart
	deaths      uint32        // that were seen
	lastResult  string        // of the last look at which systemd had not begun another start
	watchdog    time.Duration // WatchdogSec= of a process that systemd killed because of it; 0: none was seen
	steadySince time.Duration // since when the same process has been healthy; 0: it is not
}

// settledChecks are the last results of checkSettled, which does not run at each look.
type settledChecks struct {
	lastProbe  time.Duration // when its checks ran
	lastChecks []CheckResult // and their results
}

// nodeOwner is whose Node checkMachine has found so far.
type nodeOwner struct {
	ownSince time.Duration // the first look at which the Node was this machine's; 0: none
	rival    string        // how the Node was another machine's at a later look; "" if it was not
}

// logFindings has the findings in the kubelet's log so far.
type logFindings struct {
	cause       *Cause        // after a death or when pods could not start
	lastLogRead time.Duration // when the log of a death was last read
	podsFailed  bool          // pods cannot start, and nothing else failed
}

// findings are the checks of the last look.
type findings struct {
	checks  []CheckResult
	reason  string // the last check that did not pass
	unknown bool   // that check was unknown, not failed
}

func (w *watcher) run(ctx context.Context) (Judgement, error) {
	clock := w.m.Node
	lastAnswer := clock.Monotonic()

	for {
		if ctx.Err() != nil {
			return w.finish(Unknown, "prelet was stopped: "+context.Cause(ctx).Error()), nil
		}

		u, err := w.m.Node.Look(ctx, w.spec.Unit)

		now := clock.Monotonic()
		if err == nil {
			lastAnswer = now

			verdict, why := w.judgeAll(ctx, u, now)
			if verdict != Pending {
				return w.finish(verdict, why), nil
			}
		}

		if now-lastAnswer >= maxSilence {
			return Judgement{}, fmt.Errorf("watching %s: %w", w.spec.Unit, err)
		}

		now = clock.Monotonic()
		if now >= w.deadline {
			return w.finishAtDeadline(), nil
		}

		// The end of ctx is handled above.
		_ = clock.Sleep(ctx, min(lookInterval, w.deadline-now))
	}
}

// judgeAll returns the verdict on one look at the kubelet's unit and at the units of the site; Pending: continue.
func (w *watcher) judgeAll(ctx context.Context, u Unit, now time.Duration) (Verdict, string) {
	verdict, why := w.judge(ctx, u, now)
	if verdict != Good && verdict != Pending {
		return verdict, why
	}

	units, because := w.judgeUnits(ctx)
	if units == Bad || units == Pending && verdict == Good {
		return units, because
	}

	return verdict, why
}

// finishAtDeadline returns the result for a kubelet that was not healthy in time.
func (w *watcher) finishAtDeadline() Judgement {
	switch {
	case w.unknown:
		return w.finish(Unknown, w.reason)
	case !w.fullTimeout:
		why := fmt.Sprintf("the activation's time (%s) was up before a verdict; so far: %s", w.spec.bound(), w.reason)
		return w.finish(Unknown, why)
	default:
		return w.finish(Bad, fmt.Sprintf("not healthy after %s: %s", w.spec.Timeout(), w.reason))
	}
}

func (w *watcher) finish(verdict Verdict, why string) Judgement {
	return Judgement{Verdict: verdict, Why: why, Checks: w.checks, onlyPods: w.podsFailed}
}

// judge returns the verdict on one look at the unit; Pending: continue.
func (w *watcher) judge(ctx context.Context, u Unit, now time.Duration) (Verdict, string) {
	w.countDeaths(u)

	w.checks = nil

	verdict, why := w.judgeUnit(ctx, u, now)
	if verdict != Good {
		return verdict, why
	}

	if !w.checkProcess(ctx, u) {
		w.steadySince = 0
		return Pending, ""
	}

	if w.steadySince == 0 {
		w.steadySince = now
	}

	if now-w.steadySince < w.spec.settle() {
		w.addBad(steadyCheck, "well for %s of %s so far", now-w.steadySince, w.spec.settle())
		return Pending, ""
	}

	w.addOK(steadyCheck)

	return w.checkSettled(ctx, u, now)
}

// judgeUnit returns the verdict on the state of the unit alone; Good: it is active.
func (w *watcher) judgeUnit(ctx context.Context, u Unit, now time.Duration) (Verdict, string) {
	deaths := max(w.deaths, u.Restarts-w.restarts)

	switch {
	case deaths >= crashLoopDeaths:
		const format = "crash loop: it died %d times (%s/%s, result %s)"
		return Bad, w.addBad(unitCheck, format, deaths, u.Active, u.Sub, cmp.Or(w.lastResult, u.DescribeResult()))
	case w.cannotRecover(ctx, u, now):
		const format = "it ended (%s/%s, result %s), and will each time"
		return Bad, w.addBad(unitCheck, format, u.Active, u.Sub, u.DescribeResult())
	case w.fullTimeout && u.NextStart > w.deadline && u.Result != "resources":
		const format = "it ended (%s/%s, result %s), and RestartSec= is longer than the time for the verdict"
		return Bad, w.addBad(unitCheck, format, u.Active, u.Sub, u.DescribeResult())
	case isStopped(u) && w.result == jobDependency:
		return Bad, w.addBad(unitCheck, "it was not started, because a unit that it requires failed")
	case wasSkipped(u) && u.Skipped >= w.since:
		return Bad, w.addBad(
			unitCheck,
			"it was not started, because a Condition= or Assert= of its unit does not hold (systemctl status "+
				"%s names it)",
			w.spec.Unit,
		)
	case isStopped(u):
		return Unknown, w.addUnknown(unitCheck, "it is stopped, not failed: it was not started, or was stopped by hand")
	case hasGivenUp(u):
		return Bad, w.addBad(
			unitCheck, "it failed (result %s), and systemd does not start it again", u.DescribeResult(),
		)
	case u.Active != "active":
		w.steadySince = 0
		w.addInactive(u)

		return Pending, ""
	}

	w.addOK(unitCheck)

	return Good, ""
}

// addInactive adds the failed check of a unit that is not active.
func (w *watcher) addInactive(u Unit) {
	const format = "it is %s/%s (last result %s, %d automatic restarts)"
	w.addBad(unitCheck, format, u.Active, u.Sub, u.DescribeResult(), u.Restarts)
}

// checkProcess checks that the process has read the new files, and that it answers.
func (w *watcher) checkProcess(ctx context.Context, u Unit) bool {
	if u.Started < w.since {
		w.addBad(startedCheck, "process %d started before the files were in place", u.MainPID)
		return false
	}

	w.addOK(startedCheck)

	if w.spec.Healthz == "" {
		return true
	}

	return w.checkProbe(healthzCheck, w.m.Node.Healthz(ctx, w.spec.Healthz))
}

// cannotRecover reports whether the log of a dead kubelet, or its program, shows that it can never start. Then the
// watch does not wait for the crash loop. A unit that failed without a process (the gate was shut) has no such log.
func (w *watcher) cannotRecover(ctx context.Context, u Unit, now time.Duration) bool {
	isNew := u.Started >= w.since && u.Result != "resources"
	isDead := isWaitingToRestart(u) || hasGivenUp(u)

	if isNew && isDead && u.CannotStart() {
		return true
	}

	if !isNew || !isDead || w.lastLogRead != 0 && now-w.lastLogRead < probeInterval {
		return false
	}

	w.lastLogRead = now
	w.cause = w.m.findCause(ctx, w.spec, w.since)

	return w.cause != nil && w.cause.final
}

// countDeaths counts the deaths of the main process between two looks. Deaths that were too quick to be seen are in
// NRestarts. A process that was replaced or stopped by hand did not die.
func (p *process) countDeaths(u Unit) {
	switch {
	case !p.hasLooked:
		p.hasLooked = true
		p.restarts = u.Restarts
	case u.Restarts < p.restarts: // a manual start or restart sets NRestarts to 0
		p.restarts = u.Restarts
		p.steadySince = 0
	case p.pid != 0 && u.MainPID != p.pid:
		p.steadySince = 0
		if u.Active == "failed" || isWaitingToRestart(u) || u.Restarts > p.restarts+p.deaths {
			p.deaths++
		}
	}

	p.pid = u.MainPID
	if u.Result != "success" {
		p.lastResult = u.DescribeResult()
	}
	if u.Result == resultWatchdog {
		p.watchdog = u.Watchdog
	}
}

// whyEdited returns which file that the kubelet reads is not as prelet wrote it; "" if all are. Whether the files were
// of one generation was asked before the kubelet started, so another program has changed it since: that does not blame
// the plan, and its effect on the kubelet is in the other checks.
func (m *StateMachine) whyEdited(ctx context.Context, p Spec) string {
	if len(p.Files) == 0 {
		return ""
	}
	if err := m.Node.Files(ctx, p.Files); err != nil {
		return err.Error()
	}

	return ""
}

func (f *findings) checkProbe(name string, err error) bool {
	if err == nil {
		f.addOK(name)
		return true
	}

	if isUnknown(err) {
		f.addUnknown(name, "%v", err)
	} else {
		f.addBad(name, "%v", err)
	}

	return false
}

// isUnknown reports whether the result of a check could not be determined.
func isUnknown(err error) bool {
	var unknown interface{ Unknown() bool }

	return errors.As(err, &unknown) && unknown.Unknown()
}

func (f *findings) addOK(name string) { f.addQuiet(name, "ok", "") }

func (f *findings) addBad(name, format string, args ...any) string {
	return f.addCheck(name, "failed", format, args)
}

func (f *findings) addUnknown(name, format string, args ...any) string {
	return f.addCheck(name, "unknown", format, args)
}

func (f *findings) addCheck(name, state, format string, args []any) string {
	message := fmt.Sprintf(format, args...)
	f.addQuiet(name, state, message)
	f.reason = name + ": " + message
	f.unknown = state == "unknown"

	return f.reason
}
