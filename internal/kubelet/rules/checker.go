package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// minMinor is the oldest minor version that a kubelet of unknown version is assumed to have.
const minMinor = 24

// checker applies rules to one subject.
type checker struct {
	Subject
	raw       map[string]any    // the configuration with the values of flags
	config    map[string]any    // raw without the fields that this version ignores
	flagOf    map[string]string // the flag that sets a field, by the field's full name
	badFlags  []badFlag
	minor     int
	hasTables bool // the version is known, and so are its flags, fields and gates
	isNewer   bool // the version is known, and newer than the tables
	findings  []Finding
	unchecked []Finding // of a part of a configuration; see Result

	// The state of the running rule.
	rule            Rule
	severity        Severity
	variesByVersion bool // another version of the tables decides otherwise
	isEvidence      bool // the kubelet itself has answered

	// For a part of a configuration: the dependencies of the current finding.
	usesUnsetField  bool // a field that may be set elsewhere
	usesDefaultGate bool // a feature gate that may be set elsewhere
}

func newChecker(s Subject) *checker {
	oldest, newest := known.Range()
	c := &checker{Subject: s, minor: newest, flagOf: map[string]string{}}
	switch minor, isKubernetes1 := known.Minor(s.Version); {
	case s.Version == "":
	case !isKubernetes1: // such as v2.0.0, or v0.0.0-master of a build without a tag
		c.isNewer = true
	default:
		c.minor = minor
		c.hasTables = minor >= oldest && minor <= newest
		c.isNewer = minor > newest
	}
	if s.Config != nil {
		c.raw = s.Config.Object()
	}

	c.Flags = slices.Clone(s.Flags)
	for i := range c.Flags {
		c.Flags[i].Name = kubelet.FlagName(c.Flags[i].Name)
		c.applyFlag(c.Flags[i])
	}
	c.config = c.dropUnknownFields("", c.raw)

	return c
}

// dropUnknownFields returns an object without the fields that the version does not have. prefix is "" for the root,
// or the object's name in the tables with a dot.
func (c *checker) dropUnknownFields(prefix string, object map[string]any) map[string]any {
	if object == nil {
		return nil
	}

	out := map[string]any{}
	for name, value := range object {
		field, isKnown := known.FieldAt(prefix+name, c.minor)
		if !isKnown {
			continue
		}
		inner, isObject := value.(map[string]any)
		if isObject && field.Type == known.Object {
			out[name] = c.dropUnknownFields(prefix+name+".", inner)
		} else {
			out[name] = value
		}
	}

	return out
}

func (c *checker) startRule(r Rule) {
	c.rule = r
	c.severity = r.Severity
	c.variesByVersion = false
	c.isEvidence = false
	c.startFinding()
}

// startFinding forgets which fields and gates were read for the previous finding of the same rule.
func (c *checker) startFinding() {
	c.usesUnsetField = false
	c.usesDefaultGate = false
}

// add adds a finding of the running rule.
func (c *checker) add(f Finding) {
	f.Rule = c.rule.ID
	f.Effect = c.rule.Effect
	f.Severity = c.severity
	f.Newer = c.isNewer && c.rule.Lists && !c.isEvidence
	f.Uncertain = f.Newer || c.isGuess()
	if f.Uncertain {
		f.Severity = Warning
	}
	if c.Part && c.usesUnsetField {
		c.unchecked = append(c.unchecked, f)
		return
	}
	c.findings = append(c.findings, f)
}

// isGuess reports whether a version or a feature gate that is not known decides the current finding. What no version of
// the tables accepts is certain.
func (c *checker) isGuess() bool {
	if c.variesByVersion && !c.hasTables && !c.isEvidence {
		return true
	}
	dependsOnGate := c.Part && c.usesDefaultGate
	dependsOnVersion := c.Version == "" && (c.rule.Since > minMinor || c.rule.Until > 0)

	return c.severity == Error && (dependsOnGate || dependsOnVersion)
}

// reportAt adds a finding about a field, or about the flag that sets it.
func (c *checker) reportAt(path []string, hint, format string, args ...any) {
	f := Finding{Message: fmt.Sprintf(format, args...), Hint: hint}
	for i := range path {
		field := strings.Join(path[:i+1], ".")
		f.Flag = cmp.Or(f.Flag, c.flagOf[field])
	}
	if f.Flag == "" {
		f.Pointer = kubelet.Pointer(path...)
	}
	c.add(f)
}

// reportField is reportAt for a field like maxPods or logging.format.
func (c *checker) reportField(field, hint, format string, args ...any) {
	c.reportAt(strings.Split(field, "."), hint, format, args...)
}

// reportMember is reportAt for a member of an object with free keys.
func (c *checker) reportMember(object, key, hint, format string, args ...any) {
	c.reportAt([]string{object, key}, hint, format, args...)
}

// reportElement is reportAt for an element of a list.
func (c *checker) reportElement(list string, i int, hint, format string, args ...any) {
	path := append(strings.Split(list, "."), strconv.Itoa(i))
	c.reportAt(path, hint, format, args...)
}

func (c *checker) reportFlag(name, hint, format string, args ...any) {
	c.add(Finding{Flag: name, Hint: hint, Message: fmt.Sprintf(format, args...)})
}

// describeKubelet returns a clause for messages: the version of the kubelet, or that it is not known.
func (c *checker) describeKubelet() string {
	if c.Version == "" {
		return "the kubelet's version is not known"
	}

	return "the kubelet is " + strings.TrimPrefix(c.Version, "v")
}

// valueAt returns the value of a field like maxPods or logging.format, nil if it is not set.
func (c *checker) valueAt(field string) any {
	return c.lookUp(strings.Split(field, "."))
}

func (c *checker) lookUp(path []string) any {
	if c.Part && !c.isSettled(path) {
		c.usesUnsetField = true
	}

	var value any = c.config
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}

	return value
}

// isSettled reports whether a part of a configuration decides the value at a path: it sets or removes the field, or a
// value around it. Objects are merged, so an object alone decides nothing unless a flag sets it.
func (c *checker) isSettled(path []string) bool {
	var value any = c.config
	for i, name := range path {
		outer := path[:i+1]
		isUnset := slices.Contains(c.Unset, kubelet.Pointer(outer...))
		object, isObject := value.(map[string]any)
		if isUnset || !isObject || c.flagOf[strings.Join(outer, ".")] != "" {
			return true
		}
		if value = object[name]; value == nil {
			return false
		}
	}
	_, isObject := value.(map[string]any)

	return !isObject
}

// textAt, listAt and the following return a value if it has the right type. The rule config-wrong-type reports others.
func (c *checker) textAt(field string) string {
	text, _ := c.valueAt(field).(string)

	return text
}

func (c *checker) listAt(field string) []any {
	list, _ := c.valueAt(field).([]any)

	return list
}

// textsAt yields the texts of a list with their indices. The kubelet reads null as an empty text.
func (c *checker) textsAt(name string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i, v := range c.listAt(name) {
			text, isText := v.(string)
			if (isText || v == nil) && !yield(i, text) {
				return
			}
		}
	}
}

// mapAt returns the members of an object of texts. Whether one is missing from a part, memberAt decides.
func (c *checker) mapAt(name string) map[string]string {
	object, _ := c.config[name].(map[string]any)
	texts := map[string]string{}
	for key, v := range object {
		if text, ok := v.(string); ok || v == nil {
			texts[key] = text
		}
	}

	return texts
}

// memberAt returns one member of an object of texts.
func (c *checker) memberAt(object, name string) (text string, ok bool) {
	text, ok = c.lookUp([]string{object, name}).(string)

	return text, ok
}

func (c *checker) numberAt(field string) (int64, bool) {
	return parseNumber(c.valueAt(field))
}

// numberOr returns a number, or the preset if the field is not set.
func (c *checker) numberOr(name string, preset int64) int64 {
	n, ok := c.numberAt(name)
	if !ok || n == 0 && c.isZeroUnset(name) {
		return preset
	}

	return n
}

func (c *checker) boolAt(name string, preset bool) bool {
	if isTrue, ok := c.valueAt(name).(bool); ok {
		return isTrue
	}

	return preset
}

func (c *checker) durationAt(field string) (time.Duration, bool) {
	d, err := time.ParseDuration(c.textAt(field))

	return d, err == nil
}

// durationOr returns a duration, or the preset if the field is not set.
func (c *checker) durationOr(name string, preset time.Duration) time.Duration {
	d, ok := c.durationAt(name)
	if !ok || d == 0 && c.isZeroUnset(name) {
		return preset
	}

	return d
}

// isZeroUnset reports whether 0 or an empty text selects a field's default. It does in a file, if the kubelet's field
// is not a pointer; a flag sets the zero.
func (c *checker) isZeroUnset(field string) bool { return c.flagOf[field] == "" }

// flagValue returns the value of a flag. The last one of a name counts.
func (c *checker) flagValue(name string) (value string, ok bool) {
	for _, f := range slices.Backward(c.Flags) {
		if f.Name == name {
			return f.Value, true
		}
	}

	return "", false
}

// isGateOn reports whether a feature gate is on: as it is set, by AllAlpha or AllBeta, or by default.
func (c *checker) isGateOn(name string) bool {
	set := c.setGates()
	if isOn, ok := set[name].(bool); ok {
		return isOn
	}

	gate, isKnown := c.findGate(name)
	if !isKnown || gate.Locked {
		return gate.On
	}
	c.usesDefaultGate = true
	group := map[string]string{"alpha": "AllAlpha", "beta": "AllBeta"}[gate.Stage]
	if isOn, ok := set[group].(bool); ok {
		return isOn
	}

	return gate.On
}

// setGates returns the feature gates that the configuration or a flag sets.
func (c *checker) setGates() map[string]any {
	set, _ := c.config["featureGates"].(map[string]any)

	return set
}

func (c *checker) findGate(name string) (gate known.Gate, isKnown bool) {
	if c.Accepts != nil {
		if gate, isKnown = c.Accepts.Gates[name]; isKnown {
			return gate, true
		}
	}

	return known.GateAt(name, c.minor)
}

func parseNumber(v any) (int64, bool) {
	number, isNumber := v.(json.Number)
	n, err := strconv.ParseInt(string(number), 10, 64)

	return n, isNumber && err == nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// suggest returns a hint for a misspelt word: the nearest valid one, or all if they are few.
func suggest(word string, valid []string) string {
	const few = 10
	nearest := kubelet.Nearest(word, valid)
	switch {
	case nearest != "":
		return "did you mean " + nearest + "?"
	case len(valid) <= few:
		return "valid values: " + strings.Join(valid, ", ")
	}

	return "remove it"
}
