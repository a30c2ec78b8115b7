// Package order sorts. It touches nothing.
//
// slices.SortFunc and SortStableFunc are compiled once for each type of element, 15 KB of program a type with its tables; for
// lists of a dozen elements that are sorted once a run that is all they cost. Here is one sort for all types.
package order

import "sort"

// By sorts a list by what compare says of two elements: below 0 for a before b. Equal ones stay in their order.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
