package lang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// JSONNode is a JSON value with its place. HCL's own JSON parser is not used: it recurses, and ends strings by grapheme
// clusters, so its input cannot be limited by a reader of standard JSON.
type JSONNode struct {
	Range hcl.Range
	Kind  JSONKind
	Text  string      // of a string; of a number or a boolean as it is written
	Keys  []*JSONNode // of an object
	Items []*JSONNode // of an array, or of an object in the order of Keys
}

// JSONKind is the kind of a JSON value, in words for messages.
type JSONKind string

// The kinds of JSON values.
const (
	JSONObject JSONKind = "an object"
	JSONArray  JSONKind = "a list"
	JSONString JSONKind = "a string"
	JSONNumber JSONKind = "a number"
	JSONBool   JSONKind = "true or false"
	JSONNull   JSONKind = "null"
)

// ReadJSON reads a whole text within the limits of a site's files.
func ReadJSON(name string, src []byte) (*JSONNode, hcl.Diagnostics) {
	if diags := checkText(name, src); diags.HasErrors() {
		return nil, diags
	}

	r := &jsonReader{
		name: name,
		src:  src,
		pos:  hcl.InitialPos,
		dec:  json.NewDecoder(bytes.NewReader(src)),
	}
	r.dec.UseNumber()

	root := r.value(1)
	if r.limit != nil {
		return nil, hcl.Diagnostics{r.limit}
	}

	// The decoder stops at an error, or after the first value. This check reads all of the text and reports the place.
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(src, &raw); errors.As(err, &syntax) {
		at := min(max(int(syntax.Offset)-1, 0), len(src))
		return nil, hcl.Diagnostics{
			origin.Error(fault.Syntax, rangeAt(name, src, at), "Invalid JSON",
				"%s. JSON has neither comments nor trailing commas.", err),
		}
	}

	return root, nil
}

type jsonReader struct {
	name   string
	src    []byte
	dec    *json.Decoder
	pos    hcl.Pos // where advance has stopped
	tokens int
	isDone bool            // after an error of the decoder or a limit
	limit  *hcl.Diagnostic // the limit that is exceeded
}

// value reads one value. It returns null after an error.
func (r *jsonReader) value(depth int) *JSONNode {
	token, at := r.token()
	n := &JSONNode{Range: at, Kind: JSONNull}

	switch t := token.(type) {
	case json.Delim:
		n.Kind = JSONArray
		if t == '{' {
			n.Kind = JSONObject
		}
		r.readItems(n, depth)
	case string:
		n.Kind, n.Text = JSONString, t
	case json.Number:
		n.Kind, n.Text = JSONNumber, t.String()
	case bool:
		n.Kind, n.Text = JSONBool, fmt.Sprint(t)
	}

	return n
}

// readItems reads the items of an array or an object and its closing bracket.
func (r *jsonReader) readItems(n *JSONNode, depth int) {
	if depth > maxDepth {
		r.isDone = true
		r.limit = origin.Error(fault.Limit, n.Range, "Brackets are nested too deep",
			"At most %d levels are read. Use fewer levels.", maxDepth)

		return
	}

	for !r.isDone && r.dec.More() {
		if n.Kind == JSONObject {
			token, at := r.token()
			key, _ := token.(string)
			n.Keys = append(n.Keys, &JSONNode{
				Range: at,
				Kind:  JSONString,
				Text:  key,
			})
		}
		n.Items = append(n.Items, r.value(depth+1))
	}

	_, end := r.token()
	n.Range.End = end.End
}

// token returns the next token with its place. It returns nil for null and after an error.
func (r *jsonReader) token() (json.Token, hcl.Range) {
	if r.isDone {
		return nil, hcl.Range{}
	}

	from := int(r.dec.InputOffset())
	token, err := r.dec.Token()
	if err != nil {
		r.isDone = true
		return nil, hcl.Range{}
	}

	for bytes.IndexByte([]byte(" \t\r\n,:"), r.src[from]) >= 0 {
		from++
	}
	at := hcl.Range{
		Filename: r.name,
		Start:    r.advance(from),
		End:      r.advance(int(r.dec.InputOffset())),
	}

	r.tokens++
	if r.tokens > maxTokens {
		r.isDone = true
		r.limit = tooManyTokens(at)
	}

	return token, at
}

// advance returns the position of an offset at or after the last one, so that each byte is counted once.
func (r *jsonReader) advance(to int) hcl.Pos {
	part := r.src[r.pos.Byte:to]
	if n := bytes.Count(part, []byte("\n")); n > 0 {
		r.pos.Line += n
		r.pos.Column = 1
		part = part[bytes.LastIndexByte(part, '\n')+1:]
	}
	r.pos.Column += utf8.RuneCount(part)
	r.pos.Byte = to

	return r.pos
}
