package deptest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// notYetWritten are the rooms that the design names and that have no code yet. Each leaves this list in the commit
// that brings its first package: the test says so.
var notYetWritten = []string{}

// root returns the folder of this module. It also looks into every folder of it, because `go test` remembers a result
// until something that the test process itself has opened changes, and does not see what `go list` opens.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	dir := strings.TrimSpace(string(out))
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone between the listing and the look: an editor's file
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// house loads this module, and fails the test when a package cannot be listed: its imports would be incomplete.
func house(t *testing.T, dir string) Graph {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := Load(ctx, dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range g.Own() {
		if p.Error != nil {
			t.Errorf("%s cannot be listed, so its rules cannot be checked: %s", p.ImportPath, p.Error.Err)
		}
	}
	return g
}

func TestHouse(t *testing.T) {
	g := house(t, root(t))

	t.Run("every room is there", func(t *testing.T) {
		rooms := []string{"cmd/prelet"}
		for _, row := range order()[1:] {
			rooms = append(rooms, row...)
		}
		for _, room := range rooms {
			exists := len(g.Match(module+room)) > 0
			switch waived := slices.Contains(notYetWritten, room); {
			case !exists && !waived:
				t.Errorf("%s: no such package; a rule about it would hold of nothing", room)
			case !exists:
				t.Logf("%s is not written yet, its rules are not checked", room)
			case waived:
				t.Logf("%s is written: take it off notYetWritten", room)
			}
		}
	})
	t.Run("reach", func(t *testing.T) {
		for _, r := range slices.Concat(rules(), siblings(types())) {
			report(t, r.Check(g))
		}
	})
	t.Run("libraries", func(t *testing.T) { report(t, CheckLibraries(g)) })
	t.Run("order", func(t *testing.T) { report(t, CheckOrder(g)) })
	t.Run("source", func(t *testing.T) {
		broken, err := CheckSource(g.Own())
		if err != nil {
			t.Fatal(err)
		}
		report(t, broken)
	})
	t.Run("exits", func(t *testing.T) {
		broken, err := CheckExits(g.Own())
		if err != nil {
			t.Fatal(err)
		}
		report(t, broken)
	})
}

func TestPlugins(t *testing.T) {
	dir := filepath.Join(root(t), "plugins")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); os.IsNotExist(err) {
		t.Log("plugins/ is not written yet, its rules are not checked")
		return
	}
	g := house(t, dir)
	for _, r := range pluginRules() {
		report(t, r.Check(g))
	}
	broken, err := CheckSource(g.Own())
	if err != nil {
		t.Fatal(err)
	}
	report(t, broken)
}

// TestLibraries says what the pure rooms rely on: that the libraries they are built of reach neither net nor os/exec.
// It fails on the upgrade that changes that, and names the library, before a room does.
func TestLibraries(t *testing.T) {
	libraries := []string{
		"github.com/hashicorp/hcl/v2/hclsyntax", "github.com/hashicorp/hcl/v2/hclwrite", "github.com/hashicorp/hcl/v2/json", "github.com/hashicorp/hcl/v2/ext/typeexpr",
		"github.com/zclconf/go-cty/cty/function/stdlib", "github.com/zclconf/go-cty/cty/json", "github.com/zclconf/go-cty-yaml",
		"sigs.k8s.io/yaml", "k8s.io/apimachinery/pkg/api/validate/content", "k8s.io/apimachinery/pkg/api/resource",
		"github.com/hashicorp/go-version", "github.com/agext/levenshtein",
	}
	g, err := Load(t.Context(), root(t), libraries...)
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range libraries {
		if g[library] == nil {
			t.Errorf("%s: no such package any more", library)
		}
		for _, forbidden := range []string{"net", "os/exec"} {
			chain := g.Chain(library, func(p *Package) bool { return p.ImportPath == forbidden })
			if chain != nil {
				t.Errorf("%s reaches %s: %s", library, forbidden, strings.Join(chain, " → "))
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
