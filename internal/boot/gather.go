package boot

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// The states of a stage, as sites see them in `state`.
const (
	stateOK      = "ok"
	stateSkipped = "skipped"
	stateFailed  = "failed"
)

// abandonAfter is how much longer than its deadline a gather stage may take before it is left behind: a read in
// uninterruptible sleep ends for nobody.
const abandonAfter = 250 * time.Millisecond

// copyResult is one copy of a gather stage.
type copyResult struct {
	key   string
	out   stages.Output
	diags hcl.Diagnostics
	took  time.Duration
}

type gathered struct {
	inst   *site.Instance
	copies []copyResult
}

// gather runs the gather stages, each as soon as those that it needs are over, all others beside it. Evaluation
// stays on this goroutine; only reads run elsewhere. Results and messages come out in site order.
func (r *run) gather(ctx context.Context) {
	waiting := map[string]*site.Instance{}
	for _, i := range r.site.Stages {
		if i.Spec.Phase == schema.Gather {
			waiting[i.Addr()] = i
		}
	}
	over := map[string]bool{}
	results := make(chan gathered, len(r.site.Stages)) // nobody waits for one that is left behind
	running := 0
	diags, degraded := map[string]hcl.Diagnostics{}, map[string][]Degraded{}
	before := r.degraded
	end := func(i *site.Instance, state string, copies []copyResult) {
		over[i.Addr()] = true
		r.degraded = nil
		d := r.finish(i, state, copies)
		diags[i.Addr()] = append(diags[i.Addr()], d...)
		degraded[i.Addr()] = r.degraded
	}
	for len(waiting) > 0 || running > 0 {
		for _, i := range r.site.Stages {
			if waiting[i.Addr()] == nil || !r.ready(i, over) {
				continue
			}
			delete(waiting, i.Addr())
			if r.blocked(i) {
				end(i, stateFailed, nil)
				continue
			}
			var calls []call
			var skipped bool
			var d hcl.Diagnostics
			c := *r // one that is given up still reads it
			if limit := r.dog.watch(func() { calls, skipped, d = c.prepare(ctx, i) }); limit != nil {
				r.giveUp(limit) // reads that run are left behind
				return
			}
			diags[i.Addr()] = append(diags[i.Addr()], d...)
			switch {
			case d.HasErrors():
				end(i, stateFailed, nil)
			case skipped:
				end(i, stateSkipped, nil)
			case calls == nil && len(unreadOf(d)) > 0: // a recording does not tell whether it is there
				over[i.Addr()] = true
				r.e.SetOutput(i.Addr(), markUnread(unknownOutput(i, r.types[i.Addr()]), unreadOf(d)))
			default:
				running++
				r.event(i.Addr(), "running", "")
				go func() { results <- gathered{i, callAll(calls)} }()
			}
		}
		if running > 0 {
			g := <-results
			running--
			end(g.inst, stateOK, g.copies)
		} else if len(waiting) > 0 && !r.anyReady(waiting, over) {
			break // cycles are refused before
		}
	}
	r.degraded = before
	for _, i := range r.site.Stages {
		r.diags = append(r.diags, diags[i.Addr()]...)
		r.degraded = append(r.degraded, degraded[i.Addr()]...)
	}
}

func (r *run) anyReady(waiting map[string]*site.Instance, over map[string]bool) bool {
	for _, i := range waiting {
		if r.ready(i, over) {
			return true
		}
	}
	return false
}

func (r *run) ready(i *site.Instance, over map[string]bool) bool {
	for _, n := range r.needs[i.Addr()] {
		if s := r.site.Stage(n); s != nil && s.Spec.Phase == schema.Gather && !over[n] {
			return false
		}
	}
	return true
}

// blocked says whether a stage needs one that failed for good. It is failed too, without a message of its own.
func (r *run) blocked(i *site.Instance) bool {
	for _, n := range r.needs[i.Addr()] {
		if r.fatal[n] {
			r.fatal[i.Addr()] = true
			return true
		}
	}
	return false
}

type call func() copyResult

func callAll(calls []call) []copyResult {
	out := make([]copyResult, len(calls))
	done := make(chan struct{}, len(calls))
	for n, c := range calls {
		go func() { out[n] = c(); done <- struct{}{} }()
	}
	for range calls {
		<-done
	}
	return out
}

// prepare evaluates the configuration of each copy of a gather stage, and says how to run it.
func (r *run) prepare(ctx context.Context, i *site.Instance) (calls []call, skipped bool, diags hcl.Diagnostics) {
	copies, known, diags := r.e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	if diags.HasErrors() {
		return nil, false, diags
	}
	if !known && !r.e.Checking() {
		return nil, false, diags
	}
	if len(copies) == 0 && i.ForEach == nil {
		return nil, true, diags
	}
	g := i.Stage.(stages.Gatherer)
	timeout, d := r.timeout(i)
	diags = append(diags, d...)
	for _, c := range copies {
		cfg, d := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
		diags = append(diags, d...)
		cfg.Key = c.Key
		calls = append(calls, func() copyResult {
			started := r.now()
			res := runCopy(ctx, timeout, i, func(ctx context.Context) (stages.Output, hcl.Diagnostics) {
				return g.Gather(ctx, cfg, r.env, r.tape)
			})
			res.key, res.took = c.Key, r.now().Sub(started)
			return res
		})
	}
	return calls, false, diags
}

func (r *run) timeout(i *site.Instance) (time.Duration, hcl.Diagnostics) {
	d := i.Spec.Timeout
	if i.Timeout == nil {
		return d, nil
	}
	body, diags := schema.Block{Fields: []schema.Field{schema.Timeout}}.Decode(attributeBody("timeout", i.Timeout), nil, r.e.Scope(i.Addr()))
	if v := schema.Timeout.Of(body); v.Set() {
		d, _ = time.ParseDuration(v.V)
	}
	return d, diags
}

// runCopy bounds one read: by its deadline, and by being left behind shortly after it.
func runCopy(ctx context.Context, timeout time.Duration, i *site.Instance, f func(context.Context) (stages.Output, hcl.Diagnostics)) copyResult {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	done := make(chan copyResult, 1)
	go func() {
		var res copyResult
		defer func() {
			if p := recover(); p != nil {
				res = copyResult{diags: hcl.Diagnostics{origin.Error(fault.Internal, i.Range, "Stage "+i.Addr()+" broke", "This is a fault of prelet: %v. Please report it with `prelet record`.", p)}}
			}
			done <- res
		}()
		res.out, res.diags = f(ctx)
	}()
	select {
	case res := <-done:
		return res
	case <-ctx.Done():
	}
	select {
	case res := <-done:
		return res
	case <-time.After(abandonAfter):
		return copyResult{diags: hcl.Diagnostics{origin.Error(givenUp(i), i.Range, "Stage "+i.Addr()+" did not end", "It was given up: %s. Raise its timeout, or on_failure = \"continue\" to go on without it.", context.Cause(ctx))}}
	}
}

// givenUp is the code of a stage that did not end: what it waited for decides who mends it.
func givenUp(i *site.Instance) fault.Code {
	if i.Type == "detect-hw" || i.Body.Attributes["file"] != nil {
		return fault.HardwareFailed
	}
	return fault.ClusterUnreachable
}

// finish turns what the copies of a stage gave into its output, and its failure into what on_failure says.
func (r *run) finish(i *site.Instance, state string, copies []copyResult) hcl.Diagnostics {
	t := r.types[i.Addr()]
	var diags hcl.Diagnostics
	values := map[string]cty.Value{}
	failed := state == stateFailed
	for _, c := range copies {
		s := state
		d := c.diags
		if d.HasErrors() {
			s, failed = stateFailed, true
			if i.OnFailure == "continue" {
				d = asWarnings(d)
			}
		}
		v := value.Absent(t)
		if s == stateOK {
			v = markUnread(c.out.Value, unreadOf(d))
			if i.Type == "detect-hw" {
				r.unread.detectors = unreadOf(d)
				if c.out.Facts == nil {
					r.unread.facts = r.unread.detectors
				}
			}
			if c.out.Facts != nil {
				r.facts = c.out.Facts
			}
			if c.out.Recommended != nil {
				r.recommended = c.out.Recommended
			}
			if c.out.Trust != nil {
				r.trust = c.out.Trust
			}
		}
		values[c.key] = withState(v, s)
		if qs := unreadOf(d); len(qs) > 0 && c.out.Facts == nil { // who knows whether it was there
			values[c.key] = markUnread(withUnknownState(v), qs)
		}
		diags = append(diags, d...)
		r.degradedBy(d)
		r.took(i.Addr(), s, c.took)
	}
	switch {
	case i.ForEach != nil && state != stateFailed:
		r.e.SetOutput(i.Addr(), keyed(values))
	case len(copies) == 1:
		r.e.SetOutput(i.Addr(), values[""])
	default:
		out := withState(value.Absent(t), state)
		if state == stateFailed {
			out = failedOutput(i, t)
		}
		r.e.SetOutput(i.Addr(), out)
		r.took(i.Addr(), state, 0)
	}
	if failed {
		if i.OnFailure == "continue" && !r.fatal[i.Addr()] {
			r.degrade(fault.StageFailed, fmt.Sprintf("stage %s failed; its outputs are empty", i.Addr()))
		} else {
			r.fatal[i.Addr()] = true
		}
	}
	return diags
}

// degradedBy notes the warnings of gatherers that mean less than the site wants.
func (r *run) degradedBy(ds hcl.Diagnostics) {
	for _, d := range ds {
		switch c := origin.CodeOf(d); {
		case d.Severity != hcl.DiagWarning, origin.IsNote(d):
		case c == fault.DetectorDegraded, c == fault.HardwareDegraded, c == fault.Stale:
			r.degrade(c, d.Summary)
		}
	}
}

func keyed(m map[string]cty.Value) cty.Value {
	if len(m) == 0 {
		return cty.EmptyObjectVal
	}
	return cty.ObjectVal(m)
}

// withState adds the attribute that every stage has.
func withState(v cty.Value, state string) cty.Value {
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["state"] = cty.StringVal(state)
	return cty.ObjectVal(m)
}

// withUnknownState is for a stage that may be ok or failed.
func withUnknownState(v cty.Value) cty.Value {
	m := withState(v, "").AsValueMap()
	m["state"] = cty.UnknownVal(cty.String)
	return cty.ObjectVal(m)
}

// unknownOutput is an output whose attributes are all unknown, state too.
func unknownOutput(i *site.Instance, t cty.Type) cty.Value {
	v := value.UnknownOutput(t)
	m := map[string]cty.Value{"state": cty.UnknownVal(cty.String)}
	for k := range t.AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	obj := cty.ObjectVal(m)
	if i.ForEach == nil {
		return obj
	}
	if obj.Type().HasDynamicTypes() {
		return cty.DynamicVal
	}
	return cty.UnknownVal(cty.Map(obj.Type()))
}

func asWarnings(ds hcl.Diagnostics) hcl.Diagnostics {
	out := make(hcl.Diagnostics, len(ds))
	for n, d := range ds {
		c := *d
		c.Severity = hcl.DiagWarning
		out[n] = &c
	}
	return out
}
