package builtin

import (
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Language is everything that a site can be written with, for the reference: blocks, stage types, functions, facts.
func Language() schema.Language {
	l := schema.Language{Functions: functions(), Differences: differences()}
	for _, b := range schema.TopLevel() {
		l.Blocks = append(l.Blocks, schema.TopBlock{Block: b, Phase: phaseOf(b.Type)})
	}
	for _, s := range Stages() {
		l.Stages = append(l.Stages, describe(s))
		if s.Spec().Type == "detect-hw" {
			l.Facts = schema.Facts{Type: s.Outputs(stages.Declared{Detectors: map[string]*contract.Description{anyDetector: nil}}), Docs: facts()}
		}
	}
	return l
}

// anyDetector stands for the name of a detector in the tree of facts, whose type depends on the site.
const anyDetector = "NAME"

// phaseOf says what the expressions of a block may refer to, where one answer holds for the whole block.
func phaseOf(block string) schema.Phase {
	switch block {
	case "variable", "cluster", "detector":
		return schema.Static
	case "node":
		return schema.Gather
	}
	return schema.OfBlock
}

func describe(s stages.Stage) schema.StageType {
	spec := s.Spec()
	t := schema.StageType{Block: spec.Block, Phase: spec.Phase, Singleton: spec.Singleton, Meta: meta(spec)}
	types := s.Outputs(stages.Declared{}).AttributeTypes()
	docs := outputDocs(spec.Type)
	for _, d := range docs {
		if typ, ok := types[d.Name]; ok {
			t.Outputs = append(t.Outputs, schema.Output{Name: d.Name, Type: typ, Doc: d.Doc})
			delete(types, d.Name)
		}
	}
	var rest []string
	for n := range types {
		rest = append(rest, n)
	}
	slices.Sort(rest)
	for _, n := range rest {
		t.Outputs = append(t.Outputs, schema.Output{Name: n, Type: types[n]})
	}
	t.Outputs = append(t.Outputs, schema.Output{Name: "state", Type: cty.String, Doc: "`ok`, `skipped` (`when` is false) or `failed`."})
	return t
}

// meta lists the arguments that a stage of this type takes beside its own.
func meta(spec stages.Spec) []schema.Field {
	out := []schema.Field{schema.When}
	if spec.ForEach {
		out = append(out, schema.ForEach)
	}
	if spec.Timeout > 0 {
		t := schema.Timeout
		t.Default = spec.Timeout.String()
		out = append(out, t)
	}
	if spec.Bounds != nil {
		out = append(out, *spec.Bounds)
	}
	if spec.Phase == schema.Gather {
		out = append(out, schema.OnFailure)
	}
	return out
}

// top is the name of a fact that stands at the top of the tree.
func top(path string) (string, bool) { return path, !strings.ContainsAny(path, ".[{") }
