package eval

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/plan/lang"
)

// Graph is the declarations of a site and the references between them. It needs no machine.
type Graph struct {
	Nodes []GraphNode // variables, locals, detectors and blocks by name, then the stages in the order in which they run
	Edges []GraphEdge // by From, in the order of Nodes, then by To
}

// GraphNode is a declaration of the site, or an object that expressions can refer to.
type GraphNode struct {
	Name  string // as expressions write it: var.NAME, local.NAME, stage.TYPE.NAME; detector.NAME; cluster, node, prelet
	Kind  string // variable, local, detector, block, gather, decide or render
	Range hcl.Range

	uses []use
}

// use is a reference of a declaration.
type use struct {
	name      string // of the declaration that it refers to
	at        hcl.Range
	defaultOf string // the argument that is not written and refers to it; "" for a written reference
}

// GraphEdge is a reference from one declaration to another, by their names.
type GraphEdge struct {
	From, To string
	Default  string // the argument that is not written and takes its default from To; "" for a written reference
}

// Graph returns the declarations and references of a site.
func (e *Eval) Graph() Graph {
	g := Graph{Nodes: e.declarations(e.Order())}

	for _, n := range g.Nodes {
		var names []string
		var defaults []GraphEdge
		for _, u := range n.uses {
			if u.defaultOf == "" {
				names = append(names, u.name)
			} else {
				defaults = append(defaults, GraphEdge{n.Name, u.name, u.defaultOf})
			}
		}
		for _, to := range sortedUnique(names) {
			g.Edges = append(g.Edges, GraphEdge{From: n.Name, To: to})
		}
		g.Edges = append(g.Edges, defaults...)
	}

	return g
}

// declarations returns variables, locals, detectors and blocks by name, then stages in the given order, each with its
// references.
func (e *Eval) declarations(stages []*lang.Instance) (all []GraphNode) {
	add := func(name, kind string, at hcl.Range, xs ...hclsyntax.Expression) {
		all = append(all, GraphNode{name, kind, at, usesIn(xs...)})
	}

	s := e.site
	for _, name := range sortedKeys(s.Variables) {
		add("var."+name, "variable", s.Variables[name].Range)
	}
	for _, name := range sortedKeys(s.Locals) {
		add("local."+name, "local", s.Locals[name].Range, s.Locals[name].Expr)
	}
	for _, name := range s.DetectorNames() {
		d := s.Detectors[name]
		add("detector."+name, "detector", d.Range, BodyExpressions(d.Body)...)
	}
	blocks := map[string]*hclsyntax.Body{
		"cluster":  s.Cluster,
		"delivery": s.Delivery,
		"node":     s.Node,
		"prelet":   s.Prelet,
	}
	for _, name := range sortedKeys(blocks) {
		if body := blocks[name]; body != nil {
			add(name, "block", body.SrcRange, BodyExpressions(body)...)
		}
	}
	for _, i := range stages {
		add("stage."+i.Addr(), i.Spec.Phase.String(), i.Range, expressionsOf(i)...)
		n := &all[len(all)-1]
		for _, edge := range e.Edges(i) {
			n.uses = append(n.uses, use{"stage." + edge.To, i.Range, edge.Attribute})
		}
	}

	return all
}

// usesIn lists the variables, locals and stages that expressions refer to. Expressions may be nil.
func usesIn(xs ...hclsyntax.Expression) (uses []use) {
	for _, x := range xs {
		if x == nil {
			continue
		}
		for _, reference := range x.Variables() {
			if name := nameOf(reference); name != "" {
				uses = append(uses, use{name: name, at: reference.SourceRange()})
			}
		}
	}

	return uses
}

// nameOf returns the name of the declaration that a reference refers to; "" for each, self and functions' own names.
func nameOf(reference hcl.Traversal) string {
	name, _, ok := findSecondName(reference)
	root := reference.RootName()
	switch {
	case !ok:
		return ""
	case root == "var", root == "local":
		return root + "." + name
	case root == "stage":
		if stage, _, ok := findSecondName(reference[1:]); ok {
			return "stage." + name + "." + stage
		}
	}

	return ""
}

// OnlyStages returns the graph without other declarations. A stage that refers to a local refers to the stages that
// the local refers to.
func (e *Eval) OnlyStages() Graph {
	var g Graph

	for _, i := range e.Order() {
		n := GraphNode{
			Name:  "stage." + i.Addr(),
			Kind:  i.Spec.Phase.String(),
			Range: i.Range,
		}
		g.Nodes = append(g.Nodes, n)

		defaults := e.Edges(i)
		for _, need := range e.Needs(i) {
			edge := GraphEdge{From: n.Name, To: "stage." + need}
			at := slices.IndexFunc(defaults, func(d Edge) bool {
				return d.To == need
			})
			if at >= 0 && !slices.Contains(e.Reach(expressionsOf(i)...).Stages, need) {
				edge.Default = defaults[at].Attribute
			}
			g.Edges = append(g.Edges, edge)
		}
	}

	return g
}
