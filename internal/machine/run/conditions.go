package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// The conditions of the Node that the site declares. Nothing waits for them: a failure is a note.
//
//	boot      prelet.service makes them False while it plans, before the kubelet starts
//	run       keeps what their checks found, and notes that the Node does not have it yet
//	verdict   prelet-verify.service, or a run outside of the boot, patches them, until the Node has them
//	shutdown  prelet.service makes them False

const (
	// beginTimeout limits the patch at the begin of a boot, which the kubelet may have to wait for, and at its end.
	beginTimeout = 3 * time.Second

	// The waits before the next try: while the kubelet starts, after a failure (each time twice as long), and after
	// the cluster has refused the patch.
	healthWait  = time.Second
	maxTryWait  = time.Minute
	refusedWait = 5 * time.Minute
	// unhealthyWait is the wait after the Node has got that its kubelet is unhealthy.
	unhealthyWait = 30 * time.Second
	// lookEvery is how often a wait looks whether verify has something to do.
	lookEvery = 5 * time.Second
)

// beginConditions makes the conditions False while the gate is shut, in parallel with the plan; with prelet=off they
// are Unknown. wait returns after that, or after beginTimeout; it may be called more than once.
func (r *nodeRun) beginConditions(ctx context.Context) (wait func()) {
	h := r.host
	record := conditionFiles{h}.readRecord()
	_, isOpen, err := h.Gate().State()
	_, isRepeated := conditionFiles{h}.readResults() // of an earlier run of this boot
	isUsed := len(record.Conditions) > 0 && hasKubeconfig(h)
	if !isUsed || isOpen || isRepeated || err != nil {
		return func() {}
	}

	status, reason, message := condition.False, condition.Booting, "this boot has no verdict on the kubelet yet"
	until := " until prelet-verify.service reaches the cluster"
	if h.IsOff() {
		status, reason = condition.Unknown, condition.TurnedOff
		message = "prelet is turned off (prelet=off), and does not check the kubelet"
		until = ""
	}

	done := make(chan error, 1)
	go func() { done <- patchAll(ctx, h, record, status, reason, message) }()

	return sync.OnceFunc(func() {
		if err := <-done; err != nil {
			r.Report.Note(fault.NodeCondition, fmt.Sprintf(
				"conditions: node %s has those from before this boot%s: %v", record.Node, until, err))
		}
	})
}

// hasKubeconfig reports whether a kubelet has begun to join on this disk.
func hasKubeconfig(h *machine.Host) bool {
	_, err := nodefile.Lstat(filepath.Join("/", h.Root, joined.Conf))

	return err == nil
}

// patchConditions changes the conditions of a Node, as choose returns for those that it has. It sends nothing without
// a change, and does not patch the Node of another machine.
func patchConditions(
	ctx context.Context, h *machine.Host, name string, choose func(have []condition.Condition) condition.Patch,
) error {
	n, err := ownNode(ctx, h, name)
	if err != nil {
		return err
	}

	change := choose(n.Conditions)
	if change.IsEmpty() {
		return nil
	}

	return h.Probe.Patch(ctx, n.Name, "", change)
}

// patchAll gives all conditions of a record one status, in beginTimeout.
func patchAll(ctx context.Context, h *machine.Host, r conditionRecord, status, reason, message string) error {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()

	return patchConditions(ctx, h, r.Node, func(have []condition.Condition) condition.Patch {
		return condition.Changes(have, condition.All(r.types(), status, reason, message), nil)
	})
}

// keepConditions keeps the results of the checks of a run. A run without a complete plan, or a rollback, keeps the
// results of an earlier run of this boot; without one, a condition with checks is Unknown.
func (r *nodeRun) keepConditions(context.Context) error {
	if r.Off || r.isAgain {
		return nil
	}
	files := conditionFiles{r.host}
	record := files.readRecord()
	results, hasResults := files.readResults()
	next := record

	switch {
	case r.Plan != nil && r.Plan.Complete:
		results.Node = commit.NodeName(r.Plan, r.host.Hostname)
		results.Healthz = commit.HealthzURL(r.Plan)
		results.Conditions, next = takeConditions(r.env, r.Plan, results.Node, record)
		results.Conditions = addStale(results.Conditions, r.host, r.node.Delivery)
	case !hasResults:
		results.Node = record.Node
		results.Conditions = assumeConditions(record)
	}
	if len(results.Conditions) == 0 && len(record.Conditions) == 0 {
		return nil
	}

	return errors.Join(files.writeRecord(next), files.writeResults(results))
}

// takeConditions returns the conditions of a plan, without the secrets of this node, and the next record.
func takeConditions(e *machine.Env,
	p *evaluate.Plan, nodeName string, record conditionRecord,
) (found []condition.Condition, next conditionRecord) {
	next.Node = nodeName
	if p.Node.Activation != nil {
		for _, c := range p.Node.Activation.Conditions {
			c.Message = e.Redactor.String(c.Message)
			found = append(found, c.Condition)
			next.Conditions = append(next.Conditions, recordedCondition{Type: c.Type, Checked: c.Checked})
		}
	}

	// Conditions that the site no longer has stay in the record until the Node does not have them.
	for _, c := range record.Conditions {
		if record.Node == nodeName && !slices.Contains(next.types(), c.Type) {
			next.Conditions = append(next.Conditions, c)
		}
	}

	return found, next
}

// addStale adds to conditions that are True how old the site is. They stay True: a registry that does not answer must
// not take the nodes of a fleet from it.
func addStale(all []condition.Condition, h *machine.Host, d *report.Delivery) []condition.Condition {
	stale := d.Stale(h.BootToLook())
	for i := range all {
		if stale != "" && all[i].Status == condition.True {
			all[i].Reason = condition.StaleSite
			all[i].Message += "; " + stale
		}
	}

	return all
}

// assumeConditions returns the results of a run whose plan is not complete: those with checks are Unknown.
func assumeConditions(record conditionRecord) (out []condition.Condition) {
	for _, c := range record.Conditions {
		found := condition.Condition{
			Type:    c.Type,
			Status:  condition.True,
			Reason:  condition.Verified,
			Message: condition.Healthy,
		}
		if c.Checked {
			found.Status = condition.Unknown
			found.Reason = condition.CheckUnknown
			found.Message = "the checks of the site were not evaluated in this boot: prelet status has the reason"
		}
		out = append(out, found)
	}

	return out
}

// conditionTries is how far the patches of the conditions are.
type conditionTries struct {
	end      time.Duration // until then, on the monotonic clock, an unhealthy kubelet may still be starting
	failures int
	wait     time.Duration // before the next try; 0: there is none
	isOwn    bool          // this process makes the next try
	// owesAnnotations: the Node did not get them, and may get them after the tries of the conditions.
	owesAnnotations bool
}

// settleConditions tries to patch the conditions that the Node may not have. prelet-verify.service tries until the Node
// has them, or until only a start of the kubelet or a run helps: these start it again. Other processes try once, and
// leave the rest to it; where it is not installed they wait for a kubelet that starts, unless the run has failed: then
// the conditions are those of the kubelet at once. The lock is free.
func (r *nodeRun) settleConditions(ctx context.Context) error {
	h, t := r.host, &r.tries
	t.isOwn = false
	if r.Off || ctx.Err() != nil || !(conditionFiles{h}).isOwed() {
		return errNotTried
	}
	if h.Self == machine.BootUnit { // the kubelet's start waits for this unit, and starts prelet-verify.service
		if u, err := h.Units.Look(ctx, r.UnitName()); err == nil && u.Active == "active" {
			t.wait = healthWait
		}
		return errNotTried
	}

	if t.end == 0 {
		t.end = findStartEnd(ctx, h, r.UnitName())
	}
	isStuck := needsVerify(ctx, h) // verify has just done all it can
	hasFailed := r.Code != "" && !r.isAgain
	isLate := isStuck || hasFailed || h.Clock.Monotonic() > t.end

	wait, err := r.deliverConditions(ctx, isLate)
	t.isOwn = !isStuck && (h.Self == machine.VerifyUnit || err == nil && wait == healthWait)
	if err != nil {
		wait = max(wait, min(healthWait<<min(t.failures, 10), maxTryWait))
		t.failures++
		err = fmt.Errorf("%w; %s tries again", err, machine.VerifyUnit)
	}
	t.wait = wait

	return err
}

// handOver starts prelet-verify.service for the next try. It fails where that unit is not installed. A run that owes
// the Node its annotations tries itself first.
func (r *nodeRun) handOver(ctx context.Context) error {
	if r.tries.wait == 0 || r.host.Self == machine.VerifyUnit || r.tries.owesAnnotations {
		return nil
	}
	_, err := r.host.Units.Start(ctx, machine.VerifyUnit, 0)
	r.tries.isOwn = r.tries.isOwn && err != nil

	return err
}

// findStartEnd returns until when, on the monotonic clock, an unhealthy kubelet may still be starting. For a verify by
// hand, a kubelet that has run longer than that gets only the time to settle.
func findStartEnd(ctx context.Context, h *machine.Host, unit string) time.Duration {
	now := h.Clock.Monotonic()
	u, err := h.Units.Look(ctx, unit)
	if h.Self == machine.VerifyUnit || err != nil {
		return now + activation.DefaultTimeout
	}

	return max(now+activation.DefaultSettle, min(now, u.Started)+activation.DefaultTimeout)
}

// waitForConditions waits before the next try, at most until verify has something to do. It reports false at a stop.
func (r *nodeRun) waitForConditions(ctx context.Context) bool {
	h := r.host
	wait := time.Duration(float64(r.tries.wait) * (1 + h.Jitter()) / 2)

	for left := wait; left > 0 && !needsVerify(ctx, h); left -= lookEvery {
		_ = h.Notify.Extend(lookEvery + machine.KeepAlive)
		if h.Clock.Sleep(ctx, min(left, lookEvery)) != nil {
			return false
		}
	}

	return true
}

// needsVerify reports, without the lock, whether verify has something to do: the gate is not open, a generation awaits
// its verdict, or a mount covers files of the generation in place.
func needsVerify(ctx context.Context, h *machine.Host) bool {
	if h.Gate().IsShut() {
		return true
	}

	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return false
	}
	defer store.Close()

	j, err := store.Journal()
	if err != nil || j != nil {
		return err == nil
	}
	cur, err := store.Current()

	return err == nil && h.Machine(store).WhyCovered(ctx, cur) != ""
}

// deliverConditions patches the conditions if it is known what they are. It returns the wait before the next try, 0 if
// the Node has its conditions. isLate is set if the kubelet had time to start.
func (r *nodeRun) deliverConditions(ctx context.Context, isLate bool) (wait time.Duration, err error) {
	files := conditionFiles{r.host}
	results, ok := files.readResults()
	if !ok || !files.isOwed() {
		return 0, files.forget()
	}
	owned := files.readRecord().types()

	want, wait := r.findConditions(ctx, results)
	if wait == healthWait || wait == lookEvery {
		if !isLate {
			return wait, nil
		}
		wait = unhealthyWait
	}

	err = patchConditions(ctx, r.host, results.Node, func(have []condition.Condition) condition.Patch {
		return condition.Changes(have, want, owned)
	})
	switch {
	case activation.IsRefused(err):
		return refusedWait, fmt.Errorf("the cluster does not let the node patch its status: %w", err)
	case err != nil:
		return 0, err
	case wait != 0:
		return wait, nil
	}

	isEnded, err := endOwing(ctx, r.host, results, owned)
	if err == nil && !isEnded {
		wait = lookEvery
	}

	return wait, err
}

// endOwing notes, with the lock, that the Node has these results.
func endOwing(ctx context.Context, h *machine.Host, was conditionResults, owned []string) (isEnded bool, err error) {
	store, err := h.Lock(ctx)
	if err == nil {
		defer store.Close()
	} else if fault.CodeOf(err) != fault.CannotWrite { // else no run can write now either
		return false, err
	}

	return conditionFiles{h}.end(was, owned)
}

// findConditions returns the conditions of the Node as the kubelet is now, and the wait before they may change: 0 for a
// healthy kubelet, healthWait while a kubelet may still be starting, lookEvery while a generation awaits its verdict,
// and unhealthyWait until another run or verdict. Those of the results are for a healthy kubelet: they stay only if its
// unit, its process and its health are known.
func (r *nodeRun) findConditions(
	ctx context.Context, results conditionResults,
) (want []condition.Condition, wait time.Duration) {
	h := r.host
	fail := func(wait time.Duration, reason, message string) ([]condition.Condition, time.Duration) {
		return condition.Replace(results.Conditions, condition.False, reason, message), wait
	}
	if h.Gate().IsShut() {
		message := "prelet does not let the kubelet start: prelet status has the reason"
		if s, err := h.LoadReport(); err == nil && s.Code == fault.KubeletHeld {
			message = s.Summary
		}

		return fail(unhealthyWait, condition.GateShut, message)
	}

	const unread = "the generation in place cannot be read: prelet status"
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return fail(unhealthyWait, condition.KubeletUnhealthy, unread)
	}
	defer store.Close()

	journal, journalErr := store.Journal()
	cur, err := store.Current()
	switch {
	case journal != nil:
		return fail(lookEvery, condition.KubeletUnhealthy, "there is no verdict yet: prelet status has the reason")
	case journalErr != nil || err != nil:
		return fail(unhealthyWait, condition.KubeletUnhealthy, unread)
	case cur != nil && cur.Status != generation.StatusGood:
		return fail(unhealthyWait, condition.KubeletUnhealthy, "no good generation is in place: prelet status")
	}

	checks, err := examineKubelet(ctx, h.Machine(store), cur, results.Healthz)
	if err != nil {
		return fail(unhealthyWait, condition.KubeletUnhealthy,
			"the plan of the generation cannot be read: prelet verify")
	}
	i := slices.IndexFunc(checks, func(c activation.CheckResult) bool { return c.State == "failed" })
	if i >= 0 {
		return fail(healthWait, condition.KubeletUnhealthy, "check "+checks[i].Name+" failed: prelet verify shows more")
	}
	if why := whyHealthUnknown(checks); why != "" {
		why = r.env.Redactor.String("it is not known whether the kubelet is healthy: " + why)
		return condition.Replace(results.Conditions, condition.Unknown, condition.KubeletUnknown, why), healthWait
	}

	return results.Conditions, 0
}

// examineKubelet checks the kubelet on a generation; without one, that it runs and is healthy at a URL, or at its
// default one.
func examineKubelet(
	ctx context.Context, m *activation.StateMachine, cur *generation.Info, healthz string,
) (checks []activation.CheckResult, err error) {
	if cur == nil {
		return m.ExamineUnmanaged(ctx, cmp.Or(healthz, activation.DefaultHealthz)), nil
	}
	checks, _, err = m.Examine(ctx, cur.Gen)

	return checks, err
}

// whyHealthUnknown returns which check of the health has no result; "" if the kubelet runs and answers.
func whyHealthUnknown(checks []activation.CheckResult) string {
	missing := []string{"unit", "started"}
	for _, c := range checks {
		isHealth := c.Name == "healthz" || slices.Contains(missing, c.Name)
		if isHealth && c.State != "ok" {
			return c.Name + ": " + c.Message
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Name })
	}
	if len(missing) > 0 {
		return missing[0] + " was not checked"
	}

	return ""
}

// ReportStop makes the conditions False because the node shuts down, or prelet.service is stopped. A restart of the
// unit changes nothing. A failure is only printed: the machine goes down anyway.
func ReportStop(ctx context.Context, e *machine.Env) {
	h := e.Host()
	defer h.Units.Close()

	record := conditionFiles{h}.readRecord()
	if len(record.Conditions) == 0 || !hasKubeconfig(h) {
		return
	}
	// At a shutdown systemd may be slow.
	asked, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	isRestarting, err := h.Units.IsRestarting(asked, h.Self)
	if err == nil && isRestarting {
		return
	}

	err = patchAll(ctx, h, record, condition.False, condition.Stopping, "the node shuts down")
	if err != nil {
		e.Say(fmt.Sprintf("the conditions of node %s stay as they are: %v", record.Node, err))
	}
}
