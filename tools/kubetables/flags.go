package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"strings"
)

// oneFlag is one flag of a release.
type oneFlag struct {
	isBool, hidden, deprecated bool
	takes                      string // the type of its value: int, duration, ip, …; "" for any text
	field                      string // the field that it sets
	says                       string // why it is deprecated
}

// kind returns the kind of the value, as internal/kubelet/known reads it.
func (f *oneFlag) kind() string {
	isTyped := f.takes != "" && f.field == "" // others have the type of their field
	switch {
	case f.isBool:
		return "bool"
	case isTyped, f.takes == "ip":
		return f.takes
	}

	return "value"
}

func (f *oneFlag) state() string {
	s := f.kind()
	if f.deprecated {
		s += " deprecated"
	}
	if f.hidden && !f.deprecated { // the kubelet lists deprecated ones
		s += " hidden"
	}
	if f.field != "" {
		s += " >" + f.field
	}
	if f.says != "" {
		oneLine := strings.NewReplacer(
			";", ",",
			"\n", " ",
			"\t", " ",
		)
		s += " |" + oneLine.Replace(f.says)
	}
	return s
}

// flagSet has the flags of a release by name.
type flagSet map[string]*oneFlag

func (fs flagSet) add(name string, isBool bool) *oneFlag {
	name = canonical(name)
	if fs[name] == nil {
		fs[name] = &oneFlag{}
	}
	fs[name].isBool = isBool

	return fs[name]
}

func canonical(name string) string { return strings.ReplaceAll(name, "_", "-") }

const (
	optionsPackage = "k8s.io/kubernetes/cmd/kubelet/app/options"
	configFlags    = "AddKubeletConfigFlags"
)

// flags reads the flags that the kubelet registers. Those of its configuration are deprecated, except a few that the
// source names.
func (s *source) flags(fields *structure) (map[string]string, error) {
	p, err := s.load(optionsPackage)
	if err != nil {
		return nil, err
	}
	configFn := p.funcs[configFlags]
	if configFn == nil {
		return nil, fmt.Errorf("%s is missing", configFlags)
	}

	all := flagSet{}
	if err := s.readOtherFlags(all, p); err != nil {
		return nil, err
	}
	own, err := s.configFlags(p, configFn, fields)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, own)
	if len(all) < 100 {
		return nil, fmt.Errorf("only %d were found", len(all))
	}

	states := map[string]string{}
	for name, f := range all {
		states[name] = f.state()
	}

	return states, nil
}

// configFlags reads the flags of the configuration.
func (s *source) configFlags(p *pkg, fn *ast.FuncDecl, fields *structure) (flagSet, error) {
	own := flagSet{}
	own.scan(p, fn.Body, fields.jsonPath)
	if name, isBound := logBinder(fn); isBound {
		if err := s.bindLogFlags(own, name, fields); err != nil {
			return nil, err
		}
	}
	kept := notDeprecated(fn)
	for name, f := range own {
		f.deprecated = f.deprecated || !kept[name]
	}

	return own, nil
}

// readOtherFlags reads the flags that are not of the configuration.
func (s *source) readOtherFlags(all flagSet, options *pkg) error {
	for _, f := range options.files {
		all.scanFile(options, f)
	}

	runtime, err := s.load("k8s.io/kubernetes/pkg/kubelet/config")
	if err != nil {
		return err
	}
	if fn := runtime.funcs["AddFlags"]; fn != nil {
		all.scan(runtime, fn.Body, nil)
	}
	for _, name := range []string{"version", "help", "h"} {
		all.add(name, true)
	}

	return s.logFlags(all)
}

// scanFile adds the flags that the functions of a file register, except those of the configuration.
func (fs flagSet) scanFile(p *pkg, f *ast.File) {
	for _, d := range f.Decls {
		fn, isFunc := d.(*ast.FuncDecl)
		if isFunc && fn.Body != nil && fn.Name.Name != configFlags {
			fs.scan(p, fn.Body, nil)
		}
	}
}

// registers matches the methods of a flag set that add a flag: the type, Var if a variable comes first, P if a
// shorthand follows the name.
var registers = regexp.MustCompile(
	`^(Bool|String|StringSlice|StringArray|Int|Int32|Int64|Uint|Uint32|Uint64|Float32|Float64|` +
		`Duration|IP|IPNet|Count)?` +
		`(Var)?(P|PF)?$`,
)

// scan adds the flags that a function registers. path returns the field of a variable; nil: they have none.
func (fs flagSet) scan(p *pkg, body ast.Node, path func(ast.Expr) string) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, isCall := n.(*ast.CallExpr); isCall {
			fs.scanCall(p, call, path)
		}

		return true
	})
}

func (fs flagSet) scanCall(p *pkg, call *ast.CallExpr, path func(ast.Expr) string) {
	var args [3]string
	for i := range min(len(call.Args), len(args)) {
		args[i], _ = p.text(call.Args[i])
	}

	switch name := last(call.Fun); name {
	case "register", "pflagRegister":
		if flag := cmp.Or(args[2], cadvisorName(call)); flag != "" {
			fs.add(flag, cadvisorBool(flag)).takes = cadvisorTakes(flag)
		}
	case "registerDeprecated":
		f := fs.add(args[2], cadvisorBool(args[2]))
		f.deprecated = true
		f.takes = cadvisorTakes(args[2])
	case "MarkDeprecated":
		if f := fs[canonical(args[0])]; f != nil {
			f.deprecated = true
			f.says = args[1]
		}
	case "MarkHidden":
		if f := fs[canonical(args[0])]; f != nil {
			f.hidden = true
		}
	default:
		fs.scanMethod(call, args, path)
	}
}

// scanMethod adds the flag of a method that registers matches.
func (fs flagSet) scanMethod(call *ast.CallExpr, args [3]string, path func(ast.Expr) string) {
	kind, isVar := matchMethod(call)
	if kind == "" && !isVar {
		return
	}

	at := 0
	if isVar {
		at = 1
	}
	if args[at] == "" || len(call.Args) <= at+1 {
		return
	}
	f := fs.add(args[at], kind == "Bool")
	f.takes = takes(kind, call.Args[0])
	if isVar && path != nil {
		f.field = path(call.Args[0])
	}
}

// matchMethod returns the type in the name of a method of a flag set, and whether a variable comes first.
func matchMethod(call *ast.CallExpr) (kind string, isVar bool) {
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return "", false
	}
	match := registers.FindStringSubmatch(method.Sel.Name)
	if match == nil {
		return "", false
	}

	return match[1], match[2] == "Var"
}

// takes returns the type of a value, by the method that registers the flag or by the type of its pflag.Value.
func takes(method string, value ast.Expr) string {
	switch method {
	case "Int",
		"Int32",
		"Int64",
		"Uint",
		"Uint32",
		"Uint64",
		"Float32",
		"Float64",
		"Duration",
		"IP":
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

// cadvisorName returns the flag of a constant in cadvisor's own package, from 1.37 on: HousekeepingInterval.
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

// cadvisorTakes is takes for cadvisor's flags, whose source is not read.
func cadvisorTakes(name string) string {
	switch canonical(name) {
	case "housekeeping-interval", "global-housekeeping-interval", "storage-driver-buffer-duration":
		return "duration"
	case "application-metrics-count-limit":
		return "int"
	}
	return ""
}

// cadvisorBool reports whether a flag of cadvisor is boolean.
func cadvisorBool(name string) bool {
	switch canonical(name) {
	case "docker-only",
		"docker-tls",
		"enable-load-reader",
		"log-cadvisor-usage",
		"storage-driver-secure":
		return true
	}
	return false
}

// notDeprecated returns the keys of the map of that name.
func notDeprecated(fn *ast.FuncDecl) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || last(a.Lhs[0]) != "notDeprecated" {
			return true
		}
		set := a.Rhs[0].(*ast.CompositeLit)
		for _, e := range set.Elts {
			pair := e.(*ast.KeyValueExpr)
			name, _ := (&pkg{}).text(pair.Key)
			out[name] = true
		}
		return true
	})
	return out
}
