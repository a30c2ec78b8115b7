package nodefile

import (
	"fmt"
	"path/filepath"

	"github.com/prelet/prelet/internal/model/texts"
)

// SuggestBeside returns the end of a message about a path that does not exist: the most similar name in its folder, or
// "".
func SuggestBeside(path string) string {
	entries, err := ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}

	meant := texts.Nearest(filepath.Base(path), names)
	if meant == "" {
		return ""
	}

	return fmt.Sprintf("; did you mean %s?", filepath.Join(filepath.Dir(path), meant))
}
