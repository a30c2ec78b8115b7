package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/texts"
)

// Bounds on documents from outside. The parsers recurse and take no context, so both are checked before parsing.
const (
	maxDocument = 1 << 20 // bytes of a document that a site or a cluster brings
	maxDepth    = 64      // collections inside of collections
	maxExponent = 400     // decimal: 1e999999999 is a short text and a number of a gigabyte
	maxDigits   = 800
)

// DecodeJSON reads one JSON document of at most 1 MiB and 64 levels. Objects become objects, arrays tuples, numbers
// stay exact. Duplicate keys, text that is not UTF-8, and the characters of placeholders are refused.
func DecodeJSON(src []byte) (cty.Value, error) {
	v, err := parseJSON(src, maxDocument)
	if err != nil {
		return cty.DynamicVal, err
	}
	if at := FindLoneSurrogate(string(src)); at >= 0 {
		return cty.DynamicVal, fmt.Errorf(
			"byte %d of the JSON document is half of a character (%s, an unpaired surrogate), which no text can hold",
			at,
			src[at:at+6],
		)
	}
	return FromGo(v)
}

// parseJSON parses a bounded document into map[string]any, []any, string, bool, json.Number, nil.
func parseJSON(src []byte, limit int) (any, error) {
	if err := checkText(src, limit, "JSON"); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	v, err := jsonValue(dec, 0)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return v, nil
		}
		err = errors.New("there is more after the end of the document")
	}
	return nil, jsonError(err, src, dec.InputOffset())
}

// lineError is an error at a line of a document.
type lineError struct {
	error
	line   int // from 1
	offset int // in that line, in bytes
}

func (e *lineError) Unwrap() error { return e.error }

// PlaceOf returns the line of an error of DecodeJSON or DecodeYAML, and the offset in it; 0 if it has none.
func PlaceOf(err error) (line, offset int) {
	var at *lineError
	if errors.As(err, &at) {
		return at.line, at.offset
	}

	return 0, 0
}

// checkText refuses a document before a parser reads it.
func checkText(src []byte, limit int, kind string) error {
	switch {
	case len(src) > limit:
		return fmt.Errorf(
			"the %s document has %d bytes; at most %d are read",
			kind,
			len(src),
			limit,
		)
	case !utf8.Valid(src):
		return fmt.Errorf("the %s document is not UTF-8 text", kind)
	}
	return nil
}

var errTooDeep = fmt.Errorf("the document nests more than %d levels", maxDepth)

var errPlaceholderInput = errors.New(
	"the text holds the character U+E000 or U+E001, which prelet keeps for credentials",
)

func jsonValue(dec *json.Decoder, depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if _, isOpening := tok.(json.Delim); isOpening && depth == maxDepth {
		return nil, errTooDeep
	}
	switch tok {
	case json.Delim('['):
		out := []any{}
		for dec.More() {
			e, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		_, err := dec.Token()
		return out, err
	case json.Delim('{'):
		out := map[string]any{}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, ok := k.(string)
			if !ok {
				return nil, errors.New("a key is not a string")
			}
			if _, dup := out[key]; dup {
				return nil, fmt.Errorf("the key %s is given twice in one object", texts.QuoteShort(key))
			}
			if out[key], err = jsonValue(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return out, err
	}
	return tok, nil
}

// jsonError reports the place and does not repeat the text, which may have a secret.
func jsonError(err error, src []byte, offset int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax): // its own offset is that within a token
		rest := bytes.TrimLeft(src[offset:], " \t\r\n:,")
		offset = int64(len(src)-len(rest)) + 1
		err = fmt.Errorf("not JSON at byte %d: names and texts have double quotes, there is a comma between two "+
			"members, and none after the last", offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the JSON document ends too early")
	default:
		err = fmt.Errorf("JSON, byte %d: %w", offset, err)
	}

	before := src[:min(max(int(offset)-1, 0), len(src))]

	return &lineError{err, 1 + bytes.Count(before, []byte("\n")), len(before) - 1 - bytes.LastIndexByte(before, '\n')}
}

// parseNumber returns cty's exact number of a decimal text, which is bounded.
func parseNumber(s string) (cty.Value, error) {
	digits, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	e, err := strconv.Atoi(exponent)
	isLarge := hasExponent && (err != nil || max(e, -e) > maxExponent)
	if isLarge || len(digits) > maxDigits {
		return cty.DynamicVal, fmt.Errorf("the number %s is out of range", texts.QuoteShort(s))
	}

	n, err := cty.ParseNumberVal(s)
	if err != nil {
		return cty.DynamicVal, fmt.Errorf("invalid number %s", texts.QuoteShort(s))
	}
	if isOutOfRange(n.AsBigFloat()) {
		return cty.DynamicVal, fmt.Errorf("the number %s is out of range", texts.QuoteShort(s))
	}

	return n, nil
}

var (
	escapedPair = texts.LazyRegexp(`\\\\|\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)
	surrogate   = texts.LazyRegexp(`\\u[dD][89a-fA-F][[:xdigit:]]{2}`)
)

// FindLoneSurrogate returns the position of an unpaired surrogate in a JSON text, as in "\ud800", or -1. Readers
// replace it by U+FFFD, which changes the text.
func FindLoneSurrogate(text string) int {
	unpaired := escapedPair().ReplaceAllStringFunc(text, func(pair string) string {
		return strings.Repeat(" ", len(pair))
	})
	if at := surrogate().FindStringIndex(unpaired); at != nil {
		return at[0]
	}

	return -1
}
