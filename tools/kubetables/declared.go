package main

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

const declaredPackage = "k8s.io/component-helpers/nodedeclaredfeatures/features"

// declared returns what each feature that a Node may declare needs: its gates, and "runtime" if the container runtime
// must support it. It reads the features of AllFeatures; their Requirements exist since 1.36.
func (s *source) declared() (map[string]string, error) {
	out := map[string]string{}
	if s.minor() < 36 {
		return out, nil
	}
	registry, err := s.load(declaredPackage)
	if err != nil || registry == nil {
		return nil, fmt.Errorf("%s is missing: %w", declaredPackage, err)
	}
	list, isList := registry.consts["AllFeatures"].(*ast.CompositeLit)
	if !isList {
		return nil, errors.New("AllFeatures is not a list")
	}

	for _, e := range list.Elts {
		entry, isSelector := e.(*ast.SelectorExpr)
		if !isSelector {
			return nil, fmt.Errorf("an entry of AllFeatures is a %T, want a variable of a package", e)
		}
		p, err := s.load(imported(registry.files[0], last(entry.X)))
		if err != nil || p == nil {
			return nil, fmt.Errorf("the package of %s is missing: %w", last(entry.X), err)
		}
		name, needs, err := p.readDeclared(entry.Sel.Name)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", last(entry.X), entry.Sel.Name, err)
		}
		out[name] = needs
	}

	return out, nil
}

// readDeclared reads a feature: a variable with a pointer to a type with the methods of types.Feature.
func (p *pkg) readDeclared(variable string) (name, needs string, err error) {
	pointer, _ := p.consts[variable].(*ast.UnaryExpr)
	if pointer == nil {
		return "", "", errors.New("it is not a pointer")
	}
	value, _ := pointer.X.(*ast.CompositeLit)
	if value == nil {
		return "", "", errors.New("it is not a pointer to a literal")
	}
	kind := last(value.Type)

	name, isText := p.text(p.result(kind, "Name"))
	required, isPointer := p.result(kind, "Requirements").(*ast.UnaryExpr)
	if !isText || !isPointer || last(p.result(kind, "MaxVersion")) != "nil" {
		return "", "", fmt.Errorf("%s has a Name, Requirements or MaxVersion that is not simple", kind)
	}

	fields := maps.Collect(pairs(required.X.(*ast.CompositeLit)))
	gates, isList := fields["EnabledFeatureGates"].(*ast.CompositeLit)
	if !isList {
		return "", "", fmt.Errorf("%s has no gates", kind)
	}
	var words []string
	for _, e := range gates.Elts {
		gate, isText := p.text(e)
		if !isText {
			return "", "", fmt.Errorf("a gate of %s is not a text", kind)
		}
		words = append(words, gate)
	}
	needs = strings.Join(words, ",")
	if fields["RequiredRuntimeFeatures"] != nil {
		needs += " runtime"
	}

	return name, needs, nil
}

// result returns what a method returns that has one statement; nil for another method.
func (p *pkg) result(kind, method string) ast.Expr {
	for _, f := range p.files {
		i := slices.IndexFunc(f.Decls, func(d ast.Decl) bool {
			fn, isFunc := d.(*ast.FuncDecl)
			return isFunc && fn.Name.Name == method && receiver(fn) == kind
		})
		if i < 0 {
			continue
		}
		body := f.Decls[i].(*ast.FuncDecl).Body.List
		if r, isReturn := body[0].(*ast.ReturnStmt); len(body) == 1 && isReturn && len(r.Results) == 1 {
			return r.Results[0]
		}
	}

	return nil
}

// receiver returns the type of a method without its pointer; "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	kind := fn.Recv.List[0].Type
	if pointer, isPointer := kind.(*ast.StarExpr); isPointer {
		kind = pointer.X
	}

	return last(kind)
}
