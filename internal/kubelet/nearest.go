package kubelet

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the known word that is most similar to a misspelt one: with at most one change per four letters. It
// returns "" if there is none, and the first of equally similar words.
func Nearest(word string, known []string) string {
	best := ""
	bestDistance := (len(word)+3)/4 + 1
	word = strings.ToLower(word)
	for _, k := range known {
		if d := levenshtein.Distance(word, strings.ToLower(k), nil); d < bestDistance {
			best = k
			bestDistance = d
		}
	}

	return best
}
