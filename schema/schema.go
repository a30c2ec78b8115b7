package schema

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
)

// Attr declares one attribute, and is its typed accessor in Go. T is a Go type that gocty can fill from Type, or
// cty.Value.
type Attr[T any] struct {
	Name        string
	Doc         string // one or two sentences, Markdown
	Type        cty.Type
	Required    bool
	Default     any           // a Go value of Type; nil is null
	DefaultText string        // in words, if the default is another stage's output or an answer
	Check       func(T) error // a rule for a known, non-null value; its error names the allowed values
	OneOf       []string      // the allowed values, where they are a few words; a Check of its own
	Ref         *RefDefault   // the default is the only stage of a type
	Phase       Phase         // of the expression's references, if earlier than the block's
	Secret      string        // why a secret is refused; "" with T cty.Value: marks are let through
	Null        string        // what to write in place of a null; "": null means the default
	NullCode    fault.Code    // of that error; "": WrongType
	Form        string        // how an item is written, for a message
	// An object literal whose items are evaluated one by one: an item that fails for a null fact is left out.
	Items bool
	Const bool // a literal: no references, no functions
	// Soft is set if an evaluation that fails is a note, and the value is null: a missing device must not end a boot.
	Soft bool
	// Certain is set if a result that depends on the comparison of a null fact is null: the fact is not known.
	Certain bool
	// SeesReserved is set if node.reserved is also the reservation of the kubelet's configuration. Nothing that is
	// written may depend on the value: elsewhere node.reserved is empty without a stage reserve.
	SeesReserved bool
	// Refs is the type of the stages that a list of static references names: [stage.TYPE.NAME]. The loader checks them,
	// and the value is the list of the names.
	Refs string
}

// RefDefault is a default that is an output of the only stage of a type. Graph, plan and explain show it as an edge.
type RefDefault struct {
	Stage    string `json:"stage"`              // fetch-config
	Output   string `json:"output"`             // data
	Key      string `json:"key,omitempty"`      // of that output, where it is a map
	Having   string `json:"having,omitempty"`   // an attribute that the stage must have: config_map
	Optional bool   `json:"optional,omitempty"` // none is null
	Unless   Given  `json:"-"`                  // an attribute of the same block that disables this default
}

// Given is an attribute with a value, as a site may write it: layout = "drop-in".
type Given struct{ Attribute, Value string }

// In reports whether a block has the attribute with this value as a literal.
func (g Given) In(b *hclsyntax.Body) bool {
	if g.Attribute == "" || b == nil || b.Attributes[g.Attribute] == nil {
		return false
	}
	v, diags := b.Attributes[g.Attribute].Expr.Value(nil)
	return !diags.HasErrors() && v.RawEquals(cty.StringVal(g.Value))
}

// Phase is when an expression is evaluated, which limits its references.
type Phase int

// The phases. The zero value means "that of the block".
const (
	OfBlock Phase = iota
	Static        // variables, file() and credential() only
	Gather        // and the outputs of gather stages
	Decide        // and those of decide stages
	Render        // and the node
)

// MarshalText returns the name.
func (p Phase) MarshalText() ([]byte, error) {
	return []byte(p.String()), nil
}

func (p Phase) String() string {
	return [...]string{"block", "static", "gather", "decide", "render"}[p]
}

// Field is an Attr[T] for any T.
type Field interface{ Spec() Spec }

// Spec is an attribute's declaration without its Go type.
type Spec struct {
	Name        string      `json:"name"`
	Type        cty.Type    `json:"type"`
	Doc         string      `json:"doc"`
	Required    bool        `json:"required,omitempty"`
	DefaultText string      `json:"default_text,omitempty"`
	Ref         *RefDefault `json:"default_from,omitempty"`
	OneOf       []string    `json:"one_of,omitempty"`
	Const       bool        `json:"literal,omitempty"`
	Phase       Phase       `json:"phase,omitempty"`

	Default             cty.Value `json:"-"`
	Items, Soft         bool      `json:"-"`
	Certain             bool      `json:"-"`
	SeesReserved        bool      `json:"-"`
	Refs                string    `json:"-"`
	raw                 bool
	secretWhy, nullNext string
	form                string
	nullCode            fault.Code
	check               func(cty.Value) error
}

// Block declares a block type. Free blocks take any attributes (a detector's config).
type Block struct {
	Type    string   `json:"type"`
	Doc     string   `json:"doc"`
	Labels  []string `json:"labels,omitempty"`   // names of its labels
	Max     int      `json:"max,omitempty"`      // 0: any number
	Free    bool     `json:"free,omitempty"`     // any attributes and blocks; the values are decoded as they are
	Always  bool     `json:"always,omitempty"`   // exists with its defaults if it is not written (a policy of write)
	ForEach bool     `json:"for_each,omitempty"` // takes when and for_each
	Fields  []Field  `json:"attributes,omitempty"`
	Blocks  []Block  `json:"blocks,omitempty"`
}

// Spec implements Field.
func (a Attr[T]) Spec() Spec {
	s := Spec{
		Name:         a.Name,
		Doc:          a.Doc,
		Type:         a.Type,
		Required:     a.Required,
		Ref:          a.Ref,
		Phase:        a.Phase,
		Items:        a.Items,
		Const:        a.Const,
		Soft:         a.Soft,
		Certain:      a.Certain,
		SeesReserved: a.SeesReserved,
		Refs:         a.Refs,
		DefaultText:  a.DefaultText,
		OneOf:        a.OneOf,
		secretWhy:    a.Secret,
		nullNext:     a.Null,
		nullCode:     cmp.Or(a.NullCode, fault.WrongType),
		form:         a.Form,
	}
	_, s.raw = any(*new(T)).(cty.Value)
	if s.Type == cty.NilType {
		if s.raw {
			s.Type = cty.DynamicPseudoType
		} else {
			s.Type = must(gocty.ImpliedType(*new(T)))
		}
	}
	s.Default = cty.NullVal(s.Type)
	if a.Default != nil {
		s.Default = must(gocty.ToCtyValue(a.Default, s.Type))
	}
	s.check = func(v cty.Value) error {
		var t T
		err := fill(v, &t)
		word, isText := any(t).(string)
		switch {
		case !isFillable(v):
			return nil
		case err != nil && s.Type == cty.Number:
			return errors.New("a whole number of at most 18 digits is needed")
		case err != nil: // a list with a null
			return nil
		case isText && len(a.OneOf) > 0:
			return checkOneOf(word, a.OneOf)
		case a.Check == nil:
			return nil
		}
		return a.Check(t)
	}
	return s
}

// CheckValue applies the attribute's own rule to a known value.
func (s Spec) CheckValue(v cty.Value) error {
	return s.check(v)
}

// Value is an attribute as it was decoded. V is zero while Cty is null or unknown.
type Value[T any] struct {
	V     T
	Cty   cty.Value            // with marks
	Expr  hclsyntax.Expression // nil: the default
	Range hcl.Range
	ev    Evaluator       // of Expr; nil: the default
	from  []origin.Origin // of a default that is another stage's output
}

// Set reports whether the attribute has a value that is known and not null.
func (v Value[T]) Set() bool {
	return v.Cty.IsKnown() && !v.Cty.IsNull()
}

// Null reports whether the value is known to be null.
func (v Value[T]) Null() bool {
	return v.Cty.IsKnown() && v.Cty.IsNull()
}

// ItemRange returns the place of one item of a map, or of an element of a list by its index, in the site: through
// locals, merge and the taken branch. Without one it is that of the whole attribute.
func (v Value[T]) ItemRange(key string) hcl.Range {
	if e := v.ItemExpr(key); e != nil {
		return e.Range()
	}
	return v.Range
}

// KeyRange returns the place of one key of a map, if it is in an object literal; otherwise ItemRange.
func (v Value[T]) KeyRange(key string) hcl.Range {
	if v.ev != nil {
		if e := v.ev.Key(v.Expr, key); e != nil {
			return e.Range()
		}
	}
	return v.ItemRange(key)
}

// Origins returns the origins of the whole value; a default has none.
func (v Value[T]) Origins() []origin.Origin {
	if v.ev == nil {
		return v.from
	}
	return v.ev.Origins(v.Expr)
}

// ItemOrigins returns the origins of one item of a map.
func (v Value[T]) ItemOrigins(key string) []origin.Origin {
	if v.ev == nil {
		return nil
	}
	return v.ev.Origins(v.ItemExpr(key))
}

// ItemExpr returns the expression of ItemRange, or nil.
func (v Value[T]) ItemExpr(key string) hclsyntax.Expression {
	if v.ev != nil {
		if e := v.ev.Item(v.Expr, key); e != nil {
			return e
		}
	}
	return v.Expr
}

// Items returns the texts of a map by key, or of a list by index, each with its own place and origins. V of a null or
// an unknown one is "".
func (v Value[T]) Items() iter.Seq2[string, Value[string]] {
	return func(yield func(string, Value[string]) bool) {
		if !v.Set() {
			return
		}
		for it := v.Cty.ElementIterator(); it.Next(); {
			k, element := it.Element()
			key, _ := value.KeyText(k)
			item := Value[string]{
				Cty:   element,
				Expr:  v.ItemExpr(key),
				Range: v.ItemRange(key),
				ev:    v.ev,
			}
			_ = fill(element, &item.V) // an error means that it has no value
			if !yield(key, item) {
				return
			}
		}
	}
}

// Body is a decoded block.
type Body struct {
	Type    string
	Labels  []string
	Range   hcl.Range
	Written bool // false: an Always block that the site does not mention
	// Undecided: whether the block exists is unknown, in a check without a machine. It is decoded, but must have no
	// effect.
	Undecided bool
	Blocks    map[string][]Body
	Free      map[string]cty.Value // attributes of a Free block
	attrs     map[string]Value[cty.Value]
}

// Known reports whether the block exists and everything in it is known.
func (b Body) Known() bool {
	known := !b.Undecided
	b.walk(
		func(v cty.Value) {
			known = known && v.IsWhollyKnown()
		},
		func(n Body) {
			known = known && !n.Undecided
		},
	)

	return known
}

// walk calls attribute for each value of the block and of its inner blocks, and block for each inner block.
func (b Body) walk(attribute func(cty.Value), block func(Body)) {
	for _, a := range b.attrs {
		if a.Cty != cty.NilVal {
			attribute(a.Cty)
		}
	}
	for _, v := range b.Free {
		attribute(v)
	}
	for _, all := range b.Blocks {
		for _, n := range all {
			block(n)
			n.walk(attribute, block)
		}
	}
}

// Of returns the attribute of a decoded body. It panics for an attribute that the block does not declare, a bug.
func (a Attr[T]) Of(b Body) Value[T] {
	c, ok := b.attrs[a.Name]
	if !ok {
		panic(fmt.Sprintf("schema: %s is not declared in block %s", a.Name, b.Type))
	}
	return a.fill(c)
}

// fill returns a decoded attribute with its value in Go.
func (a Attr[T]) fill(c Value[cty.Value]) Value[T] {
	r := Value[T]{
		Cty:   c.Cty,
		Expr:  c.Expr,
		Range: c.Range,
		ev:    c.ev,
		from:  c.from,
	}
	_ = fill(c.Cty, &r.V) // an error means that it has no value
	return r
}

// True reports whether an attribute exists and is known to be true.
func (b Body) True(name string) bool {
	v, ok := b.attrs[name]
	if !ok || v.Cty.Type() != cty.Bool {
		return false
	}

	return v.Set() && !v.Cty.IsMarked() && v.Cty.True()
}

// One returns the only block of a type, if there is one.
func (b Body) One(typ string) (Body, bool) {
	if l := b.Blocks[typ]; len(l) > 0 {
		return l[0], true
	}
	return Body{}, false
}

// isFillable reports whether a value can become one of Go.
func isFillable(v cty.Value) bool {
	return v.IsWhollyKnown() && !v.IsNull() && !v.ContainsMarked()
}

func fill[T any](v cty.Value, into *T) error {
	if c, ok := any(into).(*cty.Value); ok {
		*c = v
		return nil
	}
	if !isFillable(v) {
		return errors.New("it has no value")
	}
	return gocty.FromCtyValue(v, into)
}

// Find returns the declaration of an inner block.
func (b Block) Find(typ string) (Block, bool) {
	for _, n := range b.Blocks {
		if n.Type == typ {
			return n, true
		}
	}
	return Block{}, false
}

// Field returns the declaration of an attribute.
func (b Block) Field(name string) (Spec, bool) {
	for _, f := range b.Fields {
		if s := f.Spec(); s.Name == name {
			return s, true
		}
	}
	return Spec{}, false
}

// Names returns the names of attributes and blocks, for suggestions.
func (b Block) Names() (attrs, blocks []string) {
	for _, f := range b.Fields {
		attrs = append(attrs, f.Spec().Name)
	}
	for _, n := range b.Blocks {
		blocks = append(blocks, n.Type)
	}
	return attrs, blocks
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
