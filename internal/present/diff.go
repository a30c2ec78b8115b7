package present

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// maxDiffLines bounds the texts that are compared line by line: the table of the algorithm grows with their product.
const maxDiffLines = 2000

// unified is the difference of two texts, line by line, with two lines around each change. Texts that are too long
// to compare are shown as replaced whole.
func unified(old, new string) string {
	a, b := lines(old), lines(new)
	if len(a) > maxDiffLines || len(b) > maxDiffLines {
		return "(too long to compare)\n"
	}
	ops := compare(a, b)
	var out strings.Builder
	const around = 2
	keep := make([]bool, len(ops))
	for i, o := range ops {
		if o.sign == ' ' {
			continue
		}
		for j := max(0, i-around); j <= min(len(ops)-1, i+around); j++ {
			keep[j] = true
		}
	}
	gap := false
	for i, o := range ops {
		if !keep[i] {
			gap = true
			continue
		}
		if gap && out.Len() > 0 {
			out.WriteString(" …\n")
		}
		gap = false
		out.WriteByte(o.sign)
		out.WriteString(o.text)
		out.WriteByte('\n')
	}
	return out.String()
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

type op struct {
	sign byte
	text string
}

// compare finds a longest common subsequence.
func compare(a, b []string) []op {
	n := make([][]int, len(a)+1)
	for i := range n {
		n[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				n[i][j] = n[i+1][j+1] + 1
			} else {
				n[i][j] = max(n[i+1][j], n[i][j+1])
			}
		}
	}
	var out []op
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, op{' ', a[i]})
			i++
			j++
		case i < len(a) && (j == len(b) || n[i+1][j] >= n[i][j+1]):
			out = append(out, op{'-', a[i]})
			i++
		default:
			out = append(out, op{'+', b[j]})
			j++
		}
	}
	return out
}
