package deptest

import (
	"strings"
	"testing"
)

// toy builds a graph from lines "a: b c": package a of this module imports b and c. A package without a line of its
// own is in the standard library if its first element has no dot, and a library otherwise.
func toy(lines ...string) Graph {
	g := Graph{}
	full := func(path string) string {
		if s, ours := strings.CutPrefix(path, "~"); ours {
			return module + s
		}
		return path
	}
	for _, line := range lines {
		path, imports, _ := strings.Cut(line, ":")
		p := &Package{ImportPath: full(path)}
		if strings.HasPrefix(path, "~") {
			p.Module = &Module{Path: strings.TrimSuffix(module, "/"), Main: true}
		}
		for _, i := range strings.Fields(imports) {
			p.Imports = append(p.Imports, full(i))
		}
		g[p.ImportPath] = p
	}
	for _, p := range g {
		for _, i := range p.Imports {
			if g[i] == nil {
				first, _, _ := strings.Cut(i, "/")
				g[i] = &Package{ImportPath: i, Standard: !strings.Contains(first, ".")}
			}
		}
	}
	return g
}

// TestRulesBite breaks each rule once, to find a rule that matches no package.
func TestRulesBite(t *testing.T) {
	tests := []struct {
		name  string
		graph Graph
		want  string // in the only message; "" means that nothing is broken
	}{
		{
			"a decision dials through a library",
			toy("~internal/plan/evaluate: example.com/lib", "example.com/lib: net"),
			"example.com/lib\n        → net",
		},
		{"a stage starts a program", toy("~stages/label: os/exec"), "stages/label must not reach os/exec"},
		{
			"a package below a pure one",
			toy("~internal/model/desired/taint: net/http"),
			"internal/model/desired/taint must not reach net/http",
		},
		{"an evaluator dials", toy("~internal/plan/eval: net"), "internal/plan/eval must not reach net"},
		{"probe reaches net, which is what it is for", toy("~internal/machine/probe: net os/exec"), ""},
		{
			"a recording's format by a library",
			toy("~internal/model/tape: github.com/x/y"),
			"internal/model/tape must not reach !std",
		},
		{"a recording's failures are codes", toy("~internal/model/tape: ~internal/fault", "~internal/fault: embed"), ""},
		{
			"a recording's format by fault's library",
			toy("~internal/fault: github.com/x/y"),
			"internal/fault must not reach !std",
		},
		{
			"a recording's format by a package of its own",
			toy("~internal/model/tape: ~internal/model/tape/wire encoding/json", "~internal/model/tape/wire: io"),
			"",
		},
		{
			"explain imports probe",
			toy("~internal/lab/explain: ~internal/machine/probe", "~internal/machine/probe:"),
			"internal/lab/explain must not reach",
		},
		{
			"generation imports the kubelet package",
			toy("~internal/machine/generation: ~internal/model/kubelet", "~internal/model/kubelet:"),
			"internal/machine/generation must not reach",
		},
		{
			"activation imports hardware",
			toy("~internal/machine/activation: ~internal/machine/probe/hardware", "~internal/machine/probe/hardware:"),
			"internal/machine/activation must not import",
		},
		{
			"activation reaches hardware through probe",
			toy("~internal/machine/activation: ~internal/machine/probe", "~internal/machine/probe: ~internal/machine/probe/hardware", "~internal/machine/probe/hardware:"),
			"",
		},
		{"machine connects a command to systemd", toy("~internal/machine: ~internal/platform/systemd", "~internal/platform/systemd:"), ""},
		{
			"machine imports hardware",
			toy("~internal/machine: ~internal/machine/probe/hardware", "~internal/machine/probe/hardware:"),
			"internal/machine must not import",
		},
		{
			"commit imports systemd",
			toy("~internal/machine/commit: ~internal/platform/systemd", "~internal/platform/systemd:"),
			"internal/machine/commit must not import",
		},
		{
			"probe imports ghw",
			toy("~internal/machine/probe: github.com/jaypipes/ghw"),
			"internal/machine/probe must not import github.com/jaypipes/...",
		},
		{
			"hardware starts a program itself",
			toy("~internal/machine/probe/hardware: os/exec"),
			"internal/machine/probe/hardware must not import os/exec",
		},
		{
			"ghw could start one",
			toy("~internal/machine/probe/hardware: github.com/jaypipes/ghw", "github.com/jaypipes/ghw: os/exec"),
			"",
		},
		{
			"gRPC in the root process",
			toy("~cmd/prelet: google.golang.org/grpc"),
			"cmd/prelet must not import google.golang.org/grpc",
		},
		{
			"gRPC in the host of detectors",
			toy("~internal/machine/detector: google.golang.org/grpc"),
			"internal/machine/detector must not import google.golang.org/grpc",
		},
		{
			"gRPC to the container runtime",
			toy(
				"~cmd/prelet: ~internal/machine",
				"~internal/machine: ~internal/machine/probe",
				"~internal/machine/probe: ~internal/machine/probe/cri",
				"~internal/machine/probe/cri: google.golang.org/grpc",
			),
			"",
		},
		{
			"templates of the standard library",
			toy("~internal/lab/printer: text/template"),
			"internal/lab/printer must not import text/template",
		},
		{"gRPC in the helper", toy("~cmd/prelet-detect: google.golang.org/grpc"), ""},
		{
			"gzip in the helper",
			toy("~cmd/prelet-detect: google.golang.org/grpc/encoding/gzip"),
			"cmd/prelet-detect must not reach google.golang.org/grpc/encoding/gzip",
		},
		{"gRPC in the kit", toy("~cmd/prelet-detector-check: google.golang.org/grpc"), ""},
		{
			"the full clientset",
			toy(
				"~cmd/prelet: ~internal/machine",
				"~internal/machine: ~internal/machine/probe",
				"~internal/machine/probe: ~internal/machine/probe/cluster",
				"~internal/machine/probe/cluster: k8s.io/client-go/kubernetes/typed/core/v1",
			),
			"k8s.io/client-go/kubernetes/...",
		},
		{
			"client-go where it belongs",
			toy(
				"~cmd/prelet: ~internal/machine",
				"~internal/machine: ~internal/machine/probe",
				"~internal/machine/probe: ~internal/machine/probe/cluster",
				"~internal/machine/probe/cluster: k8s.io/client-go/rest",
			),
			"",
		},
		{
			"client-go in another package",
			toy("~internal/machine/probe: k8s.io/client-go/rest"),
			"internal/machine/probe must not import k8s.io/client-go/rest/...",
		},
		{
			"the kubelet's structs",
			toy("~cmd/prelet: ~internal/machine", "~internal/machine: k8s.io/kubelet/config/v1beta1"),
			"cmd/prelet must not reach k8s.io/kubelet",
		},
		{"a stage reads a file", toy("~stages/label: os"), "stages/label must not import os"},
		{"a file of the site is read", toy("~internal/plan/lang: os"), ""},
		{"a plan with a random number", toy("~internal/model/desired: math/rand/v2"), "internal/model/desired must not import math/rand/..."},
		{"a path of this system", toy("~schema: path/filepath"), "schema must not import path/filepath"},
		{"a command starts a program", toy("~cmd/prelet: os/exec"), "cmd/prelet must not import os/exec"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, r := range rules() {
				got = append(got, r.Check(test.graph)...)
			}
			one(t, got, test.want)
		})
	}
}

func TestPluginRulesBite(t *testing.T) {
	g := toy("~plugins/sdk: ~internal/model/value", "~internal/model/value:")
	one(t, pluginRules()[0].Check(g), "plugins/sdk must not reach")
}

func TestOrderBites(t *testing.T) {
	tests := []struct {
		name  string
		graph Graph
		want  string
	}{
		{
			"down",
			toy(
				"~cmd/prelet: ~internal/plan/evaluate",
				"~internal/plan/evaluate: ~stages",
				"~stages: ~schema",
				"~schema: ~internal/model/value",
				"~internal/model/value:",
			),
			"",
		},
		{
			"up",
			toy("~internal/model/desired: ~internal/plan/evaluate", "~internal/plan/evaluate:"),
			"internal/model/desired imports internal/plan/evaluate, which is in a higher row",
		},
		{
			"up from a package of a row",
			toy("~internal/model/kubelet/rules: ~internal/model/desired", "~internal/model/desired:"),
			"internal/model/kubelet/rules imports internal/model/desired, which is in a higher row",
		},
		{
			"within the row",
			toy("~internal/machine/detector: ~internal/machine/detector/wire", "~internal/machine/detector/wire:"),
			"",
		},
		{
			"a stage imports another stage",
			toy("~stages/label: ~stages/taint", "~stages/taint:"),
			"stages/label imports stages/taint, which is another stage type",
		},
		{
			"within a stage",
			toy("~stages/label: ~stages/label/syntax", "~stages/label/syntax:"),
			"",
		},
		{
			"builtin imports all stages",
			toy("~stages/builtin: ~stages/label ~stages/sysctl", "~stages/label:", "~stages/sysctl:"),
			"",
		},
		{"without a place", toy("~internal/attic:"), "internal/attic is in no row"},
		{"from apart", toy("~bench/floor: ~internal/testing/demo", "~internal/testing/demo: ~internal/machine/probe", "~internal/machine/probe:"), ""},
		{
			"to apart",
			toy("~internal/machine/probe: ~internal/testing/demo", "~internal/testing/demo:"),
			"internal/machine/probe imports internal/testing/demo, which is in no row",
		},
	}
	groups := readGroups(t, root(t))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { one(t, CheckOrder(test.graph, groups), test.want) })
	}
}

// TestLibrariesBites drops one library after the other from programs that have them all.
func TestLibrariesBites(t *testing.T) {
	lines := func(without string) []string {
		imports := map[string]string{}
		for _, l := range libraries() {
			if l.Path != without {
				imports[l.Program] += " " + l.Path
			}
		}
		return []string{
			"~cmd/prelet: ~internal/machine/probe", "~internal/machine/probe:" + imports["cmd/prelet"],
			"~cmd/prelet-detect:" + imports["cmd/prelet-detect"],
			"~cmd/kubectl-prelet:" + imports["cmd/kubectl-prelet"],
		}
	}

	one(t, CheckLibraries(toy(lines("")...)), "")
	for _, l := range libraries() {
		t.Run(l.Path, func(t *testing.T) {
			one(t, CheckLibraries(toy(lines(l.Path)...)), l.Program+" does not contain "+l.Path+", which "+l.Does)
		})
	}
}

// one fails unless got is a single message that contains want, or nothing where want is empty.
func one(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("want no message, got:\n%s", strings.Join(got, "\n"))
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got %d messages, want one that contains %q:\n%s", len(got), want, strings.Join(got, "\n"))
	}
}
