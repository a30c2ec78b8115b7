package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// What a KubeletConfiguration says it is.
const (
	ConfigAPIVersion = "kubelet.config.k8s.io/v1beta1"
	ConfigKind       = "KubeletConfiguration"
)

// Bounds on a configuration; etcd takes no ConfigMap above 1.5 MiB, and real ones have a few KiB.
const (
	maxConfigBytes = 2 << 20
	maxConfigDepth = 1000
	maxConfigName  = 160 // bytes of a member's name; YAML ends a simple key at 1024 characters, escapes included
)

// Config is a KubeletConfiguration as a document: what stands in it and nothing else, fields that this package
// does not know included. Its values are map[string]any, []any, string, bool, nil and json.Number, so that a
// number keeps its digits.
type Config struct {
	doc      map[string]any
	repeated []string // keys of its text, see Repeated
}

// NewConfig returns a configuration that has apiVersion and kind only, as a drop-in begins.
func NewConfig() *Config {
	return &Config{doc: map[string]any{"apiVersion": ConfigAPIVersion, "kind": ConfigKind}}
}

// ParseConfig reads one YAML or JSON document as the kubelet does: aliases and merge keys are written out, and of a key that
// is repeated the last one counts (Repeated). A second document, nesting above 64 and a text above maxConfigBytes are
// refused. apiVersion and kind must be there and be those of v1beta1, because the kubelet exits without them, in its
// --config and in drop-ins alike.
func ParseConfig(text string) (*Config, error) {
	doc, repeated, err := parseDocument(text)
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
	return &Config{doc: doc, repeated: repeated}, nil
}

// Repeated returns the keys that an object of the text had more than once, each in words that say where.
func (c *Config) Repeated() []string { return slices.Clone(c.repeated) }

// parseDocument reads one bounded document whose root is an object.
func parseDocument(text string) (doc map[string]any, repeated []string, err error) {
	if len(text) > maxConfigBytes {
		return nil, nil, fmt.Errorf("%d bytes, more than the %d that are read", len(text), maxConfigBytes)
	}

	// The kubelet takes what begins with { for JSON, whose escapes are not YAML's. What is no JSON it refuses; prelet
	// writes it again, so it may be YAML here.
	var root any
	if trimmed := strings.TrimLeftFunc(text, unicode.IsSpace); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		root, repeated, err = parseJSON(trimmed)
	} else {
		root, repeated, err = parseYAML(text)
	}
	if err != nil {
		return nil, nil, err
	}

	doc, ok := root.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("the document is %s, not an object", brief(root))
	}
	if depth(doc, maxConfigDepth+1) > maxConfigDepth {
		return nil, nil, fmt.Errorf("nested deeper than %d", maxConfigDepth)
	}
	if _, err := normalize(doc, maxConfigDepth); err != nil {
		return nil, nil, err
	}

	return doc, repeated, nil
}

func parseYAML(text string) (root any, repeated []string, err error) {
	aliased, err := oneDocument(text)
	if err != nil {
		return nil, nil, err
	}
	if aliased {
		if err := boundAliases(text); err != nil {
			return nil, nil, err
		}
	}

	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		lenient, failure := yaml.YAMLToJSON([]byte(text))
		if failure != nil {
			return nil, nil, fmt.Errorf("no valid YAML: %w", failure)
		}
		asJSON, repeated = lenient, repeatedKeys(err)
	}

	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return nil, nil, fmt.Errorf("no valid YAML: %w", err)
	}

	return root, repeated, nil
}

// repeatedKeys are the lines of a strict parser's error.
func repeatedKeys(err error) (out []string) {
	for line := range strings.Lines(err.Error()) {
		if at := strings.Index(line, "line "); at >= 0 {
			out = append(out, strings.TrimSpace(strings.Replace(line[at:], "already set in map", "is repeated", 1)))
		}
	}

	return out
}

// boundAliases refuses a document that its aliases make larger than any configuration. The parser shares what it repeats,
// and bounds how often; what comes after it would write all of that out.
func boundAliases(text string) error {
	var shared any
	if err := goyaml.Unmarshal([]byte(text), &shared); err != nil {
		return fmt.Errorf("no valid YAML: %w", err)
	}
	if size := writtenOut(shared, maxConfigBytes); size >= maxConfigBytes {
		return fmt.Errorf("its YAML aliases stand for more than %d bytes: write the values out", maxConfigBytes)
	}

	return nil
}

// writtenOut is about how many bytes a value has when nothing in it is shared. It stops counting at limit.
func writtenOut(v any, limit int) int {
	size := 1
	switch v := v.(type) {
	case string:
		size += len(v)
	case []any:
		for _, element := range v {
			if size < limit {
				size += writtenOut(element, limit-size)
			}
		}
	case map[any]any:
		for key, member := range v {
			if size < limit {
				size += writtenOut(key, limit-size)
			}
			if size < limit {
				size += writtenOut(member, limit-size)
			}
		}
	}

	return size
}

// parseJSON reads a document that is valid JSON. The kubelet decodes it into structs and maps, so the members of an object
// that is there twice are added to those of the first.
func parseJSON(text string) (root any, repeated []string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	root, err = readJSON(d, &repeated, maxConfigDepth+1)

	return root, repeated, err
}

func readJSON(d *json.Decoder, repeated *[]string, levels int) (any, error) {
	if levels < 0 {
		return nil, fmt.Errorf("nested deeper than %d", maxConfigDepth)
	}

	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("no valid JSON: %w", err)
	}

	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := readJSON(d, repeated, levels-1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = d.Token()

		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, fmt.Errorf("no valid JSON: %w", err)
			}
			key, _ := name.(string)
			member, err := readJSON(d, repeated, levels-1)
			if err != nil {
				return nil, err
			}
			if before, twice := object[key]; twice {
				*repeated = append(*repeated, fmt.Sprintf("key %q is repeated", key))
				member = addMembers(before, member)
			}
			object[key] = member
		}
		_, err = d.Token()

		return object, err
	}

	return token, nil
}

// addMembers is what a decoder makes of a value that comes after another for one key.
func addMembers(before, after any) any {
	first, ok := before.(map[string]any)
	second, both := after.(map[string]any)
	if !ok || !both {
		return after
	}
	for name, member := range second {
		if old, has := first[name]; has {
			member = addMembers(old, member)
		}
		first[name] = member
	}

	return first
}

// oneDocument looks at the lines before any parser sees them. A line that begins with --- or ... and a space is a
// marker wherever it stands, also within a block of text. aliased says whether there may be aliases, by how they look at
// the start of a word: what they stand for has to be bounded.
func oneDocument(text string) (aliased bool, err error) {
	begun, ended := false, false
	anchor, alias := false, false
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
			return false, fmt.Errorf("line %d: a second document begins, of which the kubelet would read nothing: keep one", number)
		}
		begun = true
		anchor = anchor || startsWord(line, '&')
		alias = alias || startsWord(line, '*')
	}
	return anchor && alias, nil
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
func (c *Config) Clone() *Config {
	return &Config{doc: clone(c.doc).(map[string]any), repeated: c.repeated}
}

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
