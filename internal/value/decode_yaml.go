package value

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
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
	if n := yamlDocuments(src); n > 1 {
		return cty.DynamicVal, fmt.Errorf("the text holds %d YAML documents; one is read", n)
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
// indentation, and indicators in a row on one line ("- - - x"). It may count too much (brackets inside of quoted or
// block text), never in a way that matters to a real document: the 65th unclosed bracket is refused.
func yamlDepth(src []byte) error {
	var flow, line int
	var indents []int
	for text := range bytes.Lines(src) {
		line++
		rest := bytes.TrimLeft(text, " ")
		col := len(text) - len(rest)
		rest = bytes.TrimSpace(rest)
		if len(rest) == 0 || rest[0] == '#' {
			continue
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

// flowDepth is the deepest count of open brackets, carried from line to line. Closing brackets inside of quotes do
// not count, so that they cannot hide open ones.
func flowDepth(line []byte, open int) int {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
			if c == '[' || c == '{' {
				// A quote that is none (an apostrophe in plain text) must not hide a bracket.
				if apostrophe := quote == '\'' && bytes.IndexByte(line[i:], quote) < 0; apostrophe {
					open++
				}
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			if open++; open > maxDepth {
				return open
			}
		case c == ']' || c == '}':
			open = max(0, open-1)
		}
	}
	return open
}

// yamlDocuments counts documents that "---" separates; the parser would read the first and drop the others.
func yamlDocuments(src []byte) int {
	n, content := 0, false
	for text := range bytes.Lines(src) {
		text = bytes.TrimRight(text, " \t\r\n")
		switch {
		case bytes.Equal(text, []byte("---")) || bytes.HasPrefix(text, []byte("--- ")):
			if content {
				n++
			}
			content = len(text) > 3
		case len(bytes.TrimSpace(text)) > 0 && bytes.TrimSpace(text)[0] != '#' && !bytes.Equal(text, []byte("...")):
			content = true
		}
	}
	if content {
		n++
	}
	return n
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
