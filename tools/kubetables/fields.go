package main

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const configPackage = "k8s.io/kubelet/config/v1beta1"

// structure is KubeletConfiguration with the names of its JSON.
type structure struct {
	src     *source
	list    map[string]*field // by path, like authentication.webhook.enabled or reservedMemory[].limits
	root    *object
	logging *object
}

type field struct {
	kind   string // as internal/kubelet/known names types
	preset string // the default
}

// object is a struct: its members by Go name.
type object struct{ members map[string]member }

type member struct {
	json string
	obj  *object // nil: not a struct
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
		out[path] = s
	}
	return out
}

// object reads a struct and adds its fields below a path.
func (st *structure) object(p *pkg, name, path string) (*object, error) {
	t, isStruct := p.types[name].(*ast.StructType)
	if !isStruct {
		return nil, fmt.Errorf("%s is not a struct", name)
	}
	o := &object{map[string]member{}}
	for _, m := range t.Fields.List {
		if err := st.addMember(o, p, name, m, path); err != nil {
			return nil, err
		}
	}

	return o, nil
}

// addMember adds a member of the struct of that name to an object.
func (st *structure) addMember(o *object, p *pkg, name string, m *ast.Field, path string) error {
	json, options, err := jsonTag(m)
	if err != nil {
		return err
	}
	// Up to 1.36 the tag of an embedded type has inline, from 1.37 on it has no name.
	isInline := json == "" || strings.Contains(options, "inline")
	if isInline && len(m.Names) == 0 {
		return st.embed(o, p, last(m.Type), path)
	}
	if json == "" || json == "-" || len(m.Names) != 1 {
		return fmt.Errorf("%s has a member without a name in JSON", name)
	}

	path = strings.TrimPrefix(path+"."+json, ".")
	child, err := st.add(p, p.fileOf[name], m.Type, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	o.members[m.Names[0].Name] = member{json, child}

	return nil
}

// embed adds the members of an embedded struct to an object.
func (st *structure) embed(o *object, p *pkg, name, path string) error {
	if name == "TypeMeta" {
		st.put("apiVersion", "string")
		st.put("kind", "string")

		return nil
	}
	inner, err := st.object(p, name, path)
	if err != nil {
		return err
	}
	maps.Copy(o.members, inner.members)

	return nil
}

func jsonTag(m *ast.Field) (name, options string, err error) {
	if m.Tag == nil {
		return "", "", nil
	}
	tag, err := strconv.Unquote(m.Tag.Value)
	text := reflect.StructTag(tag).Get("json")
	name, options, _ = strings.Cut(text, ",")

	return name, options, err
}

func (st *structure) put(path, kind string) {
	st.list[path] = &field{kind: kind}
}

// add adds a field and the fields below it.
func (st *structure) add(p *pkg, f *ast.File, t ast.Expr, path string) (*object, error) {
	switch t := t.(type) {
	case *ast.StarExpr:
		return st.add(p, f, t.X, path)
	case *ast.Ident:
		return st.named(p, t.Name, path)
	case *ast.SelectorExpr:
		return st.foreign(f, t, path)
	case *ast.MapType:
		return nil, st.addMap(t, path)
	case *ast.ArrayType:
		return nil, st.addList(p, last(t.Elt), path)
	}

	return nil, fmt.Errorf("a field of an unknown type %T", t)
}

func (st *structure) addMap(t *ast.MapType, path string) error {
	list, isList := t.Value.(*ast.ArrayType)
	switch {
	case last(t.Value) == "string":
		st.put(path, "strings")
	case last(t.Value) == "bool":
		st.put(path, "bools")
	case isList && last(list.Elt) == "string":
		st.put(path, "stringlists")
	default:
		return errors.New("a map of an unknown type")
	}

	return nil
}

func (st *structure) addList(p *pkg, element, path string) error {
	switch element {
	case "string":
		st.put(path, "stringlist")
	case "int32":
		st.put(path, "intlist")
	case "Taint": // k8s.io/api core/v1
		st.put(path, "objectlist")
		for _, m := range []string{"key", "value", "effect", "timeAdded"} {
			st.put(path+"[]."+m, "string")
		}
	default:
		st.put(path, "objectlist")
		_, err := st.object(p, element, path+"[]")

		return err
	}

	return nil
}

// named adds a field of a basic type, or of a type of the same package.
func (st *structure) named(p *pkg, name, path string) (*object, error) {
	kinds := map[string]string{
		"float64":            "number",
		"int":                "int64",
		"TimeOrMetaDuration": "durationorint",
	}
	for _, kind := range []string{"string", "bool", "int32", "int64", "uint32"} {
		kinds[kind] = kind
	}
	if kind := kinds[name]; kind != "" {
		st.put(path, kind)

		return nil, nil
	}

	switch t := p.types[name].(type) {
	case *ast.StructType:
		st.put(path, "object")

		return st.object(p, name, path)
	case nil:
		return nil, fmt.Errorf("the type %s is unknown", name)
	default:
		return st.add(p, p.fileOf[name], t, path)
	}
}

// foreign adds a field of a type of another package.
func (st *structure) foreign(f *ast.File, t *ast.SelectorExpr, path string) (*object, error) {
	kinds := map[string]string{
		"Duration":      "duration",
		"QuantityValue": "quantity",
		"Quantity":      "quantity",
		"ResourceList":  "quantities",
	}
	kind := kinds[t.Sel.Name]
	if last(t.X) == "time" { // nanoseconds
		kind = "int64"
	}
	if kind != "" {
		st.put(path, kind)

		return nil, nil
	}

	where := imported(f, last(t.X))
	p, err := st.src.load(where)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("%s is missing", where)
	}

	return st.named(p, t.Sel.Name, path)
}

// jsonPath returns the path of the field in an expression like &c.Authentication.Webhook.CacheTTL.Duration; "" for
// none.
func (st *structure) jsonPath(e ast.Expr) string {
	return st.jsonPathFrom("", st.root, e)
}

func (st *structure) jsonPathFrom(path string, o *object, e ast.Expr) string {
	names := selectors(e)
	if len(names) == 0 {
		return ""
	}
	for _, name := range names {
		if o == nil {
			break // .Duration of a duration
		}
		m, ok := o.members[name]
		if !ok {
			return ""
		}
		path = strings.TrimPrefix(path+"."+m.json, ".")
		o = m.obj
	}

	return path
}

// selectors returns the names of the first selector of c or obj in an expression.
func selectors(e ast.Expr) []string {
	var names []string
	ast.Inspect(e, func(n ast.Node) bool {
		sel, isSelector := n.(*ast.SelectorExpr)
		if !isSelector {
			return true
		}
		var chain []string
		var x ast.Expr = sel
		for isSelector {
			chain = append(chain, sel.Sel.Name)
			x = sel.X
			sel, isSelector = x.(*ast.SelectorExpr)
		}
		isConfig := last(x) == "c" || last(x) == "obj"
		if isConfig && names == nil {
			slices.Reverse(chain)
			names = chain
		}

		return false
	})

	return names
}
