package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// Default implements schema.Evaluator: the output of the only stage that is meant.
func (s Scope) Default(spec schema.Spec, at hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics) {
	unknown := cty.UnknownVal(spec.Type)
	if s.only != 0 && spec.Phase != s.only {
		return unknown, nil, nil
	}
	if spec.Ref.Optional && len(s.e.candidates(spec.Ref)) == 0 {
		return spec.Default, nil, nil
	}
	i, d := s.e.Choose(spec.Ref, spec.Name, at)
	if d != nil {
		return unknown, nil, hcl.Diagnostics{d}
	}
	brings := i.Range
	if a := i.Body.Attributes[spec.Ref.Having]; a != nil { // what makes it the one: there the object's name stands
		brings = a.SrcRange
	}
	from := []origin.Origin{{Kind: origin.Default, Role: origin.Value, Ref: "stage." + i.Addr() + "." + spec.Ref.Output, Range: brings, Text: "the only one"}}
	out, ok := s.e.Output(i.Addr())
	if !ok || !out.IsKnown() {
		return unknown, from, nil
	}
	v := out.GetAttr(spec.Ref.Output)
	if spec.Ref.Key == "" {
		return v, from, nil
	}
	if !v.IsKnown() {
		return value.Because(unknown, value.Questions(v)), from, nil
	}
	if v.IsNull() || !has(v, spec.Ref.Key) {
		state := ""
		if st := out.GetAttr("state"); st.IsKnown() && st.AsString() != "ok" {
			state = fmt.Sprintf(" (it is %s)", st.AsString())
		}
		code := fault.DefaultChoice
		if state == "" && spec.Ref.Having == "config_map" { // it was fetched: the server's data, which is mended there
			code, at = fault.ClusterUnusable, brings
		}
		return unknown, from, hcl.Diagnostics{origin.Error(code, at, fmt.Sprintf("stage.%s has no key %q", i.Addr(), spec.Ref.Key),
			"%s is not written, so it is that key of the stage's %s%s. It has: %s. Write %s here, or mend the source.", spec.Name, spec.Ref.Output, state, list(v), spec.Name)}
	}
	from[0].Ref += fmt.Sprintf("[%q]", spec.Ref.Key)
	return v.Index(cty.StringVal(spec.Ref.Key)), from, nil
}

func list(v cty.Value) string {
	if v.IsNull() || v.LengthInt() == 0 {
		return "nothing"
	}
	s := ""
	for it := v.ElementIterator(); it.Next(); {
		k, _ := it.Element()
		if s != "" {
			s += ", "
		}
		s += k.AsString()
	}
	return s
}
