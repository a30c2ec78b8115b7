package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
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

func isBadAmount(v value) bool {
	amount, err := kubelet.ParseQuantity(v.text())
	switch {
	case !slices.Contains(reservableResources, v.key()):
	case err != nil:
		return v.because(quantityHint, `failed to parse quantity "{value}" for "{key}" resource: %s`, err)
	case amount.Sign() < 0:
		return v.because("reserve 0 or more", `resource quantity for "{key}" cannot be negative: {value}`)
	}

	return false
}

func isBadThresholdAmount(v value) bool {
	_, err := kubelet.ParseQuantity(v.text())

	return isSignal(v) && !strings.HasSuffix(v.text(), "%") && err != nil &&
		v.because(quantityHint, `failed to parse quantity "{value}": %s`, err)
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
		Pointer: tape.Pointer(path...),
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
	inner := memberType(t)
	isList := t == known.ObjectList || t == known.StringList || t == known.IntList
	isValid := raw == nil
	brackets := ""
	switch v := raw.(type) {
	case map[string]any:
		isValid = t == known.Object || inner != "" && !isList
	case []any:
		isValid = isList
		brackets = "[]"
	case bool:
		isValid = t == known.Bool
	case string:
		isValid = w.checkText(path, t, v)
	case json.Number:
		isValid = isNumberOf(t, string(v))
	}
	if !isValid {
		w.report(wrongType, path, suggestForm(t, raw), "it must be %s, not %s", describeType(t), describeKind(raw))
		return
	}
	for _, name := range namesIn(raw) {
		path := append(slices.Clone(path), name)
		if t == known.Object {
			w.checkField(path, field, name, dig(raw, name))
		} else {
			w.checkValue(path, field+brackets, inner, dig(raw, name))
		}
	}
}

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

	near := texts.Nearest(name, siblings)
	if near == "" && len(others) > 0 {
		near = others[0]
	}
	if near == "" {
		return fmt.Sprintf("remove it, or check it against the kubelet's version (%s was checked)",
			known.Describe(min(w.minor, known.Newest())))
	}

	return "did you mean " + near + "?"
}

// describeType describes the values that a field of a type takes.
func describeType(t known.Type) string {
	switch t {
	case known.Bool:
		return "true or false without quotes"
	case known.Int32, known.Int64, known.Uint32:
		return "a whole number (" + string(t) + ")"
	case known.String:
		return "a text, in quotes"
	case known.Duration, known.DurationOrInt:
		return "a duration, like 1m30s"
	case known.ObjectList, known.StringList, known.IntList:
		return "a list"
	case known.Number, known.Quantity:
		return "a " + string(t)
	}

	return "an object"
}

// suggestForm returns how a text is written for a type; "" if that is not known.
func suggestForm(t known.Type, raw any) string {
	text, ok := raw.(string)
	digits := strings.TrimSuffix(text, "%")
	switch isNumber := digits != "" && strings.Trim(digits, "0123456789") == ""; {
	case !ok:
	case t == known.StringList:
		return fmt.Sprintf("write it in brackets: [%q]", text)
	case isNumber && (t == known.Int32 || t == known.Int64 || t == known.Uint32):
		return "write " + digits
	case t == known.Object || t == known.Strings || t == known.Bools:
		return "write names and values: { NAME = VALUE }"
	}

	return ""
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
		if _, err := kubelet.ParseQuantity(strings.TrimSpace(text)); err != nil { // as resource.Quantity.UnmarshalJSON
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

// describeKind describes a value by its type. The content of a text may be a secret.
func describeKind(raw any) string {
	switch v := raw.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case json.Number:
		return string(v)
	}

	return "an object"
}
