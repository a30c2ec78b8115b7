package explain

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Evaluation is the value of an expression over a plan.
type Evaluation struct {
	Text   string   `json:"expression"`
	Value  string   `json:"-"`     // as a site writes it, with (sensitive) for a secret; "" after an error
	Whole  any      `json:"value"` // the value for programs; hidden parts are null
	Type   string   `json:"type"`
	Hidden []Hidden `json:"hidden"` // the parts of the value that have no plain value, in the order of Value
	Chain  []Link   `json:"chain"`
	// Diagnostics are about the expression.
	Diagnostics hcl.Diagnostics `json:"-"`
}

// Why a part of a value is hidden.
const (
	IsNull      = "null"
	IsUnknown   = "unknown"
	IsSensitive = "sensitive"
)

// Hidden is a part of a value that is null, unknown or a secret.
type Hidden struct {
	Path  string `json:"path"`  // .gpus[0].model; "" for the whole value
	State string `json:"state"` // null | unknown | sensitive
	Why   string `json:"why,omitempty"`
}

// Evaluate evaluates an expression at the end of a plan's run. The text is that of the expression, and name is its file
// in ranges.
func Evaluate(p *evaluate.Plan, name string, text []byte, x hclsyntax.Expression) Evaluation {
	e := p.Eval.WithExpression(name, text)
	v, diags := e.Outside("the expression", e.Node(), nil, nil).Value(x)
	out := Evaluation{
		Text:        strings.TrimSpace(string(text)),
		Hidden:      []Hidden{},
		Chain:       []Link{},
		Diagnostics: diags,
	}
	if diags.HasErrors() {
		return out
	}

	whole, err := toGo(v)
	if err != nil {
		out.Diagnostics = append(out.Diagnostics, origin.Error(
			fault.Evaluation, x.Range(), "The result is not finite",
			"A number in it is too large, or is the result of a division by zero.",
		))
		return out
	}

	out.Chain = chainOf(p, e, x)
	h := hider{
		isFailed:   p.Diagnostics.HasErrors(),
		notReached: p.Eval.NotReached(x),
		hidden:     out.Hidden,
	}
	out.Value = value.Format(v, maxOneLine, h.hide)
	out.Whole = whole
	out.Type = typeexpr.TypeString(v.Type())
	out.Hidden = h.hidden
	out.explainNull()

	return out
}

// chainOf returns the links of an expression's references.
func chainOf(p *evaluate.Plan, e *eval.Eval, x hclsyntax.Expression) []Link {
	w := newWalker(p, e)
	w.addOperands(x, eval.Scope{}, 0)
	for n, s := range w.links {
		if s.Range.Filename == x.Range().Filename {
			w.links[n].Range = hcl.Range{} // the reader has just written it
		}
	}

	return w.links
}

// explainNull adds why a null is null, where the chain has the reason: a fact that could not be detected.
func (v *Evaluation) explainNull() {
	if len(v.Hidden) != 1 || v.Hidden[0].State != IsNull {
		return
	}
	for _, s := range v.Chain {
		if s.Value == "null" && s.Note != "" {
			v.Hidden[0].Why = s.Note
			return
		}
	}
}

// hider collects the parts of a value that it hides.
type hider struct {
	isFailed   bool     // the run failed
	notReached []string // parts that the run did not reach
	hidden     []Hidden
}

// hide returns the text in place of a part of a value that must not or cannot be shown; "" for other parts. A
// collection with a mark of its own is hidden as a whole.
func (h *hider) hide(v cty.Value, at cty.Path) string {
	secrets := secret.OwnNames(v)
	switch {
	case len(secrets) > 0:
		return h.add(at, IsSensitive, "it contains "+strings.Join(secrets, ", "))
	case !v.IsKnown():
		return h.add(at, IsUnknown, h.whyUnknown())
	case v.IsNull():
		return h.add(at, IsNull, "")
	}

	return ""
}

func (h *hider) whyUnknown() string {
	switch {
	case len(h.notReached) > 0:
		return "the run ended before it had " + strings.Join(h.notReached, ", ")
	case h.isFailed:
		return "the run failed"
	}

	return "the recording does not contain it, or it is not known on this machine"
}

func (h *hider) add(at cty.Path, state, why string) string {
	h.hidden = append(h.hidden, Hidden{value.FormatPath(at), state, why})
	if state == IsNull {
		return "null"
	}

	return "(" + state + ")"
}

// maxOneLine is how many characters of a collection are written in one line.
const maxOneLine = 72

// toGo returns a value for programs, with null in place of hidden parts. A number that is not finite is an error.
func toGo(v cty.Value) (any, error) {
	plain, _ := cty.Transform(v, func(_ cty.Path, part cty.Value) (cty.Value, error) { // the callback returns no error
		if part.IsMarked() || !part.IsKnown() {
			return cty.NullVal(part.Type()), nil
		}

		return part, nil
	})

	return codec.ToGo(plain)
}
