package texts

import (
	"strings"

	"github.com/agext/levenshtein"
)

// minPrefix is the length, in bytes, from which a word may be short for the only longer word that begins with it.
const minPrefix = 4

// Nearest returns the known word with the fewest differences from another. Of several it prefers a word that begins
// with it, then the first. Two differences are allowed, in short words one for each two letters. If no word is near, it
// returns the only known word that begins with it, or "".
func Nearest(word string, known []string) string {
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
