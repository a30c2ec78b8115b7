package explain

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
)

// turn is one iteration of a for.
type turn struct {
	from step // the element of the collection
	name string
	f    *frame
	kept bool
	err  string
	key  string // of an object's for
}

// turns are the iterations of a for over what its collection holds; ok is false where that is not known.
func (w *walker) turns(x *hclsyntax.ForExpr, f *frame) (out []turn, ok bool) {
	coll, d := w.value(x.CollExpr, f)
	u, marks := coll.Unmark()
	if d != nil || !u.IsKnown() || u.IsNull() || !u.CanIterateElements() {
		return nil, false
	}
	for it, n := u.ElementIterator(), 0; it.Next(); n++ {
		k, v := it.Element()
		from, isKey := stepOf(k)
		if !isKey || u.Type().IsSetType() {
			from, k = numbered(n), v
		}
		vars := map[string]cty.Value{x.ValVar: v.WithMarks(marks)}
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
		w.say(depth, Step{Text: fmt.Sprintf("for over %s", coll), Note: fmt.Sprintf("%s is its element %s", p[:1], path{t.from}), Range: x.Range()})
		if x.KeyExpr != nil {
			w.walk(x.KeyExpr, t.f, nil, depth+1)
		}
		w.walk(x.ValExpr, t.f, p[1:], depth+1)
		if x.CondExpr != nil {
			w.say(depth+1, Step{Text: "if " + w.text(x.CondExpr), Value: "true", Range: x.CondExpr.Range(), Role: origin.Condition})
			w.as(origin.Condition, func() { w.walk(x.CondExpr, t.f, nil, depth+2) })
		}
		return
	}
	kept := 0
	for _, t := range turns {
		if t.kept {
			kept++
		}
	}
	w.say(depth, Step{Text: "for over " + coll, Note: fmt.Sprintf("%d of %d elements are in", kept, len(turns)), Range: x.Range()})
	if len(turns) == 0 {
		w.walk(x.CollExpr, f, nil, depth+1)
	}
	for i, t := range turns {
		if i == maxItems {
			w.say(depth+1, Step{Text: fmt.Sprintf("… and %d more", len(turns)-i), Range: x.CollExpr.Range()})
			w.walk(x.CollExpr, f, nil, depth+1)
			break
		}
		s := Step{Text: x.ValVar + " = " + coll + path{t.from}.String(), Note: "in", Range: x.Range()}
		if !t.kept {
			s.Note = "left out"
			if t.err != "" {
				s.Note += ": " + t.err
			}
			s.Range = x.CondExpr.Range()
		} else if v, d := w.value(x.ValExpr, t.f); d == nil && !same(x) {
			s.Note, s.Value = "", show(v)
		}
		w.say(depth+1, s)
		if x.CondExpr != nil {
			w.as(origin.Condition, func() { w.walk(x.CondExpr, t.f, nil, depth+2) })
		}
		if t.kept && !same(x) {
			if x.KeyExpr != nil {
				w.walk(x.KeyExpr, t.f, nil, depth+2)
			}
			w.walk(x.ValExpr, t.f, nil, depth+2)
		} else if x.CondExpr == nil {
			w.walk(x.CollExpr, f, path{t.from}, depth+2)
		}
	}
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
	}
	v, note := w.at(x, f, nil)
	w.say(depth, Step{Text: w.text(x), Value: v, Note: note, Range: x.Range()})
	for _, a := range x.Args {
		w.walk(a, f, nil, depth+1)
	}
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
	s := Step{Text: w.text(x), Range: x.Range(), Note: fmt.Sprintf("%d of %d", k.LengthInt(), u.LengthInt())}
	if len(p) > 0 && p[0].number && p[0].index < len(from) {
		i := from[p[0].index]
		s.Note += fmt.Sprintf("; %s is element [%d]", p[:1], i)
		w.say(depth, s)
		w.walk(x.Args[0], f, path{numbered(i)}.then(p[1:]...), depth+1)
		w.criteria(x.Args[1], f, path{numbered(i)}, x.Args[0], depth+1)
		return true
	}
	w.say(depth, s)
	w.walk(x.Args[0], f, nil, depth+1)
	for i := range min(u.LengthInt(), maxItems) {
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
		s := Step{Text: fmt.Sprintf("argument %d, %s", i+1, w.text(a)), Range: a.Range()}
		switch {
		case d != nil:
			s.Value, s.Note = "(error)", strings.TrimSuffix(d.Summary+": "+d.Detail, ".")
			w.say(depth+1, s)
			w.as(origin.Condition, func() { w.walk(a, f, nil, depth+2) })
		case x.Name == "coalesce" && u.IsKnown() && u.IsNull():
			s.Value = "null"
			w.say(depth+1, s)
			w.as(origin.Condition, func() { w.walk(a, f, nil, depth+2) })
		default:
			shown, _ := w.at(a, f, p)
			s.Value, s.Note = shown, "taken"
			w.say(depth+1, s)
			w.walk(a, f, p, depth+2)
			return true
		}
	}
	return true
}
