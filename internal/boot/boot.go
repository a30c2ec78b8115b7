// Package boot is the function (site, world) → node, and the only place that knows all of its steps: gather,
// decide, render, observe, diff. It reads through one tape, and writes nothing. Read it first.
package boot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Options are what a run has beside its site.
type Options struct {
	Source world.Source     // live adapters or a recording; Run puts a tape before it
	Now    func() time.Time // for durations of stages only; no answer depends on it
	Event  func(Event)      // progress; nil: none
	// Locks answers what is known of detectors where there is no Source (a check); nil: nothing is known of any.
	Locks world.Source
	// FallBack makes what may replace an answer that failed by one of the last good generation, not older than the
	// site's max_age (see world.Tape); nil where there is none.
	FallBack func(maxAge time.Duration) func(world.Question, world.Answer) (world.Answer, bool)
}

// Event is one step of progress.
type Event struct {
	Stage, State, Summary string
	Took                  time.Duration
}

// Plan is what came out. Nothing has been written.
type Plan struct {
	Site        *site.Site
	Node        node.Node
	Hash        string // "" unless Complete
	Complete    bool
	Diagnostics hcl.Diagnostics
	Degraded    []Degraded
	Unread      []Unread
	Changes     []Change
	Unjudged    []string // targets of which it cannot be told what becomes of them: what that depends on is unread; sorted
	Restart     Restart
	Kubelet     world.KubeletAns
	Aside       *Aside            // an identity that is set aside; nil: none
	Accepts     *world.AcceptsAns // nil: the binary was not asked, or did not tell
	Facts       *world.Facts
	Access      world.Access
	Stages      []StageReport
	Edges       []eval.Edge
	Tape        *world.Tape
	Eval        *eval.Eval    // for explain and test: the scope as it was at the end
	OnCluster   string        // last-good | fail
	MaxAge      time.Duration // of a last good answer
}

// Degraded is one thing that is not as the site wants it, though the boot goes on.
type Degraded struct {
	Code    fault.Code `json:"code"`
	Summary string     `json:"summary"`
}

// Unread is one place that depends on what a recording was never asked.
type Unread struct {
	Where    string `json:"where"`
	Question string `json:"question"`
}

// StageReport is how one stage went.
type StageReport struct {
	Address string        `json:"address"`
	State   string        `json:"state"`
	Took    time.Duration `json:"-"`
}

// Run evaluates a site over a world, up to the difference between what is and what shall be. The plan is there
// on failure too, as far as it came. Where ctx was cancelled, and did not only run out, that alone is told: what failed
// with it says nothing of the machine or of the cluster.
func Run(ctx context.Context, s *site.Site, o Options) *Plan {
	p := newRun(ctx, s, o).all(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		p.Complete, p.Hash = false, ""
		p.Diagnostics = hcl.Diagnostics{origin.Error(fault.Interrupted, hcl.Range{}, "Stopped by a signal",
			"Why: %s.\nNothing was changed. The next run begins anew.", context.Cause(ctx))}
	}
	return p
}

// all does one step after the other, until one has an error.
func (r *run) all(ctx context.Context) *Plan {
	if r.bounded((*run).static); r.diags.HasErrors() {
		return r.plan()
	}
	deadline := r.settings()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if r.bounded(func(r *run) { r.open(ctx) }); r.diags.HasErrors() {
		return r.plan()
	}
	r.gather(ctx)
	r.answered(ctx)
	if r.diags.HasErrors() {
		return r.plan()
	}
	r.bounded(func(r *run) {
		r.decide()
		r.render()
	})
	if r.diags.HasErrors() {
		return r.plan()
	}
	if r.minded(ctx); r.diags.HasErrors() {
		return r.plan()
	}
	r.observe(ctx)
	return r.plan()
}

// run is one evaluation in progress.
type run struct {
	site  *site.Site
	opt   Options
	dog   watchdog
	e     *eval.Eval
	tape  *world.Tape
	env   stages.Env
	locks map[string]lock     // of the site's detectors, by name
	types map[string]cty.Type // outputs without state
	needs map[string][]string
	order []*site.Instance
	ident stages.NodeIdentity

	facts       *world.Facts
	trust       *world.TrustAns
	recommended map[string]map[string]string
	kubelet     world.KubeletAns
	aside       *Aside
	accepts     *world.AcceptsAns
	asked       <-chan struct{} // twice, when both are answered
	base        node.Base
	contrib     []node.Contribution
	maybe       [][]node.Contribution // in a check: by stage, what those add of which nothing tells whether they are there
	node        node.Node
	changes     []Change
	unjudged    []string
	restart     Restart

	unread   unreadParts
	fatal    map[string]bool // stages that failed for good
	diags    hcl.Diagnostics
	degraded []Degraded
	reports  map[string]StageReport
	onError  string
	maxAge   time.Duration
	done     bool
}

func newRun(ctx context.Context, s *site.Site, o Options) *run {
	if o.Now == nil {
		o.Now = func() time.Time { return time.Time{} }
	}
	r := &run{site: s, opt: o, dog: patience(), fatal: map[string]bool{}, reports: map[string]StageReport{}}
	if o.Source != nil {
		r.tape = world.NewTape(o.Source)
		r.e = eval.New(ctx, s, r.tape)
	} else {
		r.e = eval.New(ctx, s, nil)
	}
	r.readLocks(ctx)
	r.types = types(s, r.locks)
	return r
}

// types are the output types of a site's stages, without state: a function of the site and of what its detectors describe.
func types(s *site.Site, locks map[string]lock) map[string]cty.Type {
	d := stages.Declared{Detectors: map[string]*contract.Description{}}
	for n, l := range locks {
		d.Detectors[n] = l.describe
	}
	out := map[string]cty.Type{}
	for _, i := range s.Stages {
		out[i.Addr()] = i.Stage.Outputs(d)
	}
	return out
}

// static checks everything that needs no world: references along types, phases, cycles.
func (r *run) static() {
	if len(r.site.Stages) == 0 {
		r.diags = append(r.diags, origin.Error(fault.NoSite, hcl.Range{}, "The site has no stage", "Write at least a stage \"write\" \"kubelet\" {}. `prelet init` writes a first site."))
		return
	}
	blank := eval.New(context.Background(), r.site, nil)
	for _, i := range r.site.Stages {
		blank.SetOutput(i.Addr(), unknownOutput(i, r.types[i.Addr()]))
	}
	blank.SetNode(cty.UnknownVal(eval.NodeType()))
	_ = blank.Variables() // its findings belong to the real run
	r.diags = append(r.diags, blank.References()...)
	r.order, r.needs = blank.Order(), map[string][]string{}
	for _, i := range r.site.Stages {
		r.needs[i.Addr()] = blank.Needs(i)
	}
}

// settings decodes the prelet block; its deadline bounds gathering.
func (r *run) settings() time.Duration {
	b, d := schema.PreletBlock.Decode(r.site.Prelet, nil, r.e.Scope("prelet"))
	r.diags = append(r.diags, d...)
	r.onError = schema.OnClusterError.Of(b).V
	r.maxAge, _ = time.ParseDuration(schema.MaxAge.Of(b).V)
	deadline, err := time.ParseDuration(schema.Deadline.Of(b).V)
	if err != nil {
		deadline = 5 * time.Minute
	}
	return deadline
}

// open resolves variables, the cluster, detectors and the kubelet at hand: what gatherers need first.
func (r *run) open(ctx context.Context) {
	if r.tape != nil && r.opt.FallBack != nil && r.onError == "last-good" {
		r.tape.FallBack(r.opt.FallBack(r.maxAge))
	}
	r.diags = append(r.diags, r.e.Variables()...)
	if r.diags.HasErrors() {
		return
	}
	var d hcl.Diagnostics
	r.env.Access, d = r.access()
	if r.site.Cluster != nil {
		r.env.Cluster = r.site.Cluster.SrcRange
	}
	r.diags = append(r.diags, d...)
	r.env.Detectors, d = r.detectors()
	r.diags = append(r.diags, d...)
	if r.tape != nil && !r.diags.HasErrors() {
		r.askKubelet(ctx)
	}
}

// askKubelet asks for the kubelet at hand while gather stages ask for the rest: only decide needs the answers, and a
// binary that was not asked before is started for them.
func (r *run) askKubelet(ctx context.Context) {
	asked := make(chan struct{}, 2)
	r.asked = asked
	for _, q := range []world.Question{world.Kubelet.Question(world.KubeletReq{}), world.Accepts.Question(world.AcceptsReq{})} {
		go func() {
			defer func() {
				_ = recover() // the tape tells who asks again
				asked <- struct{}{}
			}()
			r.tape.Ask(ctx, q)
		}()
	}
}

// answered takes the answers about the kubelet.
func (r *run) answered(ctx context.Context) {
	if r.asked == nil {
		return
	}
	<-r.asked
	<-r.asked
	ctx = context.WithoutCancel(ctx) // they are there, also where the deadline has passed meanwhile
	k, ans, err := world.Kubelet.Ask(ctx, r.tape, world.KubeletReq{})
	switch {
	case ans.Fail == world.Unread:
		r.unread.kubelet = []string{"kubelet"}
		r.diags = append(r.diags, origin.NotRead(hcl.Range{}, "the kubelet's version", r.unread.kubelet))
	case ans.Fail == world.Denied:
		r.unread.kubelet = []string{"kubelet"}
		r.diags = append(r.diags, origin.MayNotRead(hcl.Range{}, "whether this node has joined", ans.Detail))
	case err != nil:
		r.degrade(fault.Systemd, "the kubelet at hand cannot be asked: "+strings.TrimSuffix(ans.Detail, "."))
	}
	r.kubelet = k
	// Without an answer the tables tell what the version takes.
	if a, _, err := world.Accepts.Ask(ctx, r.tape, world.AcceptsReq{}); err == nil {
		r.accepts = &a
	}
}

// bounded runs what only evaluates under the watchdog, on a copy: one that is given up still writes to it.
func (r *run) bounded(f func(*run)) {
	c := *r
	c.fatal, c.reports = maps.Clone(r.fatal), maps.Clone(r.reports)
	c.diags, c.degraded, c.contrib, c.maybe = slices.Clip(r.diags), slices.Clip(r.degraded), slices.Clip(r.contrib), slices.Clip(r.maybe)
	if d := r.dog.watch(func() { f(&c) }); d != nil {
		r.giveUp(d)
		return
	}
	*r = c
}

// giveUp ends the run: the evaluator of an expression that is too large is still busy, so nothing uses it any more.
func (r *run) giveUp(d *hcl.Diagnostic) {
	r.diags = append(r.diags, d)
	r.e = eval.New(context.Background(), r.site, nil)
}

func (r *run) plan() *Plan {
	p := &Plan{Site: r.site, Node: r.node, Diagnostics: r.diags, Degraded: r.degraded, Changes: r.changes, Unjudged: slices.Compact(slices.Sorted(slices.Values(r.unjudged))), Restart: r.restart,
		Kubelet: r.kubelet, Accepts: r.accepts, Aside: r.aside, Facts: r.facts, Access: r.env.Access, Tape: r.tape, Eval: r.e, OnCluster: r.onError, MaxAge: r.maxAge}
	for _, d := range r.diags {
		if x, ok := d.Extra.(origin.Extra); ok && len(x.Unread) > 0 {
			where := ""
			if d.Subject != nil {
				where = fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
			}
			for _, q := range x.Unread {
				if u := (Unread{where, q}); !slices.Contains(p.Unread, u) {
					p.Unread = append(p.Unread, u)
				}
			}
		}
	}
	for _, i := range r.site.Stages {
		if s, ok := r.reports[i.Addr()]; ok {
			p.Stages = append(p.Stages, s)
		}
		p.Edges = append(p.Edges, r.e.Edges(i)...)
	}
	p.Complete = r.done && !r.diags.HasErrors() && len(p.Unread) == 0
	if p.Complete {
		p.Hash = r.node.Hash()
	}
	return p
}

func (r *run) now() time.Time { return r.opt.Now() }

func (r *run) event(stage, state, summary string) {
	if r.opt.Event != nil {
		r.opt.Event(Event{Stage: stage, State: state, Summary: summary})
	}
}

func (r *run) took(addr, state string, d time.Duration) {
	old := r.reports[addr]
	if old.State == stateFailed {
		state = stateFailed
	}
	r.reports[addr] = StageReport{addr, state, max(old.Took, d)}
	if r.opt.Event != nil {
		r.opt.Event(Event{Stage: addr, State: state, Took: d})
	}
}

func (r *run) degrade(c fault.Code, summary string) {
	r.degraded = append(r.degraded, Degraded{c, summary})
}

func attributeBody(name string, x hclsyntax.Expression) *hclsyntax.Body {
	return &hclsyntax.Body{Attributes: hclsyntax.Attributes{name: {Name: name, Expr: x, SrcRange: x.Range(), NameRange: x.Range()}}, SrcRange: x.Range()}
}
