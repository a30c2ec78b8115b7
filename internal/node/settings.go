package node

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// Pointer writes a path as a JSON pointer (RFC 6901).
func Pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return b.String()
}

// Leaves flattens a merge patch (RFC 7386) into settings: an object is walked, null deletes, all else is set
// whole. Paths are sorted. An empty object sets itself where nothing stands.
func Leaves(patch map[string]any, origins func(path []string) []origin.Origin) []Setting {
	var out []Setting
	var walk func(at []string, m map[string]any)
	walk = func(at []string, m map[string]any) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			p := append(slices.Clone(at), k)
			switch v := m[k].(type) {
			case map[string]any:
				if len(v) > 0 {
					walk(p, v)
					continue
				}
				out = append(out, Setting{Path: p, Value: v, Origins: origins(p)})
			case nil:
				out = append(out, Setting{Path: p, Delete: true, Origins: origins(p)})
			default:
				out = append(out, Setting{Path: p, Value: v, Origins: origins(p)})
			}
		}
	}
	walk(nil, patch)
	return out
}

func (m *merger) settings(base Base, in []Contribution) {
	m.Config, m.ConfigOrigins = clone(base.Config), map[string][]origin.Origin{}
	if m.Config == nil {
		m.Config = map[string]any{}
	}
	have, by := map[string]Setting{}, map[string]int{}
	inside := map[string]string{} // by the pointer of each object around a field: the first field in it
	for n, c := range in {
		for _, s := range c.Settings {
			p := s.Pointer()
			old, same := have[p]
			if same = same && old.Delete == s.Delete && sameValue(old, s); same {
				s.Value, s.Origins = old.Value, both(old.Origins, s.Origins)
			} else if q, ok := overlap(have, inside, s.Path); ok {
				m.say(n, settingConflict(have[q], s))
				continue
			} else {
				by[p] = n
			}
			have[p] = s
			for n := range s.Path {
				if q, ok := inside[Pointer(s.Path[:n])]; !ok || p < q {
					inside[Pointer(s.Path[:n])] = p
				}
			}
		}
	}
	m.fill(in, have, by, inside)
	for _, p := range slices.Sorted(maps.Keys(have)) {
		s := have[p]
		old, ok := lookup(base.Config, s.Path)
		// kubeadm's ConfigMap is full of "0s", which is not set.
		if isSet := ok && old != nil && old != "" && old != "0s"; isSet && (s.Delete || !reflect.DeepEqual(old, s.Value)) {
			summary := "The kubelet's " + strings.Join(s.Path, ".") + " of the base is replaced"
			m.say(by[p], origin.Replaced("config"+p, rangeOf(s.Origins), summary,
				"The base has %s; here it is %s.", show(old), showSetting(s)))
		}
		apply(m.Config, s)
		m.ConfigOrigins[p] = s.Origins
		m.Settings = append(m.Settings, s)
	}
}

// sameValue reports whether two settings of one field mean the same: 2048Mi and 2Gi of what is reserved or kept free.
func sameValue(a, b Setting) bool {
	x, isText := a.Value.(string)
	y, areTexts := b.Value.(string)
	if isText && areTexts && slices.Contains([]string{"kubeReserved", "systemReserved", "evictionHard", "evictionSoft"}, a.Path[0]) {
		p, errX := resource.ParseQuantity(x)
		q, errY := resource.ParseQuantity(y)
		if errX == nil && errY == nil {
			return p.Cmp(q) == 0
		}
	}

	return reflect.DeepEqual(a.Value, b.Value)
}

// fill adds the settings that contributions make of all others, but for fields that these are about.
func (m *merger) fill(in []Contribution, have map[string]Setting, by map[string]int, inside map[string]string) {
	merged := clone(m.Config)
	for _, p := range slices.Sorted(maps.Keys(have)) {
		apply(merged, have[p])
	}
	for n, c := range in {
		if c.Fill == nil {
			continue
		}
		for _, s := range c.Fill(merged) {
			if _, ok := overlap(have, inside, s.Path); !ok {
				have[s.Pointer()], by[s.Pointer()] = s, n
			}
		}
	}
}

// overlap finds a field that is set already and is the same as a path, around it, or inside of it.
func overlap(have map[string]Setting, inside map[string]string, path []string) (string, bool) {
	for n := 1; n <= len(path); n++ {
		if p := Pointer(path[:n]); have[p].Path != nil {
			return p, true
		}
	}
	p, ok := inside[Pointer(path)]
	return p, ok
}

func settingConflict(old, s Setting) *hcl.Diagnostic {
	name := func(s Setting) string { return strings.Join(s.Path, ".") }
	return origin.Error(fault.Conflict, rangeOf(s.Origins), "Two stages disagree on the kubelet's "+name(s),
		"Here %s is %s, but %s makes %s %s. One owner for each: remove one of them, or make them agree.", name(s), showSetting(s), place(old.Origins), name(old), showSetting(old))
}

func showSetting(s Setting) string {
	if s.Delete {
		return "taken away"
	}
	return show(s.Value)
}

func apply(doc map[string]any, s Setting) {
	at := doc
	for _, k := range s.Path[:len(s.Path)-1] {
		next, ok := at[k].(map[string]any)
		if !ok {
			if s.Delete {
				return
			}
			next = map[string]any{}
			at[k] = next
		}
		at = next
	}
	last := s.Path[len(s.Path)-1]
	switch v := s.Value.(type) {
	case nil:
		delete(at, last)
	case map[string]any:
		if _, ok := at[last].(map[string]any); ok && len(v) == 0 {
			return // a merge patch with {} changes nothing of an object
		}
		at[last] = clone(v)
	default:
		at[last] = v
	}
}

func lookup(doc map[string]any, path []string) (any, bool) {
	var at any = doc
	for _, k := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[k]; !ok {
			return nil, false
		}
	}
	return at, true
}

func clone(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = cloneAny(v)
	}
	return out
}

func cloneAny(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return clone(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = cloneAny(x)
		}
		return out
	}
	return v
}
