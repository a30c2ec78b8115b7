package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
)

// turn is one iteration of a for.
type turn struct {
	from step // the element of the collection
	f    *frame
	kept bool
	err  string
	key  string // of an object's for
}

// turns are the iterations of a for over what its collection holds; ok is false where that is not known.
func (w *walker) turns(x *hclsyntax.ForExpr, f *frame) (out []turn, ok bool) {
	coll, d := w.value(x.CollExpr, f)
	u, marked := value.Open(coll)
	if d != nil || !u.IsKnown() || u.IsNull() || !u.CanIterateElements() {
		return nil, false
	}
	for it, n := u.ElementIterator(), 0; it.Next(); n++ {
		k, v := it.Element()
		from, isKey := stepOf(k)
		if !isKey || u.Type().IsSetType() {
			from, k = numbered(n), v
		}
		vars := map[string]cty.Value{x.ValVar: marked(v)}
		bind := map[string]source{x.ValVar: {x.CollExpr, f, path{from}}}
		if x.KeyVar != "" {
			vars[x.KeyVar] = k
			bind[x.KeyVar] = source{x.CollExpr, f, nil}
		}
		t := turn{from: from, f: f.child(vars, bind), kept: true}
		if x.CondExpr != nil {
			c, d := w.value(x.CondExpr, t.f)
			p, _, _ := value.Plain(c)
			t.kept = d == nil && p.IsKnown() && !p.IsNull() && p.Type() == cty.Bool && p.True()
			if d != nil {
				t.err = d.Summary
			}
		}
		if t.kept && x.KeyExpr != nil {
			if k, d := w.value(x.KeyExpr, t.f); d == nil {
				s, _ := stepOf(k)
				t.key = s.name
			}
		}
		out = append(out, t)
	}
	return out, true
}

// loop tells which element of a for gave what is at the path, or what became of each.
func (w *walker) loop(x *hclsyntax.ForExpr, f *frame, p path, depth int) {
	turns, ok := w.turns(x, f)
	if !ok {
		w.walk(x.CollExpr, f, nil, depth)
		return
	}
	coll := w.text(x.CollExpr)
	if t, ok := chosen(x, turns, p); ok {
		if w.again(x, f, p[:1]) {
			w.walk(x.ValExpr, t.f, p[1:], depth)
			return
		}
		w.say(depth, Step{Text: "for over " + coll, Note: fmt.Sprintf("%s is its element %s", p[:1], path{t.from}), Range: x.Range()})
		w.key(x.KeyExpr, t.f, depth+1)
		w.walk(x.ValExpr, t.f, p[1:], depth+1)
		w.kept(x, t, depth+1)
		return
	}
	kept := 0
	for _, t := range turns {
		if t.kept {
			kept++
		}
	}
	w.say(depth, Step{Text: "for over " + coll, Note: fmt.Sprintf("keeps %d of %d", kept, len(turns)), Range: x.Range()})
	if len(turns) == 0 {
		w.walk(x.CollExpr, f, nil, depth+1)
	}
	in, out := 0, 0
	for _, t := range turns {
		n := &in
		if !t.kept {
			n = &out
		}
		if *n++; *n <= maxItems {
			w.turn(x, t, coll, depth+1)
		}
	}
	if more := max(0, in-maxItems) + max(0, out-maxItems); more > 0 {
		w.say(depth+1, Step{Text: fmt.Sprintf("… and %d more", more), Range: x.CollExpr.Range()})
		w.walk(x.CollExpr, f, nil, depth+1)
	}
}

// kept tells the condition that an element of a for is in by.
func (w *walker) kept(x *hclsyntax.ForExpr, t turn, depth int) {
	if x.CondExpr != nil {
		w.say(depth, Step{Text: "if " + w.text(x.CondExpr), Value: "true", Range: x.CondExpr.Range(), Role: origin.Condition})
		w.as(origin.Condition, func() { w.walk(x.CondExpr, t.f, nil, depth+1) })
	}
}

// key tells a key that is put together.
func (w *walker) key(x hclsyntax.Expression, f *frame, depth int) {
	if x == nil || isLiteral(x) || hcl.ExprAsKeyword(x) != "" {
		return
	}
	if k, ok := x.(*hclsyntax.ObjectConsKeyExpr); ok && !k.ForceNonLiteral && hcl.ExprAsKeyword(k.Wrapped) != "" {
		return
	}
	v, note := w.at(x, f, nil)
	w.say(depth, Step{Text: "its key " + w.text(x), Value: v, Note: note, Range: x.Range()})
	w.walk(x, f, nil, depth+1)
}

// turn tells one iteration: whether the element is in, what it gave, and why.
func (w *walker) turn(x *hclsyntax.ForExpr, t turn, coll string, depth int) {
	s := Step{Text: x.ValVar + " = " + coll + path{t.from}.String(), Note: "is in", Range: x.Range()}
	switch {
	case !t.kept:
		s.Note, s.Range = join("is left out", t.err), x.CondExpr.Range()
	case !same(x):
		if v, d := w.value(x.ValExpr, t.f); d == nil {
			s.Note = "gives " + w.show(v)
		}
	}
	w.say(depth, s)
	if x.CondExpr != nil {
		w.as(origin.Condition, func() { w.walk(x.CondExpr, t.f, nil, depth+1) })
	}
	switch {
	case !t.kept:
	case !same(x):
		w.key(x.KeyExpr, t.f, depth+1)
		w.walk(x.ValExpr, t.f, nil, depth+1)
	case x.CondExpr == nil:
		w.walk(x.CollExpr, t.f, path{t.from}, depth+1)
	}
}

// keyOf tells what a key of a collection rests on.
func (w *walker) keyOf(x hclsyntax.Expression, f *frame, p path, depth int) {
	switch e := value.Unwrap(x).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		if steps, ok := stepsOf(e.Traversal[1:]); ok && e.Traversal.RootName() == "local" && len(steps) == 1 {
			if l := w.plan.Site.Locals[steps[0].name]; l != nil {
				w.keyOf(l.Expr, w.frameOf(l.Expr, cty.NilVal, source{}), p, depth)
				return
			}
		}
	case *hclsyntax.ForExpr:
		turns, _ := w.turns(e, f)
		if t, ok := chosen(e, turns, p); ok && e.KeyExpr != nil {
			w.say(depth, Step{Text: "for over " + w.text(e.CollExpr), Note: fmt.Sprintf("%s is its element %s", p[:1], path{t.from}), Range: e.Range()})
			w.walk(e.KeyExpr, t.f, nil, depth+1)
			w.kept(e, t, depth+1)
			return
		}
	}
	w.walk(x, f, nil, depth)
}

// same says whether a for gives its elements as they are: for n in list : n.
func same(x *hclsyntax.ForExpr) bool {
	t, ok := value.Unwrap(x.ValExpr).(*hclsyntax.ScopeTraversalExpr)
	return ok && len(t.Traversal) == 1 && t.Traversal.RootName() == x.ValVar
}

// chosen is the iteration that gave what the path leads to first.
func chosen(x *hclsyntax.ForExpr, turns []turn, p path) (turn, bool) {
	if len(p) == 0 || x.Group {
		return turn{}, false
	}
	n := 0
	for i := range turns {
		t := turns[i]
		if !t.kept {
			continue
		}
		switch {
		case x.KeyExpr != nil && !p[0].number && t.key == p[0].name:
			return t, true
		case x.KeyExpr == nil && p[0].number && n == p[0].index:
			return t, true
		}
		n++
	}
	return turn{}, false
}

// call tells what a function gave, and which of its arguments that came from.
func (w *walker) call(x *hclsyntax.FunctionCallExpr, f *frame, p path, depth int) {
	switch x.Name {
	case "file", "fileexists", "credential":
		w.question(x, f, p, depth)
		return
	case "where":
		if w.where(x, f, p, depth) {
			return
		}
	case "merge":
		if w.merge(x, f, p, depth) {
			return
		}
	case "coalesce", "try":
		if w.firstOf(x, f, p, depth) {
			return
		}
	case "compact", "concat", "distinct", "reverse", "slice", "sort", "tolist":
		if w.sift(x, f, p, depth) {
			return
		}
	}
	v, note := w.at(x, f, p)
	w.say(depth, Step{Text: w.text(x) + p.String(), Value: v, Note: note, Range: x.Range()})
	for _, a := range x.Args {
		w.walk(a, f, nil, depth+1)
	}
}

// again says whether the way through an expression to an element stands above already.
func (w *walker) again(x hclsyntax.Expression, f *frame, p path) bool {
	key := fmt.Sprintf("%s %s%s %s", x.Range(), w.e.Text(x.Range()), f.name(), p)
	old := w.told[key]
	w.told[key] = true
	return old
}

// where finds the element of the list behind one of what was kept.
func (w *walker) where(x *hclsyntax.FunctionCallExpr, f *frame, p path, depth int) bool {
	if len(x.Args) != 2 {
		return false
	}
	all, d := w.value(x.Args[0], f)
	some, d2 := w.value(x, f)
	u, _, _ := value.Plain(all)
	k, _, _ := value.Plain(some)
	if d != nil || d2 != nil || !u.IsWhollyKnown() || u.IsNull() || !k.IsKnown() || !list(u) || !list(k) {
		return false
	}
	var from []int // element i of the result is element from[i] of the list
	n := 0
	for i := 0; i < u.LengthInt() && n < k.LengthInt(); i++ {
		if u.Index(cty.NumberIntVal(int64(i))).RawEquals(k.Index(cty.NumberIntVal(int64(n)))) {
			from = append(from, i)
			n++
		}
	}
	s := Step{Text: w.text(x), Range: x.Range(), Note: fmt.Sprintf("keeps %d of %d", k.LengthInt(), u.LengthInt())}
	if len(p) > 0 && p[0].number && p[0].index < len(from) {
		i := from[p[0].index]
		if w.again(x, f, p[:1]) {
			w.walk(x.Args[0], f, path{numbered(i)}.then(p[1:]...), depth)
			return true
		}
		s.Note += fmt.Sprintf("; %s is element [%d]", p[:1], i)
		w.say(depth, s)
		w.walk(x.Args[0], f, path{numbered(i)}.then(p[1:]...), depth+1)
		w.criteria(x.Args[1], f, path{numbered(i)}, x.Args[0], depth+1)
		return true
	}
	w.say(depth, s)
	w.walk(x.Args[0], f, nil, depth+1)
	in, out := 0, 0
	for i := range u.LengthInt() {
		if slices.Contains(from, i) {
			if in++; in > 1 { // one that fits is like the next
				continue
			}
		} else if out++; out > maxItems {
			continue
		}
		w.criteria(x.Args[1], f, path{numbered(i)}, x.Args[0], depth+1)
	}
	w.walk(x.Args[1], f, nil, depth+1)
	return true
}

// criteria tells the fields of one element that where() looked at.
func (w *walker) criteria(x hclsyntax.Expression, f *frame, elem path, of hclsyntax.Expression, depth int) {
	v, d := w.value(x, f)
	u, _, _ := value.Plain(v)
	if d != nil || !u.IsKnown() || u.IsNull() || !u.Type().IsObjectType() && !u.Type().IsMapType() {
		return
	}
	w.as(origin.Condition, func() {
		for it := u.ElementIterator(); it.Next(); {
			k, _ := it.Element()
			w.walk(of, f, elem.then(named(k.AsString())), depth)
		}
	})
}

// sift finds the element behind one that a function took over as it is.
func (w *walker) sift(x *hclsyntax.FunctionCallExpr, f *frame, p path, depth int) bool {
	if len(p) == 0 || !p[0].number || x.ExpandFinal {
		return false
	}
	got, d := w.value(x, f)
	one, ok := p[:1].in(got)
	if d != nil || !ok {
		return false
	}
	for n, a := range x.Args {
		v, d := w.value(a, f)
		u, _, _ := value.Plain(v)
		if d != nil || !u.IsKnown() || u.IsNull() || !list(u) {
			continue
		}
		for i := range u.LengthInt() {
			if e, ok := way(numbered(i)).in(v); ok && e.RawEquals(one) {
				w.say(depth, Step{Text: w.text(x), Note: fmt.Sprintf("%s is element [%d] of argument %d", p[:1], i, n+1), Range: x.Range()})
				w.walk(a, f, way(numbered(i)).then(p[1:]...), depth+1)
				return true
			}
		}
	}
	return false
}

func list(v cty.Value) bool { return v.Type().IsListType() || v.Type().IsTupleType() }

func (w *walker) merge(x *hclsyntax.FunctionCallExpr, f *frame, p path, depth int) bool {
	if len(p) == 0 || x.ExpandFinal {
		return false
	}
	for i := len(x.Args) - 1; i >= 0; i-- {
		v, d := w.value(x.Args[i], f)
		if d != nil {
			continue
		}
		if _, ok := p[:1].in(v); !ok {
			continue
		}
		if len(x.Args) > 1 {
			w.say(depth, Step{Text: "merge(…)", Note: fmt.Sprintf("argument %d of %d has it: %s", i+1, len(x.Args), w.text(x.Args[i])), Range: x.Args[i].Range()})
		}
		w.walk(x.Args[i], f, p, depth)
		return true
	}
	return false
}

// firstOf tells which argument of coalesce() or try() was taken, and why not those before.
func (w *walker) firstOf(x *hclsyntax.FunctionCallExpr, f *frame, p path, depth int) bool {
	if x.ExpandFinal {
		return false
	}
	v, note := w.at(x, f, p)
	w.say(depth, Step{Text: w.text(x), Value: v, Note: note, Range: x.Range()})
	for i, a := range x.Args {
		got, d := w.value(a, f)
		u, _, _ := value.Plain(got)
		s := Step{Text: w.text(a), Range: a.Range(), Note: fmt.Sprintf("argument %d", i+1)}
		switch {
		case d != nil:
			s.Value, s.Note = "(error)", fmt.Sprintf("argument %d: %s: %s", i+1, d.Summary, strings.TrimSuffix(d.Detail, "."))
			w.say(depth+1, s)
			w.as(origin.Condition, func() { w.walk(a, f, nil, depth+2) })
		case x.Name == "coalesce" && u.IsKnown() && u.IsNull():
			s.Value = "null"
			w.argumentOf(s, a, depth+1, func(at int) { w.as(origin.Condition, func() { w.walk(a, f, nil, at) }) })
		default:
			if s.Note += ": taken"; !isLiteral(a) {
				s.Value, _ = w.at(a, f, p)
			}
			w.argumentOf(s, a, depth+1, func(at int) { w.walk(a, f, p, at) })
			return true
		}
	}
	return true
}

// argumentOf tells an argument and what it rests on.
func (w *walker) argumentOf(s Step, x hclsyntax.Expression, depth int, walk func(depth int)) {
	if w.tellsItself(x) {
		walk(depth)
		return
	}
	w.say(depth, s)
	walk(depth + 1)
}
