// Package nearest finds the word that a misspelt one was probably meant as, for the next step of a message.
package nearest

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Word returns the known word with the fewest differences from another, the first of several; "" if none is near: two
// differences are allowed, and in short words one for each two letters.
func Word(word string, known []string) string {
	if word == "" {
		return ""
	}

	best := ""
	least := 3
	for _, k := range known {
		distance := levenshtein.Distance(strings.ToLower(word), strings.ToLower(k), nil)
		if distance < least && distance <= (len(k)+1)/2 {
			best = k
			least = distance
		}
	}

	return best
}
