package value

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"go.yaml.in/yaml/v2"
)

// maxYAMLNodes bounds lines and commas together, which is about what a document's nodes are counted by: the parser
// takes ten microseconds for each.
const maxYAMLNodes = 100_000

// DecodeYAML reads one YAML document of at most 1 MiB, 64 levels and 100,000 lines and commas, with the parser that
// the kubelet reads its configuration with (that of sigs.k8s.io/yaml), strict: duplicate keys and alias bombs are
// refused, and what stands after the document. An empty document is null.
func DecodeYAML(src []byte) (cty.Value, error) {
	if err := checkText(src, maxDocument, "YAML"); err != nil {
		return cty.DynamicVal, err
	}
	if HasPlaceholder(string(src)) { // also in a comment
		return cty.DynamicVal, errPlaceholderInput
	}
	if n := bytes.Count(src, []byte("\n")) + bytes.Count(src, []byte(",")); n > maxYAMLNodes {
		return cty.DynamicVal, fmt.Errorf("the YAML document has %d lines and commas; at most %d are read", n, maxYAMLNodes)
	}
	if err := yamlDepth(src); err != nil {
		return cty.DynamicVal, err
	}
	doc, err := oneDocument(src)
	if err != nil {
		return cty.DynamicVal, err
	}
	v, err := yamlValue(doc, 0)
	if err != nil {
		return cty.DynamicVal, err
	}
	return FromGo(v)
}

// yamlValue turns what the parser made into what JSON has, keys as sigs.k8s.io/yaml writes them.
func yamlValue(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the YAML document nests more than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			e, err := yamlValue(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
		return v, nil
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			key, err := yamlKey(k)
			if err != nil {
				return nil, err
			}
			if _, dup := out[key]; dup {
				return nil, fmt.Errorf("the key %s is given twice in one mapping, once of another type", quoteShort(key))
			}
			if out[key], err = yamlValue(e, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

func yamlKey(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int, int64, bool:
		return fmt.Sprint(k), nil
	case float64:
		return strconv.FormatFloat(k, 'g', -1, 64), nil
	case nil:
		return "", errors.New("a key of the YAML document is null")
	}
	return "", errors.New("a key of the YAML document is neither text, a bool nor a number of 64 bits")
}

// yamlDepth bounds nesting before the parser sees the text, in the three ways that YAML nests: flow brackets,
// indentation, and indicators in a row on one line ("- - - x"). It is no parser: text that is built to mislead it
// meets the limit of the parser itself (10,000 levels, 30 ms), and what comes out of that is counted again.
func yamlDepth(src []byte) error {
	flow, line, block := 0, 0, -1 // block: the column of the line whose value is the block of text that follows
	var indents []int
	for text := range bytes.Lines(src) {
		line++
		rest := bytes.TrimLeft(text, " ")
		col := len(text) - len(rest)
		rest = bytes.TrimSpace(rest)
		if len(rest) == 0 || rest[0] == '#' || block >= 0 && col > block {
			continue
		}
		block = -1
		if flow == 0 && blockText(rest) {
			block = col
		}
		for len(indents) > 0 && indents[len(indents)-1] >= col {
			indents = indents[:len(indents)-1]
		}
		indents = append(indents, col)
		row := 0
		for len(rest) > 1 && bytes.IndexByte([]byte("-?:"), rest[0]) >= 0 && (rest[1] == ' ' || rest[1] == '\t') {
			rest = bytes.TrimLeft(rest[1:], " \t")
			row++
		}
		flow = flowDepth(rest, flow)
		if len(indents)+row > maxDepth+1 || flow > maxDepth {
			return fmt.Errorf("the YAML document nests more than %d levels in line %d", maxDepth, line)
		}
	}
	return nil
}

// blockText reports whether the value of a line is the text below it: "key: |", "- >-", "key: |2+".
func blockText(line []byte) bool {
	i := bytes.LastIndexAny(line, " ")
	last := bytes.TrimRight(line[i+1:], "+-123456789")
	return i > 0 && (string(last) == "|" || string(last) == ">")
}

// flowDepth is the count of open brackets after a line, or where it first went over the bound. Brackets in quoted
// text do not count.
func flowDepth(line []byte, open int) int {
	var quote byte
	start := true // of a scalar: only there a quote is one
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
			continue
		case start && (c == '"' || c == '\''):
			quote = c
		case c == '[' || c == '{':
			if open++; open > maxDepth {
				return open
			}
		case c == ']' || c == '}':
			open = max(0, open-1)
		}
		start = bytes.IndexByte([]byte(" \t[{,:"), c) >= 0
	}
	return open
}

// oneDocument parses, and refuses what stands after the first document: by itself the parser reads the first and
// drops the others, and text that is no YAML too, without a word. Empty documents are none.
func oneDocument(src []byte) (any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.SetStrict(true)
	var first any
	for n := 1; ; n++ {
		var doc any
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return first, nil
		case err != nil:
			return nil, yamlError(err)
		case n == 1:
			first = doc
		case doc != nil:
			return nil, errors.New("the text holds more than one YAML document; one is read")
		}
	}
}

// yamlError keeps the library's line and cause, on one line.
func yamlError(err error) error {
	msg := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
	if r := []rune(msg); len(r) > 200 {
		msg = string(r[:200]) + "…"
	}
	return errors.New("not YAML: " + msg)
}
