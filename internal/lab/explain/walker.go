package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

// maxLinks bounds one explanation.
const maxLinks = 240

// walker collects the links of one explanation.
type walker struct {
	plan    *evaluate.Plan
	entries []tape.Entry // of the plan's tape
	e       *eval.Eval
	links   []Link
	shown   map[string]bool // keys of isFirst
	role    origin.Role     // of the links that are added
}

// newWalker returns a walker over a plan and what e recorded. It evaluates nothing.
func newWalker(p *evaluate.Plan, e *eval.Eval) *walker {
	w := &walker{
		plan:  p,
		e:     e.Recorded(),
		links: []Link{},
		role:  origin.Value,
		shown: map[string]bool{},
	}
	if p.Tape != nil {
		w.entries = p.Tape.Entries()
	}

	return w
}

// add appends a link. The default kind is a value that the site contains.
func (w *walker) add(depth int, s Link) {
	switch {
	case len(w.links) > maxLinks:
		return
	case len(w.links) == maxLinks:
		s = Link{Text: "…", Note: "the rest is left out"}
	}

	s.Depth = depth
	s.Role = w.role
	if s.Kind == "" {
		s.Kind = origin.Site
	}
	w.links = append(w.links, s)
}

// isFirst reports whether it is called for a key for the first time.
func (w *walker) isFirst(key string) bool {
	isShown := w.shown[key]
	w.shown[key] = true

	return !isShown
}

// lookUp returns the recorded value of an expression in a scope.
func (w *walker) lookUp(x hclsyntax.Expression, c eval.Scope) (cty.Value, *hcl.Diagnostic) {
	v, ds := w.e.Value(x, c.Each())

	return v, firstError(ds)
}

// setValue sets the value of a link, or the error of its evaluation.
func (w *walker) setValue(s *Link, v cty.Value, err *hcl.Diagnostic) {
	switch {
	case err == nil:
		s.Value = w.show(v)
	case eval.WhyMissing(err) != "":
		s.Value = "(" + eval.WhyMissing(err) + ")"
	default:
		s.Value = "(error)"
		s.Note = describe(err)
	}
}

// addValue adds a link with the value of an expression, or with the error of its evaluation.
func (w *walker) addValue(depth int, s Link, x hclsyntax.Expression, c eval.Scope) {
	v, err := w.lookUp(x, c)
	w.setValue(&s, v, err)
	if s.Value == w.formatSource(x) {
		s.Value = "" // the text has it already
	}

	s.Range = x.Range()
	w.add(depth, s)
}

// addArgument adds an argument with its value and its references.
func (w *walker) addArgument(
	name string,
	x hclsyntax.Expression,
	c eval.Scope,
	ref string,
	depth int,
) {
	s := Link{Text: name + " = " + w.formatSource(x), Ref: ref}
	w.addValue(depth, s, x, c)
	w.addOperands(x, c, depth+1)
}

// effects maps the value of a condition to its effect.
type effects map[bool]string

// addCondition adds a condition with its effect and its references, and returns whether it is true and known.
func (w *walker) addCondition(
	s Link, x hclsyntax.Expression, c eval.Scope, do effects, depth int,
) (isTrue, isKnown bool) {
	isTrue, isKnown = w.e.Condition(x, c.Each())
	s.Note = do[isTrue]
	if _, err := w.lookUp(x, c); !isKnown {
		s.Note = "so its effect is not known"
		if err != nil && eval.WhyMissing(err) != "" {
			s.Note = ""
		}
	}

	outer := w.role
	w.role = origin.Condition
	w.addValue(depth, s, x, c)
	w.addOperands(x, c, depth+1)
	w.role = outer

	return isTrue, isKnown
}

// addWhen adds the `when` of a stage or block.
func (w *walker) addWhen(
	x hclsyntax.Expression,
	whose string,
	depth int,
) (isTrue, isKnown bool) {
	s := Link{Text: "when " + w.e.Text(x.Range()), Ref: whose}
	do := effects{
		true:  "so " + whose + " applies",
		false: "so " + whose + " is left out",
	}

	return w.addCondition(s, x, eval.Scope{}, do, depth)
}

// listCopies returns the copies of a stage; one without an element where its for_each was not evaluated.
func (w *walker) listCopies(i *lang.Instance) []eval.Copy {
	s := w.e.Scope(i.Addr())
	copies, ds := s.Copies(nil, i.ForEach)
	if slices.ContainsFunc(ds, eval.IsNotEvaluated) {
		return []eval.Copy{{Scope: s}}
	}

	return copies.All
}

// describeFailure returns how a stage failed; "" if it did not.
func (w *walker) describeFailure(i *lang.Instance) string {
	isFailed := slices.ContainsFunc(w.plan.Stages, func(s evaluate.StageReport) bool {
		return s.Address == i.Addr() && s.State == "failed"
	})
	if !isFailed {
		return ""
	}

	for _, d := range w.plan.Diagnostics {
		isFailure := d.Subject != nil && !origin.IsNote(d)
		if isFailure && contains(i.Body.SrcRange, *d.Subject) {
			return "failed: " + summary(d)
		}
	}

	return "failed"
}

// addOverrides adds the overrides of a stage's conditions and of the expressions that origins name.
func (w *walker) addOverrides(i *lang.Instance, os []origin.Origin) {
	for _, o := range w.plan.Site.Overrides {
		argument, isOfStage := strings.CutPrefix(o.Address, "stage."+i.Addr()+" ")
		isNamed := slices.ContainsFunc(os, func(f origin.Origin) bool {
			return contains(o.Over, f.Range)
		})
		isCondition := argument == "when" || argument == "for_each"
		if isOfStage && (isNamed || isCondition) && w.isFirst(o.Over.String()) {
			s := Link{Text: o.Address, Range: o.Over, Ref: "override"}
			s.Note = w.describeOverride(o.Address)
			w.add(0, s)
		}
	}
}

// describeOverride describes the value of an address without its override; "" without an override.
func (w *walker) describeOverride(address string) string {
	for _, o := range w.plan.Site.Overrides {
		switch {
		case o.Address != address:
		case o.Base.Filename == "":
			return "added by an override"
		default:
			return fmt.Sprintf(
				"an override; without it: %s (%s:%d)",
				cut(w.e.Text(o.Base)),
				o.Base.Filename,
				o.Base.Start.Line,
			)
		}
	}

	return ""
}

func firstError(ds hcl.Diagnostics) *hcl.Diagnostic {
	for _, d := range ds {
		if d.Severity == hcl.DiagError {
			return d
		}
	}

	return nil
}

func summary(d *hcl.Diagnostic) string {
	return strings.TrimSuffix(d.Summary, ".")
}

func describe(d *hcl.Diagnostic) string {
	return d.Summary + ": " + d.Detail
}

func contains(outer, inner hcl.Range) bool {
	isSameFile := outer.Filename == inner.Filename

	return isSameFile && outer.Start.Byte <= inner.Start.Byte && inner.End.Byte <= outer.End.Byte
}

func join(parts ...string) string {
	isEmpty := func(s string) bool { return s == "" }
	given := slices.DeleteFunc(parts, isEmpty)

	return strings.Join(given, "; ")
}

// textOf returns the text of a known string, number or bool that is not a secret; else "".
func textOf(v cty.Value) string {
	if len(secret.Names(v)) > 0 {
		return ""
	}
	text, _ := value.KeyText(v)

	return text
}
