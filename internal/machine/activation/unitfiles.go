package activation

import (
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// ListUnitFiles returns the files of a unit with some names, its own and its drop-ins, that the entries of a commit
// change.
func ListUnitFiles(names []string, entries []generation.Entry) []string {
	var changed []string
	for _, e := range entries {
		if !e.Old.Equal(e.New) {
			changed = append(changed, e.Path)
		}
	}

	return unitfile.Select(names, changed)
}
