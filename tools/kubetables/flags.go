package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// oneFlag is one flag of a release.
type oneFlag struct {
	isBool, hidden, deprecated bool
	takes                      string // what its value is where not any text: int, duration, ip, …
	field                      string // that it sets
	says                       string
}

func (f *oneFlag) state() string {
	s := "value"
	switch {
	case f.isBool:
		s = "bool"
	case f.takes == "ip" || f.takes != "" && f.field == "": // the others are of the type of their field
		s = f.takes
	}
	if f.deprecated {
		s += " deprecated"
	}
	if f.hidden && !f.deprecated { // the kubelet shows what is deprecated
		s += " hidden"
	}
	if f.field != "" {
		s += " >" + f.field
	}
	if f.says != "" {
		s += " |" + strings.NewReplacer(";", ",", "\n", " ", "\t", " ").Replace(f.says)
	}
	return s
}

// flagSet collects the flags of a release, as the kubelet's own flag set does.
type flagSet map[string]*oneFlag

func (fs flagSet) add(name string, isBool bool) *oneFlag {
	name = strings.ReplaceAll(name, "_", "-")
	if fs[name] == nil {
		fs[name] = &oneFlag{}
	}
	fs[name].isBool = isBool
	return fs[name]
}

const (
	optionsPackage = "k8s.io/kubernetes/cmd/kubelet/app/options"
	configFlags    = "AddKubeletConfigFlags"
)

// flags reads the flags where the kubelet registers them. Those of its configuration are all deprecated, but for a few
// that are named there.
func (s *source) flags(fields *structure) (map[string]string, error) {
	p, err := s.load(optionsPackage)
	if err != nil {
		return nil, err
	}
	all := flagSet{}
	for _, f := range p.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && fn.Name.Name != configFlags {
				all.scan(p, fn.Body, nil)
			}
		}
	}
	// Registered by other packages for AddGlobalFlags and for the container runtime.
	for _, other := range []string{"k8s.io/kubernetes/pkg/kubelet/config"} {
		q, err := s.load(other)
		if err != nil {
			return nil, err
		}
		if fn := q.funcs["AddFlags"]; fn != nil {
			all.scan(q, fn.Body, nil)
		}
	}
	all.add("version", true)
	all.add("help", true)
	all.add("h", true)
	if err := s.logFlags(all); err != nil {
		return nil, err
	}
	fn := p.funcs[configFlags]
	if fn == nil {
		return nil, fmt.Errorf("there is no %s", configFlags)
	}
	of := flagSet{}
	of.scan(p, fn.Body, func(e ast.Expr) string { return fields.jsonPath(e) })
	if name, bound := logBinder(fn); bound {
		if err := s.bindLogFlags(of, name, fields); err != nil {
			return nil, err
		}
	}
	keep := notDeprecated(fn)
	for name, f := range of {
		f.deprecated = f.deprecated || !keep[name]
		all[name] = f
	}
	if len(all) < 100 {
		return nil, fmt.Errorf("only %d were found", len(all))
	}
	out := map[string]string{}
	for name, f := range all {
		out[name] = f.state()
	}
	return out, nil
}

// registers are methods of a pflag.FlagSet, and of flag.FlagSet, that make a flag: the type, Var where a variable comes
// first, P where a letter follows the name.
var registers = regexp.MustCompile(`^(Bool|String|StringSlice|StringArray|Int|Int32|Int64|Uint|Uint32|Uint64|Float32|Float64|Duration|IP|IPNet|Count)?(Var)?(P|PF)?$`)

func (fs flagSet) scan(p *pkg, body ast.Node, path func(ast.Expr) string) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		arg := func(i int) string {
			if i >= len(call.Args) {
				return ""
			}
			s, _ := p.text(call.Args[i])
			return s
		}
		name := last(call.Fun)
		switch name {
		case "register", "pflagRegister":
			if s := cmp.Or(arg(2), cadvisorName(call)); s != "" {
				fs.add(s, cadvisorBool(s)).takes = cadvisorTakes(s)
			}
			return true
		case "registerDeprecated":
			f := fs.add(arg(2), cadvisorBool(arg(2)))
			f.deprecated, f.takes = true, cadvisorTakes(arg(2))
			return true
		case "MarkDeprecated":
			if f := fs[strings.ReplaceAll(arg(0), "_", "-")]; f != nil {
				f.deprecated, f.says = true, arg(1)
			}
			return true
		case "MarkHidden":
			if f := fs[strings.ReplaceAll(arg(0), "_", "-")]; f != nil {
				f.hidden = true
			}
			return true
		}
		m := registers.FindStringSubmatch(name)
		if m == nil || m[1] == "" && m[2] == "" {
			return true
		}
		if _, method := call.Fun.(*ast.SelectorExpr); !method {
			return true
		}
		at := 0
		if m[2] == "Var" {
			at = 1
		}
		if s := arg(at); s != "" && len(call.Args) > at+1 {
			f := fs.add(s, m[1] == "Bool")
			f.takes = takes(m[1], call.Args[0])
			if path != nil && at == 1 {
				f.field = path(call.Args[0])
			}
		}
		return true
	})
}

// takes is what a value must be, by the method that registers a flag and, where that takes any pflag.Value, by its type.
func takes(method string, value ast.Expr) string {
	switch method {
	case "Int", "Int32", "Int64", "Uint", "Uint32", "Uint64", "Float32", "Float64", "Duration", "IP":
		return strings.ToLower(method)
	}
	if u, ok := value.(*ast.UnaryExpr); ok {
		value = u.X
	}
	if lit, ok := value.(*ast.CompositeLit); ok && last(lit.Type) == "IPVar" {
		return "ip"
	}
	return ""
}

// cadvisorName is the flag behind a constant of cadvisor's own package of names, from 1.37 on: HousekeepingInterval.
func cadvisorName(call *ast.CallExpr) string {
	if len(call.Args) < 3 {
		return ""
	}
	sel, ok := call.Args[2].(*ast.SelectorExpr)
	if !ok || last(sel.X) != "cadvisorflags" {
		return ""
	}
	words := regexp.MustCompile(`[A-Z][a-z]*`).FindAllString(sel.Sel.Name, -1)

	return strings.ToLower(strings.Join(words, "-"))
}

// cadvisorTakes is takes for cadvisor's flags, which are registered far away.
func cadvisorTakes(name string) string {
	switch strings.ReplaceAll(name, "_", "-") {
	case "housekeeping-interval", "global-housekeeping-interval", "storage-driver-buffer-duration":
		return "duration"
	case "application-metrics-count-limit":
		return "int"
	}
	return ""
}

// cadvisorBool names those of cadvisor's flags, which are registered far away, that are boolean.
func cadvisorBool(name string) bool {
	switch strings.ReplaceAll(name, "_", "-") {
	case "docker-only", "docker-tls", "enable-load-reader", "log-cadvisor-usage", "storage-driver-secure":
		return true
	}
	return false
}

// notDeprecated reads the map of that name.
func notDeprecated(fn *ast.FuncDecl) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || last(a.Lhs[0]) != "notDeprecated" {
			return true
		}
		for _, e := range a.Rhs[0].(*ast.CompositeLit).Elts {
			s, _ := (&pkg{}).text(e.(*ast.KeyValueExpr).Key)
			out[s] = true
		}
		return true
	})
	return out
}
