package evaluate

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/removal"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Rendered is the result of render: the finished node, with its files and the activation of the kubelet.
type Rendered struct {
	eval   *eval.Eval // with the node and the outputs of render stages
	node   desired.Node
	files  *effective.Files // nil: a stage has reported why they cannot be merged
	isDone bool             // all render stages have run
}

// renderer is the input of all render stages.
type renderer struct {
	checked Checked
	decided Decided
	now     func() time.Time
}

// renderedNode is the node after some of the render stages.
type renderedNode struct {
	desired.Node
	added     []desired.Contribution // by render stages, in their order
	isChecked bool                   // the finished node has been checked
}

type renderedStage struct {
	output cty.Value // with state
	state  string
	node   renderedNode // with the additions and files of the stage; unchanged if the stage failed
	Findings
}

// render merges the contributions of decide stages, then runs the render stages: write and restart turn the node
// into files and into a policy. The additions of a render stage to the node are merged before it renders, and of
// that merge only the messages about the additions are reported.
//
// Inputs: the order of stages, what decide returned, the scope. Result: the finished node. Fails with conflicts
// between stages, with an error of a stage's configuration, and with a refusal of a stage; the first failed stage
// ends render, except in a check.
func render(
	c Checked,
	d Decided,
	e *eval.Eval,
	now func() time.Time,
) (Rendered, Findings) {
	merged, messages := desired.Merge(d.basis.Base, d.contributions)
	merged, refused := effective.Finish(d.basis, merged, false)
	found := newFindings(append(messages.From(0), checkMaybe(d)...)...)

	r := renderer{checked: c, decided: d, now: now}
	n := renderedNode{Node: merged}
	isLeftOut := false
	for _, i := range orderRenderers(c) {
		reserved := computeOwnReserved(n.Node, d.basis, e.IsPartial())
		one := r.runStage(i, withNode(e, n.Node, d.basis).WithReserved(reserved), n)
		n = one.node
		found.add(one.Findings)
		isSkipped := one.state == stateSkipped && one.output.IsWhollyKnown()
		isLeftOut = isLeftOut || i.Type == stages.Write && isSkipped
		e = withOutput(e, i, one.output)

		if found.Diags.HasErrors() && !e.Checking() {
			return Rendered{eval: e, node: n.Node}, found
		}
	}

	if !n.isChecked { // no render stage added to the node
		found.Report(refused...)
	}
	if !n.isChecked && isLeftOut && !found.Diags.HasErrors() {
		found.add(d.refuseLost(c.site))
	}
	found.Report(hostfiles.CheckUnits(n.Node)...)

	out := Rendered{eval: withNode(e, n.Node, d.basis), isDone: true}
	if files, err := effective.Merge(d.basis, n.Node); err == nil { // with the drop-ins of the site
		n.Effective = files.Merged.Effective(n.Flags)
		out.files = &files
	}
	out.node = n.Node

	return out, found
}

// refuseLost refuses contributions of decide stages in a site that leaves its stage write out.
func (d Decided) refuseLost(s *lang.Site) (found Findings) {
	for _, c := range d.contributions {
		items := len(c.Labels) +
			len(c.Taints) +
			len(c.Flags) +
			len(c.Settings)
		isEmpty := items == 0 && c.Reserved == nil
		if i := s.Stage(c.Stage); i != nil && !isEmpty {
			writer := s.OfType(stages.Write)[0].Addr()
			return newFindings(removal.RefuseNotWritten(
				i, "stage."+writer+", which writes them, is left out here (when). Write the same when in both",
			))
		}
	}

	return found
}

// orderRenderers returns the render stages in their order, but first the stages that add to the node, and the
// stages that these need: the other stages see the finished node, wherever they are in the site.
func orderRenderers(c Checked) []*lang.Instance {
	isEarly := map[string]bool{}
	for _, i := range slices.Backward(c.order) {
		if _, ok := i.Stage.(stages.Adder); ok || isEarly[i.Addr()] {
			isEarly[i.Addr()] = true
			for _, needed := range c.needs[i.Addr()] {
				isEarly[needed] = true
			}
		}
	}

	var early, late []*lang.Instance
	for _, i := range c.order {
		switch {
		case i.Spec.Phase != schema.Render:
		case isEarly[i.Addr()]:
			early = append(early, i)
		default:
			late = append(late, i)
		}
	}

	return append(early, late...)
}

// checkMaybe merges, in a check, the contributions of stages whose condition is unknown. It merges one stage at a
// time, because the conditions of two stages may exclude each other.
func checkMaybe(d Decided) (diags hcl.Diagnostics) {
	for _, adds := range d.maybe {
		_, messages := desired.Merge(d.basis.Base, slices.Concat(d.contributions, adds))
		diags = append(diags, messages.From(len(d.contributions))...)
	}

	return diags
}

func (r renderer) runStage(i *lang.Instance, e *eval.Eval, n renderedNode) renderedStage {
	started := r.now()
	t := r.checked.types[i.Addr()]
	copies, diags := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	out := renderedStage{
		output: setState(value.Absent(t), stateSkipped),
		state:  stateSkipped,
		node:   n,
	}
	out.Report(diags...)
	if !copies.Known && !e.Checking() {
		copies.All = nil
		out.output = makeUnknownOutput(i, t)
	}

	for _, c := range copies.All {
		one := r.runCopy(i, c, e, out.node)
		one.Findings = out.join(one.Findings)
		if out = one; out.state == stateFailed {
			break
		}
	}
	took := r.now().Sub(started)
	out.Stages = []StageReport{{i.Addr(), out.state, took}}

	if !copies.Known { // in a check, its condition may be false
		out.node.Units = n.Units
		out.Diags = slices.DeleteFunc(out.Diags, isPrecondition)
	}

	return out
}

func (r renderer) runCopy(
	i *lang.Instance,
	c eval.Copy,
	e *eval.Eval,
	n renderedNode,
) renderedStage {
	t := r.checked.types[i.Addr()]
	out := renderedStage{
		output: setState(value.Absent(t), stateSkipped),
		state:  stateFailed,
		node:   n,
	}
	cfg, diags := r.decode(i, c)
	out.Report(diags...)
	if r.decided.hadBaseErrors[i.Addr()] || diags.HasErrors() {
		return out
	}

	in := makeInputs(r.decided.basis, i, r.checked.site)
	limit, more := decodeActivationLimit(i, c.Scope)
	in.Timeout = limit
	out.Findings = out.join(more)
	o, rendered, isOK, diags := r.addAndRender(i, cfg, in, n)
	out.Report(diags...)
	out.degradeForConditions(diags)
	out.node = rendered
	if !isOK {
		return out
	}

	out.state = stateOK
	out.output = setState(o.Value, stateOK)
	out.Report(checkKnown(e, i, o.Value)...)

	return out
}

// decode decodes the configuration of a copy. If the configuration was decoded for the base before, only
// diagnostics of the other attributes are returned.
func (r renderer) decode(i *lang.Instance, c eval.Copy) (schema.Body, hcl.Diagnostics) {
	scope := c.Scope
	if _, wasRead := r.decided.hadBaseErrors[i.Addr()]; wasRead {
		scope = scope.After(schema.Gather)
	}

	return decodeStage(i, scope)
}

// decodeActivationLimit decodes the timeout of a stage whose timeout bounds the activation, and not the stage
// itself.
func decodeActivationLimit(i *lang.Instance, scope eval.Scope) (limit schema.Value[string], found Findings) {
	if i.Spec.Bounds == nil || i.Timeout == nil {
		return limit, found
	}
	limit, diags := i.Spec.Bounds.Decode(i.Timeout, scope)

	return limit, newFindings(diags...)
}

// addAndRender lets a stage add to the node, merges the additions, and lets the stage render the merged node. It
// returns the node as it was if the stage failed; a check continues with the node all the same.
func (r renderer) addAndRender(i *lang.Instance, cfg schema.Body, in stages.Inputs, was renderedNode) (
	o stages.Output, n renderedNode, isOK bool, diags hcl.Diagnostics,
) {
	n = was
	var added, conflicts hcl.Diagnostics
	if a, ok := i.Stage.(stages.Adder); ok {
		var c desired.Contribution
		c, added = a.Add(cfg, n.Node, in)
		c.Stage = i.Addr()
		n, conflicts = r.merge(n, c)
	}
	in.Refused = added.HasErrors() || conflicts.HasErrors()

	rendering, o, rendered := i.Stage.(stages.Renderer).Render(cfg, n.Node, in)
	files := n.Files
	var duplicates hcl.Diagnostics
	if len(rendering.Files) > 0 {
		files, duplicates = desired.MergeFiles(slices.Concat(files, rendering.Files))
	}
	diags = slices.Concat(added, rendered, conflicts, duplicates)
	if (in.Refused || rendered.HasErrors()) && !in.Check {
		if origin.Code(slices.DeleteFunc(slices.Clone(diags), isPrecondition)) == "" {
			was.Activation = rendering.Activation // the holds of a run that fails are as true as those of another
		}

		return o, was, false, diags
	}

	n.Files = files
	if rendering.Activation != nil {
		n.Activation = rendering.Activation
	}
	if rendering.Unit != nil {
		n.Units = append(slices.Clip(n.Units), *rendering.Unit)
	}

	return o, n, true, diags
}

func isPrecondition(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.Precondition }

// merge adds a contribution to the node, and finishes the result. It returns the messages about that contribution,
// and about the finished node.
func (r renderer) merge(n renderedNode, c desired.Contribution) (renderedNode, hcl.Diagnostics) {
	before := slices.Concat(r.decided.contributions, n.added)
	merged, messages := desired.Merge(r.decided.basis.Base, append(before, c))
	merged, refused := effective.Finish(r.decided.basis, merged, true)
	merged.Files = n.Files
	merged.Activation = n.Activation
	merged.Units = n.Units
	out := renderedNode{
		Node:      merged,
		added:     append(slices.Clip(n.added), c),
		isChecked: true,
	}

	return out, append(messages.From(len(before)), refused...)
}

// withNode returns a scope with the merged node.
func withNode(e *eval.Eval, n desired.Node, b stages.Inputs) *eval.Eval {
	isPartial := e.IsPartial()

	return e.WithLazyNode(sync.OnceValue(func() cty.Value {
		return computeNodeValue(n, b, isPartial)
	}))
}

// computeNodeValue returns the merged node as sites see it.
func computeNodeValue(n desired.Node, b stages.Inputs, isPartial bool) cty.Value {
	if isPartial && b.Facts == nil {
		return cty.UnknownVal(eval.NodeType())
	}
	v := makeNodeValue(n)
	if !isPartial {
		return v
	}

	// A sample machine has no base, so the parts that a base adds to are unknown.
	m := v.AsValueMap()
	if !b.Base.ConfigKnown {
		m["kubelet_config"] = cty.DynamicVal
	}
	if !b.Base.FlagsKnown {
		for _, k := range []string{"labels", "flags", "taints"} {
			m[k] = cty.UnknownVal(m[k].Type())
		}
	}

	return cty.ObjectVal(m)
}

// makeNodeValue returns `node` as expressions see it; plan JSON has the same names.
func makeNodeValue(n desired.Node) cty.Value {
	labels := map[string]string{}
	flags := map[string]string{}
	for _, l := range n.Labels {
		labels[l.Key] = l.Value
	}
	for _, f := range n.Flags {
		flags[f.Name] = f.Value
	}

	var taints []string
	for _, t := range n.Taints {
		taints = append(taints, t.String())
	}

	config, err := codec.FromGo(n.Config)
	if err != nil || n.Config == nil {
		config = cty.EmptyObjectVal
	}

	return cty.ObjectVal(map[string]cty.Value{
		"labels":         value.StringMap(labels),
		"flags":          value.StringMap(flags),
		"taints":         value.StringList(taints),
		"kubelet_config": config,
		"reserved":       n.Reserved.Value(eval.NodeType().AttributeType("reserved")),
	})
}

// computeOwnReserved returns node.reserved as preconditions see it without a stage reserve: the reservation of the
// kubelet's effective configuration, flags included. cty.NilVal: they see that of the node.
func computeOwnReserved(n desired.Node, b stages.Inputs, isPartial bool) cty.Value {
	if n.Reserved != nil || n.Effective == nil {
		return cty.NilVal
	}
	t := eval.NodeType().AttributeType("reserved")
	if isPartial { // the base of a sample machine is not known, nor whether a stage is left out
		return cty.UnknownVal(t)
	}

	cpus := int64(0)
	hasCPUs := b.Facts != nil && b.Facts.CPU.Logical != nil
	if hasCPUs {
		cpus = int64(*b.Facts.CPU.Logical)
	}

	attributes := stages.ReadReserved(n.Effective, n.Flags, cpus).Value(t).AsValueMap()
	unset := []string{"policy", "allocatable"} // allocatable is not computed: a condition over an empty map would pass
	if _, isPerCore := n.Effective["podsPerCore"]; isPerCore && !hasCPUs {
		unset = append(unset, "max_pods") // it depends on the number of CPUs
	}
	for _, name := range unset {
		attributes[name] = cty.NullVal(t.AttributeType(name))
	}

	return cty.ObjectVal(attributes)
}
