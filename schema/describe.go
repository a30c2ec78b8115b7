package schema

import (
	"bytes"
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Language is the language of a site. The blocks are declared in this package, stage types in theirs, and functions
// with their code; stages/builtin combines them.
type Language struct {
	Blocks    []TopBlock
	Stages    []StageType
	Functions []Function
	Facts     Facts

	Differences []Difference // from Terraform
}

// TopBlock is a block of a site's file, and what its expressions may refer to.
type TopBlock struct {
	Block
	Phase Phase // OfBlock: none, or that of each stage type
}

// StageType is a stage type's declaration, with the arguments that the language adds.
type StageType struct {
	Block
	Phase     Phase
	Singleton bool
	Meta      []Field  // the arguments that the language adds
	Outputs   []Output // in the order of the pages, `state` among them
	Type      cty.Type // of all outputs together, without state
}

// Output is a value that other blocks refer to: stage.TYPE.NAME.OUTPUT.
type Output struct {
	Name, Doc string
	Type      cty.Type
}

// Function is a function of the language.
type Function struct {
	Name     string
	Usage    string // name(parameter, …)
	Doc      string
	Own      bool // not in Terraform, or more than there
	Examples []Example
}

// Example is a call with its result, both as in a site.
type Example struct{ Call, Result, Why string }

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
	type output struct {
		Name string          `json:"name"`
		Type json.RawMessage `json:"type"`
		Doc  string          `json:"doc"`
	}
	type stage struct {
		jsonBlock
		Phase     string     `json:"phase"`
		Singleton bool       `json:"singleton,omitempty"`
		Meta      []jsonAttr `json:"meta_arguments"`
		Outputs   []output   `json:"outputs"`
	}
	type block struct {
		jsonBlock
		Phase string `json:"phase,omitempty"`
	}
	type example struct {
		Call   string `json:"call"`
		Result string `json:"result"`
	}
	type function struct {
		Name     string    `json:"name"`
		Usage    string    `json:"usage"`
		Doc      string    `json:"doc"`
		Examples []example `json:"examples,omitempty"`
	}
	type fact struct {
		Path string          `json:"path"`
		Type json.RawMessage `json:"type"`
		Doc  string          `json:"doc"`
		Like string          `json:"like,omitempty"`
	}
	out := struct {
		FormatVersion int        `json:"format_version"`
		Blocks        []block    `json:"blocks"`
		Stages        []stage    `json:"stages"`
		Functions     []function `json:"functions"`
		Facts         []fact     `json:"facts"`
	}{FormatVersion: 1}
	for _, b := range d.language.Blocks {
		x := block{jsonBlock: b.json()}
		if b.Phase != OfBlock {
			x.Phase = b.Phase.String()
		}
		out.Blocks = append(out.Blocks, x)
	}
	for _, s := range d.language.Stages {
		x := stage{
			Phase:     s.Phase.String(),
			Singleton: s.Singleton,
			jsonBlock: s.json(),
			Meta:      jsonAttrs(s.Meta),
		}
		for _, o := range s.Outputs {
			x.Outputs = append(x.Outputs, output{
				o.Name,
				typeJSON(o.Type),
				o.Doc,
			})
		}
		out.Stages = append(out.Stages, x)
	}
	for _, f := range d.language.Functions {
		x := function{Name: f.Name, Usage: f.Usage, Doc: f.Doc}
		for _, e := range f.Examples {
			x.Examples = append(x.Examples, example{e.Call, e.Result})
		}
		out.Functions = append(out.Functions, x)
	}
	for _, r := range d.language.Facts.Rows() {
		out.Facts = append(out.Facts, fact{
			r.Path,
			typeJSON(r.Type),
			r.Doc,
			r.Like,
		})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

type jsonAttr struct {
	Name        string          `json:"name"`
	Type        json.RawMessage `json:"type"`
	Doc         string          `json:"doc"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	DefaultText string          `json:"default_text,omitempty"`
	DefaultFrom *jsonRef        `json:"default_from,omitempty"`
	OneOf       []string        `json:"one_of,omitempty"`
	Literal     bool            `json:"literal,omitempty"`
	Phase       string          `json:"phase,omitempty"` // if its expression may refer to less than its block's
}

type jsonRef struct {
	Stage    string `json:"stage"`
	Output   string `json:"output"`
	Key      string `json:"key,omitempty"`
	Having   string `json:"having,omitempty"`
	Optional bool   `json:"optional,omitempty"`
}

type jsonBlock struct {
	Type    string      `json:"type"`
	Doc     string      `json:"doc"`
	Labels  []string    `json:"labels,omitempty"`
	Max     int         `json:"max,omitempty"`
	Free    bool        `json:"free,omitempty"`
	Always  bool        `json:"always,omitempty"`
	ForEach bool        `json:"for_each,omitempty"`
	Attrs   []jsonAttr  `json:"attributes,omitempty"`
	Blocks  []jsonBlock `json:"blocks,omitempty"`
}

func (b Block) json() jsonBlock {
	out := jsonBlock{
		Type:    b.Type,
		Doc:     b.Doc,
		Labels:  b.Labels,
		Max:     b.Max,
		Free:    b.Free,
		Always:  b.Always,
		ForEach: b.ForEach,
		Attrs:   jsonAttrs(b.Fields),
	}
	for _, n := range b.Blocks {
		out.Blocks = append(out.Blocks, n.json())
	}
	return out
}

func jsonAttrs(fields []Field) (out []jsonAttr) {
	for _, f := range fields {
		s := f.Spec()
		a := jsonAttr{
			Name:        s.Name,
			Doc:         s.Doc,
			Required:    s.Required,
			DefaultText: s.DefaultText,
			Type:        typeJSON(s.Type),
			OneOf:       s.OneOf,
			Literal:     s.Const,
		}
		if !s.Default.IsNull() {
			a.Default = must(ctyjson.Marshal(s.Default, s.Type))
		}
		if s.Phase != OfBlock {
			a.Phase = s.Phase.String()
		}
		if r := s.Ref; r != nil {
			a.DefaultFrom = &jsonRef{r.Stage, r.Output, r.Key, r.Having, r.Optional}
		}
		out = append(out, a)
	}
	return out
}

func typeJSON(t cty.Type) json.RawMessage {
	return must(ctyjson.MarshalType(t))
}
