package site

import (
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// places moves positions in the text of a JSON string to where they are in the file: \" is two bytes there, \n is
// two bytes on the same line, \u00e9 is six. It is nil for a string without escapes, whose positions are right.
type places struct {
	start hcl.Pos // of the string's first byte behind its quote
	raw   []byte  // the string as the file has it, without quotes
	at    []int   // for each byte of the text, and its end: the offset in raw
}

// escapes reads the string once more, beside what the JSON parser made of it.
func (c *converter) escapes(text string, at hcl.Range) *places {
	if at.End.Byte > len(c.src) || at.End.Byte-at.Start.Byte < 2 {
		return nil
	}
	raw := c.src[at.Start.Byte+1 : at.End.Byte-1]
	if len(raw) == len(text) {
		return nil
	}
	p := &places{start: at.Start, raw: raw}
	p.start.Byte, p.start.Column = p.start.Byte+1, p.start.Column+1
	for i := 0; i < len(raw); {
		width, made := unescape(raw[i:])
		for range made {
			p.at = append(p.at, i)
		}
		i += width
	}
	p.at = append(p.at, len(raw))
	if len(p.at) != len(text)+1 {
		return nil // read otherwise than the parser did: its positions stay, which are near
	}
	return p
}

// unescape says how many bytes of raw stand for how many of the text.
func unescape(raw []byte) (width, made int) {
	if raw[0] != '\\' || len(raw) < 2 {
		return 1, 1
	}
	if raw[1] != 'u' {
		return 2, 1
	}
	unit := func(b []byte) (rune, bool) {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(raw)
	if !ok {
		return 2, 1
	}
	if low, ok := unit(raw[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return 12, utf8.RuneLen(pair)
		}
	}
	if utf16.IsSurrogate(r) {
		r = utf8.RuneError
	}
	return 6, utf8.RuneLen(r)
}

func (p *places) pos(at hcl.Pos) hcl.Pos {
	i := at.Byte - p.start.Byte
	if i < 0 || i >= len(p.at) {
		return at
	}
	off := p.at[i]
	return hcl.Pos{Line: p.start.Line, Column: p.start.Column + utf8.RuneCount(p.raw[:off]), Byte: p.start.Byte + off}
}

func (p *places) diagnostic(d *hcl.Diagnostic) {
	if p == nil {
		return
	}
	for _, r := range []*hcl.Range{d.Subject, d.Context} {
		if r != nil {
			r.Start, r.End = p.pos(r.Start), p.pos(r.End)
		}
	}
}

// expression moves every range below a node. HCL's nodes are many, their ranges are fields of one type: reflection
// finds them all, those of nodes to come included.
func (p *places) expression(e hclsyntax.Expression) {
	if p != nil {
		mover{p, map[any]bool{}}.move(reflect.ValueOf(e))
	}
}

// mover moves each node once: the symbol of a splat is reached twice.
type mover struct {
	*places
	seen map[any]bool
}

func (m mover) move(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !m.seen[v.Interface()] {
			m.seen[v.Interface()] = true
			m.move(v.Elem())
		}
	case reflect.Interface:
		switch {
		case v.IsNil():
		case v.Elem().Kind() == reflect.Struct && v.CanSet(): // a step of a traversal: changed as a copy
			c := reflect.New(v.Elem().Type())
			c.Elem().Set(v.Elem())
			m.move(c.Elem())
			v.Set(c.Elem())
		default:
			m.move(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			m.move(v.Index(i))
		}
	case reflect.Struct:
		if !v.CanAddr() || v.Type() == reflect.TypeFor[cty.Value]() {
			return
		}
		if r, ok := v.Addr().Interface().(*hcl.Range); ok {
			r.Start, r.End = m.pos(r.Start), m.pos(r.End)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				m.move(v.Field(i))
			}
		}
	}
}
