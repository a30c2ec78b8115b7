package kubelet

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the known word that a misspelt one most likely means, or "" if none is near: at most one change for
// each four letters or part of them. Of equally near words it returns the first in the list.
func Nearest(word string, known []string) string {
	best, bestDistance := "", (len(word)+3)/4+1
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(k), nil); d < bestDistance {
			best, bestDistance = k, d
		}
	}

	return best
}
