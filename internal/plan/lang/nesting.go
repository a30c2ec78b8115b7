package lang

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// forNesting returns how deep the bodies of for expressions and template loops are nested in e. The collection of a
// loop is evaluated once, so loops in it do not count as nested.
func forNesting(e hclsyntax.Expression) int {
	var depth depthCounter
	_ = hclsyntax.Walk(e, &depth) // the callbacks return no diagnostics

	return depth.deepest
}

// depthCounter counts scopes. A loop has one for each part of its body.
type depthCounter struct{ depth, deepest int }

func (c *depthCounter) Enter(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		c.depth++
		c.deepest = max(c.deepest, c.depth)
	}
	return nil
}

func (c *depthCounter) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		c.depth--
	}
	return nil
}
