package boot

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// basis is what decide and render stages may look at, in addition to their configuration.
type basis struct {
	facts       *world.Facts
	recommended labelsByDetector
	trust       *world.TrustAns
	kubelet     world.KubeletAns
	start       *world.StartAns // how the kubelet's unit starts it; nil: nobody knows
	access      world.Access
	identity    stages.NodeIdentity
	base        node.Base
	unknown     unknowns
	readDropIns func(dir string) []dropIn // of the image; nil: nobody can
}

// stageInputs returns the basis in the form that a stage takes.
func (b basis) stageInputs(i *site.Instance, s *site.Site, e *eval.Eval) stages.Inputs {
	hasDetect := slices.ContainsFunc(s.Stages, func(i *site.Instance) bool { return i.Type == "detect-hw" })
	return stages.Inputs{
		NoCluster: s.Cluster == nil, NoDetect: !hasDetect,
		Address: i.Addr(), IsOnly: len(s.OfType(i.Type)) == 1, Facts: b.facts, Recommended: b.recommended, Base: b.base, Kubelet: b.kubelet, Start: b.start, DropIns: b.listDropIns, Node: b.identity,
		Access: b.access, Trust: b.trust, Check: e.Checking(), Unread: b.unknown.toUnread(), Detectors: sortKeys(s.Detectors),
	}
}

// decideInput is what decide works with.
type decideInput struct {
	checked  Checked
	eval     *eval.Eval
	tape     *world.Tape // answers what a managed file held before prelet; nil in a check
	now      func() time.Time
	failed   map[string]bool // gather stages that failed for good, by address
	isBroken bool            // earlier steps had errors, and a check goes on: the base is not read then
	basis    basis           // without the node block and the base
}

// Decided is the result of decide: the node before decide stages, and what they add to it.
type Decided struct {
	eval  *eval.Eval // with the outputs of decide stages
	basis basis      // with the node block and the base
	aside *Aside     // a previous identity that is set aside; nil: none

	contributions []node.Contribution   // in site order
	maybe         [][]node.Contribution // in a check: per stage, what it adds if it is there

	// hadBaseErrors has the render stages whose configuration was read for the base, by address, and whether it had an
	// error. Those errors have been reported.
	hadBaseErrors map[string]bool
}

// decide decodes the node block, asks the renderers for the base (the node before decide stages), settles whose
// identity is on the disk, and runs the decide stages: dependencies first, then site order.
//
// Inputs: the outputs of gather stages, the kubelet's answers, and through the tape what managed files held before
// prelet. Result: the base, and the contributions of stages in site order. Fails with an error of the node block, the
// base or the identity, before any stage runs (a check goes on); and with the errors of stages, except those that a
// null fact causes in a label or a taint.
func decide(in decideInput) (Decided, Findings) {
	identity, found := decodeNodeBlock(in.checked.site, in.eval)
	in.basis.identity, in.basis.readDropIns, in.basis.start = identity, in.readDropIns, in.readStart()
	in.basis.unknown = in.basis.unknown.join(found.Unknown)

	out := Decided{eval: in.eval}
	for _, i := range in.checked.order {
		baser, ok := i.Stage.(stages.Baser)
		if !ok {
			continue
		}
		base, hadErrors, more := in.readBase(i, baser, in.isBroken || found.Diags.HasErrors())
		in.basis.base, out.hadBaseErrors = base, map[string]bool{i.Addr(): hadErrors}
		in.basis.unknown = in.basis.unknown.join(more.Unknown)
		found = found.join(more)
	}

	aside, kubelet, diags := settleIdentity(in.basis, in.eval.Checking())
	in.basis.kubelet = kubelet
	found.report(diags...)
	out.aside, out.basis = aside, in.basis
	if found.Diags.HasErrors() && !in.eval.Checking() {
		return out, found
	}

	all := in.runStages()
	out.eval, out.basis.unknown = all.eval, all.unknown
	out.contributions, out.maybe = all.contributions, all.maybe

	return out, found.join(all.Findings)
}

// decidedStages is what all decide stages come to.
type decidedStages struct {
	eval          *eval.Eval // with their outputs
	unknown       unknowns
	contributions []node.Contribution   // in site order
	maybe         [][]node.Contribution // in site order
	Findings                            // in the order of running
}

// runStages runs the decide stages.
func (in decideInput) runStages() decidedStages {
	failed := maps.Clone(in.failed)
	if failed == nil {
		failed = map[string]bool{}
	}
	byStage, found := map[string]decidedStage{}, map[string]Findings{}
	for _, i := range in.checked.order {
		if i.Spec.Phase != schema.Decide {
			continue
		}
		one := in.runStage(i, failed)
		byStage[i.Addr()], found[i.Addr()] = one, one.Findings
		failed[i.Addr()] = one.isFatal
		in.eval = in.eval.With(map[string]cty.Value{i.Addr(): one.output})
		in.basis.unknown = in.basis.unknown.join(one.Unknown)
	}

	out := decidedStages{
		eval: in.eval, unknown: in.basis.unknown, Findings: joinInOrder(in.checked.order, found),
	}
	for _, i := range in.checked.site.Stages {
		one := byStage[i.Addr()]
		out.contributions = append(out.contributions, one.adds...)
		if len(one.maybe) > 0 {
			out.maybe = append(out.maybe, one.maybe)
		}
	}

	return out
}

// decidedStage is what one decide stage comes to.
type decidedStage struct {
	output      cty.Value           // with state
	adds, maybe []node.Contribution // maybe: in a check, where it is unknown whether the stage is there
	isFatal     bool                // failed for good: what needs it fails too
	Findings
}

// runStage runs one decide stage: its copies, what each adds, and its output. A stage that needs one that failed for
// good fails without a message of its own.
func (in decideInput) runStage(i *site.Instance, failed map[string]bool) decidedStage {
	t, started := in.checked.types[i.Addr()], in.now()
	if slices.ContainsFunc(in.checked.needs[i.Addr()], func(n string) bool { return failed[n] }) {
		found := Findings{Stages: []StageReport{{i.Addr(), stateFailed, 0}}}
		return decidedStage{output: makeFailedOutput(i, t), isFatal: true, Findings: found}
	}

	copies, diags := in.stageScope(i).Copies(i.When, i.ForEach)
	out := decidedStage{output: makeFailedOutput(i, t)}
	out.addDiags(i, diags)
	state := stateFailed
	if !diags.HasErrors() {
		all := in.runCopies(i, copies.All)
		for _, one := range all {
			out.addDiags(i, one.diags)
			out.Unknown = out.Unknown.join(one.unknown)
		}
		state = combineStates(i, all)
		out.output = combineOutputs(i, t, copies, all)
		out.adds, out.maybe = in.sortAdditions(copies.Known, all)
		if !copies.Known {
			out.Unknown = out.Unknown.join(newUnknowns(copies.Unread, listParts(i.Type)...))
		}
	}
	out.Stages = []StageReport{{i.Addr(), state, in.now().Sub(started)}}

	return out
}

// stageScope returns the scope of a decide stage. In a label and in a taint, what a null fact breaks is left out.
func (in decideInput) stageScope(i *site.Instance) eval.Scope {
	scope := in.eval.Scope(i.Addr())
	if i.Type == "label" || i.Type == "taint" {
		return scope.Soft()
	}

	return scope
}

// addDiags adds what a stage found. Errors that a null fact caused in a label or a taint become warnings, and the
// boot is degraded; any other error is fatal.
func (out *decidedStage) addDiags(i *site.Instance, ds hcl.Diagnostics) {
	for _, d := range ds {
		if eval.LeftOut(d) {
			out.degrade(fault.NullFact,
				fmt.Sprintf("stage %s left something out, for a fact is null: %s", i.Addr(), describePlace(d)))
		}
	}
	out.report(eval.Soften(ds)...)
	if ds.HasErrors() && !eval.AllSoft(ds) {
		out.isFatal = true
	}
}

// decidedCopy is what one copy of a decide stage comes to.
type decidedCopy struct {
	key     string
	adds    node.Contribution
	output  cty.Value // with state
	unknown unknowns
	diags   hcl.Diagnostics
}

func (in decideInput) runCopies(i *site.Instance, copies []eval.Copy) (out []decidedCopy) {
	for _, c := range copies {
		out = append(out, in.runCopy(i, c))
	}

	return out
}

// runCopy runs one copy of a decide stage.
func (in decideInput) runCopy(i *site.Instance, c eval.Copy) decidedCopy {
	t := in.checked.types[i.Addr()]
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
	cfg.Key = c.Key
	out := decidedCopy{key: c.Key, output: setState(value.Absent(t), stateFailed), diags: diags}
	if diags.HasErrors() {
		return out
	}

	adds, o, more := in.callDecider(i, cfg, t)
	out.diags = append(diags, more...)
	if more.HasErrors() {
		return out
	}

	adds.Stage = i.Addr()
	out.adds = adds
	questions := slices.Concat(cfg.Unread(), value.Questions(o.Value))
	out.output = setState(value.Because(o.Value, questions), stateOK)
	if len(questions) > 0 { // it might have failed
		out.output = makeUnreadOutput(out.output, questions)
	}
	if !cfg.Known() || !o.Value.IsWhollyKnown() {
		out.unknown = newUnknowns(questions, listParts(i.Type)...)
	}

	return out
}

// callDecider calls a decide stage. The stage reserve computes from the hardware itself, so it is not called where a
// recording has no facts.
func (in decideInput) callDecider(i *site.Instance, cfg schema.Body, t cty.Type) (
	node.Contribution, stages.Output, hcl.Diagnostics,
) {
	if facts := in.basis.unknown[partFacts]; i.Type == "reserve" && len(facts) > 0 {
		return node.Contribution{}, stages.Output{Value: value.Because(value.UnknownOutput(t), facts)},
			hcl.Diagnostics{origin.NotRead(i.Range, "what is reserved", facts)}
	}

	if hw := in.checked.site.OfType("detect-hw"); i.Type == "reserve" && in.basis.facts == nil && len(hw) == 1 && !in.eval.Checking() {
		return node.Contribution{}, stages.Output{Value: value.UnknownOutput(t)}, hcl.Diagnostics{origin.Error(
			fault.ReserveRefused, i.Range, "The machine is not known, so nothing can be reserved",
			"Stage %s did not give its facts: see its own message. on_failure = \"continue\" goes on without them, "+
				"and what could not be read must never reserve 0.", hw[0].Addr())}
	}

	return i.Stage.(stages.Decider).Decide(cfg, in.basis.stageInputs(i, in.checked.site, in.eval))
}

// combineStates returns the state of a stage: failed if one of its copies failed, skipped if there is none.
func combineStates(i *site.Instance, copies []decidedCopy) string {
	switch {
	case slices.ContainsFunc(copies, func(c decidedCopy) bool { return c.diags.HasErrors() }):
		return stateFailed
	case len(copies) == 0 && i.ForEach == nil:
		return stateSkipped
	}

	return stateOK
}

// combineOutputs returns the output of a stage: by key with for_each, unknown where it is unknown whether the stage is
// there.
func combineOutputs(i *site.Instance, t cty.Type, copies eval.Copies, all []decidedCopy) cty.Value {
	switch {
	case !copies.Known:
		return value.Because(makeUnknownOutput(i, t), copies.Unread)
	case i.ForEach == nil && len(all) == 1:
		return all[0].output
	case i.ForEach == nil:
		return setState(value.Absent(t), stateSkipped)
	}

	outputs := map[string]cty.Value{}
	for _, c := range all {
		outputs[c.key] = c.output
	}

	return makeObject(outputs)
}

// sortAdditions returns what copies without an error add to the node. Where it is unknown whether they are there they
// add nothing, and in a check they may add it.
func (in decideInput) sortAdditions(isKnown bool, copies []decidedCopy) (adds, maybe []node.Contribution) {
	for _, c := range copies {
		switch {
		case c.diags.HasErrors():
		case isKnown:
			adds = append(adds, c.adds)
		case in.eval.Checking():
			maybe = append(maybe, c.adds)
		}
	}

	return adds, maybe
}

// suggestNodeName returns a sentence with a valid name that is near to one that is not; "" if there is none.
func suggestNodeName(name string) string {
	near := strings.Trim(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "-. ")
	if len(content.IsDNS1123Subdomain(near)) > 0 {
		return ""
	}
	return fmt.Sprintf(" Write %q.", near)
}

// decodeNodeBlock decodes the node block, and checks the name and the address in it.
func decodeNodeBlock(s *site.Site, e *eval.Eval) (stages.NodeIdentity, Findings) {
	var out stages.NodeIdentity
	if s.Node == nil {
		return out, Findings{}
	}
	b, diags := schema.NodeBlock.Decode(s.Node, nil, e.Scope("node"))
	if v := schema.NodeNameAttr.Of(b); v.Set() {
		out.Name, out.NameRange = &v.V, v.Range
		if why := content.IsDNS1123Subdomain(v.V); len(why) > 0 {
			diags = append(diags, origin.Error(fault.NodeName, v.Range, fmt.Sprintf("%q is not a valid node name", v.V),
				"It has lower case letters, digits, - and ., and begins and ends with a letter or a digit.%s", suggestNodeName(v.V)))
			out.Name = nil // said once: the kubelet's rules would refuse it again
		}
	}
	if v := schema.NodeIP.Of(b); v.Set() {
		out.IP, out.IPRange = &v.V, v.Range
		if err := checkNodeIP(v.V); err != nil {
			diags = append(diags, origin.Error(fault.NodeName, v.Range, fmt.Sprintf("%q is no address of a node", v.V),
				"%s. --node-ip takes one, or an IPv4 and an IPv6 address with a comma between.", err))
			out.IP = nil // said once, too
		}
	}

	if v := schema.NodeTakeover.Of(b); v.Set() {
		out.Takeover = v.V
		if r := e.Reach(v.Expr); v.V && !r.Vars && !r.Asks && len(r.Stages) == 0 {
			diags = append(diags, origin.Warning(fault.NodeNameTaken, v.Range, "Every machine may take a name over",
				"takeover = true is for one machine and one boot: two machines of one name would not be found. "+
					"Write a variable here, or use `prelet run --takeover`."))
		}
	}

	return out, Findings{Diags: diags, Unknown: findUnknown(b, partFlags)}
}

// checkNodeIP checks what --node-ip takes (k8s.io/component-helpers, ParseNodeIPArgument): one address, or one of each
// family.
func checkNodeIP(s string) error {
	var all []netip.Addr
	for _, p := range strings.Split(s, ",") {
		a, err := netip.ParseAddr(p)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf("%q is no IP address", p)
		}
		all = append(all, a)
	}
	if len(all) > 2 || len(all) == 2 && all[0].Is4() == all[1].Is4() {
		return errors.New("these are too many of a family")
	}
	return nil
}

// readBase asks a renderer for the base, the node before decide stages. hadErrors: its configuration has an error. With
// isBroken only the configuration is decoded.
func (in decideInput) readBase(i *site.Instance, b stages.Baser, isBroken bool) (
	base node.Base, hadErrors bool, found Findings,
) {
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, in.eval.Scope(i.Addr()).Only(schema.Gather), i.Range)
	found.report(diags...)
	if isBroken || diags.HasErrors() {
		return base, diags.HasErrors(), found
	}

	base, diags = b.Base(cfg, in.basis.stageInputs(i, in.checked.site, in.eval), in.readOriginal)
	found.report(blameServer(in.checked.site, base, diags)...)
	if _, ok := cfg.One("kubelet_config"); ok && !base.ConfigKnown {
		found.Unknown = found.Unknown.join(newUnknowns(base.Unread, partConfig, partReserved, partTaints))
	}
	if _, ok := cfg.One("kubelet_flags"); ok && !base.FlagsKnown {
		found.Unknown = found.Unknown.join(newUnknowns(base.Unread, partFlags, partLabels, partTaints))
	}

	return base, false, found
}

// readOriginal asks what a managed file held before prelet.
func (in decideInput) readOriginal(path string) (world.TargetAns, error) {
	if in.tape == nil {
		return world.TargetAns{}, &fault.Fault{Code: fault.Unread, Why: "no machine is at hand"}
	}
	a, _, err := world.Original.Ask(in.eval.AskContext(), in.tape, world.OriginalReq{Path: path})

	return a, err
}

// describePlace returns where a diagnostic points, as FILE:LINE:COLUMN; its summary where it points nowhere.
func describePlace(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return d.Summary
	}

	return fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
}

func sortKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
