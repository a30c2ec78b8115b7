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
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// place is an expression of the site with the references that it may contain.
type place struct {
	x     hclsyntax.Expression
	phase schema.Phase // the latest that it may refer to
	owner string       // "the cluster block", "stage label.gpu"

	hasEach bool
	stage   *lang.Instance
	block   *hclsyntax.Block // a block inside of the stage with for_each of its own

	isRule   bool   // of a variable: only variables are known
	variable string // the one variable that it may refer to; "": any
}

// References checks every reference of the site before anything is evaluated: the target exists, belongs to an earlier
// phase and has the attributes, and no references form a cycle.
func (e *Eval) References() hcl.Diagnostics {
	if d := e.findCycle(); d != nil {
		return hcl.Diagnostics{d}
	}

	var diags hcl.Diagnostics
	for _, p := range e.places() {
		diags = append(diags, e.checkPlace(p)...)
	}

	return diags
}

func (e *Eval) places() []place {
	var places []place
	add := func(b *hclsyntax.Body, phase schema.Phase, owner string) {
		for _, x := range BodyExpressions(b) {
			places = append(places, place{
				x:     x,
				phase: phase,
				owner: owner,
			})
		}
	}

	s := e.site
	add(s.Prelet, schema.Static, "the prelet block")
	add(s.Cluster, schema.Static, "the cluster block")
	add(s.Node, schema.Gather, "the node block")
	for _, name := range s.DetectorNames() {
		add(s.Detectors[name].Body, schema.Static, fmt.Sprintf("detector %q", name))
	}
	for _, name := range sortedKeys(s.Variables) {
		places = append(places, rulePlaces(s.Variables[name])...)
	}
	for _, name := range sortedKeys(s.Locals) {
		places = append(
			places,
			place{
				x:     s.Locals[name].Expr,
				phase: schema.Render,
				owner: "local." + name,
			},
		)
	}
	for _, i := range s.Stages {
		p := place{
			phase: i.Spec.Phase,
			owner: "stage " + i.Addr(),
			stage: i,
		}
		for _, x := range []hclsyntax.Expression{i.When, i.ForEach, i.Timeout} {
			if x != nil {
				p.x = x
				places = append(places, p)
			}
		}
		places = append(places, bodyPlaces(i.Body, i.Spec.Block, p)...)
	}

	return places
}

// rulePlaces returns the conditions and messages of a variable's rules.
func rulePlaces(v *lang.Variable) (places []place) {
	p := place{
		phase:  schema.Static,
		owner:  fmt.Sprintf("validation of variable %q", v.Name),
		isRule: true,
	}
	if v.Sensitive {
		p.variable = v.Name
	}
	for _, rule := range v.Rules {
		for _, x := range []hclsyntax.Expression{rule.Condition, rule.Message} {
			p.x = x
			places = append(places, p)
		}
	}

	return places
}

// bodyPlaces returns the attributes of a stage's body and of the blocks in it. outer has what they share.
func bodyPlaces(b *hclsyntax.Body, declared schema.Block, outer place) (places []place) {
	for _, name := range sortedKeys(b.Attributes) {
		p := outer
		p.x = b.Attributes[name].Expr
		if f, ok := declared.Field(name); ok && f.Phase != schema.OfBlock {
			p.phase = f.Phase
		}
		blockHasEach := p.block != nil && p.block.Body.Attributes["for_each"] != nil &&
			name != "for_each"
		p.hasEach = p.stage.ForEach != nil || blockHasEach
		places = append(places, p)
	}

	for _, block := range b.Blocks {
		d, ok := declared.Find(block.Type)
		if !ok {
			continue
		}
		inner := outer
		if d.ForEach {
			inner.block = block
		}
		places = append(places, bodyPlaces(block.Body, d, inner)...)
	}

	return places
}

func (e *Eval) checkPlace(p place) hcl.Diagnostics {
	diags := e.checkCalls(p.x)
	for _, reference := range p.x.Variables() {
		if d := e.checkReference(reference, p); d != nil {
			diags = append(diags, d)
		}
	}
	if diags.HasErrors() {
		return diags
	}
	diags = append(diags, e.checkComparisons(p.x)...)

	for _, reference := range p.x.Variables() {
		x := &hclsyntax.ScopeTraversalExpr{Traversal: reference}
		if e.Reach(x).Phase > p.phase {
			diags = append(diags, e.refuseLater(x, p))
		}
	}

	return diags
}

// refuseLater makes the error for a reference to a later phase.
func (e *Eval) refuseLater(x *hclsyntax.ScopeTraversalExpr, p place) *hcl.Diagnostic {
	reached := e.Reach(x)
	var targets []string
	for _, addr := range reached.Stages {
		if i := e.site.Stage(addr); i != nil && i.Spec.Phase > p.phase {
			targets = append(targets, "stage."+addr)
		}
	}
	if reached.Node && p.phase < schema.Render {
		targets = append(targets, "node.*")
	}

	through := ""
	if names := e.findThrough(x); len(names) > 0 {
		through = " (through " + strings.Join(shortenPath(names), ", ") + ")"
	}

	return origin.Error(
		fault.Reference,
		x.Traversal.SourceRange(),
		"Reference to something that comes later",
		"%s may refer to %s. This reaches %s%s.",
		origin.Capitalize(p.owner),
		describeAllowed(p.phase),
		strings.Join(targets, ", "),
		through,
	)
}

func describeAllowed(p schema.Phase) string {
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

var roots = []string{"var", "local", "stage", "node", "each"}

func refuse(at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return origin.Error(fault.Reference, at, summary, detail, args...)
}

// checkReference checks one reference against what exists.
func (e *Eval) checkReference(reference hcl.Traversal, p place) *hcl.Diagnostic {
	d := checkRule(reference, p)
	if d == nil {
		d = e.checkDeclared(reference)
	}
	if d != nil {
		return d
	}

	root := reference.RootName()
	v, isName := e.names[root]
	known := 1 // the steps that lead to a value of type t
	var t cty.Type
	switch {
	case root == "var":
		name, _, _ := findSecondName(reference)
		t, known = e.site.Variables[name].Type, 2
	case root == "local":
		name, _, _ := findSecondName(reference)
		local, _ := e.Local(name) // each use reports its errors
		t, known = local.Type(), 2
	case root == "stage":
		t, known = e.typeOfStage(reference), 3
	case root == "node":
		t = e.nodeType()
	case root == "each" && !p.hasEach:
		return refuse(reference.SourceRange(), "each outside for_each",
			"each.key and each.value exist in blocks with for_each.")
	case root == "each":
		t = cty.Object(map[string]cty.Type{"key": cty.String, "value": cty.DynamicPseudoType})
	case isName:
		t = v.Type()
	default:
		return e.unknownRoot(reference)
	}

	switch isBare := len(reference) == 1; {
	case isBare && t.IsObjectType() && !isName:
		return needName(reference, root+".NAME", sortedKeys(t.AttributeTypes()))
	case root == "stage":
		if d := e.checkSteps(reference[known:], t, reference[:known]); d != nil {
			return d
		}
		return e.checkFetched(reference)
	}

	return e.checkSteps(reference[known:], t, reference[:known])
}

// checkRule refuses references that a variable's rule must not contain.
func checkRule(reference hcl.Traversal, p place) *hcl.Diagnostic {
	if !p.isRule || !slices.Contains(roots, reference.RootName()) {
		return nil
	}

	name, _, ok := findSecondName(reference)
	isOther := p.variable != "" && ok && name != p.variable
	if reference.RootName() == "var" && !isOther {
		return nil
	}
	allowed := "var.*"
	if p.variable != "" {
		allowed = "var." + p.variable
	}

	return refuse(
		reference.SourceRange(),
		"Reference to something that comes later",
		"%s may refer to %s only: it is evaluated before anything else is known.",
		origin.Capitalize(p.owner),
		allowed,
	)
}

// checkDeclared checks the names of a reference that the site declares: NAME of var.NAME and local.NAME, TYPE and NAME
// of stage.TYPE.NAME.
func (e *Eval) checkDeclared(reference hcl.Traversal) *hcl.Diagnostic {
	type level struct{ noun, form string }
	levels := map[string][]level{
		"var":   {{"variable", "NAME"}},
		"local": {{"local", "NAME"}},
		"stage": {{"stage type", "TYPE.NAME.OUTPUT"}, {"stage", "NAME.OUTPUT"}},
	}
	path := reference.RootName()

	for n, l := range levels[path] {
		names := e.declared[path]
		name, at, ok := findSecondName(reference[n:])
		switch {
		case !ok:
			return needName(reference, path+"."+l.form, sortedKeys(names))
		case names[name]:
			path += "." + name
			continue
		}

		if n > 0 {
			l.noun += " " + strings.TrimPrefix(path, "stage.")
		}
		next := schema.Suggest(name, sortedKeys(names))
		if path == "var" {
			next = suggestVariable(name, sortedKeys(names))
		} else if path == "local" && len(names) == 0 {
			next = fmt.Sprintf("The site has no locals: write locals { %s = … }, outside of all other blocks.", name)
		} else if found := e.findReference(name); found != "" {
			next = fmt.Sprintf("Did you mean %s?", found)
		}

		return refuse(at, fmt.Sprintf("Unknown %s %q", l.noun, name), "%s", next)
	}

	return nil
}

// listDeclared returns the names that a site declares, by the part of a reference that they follow: var, local, stage
// and stage.TYPE.
func listDeclared(s *lang.Site) map[string]map[string]bool {
	declared := map[string]map[string]bool{"var": {}, "local": {}, "stage": {}}
	for name := range s.Variables {
		declared["var"][name] = true
	}
	for name := range s.Locals {
		declared["local"][name] = true
	}
	for _, i := range s.Stages {
		of := "stage." + i.Type
		if declared[of] == nil {
			declared[of] = map[string]bool{}
		}
		declared["stage"][i.Type] = true
		declared[of][i.Name] = true
	}

	return declared
}

// needName makes the error for a reference that ends before a name, where it goes on in the given form.
func needName(reference hcl.Traversal, form string, names []string) *hcl.Diagnostic {
	summary := formatReference(reference) + " needs a name"

	return refuse(reference.SourceRange(), summary, "Write %s. %s", form, schema.Suggest("", names))
}

// suggestVariable returns the next step for a reference to a variable that the site does not declare.
func suggestVariable(name string, known []string) string {
	declaration := fmt.Sprintf("variable %q {}", name)
	if len(known) == 0 {
		return "The site declares no variables: add " + declaration + ", or write the value itself."
	}

	return schema.Suggest(name, known) + " Or declare it: " + declaration
}

// typeOfStage returns the type of the outputs of a stage: any before the stage has some.
func (e *Eval) typeOfStage(reference hcl.Traversal) cty.Type {
	i := e.stageOf(reference)
	output, ok := e.Output(i.Addr())
	switch {
	case !ok:
		return cty.DynamicPseudoType
	case i.ForEach != nil:
		attributes := map[string]cty.Type{"state": cty.String}
		declared := i.Stage.Outputs(stages.Declared{}) // types with for_each have no detectors
		maps.Copy(attributes, declared.AttributeTypes())
		return cty.Map(cty.Object(attributes)) // by key
	}

	return output.Type()
}

// stageOf returns the stage of a reference stage.TYPE.NAME, or nil.
func (e *Eval) stageOf(reference hcl.Traversal) *lang.Instance {
	return e.site.Stage(strings.TrimPrefix(nameOf(reference), "stage."))
}

// unknownRoot makes the error for a reference whose first name is none of roots.
func (e *Eval) unknownRoot(reference hcl.Traversal) *hcl.Diagnostic {
	root := reference.RootName()
	at := reference.SourceRange()
	summary := fmt.Sprintf("Unknown name %q", root)
	if root == "path" && e.isInterpolated(at) {
		return refuse(at, summary, "A site has no path.module: templatefile(NAME, VARS) and sitedata(NAME) find "+
			"the files of the site by their names. To write ${ itself: $${path}.")
	}
	if word := strings.TrimPrefix(root, "end"); e.isInterpolated(at) && slices.Contains(directiveWords, word) {
		return refuse(at, summary, "A directive begins with %%: write %%{ %s }.", root)
	}
	if e.isInterpolated(at) {
		return refuse(
			at,
			summary,
			"${…} in a text is a reference, which begins with %s To write ${ itself: $${%s}.",
			e.listRoots(),
			root,
		)
	}

	if word := wordOf(root); word != "" {
		return refuse(at, summary, "Write %s, without quotes. A text is written in quotes: %q.", word, root)
	}

	return refuse(
		at,
		summary,
		"References begin with %s%s A text is written in quotes: %q.",
		e.listRoots(),
		e.suggestRoot(reference),
		textOf(reference),
	)
}

// textOf returns a reference as the text that it may have been meant as: a word, or the name of a file.
func textOf(reference hcl.Traversal) string {
	text := formatReference(reference)
	if strings.Contains(text, "[") {
		return reference.RootName()
	}

	return text
}

// wordOf returns the word of the language for one of others; "" for none.
func wordOf(name string) string {
	switch strings.ToLower(name) {
	case "none", "nil", "null", "undefined", "nan":
		return "null"
	case "true", "yes", "on":
		return "true"
	case "false", "no", "off":
		return "false"
	}

	return ""
}

// listRoots returns the first names of references, as a part of a sentence.
func (e *Eval) listRoots() string {
	all := slices.Concat(roots, sortedKeys(e.names))
	last := len(all) - 1

	return strings.Join(all[:last], "., ") + ". or " + all[last] + "."
}

// nodeType returns the type of `node`: that of its value, if it has one. Which fields the kubelet's configuration has
// depends on the plan, so the evaluation looks for them.
func (e *Eval) nodeType() cty.Type {
	t := e.node().Type()
	if !t.IsObjectType() {
		return NodeType()
	}
	types := maps.Clone(t.AttributeTypes())
	types["kubelet_config"] = cty.DynamicPseudoType

	return cty.Object(types)
}

// isInterpolated reports whether a name is all that a ${…} of a text holds, as that of a shell's variable.
func (e *Eval) isInterpolated(at hcl.Range) bool {
	source := e.site.Sources[at.Filename]
	if at.Start.Byte < 2 || at.End.Byte >= len(source) {
		return false
	}
	before := string(source[at.Start.Byte-2 : at.Start.Byte])
	after := source[at.End.Byte]

	return before == "${" && (after == '}' || after == ':')
}

// directiveWords are the words of a template's directives, without end.
var directiveWords = []string{"if", "for", "else"}

// findReference returns the reference to a name in the finished node, in the outputs of one stage, or among the
// detectors; "" if the name is in none or several of them.
func (e *Eval) findReference(name string) string {
	for _, known := range []string{name, name + "s"} {
		if NodeType().HasAttribute(known) {
			return "node." + known
		}
	}

	var found []string
	for _, i := range e.site.Stages {
		output, isKnown := e.Output(i.Addr())
		if t := output.Type(); isKnown && i.ForEach == nil && t.IsObjectType() {
			if t.HasAttribute(name) {
				found = append(found, "stage."+i.Addr()+"."+name)
			}
			if i.Type == stages.DetectHW && t.AttributeType("detectors").HasAttribute(name) {
				found = append(found, "stage."+i.Addr()+".detectors."+name)
			}
		}
	}
	if len(found) != 1 {
		return ""
	}

	return found[0]
}

// suggestRoot returns the prefix that was probably forgotten, as a sentence.
func (e *Eval) suggestRoot(reference hcl.Traversal) string {
	name := reference.RootName()
	if second, _, ok := findSecondName(reference); ok && strings.TrimSuffix(name, "s") == "detector" {
		stage := stages.DetectHW + ".NAME"
		if all := e.site.OfType(stages.DetectHW); len(all) > 0 {
			stage = all[0].Addr()
		}
		return fmt.Sprintf(" The report of a detector is stage.%s.detectors.%s.", stage, second)
	}

	prefix := ""
	switch {
	case len(e.site.OfType(name)) > 0:
		prefix = "stage"
	case e.site.Locals[name] != nil:
		prefix = "local"
	case e.site.Variables[name] != nil:
		prefix = "var"
	}
	if prefix != "" {
		return fmt.Sprintf(" Did you mean %s.%s?", prefix, name)
	}
	if found := e.findReference(name); found != "" {
		return fmt.Sprintf(" Did you mean %s?", found)
	}
	if s := texts.Nearest(name, roots); s != "" && len(name) > 2 {
		return fmt.Sprintf(" Did you mean %q?", s)
	}

	return ""
}

// checkFetched warns of a fetch-config's data where it fetches a file, and of its value where it fetches a ConfigMap:
// they are empty and null.
func (e *Eval) checkFetched(reference hcl.Traversal) *hcl.Diagnostic {
	if len(reference) < 4 {
		return nil
	}
	i := e.stageOf(reference)
	if i == nil || i.Type != "fetch-config" {
		return nil
	}

	stage := reference[:3]
	if i.ForEach != nil {
		stage = reference[:min(4, len(reference)-1)]
	}
	output, at, _ := findSecondName(reference[len(stage)-1:])
	hasMap := i.Body.Attributes["config_map"] != nil
	hasFile := i.Body.Attributes["file"] != nil
	name := formatReference(stage)
	switch {
	case output == "data" && hasFile && !hasMap:
		return origin.Warning(
			fault.Reference,
			at,
			name+" fetches a file",
			"Its data is always empty, for it is that of a ConfigMap. The file is in %s.value.",
			name,
		)
	case output == "value" && hasMap && !hasFile:
		return origin.Warning(
			fault.Reference,
			at,
			name+" fetches a ConfigMap",
			"Its value is always null, for it is that of a file. Write yamldecode(%s.data.KEY).",
			name,
		)
	}

	return nil
}

// checkSteps follows the steps of a reference through a type. before is the part of the reference that has that type.
func (e *Eval) checkSteps(steps hcl.Traversal, t cty.Type, before hcl.Traversal) *hcl.Diagnostic {
	for n, step := range steps {
		if t == cty.DynamicPseudoType {
			return nil
		}

		name, at, isName := findSecondName(hcl.Traversal{hcl.TraverseRoot{}, step})
		_, isIndex := step.(hcl.TraverseIndex)
		if isIndex && (!isName || !t.IsObjectType()) {
			if !t.IsListType() && !t.IsMapType() {
				return nil // evaluation in check mode finds the error
			}
			t = t.ElementType()
			continue
		}
		if !isName {
			return nil
		}

		owner := formatReference(slices.Concat(before, steps[:n]))
		isCount := slices.Contains([]string{"count", "length", "len", "size"}, name)
		switch {
		case t.IsMapType():
			t = t.ElementType()
		case t.IsObjectType() && t.HasAttribute(name):
			t = t.AttributeType(name)
		case t.IsObjectType():
			return e.refuseAttribute(at, owner, name, sortedKeys(t.AttributeTypes()))
		case isCount && (t.IsListType() || t.IsSetType() || t.IsTupleType()):
			return refuse(at, owner+" is a list", "Its length is length(%s).", owner)
		case t.IsListType(), t.IsSetType(), t.IsTupleType():
			return refuse(
				at,
				owner+" is a list",
				"Choose an element, %[1]s[0].%[2]s, or go over all: "+
					"[for x in %[1]s : x.%[2]s]. Or filter by where().",
				owner,
				name,
			)
		default:
			return refuse(at, owner+" has no attributes", "It is a %s.", schema.TypeName(t))
		}
	}

	return nil
}

// refuseAttribute makes the error for an attribute that an object does not have.
func (e *Eval) refuseAttribute(at hcl.Range, owner, name string, known []string) *hcl.Diagnostic {
	next := schema.Suggest(name, known)
	isNear := texts.Nearest(name, known) != ""
	found := ""
	if !isNear && strings.HasPrefix(owner, "stage.") {
		found = e.findReference(name)
	}
	switch {
	case !isNear && strings.HasSuffix(owner, ".detectors"):
		next = fmt.Sprintf("The site declares no detector of this name: add detector %q {}.", name)
	case owner == "node" && name == "name":
		next = "Only a test knows the name. The kubelet itself labels the Node with it: kubernetes.io/hostname."
	case owner == "node" && name == "ip": // the argument of the block
		next = `For ip of the node block, write node.flags["node-ip"].`
	case found != "" && found != owner+"."+name:
		next = fmt.Sprintf("Did you mean %s?", found)
	}

	return refuse(at, fmt.Sprintf("%s has no %q", owner, name), "%s", next)
}

func formatReference(reference hcl.Traversal) string {
	text := reference.RootName()
	for _, step := range reference[1:] {
		key, _ := value.StepKey(step)
		text += value.FormatStep(key)
	}

	return text
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}

// NodeType is the type of `node`. Plan JSON has the same names, with origins.
func NodeType() cty.Type {
	texts := cty.Map(cty.String)
	return cty.Object(map[string]cty.Type{
		"labels":         texts,
		"flags":          texts,
		"taints":         cty.List(cty.String),
		"kubelet_config": cty.DynamicPseudoType,
		"reserved": cty.Object(map[string]cty.Type{
			"policy":          cty.String,
			"kube_reserved":   texts,
			"system_reserved": texts,
			"reserved_cpus":   cty.String,
			"eviction_hard":   texts,
			"allocatable":     texts,
			"max_pods":        cty.Number,
		}),
	})
}
