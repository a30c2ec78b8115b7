package deptest

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// root returns the folder of this module. It also looks into every folder of it, because `go test` remembers a result
// until something that the test process itself has opened changes, and does not see what `go list` opens.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: got error %v, want none", err)
	}
	dir := strings.TrimSpace(string(out))
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir &&
			(strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed after it was listed, such as an editor's temporary file
		}
		return err
	})
	must(t, err)
	return dir
}

// loadModule loads this module, and fails the test when a package cannot be listed: its imports would be incomplete.
func loadModule(t *testing.T, dir string) Graph {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	g, err := Load(ctx, dir, "./...")
	must(t, err)
	for _, p := range g.Own() {
		if p.Error != nil {
			t.Errorf("list %s: got error %s, want none: its rules cannot be checked", p.ImportPath, p.Error.Err)
		}
	}
	return g
}

func TestModule(t *testing.T) {
	dir := root(t)
	g, groups := loadModule(t, dir), readGroups(t, dir)

	t.Run("every row is there", func(t *testing.T) {
		for _, folder := range slices.Concat(groups...) {
			if len(g.Match(module+folder+"/...")) == 0 {
				t.Errorf("%s: got no such package, want one: docs/develop/architecture.md names it", folder)
			}
		}
	})
	t.Run("reach", func(t *testing.T) {
		for _, r := range readRules(t, "testdata/rules.txt") {
			report(t, r.Check(g))
		}
	})
	t.Run("libraries", func(t *testing.T) { report(t, CheckLibraries(g)) })
	t.Run("order", func(t *testing.T) { report(t, CheckOrder(g, groups)) })
}

// TestOneFileReadsSites checks that internal/plan/lang/os.go alone reads files in a package that otherwise gets an fs.FS:
// the rules name packages.
func TestOneFileReadsSites(t *testing.T) {
	folder := filepath.Join(root(t), "internal/plan/lang")
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files and error %v in %s, want some", len(files), err, folder)
	}

	for _, path := range files {
		name := filepath.Base(path)
		if name == "os.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		must(t, err)
		for _, i := range file.Imports {
			if i.Path.Value == `"os"` {
				t.Errorf("%s imports os, want only os.go to read files: the rest of the package gets an fs.FS", name)
			}
		}
	}
}

func TestPlugins(t *testing.T) {
	dir := filepath.Join(root(t), "plugins")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); os.IsNotExist(err) {
		t.Log("plugins/ is not written yet, its rules are not checked")
		return
	}
	g := loadModule(t, dir)
	for _, r := range readRules(t, "testdata/plugin-rules.txt") {
		report(t, r.Check(g))
	}
}

// TestLibraries checks that the libraries that the pure packages use import neither net nor os/exec, also through other
// packages. If an upgrade of a library changes that, it names the library.
func TestLibraries(t *testing.T) {
	libraries := strings.Fields(`
		github.com/hashicorp/hcl/v2/hclsyntax github.com/hashicorp/hcl/v2/hclwrite
		github.com/hashicorp/hcl/v2/ext/typeexpr github.com/zclconf/go-cty/cty/function/stdlib
		github.com/zclconf/go-cty/cty/json github.com/zclconf/go-cty-yaml sigs.k8s.io/yaml
		k8s.io/apimachinery/pkg/api/validate/content k8s.io/apimachinery/pkg/api/resource
		github.com/hashicorp/go-version github.com/agext/levenshtein
	`)
	g, err := Load(t.Context(), root(t), libraries...)
	must(t, err)
	for _, library := range libraries {
		if g[library] == nil {
			t.Errorf("%s: got no such package, want one", library)
		}
		for _, forbidden := range []string{"net", "os/exec"} {
			chain := g.Chain(library, func(p *Package) bool { return p.ImportPath == forbidden })
			if chain != nil {
				t.Errorf("%s reaches %s by %s; want that it does not", library, forbidden, strings.Join(chain, " → "))
			}
		}
	}
}

func report(t *testing.T, broken []string) {
	t.Helper()
	for _, b := range broken {
		t.Error(b)
	}
}
