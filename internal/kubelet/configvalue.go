package kubelet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// normalize copies a value into the types of Config. Whole numbers stay whole; a number keeps every digit.
func normalize(v any, levels int) (any, error) {
	if levels < 0 {
		return nil, fmt.Errorf("nested deeper than %d", maxConfigDepth)
	}
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("a string that is not UTF-8")
		}
		return v, nil
	case json.Number:
		return normalizeNumber(string(v))
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return normalizeNumber(fmt.Sprint(v))
	case float64:
		return normalizeNumber(strconv.FormatFloat(v, 'g', -1, 64))
	case *big.Int:
		return normalizeNumber(v.String())
	case *big.Float:
		if v.IsInt() {
			return normalizeNumber(v.Text('f', 0))
		}
		return normalizeNumber(v.Text('g', -1))
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list, nil
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			plain, err := normalize(element, levels-1)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			list[i] = plain
		}
		return list, nil
	case map[string]string:
		object := make(map[string]any, len(v))
		for name, s := range v {
			object[name] = s
		}
		return normalize(object, levels)
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			if len(name) > maxConfigName || !utf8.ValidString(name) {
				return nil, fmt.Errorf("a member's name is no text of at most %d bytes: %.20q…", maxConfigName, name)
			}
			if name == "<<" {
				return nil, fmt.Errorf("a member is named \"<<\", which YAML takes for a merge: remove it")
			}
			plain, err := normalize(member, levels-1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			object[name] = plain
		}
		return object, nil
	}
	return nil, fmt.Errorf("a %T is no value of JSON", v)
}

func normalizeNumber(text string) (any, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !json.Valid([]byte(text)) || f-f != 0 {
		return nil, fmt.Errorf("%q is no number of JSON", text)
	}
	return json.Number(text), nil
}

// encodeJSON returns a value of Config's types as JSON with sorted keys that is YAML too: characters that JSON allows
// unescaped, and YAML refuses or takes for line breaks, are escaped.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("kubelet: a configuration holds a value that normalize lets nobody put there: " + err.Error())
	}
	text := bytes.TrimRight(b.Bytes(), "\n")
	if !bytes.ContainsFunc(text, notInYAML) {
		return text
	}
	var escaped bytes.Buffer
	for _, r := range string(text) {
		if notInYAML(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes()
}

func notInYAML(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff
}

// quotedYAML returns a string as a double-quoted scalar, which every parser of YAML and JSON takes for a string.
func quotedYAML(s string) string { return string(encodeJSON(s)) }
