package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/model/texts"
)

// normalize returns a copy of a value in the types of Config. Numbers keep all digits.
func normalize(v any, levels int) (any, error) {
	if levels < 0 {
		return nil, errTooDeep
	}

	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New("a string that is not UTF-8")
		}

		return v, nil
	case []string:
		return normalizeList(v, levels-1)
	case []any:
		return normalizeList(v, levels-1)
	case map[string]string:
		return normalizeObject(v, levels-1)
	case map[string]any:
		return normalizeObject(v, levels-1)
	}

	return normalizeNumber(v)
}

func normalizeList[T any](list []T, levels int) (any, error) {
	out := make([]any, len(list))
	for i, element := range list {
		plain, err := normalize(element, levels)
		if err != nil {
			return nil, wrapUnlessTooDeep(err, fmt.Sprintf("element %d", i))
		}
		out[i] = plain
	}

	return out, nil
}

func normalizeObject[T any](object map[string]T, levels int) (any, error) {
	out := make(map[string]any, len(object))
	for name, member := range object {
		if len(name) > maxConfigName || !utf8.ValidString(name) {
			return nil, fmt.Errorf("invalid name %.20q…: want UTF-8 of at most %d bytes", name, maxConfigName)
		}
		if name == "<<" {
			return nil, errors.New("a member is named \"<<\", which is a merge key in YAML: remove it")
		}
		plain, err := normalize(member, levels)
		if err != nil {
			return nil, wrapUnlessTooDeep(err, name)
		}
		out[name] = plain
	}

	return out, nil
}

// wrapUnlessTooDeep adds a place to an error. A place with a thousand names is useless.
func wrapUnlessTooDeep(err error, place string) error {
	if errors.Is(err, errTooDeep) {
		return err
	}

	return fmt.Errorf("%s: %w", place, err)
}

func normalizeNumber(v any) (any, error) {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = string(v)
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, *big.Int:
		text = fmt.Sprint(v)
	case float64:
		text = strconv.FormatFloat(v, 'g', -1, 64)
	case *big.Float:
		text = v.Text('g', -1)
		if v.IsInt() {
			text = v.Text('f', 0)
		}
	default:
		return nil, fmt.Errorf("a %T is not a JSON value", v)
	}

	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("invalid JSON number %q", text)
	}

	return json.Number(text), nil
}

// encodeJSON returns a value of Config's types as JSON with sorted keys that is also YAML: it escapes characters that
// YAML rejects or reads as line breaks.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("kubelet: a configuration has a value that JSON does not have: " + err.Error())
	}

	return []byte(texts.EscapeForYAML(strings.TrimRight(b.String(), "\n")))
}

// quoteYAML returns a text as a double-quoted scalar, which YAML and JSON parsers read as a string.
func quoteYAML(s string) string { return string(encodeJSON(s)) }
