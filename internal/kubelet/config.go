package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// What a KubeletConfiguration says it is.
const (
	ConfigAPIVersion = "kubelet.config.k8s.io/v1beta1"
	ConfigKind       = "KubeletConfiguration"
)

// Bounds on a configuration; etcd takes no ConfigMap above 1.5 MiB, and real ones have a few KiB.
const (
	maxConfigBytes = 1 << 20
	maxConfigDepth = 64
	maxConfigName  = 160 // bytes of a member's name; YAML ends a simple key at 1024 characters, escapes included
)

// Config is a KubeletConfiguration as a document: what stands in it and nothing else, fields that this package
// does not know included. Its values are map[string]any, []any, string, bool, nil and json.Number, so that a
// number keeps its digits.
type Config struct{ doc map[string]any }

// NewConfig returns a configuration that has apiVersion and kind only, as a drop-in begins.
func NewConfig() *Config {
	return &Config{map[string]any{"apiVersion": ConfigAPIVersion, "kind": ConfigKind}}
}

// ParseConfig reads one YAML or JSON document, stricter than the kubelet: a key twice, anchors and aliases, a second
// document, more than 1 MiB and nesting above 64 are refused. apiVersion and kind must be there and be those of
// v1beta1, because the kubelet exits without them, in its --config and in drop-ins alike.
func ParseConfig(text string) (*Config, error) {
	doc, err := parseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	for _, want := range [][2]string{{"apiVersion", ConfigAPIVersion}, {"kind", ConfigKind}} {
		switch got, ok := doc[want[0]]; {
		case !ok:
			return nil, fmt.Errorf("kubelet configuration: %s is missing, without it the kubelet exits: add %q", want[0], want[0]+": "+want[1])
		case got != want[1]:
			return nil, fmt.Errorf("kubelet configuration: %s is %s, not %s", want[0], brief(got), want[1])
		}
	}
	return &Config{doc}, nil
}

// parseYAML reads one bounded document whose root is an object.
func parseYAML(text string) (map[string]any, error) {
	if len(text) > maxConfigBytes {
		return nil, fmt.Errorf("%d bytes, more than the %d that are read", len(text), maxConfigBytes)
	}
	if err := oneDocument(text); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("no valid YAML: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return nil, fmt.Errorf("no valid YAML: %w", err)
	}
	doc, ok := root.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is %s, not an object", brief(root))
	}
	if depth(doc, maxConfigDepth+1) > maxConfigDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxConfigDepth)
	}
	if _, err := normalize(doc, maxConfigDepth); err != nil {
		return nil, err
	}
	return doc, nil
}

// oneDocument looks at the lines before any parser sees them. A line that begins with --- or ... and a space is a
// marker wherever it stands, also within a block of text. Anchors and aliases are refused by how they look at
// the start of a word: 1 MiB of them could stand for gigabytes, and no configuration has a use for them.
func oneDocument(text string) error {
	begun, ended := false, false
	anchor, alias := 0, 0
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimLeft(line, " \t")
		switch {
		case trimmed == "" || trimmed[0] == '#' || line[0] == '%' && !begun:
			continue
		case isMarker(line, "---"):
			ended = ended || begun
			line = line[3:]
		case isMarker(line, "..."):
			ended = true
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if ended {
			return fmt.Errorf("line %d: a second document begins, of which the kubelet would read nothing: keep one", number)
		}
		begun = true
		if anchor == 0 && startsWord(line, '&') {
			anchor = number
		}
		if alias == 0 && startsWord(line, '*') {
			alias = number
		}
	}
	if anchor > 0 && alias > 0 {
		return fmt.Errorf("line %d: YAML anchors and aliases (&name in line %d, *name here) are not read: write the value out", alias, anchor)
	}
	return nil
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// startsWord says whether a word of a line begins with mark and goes on, as an anchor or alias does.
func startsWord(line string, mark byte) bool {
	for i := range len(line) {
		if line[i] != mark || i+1 == len(line) || line[i+1] == ' ' {
			continue
		}
		if i == 0 || strings.IndexByte(" \t[]{},:-?!", line[i-1]) >= 0 {
			return true
		}
	}
	return false
}

// depth returns how deep a value nests, and stops looking at limit.
func depth(v any, limit int) int {
	deepest := 0
	if limit == 0 {
		return 0
	}
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, depth(member, limit-1))
		}
	case []any:
		for _, element := range v {
			deepest = max(deepest, depth(element, limit-1))
		}
	default:
		return 0
	}
	return deepest + 1
}

// Clone returns a copy that shares nothing.
func (c *Config) Clone() *Config { return &Config{clone(c.doc).(map[string]any)} }

// Object returns a copy of the whole document, in the types named at Config.
func (c *Config) Object() map[string]any { return c.Clone().doc }

// Get returns a copy of the value at a JSON pointer (RFC 6901), "/kubeReserved/memory"; "" is the whole document.
func (c *Config) Get(pointer string) (any, bool) {
	if pointer == "" {
		return clone(c.doc), true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	var at any = c.doc
	for _, token := range strings.Split(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			member, ok := v[token]
			if !ok {
				return nil, false
			}
			at = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return clone(at), true
}

// Pointer joins member names to a JSON pointer.
func Pointer(path ...string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// Set puts a value at a path of member names and makes the objects on the way. nil takes the member out. It
// fails where the way leads through something that is no object, and for values that JSON does not have.
func (c *Config) Set(path []string, value any) error {
	if len(path) == 0 {
		return errors.New("kubelet configuration: no path to set")
	}
	plain, err := normalize(value, maxConfigDepth)
	if err != nil {
		return fmt.Errorf("kubelet configuration: %s: %w", Pointer(path...), err)
	}
	at := c.doc
	for i, name := range path[:len(path)-1] {
		switch next := at[name].(type) {
		case map[string]any:
			at = next
		case nil:
			if plain == nil {
				return nil
			}
			made := map[string]any{}
			at[name] = made
			at = made
		default:
			return fmt.Errorf("kubelet configuration: %s is %s, not an object, so it has no %s", Pointer(path[:i+1]...), brief(next), path[i+1])
		}
	}
	if name := path[len(path)-1]; plain == nil {
		delete(at, name)
	} else {
		at[name] = plain
	}
	return nil
}

// Merge applies a JSON merge patch (RFC 7386): objects merge, null takes a member out, everything else, lists
// too, replaces. It fails, and changes nothing, for values that JSON does not have.
func (c *Config) Merge(patch map[string]any) error {
	plain, err := normalize(patch, maxConfigDepth)
	if err != nil {
		return fmt.Errorf("kubelet configuration: patch: %w", err)
	}
	c.doc = mergePatch(clone(c.doc), plain).(map[string]any)
	return nil
}

func mergePatch(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = mergePatch(merged[name], value)
		}
	}
	return merged
}

// Canonical returns the document as YAML with sorted keys, in the form that Kubernetes itself writes. The same document
// gives the same bytes.
func (c *Config) Canonical() []byte {
	text, err := yaml.JSONToYAML(encodeJSON(c.doc))
	if err != nil {
		panic("kubelet: JSON of a configuration is not YAML: " + err.Error())
	}

	return text
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = clone(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = clone(element)
		}
		return out
	}
	return v
}

// brief names a value in a message, shortly.
func brief(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if len(v) > 60 {
			return strconv.Quote(v[:60]) + "…"
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}
