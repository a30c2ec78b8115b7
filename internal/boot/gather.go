package boot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// abandonAfter is how much longer than its deadline a gather stage may take before it is left behind: a read in
// uninterruptible sleep ends for nobody.
const abandonAfter = 250 * time.Millisecond

// Gathered is what gather stages brought.
type Gathered struct {
	eval        *eval.Eval           // with the outputs
	outputs     map[string]cty.Value // by address, with state
	failed       map[string]bool      // stages that failed for good, by address
	facts       *world.Facts
	trust       *world.TrustAns
	recommended map[string]map[string]string
}

// gatheredStage is what one of them brought.
type gatheredStage struct {
	output      cty.Value
	isFatal       bool
	givenUp       *hcl.Diagnostic // its evaluation was given up
	facts       *world.Facts
	trust       *world.TrustAns
	recommended map[string]map[string]string
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

// gather runs the gather stages, each in a goroutine that waits for those it needs and then takes a scope of its own
// with their outputs. What they found is merged once, in site order. With one whose evaluation is given up the run
// ends.
func gather(ctx context.Context, c Checked, p Prepared, tape *world.Tape, t runtimeEnv) (Gathered, Findings) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := gatherer{runtimeEnv: t, checked: c, eval: p.eval, env: p.env, tape: tape}

	running := map[string]*gatherTask{}
	for _, i := range c.site.Stages {
		if i.Spec.Phase == schema.Gather {
			running[i.Addr()] = &gatherTask{done: make(chan struct{})}
		}
	}
	var all sync.WaitGroup
	for _, i := range c.site.Stages {
		mine := running[i.Addr()]
		if mine == nil {
			continue
		}
		all.Go(func() {
			defer close(mine.done)
			mine.gatheredStage = g.runStage(ctx, i, waitFor(running, c.needs[i.Addr()]))
			if mine.givenUp != nil {
				stop()
			}
		})
	}
	all.Wait()

	return mergeGathered(c.site, p.eval, running)
}

// promised is what a stage will have brought when done is closed.
type gatherTask struct {
	done chan struct{}
	gatheredStage
}

// awaited are those of the gather stages that one needs, when they are over.
func waitFor(running map[string]*gatherTask, needs []string) map[string]gatheredStage {
	out := map[string]gatheredStage{}
	for _, addr := range needs {
		if p := running[addr]; p != nil {
			<-p.done
			out[addr] = p.gatheredStage
		}
	}

	return out
}

// mergeGathered lays what all brought together, in site order.
func mergeGathered(s *site.Site, e *eval.Eval, all map[string]*gatherTask) (Gathered, Findings) {
	out := Gathered{outputs: map[string]cty.Value{}, failed: map[string]bool{}}
	found := map[string]Findings{}
	for _, i := range s.Stages {
		g := all[i.Addr()]
		if g == nil {
			continue
		}
		if g.givenUp != nil {
			return Gathered{}, Findings{Diags: hcl.Diagnostics{g.givenUp}}
		}
		out.outputs[i.Addr()], found[i.Addr()] = g.output, g.Findings
		if g.isFatal {
			out.failed[i.Addr()] = true
		}
		if g.facts != nil {
			out.facts = g.facts
		}
		if g.recommended != nil {
			out.recommended = g.recommended
		}
		if g.trust != nil {
			out.trust = g.trust
		}
	}

	out.eval = e.With(out.outputs)

	return out, joinInOrder(s.Stages, found)
}

// stage is one gather stage, from the outputs of those that it needs. One that needs a stage that failed for good has
// failed too, without a message of its own.
func (g gatherer) runStage(ctx context.Context, i *site.Instance, needed map[string]gatheredStage) gatheredStage {
	outputs := map[string]cty.Value{}
	for addr, n := range needed {
		outputs[addr] = n.output
		if n.givenUp != nil {
			return gatheredStage{givenUp: n.givenUp}
		}
		if n.isFatal {
			return g.finishStage(i, stateFailed, nil, true)
		}
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

// called is what a stage brings that is to be called so.
func (g gatherer) runCalls(ctx context.Context, i *site.Instance, c stageCalls, failed bool) gatheredStage {
	switch {
	case failed:
		return g.finishStage(i, stateFailed, nil, false)
	case !c.isKnown: // a recording does not tell whether it is there
		return gatheredStage{output: value.Because(makeUnknownOutput(i, g.checked.types[i.Addr()]), c.unread)}
	case len(c.copies) == 0 && i.ForEach == nil:
		return g.finishStage(i, stateSkipped, nil, false)
	}
	g.event(Event{Stage: i.Addr(), State: "running"})

	return g.finishStage(i, stateOK, g.callCopies(ctx, i, c), false)
}

// calls are how a gather stage is called.
type stageCalls struct {
	isEvaluated bool // false: the evaluation was given up
	copies    []copyCall
	isKnown     bool     // false: nothing tells whether it is there
	unread    []string // for lack of which answers
	timeout   time.Duration
}

// callOf is the call of one copy.
type copyCall struct {
	key string
	cfg schema.Body
}

// callsOf evaluates the configuration of each copy of a gather stage.
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

// timeoutOf is how long a gather stage may take.
func decodeTimeout(i *site.Instance, e *eval.Eval) (time.Duration, Findings) {
	if i.Timeout == nil {
		return i.Spec.Timeout, Findings{}
	}
	attribute := schema.Block{Fields: []schema.Field{schema.Timeout}}
	b, diags := attribute.Decode(makeBody(schema.Timeout.Name, i.Timeout), nil, e.Scope(i.Addr()))
	d := i.Spec.Timeout
	if v := schema.Timeout.Of(b); v.Set() {
		d, _ = time.ParseDuration(v.V)
	}

	return d, Findings{Diags: diags, Unknown: findUnknown(b, partStages)}
}

// copyResult is one copy of a gather stage.
type copyResult struct {
	key   string
	out   stages.Output
	diags hcl.Diagnostics
	unread   []string // the questions without an answer that it is not known for
	took  time.Duration
}

// callAll calls all copies of a stage at the same time.
func (g gatherer) callCopies(ctx context.Context, i *site.Instance, c stageCalls) []copyResult {
	out := make([]copyResult, len(c.copies))
	var all sync.WaitGroup
	for n, one := range c.copies {
		all.Go(func() {
			started := g.now()
			r := callCopy(ctx, c.timeout, i, func(ctx context.Context) (stages.Output, hcl.Diagnostics) {
				return i.Stage.(stages.Gatherer).Gather(ctx, one.cfg, g.env, g.tape)
			})
			r.key, r.took = one.key, g.now().Sub(started)
			r.unread = slices.Concat(one.cfg.Unread(), value.Questions(r.out.Value))
			out[n] = r
		})
	}
	all.Wait()

	return out
}

// runCopy bounds one read: by its deadline, and by being left behind shortly after it. One that is left behind has a
// channel to itself.
func callCopy(ctx context.Context, timeout time.Duration, i *site.Instance,
	f func(context.Context) (stages.Output, hcl.Diagnostics)) copyResult {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	done := make(chan copyResult, 1)
	go func() {
		var r copyResult
		defer func() {
			if p := recover(); p != nil {
				r = copyResult{diags: hcl.Diagnostics{origin.Error(fault.Internal, i.Range, "Stage "+i.Addr()+" broke",
					"This is a fault of prelet: %v. Please report it with `prelet record`.", p)}}
			}
			done <- r
		}()
		r.out, r.diags = f(ctx)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r
	case <-time.After(abandonAfter):
		return copyResult{diags: hcl.Diagnostics{origin.Error(chooseTimeoutCode(i), i.Range, "Stage "+i.Addr()+" did not end",
			"It was given up: %s. Raise its timeout, or on_failure = \"continue\" to go on without it.", context.Cause(ctx))}}
	}
}

// givenUp is the code of a stage that did not end: what it waited for decides who mends it.
func chooseTimeoutCode(i *site.Instance) fault.Code {
	if i.Type == "detect-hw" || i.Body.Attributes["file"] != nil {
		return fault.HardwareFailed
	}

	return fault.ClusterUnreachable
}

// finish turns what the copies of a stage gave into its output, and its failure into what on_failure says.
func (g gatherer) finishStage(i *site.Instance, state string, copies []copyResult, blocked bool) gatheredStage {
	t := g.checked.types[i.Addr()]
	var out gatheredStage
	report := StageReport{i.Addr(), state, 0}
	values := map[string]cty.Value{}
	for _, c := range copies {
		s, d := stateOK, c.diags
		if d.HasErrors() {
			s, report.State = stateFailed, stateFailed
			if i.OnFailure == "continue" {
				d = toWarnings(d)
			}
		}
		values[c.key] = out.takeOutput(t, s, c)
		report.Took = max(report.Took, c.took)
		out.report(d...)
		out.degradeFor(d)
		g.event(Event{Stage: i.Addr(), State: report.State, Took: c.took})
	}

	switch {
	case i.ForEach != nil && state != stateFailed:
		out.output = makeObject(values)
	case len(copies) == 1:
		out.output = values[""]
	case state == stateFailed:
		out.output = makeFailedOutput(i, t)
	default:
		out.output = setState(value.Absent(t), state)
	}
	if len(copies) > 0 {
		out.Stages = []StageReport{report}
	} else if i.ForEach == nil || state == stateFailed {
		out.Stages = []StageReport{report}
		g.reportStages(out.Stages)
	}
	if report.State != stateFailed {
		return out
	}
	if out.isFatal = blocked || i.OnFailure != "continue"; !out.isFatal {
		out.degrade(fault.StageFailed, fmt.Sprintf("stage %s failed; its outputs are empty", i.Addr()))
	}

	return out
}

// take is the output of one copy, of which out keeps what is more than a value.
func (out *gatheredStage) takeOutput(t cty.Type, state string, c copyResult) cty.Value {
	if state != stateOK {
		return setState(value.Absent(t), state)
	}
	if c.out.Facts != nil {
		out.facts = c.out.Facts
	}
	if c.out.Recommended != nil {
		out.recommended = c.out.Recommended
	}
	if c.out.Trust != nil {
		out.trust = c.out.Trust
	}
	if len(c.out.Unread) > 0 {
		out.Unknown = out.Unknown.join(newUnknowns(c.out.Unread, partDetectors))
		if c.out.Facts == nil {
			out.Unknown = out.Unknown.join(newUnknowns(c.out.Unread, partFacts))
		}
	}
	if len(c.unread) == 0 || c.out.Facts != nil {
		return setState(c.out.Value, state)
	}
	out.Unknown = out.Unknown.join(newUnknowns(c.unread, partStages)) // who knows whether it was there

	return makeUnreadOutput(value.Because(c.out.Value, c.unread), c.unread)
}

func toWarnings(ds hcl.Diagnostics) hcl.Diagnostics {
	out := make(hcl.Diagnostics, len(ds))
	for n, d := range ds {
		c := *d
		c.Severity = hcl.DiagWarning
		out[n] = &c
	}

	return out
}
