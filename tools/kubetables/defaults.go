package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"time"
)

const defaultsPackage = "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"

// defaults reads SetDefaults_KubeletConfiguration: assignments of constants to a field within an `if` that checks
// whether it is empty. It skips defaults that depend on feature gates or on other fields.
func (st *structure) defaults() error {
	p, err := st.src.load(defaultsPackage)
	if err != nil {
		return err
	}

	const name = "SetDefaults_KubeletConfiguration"
	fn := p.funcs[name]
	if fn == nil {
		return fmt.Errorf("%s is missing", name)
	}
	for _, statement := range fn.Body.List {
		st.readDefault(p, p.fileOf[name], statement)
	}

	return nil
}

func (st *structure) readDefault(p *pkg, f *ast.File, statement ast.Stmt) {
	check, isIf := statement.(*ast.IfStmt)
	if !isIf || !comparesOnly(check) {
		return
	}
	for _, inner := range check.Body.List {
		st.readAssignment(p, f, inner)
	}
}

// comparesOnly reports whether an `if` has a comparison with == as its condition, and neither an else nor a statement.
func comparesOnly(check *ast.IfStmt) bool {
	cond, isBinary := check.Cond.(*ast.BinaryExpr)
	isComparison := isBinary && cond.Op == token.EQL

	return isComparison && check.Else == nil && check.Init == nil
}

// readAssignment sets the default of a field from an assignment of a constant.
func (st *structure) readAssignment(p *pkg, f *ast.File, statement ast.Stmt) {
	assign, isAssign := statement.(*ast.AssignStmt)
	if !isAssign || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return
	}

	field := st.list[st.jsonPath(assign.Lhs[0])]
	value, isConstant := st.constant(p, f, assign.Rhs[0])
	if isConstant && field != nil {
		field.preset = value
	}
}

// constant returns the value of a literal, a constant of Kubernetes, a pointer to one, or a duration.
func (st *structure) constant(p *pkg, f *ast.File, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return p.literal(e)
	case *ast.UnaryExpr:
		return st.unary(p, f, e)
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return e.Name, true
		}
		return st.constant(p, f, p.consts[e.Name])
	case *ast.ParenExpr:
		return st.constant(p, f, e.X)
	case *ast.CallExpr:
		return st.call(p, f, e)
	case *ast.CompositeLit:
		return durationLiteral(e)
	case *ast.SelectorExpr:
		where := imported(f, last(e.X))
		return st.foreignConstant(where, e.Sel.Name, f)
	}

	return "", false
}

// literal returns a number, or a text that the table can hold.
func (p *pkg) literal(e *ast.BasicLit) (string, bool) {
	text, isText := p.text(e)
	if !isText {
		return e.Value, true
	}

	return text, text != "" && !strings.ContainsAny(text, "; {=\n")
}

// unary returns a negative number, or the value that a pointer is made of.
func (st *structure) unary(p *pkg, f *ast.File, e *ast.UnaryExpr) (string, bool) {
	v, ok := st.constant(p, f, e.X)
	if e.Op == token.SUB {
		return "-" + v, ok
	}

	return v, ok && e.Op == token.AND
}

// call returns the argument of a conversion: ptr.To[int32](110), int32(x), utilpointer.Int32Ptr(5).
func (st *structure) call(p *pkg, f *ast.File, e *ast.CallExpr) (string, bool) {
	isGate := strings.Contains(last(e.Fun), "Enabled")
	if isGate || len(e.Args) != 1 {
		return "", false
	}

	return st.constant(p, f, e.Args[0])
}

// durationLiteral returns the value of metav1.Duration{Duration: 1 * time.Minute}.
func durationLiteral(e *ast.CompositeLit) (string, bool) {
	if last(e.Type) != "Duration" || len(e.Elts) != 1 {
		return "", false
	}
	pair := e.Elts[0].(*ast.KeyValueExpr)
	d, ok := duration(pair.Value)

	return d.String(), ok
}

// foreignConstant returns the value of a constant of another package.
func (st *structure) foreignConstant(where, name string, f *ast.File) (string, bool) {
	isKubernetes := strings.HasPrefix(where, "k8s.io/kubernetes/") ||
		strings.HasPrefix(where, "k8s.io/kubelet/")
	if !isKubernetes {
		return "", false
	}
	p, err := st.src.load(where)
	if err != nil || p == nil || p.consts[name] == nil {
		return "", false
	}

	return st.constant(p, f, p.consts[name])
}

func duration(e ast.Expr) (time.Duration, bool) {
	units := map[string]time.Duration{
		"Nanosecond":  time.Nanosecond,
		"Millisecond": time.Millisecond,
		"Second":      time.Second,
		"Minute":      time.Minute,
		"Hour":        time.Hour,
	}
	switch e := e.(type) {
	case *ast.SelectorExpr:
		d, ok := units[e.Sel.Name]
		return d, ok
	case *ast.BasicLit:
		n, err := strconv.Atoi(e.Value)
		return time.Duration(n), err == nil
	case *ast.BinaryExpr:
		a, ok := duration(e.X)
		b, ok2 := duration(e.Y)
		return a * b, ok && ok2 && e.Op == token.MUL
	}
	return 0, false
}
