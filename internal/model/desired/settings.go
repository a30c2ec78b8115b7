package desired

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
)

// Leaves flattens a merge patch (RFC 7386) into settings, sorted by path: an object becomes its fields, null deletes,
// any other value is set whole. An empty object sets a field that is not an object yet.
func Leaves(patch map[string]any, origins func(path []string) []origin.Origin) []Setting {
	var out []Setting

	var walk func(parent []string, object map[string]any)
	walk = func(parent []string, object map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			v := object[key]
			path := append(slices.Clone(parent), key)

			if child, isObject := v.(map[string]any); isObject && len(child) > 0 {
				walk(path, child)
				continue
			}

			out = append(out, Setting{
				Path:    path,
				Value:   v,
				Delete:  v == nil,
				Origins: origins(path),
			})
		}
	}

	walk(nil, patch)

	return out
}

// fieldSet contains the settings of all contributions, by JSON pointer.
type fieldSet struct {
	settings map[string]Setting
	setBy    map[string]int    // the index of the contribution that sets a field first
	inside   map[string]string // by the pointer of each object around a field: the first field in it, in order
}

// merge adds a setting of the contribution with an index. It returns the earlier setting that disagrees, if there is
// one; then the new setting is dropped.
func (f fieldSet) merge(s Setting, by int) (earlier Setting, conflicts bool) {
	p := s.Pointer()

	old, exists := f.settings[p]
	if exists && old.Delete == s.Delete && isSameValue(old, s) {
		old.Origins = joinOrigins(old.Origins, s.Origins)
		f.settings[p] = old

		return Setting{}, false
	}

	if earlier, overlaps := f.findOverlap(s.Path); overlaps {
		return earlier, true
	}

	f.settings[p] = s
	f.setBy[p] = by

	for n := range s.Path {
		object := tape.Pointer(s.Path[:n]...)
		if first, ok := f.inside[object]; !ok || p < first {
			f.inside[object] = p
		}
	}

	return Setting{}, false
}

// findOverlap returns a setting of the same field, of an object around it, or of a field inside it.
func (f fieldSet) findOverlap(path []string) (Setting, bool) {
	for n := 1; n <= len(path); n++ {
		if s, ok := f.settings[tape.Pointer(path[:n]...)]; ok {
			return s, true
		}
	}

	p, ok := f.inside[tape.Pointer(path...)]

	return f.settings[p], ok
}

// fill adds the settings that contributions derive from those of all others, except for fields that are set already.
func (f fieldSet) fill(config map[string]any, in []Contribution) {
	merged := cloneObject(config)
	for _, p := range slices.Sorted(maps.Keys(f.settings)) {
		applySetting(merged, f.settings[p])
	}

	for by, c := range in {
		if c.Fill == nil {
			continue
		}

		for _, s := range c.Fill(merged) {
			if _, overlaps := f.findOverlap(s.Path); !overlaps {
				f.settings[s.Pointer()] = s
				f.setBy[s.Pointer()] = by
			}
		}
	}
}

func (m *merger) mergeSettings(base Base, in []Contribution) {
	m.Config = cloneObject(base.Config)
	m.ConfigOrigins = map[string][]origin.Origin{}
	fields := fieldSet{
		settings: map[string]Setting{},
		setBy:    map[string]int{},
		inside:   map[string]string{},
	}

	for by, c := range in {
		for _, s := range c.Settings {
			if earlier, conflicts := fields.merge(s, by); conflicts {
				m.report(by, settingConflict(earlier, s))
			}
		}
	}

	fields.fill(m.Config, in)

	for _, p := range slices.Sorted(maps.Keys(fields.settings)) {
		s := fields.settings[p]

		old := lookupField(base.Config, s.Path)
		if isSet(old) && (s.Delete || !reflect.DeepEqual(old, s.Value)) {
			summary := "The kubelet's " + strings.Join(s.Path, ".") + " of the base is replaced"
			m.report(fields.setBy[p], origin.Replaced("config"+p, origin.DecidingRange(s.Origins), summary,
				"The base has %s; here it is %s.", formatValue(old), formatSetting(s)))
		}

		applySetting(m.Config, s)
		m.ConfigOrigins[p] = s.Origins
		m.Settings = append(m.Settings, s)
	}
}

// Replace returns a node in which settings that it has get other values and origins.
func (n Node) Replace(settings []Setting) Node {
	n.Settings = slices.Clone(n.Settings)
	n.Config = cloneObject(n.Config)
	n.ConfigOrigins = maps.Clone(n.ConfigOrigins)

	for _, s := range settings {
		i := slices.IndexFunc(n.Settings, func(old Setting) bool {
			return old.Pointer() == s.Pointer()
		})
		if i >= 0 {
			n.Settings[i] = s
			n.ConfigOrigins[s.Pointer()] = s.Origins
			applySetting(n.Config, s)
		}
	}

	return n
}

// isSet reports whether a value of the base is worth a note when it is replaced. kubeadm's ConfigMap contains
// "0s" for each duration that is not set.
func isSet(old any) bool {
	return old != nil && old != "" && old != "0s"
}

// isSameValue reports whether two settings of one field mean the same. Among quantities, 2048Mi and 2Gi do.
func isSameValue(a, b Setting) bool {
	x, isText := a.Value.(string)
	y, areTexts := b.Value.(string)
	quantities := []string{"kubeReserved", "systemReserved", "evictionHard", "evictionSoft"}

	if isText && areTexts && slices.Contains(quantities, a.Path[0]) {
		p, errX := kubelet.ParseQuantity(x)
		q, errY := kubelet.ParseQuantity(y)
		if errX == nil && errY == nil {
			return p.Cmp(q) == 0
		}
	}

	return reflect.DeepEqual(a.Value, b.Value)
}

func settingConflict(old, s Setting) *hcl.Diagnostic {
	oldName := strings.Join(old.Path, ".")
	name := strings.Join(s.Path, ".")

	return origin.Error(
		fault.Conflict,
		origin.DecidingRange(s.Origins),
		"Two stages disagree on the kubelet's "+name,
		"Here %s is %s, but %s makes %s %s. One owner for each: remove one of them, or make them agree.",
		name,
		formatSetting(s),
		formatPlace(old.Origins),
		oldName,
		formatSetting(old),
	)
}

func formatSetting(s Setting) string {
	if s.Delete {
		return "removed"
	}

	return formatValue(s.Value)
}

// applySetting changes a document as a merge patch (RFC 7386) with one field does.
func applySetting(doc map[string]any, s Setting) {
	parent := doc

	for _, key := range s.Path[:len(s.Path)-1] {
		next, isObject := parent[key].(map[string]any)
		if !isObject {
			if s.Delete {
				return
			}

			next = map[string]any{}
			parent[key] = next
		}

		parent = next
	}

	last := s.Path[len(s.Path)-1]

	switch v := s.Value.(type) {
	case nil:
		delete(parent, last)
	case map[string]any:
		// {} in a merge patch does not change an object.
		if _, isObject := parent[last].(map[string]any); !isObject || len(v) > 0 {
			parent[last] = cloneObject(v)
		}
	default:
		parent[last] = v
	}
}

// lookupField returns a field of a document; nil if it is missing.
func lookupField(doc map[string]any, path []string) any {
	var v any = doc

	for _, key := range path {
		object, _ := v.(map[string]any)
		v = object[key]
	}

	return v
}

// cloneObject copies a document deeply. It returns an empty one for nil.
func cloneObject(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for key, v := range object {
		out[key] = cloneValue(v)
	}

	return out
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneObject(v)
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = cloneValue(element)
		}

		return out
	}

	return v
}
