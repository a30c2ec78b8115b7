package deptest

import (
	"os"
	"strings"
	"testing"
)

// toy builds a graph from lines "a: b c": package a of this module imports b and c. A package without a line of its
// own is in the standard library if its first element has no dot, and a library otherwise.
func toy(lines ...string) Graph {
	g := Graph{}
	for _, line := range lines {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), ":")
		p := &Package{ImportPath: fullPath(path)}
		if strings.HasPrefix(path, "~") {
			p.Module = &Module{Path: strings.TrimSuffix(module, "/"), Main: true}
		}
		for _, i := range strings.Fields(imports) {
			p.Imports = append(p.Imports, fullPath(i))
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

// readToys returns the modules of a file by their names, each with a part of its only message; "" for none.
func readToys(t *testing.T, file string) map[string]toyModule {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	toys := map[string]toyModule{}
	for _, block := range strings.Split(string(text), "\n\n")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		lines, want, found := strings.Cut(rest, "\n  =")
		if _, exists := toys[name]; exists || !found {
			t.Fatalf("%s: %s: got a second one, or one without =", file, name)
		}
		want = strings.ReplaceAll(strings.TrimSpace(want), `\n`, "\n")
		toys[name] = toyModule{toy(strings.Split(lines, "\n")...), want}
	}

	return toys
}

type toyModule struct {
	graph Graph
	want  string
}

// TestRulesBite breaks each rule once, to find a rule that matches no package.
func TestRulesBite(t *testing.T) {
	all := readRules(t, "testdata/rules.txt")
	for name, toy := range readToys(t, "testdata/toys.txt") {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range all {
				got = append(got, r.Check(toy.graph)...)
			}
			one(t, got, toy.want)
		})
	}
}

func TestPluginRulesBite(t *testing.T) {
	g := toy("~plugins/sdk: ~internal/model/value", "~internal/model/value:")
	one(t, readRules(t, "testdata/plugin-rules.txt")[0].Check(g), "plugins/sdk must not reach")
}

func TestOrderBites(t *testing.T) {
	groups := readGroups(t, root(t))
	for name, toy := range readToys(t, "testdata/order-toys.txt") {
		t.Run(name, func(t *testing.T) { one(t, CheckOrder(toy.graph, groups), toy.want) })
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
