package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// jsonNode is a JSON value with its place. HCL has a JSON parser of its own, which recurses and tells where a string
// ends by grapheme clusters: what it would see cannot be bounded by anybody who reads JSON as the standard says.
type jsonNode struct {
	at    hcl.Range
	kind  jsonKind
	text  string    // of a string
	value cty.Value // of a number, true, false and null
	keys  []*jsonNode
	items []*jsonNode // of an array, or of an object in the order of its keys
}

type jsonKind int

const (
	jsonScalar jsonKind = iota
	jsonString
	jsonArray
	jsonObject
)

func (n *jsonNode) null() bool { return n.kind == jsonScalar && n.value.IsNull() }

// readJSON reads a whole text as the standard says, at most maxDepth deep and of maxTokens.
func readJSON(name string, src []byte) (*jsonNode, hcl.Diagnostics) {
	r := &jsonReader{name: name, src: src, pos: hcl.InitialPos, dec: json.NewDecoder(bytes.NewReader(src))}
	r.dec.UseNumber()
	n := r.value()
	if len(r.diags) == 0 && !json.Valid(src) { // text behind the value
		r.noJSON(nil)
	}
	return n, r.diags
}

type jsonReader struct {
	name   string
	src    []byte
	dec    *json.Decoder
	pos    hcl.Pos // of the last place that was asked for
	depth  int
	tokens int
	diags  hcl.Diagnostics
}

// value reads one value; nil after a fault, of which there is one.
func (r *jsonReader) value() *jsonNode {
	tok, at := r.token()
	if tok == nil {
		return nil
	}
	n := &jsonNode{at: at}
	switch t := tok.(type) {
	case json.Delim:
		n.kind = jsonArray
		if t == '{' {
			n.kind = jsonObject
		}
		if r.depth++; r.depth > maxDepth {
			r.fault(fault.Limit, int64(at.Start.Byte), "Brackets are nested too deep", "A JSON file of a site may nest %d of them. Nobody reads more.", maxDepth)
			return nil
		}
		if !r.inside(n) {
			return nil
		}
		r.depth--
	case string:
		n.kind, n.text = jsonString, t
	case json.Number:
		v, err := cty.ParseNumberVal(t.String())
		if err != nil {
			r.fault(fault.Limit, int64(at.Start.Byte), numberSummary, numberHelp)
			return nil
		}
		n.value = v
	case bool:
		n.value = cty.BoolVal(t)
	case jsonNull:
		n.value = cty.NullVal(cty.DynamicPseudoType)
	}
	return n
}

// inside reads the items of an array or an object and its closing bracket.
func (r *jsonReader) inside(n *jsonNode) bool {
	for r.dec.More() {
		if n.kind == jsonObject {
			tok, at := r.token()
			key, ok := tok.(string)
			if !ok { // the decoder has refused anything else
				return false
			}
			n.keys = append(n.keys, &jsonNode{at: at, kind: jsonString, text: key})
		}
		x := r.value()
		if x == nil {
			return false
		}
		n.items = append(n.items, x)
	}
	tok, at := r.token()
	n.at.End = at.End
	return tok != nil
}

type jsonNull struct{}

// token is the next one with its place; nil after a fault.
func (r *jsonReader) token() (json.Token, hcl.Range) {
	from := r.dec.InputOffset()
	tok, err := r.dec.Token()
	if err != nil {
		r.noJSON(err)
		return nil, hcl.Range{}
	}
	if r.tokens++; r.tokens > maxTokens {
		r.diags = append(r.diags, tooManyTokens(r.rangeOf(from, r.dec.InputOffset())))
		return nil, hcl.Range{}
	}
	for from < int64(len(r.src)) && bytes.IndexByte([]byte(" \t\r\n,:"), r.src[from]) >= 0 {
		from++
	}
	if tok == nil {
		tok = jsonNull{}
	}
	return tok, r.rangeOf(from, r.dec.InputOffset())
}

// noJSON reports what the check of a whole text finds: it is a loop too, and knows better than the decoder where it is.
func (r *jsonReader) noJSON(err error) {
	at := r.dec.InputOffset()
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if whole := json.Unmarshal(r.src, &raw); errors.As(whole, &syntax) {
		at, err = max(syntax.Offset-1, 0), whole
	}
	r.fault(fault.Syntax, at, "This is no JSON", "%s. *.hcl.json files are JSON as the standard says, without comments and trailing commas; what people write is easier in *.hcl.", err)
}

func (r *jsonReader) fault(c fault.Code, at int64, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Error(c, rangeAt(r.name, r.src, min(int(at), len(r.src))), summary, detail, args...))
}

// rangeOf counts on from the last place, so that a file is counted once.
func (r *jsonReader) rangeOf(from, to int64) hcl.Range {
	start := r.advance(int(from))
	return hcl.Range{Filename: r.name, Start: start, End: r.advance(int(to))}
}

func (r *jsonReader) advance(to int) hcl.Pos {
	part := r.src[r.pos.Byte:to]
	if n := bytes.Count(part, []byte("\n")); n > 0 {
		r.pos.Line, r.pos.Column = r.pos.Line+n, 1
		part = part[bytes.LastIndexByte(part, '\n')+1:]
	}
	r.pos.Column += utf8.RuneCount(part)
	r.pos.Byte = to
	return r.pos
}
