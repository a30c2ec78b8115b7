package builtin

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// anyDetector is the name of a detector in the tree of facts, whose type depends on the site.
const anyDetector = "NAME"

//go:embed reference.yaml
var referenceText []byte

// reference is the prose of the reference, each list in the order in which it is shown. Types come from the stages and
// results from evaluation.
type reference struct {
	Facts       []schema.Fact
	Outputs     map[string][]schema.Output // by stage type, but detect-hw's, which are facts
	Functions   []schema.Function          // that Terraform lacks, or has with another result
	Differences []schema.Difference        // of expressions that Terraform has too
}

func parseReference() reference {
	var r reference
	if err := yaml.UnmarshalStrict(referenceText, &r); err != nil {
		panic(fmt.Sprintf("reference.yaml: %s", err))
	}

	return r
}

// Language returns everything that a site can be written with: blocks, stage types, functions, facts.
func Language() schema.Language {
	ref := parseReference()
	l := schema.Language{Functions: listFunctions(ref), Differences: ref.Differences}

	for _, b := range schema.TopLevel() {
		l.Blocks = append(l.Blocks, schema.TopBlock{
			Block: b,
			Phase: phaseOf(b.Type),
		})
	}

	for _, s := range Stages() {
		l.Stages = append(l.Stages, describeStage(s, ref))

		if s.Spec().Type == stages.DetectHW {
			detectors := map[string]*contract.Description{anyDetector: nil}
			l.Facts = schema.Facts{
				Type: s.Outputs(stages.Declared{Detectors: detectors}),
				Docs: ref.Facts,
			}
		}
	}

	return l
}

// phaseOf returns the phase whose values the expressions of a block may refer to, where it is the same for the whole
// block.
func phaseOf(block string) schema.Phase {
	switch block {
	case "variable", "cluster", "detector":
		return schema.Static
	case "node":
		return schema.Gather
	}

	return schema.OfBlock
}

func describeStage(s stages.Stage, ref reference) schema.StageType {
	spec := s.Spec()
	t := schema.StageType{
		Block:     spec.Block,
		Phase:     spec.Phase,
		Singleton: spec.Singleton,
		Adds:      spec.Adds,
		Meta:      spec.Meta(),
	}

	types := s.Outputs(stages.Declared{}).AttributeTypes()
	for _, o := range outputDocs(spec.Type, ref) {
		if o.Type = types[o.Name]; o.Type != cty.NilType {
			t.Outputs = append(t.Outputs, o)
			delete(types, o.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t.Outputs = append(t.Outputs, schema.Output{Name: name, Type: types[name]})
	}

	state := schema.Output{
		Name: "state",
		Type: cty.String,
		Doc:  "`ok`, `skipped` (`when` is false) or `failed`.",
	}
	t.Outputs = append(t.Outputs, state)

	return t
}

// outputDocs returns the documented outputs of a stage type. Those of detect-hw are the top of the tree of facts.
func outputDocs(stage string, ref reference) []schema.Output {
	if stage != stages.DetectHW {
		return ref.Outputs[stage]
	}

	var out []schema.Output
	for _, f := range ref.Facts {
		if isTop := !strings.ContainsAny(f.Path, ".[{"); isTop {
			first, _, _ := strings.Cut(f.Doc, ". ")
			doc := strings.TrimSuffix(first, ".") + ". See [facts](facts.md#" + f.Path + ")."
			out = append(out, schema.Output{Name: f.Path, Doc: doc})
		}
	}

	return out
}

// listFunctions returns the functions of the language: first those with prose of their own, then the others with the
// library's.
func listFunctions(ref reference) []schema.Function {
	table := functions.All()
	others := maps.Clone(table)

	out := ref.Functions
	for i := range out {
		out[i].Own = true
		delete(others, out[i].Name)

		for j := range out[i].Examples {
			example := &out[i].Examples[j]
			example.Result = evaluate(example.Call, table)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(others)) {
		f := others[name]
		doc := strings.ReplaceAll(f.Description(), `\"`, `"`) // the library escapes twice
		out = append(out, schema.Function{
			Name:  name,
			Usage: usage(name, f),
			Doc:   doc,
		})
	}

	return out
}

func usage(name string, f function.Function) string {
	var params []string
	for _, p := range f.Params() {
		params = append(params, p.Name)
	}
	if v := f.VarParam(); v != nil {
		params = append(params, v.Name+"...")
	}

	return name + "(" + strings.Join(params, ", ") + ")"
}

// evaluate returns the value of an example as JSON, which is also valid in a site. An example that fails is a bug.
func evaluate(text string, table map[string]function.Function) string {
	x, diags := hclsyntax.ParseExpression([]byte(text), "example", hcl.InitialPos)
	if diags.HasErrors() {
		panic(fmt.Sprintf("example %s: %s", text, diags))
	}

	v, diags := x.Value(&hcl.EvalContext{Functions: table})
	if diags.HasErrors() {
		panic(fmt.Sprintf("example %s: %s", text, diags))
	}

	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		panic(fmt.Sprintf("example %s: %s", text, err))
	}

	return string(b)
}
