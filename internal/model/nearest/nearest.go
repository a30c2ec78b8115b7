// Package nearest finds the word that a misspelt one was probably meant as, for the next step of a message.
package nearest

import (
	"strings"

	"github.com/agext/levenshtein"
)

// minPrefix is the length of a word that may stand for the only longer word that begins with it.
const minPrefix = 4

// Word returns the known word with the fewest differences from another, of several one that begins with it, else the
// first; "" if none is near: two differences are allowed, and in short words one for each two letters. If none is near,
// a longer word counts that is the only one that begins with it.
func Word(word string, known []string) string {
	if word == "" {
		return ""
	}

	best, longer := "", ""
	least, count := 3, 0
	for _, k := range known {
		isLonger := strings.HasPrefix(k, word)
		distance := levenshtein.Distance(strings.ToLower(word), strings.ToLower(k), nil)
		if isLonger {
			longer = k
			count++
		}
		isNearer := distance < least || distance == least && isLonger && !strings.HasPrefix(best, word)
		if isNearer && distance < 3 && distance <= (len(k)+1)/2 {
			best = k
			least = distance
		}
	}
	if best == "" && count == 1 && len(word) >= minPrefix {
		return longer
	}

	return best
}
