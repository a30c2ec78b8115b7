package printer

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// unified returns the hunks of a unified diff, without the lines that name the files; "" for equal texts.
func unified(before, after string) string {
	const header = 3 // "diff", "---" and "+++"

	text := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	parts := strings.SplitAfterN(text, "\n", header+1)
	return parts[len(parts)-1]
}

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
