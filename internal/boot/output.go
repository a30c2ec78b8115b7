package boot

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/value"
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

// decodeStage decodes the block of a stage.
func decodeStage(i *lang.Instance, scope eval.Scope) (schema.Body, hcl.Diagnostics) {
	return i.Spec.DecodeAt(i.Body, nil, scope, i.Range)
}

// makeFailedOutput returns the output of a stage that failed before it had copies. With for_each it has no keys.
func makeFailedOutput(i *lang.Instance, t cty.Type) cty.Value {
	if i.ForEach != nil {
		return cty.EmptyObjectVal
	}

	return setState(value.Absent(t), stateFailed)
}

// makeObject returns an object with these attributes; unlike cty.ObjectVal, it accepts none too.
func makeObject(m map[string]cty.Value) cty.Value {
	if len(m) == 0 {
		return cty.EmptyObjectVal
	}

	return cty.ObjectVal(m)
}

// setState returns an output with the attribute `state` that every stage has.
func setState(v cty.Value, state string) cty.Value {
	return setStateValue(v, cty.StringVal(state))
}

func setStateValue(v, state cty.Value) cty.Value {
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["state"] = state

	return cty.ObjectVal(m)
}

// makeUnreadOutput returns the output of a copy that may be ok or failed, because those questions have no answer.
func makeUnreadOutput(v cty.Value, questions []string) cty.Value {
	return value.Because(setStateValue(v, cty.UnknownVal(cty.String)), questions)
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
