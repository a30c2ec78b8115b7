package main

import (
	"go/ast"
	"slices"
	"strings"
)

// logBinder returns the function that adds the flags of LoggingConfiguration.
func logBinder(fn *ast.FuncDecl) (name string, isFound bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || len(call.Args) != 2 {
			return true
		}
		u, isPointer := call.Args[0].(*ast.UnaryExpr)
		isFlags := strings.Contains(last(call.Fun), "Flags")
		if isPointer && isFlags && last(u.X) == "Logging" {
			name = last(call.Fun)
			isFound = true
		}

		return true
	})
	return name, isFound
}

// bindLogFlags reads that function in its package: k8s.io/component-base/logs, later logs/api/v1.
func (s *source) bindLogFlags(fs flagSet, name string, fields *structure) error {
	for _, path := range []string{"k8s.io/component-base/logs/api/v1", "k8s.io/component-base/logs"} {
		p, err := s.load(path)
		if err != nil {
			return err
		}
		if p == nil || p.funcs[name] == nil {
			continue
		}
		at := func(e ast.Expr) string {
			return fields.jsonPathFrom("logging", fields.logging, e)
		}
		fs.scan(p, p.funcs[name].Body, at)
		if inner := p.funcs["addFlags"]; inner != nil && name == "AddFlags" {
			fs.scan(p, inner.Body, at)
		}
		return nil
	}
	return nil
}

// logFlags adds klog's flags, which the kubelet had up to 1.25. From 1.23 on they are deprecated, except the three
// that it still has.
func (s *source) logFlags(fs flagSet) error {
	if s.minor() > 25 {
		return nil
	}
	p, err := s.load("k8s.io/klog/v2")
	if err != nil {
		return err
	}
	own := flagSet{}
	own.scan(p, p.funcs["InitFlags"].Body, nil)
	own["log-flush-frequency"] = &oneFlag{}
	kept := []string{"v", "vmodule", "log-flush-frequency"}
	for name, f := range own {
		f.isBool = klogBool(name)
		if s.minor() >= 23 && !slices.Contains(kept, name) {
			f.deprecated = true
			f.says = "klog's, removed in 1.26"
		}
		fs[name] = f
	}
	return nil
}

// klogBool reports whether a flag of klog is boolean. klog registers some of them as values.
func klogBool(name string) bool {
	switch name {
	case "add-dir-header",
		"alsologtostderr",
		"logtostderr",
		"one-output",
		"skip-headers",
		"skip-log-headers":
		return true
	}
	return false
}
