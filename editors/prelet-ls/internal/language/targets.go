package language

import (
	"github.com/hashicorp/hcl-lang/lang"
	"github.com/hashicorp/hcl-lang/reference"
	"github.com/zclconf/go-cty/cty"
)

// maxNested is how deep the outputs of a stage are listed for hcl-lang, which compares each with the type that an
// attribute needs.
const maxNested = 2

// Targets returns the site's names for hcl-lang, which offers those whose type fits where an expression begins.
func (x *Index) Targets() reference.Targets {
	var out reference.Targets
	for _, s := range x.Symbols {
		addr := lang.Address{lang.RootStep{Name: string(s.Kind)}}
		if s.Kind == Stage {
			addr = append(addr, lang.AttrStep{Name: s.StageType})
		}
		addr = append(addr, lang.AttrStep{Name: s.Name})

		place, name := s.Block, s.Range
		target := reference.Target{
			Addr:        addr,
			Type:        s.Type,
			Description: lang.Markdown(s.Doc),
			RangePtr:    &place,
			DefRangePtr: &name,
		}
		target.NestedTargets = nestedTargets(target, 0)
		out = append(out, target)

		if s.Kind == Stage { // for lists of stages, such as notify, which have no type
			target.Type = cty.NilType
			target.ScopeId = scopeOf(s.StageType)
			target.NestedTargets = nil
			out = append(out, target)
		}
	}

	return out
}

func nestedTargets(outer reference.Target, depth int) reference.Targets {
	if depth == maxNested {
		return nil
	}

	var out reference.Targets
	types := attributeTypes(outer.Type)
	for _, name := range sortedKeys(types) {
		inner := reference.Target{
			Addr:     append(outer.Addr.Copy(), lang.AttrStep{Name: name}),
			Type:     types[name],
			RangePtr: outer.RangePtr,
		}
		inner.NestedTargets = nestedTargets(inner, depth+1)
		out = append(out, inner)
	}

	return out
}
