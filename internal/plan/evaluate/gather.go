package evaluate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// abandonAfter is how much longer than its deadline a gather stage may take before it is abandoned: a read in
// uninterruptible sleep never ends.
const abandonAfter = 250 * time.Millisecond

// Gathered is the result of gather: the scope with the outputs of gather stages, and the facts that some of them
// read.
type Gathered struct {
	eval   *eval.Eval
	failed map[string]bool // stages without an output, by address
	stages.Readings
}

type gatheredStage struct {
	output    cty.Value       // with state
	isFatal   bool            // failed, and so do the stages that need it
	abandoned *hcl.Diagnostic // its evaluation was abandoned; the other fields are zero then
	stages.Readings
	Findings
}

// gatherer is the input of all gather stages.
type gatherer struct {
	runtimeEnv
	checked Checked
	eval    *eval.Eval // each stage evaluates in a fork of it
	env     stages.Env
	tape    *tape.Tape
}

// gather runs the gather stages in parallel. Each has a goroutine that waits for the stages it needs and evaluates
// in its own scope, which contains their outputs. The findings are joined once, in site order.
//
// Inputs: the order and needs of stages, what prepare returned, the tape. Result: the outputs of all gather stages.
// A stage fails with an error of its configuration or of its read; with on_failure = "continue" that is a warning,
// and the boot is degraded. If the evaluation of one stage is abandoned, the run ends with that error only. only are
// the stages that run, nil: all.
func gather(
	ctx context.Context,
	c Checked,
	p Prepared,
	answers *tape.Tape,
	env runtimeEnv,
	only map[string]bool,
) (Gathered, Findings) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := gatherer{
		runtimeEnv: env,
		checked:    c,
		eval:       p.eval,
		env:        p.env,
		tape:       answers,
	}

	tasks := map[string]*gatherTask{}
	for _, i := range c.site.Stages {
		if i.Spec.Phase == schema.Gather && (only == nil || only[i.Addr()]) {
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
			awaitNeeds := waitFor(tasks, c.needs[i.Addr()])
			task.gatheredStage = g.runStage(ctx, i, awaitNeeds)
			if task.abandoned != nil {
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

// waitFor waits for the needed tasks, and returns their results by address.
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
func mergeGathered(
	s *lang.Site,
	e *eval.Eval,
	tasks map[string]*gatherTask,
) (Gathered, Findings) {
	out := Gathered{failed: map[string]bool{}}
	outputs := map[string]cty.Value{}
	var found Findings

	for _, i := range s.Stages {
		task := tasks[i.Addr()]
		if task == nil {
			continue
		}
		if task.abandoned != nil {
			return Gathered{}, newFindings(task.abandoned)
		}

		found.add(task.Findings)
		outputs[i.Addr()] = task.output
		out.failed[i.Addr()] = task.isFatal
		out.Take(task.Readings)
	}
	out.eval = e.With(outputs)

	return out, found
}

// runStage runs one gather stage with the results of the stages that it needs. If one of these failed, it fails
// too, without a message of its own.
func (g gatherer) runStage(
	ctx context.Context,
	i *lang.Instance,
	needed map[string]gatheredStage,
) gatheredStage {
	outputs := map[string]cty.Value{}
	for addr, n := range needed {
		if n.abandoned != nil {
			return gatheredStage{abandoned: n.abandoned}
		}
		if n.isFatal {
			return g.endStage(i, stateFailed, true)
		}
		outputs[addr] = n.output
	}

	e := g.eval.Fork().With(outputs)
	calls, found := runStep(ctx, g.limits, func() (stageCalls, Findings) {
		return prepareCalls(i, e)
	})
	switch {
	case !calls.isEvaluated && ctx.Err() != nil:
		return g.endStage(i, stateFailed, true)
	case !calls.isEvaluated:
		return gatheredStage{abandoned: found.Diags[0]}
	}

	var out gatheredStage
	switch {
	case found.Diags.HasErrors():
		out = g.endStage(i, stateFailed, false)
	case !calls.isKnown:
		out.output = makeUnknownOutput(i, g.checked.types[i.Addr()])
	case len(calls.copies) == 0 && i.ForEach == nil:
		out = g.endStage(i, stateSkipped, false)
	default:
		g.event(StageReport{Address: i.Addr(), State: "running"})
		out = g.finishStage(i, g.callCopies(ctx, i, calls))
	}
	out.Findings = found.join(out.Findings)

	return out
}

type stageCalls struct {
	isEvaluated bool // false: the evaluation was abandoned
	copies      []copyCall
	isKnown     bool // whether the stage runs; false only in a partial run
	timeout     time.Duration
}

type copyCall struct {
	key string
	cfg schema.Body
}

// prepareCalls evaluates the configuration of each copy of a gather stage.
func prepareCalls(i *lang.Instance, e *eval.Eval) (stageCalls, Findings) {
	copies, diags := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	out := stageCalls{
		isEvaluated: true,
		isKnown:     copies.Known,
	}
	found := newFindings(diags...)
	if !copies.Known {
		return out, found
	}
	if diags.HasErrors() || len(copies.All) == 0 && i.ForEach == nil {
		return out, found
	}

	timeout, more := decodeTimeout(i, e)
	out.timeout = timeout
	found.add(more)
	for _, c := range copies.All {
		cfg, d := decodeStage(i, c.Scope)
		out.copies = append(out.copies, copyCall{c.Key, cfg})
		found.Report(d...)
	}

	return out, found
}

// decodeTimeout returns how long a gather stage may take; 0: as long as the run.
func decodeTimeout(i *lang.Instance, e *eval.Eval) (time.Duration, Findings) {
	if i.Timeout == nil {
		return i.Spec.Timeout, Findings{}
	}

	v, diags := schema.Timeout.Decode(i.Timeout, e.Scope(i.Addr()))
	timeout := i.Spec.Timeout
	if v.Set() {
		timeout = schema.ParseDuration(v)
	}

	return timeout, newFindings(diags...)
}

// copyResult is the result of one copy of a gather stage.
type copyResult struct {
	key   string
	out   stages.Output
	diags hcl.Diagnostics
	took  time.Duration
}

// callCopies calls all copies of a stage in parallel. Results are in the order of the calls.
func (g gatherer) callCopies(
	ctx context.Context,
	i *lang.Instance,
	calls stageCalls,
) []copyResult {
	out := make([]copyResult, len(calls.copies))
	var all sync.WaitGroup
	for n, c := range calls.copies {
		all.Go(func() {
			started := g.now()
			r := g.callCopy(ctx, calls.timeout, i, c.cfg)
			r.key = c.key
			r.took = g.now().Sub(started)
			out[n] = r
		})
	}
	all.Wait()

	return out
}

// callCopy calls one copy. It returns at the latest abandonAfter after the deadline, even if the call does not end:
// the result of an abandoned call is never received.
func (g gatherer) callCopy(
	ctx context.Context,
	timeout time.Duration,
	i *lang.Instance,
	cfg schema.Body,
) copyResult {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}

	done := make(chan copyResult, 1)
	go func() {
		done <- g.callGatherer(ctx, i, cfg)
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
	}

	return copyResult{diags: hcl.Diagnostics{origin.Error(
		chooseTimeoutCode(i), i.Range, "Timed out waiting for stage "+i.Addr(),
		"It was abandoned: %s. Raise its timeout, or write on_failure = \"continue\" to boot without it.",
		context.Cause(ctx),
	)}}
}

// callGatherer calls the code of a stage. A panic becomes an error.
func (g gatherer) callGatherer(
	ctx context.Context, i *lang.Instance, cfg schema.Body,
) (r copyResult) {
	defer func() {
		if panicked := recover(); panicked != nil {
			d := limit.ReportPanic(i.Range, "Stage "+i.Addr()+" failed in prelet itself", panicked)
			r = copyResult{diags: hcl.Diagnostics{d}}
		}
	}()
	stage := i.Stage.(stages.Gatherer)
	ctx = tape.WithStage(ctx, i.Addr())
	r.out, r.diags = stage.Gather(ctx, cfg, g.env, g.tape)
	if g.eval.IsPartial() && origin.Code(r.diags) == fault.Unread {
		r.out = stages.Output{Value: value.UnknownOutput(g.checked.types[i.Addr()])}
		r.diags = nil
	}

	return r
}

// chooseTimeoutCode returns the code of a stage that timed out; fetch-config may read a file of the node.
func chooseTimeoutCode(i *lang.Instance) fault.Code {
	if i.Body.Attributes["file"] != nil {
		return fault.HardwareFailed
	}

	return i.Spec.TimeoutCode
}

// endStage ends a stage of which no copy was called: skipped or failed. isBlocked: a stage that it needs failed.
func (g gatherer) endStage(i *lang.Instance, state string, isBlocked bool) gatheredStage {
	t := g.checked.types[i.Addr()]
	out := gatheredStage{output: makeAbsentOutput(i, t, state)}
	if state == stateFailed {
		out.fail(i, isBlocked)
	}
	out.Stages = []StageReport{{i.Addr(), state, 0}}
	g.reportStages(out.Stages)

	return out
}

// finishStage makes the output of a stage from the results of its copies.
func (g gatherer) finishStage(i *lang.Instance, copies []copyResult) gatheredStage {
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
			outputs[c.key] = setState(c.out.Value, stateOK)
			out.Take(c.out.Readings)
		}
		report.Took = max(report.Took, c.took)
		out.Report(diags...)
		out.degradeFor(diags)
		g.event(StageReport{i.Addr(), report.State, c.took})
	}

	out.output = combineOutputs(i, t, outputs)
	if len(copies) > 0 {
		out.Stages = []StageReport{report}
	}
	if report.State == stateFailed {
		out.fail(i, false)
	}

	return out
}

// fail marks a stage as failed; with on_failure = "continue" the boot is degraded instead.
func (out *gatheredStage) fail(i *lang.Instance, isBlocked bool) {
	if isBlocked || i.OnFailure != "continue" {
		out.isFatal = true
		return
	}
	out.Degrade(fault.StageFailed, fmt.Sprintf("stage %s failed; its outputs are empty", i.Addr()))
}

// softenFailure returns the diagnostics of a copy that failed: with on_failure = "continue", errors are warnings, but
// for an answer that the recording does not contain.
func softenFailure(i *lang.Instance, ds hcl.Diagnostics) hcl.Diagnostics {
	if i.OnFailure != "continue" || origin.Code(ds) == fault.Unread {
		return ds
	}

	return makeWarnings(ds)
}

// Kubelet is the installed kubelet.
type Kubelet struct {
	tape.KubeletAns
	accepts *tape.AcceptsAns // nil: the binary was not asked, or did not answer
}

// askKubelet asks about the installed kubelet in the background, and returns a function that waits for the answers.
// They are needed after the gather step, and they may take as long as a start of the kubelet's binary.
func askKubelet(ctx context.Context, answers *tape.Tape) (wait func() (Kubelet, Findings)) {
	if answers == nil {
		return func() (Kubelet, Findings) {
			return Kubelet{}, Findings{}
		}
	}

	var asked sync.WaitGroup
	for _, q := range []tape.Question{
		tape.Kubelet.Question(tape.KubeletReq{}),
		tape.Accepts.Question(tape.AcceptsReq{}),
	} {
		asked.Go(func() {
			defer func() {
				_ = recover()
			}() // the tape repeats the panic to the next caller
			answers.Ask(ctx, q)
		})
	}

	return func() (Kubelet, Findings) {
		asked.Wait()
		// The answers are on the tape, even if the deadline has passed in the meantime.
		return readKubelet(context.WithoutCancel(ctx), answers)
	}
}

// readKubelet takes the answers from the tape. If the kubelet's state could not be read, the boot is degraded.
func readKubelet(ctx context.Context, answers *tape.Tape) (Kubelet, Findings) {
	var found Findings
	k, ans, err := tape.Kubelet.Ask(ctx, answers, tape.KubeletReq{})
	switch {
	case ans.Code() == fault.Unread:
		found.Report(origin.NotRead(hcl.Range{}, "the kubelet's version"))
	case ans.Code() == fault.Denied:
		found.Report(origin.MayNotRead(hcl.Range{}, "whether this node has joined", ans.Why()))
	case err != nil:
		found.Degrade(fault.Systemd, "the installed kubelet could not be read: "+strings.TrimSuffix(ans.Why(), "."))
	}

	if k.VersionWhy != "" {
		const summary = "Some checks of the kubelet were not made"
		reason := k.VersionWhy + ". What depends on its version was not checked: which fields and feature gates it " +
			"has, and rules that only some versions have. Without an answer to --help, neither were its flags"
		found.Degrade(fault.KubeletMachine, "the kubelet's version is not known: "+k.VersionWhy)
		found.Warn(
			fault.KubeletMachine, hcl.Range{}, summary, "%s", stages.Sentence(reason,
				"Start it by hand. If that works, a setting of prelet.service prevents it at a boot"),
		)
	}

	if i := k.Identity; i != nil && i.Loose != "" {
		const summary = "Others may change this node's identity"
		reason := i.Loose + ". The kubelet uses it unchanged; prelet does not use it to ask a cluster"
		found.Degrade(fault.ClusterUntrusted, summary)
		found.Warn(
			fault.ClusterUntrusted, hcl.Range{}, summary, "%s", stages.Sentence(reason, i.Fix),
		)
	}

	out := Kubelet{KubeletAns: k}
	a, _, err := tape.Accepts.Ask(ctx, answers, tape.AcceptsReq{})
	if err == nil { // else the tables answer for its version
		out.accepts = &a
	}

	return out, found
}
