package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
)

// The header of a KubeletConfiguration.
const (
	ConfigAPIVersion = "kubelet.config.k8s.io/v1beta1"
	ConfigKind       = "KubeletConfiguration"
)

// Limits of a configuration. etcd accepts no ConfigMap above 1.5 MiB; real ones have a few KiB.
const (
	maxConfigBytes = 2 << 20
	maxConfigDepth = 1000
	maxConfigName  = 160 // bytes of a member's name; YAML limits a simple key to 1024 characters, escapes included
)

var errTooDeep = fmt.Errorf("nested deeper than %d", maxConfigDepth)

// Config is a KubeletConfiguration as a document: the fields that are set, including unknown ones. Its values are
// map[string]any, []any, string, bool, nil and json.Number, so that a number keeps its digits.
type Config struct {
	doc      map[string]any
	repeated []string // keys of its text, see Repeated
}

// ErrSecondDocument is the failure to parse a text with several documents.
var ErrSecondDocument = errors.New("a second document begins")

// NewConfig returns a configuration that has only apiVersion and kind.
func NewConfig() *Config {
	return &Config{doc: map[string]any{"apiVersion": ConfigAPIVersion, "kind": ConfigKind}}
}

// ConfigOf returns a document as a configuration, with its nulls; nil for values that JSON does not have.
func ConfigOf(doc map[string]any) *Config {
	plain, err := normalize(doc, maxConfigDepth)
	if err != nil {
		return nil
	}

	return &Config{doc: plain.(map[string]any)}
}

// ParseConfig parses one YAML or JSON document as the kubelet does: aliases and merge keys are expanded, and the last
// one of a repeated key counts (see Repeated). It rejects a second document and what exceeds the limits. apiVersion
// and kind must be those of v1beta1, because the kubelet exits without them, for its --config and for drop-ins. A whole
// number is one in each notation, such as 64.0, because prelet writes it again.
func ParseConfig(text string) (*Config, error) {
	return withWholeNumbers(parseConfig(text))
}

func withWholeNumbers(c *Config, err error) (*Config, error) {
	if err == nil {
		c.doc = mapLeaves(c.doc, toWholeNumber).(map[string]any)
	}

	return c, err
}

// toWholeNumber returns a whole number as its digits, which the kubelet needs in JSON.
func toWholeNumber(leaf any) any {
	number, _ := leaf.(json.Number)
	f, err := number.Float64()
	if !strings.ContainsAny(string(number), ".eE") || err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return leaf
	}

	return json.Number(strconv.FormatInt(int64(f), 10))
}

func parseConfig(text string) (*Config, error) {
	doc, repeated, err := parseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	if err := checkHeader(doc, "apiVersion", ConfigAPIVersion); err != nil {
		return nil, err
	}
	if err := checkHeader(doc, "kind", ConfigKind); err != nil {
		return nil, err
	}

	return &Config{doc: doc, repeated: repeated}, nil
}

// ParseConfigFile parses a file that the kubelet itself reads. Other than ParseConfig it rejects YAML that begins with
// a brace, which the kubelet reads as JSON, and keeps the notation of numbers.
func ParseConfigFile(text string) (*Config, error) {
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(trimmed, "{") && !json.Valid([]byte(trimmed)) {
		return nil, errors.New("kubelet configuration: it begins with {, so the kubelet reads it as JSON, and it is " +
			"not: write it as YAML in lines, or quote its keys and texts")
	}

	return parseConfig(text)
}

// ParseDropIn parses a drop-in of the kubelet. It rejects duplicate keys too: the kubelet decodes drop-ins strictly. A
// whole number is one in each notation, because the kubelet merges them before it decodes the result into fields.
//
// Source: pkg/kubelet/kubeletconfig/util/codec/codec.go, DecodeKubeletConfigurationIntoJSON.
func ParseDropIn(text string) (*Config, error) {
	c, err := withWholeNumbers(ParseConfigFile(text))
	if err == nil && len(c.repeated) > 0 {
		err = fmt.Errorf("kubelet configuration: %s: keep one", strings.Join(c.repeated, "; "))
	}

	return c, err
}

func checkHeader(doc map[string]any, field, want string) error {
	switch got, ok := doc[field]; {
	case !ok:
		return fmt.Errorf(
			"kubelet configuration: %s is missing, so the kubelet exits: add \"%s: %s\"",
			field,
			field,
			want,
		)
	case got != want:
		return fmt.Errorf("kubelet configuration: %s is %s, want %s", field, describe(got), want)
	}

	return nil
}

// Repeated describes the keys that an object of the text had more than once, with their places.
func (c *Config) Repeated() []string { return slices.Clone(c.repeated) }

// parseDocument parses one document whose root is an object.
func parseDocument(text string) (doc map[string]any, repeated []string, err error) {
	if len(text) > maxConfigBytes {
		return nil, nil, fmt.Errorf("%d bytes, the limit is %d", len(text), maxConfigBytes)
	}

	// The kubelet reads a text that begins with { as JSON, whose escapes differ from YAML's. It rejects invalid JSON;
	// here that may be YAML, because prelet writes it again.
	var root any
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		root, repeated, err = parseJSON(trimmed)
	} else {
		root, repeated, err = parseYAML(text)
	}
	if err != nil {
		return nil, nil, err
	}

	doc, ok := root.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("the document is %s, want an object", describe(root))
	}
	if _, err := normalize(doc, maxConfigDepth); err != nil {
		return nil, nil, err
	}

	return doc, repeated, nil
}

func parseYAML(text string) (root any, repeated []string, err error) {
	if err := codec.CheckYAMLSize(text); err != nil {
		return nil, nil, err
	}
	if err := CheckSingleDocument(text); err != nil {
		return nil, nil, fmt.Errorf("%w, which the kubelet ignores: keep one", err)
	}
	if strings.Contains(text, "&") && strings.Contains(text, "*") {
		if err := checkAliases(text); err != nil {
			return nil, nil, err
		}
	}

	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		lenient, failure := yaml.YAMLToJSON([]byte(text))
		if failure != nil {
			return nil, nil, fmt.Errorf("invalid YAML: %w", failure)
		}
		asJSON = lenient
		repeated = findRepeatedKeys(err)
	}

	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return nil, nil, fmt.Errorf("invalid YAML: %w", err)
	}

	return root, repeated, nil
}

// findRepeatedKeys returns the lines of a strict parser's error.
func findRepeatedKeys(err error) []string {
	var keys []string
	for line := range strings.Lines(err.Error()) {
		if i := strings.Index(line, "line "); i >= 0 {
			key := strings.Replace(line[i:], "already set in map", "is repeated", 1)
			keys = append(keys, strings.TrimSpace(key))
		}
	}

	return keys
}

// checkAliases rejects a document whose expanded aliases exceed the limit. The parser shares their values; its callers
// would expand them.
func checkAliases(text string) error {
	var shared any
	if err := goyaml.Unmarshal([]byte(text), &shared); err != nil {
		return fmt.Errorf("invalid YAML: %w", err)
	}
	if expandedSize(shared, maxConfigBytes) >= maxConfigBytes {
		return fmt.Errorf(
			"its YAML aliases expand to more than %d bytes: write the values instead",
			maxConfigBytes,
		)
	}

	return nil
}

// expandedSize returns about how many bytes a value has if nothing in it is shared. It stops counting at a limit.
func expandedSize(v any, limit int) int {
	if limit <= 0 {
		return 0
	}

	size := 1
	switch v := v.(type) {
	case string:
		size += len(v)
	case []any:
		for _, element := range v {
			size += expandedSize(element, limit-size)
		}
	case map[any]any:
		for key, member := range v {
			size += expandedSize(key, limit-size)
			size += expandedSize(member, limit-size)
		}
	}

	return size
}

// parseJSON parses valid JSON. The kubelet decodes it into structs and maps, so the members of a duplicate object are
// added to those of the first one.
func parseJSON(text string) (root any, repeated []string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	root, err = readJSON(d, &repeated, maxConfigDepth+1)

	return root, repeated, err
}

func readJSON(d *json.Decoder, repeated *[]string, levels int) (any, error) {
	if levels < 0 {
		return nil, errTooDeep
	}
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}

	switch token {
	case json.Delim('['):
		return readArray(d, repeated, levels-1)
	case json.Delim('{'):
		return readObject(d, repeated, levels-1)
	}

	return token, nil
}

func readArray(d *json.Decoder, repeated *[]string, levels int) (any, error) {
	list := []any{}
	for d.More() {
		element, err := readJSON(d, repeated, levels)
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	_, err := d.Token()

	return list, err
}

func readObject(d *json.Decoder, repeated *[]string, levels int) (any, error) {
	object := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("invalid JSON: %w", err)
		}
		key, _ := name.(string)
		member, err := readJSON(d, repeated, levels)
		if err != nil {
			return nil, err
		}
		if first, isRepeated := object[key]; isRepeated {
			*repeated = append(*repeated, fmt.Sprintf("key %q is repeated", key))
			member = mergeRepeated(first, member)
		}
		object[key] = member
	}
	_, err := d.Token()

	return object, err
}

// mergeRepeated returns the value that a decoder makes of two values of one key.
func mergeRepeated(first, second any) any {
	merged, isObject := first.(map[string]any)
	members, areObjects := second.(map[string]any)
	if !isObject || !areObjects {
		return second
	}
	for name, member := range members {
		if old, isRepeated := merged[name]; isRepeated {
			member = mergeRepeated(old, member)
		}
		merged[name] = member
	}

	return merged
}

// CheckSingleDocument rejects a second document, and text after an object in braces. A line that begins with --- or ...
// and a space is a marker, also within a block of text. The error has the line.
func CheckSingleDocument(text string) error {
	hasContent := false
	hasBraces := false
	isEnded := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		isComment := strings.HasPrefix(strings.TrimLeft(line, " \t"), "#")
		isDirective := !hasContent && strings.HasPrefix(line, "%")
		if isComment || isDirective {
			continue
		}

		if isMarker(line, "...") {
			isEnded = true
			continue
		}
		if isMarker(line, "---") {
			isEnded = isEnded || hasContent
			line = line[3:]
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if isEnded {
			return fmt.Errorf("line %d: %w", number, ErrSecondDocument)
		}
		hasBraces = hasBraces || !hasContent && strings.HasPrefix(strings.TrimSpace(line), "{")
		hasContent = true
	}
	if !hasBraces {
		return nil
	}

	return checkAfterBraces(text)
}

// checkAfterBraces rejects what follows the object in braces that a text begins with: a parser of YAML or JSON ignores
// it. Another error of the text is not reported here.
func checkAfterBraces(text string) error {
	d := goyaml.NewDecoder(strings.NewReader(text))
	if d.Decode(&parsedOnly{}) != nil {
		return nil
	}

	err := d.Decode(&parsedOnly{})
	if err == nil || errors.Is(err, io.EOF) { // CheckSingleDocument has found markers with content behind them
		return nil
	}

	line := 0 // counted from 0, and left out if it is
	_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &line)

	return fmt.Errorf("line %d: %w", line+1, ErrSecondDocument)
}

// parsedOnly is a document that is parsed, and not decoded: aliases are not expanded.
type parsedOnly struct{}

// UnmarshalYAML implements the interface of package yaml.
func (*parsedOnly) UnmarshalYAML(func(any) error) error { return nil }

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)

	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// Clone returns a deep copy.
func (c *Config) Clone() *Config {
	return &Config{doc: clone(c.doc).(map[string]any), repeated: c.repeated}
}

// With returns the configuration with another value of a field, in the types of Config. The two share all other values.
func (c *Config) With(field string, value any) *Config {
	doc := maps.Clone(c.doc)
	doc[field] = value

	return &Config{doc: doc, repeated: c.repeated}
}

// Object returns the whole document, in the types that Config names. It is not a copy: a caller that changes one of the
// two and needs the other takes that of a Clone.
func (c *Config) Object() map[string]any { return c.doc }

// Get returns a copy of the value at a JSON pointer (RFC 6901) like "/kubeReserved/memory"; "" is the whole document.
func (c *Config) Get(pointer string) (any, bool) {
	value, ok := LookUp(c.doc, pointer)

	return clone(value), ok
}

// LookUp returns the value at a JSON pointer of a document, as Get does, without a copy.
func LookUp(doc map[string]any, pointer string) (any, bool) {
	var value any = doc
	if pointer != "" && pointer[0] != '/' {
		return nil, false
	}

	for _, token := range tape.SplitPointer(pointer) {
		var ok bool
		if value, ok = Member(value, token); !ok {
			return nil, false
		}
	}

	return value, true
}

// Member returns a member of an object, or an element of a list.
func Member(value any, token string) (member any, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		member, ok = v[token]
	case []any:
		i, err := strconv.Atoi(token)
		ok = err == nil && i >= 0 && i < len(v) && strconv.Itoa(i) == token
		if ok {
			member = v[i]
		}
	}

	return member, ok
}

// Set sets a value at a path of member names and creates the objects around it. nil removes the member. It fails if a
// value around it is not an object, and for values that JSON does not have.
func (c *Config) Set(path []string, value any) error {
	if len(path) == 0 {
		return errors.New("kubelet configuration: no path to set")
	}
	plain, err := normalize(value, maxConfigDepth)
	if err != nil {
		return fmt.Errorf("kubelet configuration: %s: %w", tape.Pointer(path...), err)
	}

	object := c.doc
	for i, name := range path[:len(path)-1] {
		switch inner := object[name].(type) {
		case map[string]any:
			object = inner
		case nil:
			if plain == nil {
				return nil
			}
			created := map[string]any{}
			object[name] = created
			object = created
		default:
			return fmt.Errorf(
				"kubelet configuration: %s is %s, not an object, so %s cannot be set in it",
				tape.Pointer(path[:i+1]...),
				describe(inner),
				path[i+1],
			)
		}
	}

	last := path[len(path)-1]
	if plain == nil {
		delete(object, last)
	} else {
		object[last] = plain
	}

	return nil
}

// Merge applies a JSON merge patch (RFC 7386): objects merge, null removes a member, all other values, also lists,
// replace it. It fails, and changes nothing, for values that JSON does not have.
func (c *Config) Merge(patch map[string]any) error {
	plain, err := normalize(patch, maxConfigDepth)
	if err != nil {
		return fmt.Errorf("kubelet configuration: patch: %w", err)
	}
	mergePatch(c.doc, plain)

	return nil
}

// mergePatch merges a patch into a target and returns it; where the target has no object, it becomes that of the patch.
func mergePatch(target, patch any) any {
	members, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	merged, isObject := target.(map[string]any)
	if !isObject {
		merged = members // its own nulls are removed
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

// ParseFields parses a document with fields of a KubeletConfiguration, as ParseConfig does, and returns them without
// apiVersion and kind. These may be missing, a key may not be repeated, and a text without content has no fields.
func ParseFields(text string) (map[string]any, error) {
	if isBlank(text) {
		return map[string]any{}, nil
	}
	doc, repeated, err := parseDocument(text)
	if err == nil && len(repeated) > 0 {
		err = errors.New(strings.Join(repeated, "; "))
	}
	if err != nil {
		return nil, err
	}

	for field, want := range map[string]string{"apiVersion": ConfigAPIVersion, "kind": ConfigKind} {
		if _, isSet := doc[field]; !isSet {
			continue
		}
		if err := checkHeader(doc, field, want); err != nil {
			return nil, err
		}
		delete(doc, field)
	}

	return doc, nil
}

// isBlank reports whether a text has only spaces, comments and the marker of a document.
func isBlank(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && line[0] != '#' {
			return false
		}
	}

	return true
}

// MergePatch returns the JSON merge patch (RFC 7386) that makes the document to of the document from, without
// apiVersion and kind. null removes a field. It is a strategic merge patch of a KubeletConfiguration as well, because
// no list of that type has a merge key.
func MergePatch(from, to map[string]any) map[string]any {
	patch := diffFields(from, to)
	delete(patch, "apiVersion")
	delete(patch, "kind")

	return patch
}

func diffFields(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range from {
		if _, ok := to[name]; !ok {
			patch[name] = nil
		}
	}
	for name, want := range to {
		got, exists := from[name]
		inner, isObject := want.(map[string]any)
		gotInner, wasObject := got.(map[string]any)
		switch {
		case exists && reflect.DeepEqual(got, want):
		case isObject && wasObject:
			patch[name] = diffFields(gotInner, inner)
		default:
			patch[name] = clone(want)
		}
	}

	return patch
}

// Canonical returns the document as YAML with sorted keys, as Kubernetes itself writes it. The same document gives
// the same bytes.
func (c *Config) Canonical() []byte {
	text, err := goyaml.Marshal(mapLeaves(c.doc, toYAML))
	if err != nil {
		panic("kubelet: JSON of a configuration is not YAML: " + err.Error())
	}

	return text
}

// toYAML returns a number as the encoder of YAML prints it with all digits: it takes a json.Number above the range of
// int64 for a float.
func toYAML(leaf any) any {
	text, isNumber := leaf.(json.Number)
	if n, err := strconv.ParseUint(string(text), 10, 64); isNumber && err == nil {
		return n
	}
	return leaf
}

func clone(v any) any {
	return mapLeaves(v, func(leaf any) any { return leaf })
}

// mapLeaves returns a copy of a value with other leaves.
func mapLeaves(v any, change func(leaf any) any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v) // nil stays nil
		for name, member := range v {
			out[name] = mapLeaves(member, change)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, element := range v {
			out[i] = mapLeaves(element, change)
		}
		return out
	}
	return change(v)
}

// ListTexts returns the texts in a decoded document, in no order.
func ListTexts(document any) (texts []string) {
	mapLeaves(document, func(leaf any) any {
		if text, isText := leaf.(string); isText {
			texts = append(texts, text)
		}
		return leaf
	})

	return texts
}

// describe returns a short text for a value.
func describe(v any) string {
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
