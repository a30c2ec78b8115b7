package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/packages"
)

const (
	kubernetes        = "k8s.io/kubernetes"
	kubeletProgram    = "k8s.io/kubernetes/cmd/kubelet"
	controllerManager = "k8s.io/controller-manager"
	klog              = "k8s.io/klog/v2"
)

// staging has the modules of Kubernetes' staging folder with the facts of the table, or with types of those. They have
// the same minor and patch version as Kubernetes. The names of other modules have no types.
var staging = []string{
	"k8s.io/api",
	"k8s.io/apiextensions-apiserver",
	"k8s.io/apimachinery",
	"k8s.io/apiserver",
	"k8s.io/client-go",
	"k8s.io/component-base",
	"k8s.io/component-helpers",
	controllerManager,
	"k8s.io/kubelet",
}

// requiredPattern finds the modules whose version is in Kubernetes' go.mod. It requires cadvisor's library since 1.37.
var requiredPattern = regexp.MustCompile(`\t(` + klog + `|github\.com/google/cadvisor/lib) (v\S+)`)

type source struct {
	version  string // 1.36.3
	gopath   string // the folder with its modules
	packages map[string]*packages.Package

	states map[string]string // states read so far, by kind, tab and name
	paths  map[string]string // of the fields in JSON, by path in Go: Authentication.Webhook.Enabled

	members map[token.Pos]string // the fields in JSON, by their place in the source
}

// pkg is one package, as built for Linux. Its types are known as far as they are of linked modules.
type pkg struct {
	*packages.Package

	nodes *inspector.Inspector
	src   *source
}

func newSource(version, gopath string) *source {
	return &source{
		version:  version,
		gopath:   gopath,
		packages: map[string]*packages.Package{},
		states:   map[string]string{},
		paths:    map[string]string{},
		members:  map[token.Pos]string{},
	}
}

func (s *source) minor() int {
	n, _ := strconv.Atoi(minorOf(s.version))

	return n
}

// link makes the folder for GOPATH with links to the modules of a release in the module cache. As a module, Kubernetes
// would need all modules that it requires, and a replacement for each folder of its staging modules, which it does not
// have. If a version of a staging module cannot be downloaded, as may be for an alpha release, the link is to the
// newest earlier version.
func (s *source) link() error {
	errs := s.linkModule(kubernetes, "v"+s.version)
	if errs != nil {
		return fmt.Errorf("without %s there are no flags, defaults and gates of %s; try another pre-release, or "+
			"GOPROXY=direct: %w", kubernetes, s.version, errs)
	}
	for _, path := range staging {
		if path == controllerManager && s.minor() < 32 {
			continue // the kubelet has its gates since 1.32
		}
		version := "v0." + strings.TrimPrefix(s.version, "1.")
		err := s.linkModule(path, version)
		if err != nil {
			fmt.Fprintf(os.Stderr, "kubetables: this reads an earlier version: %v\n", err)
			err = s.linkModule(path, "<"+version)
		}
		errs = errors.Join(errs, err)
	}

	mod, err := os.ReadFile(filepath.Join(s.gopath, "src", kubernetes, "go.mod"))
	errs = errors.Join(errs, err)
	for _, required := range requiredPattern.FindAllStringSubmatch(string(mod), -1) {
		errs = errors.Join(errs, s.linkModule(required[1], required[2]))
	}

	return errs
}

// linkModule downloads a version of a module. The go command verifies it with the checksum database.
func (s *source) linkModule(path, version string) error {
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version) //nolint:gosec // the user's own arguments
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GO111MODULE=on", "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	var result struct{ Dir, Error string }
	if err = errors.Join(err, json.Unmarshal(out, &result)); err != nil {
		return fmt.Errorf("%s@%s: %w: %s", path, version, err, result.Error)
	}

	name := filepath.Join(s.gopath, "src", path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}

	return os.Symlink(result.Dir, name)
}

// load reads the packages with what they import. A package that this release does not have has no files, and an item of
// an unknown module has no type and no value: a caller that needs one fails.
func (s *source) load() error {
	config := &packages.Config{
		Mode: packages.LoadAllSyntax,
		Dir:  s.gopath,
		Env: append(os.Environ(), "GO111MODULE=off", "GOPATH="+s.gopath, "GOFLAGS=", "GOOS=linux", "GOARCH=amd64",
			"CGO_ENABLED=0"),
	}
	loaded, err := packages.Load(config, slices.Concat(gatePackages, []string{
		kubeletProgram,
		optionsPackage,
		sourcesPackage,
		klog,
		configPackage,
		defaultsPackage,
		declaredPackage,
	})...)
	packages.Visit(loaded, nil, func(p *packages.Package) { s.packages[p.PkgPath] = p })

	return err
}

func (s *source) inspect(path string) *pkg {
	p := s.packages[path]

	return &pkg{p, inspector.New(p.Syntax), s}
}

// text returns the value of a constant string.
func (p *pkg) text(e ast.Expr) (s string, isText bool) {
	v := p.TypesInfo.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}

	return constant.StringVal(v), true
}

// find returns the body of a function, or of a method of a type like *pod; an empty one if the package does not have
// it.
func (p *pkg) find(receiver, name string) *ast.BlockStmt {
	for fn := range inspector.All[*ast.FuncDecl](p.nodes) {
		isOf := receiver == "" || fn.Recv != nil && types.ExprString(fn.Recv.List[0].Type) == receiver
		if fn.Name.Name == name && isOf {
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
