package eval

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
)

// Reached is what an expression refers to, through locals.
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
	r.Asks = r.Asks || slices.ContainsFunc(m.Functions, value.ReadsMachine)
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

// add adds what another expression refers to.
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

// namesUnread reports whether an expression names a list of facts that could not be read, also through locals. Such a
// list is empty, as if the machine had none.
func (e *Eval) namesUnread(x hclsyntax.Expression) bool {
	isUnread := map[string]bool{}
	for _, addr := range e.Reach(x).Stages {
		outputs, _ := e.Output(addr)
		if outputs == cty.NilVal || !outputs.Type().IsObjectType() || !outputs.Type().HasAttribute("unknown") {
			continue
		}
		unknown := outputs.GetAttr("unknown")
		if !unknown.IsWhollyKnown() || unknown.IsNull() || unknown.IsMarked() {
			continue
		}
		for _, fact := range unknown.AsValueSlice() {
			name, _ := value.KeyText(fact.GetAttr("fact"))
			isUnread[name] = true
			isUnread["gpus"] = isUnread["gpus"] || name == "accelerators" // those of a kind
		}
	}

	if len(isUnread) == 0 {
		return false
	}

	all := []hclsyntax.Expression{x}
	for _, name := range e.findThrough(x) {
		if local := e.site.Locals[strings.TrimPrefix(name, "local.")]; !e.isAllFacts(local.Expr) {
			all = append(all, local.Expr)
		}
	}

	return slices.ContainsFunc(all, func(x hclsyntax.Expression) bool {
		return slices.ContainsFunc(x.Variables(), func(reference hcl.Traversal) bool {
			return e.namesAllFacts(reference) || slices.ContainsFunc(reference, func(step hcl.Traverser) bool {
				name, _, _ := findSecondName(hcl.Traversal{hcl.TraverseRoot{}, step})
				return isUnread[name]
			})
		})
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
