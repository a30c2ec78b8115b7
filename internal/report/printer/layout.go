package present

import (
	"strings"
	"unicode/utf8"
)

func columns(t string) int { return utf8.RuneCountInString(t) }

// leastRest is how many columns a last cell needs to be broken beside the others instead of below them.
const leastRest = 24

// table lays rows out in columns, none wider than a line. The last cell of a row is broken at spaces, or goes below the
// others; rows of many cells that have no room beside each other are folded into two lines each. Cells are plain text:
// paint sees each last cell's lines, after they were measured.
func (s Style) table(rows [][]string, width int, paint func(string) string) []string {
	rows = s.cells(rows)
	many := 0
	for _, r := range rows {
		many = max(many, len(r))
	}
	if many > 3 {
		return folded(rows, width)
	}
	fit := widths(rows, width)
	var out []string
	for _, r := range rows {
		var b strings.Builder
		for i, c := range r[:len(r)-1] {
			b.WriteString(pad(c, fit[i]) + "  ")
		}
		before, last := b.String(), r[len(r)-1]
		rest := width - columns(before)
		switch {
		case columns(last) <= rest:
			out = append(out, trimmed(before, last, paint))
		case rest >= leastRest && strings.Contains(last, " "):
			for n, l := range breakAt(last, rest) {
				if n > 0 {
					before = strings.Repeat(" ", columns(before))
				}
				out = append(out, trimmed(before, l, paint))
			}
		default:
			out = append(out, strings.TrimRight(before, " "))
			for _, l := range breakAt(last, width-4) {
				out = append(out, trimmed("    ", l, paint))
			}
		}
	}
	return out
}

func (s Style) cells(rows [][]string) (out [][]string) {
	for _, r := range rows {
		var cells []string
		for _, c := range r {
			cells = append(cells, s.cell(c))
		}
		out = append(out, cells)
	}
	return out
}

func trimmed(before, last string, paint func(string) string) string {
	if last == "" {
		return strings.TrimRight(before, " ")
	}
	if paint != nil {
		last = paint(last)
	}
	return before + last
}

// widths are those of the columns before the last one. A cell that leaves no room for a last one does not count: its row
// goes on below.
func widths(rows [][]string, width int) []int {
	room := 0
	for _, r := range rows {
		room = max(room, min(columns(r[len(r)-1]), leastRest))
	}
	var out []int
	for _, r := range rows {
		before := 0
		for i, c := range r[:len(r)-1] {
			if i >= len(out) {
				out = append(out, 0)
			}
			if before += columns(c) + 2; before+room <= width {
				out[i] = max(out[i], columns(c))
			}
		}
	}
	return out
}

// folded lays rows of many cells out: on one line each if all fit, else each on two.
func folded(rows [][]string, width int) []string {
	var all []int
	for _, r := range rows {
		for i, c := range r {
			if i >= len(all) {
				all = append(all, 0)
			}
			all[i] = max(all[i], columns(c))
		}
	}
	sum, cut := -2, len(all)
	for i, w := range all {
		if sum += w + 2; sum > width {
			cut = i
			break
		}
	}
	line := func(indent string, cells []string, w []int) string {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range cells {
			b.WriteString(pad(c, w[i]) + "  ")
		}
		return strings.TrimRight(b.String(), " ")
	}
	var out []string
	for _, r := range rows {
		n := min(cut, len(r))
		out = append(out, line("", r[:n], all))
		if rest := line("    ", r[n:], all[n:]); rest != "" {
			out = append(out, rest)
		}
	}
	return out
}
