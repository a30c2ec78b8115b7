package printer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

func columns(t string) int { return utf8.RuneCountInString(t) }

// minLast is the room in columns that a last cell needs next to the others; with less it goes below them.
const minLast = 24

// maxAligned is the width in columns up to which the cells before a last one are aligned.
const maxAligned = 120

// table lays out rows in columns within a width. The last cell of a row is broken at spaces, or goes below the others.
// Rows of more than three cells are folded. Cells are plain text: paint is applied to the lines of each last cell,
// after they were measured.
func (s Style) table(rows [][]string, width int, paint func(string) string) (out []string) {
	rows = s.cleanCells(rows)
	for _, r := range rows {
		if len(r) > 3 {
			return slices.Concat(fold(rows, width)...)
		}
	}
	if paint == nil {
		paint = func(t string) string { return t }
	}

	fit := measureColumns(rows, min(width, maxAligned))
	for _, r := range rows {
		before := ""
		last := r[len(r)-1]
		for i, c := range r[:len(r)-1] {
			before += pad(c, fit[i]) + "  "
		}
		next := strings.Repeat(" ", columns(before))
		room := width - columns(before)
		isBroken := room >= minLast && strings.Contains(last, " ")
		if columns(last) > room && !isBroken {
			out = append(out, strings.TrimRight(before, " "))
			before = "    "
			next = "    "
			room = width - columns(before)
		}
		lines := []string{last}
		if columns(last) > room {
			lines = breakAt(last, room)
		}
		for _, l := range lines {
			if l != "" {
				l = paint(l)
			}
			out = append(out, strings.TrimRight(before+l, " "))
			before = next
		}
	}

	return out
}

func (s Style) cleanCells(rows [][]string) (out [][]string) {
	for _, r := range rows {
		var cells []string
		for _, c := range r {
			cells = append(cells, s.cell(c))
		}
		out = append(out, cells)
	}

	return out
}

// measureColumns returns the widths of the columns before the last one. A cell that leaves no room for the last one is
// ignored: its row continues below.
func measureColumns(rows [][]string, width int) (out []int) {
	room := 0
	for _, r := range rows {
		room = max(room, min(columns(r[len(r)-1]), minLast))
	}
	for _, r := range rows {
		before := 0
		for i, c := range r[:len(r)-1] {
			if i >= len(out) {
				out = append(out, 0)
			}
			before += columns(c) + 2
			if before+room <= width {
				out[i] = max(out[i], columns(c))
			}
		}
	}

	return out
}

// fold lays out rows of many cells: each on one line if all fit, else each on two. It returns the lines of each row.
func fold(rows [][]string, width int) (out [][]string) {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i >= len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(c))
		}
	}

	fitting := 0
	used := -2
	for _, w := range widths {
		if used += w + 2; used > width {
			break
		}
		fitting++
	}
	for _, r := range rows {
		n := min(fitting, len(r))
		lines := []string{joinCells(r[:n], widths)}
		if rest := joinCells(r[n:], widths[n:]); rest != "" {
			lines = append(lines, "    "+rest)
		}
		out = append(out, lines)
	}

	return out
}

func joinCells(cells []string, widths []int) string {
	line := ""
	for i, c := range cells {
		line += pad(c, widths[i]) + "  "
	}

	return strings.TrimRight(line, " ")
}
