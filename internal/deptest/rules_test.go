package deptest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// module is the prefix of the import paths of this module.
const module = "github.com/prelet/prelet/"

// Rule forbids a set of packages to import another set, directly or through other packages.
type Rule struct {
	Packages []string // patterns of packages, relative to the module
	Except   []string // patterns of packages that are exempt
	// Patterns of import paths; "!std" is everything outside the standard library and the package itself.
	Forbidden []string
	Allowed   []string // patterns that "!std" does not forbid
	Direct    bool     // only direct imports count
	Reason    string
}

// readRules returns the rules of a file of testdata; rules.txt describes the form.
func readRules(t *testing.T, file string) (rules []Rule) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	groups := map[string][]string{}
	for block := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n   ", " "), "\n\n") {
		var r Rule
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			var words []string
			for word := range strings.FieldsSeq(value) {
				if group, isGroup := groups[word]; isGroup {
					words = append(words, group...)
				} else {
					words = append(words, fullPath(word))
				}
			}
			switch key {
			case "#":
			case "group":
				groups["$"+words[0]] = words[1:]
			case "packages":
				r.Packages = words
			case "except":
				r.Except = words
			case "reach", "import":
				r.Forbidden, r.Direct = words, key == "import"
			case "allowed":
				r.Allowed = words
			case "reason":
				r.Reason = strings.Join(strings.Fields(value), " ")
			default:
				t.Fatalf("%s: got a line %q, want one of packages, except, reach, import, allowed, reason", file, line)
			}
		}
		if r.Packages != nil {
			rules = append(rules, r)
		}
	}

	return rules
}

// fullPath returns an import path for one where ~ is this module.
func fullPath(path string) string {
	if inside, isOurs := strings.CutPrefix(path, "~"); isOurs {
		return module + inside
	}

	return path
}

// Check returns one message for each package of the graph that breaks the rule, with the chain of imports.
func (r Rule) Check(g Graph) []string {
	var broken []string
	for _, pattern := range r.Packages {
		for _, p := range g.Match(module + pattern) {
			if r.excepts(p.ImportPath) {
				continue
			}
			for _, forbidden := range r.Forbidden {
				chain := g.Chain(p.ImportPath, r.target(forbidden, module+pattern, p))
				if chain != nil {
					broken = append(broken, r.describe(p, forbidden, chain))
				}
			}
		}
	}

	return broken
}

// describe returns the message for a package that reaches a forbidden one through chain.
func (r Rule) describe(p *Package, forbidden string, chain []string) string {
	name := strings.TrimPrefix(p.ImportPath, module)
	path := strings.Join(chain, "\n        → ")

	return fmt.Sprintf("%s must not %s %s: %s\n  it does: %s", name, r.verb(), forbidden, r.Reason, path)
}

func (r Rule) excepts(path string) bool {
	for _, e := range r.Except {
		if Matches(module+e, path) {
			return true
		}
	}
	return false
}

func (r Rule) verb() string {
	if r.Direct {
		return "import"
	}
	return "reach"
}

// target turns a forbidden pattern into the question that Chain asks of every package on its way from one in package.
func (r Rule) target(forbidden, pattern string, from *Package) func(*Package) bool {
	return func(p *Package) bool {
		switch {
		case r.Direct && !slices.Contains(from.Imports, p.ImportPath):
			return false
		case forbidden == "!std":
			return !p.Standard && !Matches(pattern, p.ImportPath) &&
				!slices.ContainsFunc(
					r.Allowed,
					func(a string) bool { return Matches(a, p.ImportPath) },
				)
		}
		return Matches(forbidden, p.ImportPath)
	}
}
