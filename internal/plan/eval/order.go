package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// Needs returns the addresses of the stages that must run before a stage: those it refers to, also by a default.
func (e *Eval) Needs(i *lang.Instance) []string {
	needs := e.Reach(expressionsOf(i)...).Stages
	for _, edge := range e.Edges(i) {
		needs = append(needs, edge.To)
	}

	return sortedUnique(needs)
}

// expressionsOf returns all expressions of a stage. Those that are not written are nil.
func expressionsOf(i *lang.Instance) []hclsyntax.Expression {
	own := []hclsyntax.Expression{i.When, i.ForEach, i.Timeout}

	return append(own, BodyExpressions(i.Body)...)
}

// Edge is a default that refers to another stage's output. Graph, plan and explain show it.
type Edge struct {
	From, Attribute string
	To, Output      string
}

// Edges lists the defaults of an instance that the site does not override, where the choice is unique.
func (e *Eval) Edges(i *lang.Instance) []Edge {
	return e.edgesOf(i.Addr(), i.Spec.Block, i.Body, "")
}

// edgesOf lists the edges of one body, which is nil for a block that exists without being written.
func (e *Eval) edgesOf(
	from string,
	declared schema.Block,
	b *hclsyntax.Body,
	path string,
) (edges []Edge) {
	for _, f := range declared.Fields {
		s := f.Spec()
		isWritten := b != nil && b.Attributes[s.Name] != nil
		if s.Ref == nil || isWritten || s.Ref.Unless.In(b) {
			continue
		}
		if to := e.listCandidates(s.Ref); len(to) == 1 {
			edges = append(edges, Edge{
				From:      from,
				Attribute: path + s.Name,
				To:        to[0].Addr(),
				Output:    s.Ref.Output,
			})
		}
	}

	for _, block := range declared.Blocks {
		bodies := bodiesOf(b, block.Type)
		if len(bodies) == 0 && block.Always {
			bodies = []*hclsyntax.Body{nil}
		}
		for _, body := range bodies {
			edges = append(edges, e.edgesOf(from, block, body, path+block.Type+".")...)
		}
	}

	return edges
}

// bodiesOf lists the blocks of a type in a body, which may be nil.
func bodiesOf(b *hclsyntax.Body, blockType string) (bodies []*hclsyntax.Body) {
	if b == nil {
		return nil
	}
	for _, block := range b.Blocks {
		if block.Type == blockType {
			bodies = append(bodies, block.Body)
		}
	}

	return bodies
}

// listCandidates lists the stages that a default can refer to.
func (e *Eval) listCandidates(r *schema.RefDefault) (stages []*lang.Instance) {
	for _, i := range e.site.OfType(r.Stage) {
		if r.Having == "" || i.Body.Attributes[r.Having] != nil {
			stages = append(stages, i)
		}
	}

	return stages
}

// Choose returns the only stage that a default can refer to. None or several is an error that lists them; at is the
// block that needs it.
func (e *Eval) Choose(
	r *schema.RefDefault, attribute string, at hcl.Range,
) (*lang.Instance, *hcl.Diagnostic) {
	candidates := e.listCandidates(r)
	switch len(candidates) {
	case 1:
		return candidates[0], nil
	case 0:
		wanted := "stage of type " + r.Stage
		if r.Having != "" {
			wanted += " with " + r.Having
		}
		return nil, origin.Error(fault.DefaultChoice, at, "Nothing to take "+attribute+" from",
			"It is not written, and there is no %s. Declare one, or write %s here.", wanted, attribute)
	}

	var names []string
	for _, i := range candidates {
		line := i.Range.Start.Line
		name := fmt.Sprintf("stage.%s (%s:%d)", i.Addr(), i.Range.Filename, line)
		names = append(names, name)
	}
	example := "stage." + candidates[0].Addr() + "." + r.Output
	if r.Key != "" {
		example += fmt.Sprintf("[%q]", r.Key)
	}

	return nil, origin.Error(fault.DefaultChoice, at, "Several choices for "+attribute,
		"It is not written, and there are %d: %s. Write which: %s = %s",
		len(candidates), strings.Join(names, ", "), attribute, example)
}

// Order returns the stages, each after those it needs; of several that can come next, the first in the site.
func (e *Eval) Order() []*lang.Instance {
	isDone := map[string]bool{}
	needs := map[*lang.Instance][]string{}
	for _, i := range e.site.Stages {
		needs[i] = e.Needs(i)
	}
	isReady := func(i *lang.Instance) bool {
		return !slices.ContainsFunc(needs[i], func(addr string) bool {
			return !isDone[addr]
		})
	}

	var order []*lang.Instance
	rest := slices.Clone(e.site.Stages)
	for len(rest) > 0 {
		next := slices.IndexFunc(rest, isReady)
		if next < 0 { // a cycle, which References refuses
			return append(order, rest...)
		}
		isDone[rest[next].Addr()] = true
		order = append(order, rest[next])
		rest = slices.Delete(rest, next, next+1)
	}

	return order
}

// findCycle finds references that form a cycle, through locals and stages. The error shows the path of the first.
func (e *Eval) findCycle() *hcl.Diagnostic {
	all := e.declarations(e.site.Stages)
	usesOf := map[string][]use{}
	for _, n := range all {
		usesOf[n.Name] = n.uses
	}
	var path []string
	isDone := map[string]bool{}

	var visit func(u use) *hcl.Diagnostic
	visit = func(u use) *hcl.Diagnostic {
		if start := slices.Index(path, u.name); start >= 0 {
			cycle := append(shortenPath(path[start:]), u.name)
			return origin.Error(fault.Cycle, u.at, "References go in a circle",
				"%s. Break it: one of them must not use the next.", strings.Join(cycle, " → "))
		}
		if isDone[u.name] {
			return nil
		}

		path = append(path, u.name)
		for _, next := range usesOf[u.name] {
			if d := visit(next); d != nil {
				return d
			}
		}
		path = path[:len(path)-1]
		isDone[u.name] = true

		return nil
	}

	for _, n := range all {
		if d := visit(use{name: n.Name, at: n.Range}); d != nil {
			return d
		}
	}

	return nil
}

// shortenPath returns a copy of a path with at most ten names: the others are counted in one place in its middle.
func shortenPath(names []string) []string {
	const shown = 10
	if len(names) <= shown {
		return slices.Clone(names)
	}

	out := slices.Clone(names[:shown/2])
	out = append(out, fmt.Sprintf("(%d more)", len(names)-shown))

	return append(out, names[len(names)-shown/2:]...)
}
