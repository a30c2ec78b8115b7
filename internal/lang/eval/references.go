package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// place is one expression of the site with what it may refer to.
type place struct {
	x     hclsyntax.Expression
	phase schema.Phase // the latest that it may reach
	what  string       // "the cluster block", "stage label.gpu"
	each  bool
	inst  *site.Instance
	block *hclsyntax.Block // a sub-block with for_each of its own

	only     string // the one root that references may have; "": any
	variable string // the one variable; "": any
}

// References checks every reference of the site, before anything is evaluated: that it names something that
// exists, in a phase that is over by then, along attributes that its type has, and that nothing goes in circles.
func (e *Eval) References() hcl.Diagnostics {
	var diags hcl.Diagnostics
	if d := e.cycles(); d.HasErrors() {
		return d
	}
	for _, p := range e.places() {
		diags = append(diags, e.check(p)...)
	}
	return diags
}

func (e *Eval) places() []place {
	var out []place
	add := func(b *hclsyntax.Body, ph schema.Phase, what string) {
		for _, x := range BodyExpressions(b) {
			out = append(out, place{x: x, phase: ph, what: what})
		}
	}
	s := e.site
	add(s.Prelet, schema.Static, "the prelet block")
	add(s.Cluster, schema.Static, "the cluster block")
	add(s.Node, schema.Gather, "the node block")
	for _, n := range slices.Sorted(maps.Keys(s.Detectors)) {
		add(s.Detectors[n].Body, schema.Static, fmt.Sprintf("detector %q", n))
	}
	for _, n := range slices.Sorted(maps.Keys(s.Variables)) {
		for _, r := range s.Variables[n].Rules {
			p := place{x: r.Condition, phase: schema.Static, what: fmt.Sprintf("validation of variable %q", n), only: "var"}
			if s.Variables[n].Sensitive {
				p.variable = n
			}
			said := p
			said.x = r.Message
			out = append(out, p, said)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.Locals)) {
		out = append(out, place{x: s.Locals[n].Expr, phase: schema.Render, what: "local." + n})
	}
	for _, i := range s.Stages {
		what := "stage " + i.Addr()
		for _, x := range []hclsyntax.Expression{i.When, i.ForEach, i.Timeout} {
			if x != nil {
				out = append(out, place{x: x, phase: i.Spec.Phase, what: what, inst: i})
			}
		}
		out = append(out, e.bodyPlaces(i.Body, i.Spec.Block, i, nil, i.Spec.Phase, what)...)
	}
	return out
}

func (e *Eval) bodyPlaces(b *hclsyntax.Body, sb schema.Block, i *site.Instance, within *hclsyntax.Block, ph schema.Phase, what string) []place {
	var out []place
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		phase := ph
		if f, ok := sb.Field(name); ok && f.Phase != schema.OfBlock {
			phase = f.Phase
		}
		each := i.ForEach != nil || within != nil && within.Body.Attributes["for_each"] != nil && name != "for_each"
		out = append(out, place{x: b.Attributes[name].Expr, phase: phase, what: what, each: each, inst: i, block: within})
	}
	for _, x := range b.Blocks {
		nb, ok := sb.Find(x.Type)
		if !ok {
			continue
		}
		in := within
		if nb.ForEach {
			in = x
		}
		out = append(out, e.bodyPlaces(x.Body, nb, i, in, ph, what)...)
	}
	return out
}

func (e *Eval) check(p place) hcl.Diagnostics {
	diags := e.calls(p.x)
	for _, tr := range p.x.Variables() {
		if d := e.traversal(tr, p); d != nil {
			diags = append(diags, d)
		}
	}
	if diags.HasErrors() {
		return diags
	}
	for _, tr := range p.x.Variables() {
		if r := e.Reach(&hclsyntax.ScopeTraversalExpr{Traversal: tr}); r.Phase > p.phase {
			diags = append(diags, origin.Error(fault.Reference, tr.SourceRange(), "Reference to something that comes later",
				"%s may refer to %s. This reaches %s%s.", upper(p.what), allowed(p.phase), strings.Join(later(e, r, p.phase), ", "), via(r)))
		}
	}
	return diags
}

func via(r Reached) string {
	if len(r.Locals) == 0 {
		return ""
	}
	return " (through local." + strings.Join(r.Locals, ", local.") + ")"
}

func later(e *Eval, r Reached, ph schema.Phase) (out []string) {
	for _, a := range r.Stages {
		if i := e.site.Stage(a); i != nil && i.Spec.Phase > ph {
			out = append(out, "stage."+a)
		}
	}
	if r.Node && ph < schema.Render {
		out = append(out, "node.*")
	}
	return out
}

func allowed(p schema.Phase) string {
	switch p {
	case schema.Static:
		return "variables, file() and credential() only, no stage"
	case schema.Gather:
		return "gather stages (fetch-ca, fetch-config, detect-hw) only"
	case schema.Decide:
		return "gather and decide stages, not to write, restart or node.*"
	}
	return "everything"
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

var roots = []string{"var", "local", "stage", "node", "each"}

// traversal checks one reference against what exists.
func (e *Eval) traversal(tr hcl.Traversal, p place) *hcl.Diagnostic {
	root := tr.RootName()
	at := tr.SourceRange()
	name, nameRange, ok := second(tr)
	bad := func(r hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
		return origin.Error(fault.Reference, r, summary, detail, args...)
	}
	if slices.Contains(roots, root) && (p.only != "" && root != p.only || p.variable != "" && ok && name != p.variable) {
		may := p.only + ".*"
		if p.variable != "" {
			may = "var." + p.variable
		}
		return bad(at, "Reference to something that comes later", "%s may refer to %s only: it is judged before anything else is known.", upper(p.what), may)
	}
	var typ cty.Type
	rest := 2
	switch root {
	case "var":
		if !ok {
			return bad(at, "var stands alone", "Write var.NAME. %s", schema.Suggest("", keys(e.site.Variables)))
		}
		v := e.site.Variables[name]
		if v == nil {
			return bad(nameRange, fmt.Sprintf("There is no variable %q", name), "%s", undeclared(name, keys(e.site.Variables)))
		}
		typ = v.Type
	case "local":
		if !ok {
			return bad(at, "local stands alone", "Write local.NAME. %s", schema.Suggest("", keys(e.site.Locals)))
		}
		if e.site.Locals[name] == nil {
			return bad(nameRange, fmt.Sprintf("There is no local %q", name), "%s", schema.Suggest(name, keys(e.site.Locals)))
		}
		v, _ := e.Local(name)
		typ = v.Type()
	case "stage":
		types := map[string]bool{}
		for _, i := range e.site.Stages {
			types[i.Type] = true
		}
		if !ok {
			return bad(at, "stage stands alone", "Write stage.TYPE.NAME.OUTPUT. %s", schema.Suggest("", keys(types)))
		}
		if !types[name] {
			return bad(nameRange, fmt.Sprintf("There is no stage of type %q", name), "%s", schema.Suggest(name, keys(types)))
		}
		if len(tr) < 3 {
			return bad(at, "stage."+name+" stands alone", "Write stage.%s.NAME.OUTPUT. %s", name, schema.Suggest("", e.names(name)))
		}
		n, r, ok := second(tr[1:])
		i := (*site.Instance)(nil)
		if ok {
			i = e.site.Stage(name + "." + n)
		}
		if i == nil {
			return bad(r, fmt.Sprintf("There is no stage %s %q", name, n), "%s", schema.Suggest(n, e.names(name)))
		}
		v, known := e.Output(i.Addr())
		if !known {
			return nil
		}
		typ, rest = v.Type(), 3
		if i.ForEach != nil {
			typ = copiesType(i)
		}
	case "node":
		if !ok {
			return bad(at, "node stands alone", "Write node.labels, node.taints, node.flags, node.kubelet_config or node.reserved.")
		}
		typ, rest = NodeType(), 1
	case "each":
		if !p.each {
			return bad(at, "each outside for_each", "each.key and each.value are there in blocks with for_each.")
		}
		if !ok || name != "key" && name != "value" {
			return bad(at, "each has key and value", "Write each.key or each.value. %s", schema.Suggest(name, []string{"key", "value"}))
		}
		if name == "key" {
			typ = cty.String
		} else if typ = e.eachType(p); typ == cty.NilType {
			return nil
		}
	default:
		if e.isInterpolated(at) {
			return bad(at, fmt.Sprintf("Unknown name %q", root), "${…} in a text is a reference, which begins with var., local., stage., node. or each. To write ${ itself: $${%s}.", root)
		}
		return bad(at, fmt.Sprintf("Unknown name %q", root), "References begin with var., local., stage., node. or each.%s A text is written in quotes: %q.", e.suggestRoot(root), root)
	}
	if d := e.along(tr[rest:], typ, tr[:rest]); d != nil || root != "stage" {
		return d
	}

	return e.checkFetched(tr)
}

// checkFetched warns of data of a fetch-config that fetches a file, and of value of one that fetches a ConfigMap: they are
// empty and null.
func (e *Eval) checkFetched(tr hcl.Traversal) *hcl.Diagnostic {
	if len(tr) < 4 {
		return nil
	}
	kind, _, _ := second(tr)
	name, _, _ := second(tr[1:])
	i := e.site.Stage(kind + "." + name)
	if kind != "fetch-config" || i == nil {
		return nil
	}
	before := tr[:3]
	if i.ForEach != nil {
		before = tr[:min(4, len(tr)-1)]
	}
	output, at, _ := second(tr[len(before)-1:])
	hasMap, hasFile := i.Body.Attributes["config_map"] != nil, i.Body.Attributes["file"] != nil
	switch {
	case output == "data" && hasFile && !hasMap:
		return origin.Warning(fault.Reference, at, text(before)+" fetches a file", "Its data is always empty, for it is that of a ConfigMap. The file is in %s.value.", text(before))
	case output == "value" && hasMap && !hasFile:
		return origin.Warning(fault.Reference, at, text(before)+" fetches a ConfigMap", "Its value is always null, for it is that of a file. Write yamldecode(%s.data.KEY).", text(before))
	}

	return nil
}

// copiesType is the type of a stage with for_each: a map of what one copy gives, as far as its stage declares it.
func copiesType(i *site.Instance) cty.Type {
	m := map[string]cty.Type{"state": cty.String}
	maps.Copy(m, i.Stage.Outputs(stages.Declared{}).AttributeTypes()) // no type with for_each has detectors in it
	return cty.Map(cty.Object(m))
}

// isInterpolated reports whether a name is all that a ${…} of a text holds, as that of a shell's variable.
func (e *Eval) isInterpolated(at hcl.Range) bool {
	src := e.site.Sources[at.Filename]
	if at.Start.Byte < 2 || at.End.Byte >= len(src) {
		return false
	}
	return string(src[at.Start.Byte-2:at.Start.Byte]) == "${" && strings.ContainsRune("}:", rune(src[at.End.Byte]))
}

// suggestRoot is for a reference whose first name is none: mostly its prefix was forgotten.
func (e *Eval) suggestRoot(word string) string {
	prefix := ""
	switch {
	case len(e.site.OfType(word)) > 0:
		prefix = "stage"
	case slices.Contains(keys(e.site.Locals), word):
		prefix = "local"
	case slices.Contains(keys(e.site.Variables), word):
		prefix = "var"
	}
	if prefix != "" {
		return fmt.Sprintf(" Did you mean %s.%s?", prefix, word)
	}
	if s := schema.Nearest(word, roots); s != "" {
		return fmt.Sprintf(" Did you mean %q?", s)
	}
	return ""
}

func (e *Eval) names(typ string) (out []string) {
	for _, i := range e.site.OfType(typ) {
		out = append(out, i.Name)
	}
	return out
}

// eachType is the type of each.value where for_each is evaluated with nothing known.
func (e *Eval) eachType(p place) cty.Type {
	x := p.inst.ForEach
	if p.block != nil {
		if a := p.block.Body.Attributes["for_each"]; a != nil {
			x = a.Expr
		}
	}
	if x == nil {
		return cty.NilType
	}
	v, d := e.Value(x, cty.NilVal)
	if d.HasErrors() {
		return cty.NilType
	}
	switch t := v.Type(); {
	case t.IsMapType(), t.IsSetType():
		return t.ElementType()
	case t.IsObjectType():
		return common(t)
	}
	return cty.NilType
}

// common is the type that all attributes of an object have; cty.NilType where they differ: evaluation checks each.
func common(t cty.Type) cty.Type {
	out := cty.NilType
	for _, a := range t.AttributeTypes() {
		if out != cty.NilType && !out.Equals(a) {
			return cty.NilType
		}
		out = a
	}
	return out
}

// along follows the rest of a traversal through a type.
func (e *Eval) along(steps hcl.Traversal, t cty.Type, before hcl.Traversal) *hcl.Diagnostic {
	for _, st := range steps {
		if t == cty.DynamicPseudoType {
			return nil
		}
		var name string
		var r hcl.Range
		switch st := st.(type) {
		case hcl.TraverseAttr:
			name, r = st.Name, st.SrcRange
		case hcl.TraverseIndex:
			r = st.SrcRange
			if st.Key.Type() == cty.String && t.IsObjectType() {
				name = st.Key.AsString()
			} else {
				switch {
				case t.IsListType(), t.IsMapType():
					t = t.ElementType()
					before = append(slices.Clone(before), st)
					continue
				default:
					return nil // evaluation on the unknown machine says what is wrong
				}
			}
		default:
			return nil
		}
		switch {
		case t.IsMapType():
			t = t.ElementType()
		case t.IsObjectType():
			if !t.HasAttribute(name) {
				return origin.Error(fault.Reference, r, fmt.Sprintf("%s has no %q", text(before), name), "%s", schema.Suggest(name, keys(t.AttributeTypes())))
			}
			t = t.AttributeType(name)
		case t.IsListType(), t.IsSetType(), t.IsTupleType():
			return origin.Error(fault.Reference, r, fmt.Sprintf("%s is a list", text(before)), "Choose an element, %s[0].%s, or go over all: [for x in %s : x.%s]. Or filter by where().", text(before), name, text(before), name)
		default:
			return origin.Error(fault.Reference, r, fmt.Sprintf("%s has no attributes", text(before)), "It is a %s.", schema.TypeName(t))
		}
		before = append(slices.Clone(before), st)
	}
	return nil
}

func text(tr hcl.Traversal) string {
	var b strings.Builder
	for _, st := range tr {
		switch st := st.(type) {
		case hcl.TraverseRoot:
			b.WriteString(st.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + st.Name)
		case hcl.TraverseIndex:
			if k, ok := keyText(st.Key); ok && st.Key.Type() == cty.String {
				fmt.Fprintf(&b, "[%q]", k)
			} else {
				fmt.Fprintf(&b, "[%s]", k)
			}
		}
	}
	return b.String()
}

func keys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// NodeType is the type of `node`: plan JSON has the same names, with origins.
func NodeType() cty.Type {
	return cty.Object(map[string]cty.Type{
		"labels": cty.Map(cty.String), "flags": cty.Map(cty.String), "taints": cty.List(cty.String),
		"kubelet_config": cty.DynamicPseudoType,
		"reserved": cty.Object(map[string]cty.Type{
			"policy": cty.String, "kube_reserved": cty.Map(cty.String), "system_reserved": cty.Map(cty.String),
			"reserved_cpus": cty.String, "eviction_hard": cty.Map(cty.String), "allocatable": cty.Map(cty.String), "max_pods": cty.Number}),
	})
}

// undeclared says what a reference to a variable that nobody declares may have meant.
func undeclared(name string, known []string) string {
	declare := fmt.Sprintf("variable %q {}", name)
	if len(known) == 0 {
		return "The site declares no variables: add " + declare + ", or write the value itself."
	}
	return schema.Suggest(name, known) + " Or declare it: " + declare
}
