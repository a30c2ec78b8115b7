package value

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zclconf/go-cty/cty"
	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// DecodeYAML reads one YAML document of at most 1 MiB and 64 levels, as the kubelet reads its configuration
// (sigs.k8s.io/yaml, strict): duplicate keys and alias bombs are refused. An empty document is null.
func DecodeYAML(src []byte) (cty.Value, error) {
	if err := checkText(src, maxDocument, "YAML"); err != nil {
		return cty.DynamicVal, err
	}
	if err := yamlDepth(src); err != nil {
		return cty.DynamicVal, err
	}
	if err := oneDocument(src); err != nil {
		return cty.DynamicVal, err
	}
	j, err := yaml.YAMLToJSONStrict(src)
	if err != nil {
		return cty.DynamicVal, yamlError(err)
	}
	// Aliases make a document larger than its text: yaml refuses bombs, and this bounds what it let pass.
	v, err := parseJSON(j, 8*maxDocument)
	if err != nil {
		return cty.DynamicVal, fmt.Errorf("the YAML document, as JSON: %w", err)
	}
	return FromGo(v)
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

// oneDocument refuses what stands after the first document: the parser of which the kubelet's is made reads the
// first and drops the others, and text that is no YAML too, without a word. Empty documents are none.
func oneDocument(src []byte) error {
	dec := goyaml.NewDecoder(bytes.NewReader(src))
	dec.SetStrict(true)
	for n := 1; ; n++ {
		var doc any
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return yamlError(err)
		case n > 1 && doc != nil:
			return errors.New("the text holds more than one YAML document; one is read")
		}
	}
}

// yamlError keeps the library's line and cause, on one line.
func yamlError(err error) error {
	msg := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
	msg = strings.TrimPrefix(msg, "error converting YAML to JSON: yaml: ")
	if r := []rune(msg); len(r) > 200 {
		msg = string(r[:200]) + "…"
	}
	return errors.New("not YAML: " + msg)
}
