package activation

import (
	"strings"

	"github.com/prelet/prelet/internal/commit/generation"
)

// ListUnitFiles returns the files of a unit, its own and its drop-ins, that the entries of a commit change.
func ListUnitFiles(unit string, entries []generation.Entry) (paths []string) {
	for _, e := range entries {
		if isFileOf(unit, e) {
			paths = append(paths, e.Path)
		}
	}

	return paths
}

// isFileOf reports whether an entry changes a file of a unit: the unit's own or a drop-in.
func isFileOf(unit string, e generation.Entry) bool {
	_, name, _ := strings.Cut(e.Path, "/systemd/system/")
	isOfUnit := name == unit || strings.HasPrefix(name, unit+".d/")

	return isOfUnit && !e.Old.Equal(e.New)
}
