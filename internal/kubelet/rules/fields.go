package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/nearest"
	"github.com/prelet/prelet/internal/quantity"
	"github.com/prelet/prelet/internal/world"
)

const (
	unknownField = "config-unknown-field"
	otherVersion = "config-other-version"
	wrongType    = "config-wrong-type"
	badDuration  = "config-bad-duration"
	badQuantity  = "config-bad-quantity"
)

const (
	durationHint = "write a number and a unit, like 90s, 1m30s or 4h"
	quantityHint = "write a number with a unit that Kubernetes knows, like 100Mi, 2Gi, 500m or 4"
)

// reportDeprecated reports fields that are set and that Kubernetes calls deprecated. Those without any effect are
// ignored.
func reportDeprecated(c *checker) {
	for _, name := range known.DeprecatedFields() {
		c.startViolation()
		field, _ := known.FieldAt(name, c.minor)
		if field.Deprecated == "" || c.isUnset(name) {
			continue
		}
		if strings.Contains(field.Deprecated, "no longer has any effect") {
			c.effect = Ignores
		}
		c.report(name, "remove it", "%s is deprecated: %s", name, field.Deprecated)
	}
}

func (v value) isOtherHeader(want string) bool {
	return v.raw != nil && v.raw != want && v.because("remove it: the field is "+want,
		"no kind %q is registered for version %q", fmt.Sprint(v.config["kind"]), fmt.Sprint(v.config["apiVersion"]))
}

func isBadAmount(v value) bool {
	amount, err := quantity.Parse(v.text())
	switch {
	case !slices.Contains(reservableResources, v.key()):
	case err != nil:
		return v.because("", `failed to parse quantity "{value}" for "{key}" resource: %s`, err)
	case amount.Sign() < 0:
		return v.because("reserve 0 or more", `resource quantity for "{key}" cannot be negative: {value}`)
	}

	return false
}

func isBadThresholdAmount(v value) bool {
	return isSignal(v) && !strings.HasSuffix(v.text(), "%") && rejectedBy(quantity.Parse)(v)
}

// walker compares a configuration with the fields of the version.
type walker struct {
	*checker
	isFile bool // it walks through the file of --config, whose violations are new only where a drop-in hides the value
}

// walkFields checks the configuration that the kubelet decodes before it applies the flags: the file of --config alone,
// and drop-ins merged over it. It parses the flags itself (flag-bad-value). The first of the rules about fields finds
// the violations of all of them.
func walkFields(c *checker) {
	if c.Config == nil {
		return
	}
	if c.wrongFields == nil {
		c.wrongFields = map[string][]Violation{}
		walker{checker: c}.checkValue(nil, "", known.Object, c.Config.Object())
		if c.File != nil {
			walker{checker: c, isFile: true}.checkValue(nil, "", known.Object, c.File.Object())
		}
	}

	isUnknown := c.rule.ID == unknownField && c.Version != "" // a version older than the tables may have it
	c.variesByVersion = isUnknown || c.rule.ID == otherVersion
	for _, v := range c.wrongFields[c.rule.ID] {
		c.add(v)
	}
}

// report keeps a violation of a rule.
func (w walker) report(rule string, path []string, hint, format string, args ...any) {
	f := Violation{
		Pointer: world.Pointer(path...),
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
		InFile:  w.isFile,
	}
	if w.isFile {
		inFile, _ := w.File.Get(f.Pointer)
		if merged, ok := w.Config.Get(f.Pointer); ok && reflect.DeepEqual(inFile, merged) {
			return
		}
	}
	w.wrongFields[rule] = append(w.wrongFields[rule], f)
}

// checkValue checks a value against the type of its field, whose name is like a[].b in the tables. null counts as
// absent, except for a duration: metav1.Duration parses it as an empty text.
func (w walker) checkValue(path []string, field string, t known.Type, raw any) {
	if raw == nil && t == known.Duration {
		raw = ""
	}
	goType := describeType(t)
	isValid := raw == nil
	brackets := ""
	switch v := raw.(type) {
	case map[string]any:
		isValid = goType == "struct" || goType == "map"
	case []any:
		isValid = goType == "slice" || strings.HasPrefix(goType, "[]")
		brackets = "[]"
	case bool:
		isValid = t == known.Bool
	case string:
		isValid = w.checkText(path, t, v)
	case json.Number:
		isValid = isNumberOf(t, string(v))
	}
	if !isValid {
		kind, hint := describeKind(goType, raw)
		w.report(wrongType, path, hint,
			"json: cannot unmarshal %s into Go struct field KubeletConfiguration.%s of type %s", kind,
			strings.ReplaceAll(field, "[]", ""), goType)
		return
	}
	for _, name := range namesIn(raw) {
		inner := append(slices.Clone(path), name)
		if goType == "struct" {
			w.checkField(inner, field, name, dig(raw, name))
		} else {
			w.checkValue(inner, field+brackets, memberType(t), dig(raw, name))
		}
	}
}

// checkField checks a field of an object.
func (w walker) checkField(path []string, object, name string, raw any) {
	prefix := object
	if prefix != "" {
		prefix += "."
	}
	if field, isKnown := known.FieldAt(prefix+name, w.minor); isKnown {
		w.checkValue(path, prefix+name, field.Type, raw)
		return
	}

	history, isKnown := known.FieldHistory(prefix + name)
	if !isKnown {
		w.report(unknownField, path, w.suggestField(prefix, name),
			"unknown field %q: the kubelet silently ignores it", name)

		return
	}

	hint := "remove it, or use a kubelet from " + known.Describe(history.Since()) + " on"
	if removed, isRemoved := history.Gone(); isRemoved && w.minor >= removed {
		hint = "remove it"
	}
	w.report(otherVersion, path, hint, "%s is a field %s, and %s: it silently ignores the field",
		strings.Join(path, "."), history.When(), w.describeKubelet())
}

// suggestField returns a hint for a misspelt or misplaced field.
func (w walker) suggestField(prefix, name string) string {
	var siblings []string
	var others []string // that continue the name, or have it elsewhere
	for _, field := range known.Fields(w.minor) {
		dot := strings.LastIndexByte(field, '.') + 1
		if field[:dot] == prefix {
			siblings = append(siblings, field[dot:])
		}
		isLonger := len(name) > 6 && strings.HasPrefix(field, prefix+name)
		if isLonger || field[dot:] == name {
			others = append(others, field)
		}
	}
	if flag, ok := known.FlagAt(name, w.minor); ok && flag.Field != "" {
		others = append(others, flag.Field)
	}

	near := nearest.Word(name, siblings)
	if near == "" && len(others) > 0 {
		near = others[0]
	}
	if near == "" {
		return fmt.Sprintf("remove it, or check it against the kubelet's version (%s was checked)",
			known.Describe(min(w.minor, known.Newest())))
	}

	return "did you mean " + near + "?"
}

// describeType returns a type as the kubelet's decoder prints it.
func describeType(t known.Type) string {
	switch t {
	case known.Number:
		return "float64"
	case known.Duration:
		return "string"
	case known.DurationOrInt:
		return "int64"
	case known.Quantity:
		return "resource.Quantity"
	case known.Object:
		return "struct"
	case known.ObjectList:
		return "slice"
	case known.Strings, known.Bools, known.Quantities, known.StringLists:
		return "map"
	case known.StringList:
		return "[]string"
	case known.IntList:
		return "[]int32"
	}

	return string(t)
}

// memberType returns the type of the members of an object with free keys, or of the elements of a list.
func memberType(t known.Type) known.Type {
	switch t {
	case known.Strings, known.StringList:
		return known.String
	case known.Bools:
		return known.Bool
	case known.Quantities:
		return known.Quantity
	case known.StringLists:
		return known.StringList
	case known.ObjectList:
		return known.Object
	case known.IntList:
		return known.Int32
	}

	return ""
}

// checkText reports a malformed duration or quantity, and returns whether the type is written as a text at all.
func (w walker) checkText(path []string, t known.Type, text string) bool {
	switch t {
	case known.String:
	case known.Duration, known.DurationOrInt:
		if _, err := time.ParseDuration(text); err != nil {
			w.report(badDuration, path, durationHint, "%s", err)
		}
	case known.Quantity:
		if _, err := quantity.Parse(strings.TrimSpace(text)); err != nil { // as resource.Quantity.UnmarshalJSON
			w.report(badQuantity, path, quantityHint, "failed to parse quantity %q: %s", text, err)
		}
	default:
		return false
	}

	return true
}

// isNumberOf reports whether a number fits a type.
func isNumberOf(t known.Type, number string) bool {
	var err error
	switch t {
	case known.Number, known.Quantity:
	case known.Int32:
		_, err = strconv.ParseInt(number, 10, 32)
	case known.Int64, known.DurationOrInt:
		_, err = strconv.ParseInt(number, 10, 64)
	case known.Uint32:
		_, err = strconv.ParseUint(number, 10, 32)
	default:
		return false
	}

	return err == nil
}

// describeKind returns the kind of a value as the decoder prints it, and a hint. The decoder prints a number that does
// not fit an integer.
func describeKind(want string, raw any) (kind, hint string) {
	isInteger := strings.Contains(want, "int")
	quotes := ""
	if want == "string" {
		quotes = fmt.Sprintf("put it in quotes: %q", fmt.Sprint(raw))
	}
	switch v := raw.(type) {
	case string:
		if want == "bool" {
			hint = "write true or false without quotes"
		} else if isInteger {
			hint = "write a whole number without quotes"
		}

		return "string", hint
	case bool:
		return "bool", quotes
	case []any:
		return "array", ""
	case json.Number:
		if isInteger {
			return "number " + string(v), "the number does not fit the field"
		}

		return "number", quotes
	}

	return "object", ""
}
