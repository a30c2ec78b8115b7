package explain

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// step is one key on the way into a value: a name (of an attribute or a map's key) or the number of an element.
type step struct {
	name   string
	index  int
	number bool
}

func named(n string) step   { return step{name: n} }
func numbered(i int) step   { return step{index: i, number: true} }
func (s step) text() string { return s.suffix(true) }

func (s step) suffix(bare bool) string {
	switch {
	case s.number:
		return fmt.Sprintf("[%d]", s.index)
	case bare && identifier(s.name):
		return "." + s.name
	}
	return fmt.Sprintf("[%q]", s.name)
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

// path leads into a value.
type path []step

func (p path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.text())
	}
	return b.String()
}

// pointer writes a path as a JSON pointer.
func (p path) pointer() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		if s.number {
			fmt.Fprint(&b, s.index)
		} else {
			b.WriteString(world.EscapePointer(s.name))
		}
	}
	return b.String()
}

func (p path) then(q ...step) path { return append(append(path{}, p...), q...) }

// stepsOf are the steps of a traversal; ok is false where a key is not known.
func stepsOf(tr []hcl.Traverser) (path, bool) {
	var out path
	for _, t := range tr {
		switch t := t.(type) {
		case hcl.TraverseAttr:
			out = append(out, named(t.Name))
		case hcl.TraverseIndex:
			s, ok := stepOf(t.Key)
			if !ok {
				return out, false
			}
			out = append(out, s)
		default:
			return out, false
		}
	}
	return out, true
}

// stepOf is the step that an index with this key takes.
func stepOf(key cty.Value) (step, bool) {
	k, _, _ := value.Plain(key)
	if !k.IsKnown() || k.IsNull() {
		return step{}, false
	}
	switch k.Type() {
	case cty.String:
		return named(k.AsString()), true
	case cty.Number:
		i, _ := k.AsBigFloat().Int64()
		return numbered(int(i)), true
	}
	return step{}, false
}

// in follows a path into a value, keeping the marks on the way; ok is false where it leads nowhere.
func (p path) in(v cty.Value) (cty.Value, bool) {
	for _, s := range p {
		u, marked := value.Open(v)
		if u == cty.NilVal || !u.IsKnown() || u.IsNull() {
			return cty.DynamicVal, false
		}
		t := u.Type()
		switch {
		case !s.number && t.IsObjectType() && t.HasAttribute(s.name):
			v = u.GetAttr(s.name)
		case !s.number && t.IsMapType():
			if k := cty.StringVal(s.name); u.HasIndex(k).True() {
				v = u.Index(k)
				break
			}
			return cty.DynamicVal, false
		case s.number && (t.IsListType() || t.IsTupleType()) && s.index >= 0 && s.index < u.LengthInt():
			v = u.Index(cty.NumberIntVal(int64(s.index)))
		default:
			return cty.DynamicVal, false
		}
		v = marked(v)
	}
	return v, true
}

func way(steps ...step) path { return steps }
