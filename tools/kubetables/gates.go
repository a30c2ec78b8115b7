package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

const declaredPackage = "k8s.io/component-helpers/nodedeclaredfeatures/features"

// gatePackages has the kubelet's feature gates.
var gatePackages = []string{
	"k8s.io/kubernetes/pkg/features",
	"k8s.io/apiserver/pkg/features",
	"k8s.io/apiextensions-apiserver/pkg/features",
	"k8s.io/client-go/features",
	logsPackage,
	logsOptionsPackage,
	"k8s.io/component-base/metrics/features",
	"k8s.io/component-base/zpages/features",
	controllerManager + "/pkg/features",
}

// gates reads the maps from Feature to FeatureSpec or VersionedSpecs, and those from Feature to []Feature, which have
// the gates that a gate needs (since 1.35).
func (s *source) gates() error {
	s.states["gate\tAllAlpha"] = "alpha -" // featuregate itself has these
	s.states["gate\tAllBeta"] = "beta -"
	before := len(s.states)
	for _, path := range gatePackages {
		if err := s.inspect(path).readGates(); err != nil {
			return fmt.Errorf("feature gates of %s: %w", path, err)
		}
	}
	if n := len(s.states) - before; n < 50 {
		return fmt.Errorf("only %d feature gates were found", n)
	}

	return nil
}

// othersPattern matches packages that the kubelet links, and whose gates concern other components: the library of API
// servers, the scheduler, controllers, and how the API server validates objects.
var othersPattern = regexp.MustCompile(
	`^k8s\.io/(apiserver|kubernetes/pkg/(scheduler|controller|api/pod|api/persistentvolumeclaim|` +
		`apis/\w+/(validation|pods)))(/|$)`,
)

// readers finds the gates that the kubelet's own code reads, and that of libraries which it links: the constants that
// are used there, except in the maps that declare gates.
func (s *source) readers() error {
	before := len(s.states)
	for path, p := range s.packages {
		if othersPattern.MatchString(path) {
			continue
		}
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				literal, isLiteral := n.(*ast.CompositeLit)
				if isLiteral {
					_, isMap := literal.Type.(*ast.MapType)
					return !isMap
				}
				name, isName := n.(*ast.Ident)
				if !isName {
					return true
				}
				gate, isConstant := p.TypesInfo.Uses[name].(*types.Const)
				if isConstant && strings.HasSuffix(gate.Type().String(), ".Feature") {
					s.states["read\t"+constant.StringVal(gate.Val())] = "yes"
				}

				return true
			})
		}
	}
	if len(s.states) == before {
		return errors.New("no feature gate is read in " + kubeletProgram)
	}

	return nil
}

func (p *pkg) readGates() error {
	var errs error
	for literal := range inspector.All[*ast.CompositeLit](p.nodes) {
		read, kind := p.gateState, "gate\t"
		switch types.ExprString(literal.Type) {
		case "map[featuregate.Feature]featuregate.FeatureSpec", "map[Feature]FeatureSpec",
			"map[featuregate.Feature]featuregate.VersionedSpecs", "map[Feature]VersionedSpecs":
		case "map[featuregate.Feature][]featuregate.Feature":
			read, kind = p.gateNeeds, "needs\t"
		default:
			continue
		}

		for _, e := range literal.Elts {
			pair := e.(*ast.KeyValueExpr)
			state, err := read(pair.Value)
			name, isText := p.text(pair.Key)
			if !isText {
				err = errors.New("the name of a gate is not a constant")
			}
			errs = errors.Join(errs, err)
			if state != "" {
				p.src.states[kind+name] = state
			}
		}
	}

	return errs
}

func (p *pkg) gateNeeds(list ast.Expr) (string, error) {
	var names []string
	for _, e := range list.(*ast.CompositeLit).Elts {
		name, isText := p.text(e)
		if !isText {
			return "", fmt.Errorf("a needed gate is not a constant: %s", types.ExprString(e))
		}
		names = append(names, name)
	}

	return strings.Join(names, ","), nil
}

// gateState returns the state of a specification, or of the last of versioned ones that is not newer than the release.
func (p *pkg) gateState(spec ast.Expr) (state string, err error) {
	literal, isLiteral := spec.(*ast.CompositeLit)
	if !isLiteral {
		return "", errors.New("the specification of a gate is not a literal")
	}

	stage, on, locked := "alpha", "-", ""
	for _, e := range literal.Elts {
		pair, isPair := e.(*ast.KeyValueExpr)
		if !isPair {
			next, err := p.gateState(e)
			if err != nil {
				return "", err
			}
			state = cmp.Or(next, state)
			stage = ""

			continue
		}

		value := p.TypesInfo.Types[pair.Value].Value
		isTrue := value != nil && value.String() == "true"
		switch name := last(pair.Key); {
		case name == "Default" && isTrue:
			on = "+"
		case name == "LockToDefault" && isTrue:
			locked = "!"
		case name == "PreRelease":
			text, isText := p.text(pair.Value)
			if !isText {
				return "", errors.New("the stage of a gate is not a constant")
			}
			stage = cmp.Or(strings.ToLower(text), "ga") // GA is the empty string
		case name == "Version", name == "MinCompatibilityVersion": // version.MustParse("1.31")
			since, _ := p.text(pair.Value.(*ast.CallExpr).Args[0])
			minor, err := strconv.Atoi(strings.TrimPrefix(since, "1."))
			if name == "MinCompatibilityVersion" {
				minor++ // a kubelet is compatible with the minor version before its own
			}
			if minor > p.src.minor() || err != nil {
				return "", err
			}
		}
	}
	if stage != "" {
		state = stage + " " + on + locked
	}

	return state, nil
}

// declared reads what each feature that a Node may declare needs: its gates, and "runtime" if the container runtime
// must support it. It reads the features of AllFeatures; their Requirements exist since 1.36.
func (s *source) declared() error {
	if s.minor() < 36 {
		return nil
	}
	p := s.inspect(declaredPackage)
	errs := errors.New("AllFeatures is missing")
	for spec := range inspector.All[*ast.ValueSpec](p.nodes) {
		if spec.Names[0].Name != "AllFeatures" {
			continue
		}
		errs = nil
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			errs = errors.Join(errs, p.readDeclared(e))
		}
	}

	return errs
}

// readDeclared reads a feature: a variable with a pointer to a type with the methods of types.Feature.
func (p *pkg) readDeclared(feature ast.Expr) error {
	pointer, isPointer := p.TypesInfo.TypeOf(feature).(*types.Pointer)
	if !isPointer {
		return fmt.Errorf("%s is not a pointer", types.ExprString(feature))
	}
	kind := pointer.Elem().(*types.Named).Obj()
	own := p.src.inspect(kind.Pkg().Path())

	name, isText := own.text(own.result(kind, "Name"))
	required, isLiteral := own.result(kind, "Requirements").(*ast.UnaryExpr)
	isEndless := last(own.result(kind, "MaxVersion")) == "nil"
	if !isText || !isLiteral || !isEndless {
		return fmt.Errorf("%s has a Name, Requirements or MaxVersion that is not simple", kind)
	}
	gates, byRuntime := "", ""
	for _, e := range required.X.(*ast.CompositeLit).Elts {
		pair := e.(*ast.KeyValueExpr)
		switch last(pair.Key) {
		case "EnabledFeatureGates":
			var err error
			if gates, err = own.gateNeeds(pair.Value); err != nil {
				return err
			}
		case "RequiredRuntimeFeatures":
			byRuntime = " runtime"
		}
	}
	if gates == "" {
		return fmt.Errorf("%s has no gates", kind)
	}
	p.src.states["declared\t"+name] = gates + byRuntime

	return nil
}

// result returns the result of a method of a pointer to a type if the method only returns it; else an unknown name.
func (p *pkg) result(kind *types.TypeName, method string) ast.Expr {
	body := p.find("*"+kind.Name(), method).List
	if len(body) == 1 {
		if returned, isReturn := body[0].(*ast.ReturnStmt); isReturn {
			return returned.Results[0]
		}
	}

	return ast.NewIdent("missing")
}
