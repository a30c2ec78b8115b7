package schema

import (
	"bytes"
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Language is the language of a site. The blocks are declared in this package, stage types in theirs, and functions
// with their code; stages/builtin combines them. Its JSON is the output of `prelet schema -o json`.
type Language struct {
	Blocks    []TopBlock  `json:"blocks"`
	Stages    []StageType `json:"stages"`
	Functions []Function  `json:"functions"`
	Facts     Facts       `json:"facts"`

	Differences []Difference `json:"-"` // from Terraform
}

// TopBlock is a block of a site's file, and what its expressions may refer to.
type TopBlock struct {
	Block
	Phase Phase `json:"phase,omitempty"` // OfBlock: none, or that of each stage type
}

// StageType is a stage type's declaration, with the arguments that the language adds.
type StageType struct {
	Block
	Phase     Phase    `json:"phase"`
	Singleton bool     `json:"singleton,omitempty"`
	Adds      []string `json:"adds,omitempty"` // of a singleton: the blocks of further stages
	Meta      []Field  `json:"meta_arguments"` // the arguments that the language adds
	Outputs   []Output `json:"outputs"`        // in the order of the pages, `state` among them
}

// Output is a value that other blocks refer to: stage.TYPE.NAME.OUTPUT.
type Output struct {
	Name string   `json:"name"`
	Type cty.Type `json:"type"`
	Doc  string   `json:"doc"`
}

// Function is a function of the language.
type Function struct {
	Name     string    `json:"name"`
	Usage    string    `json:"usage"` // name(parameter, …)
	Doc      string    `json:"doc"`
	Own      bool      `json:"-"` // not in Terraform, or more than there
	Examples []Example `json:"examples,omitempty"`
}

// Example is a call with its result, both as in a site.
type Example struct {
	Call   string `json:"call"`
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
}

// Difference is an expression with another result than in Terraform; a result is "error" where there is none.
type Difference struct{ Call, Terraform, Here, Why string }

// Document is the language for people and editors.
type Document struct{ language Language }

// Describe returns the document of a language. It depends on the declarations only.
func Describe(l Language) Document {
	return Document{l}
}

// MarshalJSON returns the output of `prelet schema -o json`. format_version changes when readers of the old format
// would misunderstand the new one; additions do not change it.
func (d Document) MarshalJSON() ([]byte, error) {
	return encode(struct {
		FormatVersion int `json:"format_version"`
		Language
	}{1, d.language})
}

// MarshalJSON returns an attribute as it is in that output, with its default.
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
