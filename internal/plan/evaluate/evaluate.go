// Package evaluate turns a site and the answers of a world (a machine, its cluster, or a recording of them) into a
// plan: one function, (site, world) → plan. Run calls the steps check, settings, prepare, gather, decide, render,
// rules, name, observe, diff and runtime, in this order, up to the first with an error; each returns a value and its
// findings. Check evaluates a site over sample machines, without a world. The package writes nothing, and reads only
// through one tape; a check reads the locks of detectors from its source. A step never changes the result of another
// one. The knowledge of a step about the kubelet, or about files of other programs, is in a package next to it.
package evaluate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/blame"
	"github.com/prelet/prelet/internal/plan/detectors"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/identity"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
	"github.com/prelet/prelet/internal/plan/preflight"
	"github.com/prelet/prelet/internal/plan/removal"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// RunInput is the input of a run in addition to its site.
type RunInput struct {
	Source tape.Source       // live adapters or a recording; Run puts a tape in front of it
	Now    func() time.Time  // for durations of stages only; no answer depends on it
	Event  func(StageReport) // progress: a stage runs or has ended; nil: none
	// Redact hides secrets in a text of which the plan shows a part; nil: only texts that look like a secret.
	Redact func(string) string
	// Locks answers the questions for detectors' locks in a check, which has no Source; nil: no locks.
	Locks tape.Source
	// LastGood answers from the last good generation, up to the site's max_age; nil if no such generation exists. It is
	// used only if the site allows it with on_cluster_error.
	LastGood func(maxAge time.Duration) tape.Fallback
	// KeepVariables answers for variables that have lost their value since the last good generation; nil if no such
	// generation exists.
	KeepVariables tape.Fallback
	// Hurry limits the wait for the cluster. It is called before the first question to the cluster if LastGood is used.
	Hurry func()
	// Checks has the check of earlier runs of the same site; nil: none.
	Checks *Checks
	// Takeover lets the node join under the name of another machine, as the site's takeover does.
	Takeover bool
	// Only is an expression for whose value the run is made. If it needs nothing but gather stages, only these are run,
	// and the run ends after them. nil: the whole run.
	Only hclsyntax.Expression
	// IsPartial is set for a plan that is only examined: a cluster's object that the recording or the caller does not
	// answer for is unknown, as in a check. Such a plan is never complete.
	IsPartial bool
	// Advises is set for a plan that is only examined: it also has findings of the kubelet's rules that a boot leaves
	// out, about settings of the base that do not matter yet, and all of many equal ones.
	Advises bool
	// Explains is set for a plan that is explained: it has a record of what each expression evaluated to.
	Explains bool
	// Finished gets the kubelet of the finished node before the tape is asked whether its binary accepts it: the
	// question has only a digest. nil: the binary is not asked.
	Finished func(judge.FinishedKubelet)
	// FinishedRuntime gets the changed files before the tape is asked whether the container runtime accepts them. nil:
	// a recording has the answer, or nothing.
	FinishedRuntime func(judge.FinishedRuntime)
	// GaveUp is set when an evaluation has reached a limit: it goes on in this process, so that no further one begins.
	// nil: each is tried.
	GaveUp *atomic.Bool
}

// Run evaluates a site over a world, up to the difference between the disk and the finished node. A run that fails
// returns the plan up to the failed step, with errors in its Diagnostics. If ctx was cancelled (and did not only
// reach its deadline), the cancellation is the only diagnostic, because the failures that it caused say nothing
// about the machine or the cluster.
func Run(ctx context.Context, s *lang.Site, o RunInput) *Plan {
	plan := runSteps(ctx, s, o, limit.Default())
	if errors.Is(ctx.Err(), context.Canceled) {
		plan.Complete = false
		plan.Hash = ""
		plan.Diagnostics = hcl.Diagnostics{origin.Error(
			fault.Interrupted, hcl.Range{}, "Stopped by a signal",
			"Why: %s.\nNothing was changed. The next run starts from the beginning.", context.Cause(ctx),
		)}
	}

	return plan
}

// runSteps runs one step after the other, and stops after the first step with an error.
func runSteps(ctx context.Context, s *lang.Site, o RunInput, limits limit.Limits) *Plan {
	p := startRun(ctx, s, o, limits)
	if !p.runAll(ctx, p.runCheck, p.runSettings) {
		return p.makePlan()
	}

	p.setFallback(o)
	ctx, cancel := context.WithTimeout(ctx, p.settings.deadline)
	defer cancel()

	p.only = p.findOnly(o.Only)
	isAll := p.runAll(ctx, p.runPrepare, p.runGather)
	if !isAll || p.only != nil {
		return p.makePlan()
	}

	gathered := *p
	if !p.runAll(ctx, p.runDecide, p.runRender) {
		return p.makePlan()
	}
	rendered := *p
	p.runAll(ctx, p.runRules, p.runNameCheck, p.runObserveAndDiff, p.runRuntimeCheck)
	plan := p.makePlan()
	if p.judge.Advises {
		plan.afterGather = &gathered
		plan.afterRender = &rendered
	}

	return plan
}

// findOnly returns the gather stages that an expression needs; nil if it needs more, or without an expression.
func (p *progress) findOnly(x hclsyntax.Expression) map[string]bool {
	if x == nil {
		return nil
	}

	reached := p.eval.Reach(x)
	if reached.Any || reached.Node || reached.Phase > schema.Gather {
		return nil
	}

	only := map[string]bool{}
	for _, addr := range p.checked.listNeeded(reached.Stages) {
		only[addr] = true
	}

	return only
}

// setFallback sets what replaces failed answers of the tape.
func (p *progress) setFallback(o RunInput) {
	if p.tape == nil {
		return
	}

	fallback := o.KeepVariables
	if o.LastGood != nil && p.settings.onCluster == "last-good" {
		o.Hurry()
		fallback = fallback.Or(o.LastGood(p.settings.maxAge))
	}
	p.tape.SetFallback(fallback)
}

// progress is a run: its input, and the results of its steps. The result of a step that did not run is zero. Only
// the run's own goroutine uses it: a step gets the values that it needs, and a scope of its own.
type progress struct {
	runtimeEnv
	site       *lang.Site
	tape       *tape.Tape // nil: a check, without a machine
	judge      judge.Case // as far as it is known at the start
	finished   func(judge.FinishedRuntime)
	locks      detectors.Locks
	checks     *Checks
	isTakeover bool
	only       map[string]bool // the gather stages that run; nil: all, and what follows them

	eval     *eval.Eval // the scope after the last step
	checked  Checked
	settings Settings
	prepared Prepared
	gathered Gathered
	kubelet  Kubelet
	decided  Decided
	rendered Rendered
	dryRun   *tape.DryRunAns
	declares *[]rules.Declaration
	changed  Changed
	Findings
}

// runtimeEnv is the input of steps in addition to values.
type runtimeEnv struct {
	limits limit.Limits
	now    func() time.Time
	event  func(StageReport) // safe for concurrent use; calls RunInput.Event for one report at a time
}

func newRuntimeEnv(o RunInput, limits limit.Limits) runtimeEnv {
	if o.GaveUp != nil {
		limits.GaveUp = o.GaveUp
	}
	env := runtimeEnv{limits: limits, now: o.Now, event: func(StageReport) {}}
	if env.now == nil {
		env.now = func() time.Time {
			return time.Time{}
		}
	}
	if o.Event == nil {
		return env
	}

	var mu sync.Mutex
	env.event = func(e StageReport) {
		mu.Lock()
		defer mu.Unlock()
		o.Event(e)
	}

	return env
}

// reportStages sends the events of stages that have ended.
func (env runtimeEnv) reportStages(all []StageReport) {
	for _, s := range all {
		env.event(s)
	}
}

// startRun puts a tape in front of the source, and reads the locks of detectors: the types of outputs depend on
// them.
func startRun(ctx context.Context, s *lang.Site, o RunInput, limits limit.Limits) *progress {
	p := &progress{
		runtimeEnv: newRuntimeEnv(o, limits),
		site:       s,
		checks:     o.Checks,
		isTakeover: o.Takeover,
		finished:   o.FinishedRuntime,
		judge:      judge.Case{Site: s, Unit: hostfiles.KubeletUnit(s), Finished: o.Finished, Advises: o.Advises},
	}
	if p.checks == nil {
		p.checks = &Checks{}
	}
	var answers tape.Source
	locks := o.Locks
	if o.Source != nil {
		p.tape = tape.NewTape(o.Source)
		p.judge.Tape = p.tape
		p.judge.Binary = p.tape
		answers = p.tape
		locks = p.tape
	}
	p.eval = eval.New(ctx, s, answers).WithRedactor(o.Redact).WithOuterLimits()
	if o.IsPartial {
		p.eval = p.eval.Partial()
	}
	if o.Explains {
		p.eval = p.eval.WithTrace()
	}
	p.locks = detectors.ReadLocks(ctx, s, locks)

	return p
}

// runAll runs steps in order until the run has an error. It reports whether the run has none.
func (p *progress) runAll(ctx context.Context, steps ...func(context.Context)) bool {
	for _, step := range steps {
		if step(ctx); p.hasErrors() {
			return false
		}
	}

	return true
}

func (p *progress) hasErrors() bool {
	return p.Diags.HasErrors()
}

// setEval keeps the scope that a step returned; nil: the step was abandoned, and the scope stays.
func (p *progress) setEval(e *eval.Eval) {
	if e != nil {
		p.eval = e
	}
}

// runLimited runs a step within the run's limits, adds its findings to the run, and sends the events of its stages.
func runLimited[T any](ctx context.Context, p *progress, step func() (T, Findings)) T {
	value, found := runStep(ctx, p.limits, step)
	p.add(found)
	p.reportStages(found.Stages)

	return value
}

// runStep is limit.Run for a step that also returns findings.
func runStep[T any](ctx context.Context, limits limit.Limits, step func() (T, Findings)) (T, Findings) {
	type result struct {
		value T
		Findings
	}
	r, failed := limit.Run(ctx, limits, func() (r result) {
		r.value, r.Findings = step()
		return r
	})
	if failed != nil {
		r.Report(failed)
	}

	return r.value, r.Findings
}

func (p *progress) runCheck(ctx context.Context) {
	s := p.site
	locks := p.locks
	checks := p.checks
	p.checked = runLimited(ctx, p, func() (Checked, Findings) {
		return checks.check(s, locks)
	})
}

func (p *progress) runSettings(ctx context.Context) {
	s := p.site
	e := p.eval.Fork()
	p.settings = runLimited(ctx, p, func() (Settings, Findings) {
		return decodeSettings(s, e)
	})
}

func (p *progress) runPrepare(ctx context.Context) {
	s := p.site
	locks := p.locks
	e := p.eval.Fork()
	p.prepared = runLimited(ctx, p, func() (Prepared, Findings) {
		return prepare(s, locks, e)
	})
	p.prepared.env.Shared = &p.checks.shared
	p.setEval(p.prepared.eval)
}

// runGather runs the gather stages, and reads about the installed kubelet at the same time.
func (p *progress) runGather(ctx context.Context) {
	waitForKubelet := askKubelet(ctx, p.tape)
	gathered, found := gather(ctx, p.checked, p.prepared, p.tape, p.runtimeEnv, p.only)
	p.gathered = gathered
	p.setEval(gathered.eval)
	p.add(found)

	installed, found := waitForKubelet()
	p.kubelet = installed
	p.add(found)
}

func (p *progress) runDecide(ctx context.Context) {
	in := decideInput{
		checked:  p.checked,
		eval:     p.eval.Fork(),
		tape:     p.tape,
		now:      p.now,
		failed:   p.gathered.failed,
		isBroken: p.hasErrors(),
		basis: stages.Inputs{
			Readings:    p.gathered.Readings,
			Kubelet:     p.kubelet.KubeletAns,
			Access:      p.prepared.env.Access,
			ParseConfig: p.checks.parseConfig,
			Check:       p.eval.Checking(),
		},
	}
	p.decided = runLimited(ctx, p, func() (Decided, Findings) {
		return decide(in)
	})
	p.setEval(p.decided.eval)
	if p.decided.eval != nil {
		p.kubelet.KubeletAns = p.decided.basis.Kubelet
	}
}

func (p *progress) runRender(ctx context.Context) {
	c := p.checked
	d := p.decided
	e := p.eval.Fork()
	now := p.now
	p.rendered = runLimited(ctx, p, func() (Rendered, Findings) {
		return render(c, d, e, now)
	})
	p.setEval(p.rendered.eval)
}

func (p *progress) runRules(ctx context.Context) {
	in := p.judge
	in.Inputs = p.decided.basis
	in.Node = p.rendered.node
	in.Files = p.rendered.files
	in.Accepts = p.kubelet.accepts
	p.Report(hostfiles.CheckUnitFiles(in.Node)...)
	verdict := runLimited(ctx, p, func() (*tape.DryRunAns, Findings) {
		verdict, found := in.AskBinary(ctx)
		return verdict, Findings{Collector: found}
	})
	p.dryRun = verdict
	p.declares = runLimited(ctx, p, func() (*[]rules.Declaration, Findings) {
		declares, found := in.CheckRules(ctx, verdict)
		return declares, Findings{Collector: found}
	})
}

func (p *progress) runNameCheck(ctx context.Context) {
	if !p.isTakeover && p.tape != nil {
		p.Report(identity.CheckFree(ctx, p.tape, p.decided.basis, p.rendered.node)...)
	}
}

// runObserveAndDiff does nothing in a check, which has no disk.
func (p *progress) runObserveAndDiff(ctx context.Context) {
	if p.tape == nil {
		return
	}
	p.add(Findings{Collector: preflight.Check(ctx, p.tape, p.rendered.node)})
	previous, damage := identity.CheckDamaged(ctx, p.tape, p.decided.basis, p.rendered.node, p.decided.previous)
	p.decided.previous = previous
	p.add(Findings{Collector: damage})

	observed := observe(ctx, observation{
		tape:      p.tape,
		node:      p.rendered.node,
		previous:  p.decided.previous,
		basis:     p.decided.basis,
		isPartial: p.eval.IsPartial(),
	})
	changed, found := diff(p.rendered.node, p.decided.previous, observed)
	p.changed = changed
	p.add(found)

	p.Report(removal.Guard{
		Site:       p.site,
		Eval:       p.eval,
		Node:       p.rendered.node,
		IsJoined:   p.kubelet.Joined,
		Targets:    observed.targets,
		IsRemoved:  observed.isRemoved,
		ListNeeded: p.checked.listNeeded,
	}.Check()...)
}

// runRuntimeCheck asks the container runtime about its files. The content of a restored file is not known.
func (p *progress) runRuntimeCheck(ctx context.Context) {
	r := judge.FinishedRuntime{Changed: []string{}}
	for _, c := range p.changed.Changes {
		switch {
		case !judge.MayRuntimeRead(c.File.Path) || c.Action == "keep":
			continue
		case c.Action == "restore":
			return
		case c.Changes():
			r.Changed = append(r.Changed, c.File.Path)
		}
		r.Files = append(r.Files, c.File)
	}
	for _, u := range p.changed.Units { // of a drop-in of the unit, which containerd does not read
		if u.Unit.Unit == "containerd.service" && len(u.Because) > 0 {
			r.Changed = nil
		}
	}
	runLimited(ctx, p, func() (struct{}, Findings) {
		return struct{}{}, Findings{Collector: r.AskRuntime(ctx, p.tape, p.finished)}
	})
}

// makePlan makes the plan from the results of the steps. Stages and edges are in site order.
func (p *progress) makePlan() *Plan {
	if p.tape != nil {
		p.tape.Seal()
	}

	plan := &Plan{
		Site:        p.site,
		Node:        p.rendered.node,
		Complete:    p.rendered.isDone && !p.hasErrors() && !p.eval.IsPartial(),
		Diagnostics: blame.PlaceAtValues(p.site, p.tape, p.Diags),
		Degraded:    p.Degraded,
		Previous:    p.decided.previous,
		OnCluster:   p.settings.onCluster,
		Group:       p.settings.group,
		Changed:     p.changed,
		Installed:   Installed{p.kubelet.KubeletAns, p.kubelet.accepts, p.dryRun, p.declares},
		Trace:       Trace{Tape: p.tape, Facts: p.gathered.Facts, Access: p.prepared.env.Access, Eval: p.eval},
	}
	if plan.Complete {
		plan.Hash = p.rendered.node.Hash()
	}

	for _, i := range p.site.Stages {
		isReport := func(s StageReport) bool {
			return s.Address == i.Addr()
		}
		if at := slices.IndexFunc(p.Stages, isReport); at >= 0 {
			plan.Stages = append(plan.Stages, p.Stages[at])
		}
		plan.Edges = append(plan.Edges, p.eval.Edges(i)...)
	}

	return plan
}

// findPlace returns the place of a diagnostic; the zero range where it has none.
func findPlace(d *hcl.Diagnostic) hcl.Range {
	if d.Subject == nil {
		return hcl.Range{}
	}

	return *d.Subject
}
