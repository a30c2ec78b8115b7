package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
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
			written := false
			if b != nil {
				for _, x := range b.Blocks {
					if x.Type == n.Type {
						written = true
						walk(n, x.Body, path+n.Type+".")
					}
				}
			}
			if !written && n.Always {
				walk(n, nil, path+n.Type+".")
			}
		}
	}
	walk(i.Spec.Block, i.Body, "")
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

// cycles finds references that go in circles, through locals and stages, and tells the whole path.
func (e *Eval) cycles() hcl.Diagnostics {
	const grey, black = 1, 2
	colour := map[string]int{}
	var path []string
	var found *hcl.Diagnostic
	var visit func(name string, at hcl.Range, next func(func(string, hcl.Range)))
	var local, stage func(name string, at hcl.Range)
	visit = func(name string, at hcl.Range, next func(func(string, hcl.Range))) {
		if found != nil || colour[name] == black {
			return
		}
		if colour[name] == grey {
			loop := append(slices.Clone(path[slices.Index(path, name):]), name)
			found = origin.Error(fault.Cycle, at, "References go in a circle", "%s. Break it: one of them must not use the next.", strings.Join(loop, " → "))
			return
		}
		colour[name] = grey
		path = append(path, name)
		next(func(n string, r hcl.Range) {
			if rest, ok := strings.CutPrefix(n, "local."); ok {
				local(rest, r)
			} else {
				stage(strings.TrimPrefix(n, "stage."), r)
			}
		})
		path = path[:len(path)-1]
		colour[name] = black
	}
	expressions := func(xs []hclsyntax.Expression, go_ func(string, hcl.Range)) {
		for _, x := range xs {
			if x == nil {
				continue
			}
			for _, tr := range x.Variables() {
				name, _, ok := second(tr)
				switch {
				case tr.RootName() == "local" && ok:
					go_("local."+name, tr.SourceRange())
				case tr.RootName() == "stage" && ok && len(tr) > 2:
					if n, _, ok := second(tr[1:]); ok {
						go_("stage."+name+"."+n, tr.SourceRange())
					}
				}
			}
		}
	}
	local = func(name string, at hcl.Range) {
		l := e.site.Locals[name]
		if l == nil {
			return
		}
		visit("local."+name, at, func(g func(string, hcl.Range)) { expressions([]hclsyntax.Expression{l.Expr}, g) })
	}
	stage = func(addr string, at hcl.Range) {
		i := e.site.Stage(addr)
		if i == nil {
			return
		}
		visit("stage."+addr, at, func(g func(string, hcl.Range)) {
			expressions(append([]hclsyntax.Expression{i.When, i.ForEach, i.Timeout}, BodyExpressions(i.Body)...), g)
			for _, ed := range e.Edges(i) {
				g("stage."+ed.To, i.Range)
			}
		})
	}
	for _, n := range keys(e.site.Locals) {
		local(n, e.site.Locals[n].Range)
	}
	for _, i := range e.site.Stages {
		stage(i.Addr(), i.Range)
	}
	if found != nil {
		return hcl.Diagnostics{found}
	}
	return nil
}
