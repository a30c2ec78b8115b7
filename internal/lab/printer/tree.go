package printer

import "strings"

// branches returns the lines of a tree before the first line of an entry, and before its other lines. depths are those
// of all entries, in order.
func branches(depths []int, entry int) (first, next string) {
	depth := depths[entry]
	for d := range depth {
		if hasSibling(depths[entry+1:], d) {
			first += "│ "
		} else {
			first += "  "
		}
	}

	if hasSibling(depths[entry+1:], depth) {
		return first + "├ ", first + "│ "
	}

	return first + "└ ", first + "  "
}

// hasSibling reports whether an entry of a depth follows before the tree goes up.
func hasSibling(following []int, depth int) bool {
	for _, d := range following {
		if d <= depth {
			return d == depth
		}
	}

	return false
}

func joinParts(separator string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}

	return strings.Join(out, separator)
}
