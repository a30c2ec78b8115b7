package boot

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Rendered is the finished node, with its files and what apply shall do with the kubelet.
type Rendered struct {
	eval *eval.Eval // with the node and the outputs of render stages
	node node.Node
	done bool // every render stage had its turn
}

// rendering is render in progress.
type rendering struct {
	checked Checked
	decided Decided
	eval    *eval.Eval
	now     func() time.Time
	node    node.Node
	merged  []node.Contribution // that node is made of
	Findings
}

// render merges what decide added, and lets write and restart turn it into files and a policy. What each adds is merged
// before the next one sees the node.
func render(c Checked, d Decided, e *eval.Eval, now func() time.Time) (Rendered, Findings) {
	n, diags := node.Merge(d.basis.base, d.contributions)
	r := rendering{checked: c, decided: d, eval: e, now: now, node: n, merged: d.contributions}
	r.say(diags...)
	for _, m := range d.maybe { // one at a time: of two that may not be there, one may be there where the other is not
		_, diags := node.Add(d.basis.base, d.contributions, m...)
		r.say(diags...)
	}

	for _, i := range c.order {
		if i.Spec.Phase != schema.Render {
			continue
		}
		r.eval = r.eval.WithNode(r.nodeValue())
		r.stage(i)
		if r.Diags.HasErrors() && !e.Checking() {
			return Rendered{eval: r.eval, node: r.node}, r.Findings
		}
	}

	return Rendered{eval: r.eval.WithNode(r.nodeValue()), node: r.node, done: true}, r.Findings
}

// stage is one render stage.
func (r *rendering) stage(i *site.Instance) {
	started, t := r.now(), r.checked.types[i.Addr()]
	copies, diags := r.eval.Scope(i.Addr()).Copies(i.When, i.ForEach)
	r.say(diags...)
	out, state := withState(value.Absent(t), stateSkipped), stateSkipped
	if !copies.Known {
		r.Unknown = r.Unknown.with(because(copies.Unread, partRendered))
	}
	if !copies.Known && !r.eval.Checking() { // its body is left alone: nothing may come of it
		copies.All = nil
		out = value.Because(unknownOutput(i, t), copies.Unread)
	}
	for _, c := range copies.All {
		if out, state = r.copy(i, c, t); state == stateFailed {
			break
		}
	}
	r.eval = r.eval.With(map[string]cty.Value{i.Addr(): out})
	r.Stages = append(r.Stages, StageReport{i.Addr(), state, r.now().Sub(started)})
}

// copy is one copy of a render stage, with what it adds merged.
func (r *rendering) copy(i *site.Instance, c eval.Copy, t cty.Type) (out cty.Value, state string) {
	out = withState(value.Absent(t), stateSkipped)
	scope := c.Scope
	failed, read := r.decided.said[i.Addr()]
	if read {
		scope = scope.After(schema.Gather)
	}
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, scope, i.Range)
	if r.say(diags...); failed || diags.HasErrors() {
		return out, stateFailed
	}
	refused := false // the stage was told that what it adds does not go together, and has rendered nothing
	in := r.decided.basis.inputs(i, r.checked.site, r.eval)
	in.Merge = func(c node.Contribution) (node.Node, hcl.Diagnostics) {
		n, conflicts := node.Add(r.decided.basis.base, r.merged, c)
		refused = refused || conflicts.HasErrors()
		return n, conflicts
	}
	if i.Spec.Bounds != nil && i.Timeout != nil {
		attribute := schema.Block{Fields: []schema.Field{*i.Spec.Bounds}}
		b, d := attribute.Decode(attributeBody(schema.Timeout.Name, i.Timeout), nil, c.Scope)
		in.Timeout = i.Spec.Bounds.Of(b)
		r.say(d...)
		r.Unknown = r.Unknown.with(unknownIn(b, partRendered))
	}

	adds, o, diags := i.Stage.(stages.Renderer).Render(cfg, r.node, in)
	r.say(diags...)
	adds.Stage = i.Addr()
	merged, conflicts := node.Add(r.decided.basis.base, r.merged, adds)
	r.say(conflicts...)
	if (diags.HasErrors() || refused) && !r.eval.Checking() { // a check looks at what there is all the same
		return out, stateFailed
	}

	r.node, r.merged = merged, append(slices.Clip(r.merged), adds)
	questions := slices.Concat(cfg.Unread(), value.Questions(o.Value))
	if !cfg.Known() || !o.Value.IsWhollyKnown() {
		r.Unknown = r.Unknown.with(because(questions, partRendered))
	}
	if len(questions) > 0 {
		return withState(value.Because(value.UnknownOutput(t), questions), stateOK), stateOK
	}

	return withState(o.Value, stateOK), stateOK
}

// nodeValue is the merged node as sites see it.
func (r *rendering) nodeValue() cty.Value {
	b := r.decided.basis
	if r.eval.Checking() && b.facts == nil {
		return cty.UnknownVal(eval.NodeType())
	}
	v := NodeValue(r.node)
	if !r.eval.Checking() {
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
			"policy": cty.StringVal(x.Policy), "reserved_cpus": text(x.CPUs),
			"kube_reserved": value.StringMap(x.Kube), "system_reserved": value.StringMap(x.System),
			"eviction_hard": value.StringMap(x.EvictionHard), "allocatable": value.StringMap(x.Allocatable),
			"max_pods": cty.NumberIntVal(int64(x.MaxPods))})
	}

	return cty.ObjectVal(map[string]cty.Value{
		"labels": value.StringMap(labels), "flags": value.StringMap(flags), "taints": list, "kubelet_config": config, "reserved": res,
	})
}

func text(s string) cty.Value {
	if s == "" {
		return cty.NullVal(cty.String)
	}
	return cty.StringVal(s)
}
