package main

import (
	"errors"
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// gatePackages declare the feature gates that end up in the kubelet's one set.
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

// gates reads the maps from Feature to FeatureSpec, or to VersionedSpecs, of which the last one counts that is not newer
// than the release; and those from Feature to []Feature, which say what a gate needs (since 1.35).
func (s *source) gates() (out, needs map[string]string, err error) {
	needs = map[string]string{}
	out = map[string]string{"AllAlpha": "alpha -", "AllBeta": "beta -"} // of featuregate itself
	for _, path := range s.gatePackages() {
		p, err := s.load(path)
		if err != nil {
			return nil, nil, err
		}
		if p == nil {
			continue
		}
		for _, f := range p.files {
			var bad error
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if ok && isNeedsMap(lit.Type) {
					bad = errors.Join(bad, s.needs(p, f, lit, needs))
					return false
				}
				if !ok || !isGateMap(lit.Type) {
					return true
				}
				for _, e := range lit.Elts {
					kv := e.(*ast.KeyValueExpr)
					name, err := s.gateName(p, f, kv.Key)
					if err == nil {
						var state string
						if state, err = s.gateState(p, kv.Value); state != "" {
							out[name] = state
						}
					}
					if err != nil {
						bad = fmt.Errorf("%s: %w", path, err)
					}
				}
				return false
			})
			if bad != nil {
				return nil, nil, bad
			}
		}
	}
	if len(out) < 50 {
		return nil, nil, fmt.Errorf("only %d were found", len(out))
	}
	return out, needs, nil
}

// isGateMap says whether a type is map[Feature]FeatureSpec or map[Feature]VersionedSpecs.
func isGateMap(t ast.Expr) bool {
	m, ok := t.(*ast.MapType)
	if !ok || last(m.Key) != "Feature" {
		return false
	}
	v := last(m.Value)
	return v == "FeatureSpec" || v == "VersionedSpecs"
}

// isNeedsMap says whether a type is map[Feature][]Feature.
func isNeedsMap(t ast.Expr) bool {
	m, ok := t.(*ast.MapType)
	if !ok || last(m.Key) != "Feature" {
		return false
	}
	v, ok := m.Value.(*ast.ArrayType)
	return ok && last(v.Elt) == "Feature"
}

// needs reads what gates need, those that need something.
func (s *source) needs(p *pkg, f *ast.File, lit *ast.CompositeLit, out map[string]string) error {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return errors.New("an entry of what gates need is no pair")
		}
		name, err := s.gateName(p, f, kv.Key)
		if err != nil {
			return err
		}
		list, ok := kv.Value.(*ast.CompositeLit)
		if !ok {
			return fmt.Errorf("what %s needs is no list", name)
		}
		var all []string
		for _, need := range list.Elts {
			if call, ok := need.(*ast.CallExpr); ok && len(call.Args) == 1 { // Feature(clientfeatures.X)
				need = call.Args[0]
			}
			n, err := s.gateName(p, f, need)
			if err != nil {
				return fmt.Errorf("what %s needs: %w", name, err)
			}
			all = append(all, n)
		}
		if len(all) > 0 {
			out[name] = strings.Join(all, ",")
		}
	}
	return nil
}

// last is the last name of an expression that names something.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// gateName is the value of the constant that names a gate.
func (s *source) gateName(p *pkg, f *ast.File, key ast.Expr) (string, error) {
	if sel, ok := key.(*ast.SelectorExpr); ok {
		path := imported(f, last(sel.X))
		other, err := s.load(path)
		if err != nil || other == nil {
			return "", fmt.Errorf("%s cannot be found: %w", path, err)
		}
		p, key = other, sel.Sel
	}
	name, ok := p.text(key)
	if !ok {
		return "", fmt.Errorf("a gate has no constant name: %v", key)
	}
	return name, nil
}

func (s *source) gateState(p *pkg, v ast.Expr) (string, error) {
	lit, ok := v.(*ast.CompositeLit)
	if !ok {
		return "", fmt.Errorf("a gate's specification is no literal")
	}
	if len(lit.Elts) > 0 {
		if _, versioned := lit.Elts[0].(*ast.CompositeLit); versioned {
			state := ""
			for _, e := range lit.Elts {
				spec := e.(*ast.CompositeLit)
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
	}
	return specState(p, lit), nil
}

// specVersion reads Version: version.MustParse("1.31").
func specVersion(spec *ast.CompositeLit) (int, error) {
	for _, e := range spec.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok || last(kv.Key) != "Version" {
			continue
		}
		if call, ok := kv.Value.(*ast.CallExpr); ok && len(call.Args) == 1 {
			text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
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
	for _, e := range spec.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch last(kv.Key) {
		case "Default":
			if p.isTrue(kv.Value) {
				on = "+"
			}
		case "LockToDefault":
			if p.isTrue(kv.Value) {
				locked = "!"
			}
		case "PreRelease":
			if stage = strings.ToLower(last(kv.Value)); stage == "" {
				stage = "ga" // the empty string
			}
		}
	}
	return stage + " " + on + locked
}

// isTrue is for the literal, and for a constant that is it.
func (p *pkg) isTrue(e ast.Expr) bool {
	if v := p.consts[last(e)]; v != nil {
		e = v
	}
	return last(e) == "true"
}
