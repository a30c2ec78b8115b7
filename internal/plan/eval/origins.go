package eval

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
)

// maxOrigins bounds the origins of one item of the plan.
const maxOrigins = 24

// Origins implements schema.Evaluator: first the expression's place, then its references, through locals, down to
// variables and outputs of stages. Conditions and `when` have the role of a condition.
func (s Scope) Origins(x hclsyntax.Expression) []origin.Origin {
	c := collector{e: s.e, seen: map[originKey]bool{}}
	at := x.Range()
	c.add(origin.Site, origin.Value, s.addr, at, at)
	if s.each != cty.NilVal {
		c.origins[0].Scope = s
	}
	c.walk(x, origin.Value)
	if s.when != nil {
		at := s.when.Range()
		c.add(origin.Site, origin.Condition, s.addr, at, at)
		c.walk(s.when, origin.Condition)
	}

	return c.origins
}

const (
	maxSourceText = 160 // bytes of what Text returns
	shortText     = 48  // up to this length callers do not cut what Text returns, so they redact it
)

// Text returns the source at a range of the site, in one line. Secrets are hidden before it is cut.
func (e *Eval) Text(r hcl.Range) string {
	source, ok := e.site.Sources[r.Filename]
	if !ok || r.End.Byte > len(source) || r.Start.Byte > r.End.Byte {
		return ""
	}

	words := strings.Fields(string(source[r.Start.Byte:r.End.Byte]))
	text := strings.Join(words, " ")
	if len(text) > shortText {
		text = e.redact(text) // before the cut: a part of a secret is not recognised
	}
	if len(text) > maxSourceText {
		text = strings.ToValidUTF8(text[:maxSourceText-len("…")], "") + "…"
	}

	return text
}

type collector struct {
	e       *Eval
	seen    map[originKey]bool
	origins []origin.Origin
}

// originKey identifies an origin. That of a local that was walked has only a role and a reference.
type originKey struct {
	kind  origin.Kind
	role  origin.Role
	ref   string
	place string
}

// add adds an origin that has not been added yet. Its text is the source at another range.
func (c *collector) add(
	kind origin.Kind,
	role origin.Role,
	ref string,
	at, text hcl.Range,
) {
	key := originKey{kind, role, ref, at.String()}
	if c.seen[key] || len(c.origins) >= maxOrigins {
		return
	}
	c.seen[key] = true
	added := origin.Origin{
		Kind:  kind,
		Role:  role,
		Ref:   ref,
		Range: at,
		Text:  c.e.Text(text),
	}
	c.origins = append(c.origins, added)
}

func (c *collector) walk(x hclsyntax.Expression, role origin.Role) {
	switch x := value.Unwrap(x).(type) {
	case nil:
	case *hclsyntax.ConditionalExpr:
		c.walk(x.Condition, origin.Condition)
		c.walk(x.TrueResult, role)
		c.walk(x.FalseResult, role)
	case *hclsyntax.ForExpr:
		c.walk(x.CollExpr, role)
		c.walk(x.KeyExpr, role)
		c.walk(x.ValExpr, role)
		c.walk(x.CondExpr, origin.Condition)
	default:
		for _, reference := range c.e.site.MentionsOf(x).References {
			c.addReference(reference, role)
		}
	}
}

func (c *collector) addReference(reference hcl.Traversal, role origin.Role) {
	name, _, ok := findSecondName(reference)
	if !ok {
		return
	}

	at := reference.SourceRange()
	switch reference.RootName() {
	case "var":
		if v := c.e.site.Variables[name]; v != nil {
			c.add(origin.Variable, role, "var."+name, v.Range, at)
		}
	case "local":
		key := originKey{role: role, ref: name}
		local := c.e.site.Locals[name]
		if local == nil || c.seen[key] {
			return
		}
		c.seen[key] = true
		at := local.Expr.Range()
		c.add(origin.Site, role, "local."+name, at, at)
		c.walk(local.Expr, role)
	case "stage":
		if stage, _, ok := findSecondName(reference[1:]); ok {
			c.add(kindOfStage(name, reference), role, "stage."+name+"."+stage, at, at)
		}
	case "node":
		c.add(origin.Site, role, "node."+name, at, at)
	}
}

// kindOfStage returns the kind of an output of a stage of some type.
func kindOfStage(stageType string, reference hcl.Traversal) origin.Kind {
	switch stageType {
	case "detect-hw":
		inStage := reference[min(2, len(reference)):]
		if output, _, _ := findSecondName(inStage); output == "detectors" {
			return origin.Detector
		}
		return origin.Fact
	case "fetch-config", "fetch-ca":
		return origin.Object
	case "reserve":
		return origin.Policy
	}

	return origin.Site
}
