// Package boot is the function (site, world) → plan, and the only place that knows all of its steps: check, settings,
// prepare, gather, decide, render, judge, observe, diff. Each is a function that returns a value and what it found;
// none changes what another has returned, so one that must be given up has written to nothing that anybody reads. It
// reads through one tape, and writes nothing. Read it first.
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
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/world"
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

// Unread is one place that depends on what a recording was never asked.
type Unread struct {
	Where    string `json:"where"`
	Question string `json:"question"`
}

// Run evaluates a site over a world, up to the difference between what is and what shall be. The plan is there
// on failure too, as far as it came. Where ctx was cancelled, and did not only run out, that alone is told: what failed
// with it says nothing of the machine or of the cluster.
func Run(ctx context.Context, s *site.Site, o Options) *Plan {
	p := run(ctx, s, o, patience())
	if errors.Is(ctx.Err(), context.Canceled) {
		p.Complete, p.Hash = false, ""
		p.Diagnostics = hcl.Diagnostics{origin.Error(fault.Interrupted, hcl.Range{}, "Stopped by a signal",
			"Why: %s.\nNothing was changed. The next run begins anew.", context.Cause(ctx))}
	}

	return p
}

// run does one step after the other, until one has an error.
func run(ctx context.Context, s *site.Site, o Options, dog watchdog) *Plan {
	m, locks := begin(ctx, s, o)
	t := toolsOf(o, dog)
	if m.check(locks, t); m.stopped() {
		return m.plan()
	}
	if m.readSettings(t); m.stopped() {
		return m.plan()
	}
	if m.tape != nil && o.FallBack != nil && m.settings.onCluster == "last-good" {
		m.tape.FallBack(o.FallBack(m.settings.maxAge))
	}

	ctx, cancel := context.WithTimeout(ctx, m.settings.deadline)
	defer cancel()
	if m.prepare(locks, t); m.stopped() {
		return m.plan()
	}

	kubelet := askKubelet(ctx, m.tape)
	m.gather(ctx, t)
	if m.answered(kubelet()); m.stopped() {
		return m.plan()
	}
	if m.decide(t); m.stopped() {
		return m.plan()
	}
	if m.render(t); m.stopped() {
		return m.plan()
	}
	if m.judge(ctx); m.stopped() {
		return m.plan()
	}
	m.observe(ctx)

	return m.plan()
}

// made is what the steps have returned so far, one after the other; those that were not reached are zero. Only the
// goroutine of the run has it: a step is given the values that it needs, and a scope of its own.
type made struct {
	site     *site.Site
	tape     *world.Tape // nil: no machine is at hand
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

// tools are what steps need beside values.
type tools struct {
	dog   watchdog
	now   func() time.Time
	event func(Event) // one at a time
}

func toolsOf(o Options, dog watchdog) tools {
	t := tools{dog: dog, now: o.Now, event: o.Event}
	if t.now == nil {
		t.now = func() time.Time { return time.Time{} }
	}
	var one sync.Mutex
	t.event = func(e Event) {
		if o.Event != nil {
			one.Lock()
			defer one.Unlock()
			o.Event(e)
		}
	}

	return t
}

// begin starts a run: a tape before the source, and what is known of detectors, on which types depend.
func begin(ctx context.Context, s *site.Site, o Options) (*made, map[string]lock) {
	if o.Source == nil {
		return &made{site: s, eval: eval.New(ctx, s, nil)}, readLocks(ctx, s, o.Locks)
	}
	tape := world.NewTape(o.Source)

	return &made{site: s, tape: tape, eval: eval.New(ctx, s, tape)}, readLocks(ctx, s, tape)
}

// add takes what a step found.
func (m *made) add(f Findings) { m.Findings = m.with(f) }

func (m *made) stopped() bool { return m.Diags.HasErrors() }

func (m *made) check(locks map[string]lock, t tools) {
	checked, found := step(t.dog, func() (Checked, Findings) { return check(m.site, locks) })
	m.checked = checked
	m.add(found)
}

func (m *made) readSettings(t tools) {
	s, e := m.site, m.eval.Fork()
	settings, found := step(t.dog, func() (Settings, Findings) { return settingsOf(s, e) })
	m.settings = settings
	m.add(found)
}

func (m *made) prepare(locks map[string]lock, t tools) {
	s, e := m.site, m.eval.Fork()
	prepared, found := step(t.dog, func() (Prepared, Findings) { return prepare(s, locks, e) })
	m.prepared = prepared
	if m.add(found); prepared.eval != nil {
		m.eval = prepared.eval
	}
}

func (m *made) gather(ctx context.Context, t tools) {
	gathered, found := gather(ctx, m.checked, m.prepared, m.tape, t)
	m.gathered = gathered
	if m.add(found); gathered.eval != nil {
		m.eval = gathered.eval
	}
}

func (m *made) answered(k Kubelet, found Findings) {
	m.kubelet = k
	m.add(found)
}

// decide and render ask nothing but what the node's files held before prelet.
func (m *made) decide(t tools) {
	in := decision{
		checked: m.checked, eval: m.eval.Fork(), tape: m.tape, now: t.now, fatal: m.gathered.fatal, broken: m.stopped(),
		basis: basis{
			facts: m.gathered.facts, recommended: m.gathered.recommended, trust: m.gathered.trust,
			kubelet: m.kubelet.KubeletAns, access: m.prepared.env.Access, unknown: m.Unknown,
		},
	}
	decided, found := step(t.dog, func() (Decided, Findings) { return decide(in) })
	m.decided = decided
	if m.add(found); decided.eval != nil {
		m.eval, m.kubelet.KubeletAns = decided.eval, decided.basis.kubelet
	}
	t.tell(found.Stages)
}

func (m *made) render(t tools) {
	c, d, e := m.checked, m.decided, m.eval.Fork()
	rendered, found := step(t.dog, func() (Rendered, Findings) { return render(c, d, e, t.now) })
	m.rendered = rendered
	if m.add(found); rendered.eval != nil {
		m.eval = rendered.eval
	}
	t.tell(found.Stages)
}

func (m *made) judge(ctx context.Context) {
	m.add(judge(ctx, judgement{
		site: m.site, tape: m.tape, checking: m.eval.Checking(),
		node: m.rendered.node, basis: m.decided.basis, accepts: m.kubelet.accepts,
	}))
}

func (m *made) observe(ctx context.Context) {
	if m.tape == nil {
		return
	}
	o := observe(ctx, m.tape, m.rendered.node, m.decided.aside, m.Unknown)
	changed, found := diff(m.rendered.node, m.decided.aside, o)
	m.changed = changed
	m.add(found)
}

// plan is what the steps made, and whether it is whole.
func (m *made) plan() *Plan {
	if m.tape != nil {
		m.tape.Seal()
	}
	p := &Plan{
		Site: m.site, Node: m.rendered.node, Diagnostics: m.Diags, Degraded: m.Degraded, Unread: placesUnread(m.Diags),
		Changes: m.changed.changes, Unjudged: m.changed.unjudged, Restart: m.changed.restart,
		Kubelet: m.kubelet.KubeletAns, Accepts: m.kubelet.accepts, Aside: m.decided.aside, Facts: m.gathered.facts,
		Access: m.prepared.env.Access, Tape: m.tape, Eval: m.eval, OnCluster: m.settings.onCluster, MaxAge: m.settings.maxAge,
		Complete: complete(m.rendered.done, m.Diags, m.Unknown),
	}
	for _, i := range m.site.Stages {
		if at := slices.IndexFunc(m.Stages, func(s StageReport) bool { return s.Address == i.Addr() }); at >= 0 {
			p.Stages = append(p.Stages, m.Stages[at])
		}
		p.Edges = append(p.Edges, m.eval.Edges(i)...)
	}
	if p.Complete {
		p.Hash = m.rendered.node.Hash()
	}

	return p
}

// placesUnread are the places that messages say to depend on what has no answer, each once.
func placesUnread(ds hcl.Diagnostics) (out []Unread) {
	for _, d := range ds {
		x, _ := d.Extra.(origin.Extra)
		where := ""
		if d.Subject != nil {
			where = fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		for _, q := range x.Unread {
			if u := (Unread{where, q}); !slices.Contains(out, u) {
				out = append(out, u)
			}
		}
	}

	return out
}

// tell reports how stages went.
func (t tools) tell(all []StageReport) {
	for _, s := range all {
		t.event(Event{Stage: s.Address, State: s.State, Took: s.Took})
	}
}
