package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"unicode"
	"unicode/utf16"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// sensitiveText stands wherever something that holds a secret would be printed.
const sensitiveText = "(sensitive)"

// Text is the content of a file. A credential stands in it as a placeholder until [Text.Bytes]. Printed, logged or
// put into JSON, a text with a secret is "(sensitive)" whole.
type Text struct {
	template string
	secrets  []string
}

// TextOf is v as text: a known string, or what converts to one. A null, an unknown (an unread one names its
// questions) and a placeholder that no mark covers are errors.
func TextOf(v cty.Value) (Text, error) {
	plain, secrets, unread := Plain(v)
	switch {
	case !plain.IsKnown() && len(unread) > 0:
		return Text{}, fmt.Errorf("the text is not known: the recording was never asked for %s", quoteNames(unread))
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
		if err := uncovered(s.AsString(), secrets); err != nil {
			return Text{}, err
		}
	}
	return Text{template: s.AsString(), secrets: secrets}, nil
}

// PlainText is a text without secrets, byte for byte: as a value of the language its characters would be combined, see
// [IsExact]. It must not hold the characters of placeholders.
func PlainText(s string) Text {
	if HasPlaceholder(s) {
		panic("value: a text of a file's format with a placeholder") // inputs are refused with one
	}

	return Text{template: s}
}

// IsExact reports whether a text is the same as a value of the language, which combines characters (Unicode NFC): e and a
// combining accent become one character. Bytes that are not the site's own must not change so.
func IsExact(s string) bool { return cty.NormalizeString(s) == s }

// FindLoneSurrogate returns where in a JSON text the escape of half of a character stands without the other half, as in
// "\ud800"; -1 for nowhere. Readers make U+FFFD of it, so it is not the text that was written.
func FindLoneSurrogate(text string) int {
	unit := func(i int) rune {
		if len(text) < i+6 || text[i] != '\\' || text[i+1] != 'u' {
			return 0
		}
		n, err := strconv.ParseUint(text[i+2:i+6], 16, 16)
		if err != nil {
			return 0
		}

		return rune(n)
	}

	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r := unit(i)
		switch {
		case !utf16.IsSurrogate(r):
			i++ // what is escaped
		case utf16.DecodeRune(r, unit(i+6)) == unicode.ReplacementChar:
			return i
		default:
			i += 11
		}
	}

	return -1
}

// Template is the text with placeholders where secrets will be: what is hashed and compared. It is not for people.
func (t Text) Template() string { return t.template }

// Secrets names the credentials that flowed into the text, sorted.
func (t Text) Secrets() []string { return append([]string(nil), t.secrets...) }

// Bytes is the text with the secrets in it. Only the writer of files calls it, at commit. get returns a credential's
// bytes; see [ResolvePlaceholders].
func (t Text) Bytes(get func(name string) ([]byte, error)) ([]byte, error) {
	s, err := ResolvePlaceholders(t.template, get)
	if err != nil {
		return nil, err
	}
	return []byte(s), nil
}

// String is the text for people.
func (t Text) String() string {
	if len(t.secrets) > 0 {
		return sensitiveText
	}
	return t.template
}

// Format makes every verb of package fmt, %d and %#v too, print what String says.
func (t Text) Format(f fmt.State, verb rune) {
	s := t.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		s = fmt.Sprintf("%q", s)
	}
	_, _ = io.WriteString(f, s) // fmt.State keeps no error
}

// LogValue is for package slog.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON is a JSON string of what String says.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }
