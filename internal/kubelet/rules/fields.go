package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

const (
	unknownField = "config-unknown-field"
	otherVersion = "config-other-version"
	wrongType    = "config-wrong-type"
	badDuration  = "config-bad-duration"
	badQuantity  = "config-bad-quantity"
)

// fieldRules walk over the document and compare it with the fields of the version. Each rule walks by itself and keeps its
// own findings.
func fieldRules() []Rule {
	decode := "cmd/kubelet/app/server.go, loadConfigFile; k8s.io/kubelet/config/v1beta1"
	walk := func(l *look) { (&walker{look: l}).object(nil, "", l.whole) }
	return []Rule{
		{ID: unknownField, Minds: "a field that no version has: misspelt, or at the wrong place", Does: Swallows, Severity: Error, Alone: true, Source: decode, check: walk},
		{ID: otherVersion, Minds: "a field that another version has", Does: Swallows, Severity: Error, Alone: true, Source: decode, check: walk},
		{ID: wrongType, Minds: "a value of another type than its field's", Does: Exits, Severity: Error, Alone: true, Source: decode, check: walk},
		{ID: badDuration, Minds: "a malformed or negative duration", Does: Exits, Severity: Error, Alone: true, Source: decode, check: walk},
		{ID: badQuantity, Minds: "a malformed or negative quantity", Does: Exits, Severity: Error, Alone: true, Source: decode, check: walk},
	}
}

// walker adds what its rule is about, and no more.
type walker struct{ *look }

func (w *walker) says(id string, path []string, hint, format string, args ...any) {
	if id == w.rule.ID {
		w.at(path, hint, format, args...)
	}
}

// object checks names and types of the fields of an object whose own name in the table is at ("" for the root).
func (w *walker) object(path []string, at string, object map[string]any) {
	for _, name := range sorted(object) {
		field := name
		if at != "" {
			field = at + "." + name
		}
		here := append(slices.Clone(path), name)
		f, ok := known.FieldAt(field, w.minor)
		if !ok {
			w.unknown(here, at, name, field)
			continue
		}
		if object[name] != nil { // null is as if it were absent
			w.value(here, field, f.Type, object[name])
		}
	}
}

// unknown minds a field that the version does not have: another has it, or it is misspelt. Where the version itself is
// not known, or newer than all that are, the field may be right all the same.
func (w *walker) unknown(path []string, at, name, field string) {
	if w.rule.ID != unknownField && w.rule.ID != otherVersion {
		return
	}
	f := Finding{Pointer: kubelet.Pointer(path...)}
	if !w.exact {
		f.Severity, f.Vague = Warning, true
	}
	h, elsewhen := known.FieldHistory(field)
	switch {
	case elsewhen != (w.rule.ID == otherVersion):
		return
	case elsewhen:
		gone, isGone := h.Gone()
		f.Message = fmt.Sprintf("%s is a field %s, and the kubelet is %s: it runs without it and does not say so", strings.Join(path, "."), h.When(), w.version())
		f.Hint = fmt.Sprintf("take it out, or use a kubelet from 1.%d on", h.Since())
		if isGone && w.minor >= gone {
			f.Hint = "take it out"
		}
	default:
		f.Message, f.Hint = fmt.Sprintf("unknown field %q: the kubelet runs without it and does not say so", name), w.meant(at, name)
	}
	w.add(f)
}

// meant suggests the field that a misspelt or misplaced one stands for.
func (w *walker) meant(at, name string) string {
	var siblings []string
	elsewhere := ""
	for _, field := range known.Fields(w.minor) {
		parent, last := "", field
		if i := strings.LastIndexByte(field, '.'); i >= 0 {
			parent, last = field[:i], field[i+1:]
		}
		if parent == at {
			siblings = append(siblings, last)
		} else if last == name && elsewhere == "" {
			elsewhere = field
		}
	}
	if near := kubelet.Nearest(name, siblings); near != "" {
		return "did you mean " + near + "?"
	}
	for _, s := range siblings {
		if len(name) > 6 && strings.HasPrefix(s, name) {
			return "did you mean " + s + "?"
		}
	}
	if elsewhere != "" {
		return "did you mean " + elsewhere + "?"
	}
	if f, ok := known.FlagAt(name, w.minor); ok && f.Field != "" {
		return "did you mean " + f.Field + "?"
	}
	return fmt.Sprintf("remove it, or check it against the kubelet's version (these are the fields of 1.%d)", w.minor)
}

// value checks a value against the type of its field.
func (w *walker) value(path []string, field string, t known.Type, v any) {
	switch t {
	case known.String:
		w.expect(path, v, "string", isA[string](v))
	case known.Bool:
		w.expect(path, v, "bool", isA[bool](v))
	case known.Int32:
		w.expect(path, v, "int32", isInteger(v, 32))
	case known.Int64:
		w.expect(path, v, "int64", isInteger(v, 64))
	case known.Uint32:
		w.expect(path, v, "uint32", isUnsigned(v))
	case known.Number:
		w.expect(path, v, "float64", isA[json.Number](v))
	case known.Duration:
		if w.expect(path, v, "string", isA[string](v)) {
			w.duration(path, v.(string))
		}
	case known.DurationOrInt:
		if s, ok := v.(string); ok {
			w.duration(path, s)
		} else {
			w.expect(path, v, "int64", isInteger(v, 64))
		}
	case known.Quantity:
		w.quantity(path, v)
	case known.Object:
		if w.expect(path, v, "struct", isA[map[string]any](v)) {
			w.object(path, field, v.(map[string]any))
		}
	case known.ObjectList:
		w.elements(path, v, func(path []string, v any) {
			if w.expect(path, v, "struct", isA[map[string]any](v)) {
				w.object(path, field+"[]", v.(map[string]any))
			}
		})
	case known.Strings:
		w.members(path, v, func(member []string, v any) { w.expectIn(path, member, v, "string", isA[string](v)) })
	case known.Bools:
		w.members(path, v, func(member []string, v any) { w.expectIn(path, member, v, "bool", isA[bool](v)) })
	case known.Quantities:
		w.members(path, v, w.quantity)
	case known.StringLists:
		w.members(path, v, w.strings)
	case known.StringList:
		w.strings(path, v)
	case known.IntList:
		if w.expect(path, v, "[]int32", isA[[]any](v)) {
			w.elements(path, v, func(element []string, v any) { w.expectIn(path, element, v, "int32", isInteger(v, 32)) })
		}
	}
}

func (w *walker) strings(path []string, v any) {
	if w.expect(path, v, "[]string", isA[[]any](v)) {
		w.elements(path, v, func(element []string, v any) { w.expectIn(path, element, v, "string", isA[string](v)) })
	}
}

func (w *walker) members(path []string, v any, check func([]string, any)) {
	if !w.expect(path, v, "map", isA[map[string]any](v)) {
		return
	}
	object := v.(map[string]any)
	for _, name := range sorted(object) {
		if object[name] != nil {
			check(append(slices.Clone(path), name), object[name])
		}
	}
}

func (w *walker) elements(path []string, v any, check func([]string, any)) {
	if !w.expect(path, v, "slice", isA[[]any](v)) {
		return
	}
	for i, element := range v.([]any) {
		if element != nil {
			check(append(slices.Clone(path), strconv.Itoa(i)), element)
		}
	}
}

// expect adds the decoder's words where a value is not of its field's type.
func (w *walker) expect(path []string, v any, want string, ok bool) bool {
	return w.expectIn(path, path, v, want, ok)
}

// expectIn is expect for a member of a map or list: the decoder names the struct's field, the pointer the member.
func (w *walker) expectIn(field, path []string, v any, want string, ok bool) bool {
	if ok {
		return true
	}
	hint := ""
	switch {
	case want == "string" && (isA[json.Number](v) || isA[bool](v)):
		hint = fmt.Sprintf("put it in quotes: %q", fmt.Sprint(v))
	case isA[string](v) && strings.HasPrefix(want, "int"):
		hint = "write a whole number without quotes"
	case isA[string](v) && want == "bool":
		hint = "write true or false without quotes"
	case isA[json.Number](v):
		hint = "the number does not fit the field"
	}
	w.says(wrongType, path, hint, "json: cannot unmarshal %s into Go struct field KubeletConfiguration.%s of type %s", jsonKind(v, want), strings.Join(field, "."), want)
	return false
}

func jsonKind(v any, want string) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case json.Number:
		if strings.Contains(want, "int") {
			return "number " + string(v) // which does not fit
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func (w *walker) duration(path []string, s string) {
	if _, err := time.ParseDuration(s); err != nil {
		w.says(badDuration, path, "write a number and a unit, like 90s, 1m30s or 4h", "%s", err)
	}
}

const quantityHint = "write a number with a unit that Kubernetes knows, like 100Mi, 2Gi, 500m or 4"

func (w *walker) quantity(path []string, v any) {
	s, ok := v.(string)
	if n, isNumber := v.(json.Number); isNumber {
		s, ok = string(n), true
	}
	if !ok {
		w.expect(path, v, "resource.Quantity", false)
		return
	}
	if _, err := resource.ParseQuantity(s); err != nil {
		w.says(badQuantity, path, quantityHint, "failed to parse quantity %q: %s", s, err)
	}
}

func isA[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func isInteger(v any, bits int) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := strconv.ParseInt(string(n), 10, bits)
	return err == nil
}

func isUnsigned(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(string(n), 10, 32)
	return err == nil
}
