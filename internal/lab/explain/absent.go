package explain

import (
	"encoding/json"
	"fmt"
	shell "path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

// candidate is how a copy of a stage could set a label or a taint.
type candidate struct {
	eval.Scope
	stage           *lang.Instance
	x               hclsyntax.Expression // of the value; nil if the stage computes it, or detectors recommend it
	isRecommendable bool                 // detectors could recommend it
}

// explainAbsent explains why a label or a taint is absent: which stages could set it, and why they do not.
func (w *walker) explainAbsent(i Item) (Explanation, bool) {
	var named, computed []candidate
	for _, stage := range w.plan.Site.OfType(i.Kind) {
		values := stage.Body.Attributes[i.Kind+"s"]
		c := w.findCandidate(stage, values, i)
		switch {
		case c.x != nil || c.isRecommendable:
			named = append(named, c)
		case values != nil && mayCompute(values.Expr, i):
			computed = append(computed, c)
		}
	}

	if named == nil {
		named = computed
	}
	var why []string
	for _, c := range named {
		why = append(why, w.whyAbsent(c, i))
	}

	return Explanation{Summary: strings.Join(why, " ")}, why != nil
}

// findCandidate returns the first copy of a stage that names an item; values are its labels or taints.
func (w *walker) findCandidate(
	i *lang.Instance,
	values *hclsyntax.Attribute,
	wanted Item,
) candidate {
	for _, copied := range w.listCopies(i) {
		s := copied.Scope
		c := candidate{
			Scope:           s,
			stage:           i,
			isRecommendable: w.isFromDetectors(i, s, wanted.Name),
		}
		switch {
		case values == nil:
		case wanted.Kind == Label:
			c.x = s.Item(values.Expr, wanted.Name)
		default:
			c.x = w.findTaint(values.Expr, wanted.Name)
		}
		if c.x != nil || c.isRecommendable {
			return c
		}
	}

	return candidate{stage: i}
}

// findTaint returns the element of a literal list whose text contains the key of a taint.
func (w *walker) findTaint(x hclsyntax.Expression, name string) hclsyntax.Expression {
	key, _, _ := strings.Cut(strings.ReplaceAll(name, "=", ":"), ":")
	if list, ok := value.Unwrap(x).(*hclsyntax.TupleConsExpr); ok {
		for _, element := range list.Exprs {
			if strings.Contains(w.e.Text(element.Range()), key) {
				return element
			}
		}
	}

	return nil
}

// mayCompute reports whether an expression computes labels or taints of which one could be an item. The literal text
// that a computed key begins with must fit.
func mayCompute(x hclsyntax.Expression, wanted Item) bool {
	var keys []hclsyntax.Expression
	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.TupleConsExpr:
		return false
	case *hclsyntax.ForExpr:
		keys = []hclsyntax.Expression{x.KeyExpr}
	case *hclsyntax.ObjectConsExpr:
		for _, item := range x.Items {
			keys = append(keys, item.KeyExpr)
		}
	default:
		return true
	}

	return slices.ContainsFunc(keys, func(key hclsyntax.Expression) bool {
		return key == nil ||
			len(key.Variables()) > 0 && strings.HasPrefix(wanted.Name, literalPrefix(key))
	})
}

// literalPrefix returns the literal text that a computed key begins with.
func literalPrefix(key hclsyntax.Expression) string {
	template, ok := value.Unwrap(key).(*hclsyntax.TemplateExpr)
	if !ok {
		return ""
	}
	text, _ := value.LiteralText(template.Parts[0])

	return text
}

// isFromDetectors reports whether a pattern of from_detectors matches a key.
func (w *walker) isFromDetectors(i *lang.Instance, c eval.Scope, key string) bool {
	a := i.Body.Attributes["from_detectors"]
	if a == nil {
		return false
	}
	v, err := w.lookUp(a.Expr, c)
	if list, ok := value.Unwrap(a.Expr).(*hclsyntax.TupleConsExpr); err != nil && ok {
		return slices.ContainsFunc(list.Exprs, func(x hclsyntax.Expression) bool {
			pattern, _ := value.LiteralText(x)
			isMatch, _ := shell.Match(pattern, key)

			return isMatch
		})
	}
	plain, _ := secret.Plain(v)
	x, _ := codec.ToGo(plain) // nil if a part is unknown
	patterns, _ := x.([]any)

	return slices.ContainsFunc(patterns, func(pattern any) bool {
		text, _ := pattern.(string)
		isMatch, _ := shell.Match(text, key)

		return isMatch
	})
}

// whyAbsent adds how a stage could set an item, and returns in a sentence why the plan does not have it.
func (w *walker) whyAbsent(c candidate, i Item) string {
	whose := "stage." + c.stage.Addr()
	w.add(0, Link{
		Text:  whose,
		Note:  "could set it",
		Range: c.stage.Range,
		Ref:   whose,
	})
	w.addOverrides(c.stage, nil)

	ended := firstError(w.plan.Diagnostics)
	leftOut := w.whyLeftOut(c.stage, whose)
	noValue := ""
	if leftOut == "" || ended != nil {
		noValue = w.addCandidate(c, i)
	}
	failure := w.describeFailure(c.stage)
	switch {
	case ended == nil && leftOut != "":
		return leftOut
	case failure != "":
		return whose + " " + failure + "."
	case ended != nil:
		return "The run ended: " + summary(ended) + "."
	case c.x == nil && c.isRecommendable:
		return "No detector recommends it."
	}

	return whose + " " + noValue
}

// addCandidate adds the argument or value that a stage could set an item with, and returns why it does not.
func (w *walker) addCandidate(c candidate, i Item) string {
	if c.x != nil {
		return w.addCandidateValue(c)
	}
	if c.isRecommendable {
		w.addRecommended(i.Name, 1)
		return ""
	}

	name := "for_each"
	x := c.stage.ForEach
	if x == nil {
		name = i.Kind + "s"
		x = c.stage.Body.Attributes[name].Expr
	}
	w.addArgument(name, x, eval.Scope{}, "stage."+c.stage.Addr(), 1)

	return "computes its " + i.Kind + "s: on this machine it sets others."
}

// whyLeftOut adds the condition of a stage, and returns why the stage does not apply; "" if it does.
func (w *walker) whyLeftOut(i *lang.Instance, whose string) string {
	if i.When == nil {
		return ""
	}

	isTrue, isKnown := w.addWhen(i.When, whose, 1)
	switch {
	case !isKnown:
		return fmt.Sprintf("It is not known whether %s applies: %s.", whose, w.formatSource(i.When))
	case !isTrue:
		return fmt.Sprintf("%s is left out, because its condition is not true: %s.", whose, w.formatSource(i.When))
	}

	return ""
}

// addCandidateValue adds the expression that a stage could set an item with, and returns why it does not.
func (w *walker) addCandidateValue(c candidate) string {
	v, err := w.lookUp(c.x, c.Scope)
	if err != nil {
		s := Link{Text: w.formatSource(c.x)}
		w.addValue(1, s, c.x, c.Scope)
	}
	w.addExpression("", c.x, c.Scope, nil, 1)

	plain, _ := secret.Plain(v)
	switch {
	case err != nil:
		return "left it out: " + summary(err) + "."
	case plain.IsKnown() && plain.IsNull():
		return "sets it to null, so the node does not have it."
	}

	return "gives it the value " + w.show(v) + "."
}

// explainAbsentField explains a field that the site removes, or that is left to the kubelet.
func (w *walker) explainAbsentField(name string) (Explanation, bool) {
	for _, e := range w.findEntries(Item{Config, name}) {
		w.addField(e, 0)
		summary := "The site removes it: null in a merge patch removes the field of the base."
		return Explanation{Origins: e.origins, Summary: summary}, true
	}

	version := w.plan.Kubelet.KnownVersion()
	isFinished := w.plan.Complete && len(w.plan.Node.Config) > 0
	if !isFinished || !kubelet.KnownField(name, version) {
		return Explanation{}, false
	}

	return Explanation{Summary: w.describeDefault(name, version)}, true
}

// describeDefault adds that the base does not set a field, and returns the value that the kubelet uses.
func (w *walker) describeDefault(name, version string) string {
	const isUnset = "Neither the base nor the site sets it"

	field, key, _ := strings.Cut(name, ".")
	if flag := w.addFlagOf(field); flag != "" {
		return isUnset + " in the kubelet's configuration; the kubelet's flag --" + flag + " is what counts."
	}

	w.addBase(origin.Origin{Ref: "kubelet_config"}, 0)
	config := w.plan.Node.Config
	isThreshold := field == "evictionHard"
	isKeyLeftOut := isThreshold && key != "" && config[field] != nil
	v, hasDefault := kubelet.FieldDefault(name, version)
	switch {
	case isKeyLeftOut && !kubelet.MergesEvictionHard(config, version):
		return isUnset + "; evictionHard is set, so the kubelet has the thresholds in it and no others."
	case hasDefault:
		b, _ := json.Marshal(v)
		return fmt.Sprintf("%s, so the kubelet's default holds: %s.", isUnset, b)
	case isThreshold:
		return isUnset + ", and the kubelet has no such threshold by itself."
	}

	return isUnset + ", so the kubelet's default holds."
}

// addFlagOf adds the flag that sets a field instead, and returns its name; "" if there is none.
func (w *walker) addFlagOf(field string) string {
	for _, e := range listEntries(w.plan) {
		name := strings.ReplaceAll(e.Name, "-", "")
		if e.Kind == Flag && name == strings.ToLower(field) {
			w.addEntry(e, 0)
			return e.Name
		}
	}

	return ""
}
