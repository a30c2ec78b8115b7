package activation

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/commit/generation"
)

// ChangesUnit reports whether entries of a commit change a file of a unit: its own or a drop-in.
func ChangesUnit(unit string, entries []generation.Entry) bool {
	return slices.ContainsFunc(entries, func(e generation.Entry) bool {
		return isFileOf(unit, e)
	})
}

// isFileOf reports whether an entry changes a file of a unit: the unit's own or a drop-in.
func isFileOf(unit string, e generation.Entry) bool {
	_, name, _ := strings.Cut(e.Path, "/systemd/system/")
	isOfUnit := name == unit || strings.HasPrefix(name, unit+".d/")

	return isOfUnit && !e.Old.Equal(e.New)
}
