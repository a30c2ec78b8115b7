package boot

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/value"
)

// The states of a stage, as sites see them in `state`.
const (
	stateOK      = "ok"
	stateSkipped = "skipped"
	stateFailed  = "failed"
)

// makeFailedOutput returns the output of a stage of which no copy was made. With for_each it has no keys.
func makeFailedOutput(i *site.Instance, t cty.Type) cty.Value {
	if i.ForEach != nil {
		return makeObject(nil)
	}

	return setState(value.Absent(t), stateFailed)
}

// makeObject returns an object with these attributes; unlike cty.ObjectVal, it takes none too.
func makeObject(m map[string]cty.Value) cty.Value {
	if len(m) == 0 {
		return cty.EmptyObjectVal
	}

	return cty.ObjectVal(m)
}

// setState returns an output with the attribute `state` that every stage has.
func setState(v cty.Value, state string) cty.Value {
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["state"] = cty.StringVal(state)

	return cty.ObjectVal(m)
}

// setUnknownState returns an output that may be of a stage that is ok or of one that failed.
func setUnknownState(v cty.Value) cty.Value {
	m := setState(v, "").AsValueMap()
	m["state"] = cty.UnknownVal(cty.String)

	return cty.ObjectVal(m)
}

// makeUnreadOutput returns the output of a copy that may be ok or failed, because those questions have no answer.
func makeUnreadOutput(v cty.Value, questions []string) cty.Value {
	return value.Because(setUnknownState(v), questions)
}

// makeUnknownOutput returns an output whose attributes, state too, are all unknown.
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
