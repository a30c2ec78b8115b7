package evaluate

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// The states of a stage, as sites see them in `state`.
const (
	stateOK      = "ok"
	stateSkipped = "skipped"
	stateFailed  = "failed"
)

// withOutput returns a scope in which a stage has an output.
func withOutput(e *eval.Eval, i *lang.Instance, output cty.Value) *eval.Eval {
	return e.With(map[string]cty.Value{i.Addr(): output})
}

func decodeStage(i *lang.Instance, scope eval.Scope) (schema.Body, hcl.Diagnostics) {
	return i.Spec.DecodeAt(i.Body, nil, scope, i.Range)
}

// makeAbsentOutput returns the output of a stage without copies. With for_each it has no keys.
func makeAbsentOutput(i *lang.Instance, t cty.Type, state string) cty.Value {
	if i.ForEach != nil {
		return cty.EmptyObjectVal
	}

	return setState(value.Absent(t), state)
}

// combineOutputs returns the output of a stage from those of its copies, by key.
func combineOutputs(i *lang.Instance, t cty.Type, outputs map[string]cty.Value) cty.Value {
	switch {
	case len(outputs) == 0:
		return makeAbsentOutput(i, t, stateSkipped)
	case i.ForEach != nil:
		return cty.ObjectVal(outputs)
	}

	return outputs[""]
}

// setState returns an output with the attribute `state` that every stage has.
func setState(v cty.Value, state string) cty.Value {
	return setStateValue(v, cty.StringVal(state))
}

// checkKnown refuses an unknown output of a stage on a machine: a value that the evaluation of its block has let pass
// must not be missing from the plan.
func checkKnown(e *eval.Eval, i *lang.Instance, output cty.Value) hcl.Diagnostics {
	if e.IsPartial() || output.IsWhollyKnown() {
		return nil
	}

	return hcl.Diagnostics{origin.Error(
		fault.Internal, i.Range, "A part of the plan is unknown",
		"No missing answer explains the output of stage %s, so this is a bug in prelet. "+
			"Please report it with a recording: prelet record.", i.Addr(),
	)}
}

func setStateValue(v, state cty.Value) cty.Value {
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["state"] = state

	return cty.ObjectVal(m)
}

// makeUnknownOutput returns an output whose attributes, `state` included, are all unknown.
func makeUnknownOutput(i *lang.Instance, t cty.Type) cty.Value {
	output := setStateValue(value.UnknownOutput(t), cty.UnknownVal(cty.String))
	switch {
	case i.ForEach == nil:
		return output
	case output.Type().HasDynamicTypes():
		return cty.DynamicVal
	}

	return cty.UnknownVal(cty.Map(output.Type()))
}
