package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/quantity"
)

const (
	unknownField = "config-unknown-field"
	otherVersion = "config-other-version"
	wrongType    = "config-wrong-type"
	badDuration  = "config-bad-duration"
	badQuantity  = "config-bad-quantity"
)

const (
	decodeSource = "cmd/kubelet/app/server.go, loadConfigFile; k8s.io/kubelet/config/v1beta1"
	durationHint = "write a number and a unit, like 90s, 1m30s or 4h"
	quantityHint = "write a number with a unit that Kubernetes knows, like 100Mi, 2Gi, 500m or 4"
)

// fieldRules returns the rules about the names and types of fields. Each of them walks through the whole configuration
// and reports only its own findings.
func fieldRules() []Rule {
	return []Rule{
		{
			ID:       unknownField,
			Lists:    true,
			Summary:  "a field that no version has: misspelt or misplaced",
			Effect:   Ignores,
			Severity: Error,
			Source:   decodeSource,
			check:    checkFields,
		},
		{
			ID:       otherVersion,
			Lists:    true,
			Summary:  "a field that only other versions have",
			Effect:   Ignores,
			Severity: Error,
			Source:   decodeSource,
			check:    checkFields,
		},
		{
			ID:      wrongType,
			Summary: "a value of the wrong type",
			Source:  decodeSource,
			check:   checkFields,
		},
		{
			ID:      "config-header",
			Summary: "another `kind` or `apiVersion`",
			Source:  decodeSource,
			check:   checkHeader,
		},
		{
			ID:      badDuration,
			Summary: "a malformed or negative duration",
			Source:  decodeSource + "; " + evictionSource,
			check:   checkDurations,
		},
		{
			ID:      badQuantity,
			Summary: "a malformed or negative quantity",
			Source:  decodeSource + "; " + resourceListSource + "; " + evictionSource,
			check:   checkQuantities,
		},
	}
}

// checkHeader reports a kind or an apiVersion that the kubelet does not decode.
func checkHeader(c *checker) {
	header := []struct{ field, want string }{{"apiVersion", kubelet.ConfigAPIVersion}, {"kind", kubelet.ConfigKind}}
	for _, h := range header {
		if got, isSet := c.raw[h.field]; isSet && got != h.want {
			c.reportField(h.field, "remove it: the field is "+h.want, "no kind %q is registered for version %q",
				fmt.Sprint(c.raw["kind"]), fmt.Sprint(c.raw["apiVersion"]))
		}
	}
}

// checkFields checks what the kubelet decodes before it applies the flags: the file of --config alone, and drop-ins
// merged over it. It parses the flags itself (flag-bad-value).
func checkFields(c *checker) {
	if c.Config == nil {
		return
	}
	walker{checker: c}.checkObject(nil, "", c.Config.Object())
	if c.File != nil {
		walker{checker: c, isFile: true}.checkObject(nil, "", c.File.Object())
	}
}

// checkDurations checks durations, also those that are members of an object of texts.
func checkDurations(c *checker) {
	checkFields(c)
	checkGracePeriods(c)
}

// checkQuantities checks quantities, also those that are members of an object of texts.
func checkQuantities(c *checker) {
	checkFields(c)
	checkReservedAmounts(c)
	checkThresholdQuantities(c)
}

// walker compares a configuration with the fields of the version.
type walker struct {
	*checker
	isFile bool // it walks through the file of --config, whose findings are new only where a drop-in hides the value
}

// report reports findings of the running rule only.
func (w walker) report(rule string, path []string, hint, format string, args ...any) {
	if rule != w.rule.ID {
		return
	}
	f := Finding{
		Pointer: kubelet.Pointer(path...),
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
	w.add(f)
}

// checkObject checks the fields of an object. prefix is "" for the root, otherwise the object's name in the tables
// with a dot.
func (w walker) checkObject(path []string, prefix string, object map[string]any) {
	for _, name := range sortedKeys(object) {
		inner := append(slices.Clone(path), name)
		field, isKnown := known.FieldAt(prefix+name, w.minor)
		if isKnown {
			w.checkValue(inner, prefix+name, field.Type, object[name])
		} else {
			w.reportUnknown(inner, prefix, name)
		}
	}
}

// reportUnknown reports a field that the version does not have. A search for the meant field takes time, so it is only
// made by the rule that reports it.
func (w walker) reportUnknown(path []string, prefix, name string) {
	history, isKnown := known.FieldHistory(prefix + name)
	if !isKnown && w.rule.ID != unknownField {
		return
	}
	w.variesByVersion = isKnown || w.Version != "" // a version older than the tables may have it
	if !isKnown {
		hint := w.suggestField(prefix, name)
		w.report(unknownField, path, hint, "unknown field %q: the kubelet silently ignores it", name)

		return
	}

	hint := fmt.Sprintf("remove it, or use a kubelet from 1.%d on", history.Since())
	if removed, isRemoved := history.Gone(); isRemoved && w.minor >= removed {
		hint = "remove it"
	}
	w.report(otherVersion, path, hint,
		"%s is a field %s, and %s: it silently ignores the field", strings.Join(path, "."),
		history.When(), w.describeKubelet())
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

	nearest := kubelet.Nearest(name, siblings)
	if nearest == "" && len(others) > 0 {
		nearest = others[0]
	}
	if nearest == "" {
		_, newest := known.Range()

		return fmt.Sprintf("remove it, or check it against the kubelet's version (1.%d was checked)",
			min(w.minor, newest))
	}

	return "did you mean " + nearest + "?"
}

// goTypes are the types of fields as the kubelet's decoder prints them.
var goTypes = map[known.Type]string{
	known.String:        "string",
	known.Bool:          "bool",
	known.Int32:         "int32",
	known.Int64:         "int64",
	known.Uint32:        "uint32",
	known.Number:        "float64",
	known.Duration:      "string",
	known.DurationOrInt: "int64",
	known.Quantity:      "resource.Quantity",
	known.Object:        "struct",
	known.ObjectList:    "slice",
	known.Strings:       "map",
	known.Bools:         "map",
	known.Quantities:    "map",
	known.StringLists:   "map",
	known.StringList:    "[]string",
	known.IntList:       "[]int32",
}

// memberTypes are the types of the members of an object with free keys.
var memberTypes = map[known.Type]known.Type{
	known.Strings:     known.String,
	known.Bools:       known.Bool,
	known.Quantities:  known.Quantity,
	known.StringLists: known.StringList,
}

// elementTypes are the types of the elements of a list.
var elementTypes = map[known.Type]known.Type{
	known.ObjectList: known.Object,
	known.StringList: known.String,
	known.IntList:    known.Int32,
}

// checkValue checks a value against the type of its field. null counts as absent, except for a duration:
// metav1.Duration parses it as an empty text.
func (w walker) checkValue(path []string, field string, t known.Type, value any) {
	if value == nil && t == known.Duration {
		value = ""
	}
	isValid := value == nil
	switch v := value.(type) {
	case map[string]any:
		member, hasMembers := memberTypes[t]
		isValid = hasMembers || t == known.Object
		if t == known.Object {
			w.checkObject(path, field+".", v)
		}
		if hasMembers {
			w.checkMembers(path, field, member, v)
		}
	case []any:
		var element known.Type
		if element, isValid = elementTypes[t]; isValid {
			w.checkElements(path, field, element, v)
		}
	case bool:
		isValid = t == known.Bool
	case string:
		isValid = w.checkText(path, t, v)
	case json.Number:
		isValid = isNumberOf(t, string(v))
	}
	if !isValid {
		w.reportType(path, field, t, value)
	}
}

func (w walker) checkMembers(
	path []string,
	field string,
	t known.Type,
	object map[string]any,
) {
	for _, name := range sortedKeys(object) {
		w.checkValue(append(slices.Clone(path), name), field, t, object[name])
	}
}

func (w walker) checkElements(path []string, field string, t known.Type, list []any) {
	for i, element := range list {
		at := append(slices.Clone(path), strconv.Itoa(i))
		w.checkValue(at, field+"[]", t, element)
	}
}

// checkText reports a malformed duration or quantity, and returns whether the type is written as a text at all.
func (w walker) checkText(path []string, t known.Type, text string) bool {
	switch t {
	case known.String:
		return true
	case known.Duration, known.DurationOrInt:
		if _, err := time.ParseDuration(text); err != nil {
			w.report(badDuration, path, durationHint, "%s", err)
		}

		return true
	case known.Quantity:
		if _, err := quantity.Parse(strings.TrimSpace(text)); err != nil { // as resource.Quantity.UnmarshalJSON
			w.report(badQuantity, path, quantityHint, "failed to parse quantity %q: %s", text, err)
		}

		return true
	}

	return false
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

// reportType reports a value of the wrong type in the words of the kubelet's decoder.
func (w walker) reportType(path []string, field string, t known.Type, value any) {
	want := goTypes[t]
	w.report(wrongType, path, suggestType(want, value),
		"json: cannot unmarshal %s into Go struct field KubeletConfiguration.%s of type %s",
		describeJSON(want, value), strings.ReplaceAll(field, "[]", ""), want)
}

// describeJSON returns the kind of a value as the decoder prints it. It prints a number that does not fit an integer.
func describeJSON(want string, value any) string {
	switch v := value.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "array"
	case json.Number:
		if strings.Contains(want, "int") {
			return "number " + string(v)
		}

		return "number"
	}

	return "object"
}

// suggestType returns a hint for a value of another type than the wanted one.
func suggestType(want string, value any) string {
	isInteger := strings.Contains(want, "int")
	_, isText := value.(string)
	_, isBool := value.(bool)
	_, isNumber := value.(json.Number)
	switch {
	case want == "string" && (isBool || isNumber):
		return fmt.Sprintf("put it in quotes: %q", fmt.Sprint(value))
	case want == "bool" && isText:
		return "write true or false without quotes"
	case isInteger && isText:
		return "write a whole number without quotes"
	case isInteger && isNumber:
		return "the number does not fit the field"
	}

	return ""
}
