package kubelet

import "strings"

// Nearest returns the known word that a misspelt one most likely means, or "" when none is near: the same but for
// case, or at most one change for every four letters. Of equally near ones the first in the list.
func Nearest(word string, known []string) string {
	best, bestDistance := "", len(word)/4+1
	for _, k := range known {
		if strings.EqualFold(word, k) {
			return k
		}
		if d := editDistance(word, k, bestDistance); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance is Levenshtein's, counting two neighbours that changed places as one change (the most frequent
// slip of a keyboard); it gives limit back for everything from limit on.
func editDistance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff >= limit || -diff >= limit {
		return limit
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return min(prev[len(b)], limit)
}
