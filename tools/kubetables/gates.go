package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"iter"
	"strconv"
	"strings"
)

// gatePackages returns the packages with the kubelet's feature gates.
func (s *source) gatePackages() []string {
	list := []string{
		"k8s.io/kubernetes/pkg/features",
		"k8s.io/apiserver/pkg/features",
		"k8s.io/apiextensions-apiserver/pkg/features",
		"k8s.io/client-go/features",
		"k8s.io/component-base/logs",
		"k8s.io/component-base/logs/api/v1",
		"k8s.io/component-base/metrics/features",
		"k8s.io/component-base/zpages/features",
	}
	if s.minor() >= 33 { // pkg/features imports it since
		list = append(list, "k8s.io/controller-manager/pkg/features")
	}
	return list
}

// gateSet has the gates of a release, and those that each needs.
type gateSet struct{ states, needs map[string]string }

// gates reads the maps from Feature to FeatureSpec or VersionedSpecs, and those from Feature to []Feature, which have
// the gates that a gate needs (since 1.35). The last versioned specification that is not newer than the release
// counts.
func (s *source) gates() (states, needs map[string]string, err error) {
	set := gateSet{
		states: map[string]string{
			"AllAlpha": "alpha -",
			"AllBeta":  "beta -",
		}, // featuregate itself has them
		needs: map[string]string{},
	}
	for _, path := range s.gatePackages() {
		p, err := s.load(path)
		if err != nil {
			return nil, nil, err
		}
		if p == nil {
			continue
		}
		for _, f := range p.files {
			if err := s.readGates(p, f, set); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if len(set.states) < 50 {
		return nil, nil, fmt.Errorf("only %d were found", len(set.states))
	}

	return set.states, set.needs, nil
}

// readGates reads all maps of a file.
func (s *source) readGates(p *pkg, f *ast.File, set gateSet) error {
	var errs error
	ast.Inspect(f, func(n ast.Node) bool {
		lit, isLit := n.(*ast.CompositeLit)
		if !isLit {
			return true
		}
		read := s.gateReader(lit.Type)
		if read == nil {
			return true
		}
		for _, e := range lit.Elts {
			pair, isPair := e.(*ast.KeyValueExpr)
			if !isPair {
				errs = errors.Join(errs, errors.New("an entry of a map of gates is not a pair"))
				continue
			}
			name, err := s.gateName(p, f, pair.Key)
			if err == nil {
				err = read(p, f, name, pair.Value, set)
			}
			errs = errors.Join(errs, err)
		}

		return false
	})

	return errs
}

// gateReader returns the function for the entries of a map from Feature; nil for another type.
func (s *source) gateReader(t ast.Expr) func(*pkg, *ast.File, string, ast.Expr, gateSet) error {
	m, isMap := t.(*ast.MapType)
	if !isMap || last(m.Key) != "Feature" {
		return nil
	}
	list, isList := m.Value.(*ast.ArrayType)
	if isList && last(list.Elt) == "Feature" {
		return s.readNeeds
	}

	switch last(m.Value) {
	case "FeatureSpec", "VersionedSpecs":
		return s.readState
	}

	return nil
}

func (s *source) readState(p *pkg, _ *ast.File, name string, value ast.Expr, set gateSet) error {
	state, err := s.gateState(p, value)
	if state != "" {
		set.states[name] = state
	}

	return err
}

func (s *source) readNeeds(p *pkg, f *ast.File, name string, value ast.Expr, set gateSet) error {
	list, isList := value.(*ast.CompositeLit)
	if !isList {
		return fmt.Errorf("the needs of %s are not a list", name)
	}
	var names []string
	for _, e := range list.Elts {
		call, isCall := e.(*ast.CallExpr)
		if isCall && len(call.Args) == 1 { // Feature(clientfeatures.X)
			e = call.Args[0]
		}
		needed, err := s.gateName(p, f, e)
		if err != nil {
			return fmt.Errorf("the needs of %s: %w", name, err)
		}
		names = append(names, needed)
	}
	if len(names) > 0 {
		set.needs[name] = strings.Join(names, ",")
	}

	return nil
}

// last returns the last name of an identifier or a selector, otherwise "".
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// gateName returns the value of the constant that names a gate.
func (s *source) gateName(p *pkg, f *ast.File, key ast.Expr) (string, error) {
	if sel, ok := key.(*ast.SelectorExpr); ok {
		path := imported(f, last(sel.X))
		other, err := s.load(path)
		if err != nil || other == nil {
			return "", fmt.Errorf("%s is missing: %w", path, err)
		}
		p, key = other, sel.Sel
	}
	name, ok := p.text(key)
	if !ok {
		return "", fmt.Errorf("the name of a gate is not a constant: %v", key)
	}
	return name, nil
}

func (s *source) gateState(p *pkg, value ast.Expr) (string, error) {
	lit, isLit := value.(*ast.CompositeLit)
	if !isLit {
		return "", errors.New("the specification of a gate is not a literal")
	}

	state := ""
	for _, e := range lit.Elts {
		spec, isVersioned := e.(*ast.CompositeLit)
		if !isVersioned {
			return specState(p, lit), nil
		}
		since, err := specVersion(spec)
		if err != nil {
			return "", err
		}
		if since <= s.minor() {
			state = specState(p, spec)
		}
	}

	return state, nil
}

// specVersion reads Version: version.MustParse("1.31").
func specVersion(spec *ast.CompositeLit) (int, error) {
	for name, value := range pairs(spec) {
		call, isCall := value.(*ast.CallExpr)
		if name == "Version" && isCall && len(call.Args) == 1 {
			version := call.Args[0].(*ast.BasicLit)
			text, err := strconv.Unquote(version.Value)
			if err != nil {
				return 0, err
			}
			_, minor, _ := strings.Cut(text, ".")
			return strconv.Atoi(minor)
		}
	}
	return 0, fmt.Errorf("a versioned gate has no version")
}

func specState(p *pkg, spec *ast.CompositeLit) string {
	stage, on, locked := "alpha", "-", ""
	for name, value := range pairs(spec) {
		switch name {
		case "Default":
			signs := map[bool]string{true: "+", false: "-"}
			on = signs[p.isTrue(value)]
		case "LockToDefault":
			locked = map[bool]string{true: "!"}[p.isTrue(value)]
		case "PreRelease":
			stage = cmp.Or(strings.ToLower(last(value)), "ga") // GA is the empty string
		}
	}

	return stage + " " + on + locked
}

// pairs yields the entries NAME: VALUE of a literal.
func pairs(lit *ast.CompositeLit) iter.Seq2[string, ast.Expr] {
	return func(yield func(string, ast.Expr) bool) {
		for _, e := range lit.Elts {
			kv, isPair := e.(*ast.KeyValueExpr)
			if isPair && !yield(last(kv.Key), kv.Value) {
				return
			}
		}
	}
}

// isTrue reports whether an expression is true, or a constant with that value.
func (p *pkg) isTrue(e ast.Expr) bool {
	if v := p.consts[last(e)]; v != nil {
		e = v
	}
	return last(e) == "true"
}
