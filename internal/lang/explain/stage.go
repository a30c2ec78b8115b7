package explain

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
)

// copyOf is one copy of a stage, as for_each made it.
type copyOf struct {
	key  string
	each cty.Value
	from source
}

func (c copyOf) frame(w *walker, x hclsyntax.Expression) *frame { return w.frameOf(x, c.each, c.from) }

// copies are those of a stage, whether its condition holds or not.
func (w *walker) copies(i *site.Instance) (out []copyOf) {
	copies, _ := w.e.Scope(i.Addr()).Copies(nil, i.ForEach)
	for _, c := range copies.All {
		one := copyOf{key: c.Key, each: c.Scope.Each()}
		if i.ForEach != nil {
			one.from = source{i.ForEach, w.frameOf(i.ForEach, cty.NilVal, source{}), path{named(c.Key)}}
		}
		out = append(out, one)
	}
	return out
}

// condition tells `when` of a block and what it rests on; ok says whether it holds, and not that it cannot be told.
func (w *walker) condition(when hclsyntax.Expression, whose string, depth int) (ok bool) {
	if when == nil {
		return true
	}
	f := w.frameOf(when, cty.NilVal, source{})
	v, d := w.value(when, f)
	u, _, _ := value.Plain(v)
	ok = w.holds(when)
	s := Step{Text: "when " + w.e.Text(when.Range()), Value: unlessSame(w.show(v), w.text(when)), Range: when.Range(), Role: origin.Condition, Ref: whose}
	switch {
	case d != nil:
		s.Value, s.Note = "(error)", d.Summary+": "+d.Detail
	case !u.IsKnown():
		s.Note = "so it cannot be told whether " + whose + " is there"
	case ok:
		s.Note = "so " + whose + " is there"
	default:
		s.Note = "so " + whose + " is left out"
	}
	w.say(depth, s)
	w.as(origin.Condition, func() { w.walk(when, f, nil, depth+1) })
	return ok
}

// holds reports whether a condition is known and true.
func (w *walker) holds(when hclsyntax.Expression) bool {
	v, d := w.value(when, w.frameOf(when, cty.NilVal, source{}))
	u, _, _ := value.Plain(v)

	return d == nil && u.IsKnown() && !u.IsNull() && u.Type() == cty.Bool && u.True()
}

// untold says whether a condition has no value: an error, or an answer that a recording does not hold.
func (w *walker) untold(when hclsyntax.Expression) bool {
	v, d := w.value(when, w.frameOf(when, cty.NilVal, source{}))
	u, _, _ := value.Plain(v)
	return d != nil || !u.IsKnown()
}

// state is how a stage went: ok, skipped, failed; "" where the run did not come so far.
func (w *walker) state(i *site.Instance) string {
	for _, s := range w.plan.Stages {
		if s.Address == i.Addr() {
			return s.State
		}
	}
	return ""
}

// ended says why the run ended before a stage had its turn; "" if it had.
func (w *walker) ended(i *site.Instance) string {
	if !w.plan.Diagnostics.HasErrors() || w.state(i) != "" {
		return ""
	}
	return "The run ended before stage." + i.Addr() + " had its turn: " + firstError(w.plan.Diagnostics) + "."
}

// failed is the sentence about a stage that failed, or "".
func (w *walker) failed(i *site.Instance) string {
	if w.state(i) != "failed" {
		return ""
	}
	return w.why(i)
}

// why is what is known of the state of a stage.
func (w *walker) why(i *site.Instance) string {
	st := w.state(i)
	switch st {
	case "ok", "":
		return ""
	case "skipped":
		return "its condition is false"
	}
	for _, d := range w.plan.Diagnostics {
		if d.Subject != nil && !origin.IsNote(d) && within(*d.Subject, i) {
			return "stage " + i.Addr() + " failed: " + strings.TrimSuffix(d.Summary, ".")
		}
	}
	return "stage " + i.Addr() + " failed"
}

// within says whether a place is inside of a stage's block, or is its head.
func within(r hcl.Range, i *site.Instance) bool {
	for _, b := range []hcl.Range{i.Range, i.Body.SrcRange} {
		if r.Filename == b.Filename && r.Start.Byte >= b.Start.Byte && r.End.Byte <= b.End.Byte {
			return true
		}
	}
	return false
}

// overrides tells which overrides changed a stage, with both places.
func (w *walker) overrides(addr string, names ...string) {
	for _, o := range w.plan.Site.Overrides {
		rest, ok := strings.CutPrefix(o.Address, "stage."+addr+" ")
		if !ok {
			continue
		}
		for _, n := range names {
			if rest == n || strings.HasPrefix(rest, n+".") {
				w.say(0, Step{Text: o.Address, Note: w.overridden(o), Range: o.Over, Ref: "override"})
			}
		}
	}
}

// replaced tells what the base had before a stage changed an item, and names the item with text.
func (w *walker) replaced(item, text string) {
	for _, d := range w.plan.Diagnostics {
		if origin.IsReplaced(d, item) {
			w.say(0, Step{Kind: origin.Base, Text: text, Note: strings.TrimSuffix(d.Detail, "."), Ref: "base"})
		}
	}
}
