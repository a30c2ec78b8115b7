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
			toy("~internal/boot: example.com/lib", "example.com/lib: net"),
			"example.com/lib\n        → net",
		},
		{"a stage starts a program", toy("~stages/label: os/exec"), "stages/label must not reach os/exec"},
		{
			"a package below a pure one",
			toy("~internal/node/taint: net/http"),
			"internal/node/taint must not reach net/http",
		},
		{"an evaluator dials", toy("~internal/lang/eval: net"), "internal/lang/eval must not reach net"},
		{"live reaches net, which is what it is for", toy("~internal/probe: net os/exec"), ""},
		{
			"a recording's format by a library",
			toy("~internal/world: github.com/x/y"),
			"internal/world must not reach !std",
		},
		{"a recording's failures are codes", toy("~internal/world: ~internal/fault", "~internal/fault: embed"), ""},
		{
			"a recording's format by fault's library",
			toy("~internal/fault: github.com/x/y"),
			"internal/fault must not reach !std",
		},
		{
			"a recording's format by a package of its own",
			toy("~internal/world: ~internal/world/wire encoding/json", "~internal/world/wire: io"),
			"",
		},
		{
			"explain imports probe",
			toy("~internal/insight/explain: ~internal/probe", "~internal/probe:"),
			"internal/insight/explain must not reach",
		},
		{
			"generation imports the kubelet package",
			toy("~internal/commit/generation: ~internal/kubelet", "~internal/kubelet:"),
			"internal/commit/generation must not reach",
		},
		{
			"activation imports hardware",
			toy("~internal/commit/activation: ~internal/probe/hardware", "~internal/probe/hardware:"),
			"internal/commit/activation must not import",
		},
		{
			"activation reaches hardware through probe",
			toy("~internal/commit/activation: ~internal/probe", "~internal/probe: ~internal/probe/hardware", "~internal/probe/hardware:"),
			"",
		},
		{"app connects a command to systemd", toy("~internal/app: ~internal/platform/systemd", "~internal/platform/systemd:"), ""},
		{
			"app imports hardware",
			toy("~internal/app: ~internal/probe/hardware", "~internal/probe/hardware:"),
			"internal/app must not import",
		},
		{
			"commit imports systemd",
			toy("~internal/commit: ~internal/platform/systemd", "~internal/platform/systemd:"),
			"internal/commit must not import",
		},
		{
			"probe imports ghw",
			toy("~internal/probe: github.com/jaypipes/ghw"),
			"internal/probe must not import github.com/jaypipes/...",
		},
		{
			"hardware starts a program itself",
			toy("~internal/probe/hardware: os/exec"),
			"internal/probe/hardware must not import os/exec",
		},
		{
			"ghw could start one",
			toy("~internal/probe/hardware: github.com/jaypipes/ghw", "github.com/jaypipes/ghw: os/exec"),
			"",
		},
		{
			"gRPC in the root process",
			toy("~cmd/prelet: google.golang.org/grpc"),
			"cmd/prelet must not import google.golang.org/grpc",
		},
		{
			"gRPC in the host of detectors",
			toy("~internal/detector: google.golang.org/grpc"),
			"internal/detector must not import google.golang.org/grpc",
		},
		{
			"gRPC to the container runtime",
			toy(
				"~cmd/prelet: ~internal/app",
				"~internal/app: ~internal/probe",
				"~internal/probe: ~internal/probe/cri",
				"~internal/probe/cri: google.golang.org/grpc",
			),
			"",
		},
		{
			"templates of the standard library",
			toy("~internal/printer: text/template"),
			"internal/printer must not import text/template",
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
				"~cmd/prelet: ~internal/app",
				"~internal/app: ~internal/probe",
				"~internal/probe: ~internal/probe/cluster",
				"~internal/probe/cluster: k8s.io/client-go/kubernetes/typed/core/v1",
			),
			"k8s.io/client-go/kubernetes/...",
		},
		{
			"client-go where it belongs",
			toy(
				"~cmd/prelet: ~internal/app",
				"~internal/app: ~internal/probe",
				"~internal/probe: ~internal/probe/cluster",
				"~internal/probe/cluster: k8s.io/client-go/rest",
			),
			"",
		},
		{
			"client-go in another package",
			toy("~internal/probe: k8s.io/client-go/rest"),
			"internal/probe must not import k8s.io/client-go/rest/...",
		},
		{
			"the kubelet's structs",
			toy("~cmd/prelet: ~internal/app", "~internal/app: k8s.io/kubelet/config/v1beta1"),
			"cmd/prelet must not reach k8s.io/kubelet",
		},
		{"a stage reads a file", toy("~stages/label: os"), "stages/label must not import os"},
		{"a file of the site is read", toy("~internal/lang: os"), ""},
		{"a plan with a random number", toy("~internal/node: math/rand/v2"), "internal/node must not import math/rand/..."},
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
	g := toy("~plugins/sdk: ~internal/value", "~internal/value:")
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
				"~cmd/prelet: ~internal/boot",
				"~internal/boot: ~stages",
				"~stages: ~schema",
				"~schema: ~internal/value",
				"~internal/value:",
			),
			"",
		},
		{
			"up",
			toy("~internal/node: ~internal/boot", "~internal/boot:"),
			"internal/node imports internal/boot, which is in a higher group",
		},
		{
			"up from a package of a group",
			toy("~internal/kubelet/rules: ~internal/node", "~internal/node:"),
			"internal/kubelet/rules imports internal/node, which is in a higher group",
		},
		{
			"within the group",
			toy("~internal/detector: ~internal/detector/wire", "~internal/detector/wire:"),
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
		{"without a place", toy("~internal/attic:"), "internal/attic is in no group"},
		{"from apart", toy("~bench/floor: ~internal/demo", "~internal/demo: ~internal/probe", "~internal/probe:"), ""},
		{
			"to apart",
			toy("~internal/probe: ~internal/demo", "~internal/demo:"),
			"internal/probe imports internal/demo, which is in no group",
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
			"~cmd/prelet: ~internal/probe", "~internal/probe:" + imports["cmd/prelet"],
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
