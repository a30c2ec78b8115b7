package main

import (
	"go/ast"
	"strings"
)

// logBinder finds the call that adds the flags of LoggingConfiguration to the kubelet's own.
func logBinder(fn *ast.FuncDecl) (name string, found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 || !strings.Contains(last(call.Fun)+"Logging", "Flags") {
			return true
		}
		if u, ok := call.Args[0].(*ast.UnaryExpr); ok && last(u.X) == "Logging" {
			name, found = last(call.Fun), true
		}
		return true
	})
	return name, found
}

// bindLogFlags reads that function in the package that it is in: k8s.io/component-base/logs, later logs/api/v1.
func (s *source) bindLogFlags(fs flagSet, name string, fields *structure) error {
	for _, path := range []string{"k8s.io/component-base/logs/api/v1", "k8s.io/component-base/logs"} {
		p, err := s.load(path)
		if err != nil {
			return err
		}
		if p == nil || p.funcs[name] == nil {
			continue
		}
		at := func(e ast.Expr) string { return fields.jsonPathFrom("logging", fields.logging, e) }
		fs.scan(p, p.funcs[name].Body, at)
		if inner := p.funcs["addFlags"]; inner != nil && name == "AddFlags" {
			fs.scan(p, inner.Body, at)
		}
		return nil
	}
	return nil
}

// logFlags adds the flags of klog that the kubelet had as its own: all of them up to 1.25, marked as deprecated from 1.23 on
// but for the three that stayed.
func (s *source) logFlags(fs flagSet) error {
	if s.minor() > 25 {
		return nil
	}
	p, err := s.load("k8s.io/klog/v2")
	if err != nil {
		return err
	}
	of := flagSet{}
	of.scan(p, p.funcs["InitFlags"].Body, nil)
	of["log-flush-frequency"] = &oneFlag{}
	for name, f := range of {
		f.isBool = klogBool(name)
		if s.minor() >= 23 && name != "v" && name != "vmodule" && name != "log-flush-frequency" {
			f.deprecated, f.says = true, "klog's, removed in 1.26"
		}
		fs[name] = f
	}
	return nil
}

// klogBool names klog's switches, some of which it registers as values that take no word.
func klogBool(name string) bool {
	switch name {
	case "add-dir-header", "alsologtostderr", "logtostderr", "one-output", "skip-headers", "skip-log-headers":
		return true
	}
	return false
}
