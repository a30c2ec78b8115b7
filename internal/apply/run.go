package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/report"
)

// Run is one run on a node, from the journal that a crash left to the verdict:
//
//	recover ─▶ no site, never a generation ─▶ stand aside
//	   │       plan ── fails ─────────────────▶ keep what is in place, if it is whole and good
//	   │        ├─ held ──────────────────────▶ mend what is in place, resume
//	   │        ├─ nothing to change ─────────▶ resume
//	   └────────┴─ preflight, begin, apply ───▶ good, pending, or gone back
type Run struct {
	Store   *generation.Store // locked
	Machine *activate.Machine
	Report  *report.Reporter

	Plan    func(context.Context) *boot.Plan // evaluates the site, anew at each call
	Options func(*boot.Plan) Options

	Retry bool // a held plan is released and tried again
	Off   bool // prelet=off: the gate opens on what is in place, and nothing else happens
}

// Result is how a run ended.
type Result struct {
	Plan    *boot.Plan // the last one; nil when it did not come to that
	Outcome activate.Outcome
	Changed bool       // a generation was committed
	Held    string     // why the site's plan is not applied; "" when it is
	Code    fault.Code // "" when nothing failed
	Reason  string     // of a failure before COMMIT: what failed, as the first of Plan's diagnostics or Err says it
	Summary string     // one line
	Err     error      // what Plan's diagnostics do not say
}

// plansAnew is how often a plan is made again because somebody changed a target meanwhile.
const plansAnew = 2

// keepTime bounds what is still done after SIGTERM.
const keepTime = 10 * time.Second

// Do runs. The lock is held before and after.
func (r *Run) Do(ctx context.Context) Result {
	if _, err := r.Machine.Recover(ctx); err != nil {
		return r.broken(fmt.Errorf("recovering what an interrupted run left: %w", err))
	}
	if cur, err := r.Store.Current(); err == nil && cur != nil {
		r.Report.Generation(cur.Gen)
	}
	if r.Off {
		return r.off()
	}
	if err := r.Store.Check(); err != nil { // before a plan is made on what it hides
		return r.broken(err)
	}
	for again := 0; ; again++ {
		res, retry := r.once(ctx)
		switch {
		case !retry:
			return r.collect(res)
		case again == plansAnew:
			return r.failed(ctx, res.Plan, fault.CannotWrite, fmt.Errorf("%w (planned anew %d times)", res.Err, plansAnew))
		}
		r.Report.Event(report.Event{Stage: "commit", State: report.Notice, Summary: "planned anew: " + res.Err.Error()})
	}
}

// once plans and applies. again says that a target changed under the plan.
func (r *Run) once(ctx context.Context) (res Result, again bool) {
	p := r.Plan(ctx)
	r.degrade(p)
	if noSite(p) {
		return r.withoutSite(ctx, p), false
	}
	if !p.Complete {
		return r.failed(ctx, p, planCode(p), nil), false
	}
	why := r.heldBy(p)
	if why == "" {
		return r.apply(ctx, p, "")
	}
	copied := r.foreign() // held on the machine that this one is a copy of
	if !r.Retry && !copied {
		return r.held(ctx, p, why), false
	}
	if copied {
		why += " (on another machine)"
	}
	if res, again = r.apply(ctx, p, why); again || res.Changed || res.Err == nil {
		return res, again
	}
	if still := r.heldBy(p); still != "" { // what failed came before the commit
		r.Report.Held(PlanID(p), still)
		r.Report.Degrade(string(fault.Held), still)
		res.Held = still
	}
	return res, false
}

// apply makes p's generation. held is why it was held until now: that is let go of with the commit.
func (r *Run) apply(ctx context.Context, p *boot.Plan, held string) (res Result, again bool) {
	if p.Aside != nil {
		r.Report.Note(string(fault.Identity), p.Aside.Sentence())
	}
	proposal, act, err := Proposal(r.Options(p))
	if err == nil {
		err = r.forgets(ctx, p, act.Unit)
	}
	if err != nil {
		return r.failed(ctx, p, fault.CodeOf(err), err), false
	}
	return r.commit(ctx, p, proposal, act, held)
}

// letGo does what a held plan was waiting for, and keeps it held when that comes to nothing.
func (r *Run) letGo(held string) func(do func() error) error {
	return func(do func() error) error {
		if held == "" {
			return do()
		}
		err := LetGo(r.Store, do)
		if err == nil {
			r.Report.Event(report.Event{Stage: "commit", State: report.Notice, Summary: "released and tried again: " + held})
		}
		return err
	}
}

// forgets refuses to take a state file of the kubelet's managers away while pods may run that hold what it lists.
func (r *Run) forgets(ctx context.Context, p *boot.Plan, unit string) error {
	i := slices.IndexFunc(p.Changes, func(c boot.Change) bool { return c.File.Purpose == "state" && c.Action == "delete" })
	if i < 0 {
		return nil
	}
	u, err := r.Machine.Units.Look(ctx, unit)
	if err != nil { // whether systemd answers is Preflight's
		return nil
	}
	return activate.PodsHold(u, p.Changes[i].File.Path, p.Changes[i].Why,
		fmt.Sprintf("drain the node and reboot it: the boot applies the site; or drain it, systemctl stop %[1]s, prelet run, systemctl start %[1]s", unit))
}

// degrade tells the report what is not as the site says. An answer of an earlier boot has its reason in the message.
func (r *Run) degrade(p *boot.Plan) {
	stale := map[string]bool{}
	for _, d := range p.Diagnostics {
		if origin.CodeOf(d) == fault.Stale {
			why, _, _ := strings.Cut(d.Detail, ". ")
			stale[d.Summary] = true
			r.Report.Degrade(string(fault.Stale), d.Summary+": "+why)
		}
	}
	for _, d := range p.Degraded {
		if d.Code != fault.Stale || !stale[d.Summary] {
			r.Report.Degrade(string(d.Code), d.Summary)
		}
	}
}

// foreign says whether the generation in place was made on another machine.
func (r *Run) foreign() bool {
	cur, err := r.Store.Current()
	return err == nil && cur != nil && r.Machine.Foreign != nil && r.Machine.Foreign(cur.Gen) != ""
}

func (r *Run) commit(ctx context.Context, p *boot.Plan, proposal generation.Proposal, act activate.Plan, held string) (res Result, again bool) {
	c, err := r.Store.Compare(proposal)
	switch {
	case errors.Is(err, generation.ErrChanged):
		return Result{Plan: p, Err: err}, true
	case err != nil:
		return r.failed(ctx, p, fault.CodeOf(err), err), false
	case !c.Changed && !proposal.Force:
		if err := r.letGo(held)(func() error { return nil }); err != nil {
			return r.failed(ctx, p, fault.CodeOf(err), err), false
		}
		out, err := r.Machine.Resume(ctx)
		if err == nil && out.Verdict == activate.Unchanged && out.HeldBack == "" && act.Reconcile {
			out.Checks, err = r.Machine.Reconcile(ctx, act)
		}
		return r.ended(p, out, err, false), false
	}
	// Before anything is staged: a node whose kubelet would not wait for the gate must not be written to.
	if _, err := r.Machine.Preflight(ctx, act.Unit); err != nil {
		return r.failed(ctx, p, fault.CodeOf(err), err), false
	}
	txn, err := r.Store.Begin(proposal)
	if err == nil {
		var out activate.Outcome
		if out, err = r.Machine.Apply(ctx, activate.Change{Txn: told{txn, r.Report, r.letGo(held)}, Plan: act, Reload: reload(txn.Entries())}); !before(err) {
			return r.ended(p, out, err, true), false
		}
	}
	if errors.Is(err, generation.ErrChanged) {
		return Result{Plan: p, Err: err}, true
	}
	return r.failed(ctx, p, fault.CodeOf(err), err), false
}

// before says whether an error of Apply means that nothing was committed.
func before(err error) bool {
	code := fault.CodeOf(err)
	return err != nil && (code == fault.Systemd || code == fault.CannotWrite || errors.Is(err, generation.ErrChanged))
}

func reload(entries []generation.Entry) bool {
	return slices.ContainsFunc(entries, func(e generation.Entry) bool {
		return strings.Contains(e.Path, "/systemd/system/") && e.Action != generation.ActionNone && e.Action != generation.ActionKeep
	})
}

// noSite: there is not one file. A site whose file is broken is another thing.
func noSite(p *boot.Plan) bool {
	return (p.Site == nil || len(p.Site.Files) == 0) && slices.ContainsFunc(p.Diagnostics, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && origin.CodeOf(d) == fault.NoSite
	})
}

func (r *Run) withoutSite(ctx context.Context, p *boot.Plan) Result {
	cur, err := r.Store.Current()
	if err != nil {
		return r.broken(err)
	}
	if cur == nil {
		out, err := r.Machine.StandAside(ctx)
		res := r.ended(nil, out, err, false)
		if res.Code == "" {
			res.Summary = "there is no site, so prelet is not in use; the kubelet starts as it is"
		}
		return res
	}
	r.Report.Degrade(string(fault.NoSite), fmt.Sprintf("there is no site any more; generation %d stays", cur.Gen))
	out, err := r.Machine.Keep(ctx, "there is no site any more")
	res := r.ended(p, out, err, false)
	if res.Code == "" && out.HeldBack != "" {
		res.Code, res.Summary = fault.NoSite, out.HeldBack
	}
	return res
}

func (r *Run) heldBy(p *boot.Plan) string { return HeldBy(r.Store, p) }

// Chosen says that no plan is applied, whatever it is: somebody chose a generation by hand, or may have.
func Chosen(s *generation.Store) (why string, ok bool) {
	gen, why, ok := s.Pinned()
	if gen == generation.Unreadable {
		return fmt.Sprintf("what is held on this node cannot be read (%s)", why), ok
	}
	return fmt.Sprintf("generation %d was chosen by hand (%s)", gen, why), ok
}

// HeldBy says why a plan must not be applied, or nothing.
func HeldBy(s *generation.Store, p *boot.Plan) string {
	if why, ok := Chosen(s); ok {
		return why + "; prelet rollback --release lets go of it"
	}
	if why, ok := s.Held(PlanID(p)); ok {
		return fmt.Sprintf("this plan failed before: %s; prelet run --retry tries it again", why)
	}
	return ""
}

// held mends what is in place, and goes on with it.
func (r *Run) held(ctx context.Context, p *boot.Plan, why string) Result {
	r.Report.Held(PlanID(p), why)
	r.Report.Degrade(string(fault.Held), why)
	res := r.mend(ctx, p)
	res.Held = why
	if res.Code == "" {
		res.Summary += "; the site's plan is held"
	}
	return res
}

func (r *Run) mend(ctx context.Context, p *boot.Plan) Result {
	proposal, act, ok, err := InPlace(r.Store)
	if err == nil && ok {
		var c *generation.Comparison
		if c, err = r.Store.Compare(proposal); err == nil && c.Changed {
			r.Report.Event(report.Event{Stage: "commit", State: report.Notice, Summary: "somebody changed files of the generation in place; they are put back"})
			res, again := r.commit(ctx, p, proposal, act, "")
			if again { // twice in a moment: the next run sees to it
				return r.failed(ctx, p, fault.CannotWrite, res.Err)
			}
			return res
		}
	}
	if err != nil {
		return r.failed(ctx, p, fault.CodeOf(err), err)
	}
	out, err := r.Machine.Resume(ctx)
	return r.ended(p, out, err, false)
}

// off opens the gate on what is in place, judged or not.
func (r *Run) off() Result {
	why := "nothing was planned, changed or judged: prelet=off stands on the kernel command line"
	cur, err := r.Store.Current()
	if err != nil {
		return Result{Code: fault.CodeOf(err), Err: err, Summary: err.Error()}
	}
	gen := 0
	if cur != nil {
		gen = cur.Gen
	}
	if r.foreign() {
		why += fmt.Sprintf("; generation %d was made on another machine, and the kubelet starts as that one", gen)
	}
	if _, open, err := r.Machine.Gate.State(); err != nil || !open {
		if err := r.Machine.Gate.Open(gen); err != nil {
			return Result{Code: fault.CodeOf(err), Err: err, Summary: err.Error()}
		}
	}
	r.Report.Degrade(string(fault.Held), why)
	r.Report.Generation(gen)
	return Result{Outcome: activate.Outcome{Generation: gen}, Summary: why}
}

// failed is for whatever failed before COMMIT: the generation in place stays in charge if it can. err is what p's
// diagnostics do not say.
func (r *Run) failed(ctx context.Context, p *boot.Plan, code fault.Code, err error) Result {
	why := reasonOf(p, err)
	steady := ctx
	stopped := ctx.Err() != nil
	if stopped {
		code, why = fault.Interrupted, "stopped before anything was changed: "+context.Cause(ctx).Error()
		var cancel context.CancelFunc
		steady, cancel = context.WithTimeout(context.WithoutCancel(ctx), keepTime)
		defer cancel()
	}
	out, kept := r.Machine.Keep(steady, why)
	res := Result{Plan: p, Outcome: out, Code: code, Err: err, Reason: why, Summary: why}
	Tell(r.Report, out)
	switch {
	case kept != nil:
		res.Err = errors.Join(err, fmt.Errorf("the generation in place could not be kept: %w", kept))
		res.Summary = why + "; " + kept.Error()
		return res
	case out.HeldBack != "":
		r.Report.HeldBack(r.unit(), out.HeldBack)
		return res
	case out.Generation == 0:
		return res
	}
	res.Summary = fmt.Sprintf("%s; generation %d stays in charge", why, out.Generation)
	if out.From != 0 { // nobody had judged it, and it was ill
		res.Summary = why + "; " + Sentence(out, true)
	}
	r.Report.Degrade(string(codeToTell(p, code)), res.Summary)
	if !stopped && ofCluster(code) && p != nil && p.Kubelet.Joined && p.OnCluster == "last-good" && r.goodInPlace(out.Generation) {
		res.Code = out.Code
	}
	return res
}

// codeToTell is the code that the report gives a failure: that of the plan's first error, or else the failure's own.
func codeToTell(p *boot.Plan, code fault.Code) fault.Code {
	if p != nil && p.Diagnostics.HasErrors() {
		return origin.Code(p.Diagnostics)
	}

	return code
}

// ofCluster says whether a failure is about the cluster: servers are mended on their side, and a node that has joined must
// come up meanwhile.
func ofCluster(code fault.Code) bool {
	switch code {
	case fault.ClusterUnreachable, fault.ClusterUntrusted, fault.ClusterDenied, fault.ClusterUnusable:
		return true
	}

	return false
}

func (r *Run) goodInPlace(gen int) bool {
	cur, err := r.Store.Current()
	return err == nil && cur != nil && cur.Gen == gen && cur.Status == generation.StatusGood
}

// broken is for what failed while the targets may be a mixture, or while nothing of the generations could be read: the
// gate stays as it is, shut at boot.
func (r *Run) broken(err error) Result {
	res := Result{Code: fault.CodeOf(err), Err: err, Summary: err.Error()}
	_, open, gate := r.Machine.Gate.State()
	if gate == nil && !open {
		res.Outcome.HeldBack = err.Error()
		res.Err = errors.Join(err, r.Machine.Gate.Shut(err.Error()))
		r.Report.HeldBack(r.unit(), err.Error())
	}
	if res.Code == fault.NeedsPerson {
		r.Report.Event(report.Event{Stage: "recover", State: report.Failed, Summary: err.Error(), Message: report.MessageStuck})
	}
	return res
}

// ended is for what came through, after COMMIT or without one.
func (r *Run) ended(p *boot.Plan, out activate.Outcome, err error, changed bool) Result {
	res := Result{Plan: p, Outcome: out, Changed: changed, Code: out.Code, Err: err}
	Tell(r.Report, out)
	switch {
	case out.Held:
		res.Held = out.Why
		r.Report.Held(r.planOf(out.From), out.Why)
	case out.Code == fault.RollbackFails: // an earlier process of this boot may have taken it for held
		r.Report.Held("", "")
	}
	if err != nil {
		res.Code, res.Summary = fault.CodeOf(err), err.Error()
		if _, open, gate := r.Machine.Gate.State(); gate == nil && !open {
			r.Report.HeldBack(r.unit(), err.Error())
		}
		return res
	}
	if out.HeldBack != "" {
		r.Report.HeldBack(r.unit(), out.HeldBack)
		res.Summary = out.HeldBack
		return res
	}
	res.Summary = Sentence(out, changed)
	return res
}

// planOf is the hash of the plan that a generation came from.
func (r *Run) planOf(gen int) string {
	all, err := r.Store.List()
	if err == nil {
		for _, info := range all {
			if info.Gen == gen {
				return info.PlanID
			}
		}
	}
	return fmt.Sprintf("that of generation %d", gen) // it is held all the same
}

// unit is the kubelet's unit, by the plan of the generation in place.
func (r *Run) unit() string {
	cur, err := r.Store.Current()
	if err != nil || cur == nil {
		return activate.DefaultUnit
	}
	text, err := r.Store.Blob(cur.Gen, activate.PlanBlob)
	if err != nil {
		return activate.DefaultUnit
	}
	if a, err := activate.DecodePlan(text); err == nil {
		return a.Unit
	}
	return activate.DefaultUnit
}

// Verify judges what awaits a verdict, and tells the report.
func (r *Run) Verify(ctx context.Context) Result {
	out, err := r.Machine.Verify(ctx)
	if fault.CodeOf(err) == fault.NeedsPerson {
		return r.broken(err)
	}
	return r.collect(r.ended(nil, out, err, false))
}

// collect removes old generations once nothing is in flight.
func (r *Run) collect(res Result) Result {
	if res.Err == nil && (res.Outcome.Verdict == activate.Good || res.Outcome.From != 0) {
		if err := Collect(r.Store); err != nil {
			r.Report.Event(report.Event{Stage: "collect", State: report.Notice, Summary: err.Error()})
		}
	}
	return res
}
