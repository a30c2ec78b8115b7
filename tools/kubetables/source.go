package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// source is the source of one release: Kubernetes, and the modules of its staging folder, which have the same minor
// and patch version.
type source struct {
	version string // 1.36.3
	offline bool
	dirs    map[string]string // by module
	parsed  map[string]*pkg   // by folder
}

// pkg is one package, as built for Linux.
type pkg struct {
	files  []*ast.File
	consts map[string]ast.Expr // also variables
	types  map[string]ast.Expr
	funcs  map[string]*ast.FuncDecl
	fileOf map[string]*ast.File // of a type or a function
}

func open(version string, offline bool) (*source, error) {
	s := &source{
		version: version,
		offline: offline,
		dirs:    map[string]string{},
		parsed:  map[string]*pkg{},
	}
	if _, err := s.module("k8s.io/kubernetes", "v"+version); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *source) minor() int {
	parts := strings.Split(s.version, ".")
	n, _ := strconv.Atoi(parts[1])

	return n
}

// module returns the folder of a module in the module cache. If that version of a staging module cannot be downloaded,
// as may be for an alpha release, it is that of the newest earlier version.
func (s *source) module(path, version string) (string, error) {
	if d := s.dirs[path]; d != "" {
		return d, nil
	}

	dir, err := s.download(path, version)
	if err != nil && path != "k8s.io/kubernetes" && !s.offline {
		var missing error
		if dir, missing = s.download(path, "<"+version); missing == nil {
			fmt.Fprintf(os.Stderr, "kubetables: instead of the missing version this reads %s: %v\n", dir, err)
			err = nil
		}
	}
	s.dirs[path] = dir

	return dir, err
}

// download returns the folder of a version in the module cache. The go command verifies it with the checksum database.
func (s *source) download(path, version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if s.offline {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	out, err := cmd.Output()
	var result struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &result); jsonErr != nil && err == nil {
		err = jsonErr
	}
	if result.Error != "" {
		err = errors.New(result.Error)
	}
	if err != nil {
		return "", fmt.Errorf("%s@%s: %w", path, version, err)
	}

	return result.Dir, nil
}

// dir returns the folder of a package of Kubernetes; "" if this release does not have it.
func (s *source) dir(importPath string) (string, error) {
	parts := strings.SplitN(importPath, "/", 3)
	module := parts[0] + "/" + parts[1]
	version := "v0." + strings.TrimPrefix(s.version, "1.")
	switch module {
	case "k8s.io/kubernetes":
		version = "v" + s.version
	case "k8s.io/klog":
		module = "k8s.io/klog/v2"
		var err error
		if version, err = s.required(module); err != nil {
			return "", err
		}
	}
	root, err := s.module(module, version)
	if err != nil {
		return "", err
	}
	below := strings.TrimPrefix(importPath, module)
	d := filepath.Join(root, below)
	if _, err := os.Stat(d); err != nil {
		return "", nil
	}
	return d, nil
}

// required returns the version of a module that this release requires.
func (s *source) required(module string) (string, error) {
	file := filepath.Join(s.dirs["k8s.io/kubernetes"], "go.mod")
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(f) >= 2 && f[0] == module {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("go.mod does not require %s", module)
}

// load parses a package; nil if this release does not have it.
func (s *source) load(importPath string) (*pkg, error) {
	dir, err := s.dir(importPath)
	if dir == "" || err != nil {
		return nil, err
	}
	if p := s.parsed[dir]; p != nil {
		return p, nil
	}
	p, err := parsePackage(dir)
	if err != nil {
		return nil, err
	}
	s.parsed[dir] = p

	return p, nil
}

func parsePackage(dir string) (*pkg, error) {
	p := &pkg{
		consts: map[string]ast.Expr{},
		types:  map[string]ast.Expr{},
		funcs:  map[string]*ast.FuncDecl{},
		fileOf: map[string]*ast.File{},
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := parseFile(name)
		if err != nil {
			return nil, err
		}
		if f != nil {
			p.declare(f)
		}
	}

	return p, nil
}

// parseFile parses a file; nil if it is a test, or not built for Linux.
func parseFile(name string) (*ast.File, error) {
	target := build.Default
	target.GOOS = "linux"
	target.GOARCH = "amd64"
	target.CgoEnabled = true

	dir, base := filepath.Split(name)
	isBuilt, err := target.MatchFile(dir, base)
	if err != nil || !isBuilt || strings.HasSuffix(name, "_test.go") {
		return nil, err
	}

	return parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
}

func (p *pkg) declare(f *ast.File) {
	p.files = append(p.files, f)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.funcs[d.Name.Name] = d
			p.fileOf[d.Name.Name] = f
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				p.declareSpec(f, spec)
			}
		}
	}
}

func (p *pkg) declareSpec(f *ast.File, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		p.types[spec.Name.Name] = spec.Type
		p.fileOf[spec.Name.Name] = f
	case *ast.ValueSpec:
		for i, value := range spec.Values {
			p.consts[spec.Names[i].Name] = value
		}
	}
}

// imported returns the import path of a package name in a file.
func imported(f *ast.File, name string) string {
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		own := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			own = i.Name.Name
		}
		if own == name {
			return path
		}
	}
	return ""
}

// text returns the value of a string expression: a literal, a constant, or a sum of them.
func (p *pkg) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		return p.text(p.consts[e.Name])
	case *ast.BinaryExpr:
		a, ok := p.text(e.X)
		b, ok2 := p.text(e.Y)
		return a + b, ok && ok2
	case *ast.ParenExpr:
		return p.text(e.X)
	case *ast.CallExpr: // a conversion
		if len(e.Args) == 1 {
			return p.text(e.Args[0])
		}
	}
	return "", false
}
