package kubelet

import (
	"maps"
	"slices"
)

// FieldChange is one field that differs between two configurations. Old or New is nil where the field is absent.
type FieldChange struct {
	Pointer string `json:"pointer"` // RFC 6901
	Old     any    `json:"old"`
	New     any    `json:"new"`
}

// Diff lists the fields in which b differs from a, sorted by pointer. Objects are compared member by member, lists
// and all else whole, as a merge patch would write them. An object that one side lacks is listed by its
// members, or whole where it is empty. A null is absent, as for the kubelet.
func Diff(a, b *Config) []FieldChange {
	changes := diffObjects(nil, nil, a.doc, b.doc)
	slices.SortFunc(changes, func(x, y FieldChange) int {
		switch {
		case x.Pointer < y.Pointer:
			return -1
		case x.Pointer > y.Pointer:
			return 1
		}
		return 0
	})
	return changes
}

func diffObjects(changes []FieldChange, path []string, a, b map[string]any) []FieldChange {
	names := maps.Clone(a)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, b)
	for name := range names {
		changes = diffValues(changes, append(slices.Clone(path), name), a[name], b[name])
	}
	return changes
}

func diffValues(changes []FieldChange, path []string, a, b any) []FieldChange {
	old, oldIsObject := a.(map[string]any)
	next, nextIsObject := b.(map[string]any)
	if oldIsObject && (nextIsObject || b == nil && len(old) > 0) || nextIsObject && a == nil && len(next) > 0 {
		return diffObjects(changes, path, old, next)
	}
	if string(encodeJSON(a)) == string(encodeJSON(b)) {
		return changes
	}
	return append(changes, FieldChange{Pointer(path...), clone(a), clone(b)})
}
