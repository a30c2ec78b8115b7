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
func makeFailedOutput(i *site.Instance, t cty.Type) cty.Value {
	if i.ForEach != nil {
		return makeObject(nil)
	}

	return setState(value.Absent(t), stateFailed)
}

func makeObject(m map[string]cty.Value) cty.Value {
	if len(m) == 0 {
		return cty.EmptyObjectVal
	}

	return cty.ObjectVal(m)
}

// withState adds the attribute that every stage has.
func setState(v cty.Value, state string) cty.Value {
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["state"] = cty.StringVal(state)

	return cty.ObjectVal(m)
}

// withUnknownState is for a stage that may be ok or failed.
func setUnknownState(v cty.Value) cty.Value {
	m := setState(v, "").AsValueMap()
	m["state"] = cty.UnknownVal(cty.String)

	return cty.ObjectVal(m)
}

// unreadOutput is that of a copy that may be ok or failed, for lack of the answers to those questions.
func makeUnreadOutput(v cty.Value, questions []string) cty.Value {
	return value.Because(setUnknownState(v), questions)
}

// unknownOutput is an output whose attributes are all unknown, state too.
func makeUnknownOutput(i *site.Instance, t cty.Type) cty.Value {
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
