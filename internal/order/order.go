// Package order sorts. It touches nothing.
//
// slices.SortFunc and SortStableFunc are compiled once for each type of element, 15 KB of program a type with its tables, and
// slices.Sorted(maps.Keys(m)) once for each type of map, with three closures; for lists of a dozen elements that are sorted once
// a run that is all they cost. Here is one sort for all types.
package order

import (
	"slices"
	"sort"
)

// By sorts a list by what compare says of two elements: below 0 for a before b. Equal ones stay in their order.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// Keys are those of a map, sorted; never nil for a map that has some.
func Keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
