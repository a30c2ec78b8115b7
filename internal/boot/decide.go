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

// access decodes the cluster block.
func (r *run) access() (world.Access, hcl.Diagnostics) {
	if r.site.Cluster == nil {
		return world.Access{}, nil
	}
	b, diags := schema.ClusterBlock.Decode(r.site.Cluster, nil, r.e.Scope("cluster"))
	retry, _ := time.ParseDuration(schema.Retry.Of(b).V)
	a := world.Access{
		Servers: schema.Servers.Of(b).V, CACertHashes: schema.CACertHashes.Of(b).V, CAFile: schema.CAFile.Of(b).V,
		DiscoveryFile: schema.Discovery.Of(b).V, TrustToken: schema.TrustBy.Of(b).V == "token",
		ProxyURL: schema.ProxyURL.Of(b).V, RetryMillis: retry.Milliseconds(),
	}
	if t := schema.Token.Of(b); t.Expr != nil {
		// The loader has seen that it is credential("NAME"). A credential that is missing is an error only when
		// the token is needed: a node that has joined does not look at it.
		a.Token, _ = eval.TokenName(t.Expr)
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.CredentialMissing })
	}
	return a, diags
}

// identity decodes the node block.
func (r *run) identity() hcl.Diagnostics {
	if r.site.Node == nil {
		return nil
	}
	b, diags := schema.NodeBlock.Decode(r.site.Node, nil, r.e.Scope("node"))
	if v := schema.NodeNameAttr.Of(b); v.Set() {
		r.ident.Name, r.ident.NameRange = &v.V, v.Range
		if why := content.IsDNS1123Subdomain(v.V); len(why) > 0 {
			diags = append(diags, origin.Error(fault.NodeName, v.Range, fmt.Sprintf("%q is no name of a node", v.V), "%s", stages.Sentence(strings.Join(why, "; "))))
		}
	}
	if v := schema.NodeIP.Of(b); v.Set() {
		r.ident.IP, r.ident.IPRange = &v.V, v.Range
		if err := addresses(v.V); err != nil {
			diags = append(diags, origin.Error(fault.NodeName, v.Range, fmt.Sprintf("%q is no address of a node", v.V), "%s. --node-ip takes one, or an IPv4 and an IPv6 address with a comma between.", err))
		}
	}
	return diags
}

// addresses checks what --node-ip takes (k8s.io/component-helpers, ParseNodeIPArgument): one address, or one of each
// family.
func addresses(s string) error {
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

func (r *run) inputs(i *site.Instance) stages.Inputs {
	return stages.Inputs{Address: i.Addr(), Facts: r.facts, Recommended: r.recommended, Base: r.base, Kubelet: r.kubelet, Node: r.ident,
		Access: r.env.Access, Trust: r.trust, Check: r.e.Checking(), Unread: r.unread.told(),
		Detectors: sortedKeys(r.site.Detectors),
		Merge: func(c node.Contribution) (node.Node, hcl.Diagnostics) {
			n, d := node.Merge(r.base, append(slices.Clone(r.contrib), c))
			return n, newOnly(r.diags, d)
		}}
}

// decide asks renderers what the node is before, then runs the decide stages: dependencies first, then site order.
func (r *run) decide() {
	d := r.identity()
	r.unread.flags = append(r.unread.flags, unreadOf(d)...)
	r.diags = append(r.diags, d...)
	for _, i := range r.order {
		if b, ok := i.Stage.(stages.Baser); ok {
			r.readBase(i, b)
		}
	}
	r.settleIdentity()
	if r.diags.HasErrors() && !r.e.Checking() {
		return
	}
	byAddr := map[string][]node.Contribution{}
	for _, i := range r.order {
		if i.Spec.Phase == schema.Decide {
			byAddr[i.Addr()] = r.decideOne(i)
		}
	}
	for _, i := range r.site.Stages { // merged in site order, whatever the order of evaluation was
		r.contrib = append(r.contrib, byAddr[i.Addr()]...)
	}
}

func (r *run) readBase(i *site.Instance, b stages.Baser) {
	cfg, d := i.Spec.DecodeAt(i.Body, nil, r.e.Scope(i.Addr()).Only(schema.Gather), i.Range)
	r.diags = append(r.diags, d...)
	if r.diags.HasErrors() {
		return
	}
	base, d2 := b.Base(cfg, r.inputs(i), r.original)
	d2 = r.blame(base, d2)
	r.diags = append(r.diags, d2...)
	r.base = base
	var config, flags []string
	if _, ok := cfg.One("kubelet_config"); ok && !base.ConfigKnown {
		config = unreadOf(append(d, d2...))
	}
	if _, ok := cfg.One("kubelet_flags"); ok && !base.FlagsKnown {
		flags = unreadOf(append(d, d2...))
	}
	r.unread.based(config, flags)
}

// original answers what a target held before prelet.
func (r *run) original(path string) (world.TargetAns, error) {
	if r.tape == nil {
		return world.TargetAns{}, &world.Failed{Answer: world.Answer{Fail: world.Unread, Detail: "no machine is at hand"}}
	}
	a, _, err := world.Original.Ask(r.e.AskContext(), r.tape, world.OriginalReq{Path: path})
	return a, err
}

// failedOutput is the output of a stage of which not one copy was made. With for_each it has no keys.
func failedOutput(i *site.Instance, t cty.Type) cty.Value {
	if i.ForEach != nil {
		return keyed(nil)
	}
	return withState(value.Absent(t), stateFailed)
}

func (r *run) decideOne(i *site.Instance) []node.Contribution {
	if r.blocked(i) {
		r.e.SetOutput(i.Addr(), failedOutput(i, r.types[i.Addr()]))
		r.took(i.Addr(), stateFailed, 0)
		return nil
	}
	started := r.now()
	soft := i.Type == "label" || i.Type == "taint"
	scope := r.e.Scope(i.Addr())
	if soft {
		scope = scope.Soft()
	}
	copies, known, diags := scope.Copies(i.When, i.ForEach)
	questions := unreadOf(diags)
	t := r.types[i.Addr()]
	if failed := r.settle(i, diags); failed {
		r.e.SetOutput(i.Addr(), failedOutput(i, t))
		r.took(i.Addr(), stateFailed, r.now().Sub(started))
		return nil
	}
	if !known {
		r.unread.decided(i.Type, unreadOf(diags))
	}
	var out, maybe []node.Contribution
	values := map[string]cty.Value{}
	state := stateOK
	for _, c := range copies {
		cfg, diags := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
		cfg.Key = c.Key
		v := value.Absent(t)
		s := stateOK
		if diags.HasErrors() {
			s = stateFailed
		} else {
			add, o, d := r.ask(i, cfg)
			diags = append(diags, d...)
			if d.HasErrors() {
				s = stateFailed
			} else {
				add.Stage = i.Addr()
				v = markUnread(o.Value, unreadOf(diags))
				switch { // what may not be there is not there, and not gone
				case known:
					out = append(out, add)
				case r.e.Checking():
					maybe = append(maybe, add)
				}
			}
			r.unread.decided(i.Type, unreadOf(diags))
		}
		r.settle(i, diags)
		if s == stateFailed {
			state = s
		}
		values[c.Key] = withState(v, s)
		if qs := unreadOf(diags); len(qs) > 0 && s == stateOK { // it might have failed
			values[c.Key] = markUnread(withUnknownState(v), qs)
		}
	}
	switch {
	case i.ForEach != nil && known:
		r.e.SetOutput(i.Addr(), keyed(values))
	case !known:
		r.e.SetOutput(i.Addr(), markUnread(unknownOutput(i, t), questions))
	case len(copies) == 1:
		r.e.SetOutput(i.Addr(), values[""])
	default:
		state = stateSkipped
		r.e.SetOutput(i.Addr(), withState(value.Absent(t), state))
	}
	if len(maybe) > 0 {
		r.maybe = append(r.maybe, maybe)
	}
	r.took(i.Addr(), state, r.now().Sub(started))
	return out
}

// ask asks a decide stage. One that computes from the hardware itself cannot, where a recording does not tell it.
func (r *run) ask(i *site.Instance, cfg schema.Body) (node.Contribution, stages.Output, hcl.Diagnostics) {
	if i.Type == "reserve" && len(r.unread.facts) > 0 {
		return node.Contribution{}, stages.Output{Value: value.UnknownOutput(r.types[i.Addr()])}, hcl.Diagnostics{origin.NotRead(i.Range, "what is reserved", r.unread.facts)}
	}
	return i.Stage.(stages.Decider).Decide(cfg, r.inputs(i))
}

// settle records diagnostics. Errors that a null fact caused in a label or a taint are warnings, and the boot is
// degraded. It says whether the instance failed.
func (r *run) settle(i *site.Instance, ds hcl.Diagnostics) (failed bool) {
	failed = ds.HasErrors()
	soft := eval.Soften(ds)
	for _, d := range ds {
		if eval.LeftOut(d) {
			r.degrade(fault.NullFact, fmt.Sprintf("stage %s left something out, for a fact is null: %s", i.Addr(), placeOf(d)))
		}
	}
	if failed && !eval.AllSoft(ds) {
		r.fatal[i.Addr()] = true
	}
	r.diags = append(r.diags, soft...)
	return failed
}

// placeOf is where a diagnostic points, in words.
func placeOf(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return d.Summary
	}
	return fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
}

// render merges what decide added, and lets write and restart turn it into files and a policy.
func (r *run) render() {
	if r.diags.HasErrors() && !r.e.Checking() {
		return
	}
	n, d := node.Merge(r.base, r.contrib)
	r.diags = append(r.diags, d...)
	r.node = n
	for _, m := range r.maybe { // one at a time: of two that may not be there, one may be there where the other is not
		_, d := node.Merge(r.base, slices.Concat(r.contrib, m))
		r.diags = append(r.diags, newOnly(r.diags, d)...)
	}
	for _, i := range r.order {
		if i.Spec.Phase != schema.Render {
			continue
		}
		r.e.SetNode(r.nodeValue(r.node))
		if r.renderOne(i); r.diags.HasErrors() && !r.e.Checking() {
			return
		}
	}
	r.e.SetNode(r.nodeValue(r.node))
	r.done = true
}

func (r *run) renderOne(i *site.Instance) {
	started := r.now()
	copies, known, diags := r.e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	r.diags = append(r.diags, diags...)
	t := r.types[i.Addr()]
	out, state := withState(value.Absent(t), stateSkipped), stateSkipped
	if !known && !r.e.Checking() { // its body is left alone: nothing may come of it
		copies = nil
		out = markUnread(unknownOutput(i, t), unreadOf(diags))
	}
	for _, c := range copies {
		cfg, d := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
		failed := d.HasErrors()
		d = newOnly(r.diags, d) // what is there before decide was read before
		state = stateOK
		if failed {
			r.diags = append(r.diags, d...)
			state = stateFailed
			break
		}
		in := r.inputs(i)
		if i.Spec.Bounds != nil && i.Timeout != nil {
			b, d3 := schema.Block{Fields: []schema.Field{*i.Spec.Bounds}}.Decode(attributeBody(schema.Timeout.Name, i.Timeout), nil, c.Scope)
			in.Timeout, d = i.Spec.Bounds.Of(b), append(d, newOnly(r.diags, d3)...)
		}
		add, o, d2 := i.Stage.(stages.Renderer).Render(cfg, r.node, in)
		r.diags = append(append(r.diags, d...), d2...)
		if d2.HasErrors() && !r.e.Checking() { // a check looks at what there is all the same
			state = stateFailed
			break
		}
		add.Stage = i.Addr()
		r.contrib = append(r.contrib, add)
		merged, d3 := node.Merge(r.base, r.contrib)
		r.diags = append(r.diags, newOnly(r.diags, d3)...)
		r.node = merged
		out = withState(o.Value, stateOK)
		if qs := unreadOf(append(d, d2...)); len(qs) > 0 {
			out = withState(markUnread(value.UnknownOutput(t), qs), stateOK)
		}
	}
	r.e.SetOutput(i.Addr(), out)
	r.took(i.Addr(), state, r.now().Sub(started))
}

// newOnly leaves out what an earlier merge of the same contributions has said.
func newOnly(have, ds hcl.Diagnostics) (out hcl.Diagnostics) {
	seen := map[string]bool{}
	for _, d := range have {
		seen[d.Error()] = true
	}
	for _, d := range ds {
		if !seen[d.Error()] {
			out = append(out, d)
		}
	}
	return out
}

// nodeValue is the merged node as sites see it.
func (r *run) nodeValue(n node.Node) cty.Value {
	if r.e.Checking() && r.facts == nil {
		return cty.UnknownVal(eval.NodeType())
	}
	v := NodeValue(n)
	if !r.e.Checking() {
		return r.unread.mask(v)
	}
	// What the base brings is not known on a witness, so neither is what decide's part is only a part of.
	m := v.AsValueMap()
	if !r.base.ConfigKnown {
		m["kubelet_config"] = cty.DynamicVal
	}
	if !r.base.FlagsKnown {
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
			"policy": cty.StringVal(x.Policy), "kube_reserved": value.StringMap(x.Kube), "system_reserved": value.StringMap(x.System),
			"reserved_cpus": text(x.CPUs), "eviction_hard": value.StringMap(x.EvictionHard), "allocatable": value.StringMap(x.Allocatable),
			"max_pods": cty.NumberIntVal(int64(x.MaxPods))})
	}
	return cty.ObjectVal(map[string]cty.Value{"labels": value.StringMap(labels), "flags": value.StringMap(flags), "taints": list, "kubelet_config": config, "reserved": res})
}

func text(s string) cty.Value {
	if s == "" {
		return cty.NullVal(cty.String)
	}
	return cty.StringVal(s)
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
