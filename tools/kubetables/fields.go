package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"reflect"
	"regexp"
	"strings"
	"time"

	"golang.org/x/tools/go/ast/inspector"
)

const (
	configPackage   = "k8s.io/kubelet/config/v1beta1"
	defaultsPackage = "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
)

// fields reads those of KubeletConfiguration. A path is like reservedMemory[].limits.
func (s *source) fields() error {
	root := s.inspect(configPackage).Types.Scope().Lookup("KubeletConfiguration")
	if root == nil {
		return errors.New("KubeletConfiguration is missing")
	}
	if err := s.addMembers(root.Type().Underlying().(*types.Struct), "", ""); err != nil {
		return err
	}
	if err := s.defaults(); err != nil {
		return err
	}
	s.addDeprecations()

	return nil
}

// deprecatedPattern finds the sentence of a comment that says why a field is deprecated.
var deprecatedPattern = regexp.MustCompile(`(?m)^Deprecated: ([^.]*)`)

// addDeprecations adds to fields why their comments call them deprecated.
func (s *source) addDeprecations() {
	for _, path := range []string{configPackage, logsOptionsPackage} {
		for field := range inspector.All[*ast.Field](s.inspect(path).nodes) {
			why := deprecatedPattern.FindStringSubmatch(field.Doc.Text())
			if why == nil || len(field.Names) == 0 {
				continue
			}
			if name := s.members[field.Names[0].Pos()]; name != "" {
				s.states["field\t"+name] += " |" + oneLine.Replace(why[1])
			}
		}
	}
}

// addMembers adds the fields of a struct, whose own paths in JSON and Go end with a dot.
func (s *source) addMembers(st *types.Struct, path, goPath string) error {
	for i := range st.NumFields() {
		member := st.Field(i)
		tag := reflect.StructTag(st.Tag(i)).Get("json")
		name, _, _ := strings.Cut(tag, ",")
		inner, isStruct := member.Type().Underlying().(*types.Struct)

		var err error
		switch {
		case member.Embedded() && name == "" && isStruct:
			err = s.addMembers(inner, path, goPath)
		case name == "" || name == "-":
			err = fmt.Errorf("the member %s%s has no name in JSON", goPath, member.Name())
		default:
			s.members[member.Pos()] = path + name
			err = s.add(member.Type(), path+name, goPath+member.Name())
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// kinds has the types by their names in Go.
var kinds = map[string]string{
	"bool":                   "bool",
	"float64":                "number",
	"int":                    "int64",
	"int32":                  "int32",
	"int64":                  "int64",
	"string":                 "string",
	"uint32":                 "uint32",
	"[]int32":                "intlist",
	"[]string":               "stringlist",
	"map[string][]string":    "stringlists",
	"map[string]bool":        "bools",
	"map[string]string":      "strings",
	"resource.Quantity":      "quantity",
	"resource.QuantityValue": "quantity",
	"v1.Duration":            "duration",
	"v1.ResourceList":        "quantities",
	"v1.Time":                "string",
	"v1.TimeOrMetaDuration":  "durationorint",
}

// add adds a field and the fields below it.
func (s *source) add(t types.Type, path, goPath string) error {
	if pointer, isPointer := t.(*types.Pointer); isPointer {
		t = pointer.Elem()
	}
	kind := kinds[types.TypeString(t, (*types.Package).Name)]
	if kind == "" {
		kind = kinds[t.Underlying().String()]
	}
	s.paths[goPath] = path
	s.states["field\t"+path] = cmp.Or(kind, "object")
	if kind != "" {
		return nil
	}

	below := path + "."
	if list, isList := t.Underlying().(*types.Slice); isList {
		s.states["field\t"+path] = "objectlist"
		below = path + "[]."
		t = list.Elem()
	}
	members, isStruct := t.Underlying().(*types.Struct)
	if !isStruct {
		return fmt.Errorf("%s has the unknown type %s", path, t)
	}

	return s.addMembers(members, below, goPath+".")
}

// path returns the path of the field in an expression like &c.Authentication.Webhook.CacheTTL.Duration, below a field;
// "" for none.
func (s *source) path(parent string, e ast.Expr) (path string) {
	ast.Inspect(e, func(n ast.Node) bool {
		selector, isSelector := n.(*ast.SelectorExpr)
		if isSelector && path == "" {
			_, names, _ := strings.Cut(types.ExprString(selector), ".")
			names, _, _ = strings.Cut(names, ".Duration")
			path = s.paths[parent+names]
		}

		return !isSelector
	})

	return path
}

// defaults reads SetDefaults_KubeletConfiguration: assignments of constants to a field within an `if` that checks
// whether it is empty. It skips defaults that depend on feature gates or on other fields.
func (s *source) defaults() error {
	p := s.inspect(defaultsPackage)
	body := p.find("", "SetDefaults_KubeletConfiguration").List
	if body == nil {
		return errors.New("SetDefaults_KubeletConfiguration is missing")
	}
	for _, statement := range body {
		check, isIf := statement.(*ast.IfStmt)
		if !isIf || check.Init != nil || check.Else != nil {
			continue
		}
		if condition, isBinary := check.Cond.(*ast.BinaryExpr); !isBinary || condition.Op != token.EQL {
			continue
		}
		for _, inner := range check.Body.List {
			assign, isAssign := inner.(*ast.AssignStmt)
			if !isAssign {
				continue
			}
			path, value := s.path("", assign.Lhs[0]), p.valueText(assign.Rhs[0])
			if path != "" && value != "" {
				s.states["field\t"+path] += " =" + value
			}
		}
	}

	return nil
}

// valueText returns the value of a constant, of a pointer to one like ptr.To[int32](110), or of
// metav1.Duration{Duration: time.Minute}; "" for another expression, and for a text that the table cannot hold.
func (p *pkg) valueText(e ast.Expr) string {
	if c := p.TypesInfo.Types[e]; c.Value != nil {
		text := c.Value.String()
		switch {
		case c.Value.Kind() == constant.String:
			text = constant.StringVal(c.Value)
		case c.Type.String() == "time.Duration":
			n, _ := constant.Int64Val(c.Value)
			text = time.Duration(n).String()
		}
		if strings.ContainsAny(text, "; {=\n") {
			return ""
		}

		return text
	}

	switch e := e.(type) {
	case *ast.UnaryExpr:
		return p.valueText(e.X)
	case *ast.CallExpr:
		if len(e.Args) == 1 && !strings.Contains(last(e.Fun), "Enabled") {
			return p.valueText(e.Args[0])
		}
	case *ast.CompositeLit:
		if last(e.Type) == "Duration" && len(e.Elts) == 1 {
			return p.valueText(e.Elts[0].(*ast.KeyValueExpr).Value)
		}
	}

	return ""
}
