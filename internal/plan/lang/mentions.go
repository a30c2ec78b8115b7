package lang

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/model/value"
)

// Mentions lists the names in the text of an expression.
type Mentions struct {
	References []hcl.Traversal // to variables, locals, stages and others, in the order of the text
	Functions  []string        // that it calls, sorted
	Branches   bool            // which part of it gives a value may depend on others
}

// MentionsOf returns the names in an expression. They are searched once for a site. It is safe for concurrent use.
func (s *Site) MentionsOf(x hclsyntax.Expression) Mentions {
	if s.mentions == nil { // not a site of files
		return findMentions(x)
	}
	if known, ok := s.mentions.Load(x); ok {
		m, _ := known.(Mentions)
		return m
	}

	m := findMentions(x)
	s.mentions.Store(x, m)

	return m
}

func findMentions(x hclsyntax.Expression) Mentions {
	m := Mentions{References: x.Variables()}
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.FunctionCallExpr:
			m.Functions = append(m.Functions, n.Name)
			m.Branches = m.Branches || n.Name == "merge"
		case *hclsyntax.ConditionalExpr:
			m.Branches = true
		case *hclsyntax.ObjectConsKeyExpr:
			_, isLiteral := value.LiteralText(n)
			m.Branches = m.Branches || !isLiteral
		}
		return nil
	})
	slices.Sort(m.Functions)
	m.Functions = slices.Compact(m.Functions)

	return m
}
