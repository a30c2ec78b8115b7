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
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// basis is what decide and render stages go by, beside their configuration.
type basis struct {
	facts       *world.Facts
	recommended map[string]map[string]string // by detector
	trust       *world.TrustAns
	kubelet     world.KubeletAns
	access      world.Access
	identity       stages.NodeIdentity
	base        node.Base
	unknown     unknowns
}

// inputs are those of one stage.
func (b basis) stageInputs(i *site.Instance, s *site.Site, e *eval.Eval) stages.Inputs {
	return stages.Inputs{
		Address: i.Addr(), Facts: b.facts, Recommended: b.recommended, Base: b.base, Kubelet: b.kubelet, Node: b.identity,
		Access: b.access, Trust: b.trust, Check: e.Checking(), Unread: b.unknown.toUnread(), Detectors: sortKeys(s.Detectors),
	}
}

// decision is what decide goes by.
type decideInput struct {
	checked Checked
	eval    *eval.Eval
	tape    *world.Tape // answers what a target held before prelet; nil in a check
	now     func() time.Time
	failed   map[string]bool // gather stages that failed for good
	hasErrors  bool            // a check goes on although something is wrong: the base is not read then
	basis   basis
}

// Decided is what the node is before decide, and what stages add to it.
type Decided struct {
	eval  *eval.Eval // with the outputs of decide stages
	basis basis      // with the base and the node block
	aside *Aside     // an identity that is set aside; nil: none
	// contributions are in site order. Each of maybe is what a stage adds in a check if it is there.
	contributions []node.Contribution
	maybe         [][]node.Contribution
	// said are the stages whose configuration was read for the base: what was wrong with it then is said.
	hadBaseErrors map[string]bool // by address, and whether it had an error
}

// decide asks renderers what the node is before, then runs the decide stages: dependencies first, then site order.
// What they add and find is laid together in site order.
func decide(in decideInput) (Decided, Findings) {
	out := Decided{eval: in.eval}
	ident, found := decodeNodeBlock(in.checked.site, in.eval)
	in.basis.identity = ident
	in.basis.unknown = in.basis.unknown.join(found.Unknown)

	for _, i := range in.checked.order {
		b, ok := i.Stage.(stages.Baser)
		if !ok {
			continue
		}
		base, failed, more := in.readBase(i, b, in.hasErrors || found.Diags.HasErrors())
		in.basis.base, out.hadBaseErrors = base, map[string]bool{i.Addr(): failed}
		in.basis.unknown = in.basis.unknown.join(more.Unknown)
		found = found.join(more)
	}

	aside, k, diags := settleIdentity(in.basis, in.eval.Checking())
	out.aside, in.basis.kubelet = aside, k
	found.report(diags...)
	out.basis = in.basis
	if found.Diags.HasErrors() && !in.eval.Checking() {
		return out, found
	}

	return out, found.join(in.runStages(&out))
}

// stages runs the decide stages.
func (in decideInput) runStages(out *Decided) Findings {
	fatal := map[string]bool{}
	maps.Copy(fatal, in.failed)
	by, found := map[string]decidedStage{}, map[string]Findings{}
	for _, i := range in.checked.order {
		if i.Spec.Phase != schema.Decide {
			continue
		}
		d := in.runStage(i, fatal)
		by[i.Addr()], found[i.Addr()] = d, d.Findings
		if d.isFatal {
			fatal[i.Addr()] = true
		}
		in.eval = in.eval.With(map[string]cty.Value{i.Addr(): d.output})
		in.basis.unknown = in.basis.unknown.join(d.Unknown)
	}
	out.eval, out.basis.unknown = in.eval, in.basis.unknown
	for _, i := range in.checked.site.Stages {
		d := by[i.Addr()]
		if out.contributions = append(out.contributions, d.adds...); len(d.maybe) > 0 {
			out.maybe = append(out.maybe, d.maybe)
		}
	}

	return joinInOrder(in.checked.order, found)
}

// decidedStage is what one decide stage comes to.
type decidedStage struct {
	output      cty.Value // with state
	adds, maybe []node.Contribution
	isFatal       bool
	Findings
}

// stage is one decide stage: its copies, what each adds, and its output. One that needs a stage that failed for good
// has failed too, without a message of its own.
func (in decideInput) runStage(i *site.Instance, fatal map[string]bool) decidedStage {
	t, started := in.checked.types[i.Addr()], in.now()
	if slices.ContainsFunc(in.checked.needs[i.Addr()], func(n string) bool { return fatal[n] }) {
		found := Findings{Stages: []StageReport{{i.Addr(), stateFailed, 0}}}
		return decidedStage{output: makeFailedOutput(i, t), isFatal: true, Findings: found}
	}

	copies, diags := in.stageScope(i).Copies(i.When, i.ForEach)
	out := decidedStage{}
	state := out.addDiags(i, diags)
	var all []decidedCopy
	if state == stateOK {
		for _, c := range copies.All {
			one := in.runCopy(i, c, t)
			if out.addDiags(i, one.diags) == stateFailed {
				state = stateFailed
			}
			out.Unknown = out.Unknown.join(one.unknown)
			all = append(all, one)
		}
		out.setOutput(i, t, copies, all, in.eval.Checking())
		if len(all) == 0 && i.ForEach == nil {
			state = stateSkipped
		}
	} else {
		out.output = makeFailedOutput(i, t)
	}
	out.Stages = []StageReport{{i.Addr(), state, in.now().Sub(started)}}

	return out
}

// scope is that of a decide stage: in a label and in a taint what a null fact breaks is left out.
func (in decideInput) stageScope(i *site.Instance) eval.Scope {
	s := in.eval.Scope(i.Addr())
	if i.Type == "label" || i.Type == "taint" {
		return s.Soft()
	}

	return s
}

// take makes the output of a stage of those of its copies, and keeps what they add. What may not be there is not there,
// and not gone.
func (out *decidedStage) setOutput(i *site.Instance, t cty.Type, copies eval.Copies, all []decidedCopy, checking bool) {
	values := map[string]cty.Value{}
	for _, c := range all {
		values[c.key] = c.output
		switch {
		case c.diags.HasErrors():
		case copies.Known:
			out.adds = append(out.adds, c.adds)
		case checking:
			out.maybe = append(out.maybe, c.adds)
		}
	}

	switch {
	case !copies.Known:
		out.Unknown = out.Unknown.join(newUnknowns(copies.Unread, listParts(i.Type)...))
		out.output = value.Because(makeUnknownOutput(i, t), copies.Unread)
	case i.ForEach != nil:
		out.output = makeObject(values)
	case len(all) == 1:
		out.output = values[""]
	default:
		out.output = setState(value.Absent(t), stateSkipped)
	}
}

// settle says what a stage found. Errors that a null fact caused in a label or a taint are warnings, and the boot is
// degraded.
func (out *decidedStage) addDiags(i *site.Instance, ds hcl.Diagnostics) (state string) {
	for _, d := range ds {
		if eval.LeftOut(d) {
			out.degrade(fault.NullFact, fmt.Sprintf("stage %s left something out, for a fact is null: %s", i.Addr(), describePlace(d)))
		}
	}
	out.report(eval.Soften(ds)...)
	if !ds.HasErrors() {
		return stateOK
	}
	out.isFatal = out.isFatal || !eval.AllSoft(ds)

	return stateFailed
}

// decidedCopy is what one copy of a decide stage comes to.
type decidedCopy struct {
	key     string
	adds    node.Contribution
	output  cty.Value // with state
	unknown unknowns
	diags   hcl.Diagnostics
}

// copy is one copy of a decide stage.
func (in decideInput) runCopy(i *site.Instance, c eval.Copy, t cty.Type) decidedCopy {
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
	cfg.Key = c.Key
	failed := decidedCopy{key: c.Key, output: setState(value.Absent(t), stateFailed)}
	if failed.diags = diags; diags.HasErrors() {
		return failed
	}
	adds, o, more := in.callDecider(i, cfg, t)
	if failed.diags = append(diags, more...); more.HasErrors() {
		return failed
	}

	adds.Stage = i.Addr()
	questions := slices.Concat(cfg.Unread(), value.Questions(o.Value))
	out := decidedCopy{key: c.Key, adds: adds, diags: failed.diags}
	out.output = setState(value.Because(o.Value, questions), stateOK)
	if len(questions) > 0 { // it might have failed
		out.output = makeUnreadOutput(out.output, questions)
	}
	if !cfg.Known() || !o.Value.IsWhollyKnown() {
		out.unknown = newUnknowns(questions, listParts(i.Type)...)
	}

	return out
}

// ask asks a decide stage. One that computes from the hardware itself cannot, where a recording does not tell it.
func (in decideInput) callDecider(i *site.Instance, cfg schema.Body, t cty.Type) (
	node.Contribution, stages.Output, hcl.Diagnostics,
) {
	if facts := in.basis.unknown[partFacts]; i.Type == "reserve" && len(facts) > 0 {
		return node.Contribution{}, stages.Output{Value: value.Because(value.UnknownOutput(t), facts)},
			hcl.Diagnostics{origin.NotRead(i.Range, "what is reserved", facts)}
	}

	return i.Stage.(stages.Decider).Decide(cfg, in.basis.stageInputs(i, in.checked.site, in.eval))
}

// identity decodes the node block.
func decodeNodeBlock(s *site.Site, e *eval.Eval) (stages.NodeIdentity, Findings) {
	var out stages.NodeIdentity
	if s.Node == nil {
		return out, Findings{}
	}
	b, diags := schema.NodeBlock.Decode(s.Node, nil, e.Scope("node"))
	if v := schema.NodeNameAttr.Of(b); v.Set() {
		out.Name, out.NameRange = &v.V, v.Range
		if why := content.IsDNS1123Subdomain(v.V); len(why) > 0 {
			diags = append(diags, origin.Error(fault.NodeName, v.Range, fmt.Sprintf("%q is no name of a node", v.V),
				"%s", stages.Sentence(strings.Join(why, "; "))))
		}
	}
	if v := schema.NodeIP.Of(b); v.Set() {
		out.IP, out.IPRange = &v.V, v.Range
		if err := checkNodeIP(v.V); err != nil {
			diags = append(diags, origin.Error(fault.NodeName, v.Range, fmt.Sprintf("%q is no address of a node", v.V),
				"%s. --node-ip takes one, or an IPv4 and an IPv6 address with a comma between.", err))
		}
	}

	return out, Findings{Diags: diags, Unknown: findUnknown(b, partFlags)}
}

// addresses checks what --node-ip takes (k8s.io/component-helpers, ParseNodeIPArgument): one address, or one of each
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

// readBase asks a renderer what the node is before decide. Failed says that its configuration has an error.
func (in decideInput) readBase(i *site.Instance, b stages.Baser, broken bool) (base node.Base, failed bool, out Findings) {
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, in.eval.Scope(i.Addr()).Only(schema.Gather), i.Range)
	out.report(diags...)
	if broken || diags.HasErrors() {
		return base, diags.HasErrors(), out
	}
	base, diags = b.Base(cfg, in.basis.stageInputs(i, in.checked.site, in.eval), in.readOriginal)
	out.report(blameServer(in.checked.site, base, diags)...)
	if _, ok := cfg.One("kubelet_config"); ok && !base.ConfigKnown {
		out.Unknown = out.Unknown.join(newUnknowns(base.Unread, partConfig, partReserved, partTaints))
	}
	if _, ok := cfg.One("kubelet_flags"); ok && !base.FlagsKnown {
		out.Unknown = out.Unknown.join(newUnknowns(base.Unread, partFlags, partLabels, partTaints))
	}

	return base, false, out
}

// original answers what a target held before prelet.
func (in decideInput) readOriginal(path string) (world.TargetAns, error) {
	if in.tape == nil {
		return world.TargetAns{}, &fault.Fault{Code: fault.Unread, Why: "no machine is at hand"}
	}
	a, _, err := world.Original.Ask(in.eval.AskContext(), in.tape, world.OriginalReq{Path: path})

	return a, err
}

// placeOf is where a diagnostic points, in words.
func describePlace(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return d.Summary
	}
	return fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
}

func sortKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
