package boot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// abandonAfter is how much longer than its deadline a gather stage may take before it is abandoned: a read in
// uninterruptible sleep never ends.
const abandonAfter = 250 * time.Millisecond

// Gathered is the result of gather: the outputs of gather stages, and what some of them have besides.
type Gathered struct {
	eval        *eval.Eval           // with the outputs
	outputs     map[string]cty.Value // by address, with state
	failed      map[string]bool      // stages that failed for good, by address
	facts       *world.Facts
	trust       *world.TrustAns
	recommended labelsByDetector
}

// gatheredStage is what one gather stage comes to.
type gatheredStage struct {
	output      cty.Value       // with state
	isFatal     bool            // failed for good: what needs it fails too
	givenUp     *hcl.Diagnostic // its evaluation was given up; the other fields are zero then
	facts       *world.Facts
	trust       *world.TrustAns
	recommended labelsByDetector
	Findings
}

// gatherer is what all gather stages work with.
type gatherer struct {
	runtimeEnv
	checked Checked
	eval    *eval.Eval // never evaluated in: each stage has a fork
	env     stages.Env
	tape    *world.Tape
}

// gather runs the gather stages in parallel: each in a goroutine that waits for the stages it needs and then
// evaluates in a scope of its own with their outputs. The findings are joined once, in site order.
//
// Inputs: the order and needs of stages, what prepare returned, the tape. Result: the outputs of all gather stages. A
// stage fails with an error of its configuration or of its read; with on_failure = "continue" that is a warning, and
// the boot is degraded. If the evaluation of one stage is given up, the run ends with that alone.
func gather(ctx context.Context, c Checked, p Prepared, tape *world.Tape, env runtimeEnv) (Gathered, Findings) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := gatherer{runtimeEnv: env, checked: c, eval: p.eval, env: p.env, tape: tape}

	tasks := map[string]*gatherTask{}
	for _, i := range c.site.Stages {
		if i.Spec.Phase == schema.Gather {
			tasks[i.Addr()] = &gatherTask{done: make(chan struct{})}
		}
	}

	var all sync.WaitGroup
	for _, i := range c.site.Stages {
		task := tasks[i.Addr()]
		if task == nil {
			continue
		}
		all.Go(func() {
			defer close(task.done)
			task.gatheredStage = g.runStage(ctx, i, waitFor(tasks, c.needs[i.Addr()]))
			if task.givenUp != nil {
				stop()
			}
		})
	}
	all.Wait()

	return mergeGathered(c.site, p.eval, tasks)
}

// gatherTask is a running gather stage. Its result may be read once done is closed.
type gatherTask struct {
	done chan struct{}
	gatheredStage
}

// waitFor waits for those of the tasks that are needed, and returns their results by address.
func waitFor(tasks map[string]*gatherTask, needs []string) map[string]gatheredStage {
	out := map[string]gatheredStage{}
	for _, addr := range needs {
		if task := tasks[addr]; task != nil {
			<-task.done
			out[addr] = task.gatheredStage
		}
	}

	return out
}

// mergeGathered joins the results of all stages, in site order.
func mergeGathered(s *site.Site, e *eval.Eval, tasks map[string]*gatherTask) (Gathered, Findings) {
	out := Gathered{outputs: map[string]cty.Value{}, failed: map[string]bool{}}
	var found Findings
	for _, i := range s.Stages {
		task := tasks[i.Addr()]
		if task == nil {
			continue
		}
		if task.givenUp != nil {
			return Gathered{}, Findings{Diags: hcl.Diagnostics{task.givenUp}}
		}

		found = found.join(task.Findings)
		out.outputs[i.Addr()] = task.output
		out.failed[i.Addr()] = task.isFatal
		out.facts = cmp.Or(task.facts, out.facts)
		out.trust = cmp.Or(task.trust, out.trust)
		if task.recommended != nil {
			out.recommended = task.recommended
		}
	}
	out.eval = e.With(out.outputs)

	return out, found
}

// runStage runs one gather stage with the results of those that it needs. A stage that needs one that failed for good
// fails without a message of its own.
func (g gatherer) runStage(ctx context.Context, i *site.Instance, needed map[string]gatheredStage) gatheredStage {
	outputs := map[string]cty.Value{}
	for addr, n := range needed {
		if n.givenUp != nil {
			return gatheredStage{givenUp: n.givenUp}
		}
		if n.isFatal {
			return g.endStage(i, stateFailed, true)
		}
		outputs[addr] = n.output
	}

	e := g.eval.Fork().With(outputs)
	calls, found := runStep(g.limits, func() (stageCalls, Findings) { return prepareCalls(i, e) })
	if !calls.isEvaluated {
		return gatheredStage{givenUp: found.Diags[0]}
	}

	out := g.runCalls(ctx, i, calls, found.Diags.HasErrors())
	out.Findings = found.join(out.Findings)

	return out
}

// runCalls runs the calls of a stage, if it has any.
func (g gatherer) runCalls(ctx context.Context, i *site.Instance, calls stageCalls, hasErrors bool) gatheredStage {
	switch {
	case hasErrors:
		return g.endStage(i, stateFailed, false)
	case !calls.isKnown:
		return gatheredStage{output: value.Because(makeUnknownOutput(i, g.checked.types[i.Addr()]), calls.unread)}
	case len(calls.copies) == 0 && i.ForEach == nil:
		return g.endStage(i, stateSkipped, false)
	}
	g.event(Event{Stage: i.Addr(), State: "running"})

	return g.finishStage(i, g.callCopies(ctx, i, calls))
}

// stageCalls says how a gather stage is called.
type stageCalls struct {
	isEvaluated bool // false: the evaluation was given up
	copies      []copyCall
	isKnown     bool     // false: a recording does not say whether the stage is there
	unread      []string // the questions that it is not known for
	timeout     time.Duration
}

// copyCall is the call of one copy.
type copyCall struct {
	key string
	cfg schema.Body
}

// prepareCalls evaluates the configuration of each copy of a gather stage.
func prepareCalls(i *site.Instance, e *eval.Eval) (stageCalls, Findings) {
	copies, diags := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	out := stageCalls{isEvaluated: true, isKnown: copies.Known, unread: copies.Unread}
	found := Findings{Diags: diags}
	if !copies.Known {
		found.Unknown = newUnknowns(copies.Unread, partStages)
		return out, found
	}
	if diags.HasErrors() || len(copies.All) == 0 && i.ForEach == nil {
		return out, found
	}

	timeout, more := decodeTimeout(i, e)
	out.timeout, found = timeout, found.join(more)
	for _, c := range copies.All {
		cfg, d := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
		cfg.Key = c.Key
		out.copies = append(out.copies, copyCall{c.Key, cfg})
		found = found.join(Findings{Diags: d, Unknown: findUnknown(cfg, partStages)})
	}

	return out, found
}

// decodeTimeout returns how long a gather stage may take; 0: as long as the run.
func decodeTimeout(i *site.Instance, e *eval.Eval) (time.Duration, Findings) {
	if i.Timeout == nil {
		return i.Spec.Timeout, Findings{}
	}

	attribute := schema.Block{Fields: []schema.Field{schema.Timeout}}
	b, diags := attribute.Decode(makeBody(schema.Timeout.Name, i.Timeout), nil, e.Scope(i.Addr()))
	timeout := i.Spec.Timeout
	if v := schema.Timeout.Of(b); v.Set() {
		timeout, _ = time.ParseDuration(v.V)
	}

	return timeout, Findings{Diags: diags, Unknown: findUnknown(b, partStages)}
}

// copyResult is the result of one copy of a gather stage.
type copyResult struct {
	key    string
	out    stages.Output
	diags  hcl.Diagnostics
	unread []string // the questions without an answer that it is not known for
	took   time.Duration
}

// callCopies calls all copies of a stage in parallel. Results are in the order of the calls.
func (g gatherer) callCopies(ctx context.Context, i *site.Instance, calls stageCalls) []copyResult {
	out := make([]copyResult, len(calls.copies))
	var all sync.WaitGroup
	for n, c := range calls.copies {
		all.Go(func() {
			started := g.now()
			r := g.callCopy(ctx, calls.timeout, i, c.cfg)
			r.key, r.took = c.key, g.now().Sub(started)
			r.unread = slices.Concat(c.cfg.Unread(), value.Questions(r.out.Value))
			out[n] = r
		})
	}
	all.Wait()

	return out
}

// callCopy calls one copy. It returns at the latest abandonAfter after the deadline, also if the call does not end: an
// abandoned call sends its result to a channel that nobody reads.
func (g gatherer) callCopy(ctx context.Context, timeout time.Duration, i *site.Instance, cfg schema.Body) copyResult {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	done := make(chan copyResult, 1)
	go func() { done <- g.callGatherer(ctx, i, cfg) }()

	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r
	case <-time.After(abandonAfter):
	}

	return copyResult{diags: hcl.Diagnostics{origin.Error(chooseTimeoutCode(i), i.Range,
		"Stage "+i.Addr()+" did not end",
		"It was given up: %s. Raise its timeout, or on_failure = \"continue\" to go on without it.", context.Cause(ctx))}}
}

// callGatherer calls the code of a stage. A panic becomes an error.
func (g gatherer) callGatherer(ctx context.Context, i *site.Instance, cfg schema.Body) (r copyResult) {
	defer func() {
		if p := recover(); p != nil {
			r = copyResult{diags: hcl.Diagnostics{origin.Error(fault.Internal, i.Range, "Stage "+i.Addr()+" broke",
				"This is a fault of prelet: %v. Please report it with `prelet record`.", p)}}
		}
	}()
	r.out, r.diags = i.Stage.(stages.Gatherer).Gather(ctx, cfg, g.env, g.tape)

	return r
}

// chooseTimeoutCode returns the code of a stage that did not end: it depends on what the stage waited for who can fix
// it.
func chooseTimeoutCode(i *site.Instance) fault.Code {
	if i.Type == "detect-hw" || i.Body.Attributes["file"] != nil {
		return fault.HardwareFailed
	}

	return fault.ClusterUnreachable
}

// endStage ends a stage of which no copy was called: skipped, or failed. isBlocked: a stage that it needs failed for
// good.
func (g gatherer) endStage(i *site.Instance, state string, isBlocked bool) gatheredStage {
	t := g.checked.types[i.Addr()]
	out := gatheredStage{output: setState(value.Absent(t), state)}
	if state == stateFailed {
		out.output = makeFailedOutput(i, t)
		out.fail(i, isBlocked)
	}
	out.Stages = []StageReport{{i.Addr(), state, 0}}
	g.reportStages(out.Stages)

	return out
}

// finishStage makes the output of a stage of the results of its copies.
func (g gatherer) finishStage(i *site.Instance, copies []copyResult) gatheredStage {
	t := g.checked.types[i.Addr()]
	report := StageReport{Address: i.Addr(), State: stateOK}
	outputs := map[string]cty.Value{}
	var out gatheredStage
	for _, c := range copies {
		diags := c.diags
		if c.diags.HasErrors() {
			report.State = stateFailed
			outputs[c.key] = setState(value.Absent(t), stateFailed)
			diags = softenFailure(i, diags)
		} else {
			outputs[c.key] = out.takeOutput(c)
		}
		report.Took = max(report.Took, c.took)
		out.report(diags...)
		out.degradeFor(diags)
		g.event(Event{Stage: i.Addr(), State: report.State, Took: c.took})
	}

	out.output = outputs[""]
	if i.ForEach != nil {
		out.output = makeObject(outputs)
	}
	if len(copies) > 0 {
		out.Stages = []StageReport{report}
	}
	if report.State == stateFailed {
		out.fail(i, false)
	}

	return out
}

// fail notes that a stage failed: for good, or with on_failure = "continue" the boot is degraded.
func (out *gatheredStage) fail(i *site.Instance, isBlocked bool) {
	if isBlocked || i.OnFailure != "continue" {
		out.isFatal = true
		return
	}
	out.degrade(fault.StageFailed, fmt.Sprintf("stage %s failed; its outputs are empty", i.Addr()))
}

// takeOutput returns the output of a copy that succeeded, and keeps what it has besides. A copy that depends on missing
// answers might have failed, so its output is unknown.
func (out *gatheredStage) takeOutput(c copyResult) cty.Value {
	out.facts = cmp.Or(c.out.Facts, out.facts)
	out.trust = cmp.Or(c.out.Trust, out.trust)
	if c.out.Recommended != nil {
		out.recommended = c.out.Recommended
	}
	if len(c.out.Unread) > 0 {
		out.Unknown = out.Unknown.join(newUnknowns(c.out.Unread, partDetectors))
		if c.out.Facts == nil {
			out.Unknown = out.Unknown.join(newUnknowns(c.out.Unread, partFacts))
		}
	}
	if len(c.unread) == 0 || c.out.Facts != nil {
		return setState(c.out.Value, stateOK)
	}
	out.Unknown = out.Unknown.join(newUnknowns(c.unread, partStages))

	return makeUnreadOutput(value.Because(c.out.Value, c.unread), c.unread)
}

// softenFailure returns the diagnostics of a copy that failed: with on_failure = "continue", errors are warnings.
func softenFailure(i *site.Instance, ds hcl.Diagnostics) hcl.Diagnostics {
	if i.OnFailure != "continue" {
		return ds
	}

	out := make(hcl.Diagnostics, len(ds))
	for n, d := range ds {
		soft := *d
		soft.Severity = hcl.DiagWarning
		out[n] = &soft
	}

	return out
}
