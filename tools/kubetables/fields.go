package main

import (
	"fmt"
	"go/ast"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const configPackage = "k8s.io/kubelet/config/v1beta1"

// structure is KubeletConfiguration as documents have it.
type structure struct {
	src     *source
	list    map[string]*field // by path: authentication.webhook.enabled, reservedMemory[].limits
	root    *object
	logging *object
}

type field struct {
	kind   string   // as internal/kubelet/known names types
	words  []string // the only ones that are allowed; none: any
	preset string   // what the kubelet takes where the field is missing
}

// object is a struct: its members by their name in Go.
type object struct{ members map[string]member }

type member struct {
	json string
	obj  *object // nil: no struct
}

func (s *source) fields() (*structure, error) {
	p, err := s.load(configPackage)
	if err != nil {
		return nil, err
	}
	st := &structure{src: s, list: map[string]*field{}}
	if st.root, err = st.object(p, "KubeletConfiguration", ""); err != nil {
		return nil, err
	}
	st.logging = st.root.members["Logging"].obj
	if err := st.defaults(); err != nil {
		return nil, err
	}
	return st, nil
}

func (st *structure) states() map[string]string {
	out := map[string]string{}
	for path, f := range st.list {
		s := f.kind
		if f.preset != "" {
			s += " =" + f.preset
		}
		if len(f.words) > 0 {
			s += " {" + strings.Join(f.words, ",") + "}"
		}
		out[path] = s
	}
	return out
}

// object reads a struct and adds its fields below at.
func (st *structure) object(p *pkg, name, at string) (*object, error) {
	t, ok := p.types[name].(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("%s is no struct", name)
	}
	o := &object{map[string]member{}}
	f := p.fileOf(name)
	for _, m := range t.Fields.List {
		tag := ""
		if m.Tag != nil {
			raw, err := strconv.Unquote(m.Tag.Value)
			if err != nil {
				return nil, err
			}
			tag = reflect.StructTag(raw).Get("json")
		}
		json, options, _ := strings.Cut(tag, ",")
		// Up to 1.36 an embedded type says so, from 1.37 on it has no name.
		if len(m.Names) == 0 && (json == "" || strings.Contains(options, "inline")) {
			if last(m.Type) == "TypeMeta" {
				st.list["apiVersion"], st.list["kind"] = &field{kind: "string"}, &field{kind: "string"}
				continue
			}
			inner, err := st.object(p, last(m.Type), at)
			if err != nil {
				return nil, err
			}
			maps.Copy(o.members, inner.members)
			continue
		}
		if json == "" || json == "-" || len(m.Names) != 1 {
			return nil, fmt.Errorf("%s has a member without a name in JSON", name)
		}
		path := json
		if at != "" {
			path = at + "." + json
		}
		child, err := st.add(p, f, m.Type, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		o.members[m.Names[0].Name] = member{json, child}
	}
	return o, nil
}

func (p *pkg) fileOf(name string) *ast.File {
	for _, f := range p.files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
						return f
					}
				}
			}
		}
	}
	return nil
}

// add adds one field of a type, and what is below it.
func (st *structure) add(p *pkg, f *ast.File, t ast.Expr, path string) (*object, error) {
	put := func(kind string) { st.list[path] = &field{kind: kind} }
	switch t := t.(type) {
	case *ast.StarExpr:
		return st.add(p, f, t.X, path)
	case *ast.Ident:
		return st.named(p, t.Name, path)
	case *ast.SelectorExpr:
		return st.foreign(f, t, path)
	case *ast.MapType:
		switch last(t.Value) {
		case "string":
			put("strings")
		case "bool":
			put("bools")
		default:
			if a, ok := t.Value.(*ast.ArrayType); ok && last(a.Elt) == "string" {
				put("stringlists")
				return nil, nil
			}
			return nil, fmt.Errorf("a map of an unknown type")
		}
		return nil, nil
	case *ast.ArrayType:
		switch name := last(t.Elt); name {
		case "string":
			put("stringlist")
			return nil, nil
		case "int32":
			put("intlist")
			return nil, nil
		case "Taint":
			put("objectlist")
			for _, m := range []string{"key", "value", "effect", "timeAdded"} { // k8s.io/api core/v1
				st.list[path+"[]."+m] = &field{kind: "string"}
			}
			return nil, nil
		default:
			put("objectlist")
			_, err := st.object(p, name, path+"[]")
			return nil, err
		}
	}
	return nil, fmt.Errorf("a field of an unknown type %T", t)
}

// named is a field of a basic type, or of a type of the same package.
func (st *structure) named(p *pkg, name, path string) (*object, error) {
	put := func(kind string) (*object, error) { st.list[path] = &field{kind: kind}; return nil, nil }
	switch name {
	case "string", "bool", "int32", "int64", "uint32":
		return put(name)
	case "float64":
		return put("number")
	case "int":
		return put("int64")
	case "TimeOrMetaDuration":
		return put("durationorint")
	}
	switch t := p.types[name].(type) {
	case *ast.StructType:
		st.list[path] = &field{kind: "object"}
		return st.object(p, name, path)
	case nil:
		return nil, fmt.Errorf("the type %s is unknown", name)
	default:
		o, err := st.add(p, p.fileOf(name), t, path)
		if err == nil && st.list[path] != nil && st.list[path].kind == "string" {
			st.list[path].words = p.words(name)
		}
		return o, err
	}
}

// words are the constants of a named string type.
func (p *pkg) words(name string) []string {
	var out []string
	for _, f := range p.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok || last(v.Type) != name {
					continue
				}
				for _, e := range v.Values {
					if w, ok := p.text(e); ok {
						out = append(out, w)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// foreign is a field of a type of another package.
func (st *structure) foreign(f *ast.File, t *ast.SelectorExpr, path string) (*object, error) {
	kinds := map[string]string{"Duration": "duration", "QuantityValue": "quantity", "Quantity": "quantity", "ResourceList": "quantities"}
	if last(t.X) == "time" { // nanoseconds
		st.list[path] = &field{kind: "int64"}
		return nil, nil
	}
	if k := kinds[t.Sel.Name]; k != "" {
		st.list[path] = &field{kind: k}
		return nil, nil
	}
	where := imported(f, last(t.X))
	p, err := st.src.load(where)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("%s cannot be found", where)
	}
	return st.named(p, t.Sel.Name, path)
}

// jsonPath is the path of a field that an expression such as &c.Authentication.Webhook.CacheTTL.Duration names; "" if it
// names none.
func (st *structure) jsonPath(e ast.Expr) string { return st.jsonPathFrom("", st.root, e) }

func (st *structure) jsonPathFrom(at string, o *object, e ast.Expr) string {
	var names []string
	ast.Inspect(e, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		var chain []string
		var x ast.Expr = sel
		for {
			s, ok := x.(*ast.SelectorExpr)
			if !ok {
				break
			}
			chain = append([]string{s.Sel.Name}, chain...)
			x = s.X
		}
		if id, ok := x.(*ast.Ident); ok && (id.Name == "c" || id.Name == "obj") && names == nil {
			names = chain
		}
		return false
	})
	path := at
	for _, n := range names {
		if o == nil {
			break // .Duration of a duration
		}
		m, ok := o.members[n]
		if !ok {
			return ""
		}
		if path != "" {
			path += "."
		}
		path += m.json
		o = m.obj
	}
	if len(names) == 0 {
		return ""
	}
	return path
}
