package deptest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Package has the fields of `go list -json` that the rules need.
type Package struct {
	ImportPath   string
	Name         string
	Doc          string // first sentence of the package comment
	Dir          string
	Standard     bool // of Go's standard library
	Module       *Module
	Imports      []string // direct imports, test files left out
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Error        *struct{ Err string }
}

// Module is the module that a package belongs to; nil for the standard library.
type Module struct {
	Path string
	Main bool
}

// Graph holds packages by import path, together with everything that they reach.
type Graph map[string]*Package

// Load lists the packages below dir's module that match patterns, and all that they reach.
//
// The answer is for Linux without cgo and with the tag of `make build`, whatever machine asks: that is what ships.
func Load(ctx context.Context, dir string, patterns ...string) (Graph, error) {
	args := append([]string{
		"list",
		"-e",
		"-deps",
		"-tags=grpcnotrace",
		"-json=ImportPath,Name,Doc,Dir,Standard,Module,Imports,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Error",
	}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf(
			"go %s, in %s: %w\n%s",
			strings.Join(args, " "),
			dir,
			err,
			stderr.String(),
		)
	}
	return decode(&stdout)
}

func decode(r io.Reader) (Graph, error) {
	g := Graph{}
	for d := json.NewDecoder(r); ; {
		p := new(Package)
		switch err := d.Decode(p); {
		case errors.Is(err, io.EOF):
			return g, nil
		case err != nil:
			return nil, fmt.Errorf("the answer of go list: %w", err)
		}
		g[p.ImportPath] = p
	}
}

// Own returns the packages of the main module, sorted by import path.
func (g Graph) Own() []*Package {
	return slices.SortedFunc(func(yield func(*Package) bool) {
		for p := range maps.Values(g) {
			if p.Module != nil && p.Module.Main && !yield(p) {
				return
			}
		}
	}, func(a, b *Package) int {
		return cmp.Compare(a.ImportPath, b.ImportPath)
	})
}

// Match returns the packages of the main module that pattern names: an import path, with "/..." at its end for
// everything below it as well.
func (g Graph) Match(pattern string) []*Package {
	var found []*Package
	for _, p := range g.Own() {
		if Matches(pattern, p.ImportPath) {
			found = append(found, p)
		}
	}
	return found
}

// Matches reports whether pattern names the import path. A pattern ends in "/..." for a path and all below it, and in
// "/*" for all below it.
func Matches(pattern, path string) bool {
	if folder, isEach := strings.CutSuffix(pattern, "*"); isEach {
		return strings.HasPrefix(path, folder)
	}

	root, below := strings.CutSuffix(pattern, "/...")
	return path == root || below && strings.HasPrefix(path, root+"/")
}

// Chain returns a shortest way of imports from one package to the first that target accepts, both ends included, and
// nil when there is none. The package itself is never the target.
func (g Graph) Chain(from string, target func(*Package) bool) []string {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := g[queue[0]]
		if at == nil {
			continue
		}
		if at.ImportPath != from && target(at) {
			var chain []string
			for path := at.ImportPath; path != ""; path = came[path] {
				chain = append(chain, path)
			}
			slices.Reverse(chain)
			return chain
		}
		for _, next := range slices.Sorted(slices.Values(at.Imports)) {
			if _, seen := came[next]; !seen {
				came[next] = at.ImportPath
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// Files returns the paths of the package's Go files, tests included.
func (p *Package) Files() []string {
	var files []string
	for _, list := range [][]string{p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles} {
		for _, name := range list {
			files = append(files, filepath.Join(p.Dir, name))
		}
	}
	return files
}
