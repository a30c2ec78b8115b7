package boot

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
)

// The states of a stage, as sites see them in `state`.
const (
	stateOK      = "ok"
	stateSkipped = "skipped"
	stateFailed  = "failed"
)

// failedOutput is the output of a stage of which not one copy was made. With for_each it has no keys.
func failedOutput(i *site.Instance, t cty.Type) cty.Value {
	if i.ForEach != nil {
		return keyed(nil)
	}

	return withState(value.Absent(t), stateFailed)
}

func keyed(m map[string]cty.Value) cty.Value {
	if len(m) == 0 {
		return cty.EmptyObjectVal
	}

	return cty.ObjectVal(m)
}

// withState adds the attribute that every stage has.
func withState(v cty.Value, state string) cty.Value {
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["state"] = cty.StringVal(state)

	return cty.ObjectVal(m)
}

// withUnknownState is for a stage that may be ok or failed.
func withUnknownState(v cty.Value) cty.Value {
	m := withState(v, "").AsValueMap()
	m["state"] = cty.UnknownVal(cty.String)

	return cty.ObjectVal(m)
}

// unreadOutput is that of a copy that may be ok or failed, for lack of the answers to those questions.
func unreadOutput(v cty.Value, questions []string) cty.Value {
	return value.Because(withUnknownState(v), questions)
}

// unknownOutput is an output whose attributes are all unknown, state too.
func unknownOutput(i *site.Instance, t cty.Type) cty.Value {
	v := value.UnknownOutput(t)
	m := map[string]cty.Value{"state": cty.UnknownVal(cty.String)}
	for k := range t.AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	obj := cty.ObjectVal(m)
	if i.ForEach == nil {
		return obj
	}
	if obj.Type().HasDynamicTypes() {
		return cty.DynamicVal
	}

	return cty.UnknownVal(cty.Map(obj.Type()))
}
