package eval

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/origin"
)

// maxOrigins bounds what one item of the plan carries.
const maxOrigins = 24

// Origins implements schema.Evaluator: the expression's own place first, then what it refers to, through locals,
// down to variables and outputs of stages. What only decides (a condition, `when`) has the role of a condition.
func (s Scope) Origins(x hclsyntax.Expression) []origin.Origin {
	c := collector{e: s.e, seen: map[string]bool{}}
	c.add(origin.Origin{Kind: origin.Site, Role: origin.Value, Ref: s.addr, Range: x.Range(), Text: s.e.Text(x.Range())})
	c.walk(x, origin.Value)
	if s.when != nil {
		c.add(origin.Origin{Kind: origin.Site, Role: origin.Condition, Ref: s.addr, Range: s.when.Range(), Text: s.e.Text(s.when.Range())})
		c.walk(s.when, origin.Condition)
	}
	return c.out
}

// shortestCut is the length in bytes up to which nobody cuts what Text returns.
const shortestCut = 48

// Text is what is written at a range of the site, in one line, at most 160 bytes. Secrets are hidden before it is cut.
func (e *Eval) Text(r hcl.Range) string {
	src, ok := e.site.Sources[r.Filename]
	if !ok || r.End.Byte > len(src) || r.Start.Byte > r.End.Byte {
		return ""
	}
	t := strings.Join(strings.Fields(string(src[r.Start.Byte:r.End.Byte])), " ")
	if len(t) > shortestCut {
		t = e.redact(t) // whole: a part of a secret is not recognised
	}
	if len(t) > 160 {
		t = strings.ToValidUTF8(t[:157], "") + "…"
	}
	return t
}

type collector struct {
	e    *Eval
	seen map[string]bool
	out  []origin.Origin
}

func (c *collector) add(o origin.Origin) {
	key := string(o.Kind) + "\x00" + string(o.Role) + "\x00" + o.Ref + "\x00" + o.Range.String()
	if c.seen[key] || len(c.out) >= maxOrigins {
		return
	}
	c.seen[key] = true
	c.out = append(c.out, o)
}

func (c *collector) walk(x hclsyntax.Expression, role origin.Role) {
	if x == nil {
		return
	}
	if in, ok := unwrap(x); ok {
		c.walk(in, role)
		return
	}
	switch x := x.(type) {
	case *hclsyntax.ConditionalExpr:
		c.walk(x.Condition, origin.Condition)
		c.walk(x.TrueResult, role)
		c.walk(x.FalseResult, role)
		return
	case *hclsyntax.ForExpr:
		c.walk(x.CollExpr, role)
		c.walk(x.KeyExpr, role)
		c.walk(x.ValExpr, role)
		c.walk(x.CondExpr, origin.Condition)
		return
	}
	for _, tr := range x.Variables() {
		c.reference(tr, role)
	}
}

func (c *collector) reference(tr hcl.Traversal, role origin.Role) {
	name, _, ok := second(tr)
	if !ok {
		return
	}
	switch tr.RootName() {
	case "var":
		if v := c.e.site.Variables[name]; v != nil {
			c.add(origin.Origin{Kind: origin.Variable, Role: role, Ref: "var." + name, Range: v.Range, Text: c.e.Text(tr.SourceRange())})
		}
	case "local":
		l := c.e.site.Locals[name]
		if l == nil || c.seen["local\x00"+string(role)+name] {
			return
		}
		c.seen["local\x00"+string(role)+name] = true
		c.add(origin.Origin{Kind: origin.Site, Role: role, Ref: "local." + name, Range: l.Expr.Range(), Text: c.e.Text(l.Expr.Range())})
		c.walk(l.Expr, role)
	case "stage":
		n, _, ok := second(tr[1:])
		if !ok {
			return
		}
		kind := origin.Site
		switch name {
		case "detect-hw":
			kind = origin.Fact
			if len(tr) > 3 {
				if a, ok := tr[3].(hcl.TraverseAttr); ok && a.Name == "detectors" {
					kind = origin.Detector
				}
			}
		case "fetch-config", "fetch-ca":
			kind = origin.Object
		case "reserve":
			kind = origin.Policy
		}
		c.add(origin.Origin{Kind: kind, Role: role, Ref: "stage." + name + "." + n, Range: tr.SourceRange(), Text: c.e.Text(tr.SourceRange())})
	case "node":
		c.add(origin.Origin{Kind: origin.Site, Role: role, Ref: "node." + name, Range: tr.SourceRange(), Text: c.e.Text(tr.SourceRange())})
	}
}

// Each is what `each` stands for in this scope; cty.NilVal where it stands for nothing.
func (s Scope) Each() cty.Value { return s.each }
