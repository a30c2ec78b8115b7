package hardware

import (
	_ "embed"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Tables of names. A line is a key, a space and a text, or a comment.
var (
	//go:embed vendors.txt
	vendors string

	//go:embed arm.txt
	armNames string

	//go:embed hypervisors.txt
	hypervisors string
)

// parseTable yields key and text of each line of a table.
func parseTable(table string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(table) {
			key, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if key != "#" && !yield(key, text) {
				return
			}
		}
	}
}

// lookUp returns the text of a key in a table, "" for a key that the table does not have.
func lookUp(table, wanted string) string {
	for key, text := range parseTable(table) {
		if key == wanted {
			return text
		}
	}

	return ""
}

// Vendors returns the names that the vendors of cards have in facts, sorted, each once.
func Vendors() []string {
	names := map[string]bool{}
	for _, name := range parseTable(vendors) {
		names[name] = true
	}

	return slices.Sorted(maps.Keys(names))
}

// vendorPrefixes are the beginnings of names that already contain the vendor: a label "nvidia-<model>" must not
// become "nvidia-nvidia-…".
var vendorPrefixes = map[string][]string{
	"10de": {"NVIDIA "},
	"1002": {"AMD "},
	"1022": {"AMD "},
	"8086": {"Intel(R) ", "Intel "},
	"1da3": {"Habana "},
	"1d0f": {"AWS ", "Amazon "},
}
