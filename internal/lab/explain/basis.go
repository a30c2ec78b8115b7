package explain

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

// addBasis adds the basis of an entry, as its origins name it: expressions of the site, with their overrides,
// conditions, steps of a formula, recommendations of detectors, the base; and the value of the base that a stage
// changed.
func (w *walker) addBasis(e entry, depth int) {
	for _, o := range e.origins {
		isFormula := o.Kind == origin.Policy && o.Range.Filename == ""
		isDetector := o.Kind == origin.Detector && strings.HasPrefix(o.Ref, "detector.")
		switch {
		case o.Kind == origin.Site:
			w.addOwner(e, o, depth)
		case o.Kind == origin.Base:
			w.addBase(o, depth)
		case o.Kind == origin.Default && strings.HasPrefix(o.Ref, "stage.fetch-ca"):
			w.addTrust(Link{
				Text:  o.Ref,
				Ref:   o.Ref,
				Range: o.Range,
			}, "/pem", depth)
		case isDetector:
			w.addRecommended(e.Name, depth)
		case isFormula:
			w.add(depth, Link{
				Kind: o.Kind,
				Text: o.Text,
				Ref:  o.Ref,
			})
		}
	}

	for _, d := range w.plan.Diagnostics {
		if origin.IsReplaced(d, e.address) {
			w.add(depth, Link{
				Kind: origin.Base,
				Text: e.Item.String() + " of the base",
				Note: strings.TrimSuffix(d.Detail, "."),
				Ref:  "base",
			})
		}
	}
}

// addOwner adds the expression of a stage or of the node that an origin names. Origins of locals have no link of their
// own: they are references.
func (w *walker) addOwner(e entry, o origin.Origin, depth int) {
	i := w.plan.Site.Stage(o.Ref)
	isOfNode := strings.HasPrefix(o.Ref, "node.")
	isOwner := i != nil || isOfNode
	if !isOwner || !w.isFirst(o.Ref+o.Range.String()+e.address) {
		return
	}

	if isOfNode {
		i = &lang.Instance{Body: w.plan.Site.Node}
	}
	if i.When != nil && i.When.Range() == o.Range {
		w.addWhen(i.When, "stage."+o.Ref, depth)
		return
	}

	name, x := findExpression(i.Body, o.Range)
	switch {
	case x == nil:
	case o.Role == origin.Condition:
		w.addWhen(x, "it", depth)
	default:
		c, _ := o.Scope.(eval.Scope)
		w.addExpression(name, x, c, path{e.Name}, depth)
		w.addOverrides(i, e.origins)
	}
}

// addExpression adds an expression that gives an item: name is the argument that consists of it, "" for a part of one;
// at is the item's place in the value.
func (w *walker) addExpression(
	name string,
	x hclsyntax.Expression,
	c eval.Scope,
	at path,
	depth int,
) {
	v, err := w.lookUp(x, c)
	if _, ok := at.findIn(v); !ok {
		at = nil
	}

	_, isReference := w.parseReference(x, c)
	isLiteral := len(w.findOperands(x, c)) == 0
	switch {
	case isReference:
		w.addReference(x, c, at, depth)
	case isLiteral && name != "":
		w.add(depth, Link{
			Text:  name + " = " + w.formatSource(x),
			Range: x.Range(),
		})
	case isLiteral:
		s := Link{Text: "written here", Range: x.Range()}
		w.setValue(&s, v, err)
		w.add(depth, s)
	case name != "":
		w.addArgument(name, x, c, "", depth)
	default:
		w.addOperands(x, c, depth)
	}
}

// findExpression returns the expression at a range, and the name of the argument that consists of it; nil if there is
// none.
func findExpression(body *hclsyntax.Body, r hcl.Range) (name string, found hclsyntax.Expression) {
	visit := func(n hclsyntax.Node) hcl.Diagnostics {
		if a, ok := n.(*hclsyntax.Attribute); ok && a.Expr.Range() == r {
			name = a.Name
		}
		if x, ok := n.(hclsyntax.Expression); ok && x.Range() == r && found == nil {
			found = x
		}

		return nil
	}
	_ = hclsyntax.VisitAll(body, visit)

	return name, found
}

// explainEntry explains a label, a taint or a flag.
func (w *walker) explainEntry(i Item) (x Explanation, known bool) {
	var values, shown []string
	for _, e := range w.findEntries(i) {
		text, _ := e.value.(string)
		values, shown = append(values, text), append(shown, value.Quote(text))
		x.Origins = append(x.Origins, e.origins...)
		x.TakesEffect = e.effect
		w.addBasis(e, 0)
	}

	switch {
	case values == nil && i.Kind == Flag:
		return w.explainListFlag(i.Name)
	case values == nil:
		return w.explainAbsent(i)
	}
	x.Present, x.Value = true, strings.Join(shown, ", ")
	x.Whole = values
	if i.Kind != Taint {
		x.Whole = values[0]
	}

	return x, true
}

// findEntries returns the entries that an item's name means. That of a taint is KEY, KEY:EFFECT or KEY=VALUE:EFFECT.
func (w *walker) findEntries(i Item) []entry {
	return slices.DeleteFunc(listEntries(w.plan), func(e entry) bool {
		isTaint := e.Kind == Taint && (i.String() == e.address || i == Item{Taint, e.value.(string)})

		return e.Item != i && !isTaint
	})
}

// explainListFlag explains the two flags that consist of labels and taints, and a flag that the site sets to null.
func (w *walker) explainListFlag(name string) (x Explanation, known bool) {
	kind := map[string]string{"node-labels": Label, "register-with-taints": Taint}[name]
	if w.plan.Node.ConfigOrigins["/registerWithTaints"] != nil && kind == Taint {
		x.Summary = "The taints are in the kubelet's registerWithTaints: config/registerWithTaints."
		return x, true
	}
	if all := w.addEntries(0, kind); all != nil {
		x = Explanation{
			Present:     true,
			TakesEffect: "registration",
			Value:       count(len(all), kind),
			Whole:       all,
		}
		return x, true
	}

	for _, i := range w.plan.Site.OfType("write") {
		if a := findArgument(i, "kubelet_flags", "flags"); a != nil {
			if flag := w.e.Scope(i.Addr()).Item(a.Expr, name); flag != nil {
				w.addExpression("", flag, eval.Scope{}, nil, 0)
				return Explanation{Summary: "The site sets it to null, so it is not set."}, true
			}
		}
	}

	return x, false
}

// addEntries adds a link for each entry of some kinds that the site gives, and returns their names with their values.
func (w *walker) addEntries(depth int, kinds ...string) (all []string) {
	for _, e := range listEntries(w.plan) {
		isOfBase := origin.DecidingRange(e.origins).Filename == ""
		if !slices.Contains(kinds, e.Kind) || isOfBase && e.Kind != Label && e.Kind != Taint {
			continue
		}
		w.addEntry(e, depth)
		text, _ := e.value.(string)
		all = append(all, e.Name+"="+text)
	}

	return all
}

// addEntry adds a link with the value and the place of an entry.
func (w *walker) addEntry(e entry, depth int) {
	w.add(depth, Link{
		Text:  e.Item.String(),
		Value: w.showGo(e.value),
		Range: origin.DecidingRange(e.origins),
		Ref:   e.Item.String(),
	})
}

// explainField explains a field of the kubelet's configuration.
func (w *walker) explainField(name string) (x Explanation, known bool) {
	keys, v, ok := findField(w.plan.Node.Config, name)
	if !ok {
		return w.explainAbsentField(name)
	}

	x = Explanation{
		Value:       w.showGo(v),
		Whole:       v,
		Present:     true,
		TakesEffect: "restart",
	}
	if keys[0] == "registerWithTaints" {
		x.TakesEffect = "registration"
	}
	address := Config + tape.Pointer(keys...)
	ofBase := countFields(v)
	for _, e := range listEntries(w.plan) {
		switch {
		case e.address == address || strings.HasPrefix(address, e.address+"/"):
			ofBase = 0
			w.addField(e, 0)
		case strings.HasPrefix(e.address, address+"/"):
			ofBase -= countFields(e.value)
			w.addEntry(e, 0)
			w.addField(e, 1)
		default:
			continue
		}
		x.Origins = append(x.Origins, e.origins...)
	}
	if ofBase > 0 {
		o := origin.Origin{
			Kind: origin.Base,
			Role: origin.Value,
			Ref:  "kubelet_config",
		}
		x.Origins = append(x.Origins, o)
		w.addBase(o, 0)
	}

	return x, true
}

// addField adds the setter of a field. registerWithTaints consists of taints.
func (w *walker) addField(e entry, depth int) {
	if e.Name != "registerWithTaints" {
		w.addBasis(e, depth)
		return
	}

	for _, t := range listEntries(w.plan) {
		if t.Kind == Taint {
			w.addEntry(t, depth)
			w.addBasis(t, depth+1)
		}
	}
}

// findField returns the keys and the value of a.b.c in a document. Keys may contain dots: memory.available.
func findField(doc map[string]any, name string) (keys []string, v any, ok bool) {
	for k, x := range doc {
		if k == name {
			return []string{k}, x, true
		}
		rest, found := strings.CutPrefix(name, k+".")
		m, isMap := x.(map[string]any)
		if !found || !isMap {
			continue
		}
		if keys, v, ok := findField(m, rest); ok {
			return append([]string{k}, keys...), v, true
		}
	}

	return nil, nil, false
}

// countFields returns the number of values in a part of a document.
func countFields(v any) int {
	m, _ := v.(map[string]any)
	switch {
	case v == nil:
		return 0
	case len(m) == 0:
		return 1
	}

	n := 0
	for _, x := range m {
		n += countFields(x)
	}

	return n
}

// dotted returns the name of a field from its JSON pointer.
func dotted(pointer string) string {
	name := strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(pointer)

	return strings.TrimPrefix(name, ".")
}
