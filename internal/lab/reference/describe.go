package reference

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
	"github.com/prelet/prelet/stages/builtin"
)

// anyDetector is the name of a detector in the tree of facts, whose type depends on the site.
const anyDetector = "NAME"

//go:embed reference.yaml
var proseText []byte

// prose is the prose of the reference, each list in the order in which it is shown. Types come from the stages and
// results from evaluation.
type prose struct {
	Facts       []Fact
	Outputs     map[string][]Output // by stage type, but detect-hw's, which are facts
	Functions   []Function          // that Terraform lacks, or has with another result
	Differences []Difference        // of expressions that Terraform has too
}

func parseProse() prose {
	var r prose
	if err := yaml.UnmarshalStrict(proseText, &r); err != nil {
		panic(fmt.Sprintf("reference.yaml: %s", err))
	}

	return r
}

// Collect returns everything that a site can be written with: blocks, stage types, functions, facts.
func Collect() Language {
	ref := parseProse()
	l := Language{Functions: listFunctions(ref), Differences: ref.Differences}

	for _, b := range schema.TopLevel() {
		l.Blocks = append(l.Blocks, TopBlock{
			Block: b,
			Phase: phaseOf(b.Type),
		})
	}

	for _, s := range builtin.Stages() {
		l.Stages = append(l.Stages, describeStage(s, ref))

		if s.Spec().Type == stages.DetectHW {
			detectors := map[string]*contract.Description{anyDetector: nil}
			l.Facts = Facts{
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

func describeStage(s stages.Stage, ref prose) StageType {
	spec := s.Spec()
	t := StageType{
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
		t.Outputs = append(t.Outputs, Output{Name: name, Type: types[name]})
	}

	state := Output{
		Name: "state",
		Type: cty.String,
		Doc:  "`ok`, `skipped` (`when` is false) or `failed`.",
	}
	t.Outputs = append(t.Outputs, state)

	return t
}

// outputDocs returns the documented outputs of a stage type. Those of detect-hw are the top of the tree of facts.
func outputDocs(stage string, ref prose) []Output {
	if stage != stages.DetectHW {
		return ref.Outputs[stage]
	}

	var out []Output
	for _, f := range ref.Facts {
		if isTop := !strings.ContainsAny(f.Path, ".[{"); isTop {
			first, _, _ := strings.Cut(f.Doc, ". ")
			doc := strings.TrimSuffix(first, ".") + ". See [facts](facts.md#" + f.Path + ")."
			out = append(out, Output{Name: f.Path, Doc: doc})
		}
	}

	return out
}

// listFunctions returns the functions of the language: first those with prose of their own, then the others with the
// library's.
func listFunctions(ref prose) []Function {
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
		out = append(out, Function{
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
