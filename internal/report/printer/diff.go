package present

import (
	"crypto/sha256"
	"encoding/hex"
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

	parts := strings.SplitAfterN(string(diff.Diff("before", []byte(before), "after", []byte(after))), "\n", header+1)
	return parts[len(parts)-1]
}

// lines splits a text into lines without their ends; none for "".
func lines(s string) []string {
	if s == "" {
		return nil
	}

	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
