package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

const (
	maxSteps = 240 // of one explanation
	maxDepth = 24
	maxItems = 3 // elements of a list that are told one by one: of those in, and of those left out
)

// walker goes through expressions and says what each gave.
type walker struct {
	plan    *boot.Plan
	entries []world.Entry // of its tape
	e       *eval.Eval
	steps   []Step
	told    map[string]bool // references whose chain stands above
	role    origin.Role
}

// frame is where an expression is evaluated: what its names stand for.
type frame struct {
	ctx  *hcl.EvalContext
	each source // of each.value: the collection of for_each, and the key
	bind map[string]source
}

// source is the place of a value inside of an expression: what a loop's variable stands for.
type source struct {
	expr hclsyntax.Expression
	in   *frame
	at   path
}

// frameOf is the frame of an expression of a block.
func (w *walker) frameOf(x hclsyntax.Expression, each cty.Value, from source) *frame {
	ctx, _ := w.e.Context(x, each) // an error of a local shows where that local is walked
	return &frame{ctx: ctx, each: from}
}

// name tells frames apart in which the same expression has another value.
func (f *frame) name() string {
	s := f.each.at.String()
	for _, k := range slices.Sorted(maps.Keys(f.bind)) {
		s += " " + k + f.bind[k].at.String() + f.bind[k].in.name()
	}
	return s
}

func (w *walker) say(depth int, s Step) {
	if len(w.steps) > maxSteps {
		return
	}
	if len(w.steps) == maxSteps {
		s = Step{Text: "…", Note: "more than can be told here"}
	}
	s.Depth = depth
	if s.Kind == "" {
		s.Kind = origin.Site
	}
	if s.Role == "" {
		s.Role = origin.Value
	}
	if w.role != "" {
		s.Role = w.role
	}
	w.steps = append(w.steps, s)
}

// as walks with a role: what only decides is a condition, however deep.
func (w *walker) as(r origin.Role, f func()) {
	old := w.role
	if w.role == "" {
		w.role = r
	}
	f()
	w.role = old
}

// text is what is written at an expression, in one line.
func (w *walker) text(x hclsyntax.Expression) string {
	return oneLine(w.e.Text(x.Range()), maxShown)
}

// value evaluates a part of an expression in its frame.
func (w *walker) value(x hclsyntax.Expression, f *frame) (cty.Value, *hcl.Diagnostic) {
	v, d := x.Value(f.ctx)
	for _, one := range d {
		if one.Severity == hcl.DiagError {
			return cty.DynamicVal, one
		}
	}
	return v, nil
}

// at is the value of an expression at a path.
func (w *walker) at(x hclsyntax.Expression, f *frame, p path) (string, string) {
	v, d := w.value(x, f)
	if d != nil {
		return "(error)", d.Summary + ": " + d.Detail
	}
	v, _ = p.in(v)
	return w.show(v), ""
}

// walk tells what the value of x at p rests on. It says nothing of x itself: its caller has.
func (w *walker) walk(x hclsyntax.Expression, f *frame, p path, depth int) {
	if depth > maxDepth || x == nil {
		return
	}
	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		w.reference(x.Traversal, f, p, depth)
	case *hclsyntax.RelativeTraversalExpr:
		steps, _ := stepsOf(x.Traversal)
		w.walk(x.Source, f, steps.then(p...), depth)
	case *hclsyntax.IndexExpr:
		w.index(x, f, p, depth)
	case *hclsyntax.SplatExpr:
		w.splat(x, f, p, depth)
	case *hclsyntax.ConditionalExpr:
		w.conditional(x, f, p, depth)
	case *hclsyntax.FunctionCallExpr:
		w.call(x, f, p, depth)
	case *hclsyntax.ForExpr:
		w.loop(x, f, p, depth)
	case *hclsyntax.ObjectConsExpr:
		w.object(x, f, p, depth)
	case *hclsyntax.TupleConsExpr:
		w.tuple(x, f, p, depth)
	case *hclsyntax.TemplateExpr:
		for _, part := range x.Parts {
			w.walk(part, f, nil, depth)
		}
	case *hclsyntax.TemplateWrapExpr:
		w.walk(x.Wrapped, f, p, depth)
	case *hclsyntax.TemplateJoinExpr:
		w.walk(x.Tuple, f, nil, depth)
	case *hclsyntax.ObjectConsKeyExpr:
		if hcl.ExprAsKeyword(x.Wrapped) == "" || x.ForceNonLiteral {
			w.walk(x.Wrapped, f, nil, depth)
		}
	case *hclsyntax.BinaryOpExpr:
		w.walk(x.LHS, f, nil, depth)
		w.walk(x.RHS, f, nil, depth)
	case *hclsyntax.UnaryOpExpr:
		w.walk(x.Val, f, nil, depth)
	}
}

// reference tells one reference, and goes on with what it means.
func (w *walker) reference(tr hcl.Traversal, f *frame, p path, depth int) {
	root := tr.RootName()
	steps, _ := stepsOf(tr[1:])
	full := steps.then(p...)
	name := root + full.String()
	at := tr.SourceRange()
	v, ok := w.lookup(f, root, full)
	shown := w.show(v)
	if !ok {
		shown = "(not there)"
	}
	if s, ok := f.bind[root]; ok { // a loop's variable: the place that it stands for
		w.walk(s.expr, s.in, s.at.then(full...), depth)
		return
	}
	switch {
	case root == "each" && len(full) > 0 && f.each.expr != nil:
		once := name + f.name()
		if w.told[once] {
			w.say(depth, Step{Text: name, Value: shown, Note: "as above", Range: at, Ref: "each"})
			return
		}
		w.told[once] = true
		w.say(depth, Step{Text: name, Value: shown, Note: "of for_each", Range: f.each.expr.Range(), Ref: "each"})
		if full[0].name == "value" {
			w.walk(f.each.expr, f.each.in, f.each.at.then(full[1:]...), depth+1)
		} else {
			w.keyOf(f.each.expr, f.each.in, f.each.at, depth+1)
		}
	case len(full) == 0:
		w.say(depth, Step{Text: name, Value: shown, Range: at})
	case root == "var":
		w.variable(full[0].name, full[1:], shown, at, depth)
	case root == "local":
		w.local(full[0].name, full[1:], name, shown, depth)
	case root == "stage" && len(full) >= 2:
		w.output(full[0].name+"."+full[1].name, full[2:], name, shown, at, depth)
	case root == "node":
		w.say(depth, Step{Text: name, Value: shown, Note: "of the node as it was merged", Range: at, Ref: name})
	}
}

func (w *walker) lookup(f *frame, root string, p path) (cty.Value, bool) {
	for c := f.ctx; c != nil; c = c.Parent() {
		if v, ok := c.Variables[root]; ok {
			return p.in(v)
		}
	}
	return cty.DynamicVal, false
}

// local tells what a local is at a path, once.
func (w *walker) local(name string, p path, text, shown string, depth int) {
	l := w.plan.Site.Locals[name]
	if l == nil {
		return
	}
	if alias, ok := value.Unwrap(l.Expr).(*hclsyntax.ScopeTraversalExpr); ok && !w.isOverridden("local."+name) {
		w.reference(alias.Traversal, w.frameOf(l.Expr, cty.NilVal, source{}), p, depth) // another name for the same
		return
	}
	s := Step{Text: text, Value: shown, Range: l.Expr.Range(), Ref: "local." + name}
	if _, d := w.e.Local(name); d.HasErrors() {
		s.Value, s.Note = "(error)", d[0].Summary+": "+d[0].Detail
	}
	if w.told[text] {
		s.Note = "as above"
		w.say(depth, s)
		return
	}
	w.told[text] = true
	for _, o := range w.plan.Site.Overrides {
		if o.Address == "local."+name {
			s.Note = w.overridden(o)
		}
	}
	w.say(depth, s)
	w.walk(l.Expr, w.frameOf(l.Expr, cty.NilVal, source{}), p, depth+1)
}

func (w *walker) isOverridden(address string) bool {
	return slices.ContainsFunc(w.plan.Site.Overrides, func(o site.Override) bool { return o.Address == address })
}

func (w *walker) overridden(o site.Override) string {
	if o.Base.Filename == "" {
		return "added by an override"
	}
	return fmt.Sprintf("an override; without it: %s (%s:%d)", oneLine(w.e.Text(o.Base), maxShown), o.Base.Filename, o.Base.Start.Line)
}

func (w *walker) index(x *hclsyntax.IndexExpr, f *frame, p path, depth int) {
	k, d := w.value(x.Key, f)
	s, ok := stepOf(k)
	if d != nil || !ok {
		w.walk(x.Collection, f, nil, depth)
		return
	}
	if !isLiteral(x.Key) {
		w.say(depth, Step{Text: "index " + w.text(x.Key), Value: w.show(k), Range: x.Key.Range()})
		w.walk(x.Key, f, nil, depth+1)
	}
	w.walk(x.Collection, f, path{s}.then(p...), depth)
}

func (w *walker) splat(x *hclsyntax.SplatExpr, f *frame, p path, depth int) {
	var each path
	if r, ok := value.Unwrap(x.Each).(*hclsyntax.RelativeTraversalExpr); ok {
		each, _ = stepsOf(r.Traversal)
	}
	v, _ := w.value(x.Source, f)
	u, _, _ := value.Plain(v)
	isList := u.Type().IsListType() || u.Type().IsTupleType()
	if !isList || !u.IsKnown() || u.IsNull() {
		w.walk(x.Source, f, nil, depth)
		return
	}
	if len(p) > 0 && p[0].number {
		w.walk(x.Source, f, path{p[0]}.then(each...).then(p[1:]...), depth)
		return
	}
	for i := range min(u.LengthInt(), maxItems) {
		w.walk(x.Source, f, path{numbered(i)}.then(each...), depth)
	}
	if u.LengthInt() > maxItems || u.LengthInt() == 0 {
		w.walk(x.Source, f, nil, depth)
	}
}

func (w *walker) conditional(x *hclsyntax.ConditionalExpr, f *frame, p path, depth int) {
	v, d := w.value(x.Condition, f)
	u, _, _ := value.Plain(v)
	s := Step{Text: w.e.Text(x.Condition.Range()), Range: x.Condition.Range(), Role: origin.Condition}
	if d != nil || !u.IsKnown() || u.IsNull() || u.Type() != cty.Bool {
		s.Value = w.show(v)
		if d != nil {
			s.Value, s.Note = "(error)", d.Summary+": "+d.Detail
		}
		w.say(depth, s)
		w.as(origin.Condition, func() { w.walk(x.Condition, f, nil, depth+1) })
		return
	}
	branch, other := x.TrueResult, x.FalseResult
	if u.False() {
		branch, other = other, branch
	}
	s.Value = w.show(v)
	s.Note = fmt.Sprintf("so it is %s, not %s", w.text(branch), w.text(other))
	w.say(depth, s)
	w.as(origin.Condition, func() { w.walk(x.Condition, f, nil, depth+1) })
	w.walk(branch, f, p, depth)
}

func (w *walker) object(x *hclsyntax.ObjectConsExpr, f *frame, p path, depth int) {
	for i := len(x.Items) - 1; i >= 0 && len(p) > 0; i-- {
		k, d := w.value(x.Items[i].KeyExpr, f)
		if s, ok := stepOf(k); d == nil && ok && s.name == p[0].name {
			w.key(x.Items[i].KeyExpr, f, depth)
			w.whole(x.Items[i].ValueExpr, f, p[1:], depth)
			return
		}
	}
	for _, it := range x.Items {
		w.key(it.KeyExpr, f, depth)
		w.walk(it.ValueExpr, f, nil, depth)
	}
}

func (w *walker) tuple(x *hclsyntax.TupleConsExpr, f *frame, p path, depth int) {
	if len(p) > 0 && p[0].number && p[0].index < len(x.Exprs) {
		w.whole(x.Exprs[p[0].index], f, p[1:], depth)
		return
	}
	for _, e := range x.Exprs {
		w.walk(e, f, nil, depth)
	}
}

// whole walks an element that a path chose; of a literal it says that the value is written there.
func (w *walker) whole(x hclsyntax.Expression, f *frame, p path, depth int) {
	if isLiteral(x) {
		v, _ := w.at(x, f, p)
		w.say(depth, Step{Text: "written here", Value: v, Range: x.Range()})
		return
	}
	w.walk(x, f, p, depth)
}

// tellsItself says whether walking an expression says what it gave: a reference and a call do.
func (w *walker) tellsItself(x hclsyntax.Expression) bool {
	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return true
	case *hclsyntax.FunctionCallExpr:
		return x.Name != "merge" && x.Name != "where"
	case *hclsyntax.IndexExpr:
		return isLiteral(x.Key) && w.tellsItself(x.Collection)
	case *hclsyntax.RelativeTraversalExpr:
		return w.tellsItself(x.Source)
	}
	return false
}

// isLiteral says whether an expression refers to nothing and calls nothing.
func isLiteral(x hclsyntax.Expression) bool {
	plain := len(x.Variables()) == 0
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		if _, ok := n.(*hclsyntax.FunctionCallExpr); ok {
			plain = false
		}
		return nil
	})
	return plain
}

// child is a frame inside of a loop.
func (f *frame) child(vars map[string]cty.Value, bind map[string]source) *frame {
	c := f.ctx.NewChild()
	c.Variables = vars
	all := maps.Clone(f.bind)
	if all == nil {
		all = map[string]source{}
	}
	maps.Copy(all, bind)
	return &frame{ctx: c, each: f.each, bind: all}
}
