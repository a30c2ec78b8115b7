package schema

import (
	"bytes"
	"encoding/json"

	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// MarshalJSON returns an attribute as `prelet schema -o json` has it, with its default.
func (a Attr[T]) MarshalJSON() ([]byte, error) {
	s := a.Spec()
	out := struct {
		Spec
		Default json.RawMessage `json:"default,omitempty"`
	}{Spec: s}
	if !s.Default.IsNull() {
		out.Default = must(ctyjson.Marshal(s.Default, s.Type))
	}

	return encode(out)
}

// encode returns JSON for people too: with < and > as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)

	return b.Bytes(), err
}
