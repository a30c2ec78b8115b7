package eval

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// Default implements schema.Evaluator: the output of the only stage that the default can refer to.
func (s Scope) Default(
	spec schema.Spec, at hcl.Range,
) (cty.Value, []origin.Origin, hcl.Diagnostics) {
	unknown := cty.UnknownVal(spec.Type)
	if s.only != 0 && spec.Phase != s.only {
		return unknown, nil, nil
	}
	if spec.Ref.Optional && len(s.e.listCandidates(spec.Ref)) == 0 {
		return spec.Default, nil, nil
	}

	stage, d := s.e.Choose(spec.Ref, spec.Name, at)
	if d != nil {
		return unknown, nil, hcl.Diagnostics{d}
	}

	source := stage.Range
	if a := stage.Body.Attributes[spec.Ref.Having]; a != nil { // it has the object's name
		source = a.SrcRange
	}
	ref := "stage." + stage.Addr() + "." + spec.Ref.Output
	if spec.Ref.Key != "" {
		ref += fmt.Sprintf("[%q]", spec.Ref.Key)
	}
	origins := []origin.Origin{{
		Kind: origin.Default, Role: origin.Value, Ref: ref, Range: source, Text: "the only one",
	}}

	outputs, ok := s.e.Output(stage.Addr())
	if !ok || !outputs.IsKnown() {
		return unknown, origins, nil
	}
	v := outputs.GetAttr(spec.Ref.Output)
	switch {
	case spec.Ref.Key == "":
		return v, origins, nil
	case !v.IsKnown():
		return unknown, origins, nil
	case v.IsNull() || !hasKey(v, spec.Ref.Key):
		d := missingKey(spec, stage, outputs, at, source)
		return unknown, origins, hcl.Diagnostics{d}
	}

	return v.Index(cty.StringVal(spec.Ref.Key)), origins, nil
}

// missingKey makes the error for a default whose source lacks the key.
func missingKey(
	spec schema.Spec,
	stage *lang.Instance,
	outputs cty.Value,
	at, source hcl.Range,
) *hcl.Diagnostic {
	state := ""
	if v := outputs.GetAttr("state"); v.IsKnown() && v.AsString() != "ok" {
		state = fmt.Sprintf(" (it is %s)", v.AsString())
	}
	code := fault.DefaultChoice
	if state == "" && spec.Ref.Having == "config_map" {
		// It was fetched, so the data in the cluster must be fixed.
		code = fault.ClusterUnusable
		at = source
	}

	return origin.Error(
		code,
		at,
		fmt.Sprintf("stage.%s has no key %q", stage.Addr(), spec.Ref.Key),
		"%s is not written, so it is that key of the stage's %s%s. It has: %s. Write %s here, or fix the source.",
		spec.Name,
		spec.Ref.Output,
		state,
		listKeys(outputs.GetAttr(spec.Ref.Output)),
		spec.Name,
	)
}

func listKeys(v cty.Value) string {
	if v.IsNull() || v.LengthInt() == 0 {
		return "nothing"
	}

	return strings.Join(sortedKeys(v.AsValueMap()), ", ")
}
