package eval

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// Reached lists the references of an expression, also through locals.
type Reached struct {
	Stages []string // addresses, sorted
	Node   bool     // node.*
	Facts  bool     // an output of detect-hw
	Asks   bool     // a file or a credential of the machine
	Vars   bool     // a variable, which may have another value on another machine
	Secret bool     // a value that may contain a secret
	Phase  schema.Phase
	Any    bool // stages that it does not name, as in stage["detect-hw"]
}

// Reach follows references through locals. It evaluates nothing. Expressions may be nil.
func (e *Eval) Reach(xs ...hclsyntax.Expression) Reached {
	r := Reached{Phase: schema.Static}
	for _, x := range xs {
		e.addReached(&r, x)
	}
	slices.Sort(r.Stages)

	return r
}

func (e *Eval) addReached(r *Reached, x hclsyntax.Expression) {
	if x == nil {
		return
	}

	m := e.site.MentionsOf(x)
	r.Asks = r.Asks || slices.ContainsFunc(m.Functions, functions.ReadsMachine)
	r.Secret = r.Secret || slices.Contains(m.Functions, "credential")
	for _, reference := range m.References {
		name, _, _ := findSecondName(reference)
		switch reference.RootName() {
		case "local":
			r.add(e.reachLocal(name))
		case "var":
			v := e.site.Variables[name]
			r.Vars = true
			r.Secret = r.Secret || v == nil || v.Sensitive
		case "node":
			r.add(Reached{Node: true, Secret: true, Phase: schema.Render})
		case "stage":
			i := e.stageOf(reference)
			if i == nil {
				r.Any = r.Any || nameOf(reference) == "" // else the stage is not declared, which is an error
				r.Secret = true
				continue
			}
			r.add(Reached{
				Stages: []string{i.Addr()},
				Facts:  i.Type == "detect-hw",
				Secret: e.mayOutputSecret(i),
				Phase:  i.Spec.Phase,
			})
		default: // each, and names outside of the site
			r.Secret = true
		}
	}
}

// add adds the references of another expression.
func (r *Reached) add(other Reached) {
	for _, addr := range other.Stages {
		if !slices.Contains(r.Stages, addr) {
			r.Stages = append(r.Stages, addr)
		}
	}
	r.Node = r.Node || other.Node
	r.Facts = r.Facts || other.Facts
	r.Asks = r.Asks || other.Asks
	r.Vars = r.Vars || other.Vars
	r.Secret = r.Secret || other.Secret
	r.Any = r.Any || other.Any
	r.Phase = max(r.Phase, other.Phase)
}

// reachLocal is Reach of a local, which is computed once. Within a cycle it lacks the names that the cycle leads back
// to.
func (e *Eval) reachLocal(name string) Reached {
	local := e.site.Locals[name]
	r, isKnown := e.reached[name]
	if local == nil || isKnown {
		return r
	}

	e.reached[name] = Reached{Secret: true}
	r = e.Reach(local.Expr)
	e.reached[name] = r

	return r
}

// findThrough lists the locals that an expression reaches, in the order in which it meets them. It is for messages: a
// list of each local in Reached would grow with the square of a long chain.
func (e *Eval) findThrough(x hclsyntax.Expression) (names []string) {
	isMet := map[string]bool{}
	var follow func(x hclsyntax.Expression)
	follow = func(x hclsyntax.Expression) {
		for _, u := range usesIn(x) {
			name, isLocal := strings.CutPrefix(u.name, "local.")
			if local := e.site.Locals[name]; isLocal && local != nil && !isMet[name] {
				isMet[name] = true
				names = append(names, u.name)
				follow(local.Expr)
			}
		}
	}
	follow(x)

	return names
}

// unreadFact is a fact that is not known: a list, or a field of its elements; of an object, a field.
type unreadFact struct {
	of    string
	field string // "": all of it
}

// namesUnread reports whether an expression names facts that could not be read, also through locals. Without them a
// list is empty or short, and no element is selected by them.
func (e *Eval) namesUnread(x hclsyntax.Expression) bool {
	var unread []unreadFact
	for _, addr := range e.Reach(x).Stages {
		if outputs, _ := e.Output(addr); outputs != cty.NilVal && outputs.Type().IsObjectType() {
			unread = append(unread, findUnread(outputs)...)
		}
	}
	if len(unread) == 0 {
		return false
	}

	all := []hclsyntax.Expression{x}
	for _, name := range e.findThrough(x) {
		if local := e.site.Locals[strings.TrimPrefix(name, "local.")]; !e.isAllFacts(local.Expr) {
			all = append(all, local.Expr)
		}
	}
	names := map[string]bool{}
	anyField := false
	for _, x := range all {
		if slices.ContainsFunc(x.Variables(), e.namesAllFacts) {
			return true
		}
		anyField = anyField || e.selectsByVariable(x)
		addNames(x, names)
	}

	isAnswer := names["facts"] || names["devices"] || names["attributes"] || names["labels"]
	isStateOnly := names["state"] && !isAnswer // which a detector has without an answer, too

	return slices.ContainsFunc(unread, func(u unreadFact) bool {
		isKnown := (u.of == "detectors" || u.of == allDetectors) && isStateOnly

		return names[u.of] && (u.field == "" || names[u.field] || anyField) && !isKnown
	})
}

// selectsByVariable reports whether an expression may name fields that are not in its text.
func (e *Eval) selectsByVariable(x hclsyntax.Expression) (is bool) {
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		var names []hclsyntax.Expression
		switch n := n.(type) {
		case *hclsyntax.IndexExpr:
			names = append(names, n.Key)
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "where" || n.Name == "lookup" {
				names = n.Args[min(1, len(n.Args)):]
			}
		}
		is = is || e.Reach(names...).Vars

		return nil
	})

	return is
}

// findUnread returns the facts that the outputs of a stage list as unknown, and the detectors without an answer.
func findUnread(outputs cty.Value) (all []unreadFact) {
	attributes := outputs.AsValueMap()
	if unknown := attributes["unknown"]; unknown != cty.NilVal && unknown.IsWhollyKnown() && !unknown.IsNull() &&
		!unknown.IsMarked() {
		for _, fact := range unknown.AsValueSlice() {
			name, _ := value.KeyText(fact.GetAttr("fact"))
			all = append(all, parseUnread(name)...)
		}
	}

	detectors := attributes["detectors"]
	if detectors == cty.NilVal || !detectors.IsWhollyKnown() || detectors.IsNull() || !detectors.Type().IsObjectType() {
		return all
	}
	for name, d := range detectors.AsValueMap() {
		state, _ := value.KeyText(d.AsValueMap()["state"])
		if state != "ok" {
			all = append(all, unreadFact{"detectors", name})
		}
		if state != "ok" && state != "skipped" { // a skipped detector adds nothing to all
			all = append(all, unreadFact{allDetectors, ""})
		}
	}

	return all
}

// parseUnread returns the parts of the facts that the name of an unknown fact refers to: nics[0000:17:00.0].pcie or
// cpu.cores[3].package, a field of elements of a list, memory.hugepages[1Gi], an element, or memory.gpu_bytes. The
// devices of a bus are in lists of their own, too.
func parseUnread(name string) (all []unreadFact) {
	of, rest, isElement := strings.Cut(name, "[")
	if isElement {
		of = of[strings.LastIndexByte(of, '.')+1:]
	} else {
		of, rest, _ = strings.Cut(name, ".")
	}
	field := rest[strings.LastIndexByte(rest, ']')+1:]
	field = field[strings.LastIndexByte(field, '.')+1:]

	all = []unreadFact{{of, field}}
	switch {
	case of == "accelerators":
		all = append(all, unreadFact{"gpus", field})
	case of == "pci" && isElement && field == "":
		for _, list := range []string{"accelerators", "gpus", "nics", "guids"} {
			all = append(all, unreadFact{list, ""})
		}
	}

	return all
}

// allDetectors is the name of a reference to all detectors of a machine.
const allDetectors = "detectors[]"

// addNames adds each name and text of an expression, those of its loops too.
func addNames(x hclsyntax.Expression, names map[string]bool) {
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		var path hcl.Traversal
		switch n := n.(type) {
		case *hclsyntax.ScopeTraversalExpr:
			path = n.Traversal
		case *hclsyntax.RelativeTraversalExpr:
			path = n.Traversal
		case hclsyntax.Expression:
			if text, isLiteral := value.LiteralText(n); isLiteral {
				names[text] = true
			}
		}
		for n, step := range path {
			name, _, _ := findSecondName(hcl.Traversal{hcl.TraverseRoot{}, step})
			names[name] = true
			if name == "detectors" && n == len(path)-1 {
				names[allDetectors] = true
			}
		}
		return nil
	})
}

// namesAllFacts reports whether a reference is to the outputs of a stage as a whole, also by a local that is them.
func (e *Eval) namesAllFacts(reference hcl.Traversal) bool {
	name, _, _ := findSecondName(reference)
	switch local := e.site.Locals[name]; {
	case reference.RootName() == "stage":
		return len(reference) <= 3 // stage.TYPE.NAME
	case reference.RootName() != "local" || local == nil || len(reference) > 2:
		return false
	default:
		return e.isAllFacts(local.Expr)
	}
}

// isAllFacts reports whether an expression is only such a reference.
func (e *Eval) isAllFacts(x hclsyntax.Expression) bool {
	name, isName := value.Unwrap(x).(*hclsyntax.ScopeTraversalExpr)

	return isName && e.namesAllFacts(name.Traversal)
}

// mayOutputSecret reports whether an expression of a stage, or of a stage that it refers to, may contain a secret: then
// its output may too. It is computed once.
func (e *Eval) mayOutputSecret(i *lang.Instance) bool {
	key := "stage." + i.Addr() // not the name of a local
	r, isKnown := e.reached[key]
	if !isKnown {
		e.reached[key] = Reached{Secret: true} // a cycle leads back here
		r = e.Reach(expressionsOf(i)...)
		for _, edge := range e.Edges(i) {
			r.Secret = r.Secret || e.mayOutputSecret(e.site.Stage(edge.To))
		}
		e.reached[key] = r
	}

	return r.Secret
}

// BodyExpressions lists every expression of a body and its blocks, in the order of the file. The body may be nil.
func BodyExpressions(b *hclsyntax.Body) []hclsyntax.Expression {
	if b == nil {
		return nil
	}

	var xs []hclsyntax.Expression
	for _, a := range b.Attributes {
		xs = append(xs, a.Expr)
	}
	for _, block := range b.Blocks {
		xs = append(xs, BodyExpressions(block.Body)...)
	}
	slices.SortStableFunc(xs, func(a, b hclsyntax.Expression) int {
		return lang.CompareRanges(a.Range(), b.Range())
	})

	return xs
}
