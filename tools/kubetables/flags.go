package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

type oneFlag struct {
	takes              string // the type of its value: bool, int, duration, ip, …; "" for any text
	hidden, deprecated bool
	field              string // the field that it sets
	says               string // why it is deprecated
}

// oneLine replaces the characters that a text in the table cannot have.
var oneLine = strings.NewReplacer(";", ",", "\n", " ", "\t", " ")

func (f *oneFlag) state() string {
	s := cmp.Or(f.takes, "value")
	if f.field != "" && s != "bool" && s != "ip" {
		s = "value" // it has the type of its field
	}
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
		s += " |" + oneLine.Replace(f.says)
	}

	return s
}

type flagSet map[string]*oneFlag

const (
	optionsPackage     = "k8s.io/kubernetes/cmd/kubelet/app/options"
	sourcesPackage     = "k8s.io/kubernetes/pkg/kubelet/config"
	logsPackage        = "k8s.io/component-base/logs"
	logsOptionsPackage = "k8s.io/component-base/logs/api/v1"

	belowLogging = "Logging."
)

// flags reads the flags that the kubelet registers. Those of its configuration are deprecated, except a few that the
// source names.
func (s *source) flags() error {
	all := flagSet{"version": {takes: "bool"}, "help": {takes: "bool"}, "h": {takes: "bool"}}
	config, klogs := flagSet{}, flagSet{}
	s.scan(all, optionsPackage, "", "none.")
	s.scan(all, sourcesPackage, "", "none.")
	s.scan(config, optionsPackage, "AddKubeletConfigFlags", "")
	s.scan(config, logsPackage, "", belowLogging)
	s.scan(config, logsOptionsPackage, "", belowLogging)
	s.scan(klogs, klog, "InitFlags", "none.")

	// Up to 1.25 the kubelet had klog's flags. From 1.23 on they are deprecated, except the three that it still has.
	klogs["log-flush-frequency"] = &oneFlag{}
	for name, f := range klogs {
		if s.minor() >= 23 && !slices.Contains([]string{"v", "vmodule", "log-flush-frequency"}, name) {
			f.deprecated = true
			f.says = "klog's, removed in 1.26"
		}
	}
	if s.minor() <= 25 {
		maps.Copy(all, klogs)
	}

	kept := s.notDeprecated()
	for name, f := range config {
		f.deprecated = f.deprecated || !slices.Contains(kept, name)
	}
	maps.Copy(all, config)
	for name, f := range all {
		s.states["flag\t"+name] = f.state()
	}
	if len(all) < 100 || len(config) == 0 {
		return fmt.Errorf("only %d flags were found", len(all))
	}

	return nil
}

// notDeprecated returns the keys of the map of that name in AddKubeletConfigFlags.
func (s *source) notDeprecated() (names []string) {
	p := s.inspect(optionsPackage)
	for assign := range inspector.All[*ast.AssignStmt](p.nodes) {
		if last(assign.Lhs[0]) != "notDeprecated" {
			continue
		}
		for _, e := range assign.Rhs[0].(*ast.CompositeLit).Elts {
			name, _ := p.text(e.(*ast.KeyValueExpr).Key)
			names = append(names, name)
		}
	}

	return names
}

// registers matches the methods of a flag set that add a flag: the type, if it is not a text; Var if a variable comes
// first, P if a shorthand follows the name.
var registers = regexp.MustCompile(
	`\.(?:String|StringSlice|StringArray|IPNet|Count|(Bool|U?[Ii]nt(?:32|64)?|Float(?:32|64)|Duration|IP))?` +
		`(Var)?(?:PF?)?$`,
)

// cadvisorTypes has the types of cadvisor's flags, whose source is not read; "" is a text.
var cadvisorTypes = map[string]string{
	"application-metrics-count-limit": "int",
	"docker-only":                     "bool",
	"docker-tls":                      "bool",
	"enable-load-reader":              "bool",
	"global-housekeeping-interval":    "duration",
	"housekeeping-interval":           "duration",
	"log-cadvisor-usage":              "bool",
	"storage-driver-buffer-duration":  "duration",
	"storage-driver-secure":           "bool",
}

// scan adds the flags that a function of a package registers, or all functions if the name is "". Their fields are
// below parent.
func (s *source) scan(set flagSet, path, name, parent string) {
	p := s.inspect(path)
	nodes := p.nodes.PreorderSeq()
	if name != "" {
		nodes = ast.Preorder(p.find("", name))
	}
	for n := range nodes {
		if call, isCall := n.(*ast.CallExpr); isCall {
			p.scanCall(set, call, parent)
		}
	}
}

// scanCall adds the flag that a call registers, or marks it.
func (p *pkg) scanCall(set flagSet, call *ast.CallExpr, parent string) {
	var args [3]string
	for i := range min(len(call.Args), len(args)) {
		text, _ := p.text(call.Args[i])
		args[i] = strings.ReplaceAll(text, "_", "-")
	}

	f := cmp.Or(set[args[0]], &oneFlag{})
	switch name := last(call.Fun); name {
	case "register", "pflagRegister", "registerDeprecated":
		if args[2] != "" {
			set[args[2]] = &oneFlag{
				takes:      cadvisorTypes[args[2]],
				deprecated: name == "registerDeprecated",
			}
		}
	case "MarkDeprecated":
		f.deprecated = true
		f.says, _ = p.text(call.Args[1])
	case "MarkHidden":
		f.hidden = true
	default:
		match := registers.FindStringSubmatch(types.ExprString(call.Fun))
		if match == nil {
			return
		}
		at := len(match[2]) / len("Var")
		if args[at] == "" || len(call.Args) <= at+1 {
			return
		}
		added := &oneFlag{takes: strings.ToLower(match[1])}
		if at == 1 {
			added.field = p.src.path(parent, call.Args[0])
		}
		if strings.Contains(types.ExprString(call.Args[0]), "IPVar{") {
			added.takes = "ip"
		}
		if parent != belowLogging || added.field != "" { // the others are for programs without a configuration
			set[args[at]] = added
		}
	}
}
