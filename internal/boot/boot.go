// Package boot turns a site and the world's answers into a plan: one function, (site, world) → plan. It is the only
// place that knows all steps: check, settings, prepare, gather, decide, render, judge, observe, diff. Each step is a
// function that returns a value and its findings, and none changes what another has returned. An expression that
// takes too long is given up and cannot be stopped, so it must not write to anything that a later step reads.
//
// The package reads through one tape and writes nothing. Start reading at Run.
package boot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// Options are what a run needs in addition to its site.
type Options struct {
	Source world.Source     // live adapters or a recording; Run puts a tape in front of it
	Now    func() time.Time // for durations of stages only; no answer depends on it
	Event  func(Event)      // progress; nil: none
	// Redact hides secrets in a text that the plan shows a part of; nil: only what looks like one.
	Redact func(string) string
	// Locks answers what is known of detectors where there is no Source (a check); nil: nothing is known of any.
	Locks world.Source
	// FallBack makes the function that may replace a failed answer by one of the last good generation that is not older
	// than the site's max_age (see world.Tape); nil where there is no such generation.
	FallBack func(maxAge time.Duration) func(world.Question, world.Answer) (world.Answer, bool)
	// Takeover lets the node join under the name of another machine, as the site's takeover does.
	Takeover bool
}

// Event is one step of progress.
type Event struct {
	Stage, State, Summary string
	Took                  time.Duration
}

// Plan is the result of a run. Nothing has been written.
type Plan struct {
	Site        *site.Site
	Node        node.Node
	Hash        string // "" unless Complete
	Complete    bool
	Diagnostics hcl.Diagnostics
	Degraded    []Degraded
	Unread      []Unread  // the places that Diagnostics name as unread
	Assumed     []Assumed // answers that the caller of Run put in place of the node's; Run leaves it empty
	Changes     []Change
	Unjudged    []string // managed files whose change is unknown, because it depends on an answer that is missing; sorted
	Restart     Restart
	Units       []UnitChange // other units that managed files notify, in the order in which they are acted on
	Kubelet     world.KubeletAns
	Aside       *Aside            // the previous identity, which is set aside; nil: none
	Accepts     *world.AcceptsAns // nil: the binary was not asked, or did not answer
	Facts       *world.Facts
	Access      world.Access
	Stages      []StageReport
	Edges       []eval.Edge
	Tape        *world.Tape
	Eval        *eval.Eval    // for explain and test: the scope at the end
	OnCluster   string        // last-good | fail
	MaxAge      time.Duration // of a last good answer
}

// Unread is one place that depends on a question that a recording was never asked, or that this user may not read.
type Unread struct {
	Where    string `json:"where"` // FILE:LINE:COLUMN; "" where the site has no place for it
	Question string `json:"question"`
	IsDenied bool   `json:"-"` // this user may not read the answer: no recording is replayed
}

// Assumed is an answer that is not the node's: of a rehearsal, a plan of what would be if it were.
type Assumed struct {
	Kind string `json:"kind"` // variable, object, ca or kubelet
	Name string `json:"name"` // of the variable, NAMESPACE/NAME of the object, or what is assumed of the CA or the kubelet
	From string `json:"from"` // --var, a file, --objects, …
	// InsteadOf is the node's own answer; never a value of a variable.
	InsteadOf string `json:"instead_of"`
}

// Code returns why a plan cannot be applied: the code of its first error, since later errors mostly follow from it;
// fault.Unread if it has none and is not complete; "" if it is complete.
func (p *Plan) Code() fault.Code {
	if code := origin.Code(p.Diagnostics); code != "" || p.Complete {
		return code
	}
	if len(p.Unread) > 0 {
		return fault.Unread
	}

	return fault.Internal
}

// Run evaluates a site over a world, up to the difference between what is on the disk and what shall be. A run that
// fails returns the plan as far as it came, with errors in its Diagnostics. If ctx was cancelled (and did not only
// reach its deadline), the cancellation is the only diagnostic: the failures that it caused say nothing about the
// machine or the cluster.
func Run(ctx context.Context, s *site.Site, o Options) *Plan {
	plan := runSteps(ctx, s, o, defaultLimits())
	if errors.Is(ctx.Err(), context.Canceled) {
		plan.Complete, plan.Hash = false, ""
		plan.Diagnostics = hcl.Diagnostics{origin.Error(fault.Interrupted, hcl.Range{}, "Stopped by a signal",
			"Why: %s.\nNothing was changed. The next run begins anew.", context.Cause(ctx))}
	}

	return plan
}

// runSteps runs one step after the other, until one has an error.
func runSteps(ctx context.Context, s *site.Site, o Options, limits evalLimits) *Plan {
	p, locks := startRun(ctx, s, o)
	env := newRuntimeEnv(o, limits)

	if p.runCheck(locks, env); p.hasErrors() {
		return p.makePlan()
	}
	if p.runSettings(env); p.hasErrors() {
		return p.makePlan()
	}
	if p.tape != nil && o.FallBack != nil && p.settings.onCluster == "last-good" {
		p.tape.FallBack(o.FallBack(p.settings.maxAge))
	}

	ctx, cancel := context.WithTimeout(ctx, p.settings.deadline)
	defer cancel()

	if p.runPrepare(locks, env); p.hasErrors() {
		return p.makePlan()
	}
	waitForKubelet := askKubelet(ctx, p.tape)
	p.runGather(ctx, env)
	p.addFindings(reportUnreadLocks(p.prepared.env.Detectors, p.tape))
	if p.setKubelet(waitForKubelet()); p.hasErrors() {
		return p.makePlan()
	}
	if p.runDecide(env); p.hasErrors() {
		return p.makePlan()
	}
	if p.runRender(env); p.hasErrors() {
		return p.makePlan()
	}
	if p.runJudge(ctx); p.hasErrors() {
		return p.makePlan()
	}
	if p.addFindings(checkNameIsFree(ctx, p.tape, p.decided.basis, p.rendered.node, o.Takeover)); p.hasErrors() {
		return p.makePlan()
	}
	p.runObserveAndDiff(ctx)

	return p.makePlan()
}

// progress is what the steps have returned so far; the value of a step that was not reached is zero. Only the run's own
// goroutine uses it: a step gets the values that it needs, and a scope of its own.
type progress struct {
	site     *site.Site
	tape     *world.Tape // nil: a check, without a machine
	eval     *eval.Eval  // the scope as the last step left it
	checked  Checked
	settings Settings
	prepared Prepared
	gathered Gathered
	kubelet  Kubelet
	decided  Decided
	rendered Rendered
	changed  Changed
	Findings
}

// runtimeEnv is what steps need in addition to values.
type runtimeEnv struct {
	limits evalLimits
	now    func() time.Time
	event  func(Event) // safe for concurrent use; calls Options.Event for one event at a time
}

func newRuntimeEnv(o Options, limits evalLimits) runtimeEnv {
	env := runtimeEnv{limits: limits, now: o.Now}
	if env.now == nil {
		env.now = func() time.Time { return time.Time{} }
	}

	var mu sync.Mutex
	env.event = func(e Event) {
		if o.Event != nil {
			mu.Lock()
			defer mu.Unlock()
			o.Event(e)
		}
	}

	return env
}

// startRun puts a tape in front of the source, and reads the locks of detectors: the types of outputs depend on them.
func startRun(ctx context.Context, s *site.Site, o Options) (*progress, map[string]detectorLock) {
	if o.Source == nil {
		return &progress{site: s, eval: eval.New(ctx, s, nil).WithRedactor(o.Redact)}, readLocks(ctx, s, o.Locks)
	}
	tape := world.NewTape(o.Source)

	return &progress{site: s, tape: tape, eval: eval.New(ctx, s, tape).WithRedactor(o.Redact)}, readLocks(ctx, s, tape)
}

func (p *progress) addFindings(f Findings) { p.Findings = p.join(f) }

func (p *progress) hasErrors() bool { return p.Diags.HasErrors() }

// setEval keeps the scope that a step returned; nil: the step was given up, and the scope stays.
func (p *progress) setEval(e *eval.Eval) {
	if e != nil {
		p.eval = e
	}
}

func (p *progress) runCheck(locks map[string]detectorLock, env runtimeEnv) {
	s := p.site
	checked, found := runStep(env.limits, func() (Checked, Findings) { return check(s, locks) })
	p.checked = checked
	p.addFindings(found)
}

func (p *progress) runSettings(env runtimeEnv) {
	s, e := p.site, p.eval.Fork()
	settings, found := runStep(env.limits, func() (Settings, Findings) { return decodeSettings(s, e) })
	p.settings = settings
	p.addFindings(found)
}

func (p *progress) runPrepare(locks map[string]detectorLock, env runtimeEnv) {
	s, e := p.site, p.eval.Fork()
	prepared, found := runStep(env.limits, func() (Prepared, Findings) { return prepare(s, locks, e) })
	p.prepared = prepared
	p.setEval(prepared.eval)
	p.addFindings(found)
}

func (p *progress) runGather(ctx context.Context, env runtimeEnv) {
	gathered, found := gather(ctx, p.checked, p.prepared, p.tape, env)
	p.gathered = gathered
	p.setEval(gathered.eval)
	p.addFindings(found)
}

func (p *progress) setKubelet(k Kubelet, found Findings) {
	p.kubelet = k
	p.addFindings(found)
}

func (p *progress) runDecide(env runtimeEnv) {
	in := decideInput{
		checked: p.checked, eval: p.eval.Fork(), tape: p.tape, now: env.now, failed: p.gathered.failed,
		isBroken: p.hasErrors(),
		basis: basis{
			facts: p.gathered.facts, recommended: p.gathered.recommended, trust: p.gathered.trust,
			kubelet: p.kubelet.KubeletAns, access: p.prepared.env.Access, unknown: p.Unknown,
		},
	}
	decided, found := runStep(env.limits, func() (Decided, Findings) { return decide(in) })
	p.decided = decided
	p.setEval(decided.eval)
	if decided.eval != nil {
		p.kubelet.KubeletAns = decided.basis.kubelet
	}
	p.addFindings(found)
	env.reportStages(found.Stages)
}

func (p *progress) runRender(env runtimeEnv) {
	c, d, e := p.checked, p.decided, p.eval.Fork()
	rendered, found := runStep(env.limits, func() (Rendered, Findings) { return render(c, d, e, env.now) })
	p.rendered = rendered
	p.setEval(rendered.eval)
	p.addFindings(found)
	env.reportStages(found.Stages)
}

func (p *progress) runJudge(ctx context.Context) {
	p.addFindings(reportUnreadToken(ctx, p.site, p.prepared.env.Access, p.rendered.node, p.tape))
	p.addFindings(judge(ctx, judgement{
		site: p.site, tape: p.tape, checking: p.eval.Checking(),
		node: p.rendered.node, basis: p.decided.basis, accepts: p.kubelet.accepts,
		isOlder: p.kubelet.isOlder,
	}))
}

// runObserveAndDiff does nothing in a check: no machine has a disk to look at.
func (p *progress) runObserveAndDiff(ctx context.Context) {
	if p.tape == nil {
		return
	}
	p.addFindings(checkOnNode(ctx, p.tape, p.rendered.node))
	observed := observe(ctx, p.tape, p.rendered.node, p.decided.aside, p.decided.basis, p.gathered.facts, p.Unknown)
	changed, found := diff(p.rendered.node, p.decided.aside, observed)
	p.changed = changed
	p.addFindings(found)

	r := removal{checked: p.checked, eval: p.eval, node: p.rendered.node, joined: p.kubelet.Joined}
	p.addFindings(r.refuse(observed, changed.changes))
}

// makePlan puts what the steps returned into a plan. Stages and edges are in site order.
func (p *progress) makePlan() *Plan {
	if p.tape != nil {
		p.tape.Seal()
	}

	plan := &Plan{
		Site: p.site, Node: p.rendered.node, Tape: p.tape, Eval: p.eval,
		Diagnostics: p.Diags, Degraded: p.Degraded, Unread: listUnread(p.Diags),
		Changes: p.changed.changes, Unjudged: p.changed.unjudged, Restart: p.changed.restart, Units: p.changed.units,
		Kubelet: p.kubelet.KubeletAns, Accepts: p.kubelet.accepts, Aside: p.decided.aside,
		Facts: p.gathered.facts, Access: p.prepared.env.Access,
		OnCluster: p.settings.onCluster, MaxAge: p.settings.maxAge,
		Complete: isComplete(p.rendered.isDone, p.Diags, p.Unknown),
	}
	if plan.Complete {
		plan.Hash = p.rendered.node.Hash()
	}

	if p.tape != nil && plan.Code() == fault.Internal {
		plan.Diagnostics = append(plan.Diagnostics, origin.Error(fault.Internal, hcl.Range{}, "A part of the plan is unknown",
			"Unknown: %s. No question explains it, so this is a mistake of prelet. Please report it with a recording: prelet record.",
			p.Unknown))
	}

	for _, i := range p.site.Stages {
		if at := slices.IndexFunc(p.Stages, func(s StageReport) bool { return s.Address == i.Addr() }); at >= 0 {
			plan.Stages = append(plan.Stages, p.Stages[at])
		}
		plan.Edges = append(plan.Edges, p.eval.Edges(i)...)
	}

	return plan
}

// listUnread returns the places and questions that diagnostics name as unread, each pair once.
func listUnread(ds hcl.Diagnostics) (out []Unread) {
	for _, d := range ds {
		extra, _ := d.Extra.(origin.Extra)
		where := ""
		if d.Subject != nil {
			where = fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		for _, q := range extra.Unread {
			if u := (Unread{where, q, extra.Denied}); !slices.Contains(out, u) {
				out = append(out, u)
			}
		}
	}

	return out
}

// reportStages sends the events of stages that are over.
func (env runtimeEnv) reportStages(all []StageReport) {
	for _, s := range all {
		env.event(Event{Stage: s.Address, State: s.State, Took: s.Took})
	}
}
