package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
)

// fits says whether a name means a taint: key, key:Effect or key=value:Effect.
func fits(name string, t node.Taint) bool {
	return name == t.Key || name == t.Key+":"+t.Effect || name == t.String() || name == t.Key+"="+t.Value+":"+t.Effect
}

func (w *walker) taint(name string) (Explanation, bool) {
	var x Explanation
	var whole []string
	for _, t := range w.plan.Node.Taints {
		if !fits(name, t) {
			continue
		}
		x.Origins = append(x.Origins, t.Origins...)
		if x.Present {
			x.Value += ", "
		} else {
			x.Range, x.Text = w.place(t.Origins)
		}
		x.Value += quote(t.String())
		whole = append(whole, t.String())
		x.Present, x.TakesEffect = true, "registration"
		w.taintChain(t, 0)
		w.replaced("taint/"+t.Key+":"+t.Effect, "Taint "+t.Key+":"+t.Effect+" of the base")
	}
	if x.Present {
		x.Whole = whole
		return x, true
	}
	return w.noTaint(name)
}

func (w *walker) taintChain(t node.Taint, depth int) {
	for _, i := range w.plan.Site.OfType("taint") {
		if !w.gave(i, t.Origins) {
			continue
		}
		for _, c := range w.copies(i) {
			for _, e := range w.elements(i, c) {
				if e.text == t.String() {
					w.walk(i.Body.Attributes["taints"].Expr, c.frame(w, i.Body.Attributes["taints"].Expr), way(numbered(e.n)), depth)
				}
			}
		}
		w.condition(i.When, "stage."+i.Addr(), depth)
		w.overrides(i.Addr(), "taints", "when", "for_each")
	}
	w.ofBase(t.Origins)
}

// element is one taint of a stage's list. Text is kubectl's form; prefix is what is written where it has no value.
type element struct {
	n            int
	text, prefix string
	key          string
	null         bool
	err          *hcl.Diagnostic
	at           hcl.Range
}

// elements are those of a stage's list, evaluated one by one where they are written so.
func (w *walker) elements(i *site.Instance, c copyOf) (out []element) {
	a := i.Body.Attributes["taints"]
	if a == nil {
		return nil
	}
	f := c.frame(w, a.Expr)
	add := func(n int, v cty.Value, d *hcl.Diagnostic, x hclsyntax.Expression) {
		e := element{n: n, err: d, null: d == nil && null(v), at: x.Range(), prefix: prefix(x)}
		if u, _, _ := value.Plain(v); d == nil && u.IsKnown() && !u.IsNull() && u.Type() == cty.String {
			if t, err := kubelet.ParseTaint(u.AsString()); err == nil {
				e.key, e.text = t.Key, node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}.String()
			}
		}
		out = append(out, e)
	}
	if t, ok := value.Unwrap(a.Expr).(*hclsyntax.TupleConsExpr); ok {
		for n, x := range t.Exprs {
			v, d := w.value(x, f)
			add(n, v, d, x)
		}
		return out
	}
	v, d := w.value(a.Expr, f)
	u, _, _ := value.Plain(v)
	if d != nil || !u.IsKnown() || u.IsNull() || !u.CanIterateElements() {
		add(0, v, d, a.Expr)
		return out
	}
	n := 0
	for it := u.ElementIterator(); it.Next(); n++ {
		_, e := it.Element()
		add(n, e, nil, a.Expr)
	}
	return out
}

func (w *walker) noTaint(name string) (Explanation, bool) {
	key := name
	if at := strings.IndexAny(name, "=:"); at >= 0 {
		key = name[:at]
	}
	var why []string
	for _, i := range w.plan.Site.OfType("taint") {
		if s := w.noTaintBy(i, key); s != "" {
			why = append(why, s)
			w.overrides(i.Addr(), "taints", "when", "for_each")
		}
	}
	if len(why) == 0 {
		for _, i := range w.plan.Site.OfType("taint") {
			if a := i.Body.Attributes["taints"]; a != nil {
				if _, written := value.Unwrap(a.Expr).(*hclsyntax.TupleConsExpr); !written {
					why = append(why, w.taintsFromData(i, a.Expr))
				}
			}
		}
	}
	return Explanation{Summary: strings.Join(why, " ")}, len(why) > 0
}

func (w *walker) noTaintBy(i *site.Instance, key string) string {
	whose := "stage." + i.Addr()
	for _, c := range w.copies(i) {
		all := w.elements(i, c)
		n := slices.IndexFunc(all, func(e element) bool {
			return e.key == key || e.key == "" && e.prefix != "" && strings.HasPrefix(e.prefix, key)
		})
		if n < 0 {
			continue
		}
		e := all[n]
		w.say(0, Step{Text: whose, Note: "could set it", Range: e.at, Ref: whose})
		if ended := w.ended(i); ended != "" {
			return ended
		}
		held := w.condition(i.When, whose, 1)
		if held {
			a := i.Body.Attributes["taints"]
			w.walk(a.Expr, c.frame(w, a.Expr), way(numbered(e.n)), 1)
		}
		switch {
		case !held && w.untold(i.When):
			return fmt.Sprintf("It cannot be told whether %s is there: %s.", whose, w.text(i.When))
		case !held:
			return fmt.Sprintf("%s is left out, because its condition is not true: %s.", whose, w.text(i.When))
		case e.err != nil:
			w.say(1, Step{Text: w.e.Text(e.at), Value: "(error)", Note: e.err.Summary + ": " + e.err.Detail, Range: e.at})
			return fmt.Sprintf("%s failed: %s.", whose, strings.TrimSuffix(e.err.Summary, "."))
		case e.null:
			return fmt.Sprintf("%s gives null, which is no taint.", whose)
		case w.failed(i) != "":
			return w.failed(i) + "."
		case w.plan.Diagnostics.HasErrors():
			return "The run ended before taints were merged: " + firstError(w.plan.Diagnostics) + "."
		}
		return fmt.Sprintf("%s gives %s.", whose, e.text)
	}
	return ""
}

func (w *walker) taintsFromData(i *site.Instance, x hclsyntax.Expression) string {
	w.data(i, "taints", x)
	return fmt.Sprintf("No taint of that key is written in the site; stage.%s takes its taints from data, and it is not among them.", i.Addr())
}

// ofBase tells that the base has an item, and where that was read.
func (w *walker) ofBase(os []origin.Origin) {
	for _, o := range os {
		if o.Kind != origin.Base {
			continue
		}
		if strings.HasPrefix(o.Ref, "/") {
			w.say(0, Step{Kind: origin.Base, Text: o.Text + " in " + o.Ref, Note: "of the base", Ref: o.Ref})
			w.baseText("kubelet_flags", 1)
		} else {
			w.say(0, Step{Kind: origin.Base, Text: "the kubelet's " + o.Ref, Note: "of the base", Ref: o.Ref})
			w.baseText("kubelet_config", 1)
		}
		return
	}
}
