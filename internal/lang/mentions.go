package lang

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Mentions is what the text of an expression names.
type Mentions struct {
	References []hcl.Traversal // to variables, locals, stages and others, in the order of the text
	Functions  []string        // that it calls, sorted
}

// MentionsOf returns what an expression names. It is found once for a site. It is safe for concurrent use.
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
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok {
			m.Functions = append(m.Functions, call.Name)
		}
		return nil
	})
	slices.Sort(m.Functions)
	m.Functions = slices.Compact(m.Functions)

	return m
}
