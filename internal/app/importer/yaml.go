package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	goyaml "go.yaml.in/yaml/v2"
	yaml "go.yaml.in/yaml/v3"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
)

// Limits of a document; kubeadm's and nodeadm's have a few KiB.
const (
	maxDocuments = 32
	maxNodes     = 20_000 // after aliases are expanded
	maxDepth     = 60
)

var (
	tokenPattern = regexp.MustCompile(`[a-z0-9]{6}\.[a-z0-9]{16}`)
	// What comes before a value that may be a secret: its key, in block or flow style, or an anchor that the key refers
	// to. A URL may have a user and a query.
	secretPattern = regexp.MustCompile(`(?i)(?:token|certificateKey)["']?[ \t]*:[ \t]*|` +
		`kubeConfigPath|apiServerEndpoint|["']apiserver["']|staticPodURL|&`)
	// A field with others in it.
	objectPattern = regexp.MustCompile(`bootstrapToken["']?[ \t]*:[ \t]*(?:$|[{#])`)
	// A user or a query of a URL, and escapes, which may spell such a key.
	suspectPattern = regexp.MustCompile(`[@\\]|://.*[?#]`)
	// The begin of a line with a key, or of a document.
	keyPattern  = regexp.MustCompile(`^[ \t]*(?:[\[{,-][ \t]*)*(?:"[^"]*"[ \t]*:|[\w.-]+[ \t]*:(?:[ \t]|$))|^---`)
	linePattern = regexp.MustCompile(`line (\d+)`)
)

// hideSecrets replaces secrets of a text by as many stars, for the source lines of diagnostics. It also hides text that
// only might be a secret, because a file with a syntax error cannot be parsed: the rest of a line behind such a key,
// and the lines below it that belong to its value.
func hideSecrets(src []byte) []byte {
	out := tokenPattern.ReplaceAllFunc(src, func(token []byte) []byte {
		return bytes.Repeat([]byte("*"), len(token))
	})

	indent := -1 // of the key whose value is hidden; -1: none
	for line := range bytes.Lines(out) {
		line = bytes.TrimRight(line, "\r\n")
		own := len(line) - len(bytes.TrimLeft(line, " \t"))
		if indent >= 0 && (own > indent || !keyPattern.Match(line)) {
			hide(line)
			continue
		}

		indent = -1
		if at := findSecret(line); at >= 0 {
			indent = own
			hide(line[at:])
		}
		if suspectPattern.Match(line) {
			indent = own
			hide(line)
		}
	}

	return out
}

// findSecret returns where a secret begins in a line, or -1.
func findSecret(line []byte) int {
	objects := objectPattern.FindAllIndex(line, -1)
	for _, m := range secretPattern.FindAllIndex(line, -1) {
		isObject := slices.ContainsFunc(objects, func(o []int) bool {
			return o[0] <= m[0] && m[0] < o[1]
		})
		if !isObject {
			return m[1]
		}
	}

	return -1
}

// hide replaces a text by stars, but not the spaces before it.
func hide(text []byte) {
	first := len(text) - len(bytes.TrimLeft(text, " \t"))
	for i := first; i < len(text); i++ {
		text[i] = '*'
	}
}

// yamlReader converts YAML to the tree of JSON that messages with places need.
type yamlReader struct {
	name  string
	src   []byte
	lines []int // offset of each line
	nodes int
}

// readYAML reads the documents of a text. A scalar has the type that the parser of Kubernetes gives it.
func readYAML(name string, src []byte) (docs []*lang.JSONNode, diags hcl.Diagnostics) {
	r := &yamlReader{name: name, src: src, lines: []int{0}}
	for i, c := range src {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	switch {
	case len(src) > lang.MaxBytes:
		return nil, hcl.Diagnostics{origin.Error(fault.Limit, r.at(1, 1, 0), "This file is too large",
			"At most %d bytes are read.", lang.MaxBytes)}
	case !utf8.Valid(src):
		notUTF8 := origin.Error(fault.Encoding, r.at(1, 1, 0), "This is not UTF-8", "Save it as UTF-8.")
		return nil, hcl.Diagnostics{notUTF8}
	}

	d := yaml.NewDecoder(bytes.NewReader(src))
	for len(docs) <= maxDocuments {
		var n yaml.Node
		err := decode(d, &n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, hcl.Diagnostics{r.refuseSyntax(err)}
		}
		if n.Kind != yaml.DocumentNode || len(n.Content) == 0 {
			continue
		}
		doc, diag := r.convert(n.Content[0], maxDepth)
		if diag != nil {
			return nil, hcl.Diagnostics{diag}
		}
		docs = append(docs, doc)
	}

	return nil, hcl.Diagnostics{origin.Error(fault.Limit, r.at(1, 1, 0), "Too many documents",
		"At most %d are read.", maxDocuments)}
}

// decode reads the next document. The library panics for some texts that are not YAML.
func decode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()

	return d.Decode(n)
}

// refuseSyntax returns the diagnostic for a text that is not YAML. The library's message has no text of the file but
// the name of an anchor, which is left out.
func (r *yamlReader) refuseSyntax(err error) *hcl.Diagnostic {
	line := 1
	if m := linePattern.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
	}

	text, _, isAnchor := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), " '")
	if isAnchor && strings.HasSuffix(text, "unknown anchor") {
		return origin.Error(fault.Syntax, r.at(line, 1, 0), "Invalid YAML",
			"A value begins with *, and there is no anchor of this name. Quote it if it is a text.")
	}

	return origin.Error(fault.Syntax, r.at(line, 1, 0), "Invalid YAML", "%s.",
		strings.TrimPrefix(err.Error(), "yaml: "))
}

// at returns the place of some characters.
func (r *yamlReader) at(line, column, length int) hcl.Range {
	line = min(max(line, 1), len(r.lines))
	offset := r.lines[line-1]
	end := len(r.src)
	if line < len(r.lines) {
		end = r.lines[line] - 1
	}
	start := hcl.Pos{Line: line, Column: 1, Byte: offset}
	for start.Column < column && start.Byte < end {
		_, size := utf8.DecodeRune(r.src[start.Byte:end])
		start.Byte += size
		start.Column++
	}
	stop := start
	for ; length > 0 && stop.Byte < end; length-- {
		_, size := utf8.DecodeRune(r.src[stop.Byte:end])
		stop.Byte += size
		stop.Column++
	}

	return hcl.Range{Filename: r.name, Start: start, End: stop}
}

// place returns the place of a node: of its text, if that is in one line.
func (r *yamlReader) place(n *yaml.Node) hcl.Range {
	length := 1
	if n.Kind == yaml.ScalarNode {
		length = utf8.RuneCountInString(n.Value)
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			length += 2
		}
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			length = 1
		}
	}

	return r.at(n.Line, n.Column, length)
}

// convert returns a node as JSON. It expands aliases.
func (r *yamlReader) convert(n *yaml.Node, levels int) (*lang.JSONNode, *hcl.Diagnostic) {
	r.nodes++
	at := r.place(n)
	if r.nodes > maxNodes || levels == 0 {
		return nil, origin.Error(fault.Limit, at, "This document is too large",
			"At most %d values in %d levels are read, aliases expanded.", maxNodes, maxDepth)
	}

	switch n.Kind {
	case yaml.AliasNode:
		return r.convert(n.Alias, levels-1)
	case yaml.SequenceNode:
		out := &lang.JSONNode{Range: at, Kind: lang.JSONArray}
		for _, c := range n.Content {
			item, diag := r.convert(c, levels-1)
			if diag != nil {
				return nil, diag
			}
			out.Items = append(out.Items, item)
		}
		return out, nil
	case yaml.MappingNode:
		return r.convertMap(n, at, levels)
	}

	return convertScalar(n, at), nil
}

func (r *yamlReader) convertMap(n *yaml.Node, at hcl.Range, levels int) (*lang.JSONNode, *hcl.Diagnostic) {
	out := &lang.JSONNode{Range: at, Kind: lang.JSONObject}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return nil, origin.Error(fault.WrongType, r.place(key), "This key cannot be imported",
				"Only texts can be keys here, and << is not supported: write its fields.")
		}
		value, diag := r.convert(n.Content[i+1], levels-1)
		if diag != nil {
			return nil, diag
		}
		out.Keys = append(out.Keys, &lang.JSONNode{Range: r.place(key), Kind: lang.JSONString, Text: key.Value})
		out.Items = append(out.Items, value)
	}

	return out, nil
}

// convertScalar returns a scalar with the type of the parser of Kubernetes, which reads YAML 1.1: on is true.
func convertScalar(n *yaml.Node, at hcl.Range) *lang.JSONNode {
	out := &lang.JSONNode{Range: at, Kind: lang.JSONString, Text: n.Value}
	isPlain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if !isPlain || n.Style&yaml.TaggedStyle != 0 && n.ShortTag() == "!!str" {
		return out
	}

	var v any
	if strings.Contains(n.Value, "\n") || goyaml.Unmarshal([]byte(n.Value), &v) != nil {
		return out
	}
	switch v := v.(type) {
	case nil:
		out.Kind = lang.JSONNull
	case bool:
		out.Kind, out.Text = lang.JSONBool, strconv.FormatBool(v)
	case int, int64, uint64:
		out.Kind, out.Text = lang.JSONNumber, fmt.Sprint(v)
	case float64:
		if text := strconv.FormatFloat(v, 'g', -1, 64); !strings.ContainsAny(text, "nN") { // not NaN, not Inf
			out.Kind, out.Text = lang.JSONNumber, text
		}
	}

	return out
}
