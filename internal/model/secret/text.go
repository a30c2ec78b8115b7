package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// sensitiveText is printed in place of a secret, or of a text with one.
const sensitiveText = "(sensitive)"

// Text is the content of a file, with placeholders for credentials until [Text.Bytes]. Printed, logged or encoded as
// JSON, a text with a secret is "(sensitive)".
type Text struct {
	template string
	secrets  []string
}

// TextOf returns v as text: a known string, or a value that converts to one. Null, unknown values and placeholders
// without a mark are errors.
func TextOf(v cty.Value) (Text, error) {
	plain, secrets := Plain(v)
	switch {
	case !plain.IsKnown():
		return Text{}, errors.New("the text is not known")
	case plain.IsNull():
		return Text{}, errors.New("the text is null")
	}
	s, err := convert.Convert(plain, cty.String)
	if err != nil {
		return Text{}, fmt.Errorf("text is needed, not %s", plain.Type().FriendlyName())
	}
	if HasPlaceholder(s.AsString()) {
		if err := checkCovered(s.AsString(), secrets); err != nil {
			return Text{}, err
		}
	}
	return Text{template: s.AsString(), secrets: secrets}, nil
}

// PlainText returns a text without secrets, byte for byte: as a value of the language its characters would be combined,
// see [value.IsExact]. Characters of placeholders in it have no meaning.
func PlainText(s string) Text { return Text{template: s} }

// TemplateText returns a text whose placeholders replace the withheld parts of a file of the node.
func TemplateText(s string) Text { return Text{template: s, secrets: PlaceholderNames(s)} }

// Template returns the text with placeholders, for hashing and comparing. It must not be shown.
func (t Text) Template() string { return t.template }

// Secrets returns the names of the credentials in the text, sorted.
func (t Text) Secrets() []string {
	return append([]string(nil), t.secrets...)
}

// Value returns the text as a value of the language: its secrets are placeholders, and it is marked with their names.
func (t Text) Value() cty.Value {
	marks := cty.ValueMarks{}
	for _, name := range t.secrets {
		marks[Mark{Name: name}] = struct{}{}
	}

	return cty.StringVal(t.template).WithMarks(marks)
}

// Bytes returns the text with its secrets. Only the writer of files calls it, at commit. get returns a credential's
// bytes; see [ResolvePlaceholders].
func (t Text) Bytes(get func(name string) ([]byte, error)) ([]byte, error) {
	if len(t.secrets) == 0 {
		return []byte(t.template), nil
	}

	s, err := ResolvePlaceholders(t.template, get)
	if err != nil {
		return nil, err
	}
	return []byte(s), nil
}

// String returns the text for people.
func (t Text) String() string {
	if len(t.secrets) > 0 {
		return sensitiveText
	}
	return t.template
}

// Format makes every verb of package fmt, %d and %#v too, print what String returns.
func (t Text) Format(f fmt.State, verb rune) {
	s := t.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		s = fmt.Sprintf("%q", s)
	}
	_, _ = io.WriteString(f, s) // fmt.State keeps no error
}

// MarshalJSON returns a JSON string of what String returns.
func (t Text) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.String())
}
