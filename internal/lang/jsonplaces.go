package lang

import (
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// escapes maps positions in the text of a JSON string to positions in the file, where \" is two bytes and \u00e9 six.
// It is nil for a string without escapes, whose positions are right.
type escapes struct {
	start   hcl.Pos // of the first byte after the quote
	raw     []byte  // the string in the file, without quotes
	offsets []int   // for each byte of the text, and its end: the offset in raw
}

// findEscapes reads the escapes of a string that is valid JSON without lone surrogates.
func findEscapes(src []byte, at hcl.Range) *escapes {
	e := &escapes{
		start: afterQuote(at),
		raw:   src[at.Start.Byte+1 : at.End.Byte-1],
	}

	for i := 0; i < len(e.raw); {
		width, decoded := unescape(e.raw[i:])
		for range decoded {
			e.offsets = append(e.offsets, i)
		}
		i += width
	}
	if len(e.offsets) == len(e.raw) {
		return nil
	}
	e.offsets = append(e.offsets, len(e.raw))

	return e
}

func afterQuote(at hcl.Range) hcl.Pos {
	p := at.Start
	p.Byte++
	p.Column++

	return p
}

// unescape returns how many bytes of raw become how many bytes of text.
func unescape(raw []byte) (width, decoded int) {
	switch {
	case raw[0] != '\\':
		return 1, 1
	case raw[1] != 'u':
		return 2, 1
	}

	r, _ := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if utf16.IsSurrogate(rune(r)) {
		return 12, 4 // two escapes
	}

	return 6, utf8.RuneLen(rune(r))
}

func (e *escapes) move(r *hcl.Range) {
	r.Start, r.End = e.position(r.Start), e.position(r.End)
}

func (e *escapes) position(p hcl.Pos) hcl.Pos {
	i := p.Byte - e.start.Byte
	if i < 0 || i >= len(e.offsets) {
		return p
	}

	offset := e.offsets[i]
	column := e.start.Column + utf8.RuneCount(e.raw[:offset])

	return hcl.Pos{
		Line:   e.start.Line,
		Column: column,
		Byte:   e.start.Byte + offset,
	}
}

func (e *escapes) moveDiagnostic(d *hcl.Diagnostic) {
	for _, r := range []*hcl.Range{d.Subject, d.Context} {
		if e != nil && r != nil {
			e.move(r)
		}
	}
}

// moveExpression moves every range below a node. HCL has many types of nodes, with ranges as fields of one type, so
// reflection finds them all.
func (e *escapes) moveExpression(x hclsyntax.Expression) {
	if e != nil {
		rangeMover{e, map[any]bool{}}.move(reflect.ValueOf(x))
	}
}

// rangeMover moves each node once: the symbol of a splat is reached twice.
type rangeMover struct {
	escapes *escapes
	seen    map[any]bool
}

func (m rangeMover) move(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !m.seen[v.Interface()] {
			m.seen[v.Interface()] = true
			m.move(v.Elem())
		}
	case reflect.Interface:
		m.moveInterface(v)
	case reflect.Slice:
		for i := range v.Len() {
			m.move(v.Index(i))
		}
	case reflect.Struct:
		m.moveStruct(v)
	}
}

func (m rangeMover) moveInterface(v reflect.Value) {
	if v.IsNil() {
		return
	}
	if v.Elem().Kind() != reflect.Struct || !v.CanSet() {
		m.move(v.Elem())
		return
	}

	step := reflect.New(v.Elem().Type()).Elem() // a step of a traversal is changed as a copy
	step.Set(v.Elem())
	m.move(step)
	v.Set(step)
}

func (m rangeMover) moveStruct(v reflect.Value) {
	if !v.CanAddr() || v.Type() == reflect.TypeFor[cty.Value]() {
		return
	}
	if r, ok := v.Addr().Interface().(*hcl.Range); ok {
		m.escapes.move(r)
		return
	}

	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			m.move(v.Field(i))
		}
	}
}
