package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"go.yaml.in/yaml/v2"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

// maxYAMLNodes bounds lines and commas together, an estimate of a document's nodes: the parser takes ten microseconds
// for each.
const maxYAMLNodes = 100_000

// CheckYAMLSize refuses a document that has more lines and commas than a parser should read: each may be a value, which
// takes hundreds of bytes and ten microseconds.
func CheckYAMLSize[T string | []byte](src T) error {
	n := 0
	for _, r := range string(src) { // YAML's line breaks, and commas
		switch r {
		case '\n', '\r', '\u0085', '\u2028', '\u2029', ',':
			n++
		}
	}
	if n > maxYAMLNodes {
		return fmt.Errorf("the YAML document has %d lines and commas; at most %d are read", n, maxYAMLNodes)
	}

	return nil
}

// DecodeYAML reads one YAML document of at most 1 MiB, 64 levels and 100,000 lines and commas, with the parser that
// the kubelet reads its configuration with (that of sigs.k8s.io/yaml), strict: duplicate keys and alias bombs are
// refused, and text after the document. An empty document is null.
func DecodeYAML(src []byte) (cty.Value, error) {
	if err := checkText(src, maxDocument, "YAML"); err != nil {
		return cty.DynamicVal, err
	}
	if secret.HasPlaceholder(string(src)) { // also in a comment
		return cty.DynamicVal, errPlaceholderInput
	}
	if err := CheckYAMLSize(src); err != nil {
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

// yamlValue converts a parsed value to the types of JSON, with keys as sigs.k8s.io/yaml writes them.
func yamlValue(v any, depth int) (any, error) {
	switch v := v.(type) {
	case []any:
		if depth == maxDepth {
			return nil, errTooDeep
		}
		for i := range v {
			e, err := yamlValue(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
		return v, nil
	case map[any]any:
		if depth == maxDepth {
			return nil, errTooDeep
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			key, err := yamlKey(k)
			if err != nil {
				return nil, err
			}
			if _, dup := out[key]; dup {
				return nil, fmt.Errorf(
					"the key %s is given twice in one mapping, once of another type",
					texts.QuoteShort(key),
				)
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
		// As sigs.k8s.io/yaml writes such a key, with the precision of 32 bits.
		text := strconv.FormatFloat(k, 'g', -1, 32)
		switch text {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		}
		return text, nil
	case nil:
		return "", errors.New("a key of the YAML document is null")
	}
	return "", errors.New(
		"a key of the YAML document is neither text, a bool nor a number of 64 bits",
	)
}

// oneDocument parses the only document. The parser alone would silently drop other documents and text that is not YAML.
// Empty documents do not count.
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
			return nil, YAMLError(err)
		case n == 1:
			first = doc
		case doc != nil:
			return nil, errors.New("the text holds more than one YAML document; one is read")
		}
	}
}

// yamlLine is the place in the library's errors, which have it as text only.
var yamlLine = texts.LazyRegexp(`\bline ([0-9]+): `)

// YAMLError keeps the line and the cause of an error of the library, on one line, and adds the most frequent reason.
func YAMLError(err error) error {
	msg := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
	msg = strings.TrimPrefix(msg, "unmarshal errors: ")
	if r := []rune(msg); len(r) > 200 {
		msg = string(r[:200]) + "…"
	}
	for cause, reason := range map[string]string{
		"mapping values are not allowed": `a text that contains ": " is written in quotes`,
		"cannot start any token":         "YAML indents with spaces, and a text that begins with a sign is in quotes",
		"did not find expected key":      "this line or the next one is not indented as those before",
	} {
		if strings.Contains(msg, cause) {
			msg += ": " + reason
		}
	}
	line := 0
	if m := yamlLine().FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
	}

	return &lineError{errors.New("not YAML: " + msg), line, 0}
}
