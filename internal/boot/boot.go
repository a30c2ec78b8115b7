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
	p := run(ctx, s, o, defaultLimits())
	if errors.Is(ctx.Err(), context.Canceled) {
		p.Complete, p.Hash = false, ""
		p.Diagnostics = hcl.Diagnostics{origin.Error(fault.Interrupted, hcl.Range{}, "Stopped by a signal",
			"Why: %s.\nNothing was changed. The next run begins anew.", context.Cause(ctx))}
	}

	return p
}

// run does one step after the other, until one has an error.
func run(ctx context.Context, s *site.Site, o Options, dog evalLimits) *Plan {
	m, locks := startRun(ctx, s, o)
	t := newRuntimeEnv(o, dog)
	if m.runCheck(locks, t); m.hasErrors() {
		return m.makePlan()
	}
	if m.runReadSettings(t); m.hasErrors() {
		return m.makePlan()
	}
	if m.tape != nil && o.FallBack != nil && m.settings.onCluster == "last-good" {
		m.tape.FallBack(o.FallBack(m.settings.maxAge))
	}

	ctx, cancel := context.WithTimeout(ctx, m.settings.deadline)
	defer cancel()
	if m.runPrepare(locks, t); m.hasErrors() {
		return m.makePlan()
	}

	kubelet := askKubelet(ctx, m.tape)
	m.runGather(ctx, t)
	if m.setKubelet(kubelet()); m.hasErrors() {
		return m.makePlan()
	}
	if m.runDecide(t); m.hasErrors() {
		return m.makePlan()
	}
	if m.runRender(t); m.hasErrors() {
		return m.makePlan()
	}
	if m.runJudge(ctx); m.hasErrors() {
		return m.makePlan()
	}
	m.runObserve(ctx)

	return m.makePlan()
}

// made is what the steps have returned so far, one after the other; those that were not reached are zero. Only the
// goroutine of the run has it: a step is given the values that it needs, and a scope of its own.
type progress struct {
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
type runtimeEnv struct {
	limits   evalLimits
	now   func() time.Time
	event func(Event) // one at a time
}

func newRuntimeEnv(o Options, dog evalLimits) runtimeEnv {
	t := runtimeEnv{limits: dog, now: o.Now, event: o.Event}
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
func startRun(ctx context.Context, s *site.Site, o Options) (*progress, map[string]detectorLock) {
	if o.Source == nil {
		return &progress{site: s, eval: eval.New(ctx, s, nil)}, readLocks(ctx, s, o.Locks)
	}
	tape := world.NewTape(o.Source)

	return &progress{site: s, tape: tape, eval: eval.New(ctx, s, tape)}, readLocks(ctx, s, tape)
}

// add takes what a step found.
func (m *progress) addFindings(f Findings) { m.Findings = m.join(f) }

func (m *progress) hasErrors() bool { return m.Diags.HasErrors() }

func (m *progress) runCheck(locks map[string]detectorLock, t runtimeEnv) {
	checked, found := runStep(t.limits, func() (Checked, Findings) { return check(m.site, locks) })
	m.checked = checked
	m.addFindings(found)
}

func (m *progress) runReadSettings(t runtimeEnv) {
	s, e := m.site, m.eval.Fork()
	settings, found := runStep(t.limits, func() (Settings, Findings) { return decodeSettings(s, e) })
	m.settings = settings
	m.addFindings(found)
}

func (m *progress) runPrepare(locks map[string]detectorLock, t runtimeEnv) {
	s, e := m.site, m.eval.Fork()
	prepared, found := runStep(t.limits, func() (Prepared, Findings) { return prepare(s, locks, e) })
	m.prepared = prepared
	if m.addFindings(found); prepared.eval != nil {
		m.eval = prepared.eval
	}
}

func (m *progress) runGather(ctx context.Context, t runtimeEnv) {
	gathered, found := gather(ctx, m.checked, m.prepared, m.tape, t)
	m.gathered = gathered
	if m.addFindings(found); gathered.eval != nil {
		m.eval = gathered.eval
	}
}

func (m *progress) setKubelet(k Kubelet, found Findings) {
	m.kubelet = k
	m.addFindings(found)
}

// decide and render ask nothing but what the node's files held before prelet.
func (m *progress) runDecide(t runtimeEnv) {
	in := decideInput{
		checked: m.checked, eval: m.eval.Fork(), tape: m.tape, now: t.now, failed: m.gathered.failed, hasErrors: m.hasErrors(),
		basis: basis{
			facts: m.gathered.facts, recommended: m.gathered.recommended, trust: m.gathered.trust,
			kubelet: m.kubelet.KubeletAns, access: m.prepared.env.Access, unknown: m.Unknown,
		},
	}
	decided, found := runStep(t.limits, func() (Decided, Findings) { return decide(in) })
	m.decided = decided
	if m.addFindings(found); decided.eval != nil {
		m.eval, m.kubelet.KubeletAns = decided.eval, decided.basis.kubelet
	}
	t.reportStages(found.Stages)
}

func (m *progress) runRender(t runtimeEnv) {
	c, d, e := m.checked, m.decided, m.eval.Fork()
	rendered, found := runStep(t.limits, func() (Rendered, Findings) { return render(c, d, e, t.now) })
	m.rendered = rendered
	if m.addFindings(found); rendered.eval != nil {
		m.eval = rendered.eval
	}
	t.reportStages(found.Stages)
}

func (m *progress) runJudge(ctx context.Context) {
	m.addFindings(judge(ctx, judgement{
		site: m.site, tape: m.tape, checking: m.eval.Checking(),
		node: m.rendered.node, basis: m.decided.basis, accepts: m.kubelet.accepts,
	}))
}

func (m *progress) runObserve(ctx context.Context) {
	if m.tape == nil {
		return
	}
	o := observe(ctx, m.tape, m.rendered.node, m.decided.aside, m.Unknown)
	changed, found := diff(m.rendered.node, m.decided.aside, o)
	m.changed = changed
	m.addFindings(found)
}

// plan is what the steps made, and whether it is whole.
func (m *progress) makePlan() *Plan {
	if m.tape != nil {
		m.tape.Seal()
	}
	p := &Plan{
		Site: m.site, Node: m.rendered.node, Diagnostics: m.Diags, Degraded: m.Degraded, Unread: listUnread(m.Diags),
		Changes: m.changed.changes, Unjudged: m.changed.unjudged, Restart: m.changed.restart,
		Kubelet: m.kubelet.KubeletAns, Accepts: m.kubelet.accepts, Aside: m.decided.aside, Facts: m.gathered.facts,
		Access: m.prepared.env.Access, Tape: m.tape, Eval: m.eval, OnCluster: m.settings.onCluster, MaxAge: m.settings.maxAge,
		Complete: isComplete(m.rendered.isDone, m.Diags, m.Unknown),
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
func listUnread(ds hcl.Diagnostics) (out []Unread) {
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
func (t runtimeEnv) reportStages(all []StageReport) {
	for _, s := range all {
		t.event(Event{Stage: s.Address, State: s.State, Took: s.Took})
	}
}
