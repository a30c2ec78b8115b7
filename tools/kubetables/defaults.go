package main

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"time"
)

const defaultsPackage = "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"

// defaults reads SetDefaults_KubeletConfiguration: assignments to a field inside an `if` that asks whether it is empty,
// as far as their value is a constant. What depends on feature gates or on other fields is left out.
func (st *structure) defaults() error {
	p, err := st.src.load(defaultsPackage)
	if err != nil {
		return err
	}
	fn := p.funcs["SetDefaults_KubeletConfiguration"]
	if fn == nil {
		return nil
	}
	var f *ast.File
	for _, x := range p.files {
		for _, d := range x.Decls {
			if d == ast.Decl(fn) {
				f = x
			}
		}
	}
	for _, s := range fn.Body.List {
		cond, ok := s.(*ast.IfStmt)
		if !ok || cond.Else != nil || cond.Init != nil {
			continue
		}
		if b, ok := cond.Cond.(*ast.BinaryExpr); !ok || b.Op != token.EQL {
			continue
		}
		for _, inner := range cond.Body.List {
			a, ok := inner.(*ast.AssignStmt)
			if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
				continue
			}
			path := st.jsonPath(a.Lhs[0])
			if st.list[path] == nil {
				continue
			}
			if v, ok := st.constant(p, f, a.Rhs[0]); ok {
				st.list[path].preset = v
			}
		}
	}
	return nil
}

// constant evaluates what defaults are made of: literals, constants of this and other packages of Kubernetes, a pointer
// to one, and durations.
func (st *structure) constant(p *pkg, f *ast.File, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, ok := p.text(e); ok {
			return s, s != "" && !strings.ContainsAny(s, "; {=\n")
		}
		return e.Value, true
	case *ast.UnaryExpr:
		v, ok := st.constant(p, f, e.X)
		if e.Op == token.SUB {
			return "-" + v, ok
		}
		return v, ok && e.Op == token.AND
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return e.Name, true
		}
		if v := p.consts[e.Name]; v != nil {
			return st.constant(p, f, v)
		}
	case *ast.ParenExpr:
		return st.constant(p, f, e.X)
	case *ast.CallExpr: // ptr.To[int32](110), int32(x), utilpointer.Int32Ptr(5)
		if len(e.Args) == 1 && !strings.Contains(last(e.Fun), "Enabled") {
			return st.constant(p, f, e.Args[0])
		}
	case *ast.CompositeLit: // metav1.Duration{Duration: 1 * time.Minute}
		if last(e.Type) == "Duration" && len(e.Elts) == 1 {
			d, ok := duration(e.Elts[0].(*ast.KeyValueExpr).Value)
			return d.String(), ok
		}
	case *ast.SelectorExpr:
		where := imported(f, last(e.X))
		if !strings.HasPrefix(where, "k8s.io/kubernetes/") && !strings.HasPrefix(where, "k8s.io/kubelet/") {
			return "", false
		}
		q, err := st.src.load(where)
		if err != nil || q == nil {
			return "", false
		}
		if v := q.consts[e.Sel.Name]; v != nil {
			return st.constant(q, f, v)
		}
	}
	return "", false
}

func duration(e ast.Expr) (time.Duration, bool) {
	units := map[string]time.Duration{"Nanosecond": 1, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
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
