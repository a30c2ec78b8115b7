// Package reference describes the language of a site for people and editors: its pages, and `prelet schema -o json`.
package reference

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/schema"
)

// Language is the language of a site. Blocks are declared in schema, stage types in their packages, and functions with
// their code.
type Language struct {
	Blocks    []TopBlock  `json:"blocks"`
	Stages    []StageType `json:"stages"`
	Functions []Function  `json:"functions"`
	Facts     Facts       `json:"-"` // a Document has its rows

	Differences []Difference `json:"-"` // from Terraform
}

// TopBlock is a block of a site's file, and what its expressions may refer to.
type TopBlock struct {
	schema.Block
	Phase schema.Phase `json:"phase,omitempty"` // OfBlock: none, or that of each stage type
}

// StageType is a stage type's declaration, with the arguments that the language adds.
type StageType struct {
	schema.Block
	Phase     schema.Phase   `json:"phase"`
	Singleton bool           `json:"singleton,omitempty"`
	Adds      []string       `json:"adds,omitempty"` // of a singleton: the blocks of further stages
	Meta      []schema.Field `json:"meta_arguments"` // the arguments that the language adds
	Outputs   []Output       `json:"outputs"`        // in the order of the pages, `state` among them
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

// Document is the language for people and editors: the output of `prelet schema -o json`. FormatVersion changes when
// readers of the old format would misunderstand the new one; additions do not change it.
type Document struct {
	FormatVersion int `json:"format_version"`
	Language
	Rows []FactRow `json:"facts"`
}

func Describe(l Language) Document {
	return Document{
		FormatVersion: 1,
		Language:      l,
		Rows:          l.Facts.Rows(),
	}
}
