package deptest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// meaningless are package names that say nothing of what is inside, so that everything ends up there.
var meaningless = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib", "types"}

// CheckSource returns one message for each package without a package comment or with a name that says nothing, and
// for each func init. Generated files may have an init, as protoc writes one.
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
			found, err := inits(file)
			if err != nil {
				return nil, err
			}
			broken = append(broken, found...)
		}
	}
	return broken, nil
}

// inits finds the init functions of one file.
func inits(file string) ([]string, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	var found []string
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, fmt.Sprintf("%s: func init: what runs before main cannot be ordered, injected or tested; call it from main", fset.Position(f.Pos())))
		}
	}
	return found, nil
}
