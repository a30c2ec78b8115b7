package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// writer is the stage that renders files; there is at most one.
func (w *walker) writer() *site.Instance {
	if l := w.plan.Site.OfType("write"); len(l) > 0 {
		return l[0]
	}
	return nil
}

// block is a written block of the write stage, or nil.
func (w *walker) block(typ string) *hclsyntax.Block {
	if i := w.writer(); i != nil {
		for _, b := range i.Body.Blocks {
			if b.Type == typ {
				return b
			}
		}
	}
	return nil
}

// written is an argument of a block of the write stage, or nil.
func (w *walker) written(block, name string) hclsyntax.Expression {
	if b := w.block(block); b != nil && b.Body.Attributes[name] != nil {
		return b.Body.Attributes[name].Expr
	}
	return nil
}

// baseText tells where the base of a block of write was read: what the site wrote, the default's edge, or what the
// target held before prelet.
func (w *walker) baseText(block string, depth int) {
	if x := w.written(block, "base"); x != nil {
		f := w.frameOf(x, cty.NilVal, source{})
		v, note := w.at(x, f, nil)
		w.say(depth, Step{Text: "base = " + w.text(x), Value: v, Note: note, Range: x.Range(), Ref: "write." + block + ".base"})
		w.walk(x, f, nil, depth+1)
		return
	}
	i := w.writer()
	if i == nil {
		return
	}
	for _, e := range w.plan.Edges {
		if e.From != i.Addr() || e.Attribute != block+".base" {
			continue
		}
		to := w.plan.Site.Stage(e.To)
		w.say(depth, Step{Kind: origin.Default, Text: "base", Note: fmt.Sprintf("not written, so it is key \"kubelet\" of the only one: stage.%s.%s", e.To, e.Output), Range: to.Range, Ref: "stage." + e.To})
		s := Step{Text: "stage." + e.To + "." + e.Output + `["kubelet"]`, Range: to.Range, Ref: "stage." + e.To}
		w.fetched(to, "", s, way(named(e.Output), named("kubelet")), depth+1)
		return
	}
	for _, e := range w.entries {
		r, err := world.Original.Request(e.Question)
		if e.Kind != world.KindOriginal || err != nil || strings.HasSuffix(r.Path, ".yaml") != (block == "kubelet_config") {
			continue
		}
		s := Step{Kind: origin.Base, Text: r.Path, Note: join("what it held before prelet", told(e.Answer)), Range: i.Range, Ref: r.Path, Answer: answerTo(e.Question, e.Answer, "/text")}
		var a world.TargetAns
		if json.Unmarshal(e.Answer.Value, &a) == nil && !a.Exists {
			s.Note, s.Answer.Pointer = "there was none before prelet", "/exists"
		}
		w.say(depth, s)
	}
}

func (w *walker) flag(name string) (Explanation, bool) {
	name = kubelet.FlagName(name)
	at := slices.IndexFunc(w.plan.Node.Flags, func(f node.Flag) bool { return f.Name == name })
	if at < 0 {
		return w.listFlag(name)
	}
	fl := w.plan.Node.Flags[at]
	x := Explanation{Value: quote(fl.Value), Whole: fl.Value, Present: true, Origins: fl.Origins, TakesEffect: "restart"}
	if fl.NoValue {
		x.Value, x.Whole = "true", "true"
	}
	x.Range, x.Text = w.place(fl.Origins)
	w.setting("kubelet_flags", "flags", way(named(name)), fl.Origins, 0)
	w.ofBase(fl.Origins)
	w.replaced("flag/"+name, "Flag --"+name+" of the base")
	return x, true
}

// listFlag explains the two flags that labels and taints feed, and one that is null.
func (w *walker) listFlag(name string) (Explanation, bool) {
	x := Explanation{Present: true, TakesEffect: "registration"}
	var whole []string
	switch {
	case name == "node-labels" && len(w.plan.Node.Labels) > 0:
		x.Value = counted(len(w.plan.Node.Labels), "%d label", "%d labels")
		for _, l := range w.plan.Node.Labels {
			r, _ := w.place(l.Origins)
			w.say(0, Step{Text: "label/" + l.Key, Value: quote(l.Value), Range: r, Ref: "label/" + l.Key})
			whole = append(whole, l.Key+"="+l.Value)
		}
		x.Whole = whole
		return x, true
	case name == "register-with-taints" && len(w.plan.Node.Taints) > 0:
		if _, inConfig := w.plan.Node.ConfigOrigins["/registerWithTaints"]; inConfig {
			return Explanation{Summary: "The taints stand in the kubelet's registerWithTaints instead: config/registerWithTaints."}, true
		}
		x.Value = counted(len(w.plan.Node.Taints), "%d taint", "%d taints")
		for _, t := range w.plan.Node.Taints {
			r, _ := w.place(t.Origins)
			w.say(0, Step{Text: "taint/" + t.Key, Value: quote(t.String()), Range: r, Ref: "taint/" + t.Key})
			whole = append(whole, t.String())
		}
		x.Whole = whole
		return x, true
	}
	if e := w.written("kubelet_flags", "flags"); e != nil {
		f := w.frameOf(e, cty.NilVal, source{})
		v, _ := w.value(e, f)
		if got, ok := way(named(name)).in(v); ok {
			r := e.Range()
			if it := w.e.Scope(w.writer().Addr()).Item(e, name); it != nil {
				r = it.Range()
			}
			w.say(0, Step{Text: oneLine(w.e.Text(r), maxShown), Value: w.show(got), Note: "null is no flag", Range: r})
			w.walk(e, f, way(named(name)), 1)
			return Explanation{Summary: "The site gives it the value null, which is no flag."}, true
		}
	}
	return Explanation{}, false
}

// setting walks what set a flag or a field: an item of write's patch or flags, the node block, or a policy.
func (w *walker) setting(block, argument string, p path, os []origin.Origin, depth int) {
	done := map[string]bool{}
	for _, o := range os {
		i := w.plan.Site.Stage(o.Ref)
		once := o.Ref
		if i != nil && i.Type == "reserve" { // each of its arguments counts for itself
			once += o.Range.String()
		}
		if o.Role == origin.Condition || done[once] && o.Kind == origin.Site {
			continue
		}
		switch {
		case o.Kind == origin.Policy && o.Range.Filename == "": // a step of a formula; else it is a reference to one
			if !done[o.Ref] {
				w.say(depth, Step{Kind: origin.Policy, Text: o.Ref, Range: o.Range, Ref: o.Ref})
			}
			w.say(depth+1, Step{Kind: origin.Policy, Text: o.Text, Ref: o.Ref})
		case o.Kind != origin.Site:
		case i == nil && strings.HasPrefix(o.Ref, "node."):
			w.nodeBlock(strings.TrimPrefix(o.Ref, "node."), depth)
		case i == nil:
		case i.Type == "write":
			if e := w.written(block, argument); e != nil && contains(e.Range(), o.Range, w.plan.Site) {
				w.walk(e, w.frameOf(e, cty.NilVal, source{}), p, depth)
			} else {
				w.say(depth, Step{Text: w.e.Text(o.Range), Note: "stage." + i.Addr() + " sets it", Range: o.Range, Ref: o.Ref})
			}
			w.overrides(i.Addr(), block+"."+argument)
		case i.Type == "reserve":
			w.argumentAt(i, o.Range, depth)
			w.overrides(i.Addr(), "policy", "max_pods", "floor", "cap", "topology", "static", "remainder", "eks")
		}
		done[once] = true
	}
	for _, o := range os {
		if o.Kind == origin.Policy && o.Range.Filename == "" {
			for _, i := range w.plan.Site.OfType("reserve") {
				w.policyBlock(i, p, depth)
			}
			w.machine(p, depth)
			return
		}
	}
}

// policyBlock tells the arguments of the policy's own block that what is reserved can depend on.
func (w *walker) policyBlock(i *site.Instance, p path, depth int) {
	if w.plan.Node.Reserved == nil {
		return
	}
	last := p[len(p)-1].name
	for _, b := range i.Body.Blocks {
		if b.Type != w.plan.Node.Reserved.Policy {
			continue
		}
		for _, x := range eval.BodyExpressions(b.Body) {
			for _, a := range b.Body.Attributes {
				about := "memory"
				for _, of := range []string{"cpu", "storage"} {
					if strings.Contains(a.Name, of) {
						about = of
					}
				}
				if a.Expr == x && strings.Contains(last, about) {
					w.argumentAt(i, x.Range(), depth)
				}
			}
		}
	}
}

// machine tells the facts that a policy computes with, by what it reserves.
func (w *walker) machine(p path, depth int) {
	facts := []path{way(named("memory"), named("total_bytes")), way(named("cpu"), named("logical"))}
	switch last := p[len(p)-1].name; {
	case strings.Contains(last, "memory"):
		facts = facts[:1]
	case last == "cpu":
		facts = facts[1:]
	case last == "reservedSystemCPUs":
		facts = []path{way(named("cpu"), named("cores"))}
	}
	for _, i := range w.plan.Site.OfType("detect-hw") {
		out, ok := w.e.Output(i.Addr())
		for _, f := range facts {
			if v, found := f.in(out); ok && found {
				w.fact(Step{Text: "stage." + i.Addr() + f.String(), Value: w.show(v), Ref: "stage." + i.Addr(), Range: i.Range}, f, depth)
			}
		}
	}
}

// contains says whether a setting came from an argument: its place is in it, or in a local that it may refer to.
func contains(outer, inner hcl.Range, s *site.Site) bool {
	in := func(r hcl.Range) bool {
		return r.Filename == inner.Filename && r.Start.Byte <= inner.Start.Byte && inner.End.Byte <= r.End.Byte
	}
	if in(outer) {
		return true
	}
	for _, l := range s.Locals {
		if in(l.Expr.Range()) {
			return true
		}
	}
	return false
}

// argumentAt walks the argument of a stage that stands at a place.
func (w *walker) argumentAt(i *site.Instance, at hcl.Range, depth int) {
	var find func(b *hclsyntax.Body) bool
	find = func(b *hclsyntax.Body) bool {
		for _, a := range b.Attributes {
			r := a.Expr.Range()
			if r.Filename == at.Filename && r.Start.Byte <= at.Start.Byte && at.End.Byte <= r.End.Byte {
				once := fmt.Sprintf("argument %d %s", depth, r)
				if w.told[once] {
					return true
				}
				w.told[once] = true
				f := w.frameOf(a.Expr, cty.NilVal, source{})
				v, note := w.at(a.Expr, f, nil)
				w.say(depth, Step{Text: a.Name + " = " + w.text(a.Expr), Value: unlessSame(v, w.text(a.Expr)), Note: note, Range: r, Ref: "stage." + i.Addr()})
				w.walk(a.Expr, f, nil, depth+1)
				return true
			}
		}
		for _, x := range b.Blocks {
			if find(x.Body) {
				return true
			}
		}
		return false
	}
	if !find(i.Body) {
		w.say(depth, Step{Text: "stage." + i.Addr(), Note: "sets it", Range: at, Ref: "stage." + i.Addr()})
	}
}

func unlessSame(v, text string) string {
	if v == text {
		return ""
	}
	return v
}

func (w *walker) nodeBlock(name string, depth int) {
	b := w.plan.Site.Node
	if b == nil || b.Attributes[name] == nil {
		return
	}
	x := b.Attributes[name].Expr
	f := w.frameOf(x, cty.NilVal, source{})
	v, note := w.at(x, f, nil)
	w.say(depth, Step{Text: "node { " + name + " = " + w.text(x) + " }", Value: unlessSame(v, w.text(x)), Note: note, Range: x.Range(), Ref: "node." + name})
	w.walk(x, f, nil, depth+1)
}

// policy tells the steps of the formula, and the arguments it was given.
func (w *walker) policy(i *site.Instance, p path, depth int) {
	if r := w.plan.Node.Reserved; r != nil {
		for _, o := range r.Origins {
			if o.Kind == origin.Policy {
				w.say(depth, Step{Kind: origin.Policy, Text: o.Text, Range: o.Range, Ref: o.Ref})
			}
		}
	}
	if a := i.Body.Attributes["policy"]; a != nil {
		w.say(depth, Step{Text: "policy = " + w.text(a.Expr), Range: a.Expr.Range(), Ref: "stage." + i.Addr()})
		w.walk(a.Expr, w.frameOf(a.Expr, cty.NilVal, source{}), nil, depth+1)
	}
	w.machine(p, depth)
}

// fileBlocks are the blocks of write with which a site adds files and folders.
func (w *walker) fileBlocks() (out []*hclsyntax.Block) {
	if i := w.writer(); i != nil {
		for _, b := range i.Body.Blocks {
			if b.Type == "file" || b.Type == "directory" {
				out = append(out, b)
			}
		}
	}
	return out
}

func (w *walker) blockCopies(b *hclsyntax.Block) (out []copyOf) {
	a := b.Body.Attributes["for_each"]
	if a == nil {
		return []copyOf{{each: cty.NilVal}}
	}
	copies, _ := w.e.Scope(w.writer().Addr()).Copies(nil, a.Expr)
	for _, c := range copies.All {
		out = append(out, copyOf{c.Key, c.Scope.Each(), source{a.Expr, w.frameOf(a.Expr, cty.NilVal, source{}), way(named(c.Key))}})
	}
	return out
}
