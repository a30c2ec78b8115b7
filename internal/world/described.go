package world

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxTypeDepth is how deep types of a description nest, as detector.v1 has it.
const maxTypeDepth = 8

// MatchesPCI says whether a device is one that the detector names.
func (m Match) MatchesPCI(d PCIDevice) bool {
	return slices.ContainsFunc(m.PCIIDs, func(id string) bool {
		vendor, rest, _ := strings.Cut(id, ":")
		device, class, _ := strings.Cut(rest, ":")
		v, p, _ := strings.Cut(d.Device, ":")
		return vendor == v && (device == "*" || device == p) && strings.HasPrefix(d.Class, class)
	})
}

// Empty says that nothing is asked for.
func (g Grants) Empty() bool {
	return len(g.Devices)+len(g.Read)+len(g.Execute)+len(g.Sockets)+len(g.Groups) == 0
}

// Missing is what of a need is not granted. A pattern grants what it matches, and a folder what is below it.
func (g Grants) Missing(need Grants) Grants {
	rest := func(need, have []string, below bool) (out []string) {
		for _, n := range need {
			if !slices.ContainsFunc(have, func(h string) bool { return covers(h, n, below) }) {
				out = append(out, n)
			}
		}
		return out
	}
	return Grants{Devices: rest(need.Devices, g.Devices, false), Read: rest(need.Read, g.Read, true), Execute: rest(need.Execute, g.Execute, true),
		Sockets: rest(need.Sockets, g.Sockets, false), Groups: rest(need.Groups, g.Groups, false)}
}

// covers matches the need as text: a star in it is a character like another, which only a star of the grant matches.
func covers(grant, need string, below bool) bool {
	if ok, _ := path.Match(grant, need); ok || grant == need {
		return true
	}
	return below && strings.HasPrefix(need, strings.TrimSuffix(grant, "/")+"/")
}

// Union is what both grant.
func (g Grants) Union(o Grants) Grants {
	both := func(a, b []string) []string {
		out := slices.Concat(a, b)
		slices.Sort(out)
		return slices.Compact(out)
	}
	return Grants{both(g.Devices, o.Devices), both(g.Read, o.Read), both(g.Execute, o.Execute), both(g.Sockets, o.Sockets), both(g.Groups, o.Groups)}
}

// Block is the grant as a site writes it, to be pasted into a detector block.
func (g Grants) Block() string {
	var b strings.Builder
	b.WriteString("allow {\n")
	width := 0
	for _, one := range g.named() {
		if len(one.list) > 0 {
			width = max(width, len(one.name))
		}
	}
	for _, one := range g.named() {
		if len(one.list) == 0 {
			continue
		}
		quoted := make([]string, len(one.list))
		for i, s := range one.list {
			quoted[i] = strconv.Quote(s)
		}
		fmt.Fprintf(&b, "  %-*s = [%s]\n", width, one.name, strings.Join(quoted, ", "))
	}
	return b.String() + "}"
}

type namedGrant struct {
	name string
	list []string
}

func (g Grants) named() []namedGrant {
	return []namedGrant{{"devices", g.Devices}, {"read", g.Read}, {"execute", g.Execute}, {"sockets", g.Sockets}, {"groups", g.Groups}}
}

// CheckConfig looks at a configuration, as a site writes it, along what a detector declares. It returns it whole: defaults in
// their places, a single object where a list is declared as a list of one, since a site cannot tell a block that stands
// once from one that may be repeated. Open are attributes of which nothing is known yet.
func CheckConfig(declared []Attribute, config map[string]any, open []string) (map[string]any, []ConfigProblem) {
	c := checker{defaults: true}
	out := c.object(declared, config, open, "")
	return out, c.problems
}

// CheckFact looks at the value of one described fact. Nothing is filled in; null is unknown.
func CheckFact(a Attribute, v any) []ConfigProblem {
	c := checker{}
	c.attribute(a, v, a.Name)
	return c.problems
}

// checker walks a value along a declaration.
type checker struct {
	defaults bool // of a configuration: what is missing is filled in, and nothing required may be missing
	problems []ConfigProblem
}

func (c *checker) complain(at, summary, detail string) {
	c.problems = append(c.problems, ConfigProblem{Path: at, Summary: summary, Detail: detail})
}

func (c *checker) object(declared []Attribute, have map[string]any, open []string, at string) map[string]any {
	known := map[string]bool{}
	var names []string
	out := map[string]any{}
	for _, a := range declared {
		known[a.Name] = true
		names = append(names, a.Name)
		v, written := have[a.Name]
		switch {
		case slices.Contains(open, a.Name):
		case written && v != nil:
			out[a.Name] = c.attribute(a, v, join(at, a.Name))
		case !c.defaults:
			out[a.Name] = nil
		case a.Required:
			c.complain(at, fmt.Sprintf("Missing attribute %q", a.Name), fmt.Sprintf("It is a %s. %s", a.Type, a.Doc))
		case a.Default != nil:
			out[a.Name] = a.Default
		case a.Type.Kind == ObjectKind: // an object that is not written has its defaults, unless it lacks something
			inner := checker{defaults: true}
			if o := inner.object(a.Type.Attributes, nil, nil, ""); len(inner.problems) == 0 && len(o) > 0 {
				out[a.Name] = o
			}
		}
	}
	for _, name := range sorted(have) {
		if !known[name] {
			c.complain(join(at, name), fmt.Sprintf("Unknown attribute %q", name), "There is: "+strings.Join(names, ", ")+".")
		}
	}
	for _, name := range open {
		if !known[name] {
			c.complain(join(at, name), fmt.Sprintf("Unknown attribute %q", name), "There is: "+strings.Join(names, ", ")+".")
		}
	}
	return out
}

func (c *checker) attribute(a Attribute, v any, at string) any {
	out := c.value(a.Type, v, at)
	if s, ok := v.(string); ok && len(a.OneOf) > 0 && !slices.Contains(a.OneOf, s) {
		c.complain(at, fmt.Sprintf("%q is not allowed for %s", clip(s), a.Name), "One of: "+strings.Join(a.OneOf, ", ")+".")
	}
	if n, ok := Number(v); ok && a.Type.Kind == NumberKind {
		if a.Minimum != nil && n < *a.Minimum {
			c.complain(at, fmt.Sprintf("%v is too little for %s", n, a.Name), fmt.Sprintf("At least %v%s.", *a.Minimum, unit(a)))
		}
		if a.Maximum != nil && n > *a.Maximum {
			c.complain(at, fmt.Sprintf("%v is too much for %s", n, a.Name), fmt.Sprintf("At most %v%s.", *a.Maximum, unit(a)))
		}
	}
	return out
}

func unit(a Attribute) string {
	if a.Unit == "" {
		return ""
	}
	return " " + a.Unit
}

func (c *checker) value(t ValueType, v any, at string) any {
	if v == nil {
		return nil
	}
	switch t.Kind {
	case StringKind:
		if _, ok := v.(string); ok {
			return v
		}
	case BoolKind:
		if _, ok := v.(bool); ok {
			return v
		}
	case NumberKind:
		if _, ok := Number(v); ok {
			return v
		}
	case ListKind:
		l, ok := v.([]any)
		if o, one := v.(map[string]any); one && c.defaults && t.Element != nil && t.Element.Kind == ObjectKind {
			l, ok = []any{o}, true
		}
		if ok && t.Element != nil {
			out := make([]any, len(l))
			for i, e := range l {
				out[i] = c.value(*t.Element, e, fmt.Sprintf("%s[%d]", at, i))
			}
			return out
		}
	case MapKind:
		if m, ok := v.(map[string]any); ok && t.Element != nil {
			out := make(map[string]any, len(m))
			for _, k := range sorted(m) {
				out[k] = c.value(*t.Element, m[k], fmt.Sprintf("%s[%q]", at, k))
			}
			return out
		}
	case ObjectKind:
		if m, ok := v.(map[string]any); ok {
			return c.object(t.Attributes, m, nil, at)
		}
	}
	detail := ""
	if _, isNumber := Number(v); isNumber && t.Kind == StringKind {
		detail = "Write it in quotes."
	}
	c.complain(at, fmt.Sprintf("A %s is needed, not a %s", t, kindOf(v)), detail)
	return nil
}

// Number is a value that JSON or a site has as a number.
func Number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "list"
	case map[string]any:
		return "block or an object"
	}
	if _, ok := Number(v); ok {
		return "number"
	}
	return "value of another kind"
}

// String is the type in the words of the language: list(number).
func (t ValueType) String() string {
	switch t.Kind {
	case StringKind:
		return "string"
	case NumberKind:
		return "number"
	case BoolKind:
		return "bool"
	case ListKind:
		return "list(" + t.element() + ")"
	case MapKind:
		return "map(" + t.element() + ")"
	case ObjectKind:
		return "block"
	}
	return "value of no type"
}

func (t ValueType) element() string {
	if t.Element == nil {
		return "?"
	}
	return t.Element.String()
}

// Check refuses a type that is none: lists of nothing, names that are not attributes' names, types deeper than eight.
func (t ValueType) Check() error { return t.check(1) }

func (t ValueType) check(depth int) error {
	if depth > maxTypeDepth {
		return fmt.Errorf("the type nests more than %d levels", maxTypeDepth)
	}
	switch t.Kind {
	case StringKind, NumberKind, BoolKind:
		return nil
	case ListKind, MapKind:
		if t.Element == nil {
			return fmt.Errorf("a %s of nothing", strings.ToLower(strings.TrimPrefix(string(t.Kind), "KIND_")))
		}
		return t.Element.check(depth + 1)
	case ObjectKind:
		return checkAttributes(t.Attributes, depth+1)
	}
	return fmt.Errorf("there is no type %q", clip(string(t.Kind)))
}

// checkAttributes refuses declarations that cannot be used: names, doubles, types, defaults that do not fit.
func checkAttributes(l []Attribute, depth int) error {
	seen := map[string]bool{}
	for _, a := range l {
		if !IsName(a.Name, '_') {
			return fmt.Errorf("%q is no name of an attribute", clip(a.Name))
		}
		if seen[a.Name] {
			return fmt.Errorf("the attribute %q is there twice", a.Name)
		}
		seen[a.Name] = true
		if err := a.Type.check(depth); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		if a.Default != nil {
			if a.Required {
				return fmt.Errorf("%s: what is required has no default", a.Name)
			}
			if p := CheckFact(a, a.Default); len(p) > 0 {
				return fmt.Errorf("%s: its default: %s", a.Name, p[0].Summary)
			}
		}
	}
	return nil
}

// IsName says whether a text is a name as detector.v1 has it: a lower-case letter, then letters, digits and one more
// character, at most 63.
func IsName(s string, also byte) bool {
	if s == "" || len(s) > 63 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != also {
			return false
		}
	}
	return true
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func sorted(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
