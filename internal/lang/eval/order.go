package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
)

// Needs are the stages that one needs to be over: those it refers to, and those its defaults reach for.
func (e *Eval) Needs(i *site.Instance) []string {
	xs := append([]hclsyntax.Expression{i.When, i.ForEach, i.Timeout}, BodyExpressions(i.Body)...)
	out := e.Reach(xs...).Stages
	for _, ed := range e.Edges(i) {
		if !slices.Contains(out, ed.To) {
			out = append(out, ed.To)
		}
	}
	slices.Sort(out)
	return out
}

// Edge is a default that reaches for another stage's output: shown in graph, plan and explain.
type Edge struct {
	From, Attribute string
	To, Output      string
}

// Edges lists the defaults of an instance that are not overridden by the site, where the choice is unique.
func (e *Eval) Edges(i *site.Instance) []Edge {
	var out []Edge
	var walk func(sb schema.Block, b *hclsyntax.Body, path string)
	walk = func(sb schema.Block, b *hclsyntax.Body, path string) {
		for _, f := range sb.Fields {
			s := f.Spec()
			if s.Ref == nil || b != nil && b.Attributes[s.Name] != nil || s.Ref.Unless.In(b) {
				continue
			}
			if to := e.candidates(s.Ref); len(to) == 1 {
				out = append(out, Edge{i.Addr(), path + s.Name, to[0].Addr(), s.Ref.Output})
			}
		}
		for _, n := range sb.Blocks {
			bodies := bodiesOf(b, n.Type)
			if len(bodies) == 0 && n.Always {
				bodies = []*hclsyntax.Body{nil}
			}
			for _, x := range bodies {
				walk(n, x, path+n.Type+".")
			}
		}
	}
	walk(i.Spec.Block, i.Body, "")
	return out
}

// bodiesOf lists the blocks of a type that a body has; a nil body is not written, and has none.
func bodiesOf(b *hclsyntax.Body, blockType string) (out []*hclsyntax.Body) {
	if b == nil {
		return nil
	}
	for _, x := range b.Blocks {
		if x.Type == blockType {
			out = append(out, x.Body)
		}
	}
	return out
}

func (e *Eval) candidates(r *schema.RefDefault) (out []*site.Instance) {
	for _, i := range e.site.OfType(r.Stage) {
		if r.Having == "" || i.Body.Attributes[r.Having] != nil {
			out = append(out, i)
		}
	}
	return out
}

// Choose is the only stage that a default can mean. None or several is an error that lists them; at is the block
// that needs it.
func (e *Eval) Choose(r *schema.RefDefault, attribute string, at hcl.Range) (*site.Instance, *hcl.Diagnostic) {
	c := e.candidates(r)
	if len(c) == 1 {
		return c[0], nil
	}
	what := "stage of type " + r.Stage
	if r.Having != "" {
		what += " with " + r.Having
	}
	if len(c) == 0 {
		return nil, origin.Error(fault.DefaultChoice, at, "Nothing to take "+attribute+" from", "It is not written, and there is no %s. Declare one, or write %s here.", what, attribute)
	}
	var names []string
	for _, i := range c {
		names = append(names, fmt.Sprintf("stage.%s (%s:%d)", i.Addr(), i.Range.Filename, i.Range.Start.Line))
	}
	example := "stage." + c[0].Addr() + "." + r.Output
	if r.Key != "" {
		example += fmt.Sprintf("[%q]", r.Key)
	}
	return nil, origin.Error(fault.DefaultChoice, at, "Several choices for "+attribute, "It is not written, and there are %d: %s. Write which: %s = %s", len(c), strings.Join(names, ", "), attribute, example)
}

// Order is every stage after those that it needs; of several that could come next, the first in the site.
func (e *Eval) Order() []*site.Instance {
	done := map[string]bool{}
	rest := slices.Clone(e.site.Stages)
	needs := map[*site.Instance][]string{}
	for _, i := range rest {
		needs[i] = e.Needs(i)
	}
	var out []*site.Instance
	for len(rest) > 0 {
		at := slices.IndexFunc(rest, func(i *site.Instance) bool {
			for _, n := range needs[i] {
				if !done[n] {
					return false
				}
			}
			return true
		})
		if at < 0 { // a cycle: References has refused it
			return append(out, rest...)
		}
		done[rest[at].Addr()] = true
		out = append(out, rest[at])
		rest = slices.Delete(rest, at, at+1)
	}
	return out
}

// use is a place of the site that refers to a local or a stage.
type use struct {
	name string // local.<name> or stage.<type>.<name>
	at   hcl.Range
}

// cycles finds references that go in circles, through locals and stages. The error shows the whole path of the first.
func (e *Eval) cycles() hcl.Diagnostics {
	all, uses := e.uses()
	path := []string{}
	done := map[string]bool{}
	var visit func(u use) *hcl.Diagnostic
	visit = func(u use) *hcl.Diagnostic {
		if at := slices.Index(path, u.name); at >= 0 {
			return circle(append(slices.Clone(path[at:]), u.name), u.at)
		}
		if done[u.name] {
			return nil
		}
		path = append(path, u.name)
		for _, next := range uses[u.name] {
			if found := visit(next); found != nil {
				return found
			}
		}
		path = path[:len(path)-1]
		done[u.name] = true
		return nil
	}

	for _, u := range all {
		if found := visit(u); found != nil {
			return hcl.Diagnostics{found}
		}
	}
	return nil
}

func circle(path []string, at hcl.Range) *hcl.Diagnostic {
	return origin.Error(fault.Cycle, at, "References go in a circle",
		"%s. Break it: one of them must not use the next.", strings.Join(path, " → "))
}

// uses lists the locals by name and the stages as in the site, and for each the locals and stages that it refers to. A
// name that the site does not declare has none.
func (e *Eval) uses() (all []use, of map[string][]use) {
	of = map[string][]use{}
	for _, name := range keys(e.site.Locals) {
		l := e.site.Locals[name]
		u := use{"local." + name, l.Range}
		all = append(all, u)
		of[u.name] = usesIn(l.Expr)
	}
	for _, i := range e.site.Stages {
		u := use{"stage." + i.Addr(), i.Range}
		all = append(all, u)
		of[u.name] = usesIn(append([]hclsyntax.Expression{i.When, i.ForEach, i.Timeout}, BodyExpressions(i.Body)...)...)
		for _, ed := range e.Edges(i) {
			of[u.name] = append(of[u.name], use{"stage." + ed.To, i.Range})
		}
	}
	return all, of
}

// usesIn lists the locals and stages that expressions refer to; nil expressions are not written.
func usesIn(xs ...hclsyntax.Expression) (out []use) {
	for _, x := range xs {
		if x == nil {
			continue
		}
		for _, tr := range x.Variables() {
			if name := usedBy(tr); name != "" {
				out = append(out, use{name, tr.SourceRange()})
			}
		}
	}
	return out
}

// usedBy is the local or the stage that a reference is to, or "".
func usedBy(tr hcl.Traversal) string {
	name, _, ok := second(tr)
	switch {
	case !ok:
		return ""
	case tr.RootName() == "local":
		return "local." + name
	case tr.RootName() == "stage" && len(tr) > 2:
		if n, _, ok := second(tr[1:]); ok {
			return "stage." + name + "." + n
		}
	}
	return ""
}
