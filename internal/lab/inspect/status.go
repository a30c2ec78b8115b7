// Package inspect reports about a node: its status, history, times, checks, and the bundle of all of them. It changes
// nothing that a boot depends on.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/kubeletstate"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/machine/run"
)

// NodeStatus is status.json with the state of the node at this moment: the document of `status -o json`.
type NodeStatus struct {
	*report.Status
	Gate        Gate   `json:"gate"`
	StatusExit  int    `json:"status_exit"`           // of the command
	Interrupted string `json:"interrupted,omitempty"` // a commit whose writer is gone, and the next step
	Lost        string `json:"lost,omitempty"`        // that the generation in place was lost, or not read; what to do
	SetAside    string `json:"set_aside,omitempty"`   // why there is a copy of a state that could not be trusted
	Problem     string `json:"problem,omitempty"`     // why the report of the last run cannot be read
	Failing     string `json:"failing,omitempty"`     // how the kubelet's unit fails on files that are as planned
	NotStarted  string `json:"not_started,omitempty"` // why prelet.service could not start, or how it dies at each try

	StaleSite string `json:"stale_site,omitempty"` // since when no look for a site has succeeded

	Condition Condition `json:"-"`
	Kept      string    `json:"-"` // status of the generation in place, as it is stored; "" where it cannot be read
	ThisBoot  bool      `json:"-"` // the last run was in this boot
	Begun     string    `json:"-"` // what prelet.service does in a boot without a report; else ""
	unit      string    // the kubelet's
	Unjudged  bool      `json:"-"` // the kubelet of this boot has no verdict yet, on files that have a good one
	Pinned    bool      `json:"-"` // an operator has rolled back by hand, so that no plan is applied
	NotGiven  bool      `json:"-"` // its user data may have caused NotStarted, not its image
}

// Gate is whether the kubelet may start.
type Gate struct {
	Open       bool   `json:"open"`
	Generation int    `json:"generation"`    // that it may start on; 0 where the gate is shut
	Why        string `json:"why,omitempty"` // it is shut
}

// Condition is the result of `prelet status` in one word.
type Condition string

// The conditions of a node.
const (
	Healthy    Condition = "healthy"
	Failing    Condition = "failing"
	Degraded   Condition = "degraded"   // the kubelet may start, but not as the site says
	Unfinished Condition = "unfinished" // not run in this boot, or still running
)

// exit returns the exit status of `prelet status`, whose exit statuses are its own.
func (c Condition) exit() int {
	return map[Condition]int{Healthy: 0, Failing: 1, Degraded: 2, Unfinished: 3}[c]
}

// statusEvery is how often the state is read while a command waits for it.
const statusEvery = 200 * time.Millisecond

// idleLooks is the number of checks in a row, longer than systemd waits before it restarts a unit (RestartSec=).
const idleLooks = 25

// isFinal reports whether the run has ended, and its generation has a verdict.
func (s NodeStatus) isFinal() bool {
	isJudged := s.Verdict != report.Pending && !s.Unjudged

	return s.Condition != Unfinished && isJudged && s.Interrupted == ""
}

// Status returns the state of this node, or of the one below a root. With wait it returns when the run has ended and
// its generation has a verdict, or when no unit is going to give one. If the folder of the generations does not answer
// at once, early gets the status without them; it may be nil.
func Status(ctx context.Context, e *machine.Env, root string, wait bool, early func(NodeStatus)) (NodeStatus, error) {
	if root != "" && wait {
		return NodeStatus{}, fault.Usage.Errorf("--wait excludes --root: only on the node itself a run can end")
	}
	h, err := e.HostOf(root, false)
	if err != nil {
		return NodeStatus{}, err
	}
	defer h.Units.Close()
	if h.IsBelow() { // state outside of files is not known: the report counts as that of the present boot
		h.BootID = ""
		if s, err := h.LoadReport(); err == nil {
			h.BootID = s.BootID
		}
	}

	end := func() {}
	if wait {
		end = e.Wait("the end of the run, and its verdict", time.Time{})
	}
	defer end()
	for idle := 0; ; {
		out := readNodeStatus(ctx, h, early)
		if h.IsBelow() && out.State == "" && out.Problem == "" {
			out.Problem = filepath.Join(h.Root, machine.RunDir) +
				" has no report: it is in memory, so a disk does not " +
				"have it; prelet history lists the generations"
		}
		if !wait || out.isFinal() {
			return out, nil
		}

		idle++
		if !isIdle(ctx, h, out) {
			idle = 0
		}
		if idle >= idleLooks {
			e.Say("it will not be judged: none of prelet's units is active, and the kubelet does not start")
			if out.Failing == "" && out.Gate.Open {
				out.Failing = "nothing has started " + out.unit + " in this boot: is it enabled?"
			}
			return out, nil
		}

		if h.Clock.Sleep(ctx, statusEvery) != nil {
			return out, nil // the state when the wait was stopped
		}
	}
}

// earlyAfter is how long the generations are read before the status is shown without them.
const earlyAfter = time.Second

// showEarly shows a copy of a status after that time, unless stop is called before. stop waits for its end.
func showEarly(s NodeStatus, early func(NodeStatus)) (stop func()) {
	if early == nil {
		return func() {}
	}
	known := s.Status.Clone() // lookAgain changes it
	s.Status = &known
	shown := make(chan struct{})
	timer := time.AfterFunc(earlyAfter, func() {
		defer close(shown)
		early(s)
	})

	return func() {
		if !timer.Stop() {
			<-shown
		}
	}
}

// readNodeStatus returns the state of the node: the report of the last run, the gate and the store.
func readNodeStatus(ctx context.Context, h *machine.Host, early func(NodeStatus)) NodeStatus {
	out := readReport(ctx, h)

	gate, err := readGate(h, out)
	out.Gate = gate
	switch {
	case err != nil:
		out.Condition = Failing
	case out.Condition == Failing && out.keepsGeneration():
		out.Condition = Degraded
	}

	failedStart := h.WhyNotStarted(ctx)
	out.NotStarted, out.NotGiven = failedStart.Why, failedStart.IsGiven
	if out.NotStarted != "" {
		out.Condition = Failing
	}

	stop := showEarly(out, early)
	readStore(ctx, h, &out)
	stop()
	if out.Lost != "" {
		out.addLost(h.Gate().Reason() != "")
	}
	if out.Interrupted != "" && out.Condition == Healthy {
		out.Condition = Failing
	}

	if out.Gate.Open && out.Verdict != report.Pending {
		out.Failing = describeFailing(ctx, h, out.unit, cmp.Or(out.Healthy, out.Finished))
	}
	switch {
	case out.Condition != Healthy && out.Condition != Degraded:
	case out.Failing != "":
		out.Condition = Failing
	}
	out.StaleSite = out.Delivery.Stale(h.BootToLook())
	out.Unjudged = run.OwesVerdict(h) && out.verifiedFault() == "" && !out.isOtherMachine()
	out.StatusExit = out.Condition.exit()

	return out
}

// isOtherMachine reports whether the Node was seen to be another machine, so that nothing judges this one.
func (s *NodeStatus) isOtherMachine() bool {
	return slices.ContainsFunc(s.Status.Degraded, func(r fault.Reason) bool {
		return r.Code == fault.OtherMachine
	})
}

// addLost adds that no generation is in place although there was one. hasReason is whether the gate has a reason.
func (s *NodeStatus) addLost(hasReason bool) {
	if !s.Gate.Open && !hasReason {
		s.Gate.Why = s.Lost
	}
	if s.Condition == Healthy {
		s.Condition = Degraded
	}
}

// readReport returns the report of the last run, or the reason why it cannot be read.
func readReport(ctx context.Context, h *machine.Host) NodeStatus {
	var out NodeStatus

	s, err := h.LoadReport()
	switch {
	case err == nil:
		out.Status = s
		out.Condition = conditionOf(s.InBoot(h.BootID))
	case !errors.Is(err, fs.ErrNotExist):
		out.Status = emptyStatus()
		out.Condition = Failing
		if errors.Is(err, report.ErrNewer) { // nothing shows that the node is unhealthy
			out.Condition = Degraded
		}
		out.Problem = err.Error() + " (prelet run writes it again)"
	case activation.HasRun(ctx, h.Units):
		out.Status = emptyStatus()
		out.Condition = Degraded
		out.Problem = "has run in this boot, and its report is not in " + h.RunDir +
			": it was removed, or could not be written (prelet run writes it again)"
	default:
		out.Status = emptyStatus()
		out.Condition = Unfinished
		out.Begun = describeBegun(ctx, h)
		if full := h.Gate().WhyFull(); full != "" && out.Begun != "" { // it cannot report
			out.Condition = Failing
			out.Begun += ". " + full
		}
	}

	out.ThisBoot = out.BootID == h.BootID

	return out
}

// describeBegun returns the state of prelet.service in a boot without a report; "" if it has not begun, or if systemd
// does not answer.
func describeBegun(ctx context.Context, h *machine.Host) string {
	u, err := h.Units.Look(ctx, machine.BootUnit)

	switch {
	case err != nil:
		return ""
	case u.MainPID != 0:
		return fmt.Sprintf("process %d of %s has begun, and has not reported yet", u.MainPID, machine.BootUnit)
	case u.Started != 0:
		const format = "%s has ended (%s, status %d) and could not report: journalctl -b -u %s"
		return fmt.Sprintf(format, machine.BootUnit, u.Result, u.Status, machine.BootUnit)
	case u.Job != 0:
		return machine.BootUnit + " waits for other units: systemctl list-jobs names them"
	}

	return ""
}

// keepsGeneration reports whether the last run failed because of its site or a missing credential, before a commit, and
// the kubelet may start on the generation in place, which is not known to be bad.
func (s NodeStatus) keepsGeneration() bool {
	isReason := func(r fault.Reason) bool { return r.Code == s.Code }
	isInPlace := s.Gate.Open && s.Generation > 0 && s.Gate.Generation == s.Generation

	isOfSite := s.Exit == fault.Syntax.Exit() || s.Exit == fault.CredentialMissing.Exit() ||
		s.Code == fault.SiteDelivery

	return s.State == report.Failed && isOfSite && isInPlace && s.Verdict != report.Bad &&
		slices.ContainsFunc(s.Status.Degraded, isReason)
}

// readGate returns the state of the gate. A gate that is missing without a reason was removed.
func readGate(h *machine.Host, s NodeStatus) (Gate, error) {
	gen, open, err := h.Gate().State()
	switch {
	case err != nil:
		return Gate{Why: err.Error()}, err
	case open:
		return Gate{Open: true, Generation: gen}, nil
	}

	why := h.Gate().Reason()
	if why == "" && (s.Problem != "" || h.Gate().WasOpened()) {
		why = h.Gate().
			Path() +
			" was removed. A kubelet that runs goes on; at its next start prelet-verify writes the file again"
	}

	return Gate{Why: why}, nil
}

// isIdle reports whether a wait has nothing to wait for: the run has ended or its writer is gone, and no unit is
// active.
func isIdle(ctx context.Context, h *machine.Host, s NodeStatus) bool {
	if s.State == report.Running && s.Interrupted == "" {
		return false
	}
	if !haveUnitsEnded(ctx, h) {
		return false
	}
	if s.Interrupted != "" { // no unit is going to recover it
		return true
	}
	u, err := h.Units.Look(ctx, s.unit)
	return err == nil && u.Job == 0 && u.Load != "not-found" && hasStopped(u)
}

// haveUnitsEnded reports whether none of prelet's units runs or is about to run.
func haveUnitsEnded(ctx context.Context, h *machine.Host) bool {
	for _, name := range []string{machine.BootUnit, machine.ApplyUnit, machine.VerifyUnit} {
		u, err := h.Units.Look(ctx, name)
		isBootUp := name == machine.BootUnit && u.Active == "active" // it stays active until the next boot
		hasEnded := hasStopped(u) || u.Load == "not-found" || isBootUp
		if err != nil || u.Job != 0 || !hasEnded {
			return false
		}
	}
	return true
}

func hasStopped(u activation.Unit) bool {
	return u.Active == "inactive" || u.Active == "failed"
}

// readStore adds the stored status of the current generation, an interrupted commit and lost generations, as far as
// this user may read them.
func readStore(ctx context.Context, h *machine.Host, out *NodeStatus) {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		out.unit = h.KubeletUnitOf(nil)
		if !errors.Is(err, fs.ErrPermission) {
			out.Lost = err.Error()
		}
		return
	}
	defer store.Close()
	out.unit = h.KubeletUnitOf(store)
	readDelivery(h, out)

	if j := store.Abandoned(); j != nil {
		out.Interrupted = fmt.Sprintf("the process that published generation %d was killed, or failed before the end; "+
			"prelet recover finishes it, if no unit of prelet does", j.Gen)
	}

	var why string
	why, out.Pinned = commit.WhyPinned(store)
	if out.Pinned && out.Held == nil { // the report of the run that did not apply the plan is gone
		out.Held = &report.Held{Why: why + "; to apply the site again: prelet rollback --release"}
		if out.Condition == Healthy {
			out.Condition = Degraded
		}
	}
	if a := store.FindAside(); a != nil {
		out.SetAside = a.String()
	}
	out.Lost = h.Machine(store).WhyLost(ctx)
	cur, err := store.Current()
	if err != nil || cur == nil {
		return
	}
	if out.Problem != "" { // the report of the last run does not have it
		out.Generation = cur.Gen
	}
	if cur.Gen == out.Generation {
		out.Kept = string(cur.Status)
	}
	lookAgain(ctx, h, store, out)
}

// readDelivery reads the record of the pulled site, which may be newer than the report.
func readDelivery(h *machine.Host, out *NodeStatus) {
	d, err := machine.ReadDelivery(h.StateDir())
	switch {
	case err != nil:
		return
	case out.Delivery != nil:
		d.Used = out.Delivery.Used
		d.TakeFailure(out.Delivery)
	case out.State == "": // without a report it is not known
		d.Used = d.Digest
	}
	out.Delivery = d
}

// lookTimeout limits the request of lookAgain.
const lookTimeout = 3 * time.Second

// lookAgain updates the state of the kubelet's request for a certificate, which a person or a program in the cluster
// approves or denies. The text stays while the cluster does not answer.
func lookAgain(ctx context.Context, h *machine.Host, store *generation.Store, out *NodeStatus) {
	i := slices.IndexFunc(out.Notes, func(r fault.Reason) bool { return r.Code == fault.ServingCertificate })
	waits, texts := "", []*string{&out.Summary, &out.Why}
	for i := range out.Status.Degraded {
		texts = append(texts, &out.Status.Degraded[i].Summary)
	}
	for _, text := range texts {
		waits = cmp.Or(waits, kubeletstate.Approvable().FindString(*text))
	}
	if i < 0 && waits == "" || h.IsBelow() {
		return
	}
	spec, err := h.Machine(store).SpecOf(out.Generation)
	if err != nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if waits != "" {
		err = h.Probe.Kubeconfig(ctx, spec.Node)
	} else {
		err = h.Probe.Serving(ctx, spec.Serving)
	}

	var unknown interface{ Unknown() bool }
	switch {
	case errors.As(err, &unknown):
	case waits != "":
		now := "the node has joined since; prelet verify looks again"
		if err != nil {
			now = err.Error()
		}
		for _, text := range texts {
			*text = strings.ReplaceAll(*text, waits, now)
		}
	case err == nil:
		out.Notes = slices.Delete(out.Notes, i, i+1)
	default:
		out.Notes[i].Summary = err.Error()
	}
}

// emptyStatus is the status of a node where prelet has not run.
func emptyStatus() *report.Status {
	return &report.Status{
		FormatVersion: report.FormatVersion,
		Degraded:      []fault.Reason{},
		Stages:        []report.Stage{},
	}
}

// conditionOf returns the condition of a node whose last run is in a state of package report.
func conditionOf(state string) Condition {
	switch state {
	case report.OK:
		return Healthy
	case report.Degraded:
		return Degraded
	case report.Running:
		return Unfinished
	}
	return Failing
}
