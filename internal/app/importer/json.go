package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

const (
	// MaxSource bounds an init-config, in bytes: as a file of a site.
	MaxSource = 256 << 10
	maxDepth  = 16
)

// kind is what a JSON value is, in words for messages.
type kind string

const (
	isObject kind = "an object"
	isList   kind = "a list"
	isString kind = "a string"
	isNumber kind = "a number"
	isBool   kind = "true or false"
	isNull   kind = "null"
)

// value is a JSON value with its place. Text is a string's content, a number as it is written.
type value struct {
	kind    kind
	text    string
	members []member
	at      hcl.Range
}

// member is a key of an object with its value, in the order of the text.
type member struct {
	key   string
	at    hcl.Range
	value value
}

// decode reads one JSON object.
func decode(name string, src []byte) (value, hcl.Diagnostics) {
	at := func(from, to int) hcl.Range { return rangeOf(name, src, from, to) }
	switch {
	case len(src) > MaxSource:
		return value{}, hcl.Diagnostics{origin.Error(fault.Limit, at(0, 0), "The file is too large", "It has %d bytes. An init-config has some hundred, at most 256 KiB are read.", len(src))}
	case !utf8.Valid(src):
		return value{}, hcl.Diagnostics{origin.Error(fault.Encoding, at(0, 0), "The file is no UTF-8 text", "JSON is UTF-8. Is it the right file?")}
	}
	var any json.RawMessage
	if err := json.Unmarshal(src, &any); err != nil {
		where := len(src)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			where = min(int(syntax.Offset), len(src))
		}
		return value{}, hcl.Diagnostics{origin.Error(fault.Syntax, at(max(where-1, 0), where), "This is no JSON", "%s. The script would not have read it either; mend it and import again.", err)}
	}
	d := &decoder{name: name, src: src, tokens: json.NewDecoder(bytes.NewReader(src))}
	d.tokens.UseNumber()
	v := d.value(0)
	if !d.diags.HasErrors() && v.kind != isObject {
		d.diags = append(d.diags, origin.Error(fault.WrongType, v.at, "This is no init-config", "An object is needed, as {\"apiserver\": \"HOST:6443\"}, not %s.", v.kind))
	}
	return v, d.diags
}

// decoder walks over text that is known to be JSON.
type decoder struct {
	name   string
	src    []byte
	tokens *json.Decoder
	diags  hcl.Diagnostics
}

// next is the next token with its place.
func (d *decoder) next() (json.Token, hcl.Range) {
	from := int(d.tokens.InputOffset())
	for from < len(d.src) && bytes.IndexByte([]byte(" \t\r\n,:"), d.src[from]) >= 0 {
		from++
	}
	t, _ := d.tokens.Token()
	return t, rangeOf(d.name, d.src, from, int(d.tokens.InputOffset()))
}

func (d *decoder) value(depth int) value {
	t, at := d.next()
	v := value{at: at}
	switch t := t.(type) {
	case json.Delim:
		v.kind = isObject
		if t == '[' {
			v.kind = isList
		}
		if depth == maxDepth {
			d.diags = append(d.diags, origin.Error(fault.Limit, at, "Too deep", "An init-config has two levels, at most %d are read.", maxDepth))
			return v
		}
		for d.tokens.More() && !d.diags.HasErrors() {
			var m member
			if v.kind == isObject {
				k, at := d.next()
				m.key, _ = k.(string)
				m.at = at
			}
			m.value = d.value(depth + 1)
			v.members = append(v.members, m)
		}
		_, end := d.next()
		v.at.End = end.End
	case string:
		v.kind, v.text = isString, t
	case json.Number:
		v.kind, v.text = isNumber, t.String()
	case bool:
		v.kind = isBool
	default:
		v.kind = isNull
	}
	return v
}

// rangeOf turns byte offsets into a range with lines and columns.
func rangeOf(name string, src []byte, from, to int) hcl.Range {
	pos := func(n int) hcl.Pos {
		before := src[:n]
		start := bytes.LastIndexByte(before, '\n') + 1
		p := hcl.Pos{Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before[start:]) + 1, Byte: n}
		if utf8.Valid(before[start:]) {
			p.Column = utf8.RuneCount(before[start:]) + 1
		}
		return p
	}
	return hcl.Range{Filename: name, Start: pos(from), End: pos(to)}
}
