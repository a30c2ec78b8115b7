package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

// reference is a chain of attributes and indexes, such as local.gpus[var.n].model.
type reference struct {
	root    *hclsyntax.ScopeTraversalExpr
	path    path                   // from the root
	isWhole bool                   // false: path ends before the chain does, at a splat or an unknown index
	indexes []hclsyntax.Expression // in the chain
}

// parseReference parses an expression as a reference; ok is false for other expressions.
func (w *walker) parseReference(x hclsyntax.Expression, c eval.Scope) (r reference, ok bool) {
	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		r.root = x
		ok = true
		r.path, r.isWhole = pathOf(x.Traversal[1:])
	case *hclsyntax.RelativeTraversalExpr:
		r, ok = w.parseReference(x.Source, c)
		p, isKnown := pathOf(x.Traversal)
		r.follow(p, isKnown)
	case *hclsyntax.IndexExpr:
		r, ok = w.parseReference(x.Collection, c)
		v, _ := w.lookUp(x.Key, c)
		key, isKnown := value.KeyText(v)
		r.follow(path{key}, isKnown)
		r.indexes = append(r.indexes, x.Key)
	case *hclsyntax.SplatExpr:
		r, ok = w.parseReference(x.Source, c)
		r.isWhole = false
	}

	return r, ok
}

// follow appends to the path, as far as it is known.
func (r *reference) follow(p path, isKnown bool) {
	if r.isWhole = r.isWhole && isKnown; r.isWhole {
		r.path = r.path.extend(p...)
	}
}

// addOperands adds a link for each reference and each read (file, credential) in an expression, in the order of the
// source, and below it the inputs of that. Functions and operators get no link: the link above has their result.
func (w *walker) addOperands(x hclsyntax.Expression, c eval.Scope, depth int) {
	for _, o := range w.findOperands(x, c) {
		switch o := o.(type) {
		case *hclsyntax.ConditionalExpr:
			w.addConditional(o, c, depth)
		case *hclsyntax.FunctionCallExpr:
			w.addRead(o, c, depth)
		default:
			w.addReference(o, c, nil, depth)
		}
	}
}

// findOperands returns the outermost references, reads and conditionals in an expression.
func (w *walker) findOperands(x hclsyntax.Expression, c eval.Scope) (found []hclsyntax.Expression) {
	visit := func(n hclsyntax.Node) hcl.Diagnostics {
		x, isExpression := n.(hclsyntax.Expression)
		isInside := found != nil && contains(found[len(found)-1].Range(), n.Range())
		if isExpression && !isInside && w.isOperand(x, c) {
			found = append(found, x)
		}

		return nil
	}
	_ = hclsyntax.VisitAll(x, visit)

	return found
}

func (w *walker) isOperand(x hclsyntax.Expression, c eval.Scope) bool {
	switch x := x.(type) {
	case *hclsyntax.ConditionalExpr:
		return true
	case *hclsyntax.FunctionCallExpr:
		return functions.ReadsMachine(x.Name)
	}
	_, ok := w.parseReference(x, c)

	return ok
}

// addConditional adds the condition of `? :`, which branch it selects, and the operands of that branch.
func (w *walker) addConditional(x *hclsyntax.ConditionalExpr, c eval.Scope, depth int) {
	yes := w.formatSource(x.TrueResult)
	no := w.formatSource(x.FalseResult)
	s := Link{Text: w.e.Text(x.Condition.Range())}
	do := effects{
		true:  "so it is " + yes + ", not " + no,
		false: "so it is " + no + ", not " + yes,
	}
	isTrue, isKnown := w.addCondition(s, x.Condition, c, do, depth)

	if isTrue || !isKnown {
		w.addOperands(x.TrueResult, c, depth)
	}
	if !isTrue {
		w.addOperands(x.FalseResult, c, depth)
	}
}

// addReference adds the link of a reference, at a path inside of it, and its inputs. The variable of a `for` has no
// link.
func (w *walker) addReference(x hclsyntax.Expression, c eval.Scope, inside path, depth int) {
	r, _ := w.parseReference(x, c)
	r.follow(inside, true)
	indexes := r.indexes
	r = w.resolveAlias(r)
	if len(r.path) == 0 {
		return
	}

	name := r.root.Traversal.RootName()
	ctx, _ := w.e.Context(r.root, c.Each())
	v, ok := r.path.findIn(ctx.Variables[name])
	s := Link{
		Text:  name + r.path.String(),
		Value: w.show(v),
		Range: x.Range(),
	}
	if !ok {
		s.Value = "(not there)"
	}

	switch name {
	case "var":
		w.addVariable(s, r.path[0], depth)
	case "local":
		w.addLocal(s, r.path, depth)
	case "stage":
		w.addOutput(s, r.path, depth)
	case "each":
		if c.ForEach() == nil {
			return
		}
		s.Ref = "each"
		s.Note = "of for_each"
		w.addDefinition(s, c.Each(), r.path, c.ForEach(), depth)
	case "node":
		s.Ref = s.Text
		s.Note = "of the node as it was merged"
		w.add(depth, s)
		w.addPartOfNode(r.path, depth+1)
	}
	for _, index := range indexes {
		w.addOperands(index, c, depth)
	}
}

// addPartOfNode adds the setters of a part of the node: its labels, taints or flags, one of them, or a field of the
// configuration.
func (w *walker) addPartOfNode(p path, depth int) {
	kind := map[string]string{
		"labels":         Label,
		"taints":         Taint,
		"flags":          Flag,
		"kubelet_config": Config,
	}[p[0]]
	switch {
	case kind == "":
		return
	case len(p) == 1 && kind != Config:
		w.addEntries(depth, kind)
		return
	}

	for _, e := range w.findEntries(Item{kind, strings.Join(p[1:], ".")}) {
		w.addBasis(e, depth)
	}
}

// resolveAlias replaces a local that is another name for a reference by that reference.
func (w *walker) resolveAlias(r reference) reference {
	for r.root.Traversal.RootName() == "local" && len(r.path) > 0 {
		l := w.plan.Site.Locals[r.path[0]]
		if l == nil || w.describeOverride("local."+r.path[0]) != "" {
			break
		}
		alias, ok := w.parseReference(l.Expr, eval.Scope{})
		if !ok || !alias.isWhole {
			break
		}
		r = reference{
			root: alias.root,
			path: alias.path.extend(r.path[1:]...),
		}
	}

	return r
}

func (w *walker) addLocal(s Link, p path, depth int) {
	l := w.plan.Site.Locals[p[0]]
	if l == nil {
		return
	}

	s.Ref = "local." + p[0]
	s.Note = w.describeOverride(s.Ref)
	v, ds := w.e.Local(p[0])
	if err := firstError(ds); err != nil {
		w.setValue(&s, v, err)
	}
	w.addDefinition(s, v, p[1:], l.Expr, depth)
}

// addDefinition adds the link of a part of a local or of each, the fact that it is, and once the operands of the
// expression that defines it.
func (w *walker) addDefinition(
	s Link,
	v cty.Value,
	p path,
	x hclsyntax.Expression,
	depth int,
) {
	s.Range = x.Range()
	if !w.isFirst(s.Text + s.Value) {
		s.Note = "as above"
		w.add(depth, s)
		return
	}

	w.add(depth, s)
	w.addDevice(v, p, depth+1)
	if w.isFirst("definition " + s.Range.String()) {
		w.addOperands(x, eval.Scope{}, depth+1)
	}
}

// addDevice adds the fact that a path leads to, if it passes through an object that is one of the detected devices.
func (w *walker) addDevice(v cty.Value, p path, depth int) {
	for n := range p {
		object, _ := p[:n].findIn(v)
		for _, i := range w.plan.Site.OfType("detect-hw") {
			device := w.findDevice(i, object)
			found, ok := p[n:].findIn(object)
			if device == nil || !ok {
				continue
			}
			device = device.extend(p[n:]...)
			w.addOutput(
				Link{
					Text:  "stage" + device.String(),
					Value: w.show(found),
					Range: i.Range,
				},
				device,
				depth,
			)
			return
		}
	}
}

// findDevice returns the path of a device in the outputs of the stages; nil if the object is not one.
func (w *walker) findDevice(i *lang.Instance, device cty.Value) path {
	out, _ := w.e.Output(i.Addr())
	facts, _ := secret.Plain(out)
	device, _ = secret.Plain(device)
	if !device.Type().IsObjectType() || !facts.IsKnown() || facts.IsNull() {
		return nil
	}

	lists := facts.AsValueMap()
	names := slices.Sorted(maps.Keys(lists))
	for _, name := range slices.Backward(names) { // gpus rather than accelerators
		l := lists[name]
		if !l.Type().IsListType() || !l.IsKnown() || !l.CanIterateElements() {
			continue
		}
		if n := slices.IndexFunc(l.AsValueSlice(), device.RawEquals); n >= 0 {
			return path{i.Type, i.Name, name, fmt.Sprint(n)}
		}
	}

	return nil
}
