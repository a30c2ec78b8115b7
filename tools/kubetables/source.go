package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// modules are the modules of Kubernetes' staging folder with the facts of the table, or with types of those. They have
// the same minor and patch version as Kubernetes. The names of other modules have no types.
var modules = strings.Fields("kubelet component-base apiserver client-go apiextensions-apiserver component-helpers " +
	"controller-manager api apimachinery")

const (
	kubernetes = "k8s.io/kubernetes"
	// The version of these is in Kubernetes' go.mod.
	klog     = "k8s.io/klog/v2"
	cadvisor = "github.com/google/cadvisor/lib" // since 1.37
)

var modulePattern = regexp.MustCompile(`^` + cadvisor + `|^` + klog + `|^k8s\.io/[^/]*`)

// source is the source of one release.
type source struct {
	version string            // 1.36.3
	dirs    map[string]string // by module
	checked map[string]*pkg   // by import path
	files   *token.FileSet

	failed error             // modules that could not be downloaded
	states map[string]string // states read so far, by kind, tab and name
	paths  map[string]string // of the fields in JSON, by path in Go: Authentication.Webhook.Enabled
}

// pkg is one package, as built for Linux. Its types are known as far as modules has them.
type pkg struct {
	*types.Package
	files []*ast.File
	src   *source
}

// importStandard returns the types of one of Go's own packages.
func importStandard(path string) (*types.Package, error) {
	standard, err := openStandard()
	if err != nil {
		return nil, err
	}

	return standard.Import(path)
}

// openStandard finds Go's own packages. A program that was built with -trimpath does not know where they are.
var openStandard = sync.OnceValues(func() (types.Importer, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	build.Default.GOROOT = strings.TrimSpace(string(root))

	return importer.ForCompiler(token.NewFileSet(), "source", nil), nil
})

func open(version string) (*source, error) {
	s := &source{
		version: version,
		dirs:    map[string]string{},
		checked: map[string]*pkg{},
		files:   token.NewFileSet(),
		states:  map[string]string{},
		paths:   map[string]string{},
	}
	_, err := s.module(kubernetes)

	return s, err
}

func (s *source) minor() int {
	n, _ := strconv.Atoi(minorOf(s.version))

	return n
}

// module returns the folder of a module in the module cache. If that version of a staging module cannot be downloaded,
// as may be for an alpha release, it is that of the newest earlier version.
func (s *source) module(path string) (string, error) {
	if dir, isKnown := s.dirs[path]; isKnown {
		return dir, nil
	}

	version := "v0." + strings.TrimPrefix(s.version, "1.")
	switch {
	case path == kubernetes:
		version = "v" + s.version
	case path == klog, path == cadvisor:
		mod, err := os.ReadFile(filepath.Join(s.dirs[kubernetes], "go.mod"))
		if err != nil {
			return "", err
		}
		required := regexp.MustCompile(path + ` (v\S+)`).FindStringSubmatch(string(mod))
		if required == nil {
			return "", fmt.Errorf("go.mod does not require %s", path)
		}
		version = required[1]
	case !slices.Contains(modules, strings.TrimPrefix(path, "k8s.io/")):
		return "", fmt.Errorf("no facts are read from %s", path)
	}

	dir, err := download(path, version)
	if err != nil && strings.HasPrefix(version, "v0.") {
		if earlier, missing := download(path, "<"+version); missing == nil {
			fmt.Fprintf(os.Stderr, "kubetables: instead of the missing version this reads %s: %v\n", earlier, err)
			dir, err = earlier, nil
		}
	}
	s.dirs[path] = dir
	s.failed = errors.Join(s.failed, err)

	return dir, err
}

// download returns the folder of a version in the module cache. The go command verifies it with the checksum database.
func download(path, version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	var result struct{ Dir, Error string }
	if err = errors.Join(err, json.Unmarshal(out, &result)); err != nil {
		return "", fmt.Errorf("%s@%s: %w: %s", path, version, err, result.Error)
	}

	return result.Dir, nil
}

// load parses a package of Kubernetes and checks its types, without those in functions. A package that this release
// does not have has no files.
func (s *source) load(path string) (*pkg, error) {
	if p := s.checked[path]; p != nil {
		return p, nil
	}
	module := modulePattern.FindString(path)
	root, err := s.module(module)
	if err != nil {
		return nil, err
	}

	p := &pkg{src: s}
	s.checked[path] = p
	target := build.Default
	target.GOOS, target.GOARCH, target.CgoEnabled = "linux", "amd64", true
	built, err := target.ImportDir(filepath.Join(root, strings.TrimPrefix(path, module)), 0)
	if err != nil && built.Name != "" {
		return nil, err
	}
	for _, name := range built.GoFiles {
		f, err := parser.ParseFile(
			s.files,
			filepath.Join(built.Dir, name),
			nil,
			parser.SkipObjectResolution,
		)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}

	// An item of an unknown module is an error; a caller that needs its type or value fails.
	config := types.Config{
		Importer:         s,
		IgnoreFuncBodies: true,
		Error:            func(error) {},
	}
	p.Package, _ = config.Check(path, s.files, p.files, nil)

	return p, nil
}

// Import returns the types of a package that another one imports.
func (s *source) Import(path string) (*types.Package, error) {
	if !strings.Contains(path, ".") {
		return importStandard(path)
	}
	p, err := s.load(path)
	if err != nil {
		return nil, err
	}

	return p.Package, nil
}

// evaluate returns the type of an expression, and its value if it is constant. It knows no variables of functions.
func (p *pkg) evaluate(e ast.Expr) types.TypeAndValue {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	_ = types.CheckExpr(p.src.files, p.Package, e.Pos(), e, info) // then it has neither

	return info.Types[e]
}

// text returns the value of a constant string.
func (p *pkg) text(e ast.Expr) (s string, isText bool) {
	v := p.evaluate(e).Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}

	return constant.StringVal(v), true
}

// nodes yields all nodes of a package's syntax.
func (p *pkg) nodes() iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		for _, f := range p.files {
			for n := range ast.Preorder(f) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// find returns the body of a function, or of a method of a type like *pod; an empty one if the package does not have
// it.
func (p *pkg) find(receiver, name string) *ast.BlockStmt {
	for n := range p.nodes() {
		fn, isFunc := n.(*ast.FuncDecl)
		if !isFunc || fn.Name.Name != name {
			continue
		}
		if receiver == "" || fn.Recv != nil && types.ExprString(fn.Recv.List[0].Type) == receiver {
			return fn.Body
		}
	}

	return &ast.BlockStmt{}
}

// last returns the last name of an identifier or a selector.
func last(e ast.Expr) string {
	name := types.ExprString(e)

	return name[strings.LastIndexByte(name, '.')+1:]
}
