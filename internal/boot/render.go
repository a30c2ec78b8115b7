package boot

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Rendered is the result of render: the finished node, with its files and what apply shall do with the kubelet.
type Rendered struct {
	eval   *eval.Eval // with the node and the outputs of render stages
	node   node.Node
	isDone bool // every render stage had its turn
}

// renderer has what all render stages work with.
type renderer struct {
	checked Checked
	decided Decided
	now     func() time.Time
}

// renderedNode is the node as render stages have left it so far.
type renderedNode struct {
	node.Node
	added     []node.Contribution // by render stages, in their order
	isChecked bool                // the finished node has been checked
}

// renderedStage is the result of one render stage.
type renderedStage struct {
	output cty.Value // with state
	state  string
	node   renderedNode // with what the stage added and rendered; as it was before if the stage failed
	Findings
}

// render merges what decide stages added, then runs the render stages: write and restart turn the node into files and
// into a policy. What a render stage adds to the node itself is merged before it renders, and of that merge only the
// messages about the addition are reported.
//
// Inputs: the order of stages, what decide returned, the scope. Result: the finished node. Fails with conflicts between
// stages, with an error of a stage's configuration, and with what a stage refuses; the first failed stage ends render,
// except in a check.
func render(c Checked, d Decided, e *eval.Eval, now func() time.Time) (Rendered, Findings) {
	merged, messages := node.Merge(d.basis.base, d.contributions)
	merged, refused := d.basis.finish(merged, false)
	found := Findings{Diags: append(messages.From(0), checkMaybe(d)...)}

	r := renderer{checked: c, decided: d, now: now}
	n := renderedNode{Node: merged}
	isLeftOut := false
	for _, i := range orderRenderers(c) {
		one := r.runStage(i, e.WithNode(readNodeValue(n.Node, d.basis, e.Checking())), n)
		n, found = one.node, found.join(one.Findings)
		isLeftOut = isLeftOut || i.Type == "write" && one.state == stateSkipped && len(one.Unknown) == 0
		e = e.With(map[string]cty.Value{i.Addr(): one.output})

		if found.Diags.HasErrors() && !e.Checking() {
			return Rendered{eval: e, node: n.Node}, found
		}
	}

	if !n.isChecked { // nothing was written: what decide stages say is all
		found.report(refused...)
		if isLeftOut && !found.Diags.HasErrors() {
			found.report(d.refuseLost(c.site)...)
		}
	}
	found.report(checkUnits(n.Node)...)

	return Rendered{eval: e.WithNode(readNodeValue(n.Node, d.basis, e.Checking())), node: n.Node, isDone: true}, found
}

// refuseLost refuses what decide stages add to the node of a site that leaves its stage write out.
func (d Decided) refuseLost(s *site.Site) hcl.Diagnostics {
	for _, c := range d.contributions {
		adds := len(c.Labels)+len(c.Taints)+len(c.Flags)+len(c.Settings) > 0 || c.Reserved != nil
		i := s.Stage(c.Stage)
		if !adds || i == nil {
			continue
		}

		return hcl.Diagnostics{origin.Error(fault.Conflict, i.Range, "What the site decides has nowhere to go",
			"stage.%s adds to the kubelet's files, and stage.%s, which writes them, is left out here (when). Write the same "+
				"when in both.", c.Stage, s.OfType("write")[0].Addr())}
	}

	return nil
}

// orderRenderers returns the render stages in their order, but first those that add to the node, and what these need: the
// others see the finished node, wherever they are in the site.
func orderRenderers(c Checked) []*site.Instance {
	isEarly := map[string]bool{}
	for _, i := range slices.Backward(c.order) {
		if _, ok := i.Stage.(stages.Adder); ok || isEarly[i.Addr()] {
			isEarly[i.Addr()] = true
			for _, needed := range c.needs[i.Addr()] {
				isEarly[needed] = true
			}
		}
	}

	var early, late []*site.Instance
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

// checkMaybe merges what stages add that may not be there, in a check. It merges one stage at a time: of two stages
// that may not be there, one may be there where the other is not.
func checkMaybe(d Decided) (diags hcl.Diagnostics) {
	for _, adds := range d.maybe {
		_, messages := node.Merge(d.basis.base, slices.Concat(d.contributions, adds))
		diags = append(diags, messages.From(len(d.contributions))...)
	}

	return diags
}

// stage is one render stage.
func (r renderer) runStage(i *site.Instance, e *eval.Eval, n renderedNode) renderedStage {
	started, t := r.now(), r.checked.types[i.Addr()]
	copies, diags := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	out := renderedStage{output: setState(value.Absent(t), stateSkipped), state: stateSkipped, node: n}
	out.report(diags...)
	if !copies.Known {
		out.Unknown = newUnknowns(copies.Unread, partRendered)
	}
	if !copies.Known && !e.Checking() { // its body is left alone: the stage may not be there
		copies.All = nil
		out.output = value.Because(makeUnknownOutput(i, t), copies.Unread)
	}

	for _, c := range copies.All {
		one := r.runCopy(i, c, e, out.node)
		one.Findings = out.join(one.Findings)
		if out = one; out.state == stateFailed {
			break
		}
	}
	out.Stages = []StageReport{{i.Addr(), out.state, r.now().Sub(started)}}
	if !copies.Known { // in a check, of a stage that may not be there
		out.node.Units = n.Units
		out.Diags = slices.DeleteFunc(out.Diags, func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.Precondition })
	}

	return out
}

// copy is one copy of a render stage, with what it adds merged.
func (r renderer) runCopy(i *site.Instance, c eval.Copy, e *eval.Eval, n renderedNode) renderedStage {
	t := r.checked.types[i.Addr()]
	out := renderedStage{output: setState(value.Absent(t), stateSkipped), state: stateFailed, node: n}
	cfg, diags := r.decode(i, c)
	out.report(diags...)
	if r.decided.hadBaseErrors[i.Addr()] || diags.HasErrors() {
		return out
	}

	in := r.decided.basis.stageInputs(i, r.checked.site, e)
	limit, more := decodeActivationLimit(i, c.Scope)
	in.Timeout = limit
	out.Findings = out.join(more)
	o, rendered, diags := r.addAndRender(i, cfg, in, n)
	out.report(diags...)
	if rendered == nil {
		return out
	}

	out.state, out.node = stateOK, *rendered
	out.output = setState(o.Value, stateOK)
	questions := slices.Concat(cfg.Unread(), value.Questions(o.Value))
	if !cfg.Known() || !o.Value.IsWhollyKnown() {
		out.Unknown = out.Unknown.join(newUnknowns(questions, partRendered))
	}
	if len(questions) > 0 {
		out.output = setState(value.Because(value.UnknownOutput(t), questions), stateOK)
	}

	return out
}

// decode reads the configuration of a copy. Of a stage whose configuration was read for the base already, it reports
// only what comes after the gather phase.
func (r renderer) decode(i *site.Instance, c eval.Copy) (schema.Body, hcl.Diagnostics) {
	scope := c.Scope
	if _, wasRead := r.decided.hadBaseErrors[i.Addr()]; wasRead {
		scope = scope.After(schema.Gather)
	}

	return i.Spec.DecodeAt(i.Body, nil, scope, i.Range)
}

// activationLimit decodes the timeout of a stage whose timeout is not about its own reading.
func decodeActivationLimit(i *site.Instance, scope eval.Scope) (limit schema.Value[string], found Findings) {
	if i.Spec.Bounds == nil || i.Timeout == nil {
		return limit, found
	}
	attribute := schema.Block{Fields: []schema.Field{*i.Spec.Bounds}}
	b, diags := attribute.Decode(makeBody(schema.Timeout.Name, i.Timeout), nil, scope)

	return i.Spec.Bounds.Of(b), Findings{Diags: diags, Unknown: findUnknown(b, partRendered)}
}

// addAndRender lets a stage add to the node, merges that, and lets the stage render the merged node. It returns nil for
// a node if the stage failed; a check looks at what there is all the same.
func (r renderer) addAndRender(i *site.Instance, cfg schema.Body, in stages.Inputs, n renderedNode) (
	stages.Output, *renderedNode, hcl.Diagnostics,
) {
	var added, conflicts hcl.Diagnostics
	if a, ok := i.Stage.(stages.Adder); ok {
		var c node.Contribution
		c, added = a.Add(cfg, n.Node, in)
		c.Stage = i.Addr()
		n, conflicts = r.merge(n, c)
	}
	in.Refused = added.HasErrors() || conflicts.HasErrors()

	rendering, o, rendered := i.Stage.(stages.Renderer).Render(cfg, n.Node, in)
	files, twice := node.MergeFiles(n.Files, rendering.Files)
	diags := slices.Concat(added, rendered, conflicts, twice)
	if (in.Refused || rendered.HasErrors()) && !in.Check {
		return o, nil, diags
	}

	n.Files = files
	if rendering.Activation != nil {
		n.Activation = rendering.Activation
	}
	if rendering.Unit != nil {
		n.Units = append(slices.Clip(n.Units), *rendering.Unit)
	}

	return o, &n, diags
}

// merge adds a contribution to the node, and finishes that. It returns the messages about that contribution, and about the
// finished node.
func (r renderer) merge(n renderedNode, c node.Contribution) (renderedNode, hcl.Diagnostics) {
	before := slices.Concat(r.decided.contributions, n.added)
	merged, messages := node.Merge(r.decided.basis.base, append(before, c))
	merged, refused := r.decided.basis.finish(merged, true)
	merged.Files, merged.Activation, merged.Units = n.Files, n.Activation, n.Units

	return renderedNode{Node: merged, added: append(slices.Clip(n.added), c), isChecked: true},
		append(messages.From(len(before)), refused...)
}

// nodeValue returns the merged node as sites see it.
func readNodeValue(n node.Node, b basis, checking bool) cty.Value {
	if checking && b.facts == nil {
		return cty.UnknownVal(eval.NodeType())
	}
	v := NodeValue(n)
	if !checking {
		return b.unknown.mask(v)
	}

	// What the base brings is not known on a witness, so neither is what decide's part is only a part of.
	m := v.AsValueMap()
	if !b.base.ConfigKnown {
		m["kubelet_config"] = cty.DynamicVal
	}
	if !b.base.FlagsKnown {
		for _, k := range []string{"labels", "flags", "taints"} {
			m[k] = cty.UnknownVal(m[k].Type())
		}
	}

	return cty.ObjectVal(m)
}

// NodeValue is `node` as expressions see it; plan JSON has the same names.
func NodeValue(n node.Node) cty.Value {
	labels, flags := map[string]string{}, map[string]string{}
	for _, l := range n.Labels {
		labels[l.Key] = l.Value
	}
	for _, f := range n.Flags {
		flags[f.Name] = f.Value
	}
	taints := []cty.Value{}
	for _, t := range n.Taints {
		taints = append(taints, cty.StringVal(t.String()))
	}
	list := cty.ListValEmpty(cty.String)
	if len(taints) > 0 {
		list = cty.ListVal(taints)
	}
	config, err := value.FromGo(n.Config)
	if err != nil || n.Config == nil {
		config = cty.EmptyObjectVal
	}
	res := value.Absent(eval.NodeType().AttributeType("reserved"))
	if x := n.Reserved; x != nil {
		res = cty.ObjectVal(map[string]cty.Value{
			"policy": cty.StringVal(x.Policy), "reserved_cpus": stringOrNull(x.CPUs),
			"kube_reserved": value.StringMap(x.Kube), "system_reserved": value.StringMap(x.System),
			"eviction_hard": value.StringMap(x.EvictionHard), "allocatable": value.StringMap(x.Allocatable),
			"max_pods": cty.NumberIntVal(int64(x.MaxPods))})
	}

	return cty.ObjectVal(map[string]cty.Value{
		"labels": value.StringMap(labels), "flags": value.StringMap(flags), "taints": list, "kubelet_config": config,
		"reserved": res,
	})
}

func stringOrNull(s string) cty.Value {
	if s == "" {
		return cty.NullVal(cty.String)
	}
	return cty.StringVal(s)
}
