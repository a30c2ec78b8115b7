package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// Check looks at the form of a body: attributes and blocks that are not declared (with a suggestion), required
// ones that are missing, labels, and how often a block may stand. It evaluates nothing. Extra are further
// attributes that the caller handles (when, for_each, timeout, on_failure).
func (b Block) Check(body *hclsyntax.Body, extra ...string) hcl.Diagnostics {
	return b.check(body, at(body), extra)
}

func (b Block) check(body *hclsyntax.Body, head hcl.Range, extra []string) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if b.ForEach {
		extra = append(extra, Meta...)
	}
	attrs, blocks := b.Names()
	if !b.Free {
		known := set(attrs, extra)
		for _, a := range sortedAttributes(body) {
			if known[a.Name] {
				continue
			}
			hint := Suggest(a.Name, append(append([]string{}, attrs...), extra...))
			if set(blocks)[a.Name] {
				hint = fmt.Sprintf("%s is a block: write it without the equals sign, %s { … }.", a.Name, a.Name)
			}
			diags = append(diags, origin.Error(fault.UnknownArgument, a.NameRange,
				fmt.Sprintf("Unknown argument %q", a.Name), "Block %s has no argument of this name. %s", b.Type, hint))
		}
		for _, f := range b.Fields {
			if s := f.Spec(); s.Required && body.Attributes[s.Name] == nil {
				diags = append(diags, origin.Error(fault.MissingArgument, head,
					fmt.Sprintf("Missing argument %q", s.Name), "Block %s needs %s (%s). %s", b.Type, s.Name, TypeName(s.Type), s.Doc))
			}
		}
	}
	count := map[string]int{}
	for _, x := range body.Blocks {
		n, ok := b.Find(x.Type)
		if !ok {
			if b.Free {
				continue
			}
			hint := Suggest(x.Type, blocks)
			if set(attrs)[x.Type] {
				hint = fmt.Sprintf("%s is an argument: write %s = { … }.", x.Type, x.Type)
			}
			diags = append(diags, origin.Error(fault.UnknownBlock, x.TypeRange, fmt.Sprintf("Unknown block %q", x.Type), "Block %s has no block of this name. %s", b.Type, hint))
			continue
		}
		if len(x.Labels) != len(n.Labels) {
			diags = append(diags, origin.Error(fault.UnknownBlock, x.DefRange(), fmt.Sprintf("Wrong labels of block %q", x.Type),
				"It is written %s.", n.Usage()))
			continue
		}
		key := x.Type + "\x00" + strings.Join(x.Labels, "\x00")
		count[key]++
		if len(n.Labels) > 0 && count[key] == 2 {
			diags = append(diags, origin.Error(fault.Duplicate, x.DefRange(), fmt.Sprintf("Block %s %q is there twice", x.Type, strings.Join(x.Labels, " ")), "Give one of them another name, or remove it."))
		}
		if count[x.Type]++; len(n.Labels) == 0 && n.Max > 0 && count[x.Type] == n.Max+1 {
			diags = append(diags, origin.Error(fault.Duplicate, x.DefRange(), fmt.Sprintf("Too many %q blocks", x.Type), "Block %s takes %d of it.", b.Type, n.Max))
		}
		diags = append(diags, n.check(x.Body, x.DefRange(), nil)...)
	}
	return diags
}

// Usage is how the block's head is written: file "NAME" { … }.
func (b Block) Usage() string {
	s := b.Type
	for _, l := range b.Labels {
		s += fmt.Sprintf(" %q", strings.ToUpper(l))
	}
	return s + " { … }"
}

// Suggest names what was probably meant, or lists what there is.
func Suggest(word string, known []string) string {
	if s := Nearest(word, known); s != "" {
		return fmt.Sprintf("Did you mean %q?", s)
	}
	if len(known) == 0 {
		return "It has none."
	}
	return "There is: " + strings.Join(slices.Sorted(slices.Values(known)), ", ") + "."
}

// Nearest is the known word that a misspelt one is closest to, or "".
func Nearest(word string, known []string) string {
	best, dist := "", 3
	if word == "" {
		return ""
	}
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(k), nil); d < dist && d < (len(k)+1)/2+1 {
			best, dist = k, d
		}
	}
	return best
}

// TypeName is a type in the words of the reference pages.
func TypeName(t cty.Type) string {
	switch {
	case t == cty.DynamicPseudoType:
		return "any"
	case t.IsListType():
		return "list of " + TypeName(t.ElementType())
	case t.IsSetType():
		return "set of " + TypeName(t.ElementType())
	case t.IsMapType():
		return "map of " + TypeName(t.ElementType())
	}
	return t.FriendlyNameForConstraint()
}

// at is the beginning of a body.
func at(body *hclsyntax.Body) hcl.Range {
	r := body.SrcRange
	r.End = r.Start
	return r
}

func sortedAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(body.Attributes), func(x, y *hclsyntax.Attribute) int {
		a, b := x.SrcRange, y.SrcRange
		return cmp.Or(strings.Compare(a.Filename, b.Filename), a.Start.Byte-b.Start.Byte)
	})
}

func set(lists ...[]string) map[string]bool {
	m := map[string]bool{}
	for _, l := range lists {
		for _, s := range l {
			m[s] = true
		}
	}
	return m
}
