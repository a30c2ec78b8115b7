// Package devices has the code that the shipped detectors share.
package devices

import (
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
)

// TextFact returns a fact with a text. An empty text is unknown, for the reason.
func TextFact(f sdk.Fact[string], text, evidence, reason string) contract.Fact {
	if text == "" {
		return f.Unknown(reason)
	}

	return f.Is(text, evidence)
}

// SortedKeys returns the keys of a map. The result is not nil: an empty list is a known value.
func SortedKeys[V any](m map[string]V) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m))...)
}

// LookUp returns the text after an id and a space in a line of a table, "" for an id that the table does not have.
func LookUp(table, id string) string {
	for line := range strings.Lines(table) {
		if text, isFound := strings.CutPrefix(line, id+" "); isFound {
			return strings.TrimSuffix(text, "\n")
		}
	}

	return ""
}
