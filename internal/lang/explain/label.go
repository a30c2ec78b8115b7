package explain

import (
	"encoding/json"
	"fmt"
	shell "path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

func (w *walker) label(key string) (Explanation, bool) {
	at := slices.IndexFunc(w.plan.Node.Labels, func(l node.Label) bool { return l.Key == key })
	if at < 0 {
		return w.noLabel(key)
	}
	l := w.plan.Node.Labels[at]
	x := Explanation{Value: quote(l.Value), Whole: l.Value, Present: true, Origins: l.Origins, TakesEffect: w.plan.TakesEffect(key)}
	x.Range, x.Text = w.place(l.Origins)
	for _, i := range w.plan.Site.OfType("label") {
		if !w.gave(i, l.Origins) {
			continue
		}
		for _, c := range w.copies(i) {
			if v, _, ok := w.item(i, c, key); ok && !null(v) {
				a := i.Body.Attributes["labels"]
				w.walk(a.Expr, c.frame(w, a.Expr), way(named(key)), 0)
			} else {
				w.recommended(i, key, 0)
			}
		}
		w.condition(i.When, "stage."+i.Addr(), 0)
		w.overrides(i.Addr(), "labels", "from_detectors", "when", "for_each")
	}
	w.ofBase(l.Origins)
	w.replaced("label/"+key, "Label "+key+" of the base")
	return x, true
}

// place is the expression of the site that an item's first origin names.
func (w *walker) place(os []origin.Origin) (hcl.Range, string) {
	for _, o := range os {
		if o.Range.Filename != "" {
			return o.Range, w.e.Text(o.Range)
		}
	}
	return hcl.Range{}, ""
}

// gave says whether a stage is among the origins of an item.
func (w *walker) gave(i *site.Instance, os []origin.Origin) bool {
	return slices.ContainsFunc(os, func(o origin.Origin) bool { return o.Kind == origin.Site && o.Ref == i.Addr() })
}

// item is the value of one key of a stage's labels. An object literal is evaluated item by item, as decide does:
// another one that fails is no reason.
func (w *walker) item(i *site.Instance, c copyOf, key string) (cty.Value, *hcl.Diagnostic, bool) {
	a := i.Body.Attributes["labels"]
	if a == nil {
		return cty.NilVal, nil, false
	}
	f := c.frame(w, a.Expr)
	if o, ok := value.Unwrap(a.Expr).(*hclsyntax.ObjectConsExpr); ok {
		for n := len(o.Items) - 1; n >= 0; n-- {
			k, d := w.value(o.Items[n].KeyExpr, f)
			if s, ok := stepOf(k); d == nil && ok && s.name == key {
				v, d := w.value(o.Items[n].ValueExpr, f)
				return v, d, true
			}
		}
		return cty.NilVal, nil, false
	}
	v, d := w.value(a.Expr, f)
	if d != nil {
		return cty.NilVal, d, w.mentions(a.Expr, key)
	}
	v, ok := way(named(key)).in(v)
	return v, nil, ok
}

// mentions says whether a key stands in an expression as it is written.
func (w *walker) mentions(x hclsyntax.Expression, key string) bool {
	found := false
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		if o, ok := n.(*hclsyntax.ObjectConsExpr); ok {
			for _, it := range o.Items {
				if v, d := it.KeyExpr.Value(nil); !d.HasErrors() && v.Type() == cty.String && v.IsKnown() && v.AsString() == key {
					found = true
				}
			}
		}
		return nil
	})
	return found
}

func null(v cty.Value) bool {
	u, _, _ := value.Plain(v)
	return u.IsKnown() && u.IsNull()
}

// recommended tells which detector recommends a label that a stage takes.
func (w *walker) recommended(i *site.Instance, key string, depth int) bool {
	a := i.Body.Attributes["from_detectors"]
	if a == nil || !w.takes(i, key) {
		return false
	}
	w.say(depth, Step{Text: "from_detectors = " + w.text(a.Expr), Note: "takes it", Range: a.Expr.Range(), Ref: "stage." + i.Addr()})
	for _, e := range w.entries {
		if e.Kind == world.KindLock && e.Answer.Fault != nil && e.Answer.Code() != fault.Unread { // then it was not asked
			r, _ := world.LockOf.Request(e.Question)
			w.say(depth+1, Step{Kind: origin.Detector, Text: "detector " + r.Name, Note: told(e.Answer), Ref: "detector." + r.Name, Answer: answerTo(e.Question, e.Answer, "")})
		}
		if e.Kind != world.KindDetector {
			continue
		}
		r, _ := world.DetectorOf.Request(e.Question)
		var d world.DetectorAns
		_ = json.Unmarshal(e.Answer.Value, &d)
		s := Step{Kind: origin.Detector, Text: "detector " + r.Name, Ref: "detector." + r.Name, Answer: answerTo(e.Question, e.Answer, "/labels/"+world.EscapePointer(key))}
		switch v, ok := d.Labels[key]; {
		case e.Answer.Fault != nil:
			s.Note, s.Answer.Pointer = told(e.Answer), ""
		case !ok:
			s.Note, s.Answer.Pointer = "does not recommend it", "/labels"
		default:
			s.Note, s.Value = "recommends it", quote(v)
			if where := d.Evidence["labels."+key]; where != "" {
				s.Note += ": " + where
			}
		}
		w.say(depth+1, s)
	}
	return true
}

// takes says whether a pattern of from_detectors matches a key.
func (w *walker) takes(i *site.Instance, key string) bool {
	a := i.Body.Attributes["from_detectors"]
	if a == nil {
		return false
	}
	for _, c := range w.copies(i) {
		v, _ := w.value(a.Expr, c.frame(w, a.Expr))
		u, _, _ := value.Plain(v)
		if !u.IsWhollyKnown() || u.IsNull() || !u.CanIterateElements() {
			continue
		}
		for it := u.ElementIterator(); it.Next(); {
			if _, p := it.Element(); p.Type() == cty.String && !p.IsNull() {
				if ok, _ := shell.Match(p.AsString(), key); ok {
					return true
				}
			}
		}
	}
	return false
}

// noLabel says why a label is not there: which stages could set it, and why they do not.
func (w *walker) noLabel(key string) (Explanation, bool) {
	var why []string
	for _, i := range w.plan.Site.OfType("label") {
		if s := w.notBy(i, key); s != "" {
			why = append(why, s)
			w.overrides(i.Addr(), "labels", "from_detectors", "when", "for_each")
		}
	}
	if len(why) == 0 { // stages that take their keys from data
		for _, i := range w.plan.Site.OfType("label") {
			if s := w.fromData(i, key); s != "" {
				why = append(why, s)
			}
		}
	}
	return Explanation{Summary: strings.Join(why, " ")}, len(why) > 0
}

// notBy tells why one stage does not set a label that it could; "" if it could not.
func (w *walker) notBy(i *site.Instance, key string) string {
	for _, c := range w.copies(i) {
		if l := w.candidateOf(i, c, key); l.there || l.taken {
			return w.notSet(l)
		}
	}
	return w.notOfEach(i, key)
}

// candidate is a label that one copy of a stage could set.
type candidate struct {
	stage *site.Instance
	copy  copyOf
	key   string
	there bool            // the stage writes it
	value cty.Value       // if there
	err   *hcl.Diagnostic // of the value, or of the stage's labels as a whole
	taken bool            // the stage does not write it, and takes it from detectors
}

func (w *walker) candidateOf(i *site.Instance, c copyOf, key string) candidate {
	v, d, there := w.item(i, c, key)
	return candidate{stage: i, copy: c, key: key, there: there, value: v, err: d, taken: !there && w.takes(i, key)}
}

func (l candidate) whose() string { return "stage." + l.stage.Addr() }

// labels is the stage's expression of all labels; only of a stage that writes the label.
func (l candidate) labels() hclsyntax.Expression { return l.stage.Body.Attributes["labels"].Expr }

// notSet says what an absent label rests on, and returns why the stage does not set it.
func (w *walker) notSet(l candidate) string {
	w.sayCandidate(l)

	return w.whyNotSet(l)
}

// sayCandidate says the stage, its condition, and where the condition holds, what the label's value rests on. Of a stage
// that had no turn it says only a value that is known.
func (w *walker) sayCandidate(l candidate) {
	at, item := w.placeOf(l)
	w.say(0, Step{Text: l.whose(), Note: "could set it", Range: at, Ref: l.whose()})
	if w.ended(l.stage) != "" {
		if l.there && l.err == nil && l.value.IsWhollyKnown() {
			w.walkLabel(l)
		}
		return
	}
	if !w.condition(l.stage.When, l.whose(), 1) {
		return
	}

	if l.err != nil && (item == nil || !w.tellsItself(item)) {
		w.say(1, Step{Text: w.e.Text(at), Value: "(error)", Note: l.err.Summary + ": " + l.err.Detail, Range: at})
	}
	if l.there {
		w.walkLabel(l)
	}
	if l.taken {
		w.recommended(l.stage, l.key, 1)
	}
}

// walkLabel says what the value of a label rests on that the stage writes.
func (w *walker) walkLabel(l candidate) {
	w.walk(l.labels(), l.copy.frame(w, l.labels()), way(named(l.key)), 1)
}

// whyNotSet returns the first of the reasons that applies.
func (w *walker) whyNotSet(l candidate) string {
	reasons := []func(candidate) string{
		w.hadNoTurn, w.conditionUnknown, w.conditionNotTrue, hasError, notRecommended, isNullValue, w.stageFailed,
		w.notMerged,
	}
	for _, reason := range reasons {
		if why := reason(l); why != "" {
			return why
		}
	}

	return fmt.Sprintf("%s gives it a value that is not known.", l.whose())
}

// The reasons for an absent label: each is a sentence, or "" if it does not apply. Each counts on those before it in
// whyNotSet not to apply.

func (w *walker) hadNoTurn(l candidate) string { return w.ended(l.stage) }

func (w *walker) conditionUnknown(l candidate) string {
	if l.stage.When == nil || !w.untold(l.stage.When) {
		return ""
	}

	return fmt.Sprintf("It cannot be told whether %s is there: %s.", l.whose(), w.text(l.stage.When))
}

func (w *walker) conditionNotTrue(l candidate) string {
	if l.stage.When == nil || w.holds(l.stage.When) {
		return ""
	}

	return fmt.Sprintf("%s is left out, because its condition is not true: %s.", l.whose(), w.text(l.stage.When))
}

func hasError(l candidate) string {
	if l.err == nil {
		return ""
	}

	return fmt.Sprintf("%s left it out: %s.", l.whose(), strings.TrimSuffix(l.err.Summary, "."))
}

func notRecommended(l candidate) string {
	if !l.taken {
		return ""
	}

	return "No detector recommends it."
}

func isNullValue(l candidate) string {
	if !null(l.value) {
		return ""
	}

	return fmt.Sprintf("%s gives it the value null, which is no label.", l.whose())
}

func (w *walker) stageFailed(l candidate) string {
	why := w.failed(l.stage)
	if why == "" {
		return ""
	}

	return why + "."
}

func (w *walker) notMerged(candidate) string {
	if !w.plan.Diagnostics.HasErrors() {
		return ""
	}

	return "The run ended before labels were merged: " + firstError(w.plan.Diagnostics) + "."
}

// placeOf is where the site writes a label: its item of an object literal, or else (item nil) the whole argument or
// the stage.
func (w *walker) placeOf(l candidate) (at hcl.Range, item hclsyntax.Expression) {
	a := l.stage.Body.Attributes["labels"]
	if a == nil {
		return l.stage.Range, nil
	}
	if item = w.e.Scope(l.stage.Addr()).Item(a.Expr, l.key); item != nil {
		return item.Range(), item
	}
	return a.Expr.Range(), nil
}

// notOfEach tells of a stage that makes a label for each element of for_each that this key is none of them; "" if it
// could not be.
func (w *walker) notOfEach(i *site.Instance, key string) string {
	a := i.Body.Attributes["labels"]
	if a == nil || i.ForEach == nil || !w.prefixed(a.Expr, key) {
		return ""
	}
	whose := "stage." + i.Addr()
	w.say(0, Step{Text: whose, Note: "makes a label for each element of for_each", Range: i.Range, Ref: whose})
	f := w.frameOf(i.ForEach, cty.NilVal, source{})
	v, note := w.at(i.ForEach, f, nil)
	w.condition(i.When, whose, 1)
	var made []string
	for _, l := range w.plan.Node.Labels {
		if w.gave(i, l.Origins) {
			made = append(made, l.Key)
		}
	}
	note = join(note, "makes: "+orNothing(strings.Join(made, ", ")))
	w.say(1, Step{Text: "for_each " + w.text(i.ForEach), Value: v, Note: note, Range: i.ForEach.Range()})
	w.walk(i.ForEach, f, nil, 2)
	return fmt.Sprintf("%s makes one for each element of for_each, and none of them is this one.", whose)
}

// prefixed says whether a key of an object literal that is put together begins as a name does.
func (w *walker) prefixed(x hclsyntax.Expression, key string) bool {
	o, ok := value.Unwrap(x).(*hclsyntax.ObjectConsExpr)
	if !ok {
		return false
	}
	for _, it := range o.Items {
		k := it.KeyExpr
		if wrapped, ok := k.(*hclsyntax.ObjectConsKeyExpr); ok {
			k = wrapped.Wrapped
		}
		if p := prefix(k); p != "" && strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// prefix is the literal text that a template begins with.
func prefix(x hclsyntax.Expression) string {
	t, ok := value.Unwrap(x).(*hclsyntax.TemplateExpr)
	if !ok || len(t.Parts) == 0 {
		return ""
	}
	v, d := t.Parts[0].Value(nil)
	if d.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
		return ""
	}
	return v.AsString()
}

// fromData tells of a stage whose keys are not written in the site that this key is not among them.
func (w *walker) fromData(i *site.Instance, key string) string {
	a := i.Body.Attributes["labels"]
	if a == nil {
		return ""
	}
	if _, ok := value.Unwrap(a.Expr).(*hclsyntax.ObjectConsExpr); ok {
		return ""
	}
	w.data(i, "labels", a.Expr)
	return fmt.Sprintf("No label of that name is written in the site; stage.%s takes its keys from data, and it is not among them.", i.Addr())
}

// data tells the keys that an argument has, and the answers that they come from, without the way to them.
func (w *walker) data(i *site.Instance, name string, x hclsyntax.Expression) {
	whose := "stage." + i.Addr()
	for _, c := range w.copies(i) {
		f := c.frame(w, x)
		v, d := w.value(x, f)
		s := Step{Text: whose + ": " + name + " = " + w.text(x), Note: "has: " + orNothing(w.keysOf(v)), Range: x.Range(), Ref: whose}
		if d != nil {
			s.Note = d.Summary + ": " + d.Detail
		}
		w.say(0, s)
		w.condition(i.When, whose, 1)
		start := len(w.steps)
		w.walk(x, f, nil, 1)
		rest := slices.Clone(w.steps[start:])
		w.steps = w.steps[:start]
		seen := map[string]bool{}
		for _, s := range rest {
			if (s.Answer != nil || s.Kind == origin.Variable) && !seen[s.Text] {
				seen[s.Text], s.Depth = true, 1
				w.steps = append(w.steps, s)
			}
		}
	}
}

// keysOf lists the keys of a map, or the elements of a list of texts.
func (w *walker) keysOf(v cty.Value) string {
	u, secrets, _ := value.Plain(v)
	if len(secrets) > 0 || !u.IsKnown() || u.IsNull() || !u.CanIterateElements() {
		return w.show(v)
	}
	var out []string
	for it := u.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if list(u) || u.Type().IsSetType() {
			k = e
		}
		if s, ok := stepOf(k); ok {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func firstError(ds hcl.Diagnostics) string {
	for _, d := range ds {
		if d.Severity == hcl.DiagError {
			return strings.TrimSuffix(d.Summary, ".")
		}
	}
	return ""
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
