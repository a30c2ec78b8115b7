package eval

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Graph is what a site declares, and what refers to what. It needs no machine.
type Graph struct {
	Nodes []GraphNode // variables, locals, detectors and blocks by name, then the stages in the order in which they run
	Edges []GraphEdge // by From, in the order of Nodes, then by To
}

// GraphNode is one declaration.
type GraphNode struct {
	Name  string // as expressions write it: var.NAME, local.NAME, stage.TYPE.NAME; detector.NAME; cluster, node, prelet
	Kind  string // variable, local, detector, block, gather, decide or render
	Range hcl.Range
}

// GraphEdge is a reference.
type GraphEdge struct {
	From, To string
	Default  string // the argument that is not written and takes its default from To; "" for a written reference
}

// Graph returns the declarations and references of a site.
func (e *Eval) Graph() Graph {
	var g Graph

	s := e.site
	for _, name := range sortedKeys(s.Variables) {
		v := s.Variables[name]
		g.Nodes = append(g.Nodes, GraphNode{"var." + name, "variable", v.Range})
	}
	for _, name := range sortedKeys(s.Locals) {
		local := s.Locals[name]
		g.add(GraphNode{"local." + name, "local", local.Range}, local.Expr)
	}
	for _, name := range sortedKeys(s.Detectors) {
		d := s.Detectors[name]
		g.add(GraphNode{"detector." + name, "detector", d.Range}, BodyExpressions(d.Body)...)
	}
	for _, block := range []struct {
		name string
		body *hclsyntax.Body
	}{{"cluster", s.Cluster}, {"node", s.Node}, {"prelet", s.Prelet}} {
		if block.body != nil {
			n := GraphNode{block.name, "block", block.body.SrcRange}
			g.add(n, BodyExpressions(block.body)...)
		}
	}

	for _, i := range e.Order() {
		n := GraphNode{"stage." + i.Addr(), i.Spec.Phase.String(), i.Range}
		g.add(n, expressionsOf(i)...)
		for _, edge := range e.Edges(i) {
			g.Edges = append(g.Edges, GraphEdge{n.Name, "stage." + edge.To, edge.Attribute})
		}
	}

	return g
}

// add adds a declaration with the references of its expressions, each once. Expressions may be nil.
func (g *Graph) add(n GraphNode, expressions ...hclsyntax.Expression) {
	g.Nodes = append(g.Nodes, n)

	var names []string
	for _, x := range expressions {
		if x == nil {
			continue
		}
		for _, reference := range x.Variables() {
			names = append(names, nameOf(reference))
		}
	}
	for _, to := range sortedUnique(names) {
		if to != "" {
			g.Edges = append(g.Edges, GraphEdge{From: n.Name, To: to})
		}
	}
}

// nameOf returns the name of the declaration that a reference refers to; "" for each, self and functions' own names.
func nameOf(reference hcl.Traversal) string {
	if reference.RootName() == "var" {
		if name, _, ok := findSecondName(reference); ok {
			return "var." + name
		}
	}

	return ownerOf(reference)
}

// OnlyStages returns the graph without other declarations. A stage that refers to a local refers to the stages that
// the local refers to.
func (e *Eval) OnlyStages() Graph {
	var g Graph

	for _, i := range e.Order() {
		n := GraphNode{"stage." + i.Addr(), i.Spec.Phase.String(), i.Range}
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
