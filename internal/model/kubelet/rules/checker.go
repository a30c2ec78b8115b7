package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

// minMinor is the oldest minor version that a kubelet of unknown version is assumed to have.
const minMinor = 24

type checker struct {
	Subject
	config     map[string]any    // with flags, without fields that this version ignores; nil: unknown
	given      map[string]string // the flags; the last one of a name counts
	flagOf     map[string]string // the flag that sets a field, by the field's full name
	badFlags   []badFlag
	minor      int
	hasTables  bool // the version is known, and so are its flags, fields and gates
	isNewer    bool // the version is known, and newer than the tables
	violations []Violation
	unchecked  []Violation // of a part of a configuration; see Result
	rule       Rule        // the running one
	isInDryRun bool        // of the running check
	outcome                // the current one

	wrongFields map[string][]Violation // those of walkFields, by rule; nil: it has not run
}

// outcome is the part of a violation that its condition decides.
type outcome struct {
	severity        Severity
	effect          Effect
	place           string // the field or --flag, if it is not where the rule looks
	hint            string
	why             string
	variesByVersion bool // another version of the tables decides otherwise
	isEvidence      bool // the kubelet itself has answered

	// For a part of a configuration: the dependencies of the violation.
	usesUnsetField  bool // a field that may be set elsewhere
	usesDefaultGate bool // a feature gate that may be set elsewhere
}

func newChecker(s Subject) *checker {
	oldest, newest := known.Range()
	c := &checker{
		Subject: s,
		minor:   newest,
		isNewer: known.IsNewer(s.Version),
		flagOf:  map[string]string{},
		given:   map[string]string{},
	}
	if minor, isKubernetes1 := known.Minor(s.Version); isKubernetes1 {
		c.minor = minor
		c.hasTables = minor >= oldest && !c.isNewer
	}

	config := kubelet.NewConfig()
	if s.Config != nil {
		config = s.Config
	}
	own := sync.OnceValue(func() *kubelet.Config { // most flags set no field
		config = config.Clone()
		return config
	})
	for _, f := range s.Flags {
		f.Name = kubelet.FlagName(f.Name)
		c.given[f.Name] = f.Value
		if !f.NoValue {
			c.applyFlag(own, f)
		}
	}
	if s.Config != nil || len(c.flagOf) > 0 {
		c.config = c.dropUnknownFields("", config.Object())
	}
	if c.Machine == nil || c.config == nil {
		c.Machine = &MachineFacts{}
	}

	return c
}

// dropUnknownFields returns an object without the fields that the version does not have, or resets. prefix is "" for
// the root, or the object's name in the tables with a dot.
func (c *checker) dropUnknownFields(prefix string, object map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range object {
		field, isKnown := known.FieldAt(prefix+name, c.minor)
		if !isKnown || c.isReset(prefix+name) {
			continue
		}
		out[name] = value
		switch inner := value.(type) {
		case map[string]any:
			if field.Type == known.Object {
				out[name] = c.dropUnknownFields(prefix+name+".", inner)
			}
		case []any:
			if field.Type == known.ObjectList {
				out[name] = c.dropFromElements(prefix+name+"[].", inner)
			}
		}
	}

	return out
}

// isReset reports whether the kubelet forgets a field of its file when it reads its flags once more.
//
// Source: k8s.io/component-base/logs/api/v1/options.go, addFlags.
func (c *checker) isReset(field string) bool {
	isStream := field == "logging.options.text.splitStream" || field == "logging.options.json.splitStream"

	return isStream && c.flagOf[field] == ""
}

// dropFromElements returns a list of objects without such fields.
func (c *checker) dropFromElements(prefix string, list []any) []any {
	out := slices.Clone(list)
	for i, element := range list {
		if object, isObject := element.(map[string]any); isObject {
			out[i] = c.dropUnknownFields(prefix, object)
		}
	}

	return out
}

// apply reports the violations of a rule.
func (c *checker) apply(r Rule) {
	c.rule = r
	for _, check := range r.checks {
		c.isInDryRun = r.isInDryRun && !check.isLater
		if c.isInDryRun && c.Judged {
			continue
		}
		if check.find != nil {
			c.startViolation()
			check.find(c)
		}
		for _, path := range c.places(check.where) {
			c.startViolation()
			c.place = check.place
			v := value{c, path, c.lookUp(path...)}
			if v.raw != nil || strings.Contains(check.where, "*") { // it is set, or the object around it is
				c.usesUnsetField = false
			}
			if !check.isViolated(v) {
				continue
			}
			if c.place != "" {
				path = strings.Split(c.place, ".")
			}
			hint := cmp.Or(c.hint, v.expand(check.hint))
			c.reportAt(path, hint, "%s", v.expand(cmp.Or(check.message, "{why}")))
		}
	}
}

func (c placeCheck) isViolated(v value) bool {
	for _, isTrue := range c.conditions {
		if !isTrue(v) {
			return false
		}
	}

	return true
}

// startViolation forgets the dependencies of the previous violation.
func (c *checker) startViolation() {
	c.outcome = outcome{severity: c.rule.Severity, effect: c.rule.Effect}
}

// add adds a violation of the running rule.
func (c *checker) add(f Violation) {
	f.Rule = c.rule.ID
	f.Effect = c.effect
	f.Severity = c.severity
	f.InDryRun = c.isInDryRun
	f.Newer = c.isNewer && c.rule.Lists && !c.isEvidence
	f.Uncertain = f.Newer || c.isGuess()
	if f.Uncertain {
		f.Severity = Warning
	}
	if c.Part && c.usesUnsetField {
		c.unchecked = append(c.unchecked, f)
		return
	}
	c.violations = append(c.violations, f)
}

// isGuess reports whether a version or a feature gate that is not known decides the current violation. What no version
// of the tables accepts is certain.
func (c *checker) isGuess() bool {
	if c.variesByVersion && !c.hasTables && !c.isEvidence {
		return true
	}
	dependsOnGate := c.Part && c.usesDefaultGate
	dependsOnVersion := c.Version == "" && (c.rule.Since > minMinor || c.rule.Until > 0)

	return c.severity == Error && (dependsOnGate || dependsOnVersion)
}

// reportAt adds a violation about a field, or about the flag that sets it. The path of a flag is its name with dashes.
func (c *checker) reportAt(path []string, hint, format string, args ...any) {
	f := Violation{Message: fmt.Sprintf(format, args...), Hint: hint}
	name, isFlag := strings.CutPrefix(path[0], "--")
	if isFlag {
		f.Flag = name
	}
	for i := range path {
		field := strings.Join(path[:i+1], ".")
		if f.Flag == "" && c.flagOf[field] != "" {
			f.Flag = c.flagOf[field]
			f.Member = strings.Join(path[i+1:], ".")
		}
	}
	if f.Flag == "feature-gates" {
		f.Member = strings.Join(path[1:], ".")
	}
	if f.Flag == "" {
		f.Pointer = tape.Pointer(path...)
	}
	c.add(f)
}

// report is reportAt for a field like maxPods or logging.format, or for a flag.
func (c *checker) report(place, hint, format string, args ...any) {
	c.reportAt(strings.Split(place, "."), hint, format, args...)
}

// describeKubelet returns a clause for messages: the version of the kubelet, or that it is not known.
func (c *checker) describeKubelet() string {
	if c.Version == "" {
		return "the kubelet's version is not known"
	}

	return "the kubelet is " + strings.TrimPrefix(c.Version, "v")
}

// valueAt returns the value of a field like maxPods or logging.format, nil if it is not set.
func (c *checker) valueAt(field string) any { return c.lookUp(strings.Split(field, ".")...) }

// lookUp returns the value at a path of the configuration, or of a flag.
func (c *checker) lookUp(path ...string) any {
	if name, isFlag := strings.CutPrefix(path[0], "--"); isFlag {
		return c.given[name]
	}
	if c.Part && !c.isSettled(path) {
		c.usesUnsetField = true
	}

	return dig(c.config, path...)
}

// isSettled reports whether a part of a configuration decides the value at a path: it sets or removes the field, or a
// value around it. Objects are merged, so an object alone decides nothing unless a flag sets it.
func (c *checker) isSettled(path []string) bool {
	var value any = c.config
	for i, name := range path {
		outer := path[:i+1]
		isUnset := slices.Contains(c.Unset, tape.Pointer(outer...))
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

// presetOf returns the default of a field.
func (c *checker) presetOf(field string) string {
	preset, _ := known.FieldAt(field, c.minor)

	return preset.Default
}

// textOf, isOn and numberOf return the value of a field, or its default if it is not set or has another type.
func (c *checker) textOf(field string) string {
	text, _ := c.valueAt(field).(string)

	return cmp.Or(text, c.presetOf(field))
}

func (c *checker) has(field string) bool { return c.textOf(field) != "" }

func (c *checker) isOn(field string) bool {
	isOn, isBool := c.valueAt(field).(bool)
	if !isBool {
		return c.presetOf(field) == "true"
	}

	return isOn
}

func (c *checker) numberOf(field string) int64 {
	n, isNumber := parseNumber(c.valueAt(field))
	if !isNumber {
		n, _ = strconv.ParseInt(c.presetOf(field), 10, 64)
	}

	return n
}

// positiveOf and durationOf return the value of a field whose zero selects its default in a file.
func (c *checker) positiveOf(field string) int64 {
	n := c.numberOf(field)
	if n == 0 && c.isZeroUnset(field) {
		n, _ = strconv.ParseInt(c.presetOf(field), 10, 64)
	}

	return n
}

func (c *checker) durationOf(field string) time.Duration {
	d, err := time.ParseDuration(c.textOf(field))
	if err != nil || d == 0 && c.isZeroUnset(field) {
		d, _ = time.ParseDuration(c.presetOf(field))
	}

	return d
}

func (c *checker) listOf(field string) []any {
	list, _ := c.valueAt(field).([]any)

	return list
}

// isZeroUnset reports whether 0 or an empty text selects a field's default. It does in a file, if the kubelet's field
// is not a pointer; a flag sets the zero.
func (c *checker) isZeroUnset(field string) bool { return c.flagOf[field] == "" }

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
	if a := c.Accepts; a != nil {
		for stage, list := range map[string][]string{"alpha": a.Alpha, "beta": a.Beta} {
			if isOn := slices.Contains(list, name+"=true"); isOn || slices.Contains(list, name+"=false") {
				return known.Gate{Stage: stage, On: isOn}, true
			}
		}
	}

	return known.GateAt(name, c.minor)
}

func parseNumber(v any) (int64, bool) {
	number, isNumber := v.(json.Number)
	n, err := strconv.ParseInt(string(number), 10, 64)

	return n, isNumber && err == nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// suggest returns a hint for a misspelt word: the nearest valid one, or all if they are few.
func suggest(word string, valid []string) string {
	const few = 10
	near := texts.Nearest(word, valid)
	switch {
	case near != "":
		return "did you mean " + near + "?"
	case len(valid) <= few:
		return "valid values: " + strings.Join(valid, ", ")
	}

	return "remove it"
}
