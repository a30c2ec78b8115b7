package kubelet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
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

// encodeJSON prints a value of Config's types as JSON that is YAML too: map keys come out sorted, and the few
// characters that JSON allows as they are and YAML does not, or takes for line breaks, are escaped.
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

// writeYAML prints an object as block YAML. Our own few lines instead of a library's, because numbers must keep
// their digits and the bytes must not change when a library does.
func writeYAML(b *bytes.Buffer, object map[string]any, indent int) {
	for _, name := range sortedKeys(object) {
		writeIndent(b, indent)
		b.WriteString(yamlString(name))
		b.WriteByte(':')
		writeYAMLValue(b, object[name], indent)
	}
}

// writeYAMLValue prints what follows "name:" or "-" of a line that is indented so far.
func writeYAMLValue(b *bytes.Buffer, v any, indent int) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			b.WriteByte('\n')
			writeYAML(b, v, indent+2)
			return
		}
	case []any:
		if len(v) > 0 {
			b.WriteByte('\n')
			for _, element := range v {
				writeIndent(b, indent)
				b.WriteByte('-')
				writeYAMLElement(b, element, indent)
			}
			return
		}
	case string:
		b.WriteByte(' ')
		b.WriteString(yamlString(v))
		b.WriteByte('\n')
		return
	}
	b.WriteByte(' ')
	b.Write(encodeJSON(v))
	b.WriteByte('\n')
}

// writeYAMLElement puts the first member of an object on the line of its dash.
func writeYAMLElement(b *bytes.Buffer, v any, indent int) {
	object, ok := v.(map[string]any)
	if !ok || len(object) == 0 {
		writeYAMLValue(b, v, indent+2)
		return
	}
	var inner bytes.Buffer
	writeYAML(&inner, object, indent+2)
	b.WriteByte(' ')
	b.Write(inner.Bytes()[indent+2:])
}

func writeIndent(b *bytes.Buffer, n int) { b.WriteString(strings.Repeat(" ", n)) }

// yamlString prints a string plain where every reader of YAML takes it for a string, and else as JSON does, which
// is a double-quoted scalar.
func yamlString(s string) string {
	if isPlain(s) && !looksOtherwise(s) {
		return s
	}
	return quotedYAML(s)
}

// quotedYAML prints a string as a double-quoted scalar, which every reader of YAML and JSON takes for a string.
func quotedYAML(s string) string { return string(encodeJSON(s)) }

func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '/'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && strings.IndexByte("_.-", c) < 0) {
			return false
		}
	}
	return s != ""
}

// looksOtherwise says whether YAML 1.1 or 1.2 reads a word as something else than a string.
func looksOtherwise(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
