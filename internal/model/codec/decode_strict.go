package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/texts"
)

// PlaceError is a mistake at a place of a document that a person has edited.
type PlaceError struct {
	Line, Column int // from 1
	Why          string
	Next         string   // what to write instead, as sentences; may be empty
	Path         []string // names and indices down to the place; nil if the document cannot be parsed
}

func (e *PlaceError) Error() string {
	text := fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Why)
	if e.Next != "" {
		text += ". " + strings.TrimSuffix(e.Next, ".")
	}

	return text
}

// FaultIn returns an error of a file as a fault: with its place and the file's text, if it has a place.
func FaultIn(code fault.Code, path string, text []byte, err error) *fault.Fault {
	f := &fault.Fault{Code: code, At: fault.Place{File: path}, Why: err.Error()}
	var at *PlaceError
	if errors.As(err, &at) {
		f.At.Line, f.At.Column, f.Source = at.Line, at.Column, string(text)
		f.Why, f.Next = at.Why, at.Next
	} else if m := yamlLine().FindStringSubmatch(f.Why); m != nil {
		f.At.Line, _ = strconv.Atoi(m[1])
		f.Source = string(text)
		f.Why = strings.Replace(f.Why, m[0], "", 1)
	}

	return f
}

// Suggest returns what to write, as a sentence, in place of a text (string) or a number (json.Number) at a path of
// names and indices; "" if it is right.
type Suggest func(path []string, value json.Token) string

// DecodeStrict decodes a JSON document by the type of a Go value. It refuses names that the type does not have, in
// other letters too, duplicate names, values of another type, null where it has no meaning, values for which suggest
// has another one, and text after the document. Such errors are *PlaceError and have no words of Go. suggest may be
// nil.
func DecodeStrict(text []byte, into any, suggest Suggest) error {
	err := newStrict(text, 0).check(nil, nil) // a document that is cut off says so, whatever its names are
	d := newStrict(text, 0)
	d.suggest = suggest
	if err == nil {
		err = d.check(reflect.TypeOf(into), nil)
	}
	if err == nil {
		if _, end := d.dec.Token(); end != io.EOF {
			err = d.errorAt(d.next(), nil, "there is more text after the end of the document", "")
		}
	}
	if err != nil {
		return err
	}

	return json.Unmarshal(text, into)
}

// CheckStrict compares the JSON value at an offset of a document with a type; nil accepts any value without duplicate
// names. Names that resemble no known one are accepted: a newer prelet may have written them.
func CheckStrict(text []byte, offset int, t reflect.Type) error {
	d := newStrict(text, offset)
	d.isNewer = true

	return d.check(t, nil)
}

// strictDecoder compares the tokens of a document with a type.
type strictDecoder struct {
	text []byte
	base int // where the decoder began
	dec  *json.Decoder
	// isNewer accepts names that resemble no known one: a newer prelet may have written them.
	isNewer bool
	suggest Suggest
}

func newStrict(text []byte, base int) *strictDecoder {
	d := &strictDecoder{text: text, base: base, dec: json.NewDecoder(bytes.NewReader(text[base:]))}
	d.dec.UseNumber()

	return d
}

// next returns the offset of the next token.
func (d *strictDecoder) next() int {
	at := d.base + int(d.dec.InputOffset())
	for at < len(d.text) && strings.IndexByte(" \t\r\n:,", d.text[at]) >= 0 {
		at++
	}

	return at
}

func (d *strictDecoder) errorAt(offset int, path []string, why, next string) error {
	before := d.text[:min(offset, len(d.text))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]

	number, column := bytes.Count(before, []byte("\n"))+1, len([]rune(string(line)))+1

	return &PlaceError{number, column, why, next, slices.Clone(path)}
}

// token returns the next token and its offset.
func (d *strictDecoder) token() (tok json.Token, at int, err error) {
	at = d.next()
	tok, err = d.dec.Token()
	switch {
	case err == nil:
		return tok, at, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, at, d.errorAt(len(bytes.TrimRight(d.text, " \t\r\n")), nil, "the document ends too early",
			"A brace or a bracket is not closed")
	}

	return nil, at, d.errorAt(d.next(), nil, "this is not JSON",
		"Names and texts have double quotes, there is a comma between two members, and none after the last")
}

// check compares the next value with a type; nil accepts any value. The path of the value is for messages.
func (d *strictDecoder) check(t reflect.Type, path []string) error {
	mayBeNull := t == nil
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
		mayBeNull = true
	}
	if t != nil && (t.Kind() == reflect.Interface || decodesItself(t)) {
		t, mayBeNull = nil, true
	}
	tok, at, err := d.token()
	if err != nil {
		return err
	}

	switch {
	case tok == nil:
		isCollection := t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map)
		if !mayBeNull && !isCollection {
			return d.wrong(at, path, t, "null")
		}
	case tok == json.Delim('{'):
		return d.checkObject(t, path, at)
	case tok == json.Delim('['):
		return d.checkList(t, path, at)
	case t != nil && !fits(tok, t):
		return d.wrong(at, path, t, describeToken(tok))
	}
	if d.suggest != nil {
		if next := d.suggest(path, tok); next != "" {
			found := describeToken(tok)
			if text, isText := tok.(string); isText {
				found = strconv.Quote(text)
			}
			return d.errorAt(at, path, describePath(path)+" is never "+found, next)
		}
	}

	return nil
}

// decodesItself reports whether a type has a form of its own in JSON.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)

	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (d *strictDecoder) checkObject(t reflect.Type, path []string, at int) error {
	var fields map[string]reflect.Type
	var element reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t.Kind() == reflect.Map:
		element = t.Elem()
	default:
		return d.wrong(at, path, t, "an object")
	}

	seen := map[string]bool{}
	for d.dec.More() {
		tok, at, err := d.token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		if seen[name] {
			return d.errorAt(at, append(path, name), fmt.Sprintf("%q is given twice in %s", name, describePath(path)),
				"Remove one of them")
		}
		seen[name] = true

		member := element
		if fields != nil {
			known := false
			member, known = fields[name]
			if !known {
				if err := d.unknown(at, path, name, fields); err != nil {
					return err
				}
			}
		}
		if err := d.check(member, append(path, name)); err != nil {
			return err
		}
	}
	_, _, err := d.token()

	return err
}

// unknown returns the error for a name that an object does not have.
func (d *strictDecoder) unknown(at int, path []string, name string, fields map[string]reflect.Type) error {
	known := slices.Sorted(maps.Keys(fields))
	near := texts.Nearest(name, known)
	if near == "" && d.isNewer {
		return nil
	}

	next := "Valid names: " + strings.Join(known, ", ")
	if near != "" {
		next = fmt.Sprintf("Did you mean %q?", near)
	}

	return d.errorAt(at, append(path, name), fmt.Sprintf("unknown name %q in %s", name, describePath(path)), next)
}

func (d *strictDecoder) checkList(t reflect.Type, path []string, at int) error {
	var element reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		element = t.Elem()
	default:
		return d.wrong(at, path, t, "a list")
	}

	for i := 0; d.dec.More(); i++ {
		if err := d.check(element, append(path, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	_, _, err := d.token()

	return err
}

// wrong returns the error for a value of another type. The value may be a secret, and is not repeated.
func (d *strictDecoder) wrong(at int, path []string, t reflect.Type, found string) error {
	want := map[reflect.Kind]string{
		reflect.Struct: "an object, as { … }", reflect.Map: "an object, as { … }", reflect.Slice: "a list, as [ … ]",
		reflect.String: "a text, in double quotes", reflect.Bool: "true or false, without quotes",
		reflect.Float64: "a number, without quotes",
	}[t.Kind()]
	if want == "" {
		want = "a whole number, without quotes"
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		want = "a text in base64"
	}

	return d.errorAt(at, path, fmt.Sprintf("%s is %s", describePath(path), found), "Write "+want)
}

// fits reports whether a text, a number or a boolean is of a type.
func fits(tok json.Token, t reflect.Type) bool {
	number, isNumber := tok.(json.Number)
	switch t.Kind() {
	case reflect.String:
		_, isText := tok.(string)
		return isText
	case reflect.Bool:
		_, isBool := tok.(bool)
		return isBool
	case reflect.Slice:
		text, isText := tok.(string)
		return isText && t.Elem().Kind() == reflect.Uint8 && json.Unmarshal([]byte(`"`+text+`"`), new([]byte)) == nil
	}

	return isNumber && json.Unmarshal([]byte(number), reflect.New(t).Interface()) == nil
}

func describeToken(tok json.Token) string {
	switch tok := tok.(type) {
	case json.Number:
		return "the number " + string(tok)
	case bool:
		return fmt.Sprint(tok)
	}

	return "a text"
}

// describePath returns a path as the language writes it: nics[0].speed_gbps.
func describePath(path []string) string {
	if len(path) == 0 {
		return "the document"
	}

	text := ""
	for _, name := range path {
		_, notIndex := strconv.Atoi(name)
		switch {
		case notIndex == nil:
			text += "[" + name + "]"
		case text == "":
			text = name
		default:
			text += "." + name
		}
	}

	return text
}

// fieldsOf returns the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			out[name] = f.Type
		}
	}

	return out
}
