package deptest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// meaningless are package names that say nothing of what is inside, so that everything ends up there.
var meaningless = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib", "types"}

// goPlugin is the library whose ways to end a detector are not used.
const goPlugin = "github.com/hashicorp/go-plugin"

// CheckSource returns one message for each package without a package comment or with a name that says nothing, for
// each func init, and for each use of go-plugin's Kill or CleanupClients outside of tests. Generated files may have an
// init, as protoc writes one.
func CheckSource(packages []*Package) ([]string, error) {
	var broken []string
	for _, p := range packages {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			broken = append(broken, p.ImportPath+" has no package comment: say what it is, and what it may touch")
		}
		if slices.Contains(meaningless, strings.TrimSuffix(p.Name, "_test")) {
			broken = append(broken, fmt.Sprintf("%s: package %s is named after nothing: name it after what it provides", p.ImportPath, p.Name))
		}
		for _, file := range p.Files() {
			found, err := checkFile(p, file)
			if err != nil {
				return nil, err
			}
			broken = append(broken, found...)
		}
	}
	return broken, nil
}

// mayExit are the packages that end a process or know exit statuses: the programs, and where codes have their statuses.
func mayExit() []string {
	return append([]string{
		"cmd/...", "internal/fault", "internal/detector/hostile/...", "plugins/...",
	}, apart()...)
}

// CheckExits returns one message for each call of os.Exit and each number of an exit status outside of mayExit. Tests and
// their programs may end as they like.
func CheckExits(packages []*Package) ([]string, error) {
	var broken []string
	for _, p := range packages {
		if slices.ContainsFunc(mayExit(), func(a string) bool { return Matches(module+a, p.ImportPath) }) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if what := exits(n); what != "" {
					broken = append(broken, fmt.Sprintf("%s: %s: an error has a code (internal/fault), which main turns into a status",
						fset.Position(n.Pos()), what))
				}
				return true
			})
		}
	}
	return broken, nil
}

// exits says how a piece of source has to do with exit statuses, or nothing. What has "exit" in its name and is a
// number, is compared with one, or contains or returns one, is a table of exit statuses. 0 is no entry of one: a process
// that ended with 0 succeeded.
func exits(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "os" && n.Sel.Name == "Exit" {
			return "os.Exit"
		}
	case *ast.FuncDecl:
		if n.Name.Name == "ExitCode" {
			return "method ExitCode"
		}
		if isExitName(n.Name) && n.Body != nil && returnsNumber(n.Body) {
			return "function " + n.Name.Name
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if isExitName(n.Names[i]) && hasNumber(value) {
				return "exit status " + n.Names[i].Name
			}
		}
	case *ast.AssignStmt:
		for i, value := range n.Rhs {
			if len(n.Lhs) == len(n.Rhs) && isExitName(n.Lhs[i]) && hasNumber(value) {
				return "exit status"
			}
		}
	case *ast.KeyValueExpr:
		if isExitName(n.Key) && isNumber(n.Value) {
			return "exit status"
		}
	case *ast.BinaryExpr:
		if isExitName(n.X) && isNumber(n.Y) || isExitName(n.Y) && isNumber(n.X) {
			return "exit status"
		}
	}
	return ""
}

// isExitName reports whether an expression is a name, or a field, with "exit" in it.
func isExitName(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(e.Name), "exit")
	case *ast.SelectorExpr:
		return isExitName(e.Sel)
	}
	return false
}

// isNumber reports whether a node is a whole number in digits, other than 0.
func isNumber(n ast.Node) bool {
	number, ok := n.(*ast.BasicLit)
	return ok && number.Kind == token.INT && number.Value != "0"
}

// hasNumber reports whether a value is a number, or a list or a map with one in it.
func hasNumber(value ast.Expr) (found bool) {
	if _, ok := value.(*ast.CompositeLit); !ok {
		return isNumber(value)
	}
	ast.Inspect(value, func(n ast.Node) bool {
		found = found || isNumber(n)
		return !found
	})
	return found
}

// returnsNumber reports whether a function returns a number in digits.
func returnsNumber(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok {
			found = found || slices.ContainsFunc(r.Results, func(e ast.Expr) bool { return isNumber(e) })
		}
		return !found
	})
	return found
}

// checkFile returns what is wrong in one file of a package.
func checkFile(p *Package, file string) ([]string, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}

	found := inits(fset, tree)
	if slices.Contains(p.Imports, goPlugin) && !strings.HasSuffix(file, "_test.go") {
		found = append(found, kills(fset, tree)...)
	}
	return found, nil
}

// kills finds where a package that imports go-plugin names a Kill or CleanupClients that is not the system call.
func kills(fset *token.FileSet, tree *ast.File) []string {
	var found []string
	ast.Inspect(tree, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Kill" && s.Sel.Name != "CleanupClients" {
			return true
		}
		if of, ok := s.X.(*ast.Ident); !ok || of.Name != "unix" && of.Name != "syscall" {
			found = append(found, fmt.Sprintf("%s: %s: go-plugin would wait for the detector, and end one process of it; "+
				"prelet ends the process group", fset.Position(s.Sel.Pos()), s.Sel.Name))
		}
		return true
	})
	return found
}

// inits finds the init functions of one file.
func inits(fset *token.FileSet, tree *ast.File) []string {
	var found []string
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, fmt.Sprintf("%s: func init: what runs before main cannot be ordered, injected or tested; call it from main", fset.Position(f.Pos())))
		}
	}
	return found
}
