package printer

import (
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// FileDiff writes what changes in a file as a unified diff; nothing for equal texts.
func FileDiff(w io.Writer, path string, before, after []byte) error {
	_, err := w.Write(diff.Diff(path, before, path, after))
	return err
}

// splitLines splits a text into lines without their ends; none for "".
func splitLines(s string) []string {
	if s == "" {
		return nil
	}

	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
