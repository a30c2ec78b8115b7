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

// source is the source of one release: Kubernetes, and the modules that are published from its staging folder with the
// same minor and patch version.
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
}

func open(version string, offline bool) (*source, error) {
	s := &source{version: version, offline: offline, dirs: map[string]string{}, parsed: map[string]*pkg{}}
	if _, err := s.module("k8s.io/kubernetes", "v"+version); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *source) minor() int {
	n, _ := strconv.Atoi(strings.Split(s.version, ".")[1])
	return n
}

// module is the folder of a module in the module cache. The go command checks it against the checksum database.
func (s *source) module(path, version string) (string, error) {
	if d := s.dirs[path]; d != "" {
		return d, nil
	}
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if s.offline {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr != nil && err == nil {
		err = jsonErr
	}
	if answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("%s@%s: %w", path, version, err)
	}
	s.dirs[path] = answer.Dir
	return answer.Dir, nil
}

// dir is the folder of a package of Kubernetes; "" if this release has none.
func (s *source) dir(importPath string) (string, error) {
	parts := strings.SplitN(importPath, "/", 3)
	module, version := parts[0]+"/"+parts[1], "v0."+strings.SplitN(s.version, ".", 2)[1]
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
	d := filepath.Join(root, strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"))
	if _, err := os.Stat(d); err != nil {
		return "", nil
	}
	return d, nil
}

// required is the version of a module that this release is built with.
func (s *source) required(module string) (string, error) {
	b, err := os.ReadFile(filepath.Join(s.dirs["k8s.io/kubernetes"], "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && f[0] == module && strings.HasPrefix(f[1], "v") {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("go.mod requires no %s", module)
}

// load parses a package; nil if this release has none.
func (s *source) load(importPath string) (*pkg, error) {
	dir, err := s.dir(importPath)
	if dir == "" || err != nil {
		return nil, err
	}
	if p := s.parsed[dir]; p != nil {
		return p, nil
	}
	for_ := build.Default
	for_.GOOS, for_.GOARCH, for_.CgoEnabled = "linux", "amd64", true
	p := &pkg{consts: map[string]ast.Expr{}, types: map[string]ast.Expr{}, funcs: map[string]*ast.FuncDecl{}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		ok, err := for_.MatchFile(dir, filepath.Base(name))
		if err != nil {
			return nil, err
		}
		if !ok || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
		p.declare(f)
	}
	s.parsed[dir] = p
	return p, nil
}

func (p *pkg) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.funcs[d.Name.Name] = d
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					p.types[spec.Name.Name] = spec.Type
				case *ast.ValueSpec:
					for i, n := range spec.Names {
						if i < len(spec.Values) {
							p.consts[n.Name] = spec.Values[i]
						}
					}
				}
			}
		}
	}
}

// imported is the import path behind a name in a file.
func imported(f *ast.File, name string) string {
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		last := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil && i.Name.Name == name || i.Name == nil && last == name {
			return path
		}
	}
	return ""
}

// text is the value of an expression that is a string: a literal, a constant, or a sum of them.
func (p *pkg) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		if v := p.consts[e.Name]; v != nil {
			return p.text(v)
		}
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
