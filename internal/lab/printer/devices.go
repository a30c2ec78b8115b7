package printer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

// group contains devices of the same model.
type group struct {
	Title, Note string // name; ids and driver
	Rows        [][]string
}

// groupDevices returns the devices of a kind by model. Each group has the same columns.
func groupDevices(f tape.Facts, kind string) (groups []group, err error) {
	rows, err := factRows(f, kind)
	rows = removeEmptyColumns(rows)
	for _, r := range rows {
		isSame := func(g group) bool { return g.Title == r[0] && g.Note == r[1] }
		i := slices.IndexFunc(groups, isSame)
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{Title: r[0], Note: r[1]})
		}
		groups[i].Rows = append(groups[i].Rows, r[2:])
	}
	for i, g := range groups {
		if n := len(g.Rows); n > 1 {
			groups[i].Title = fmt.Sprintf("%d × %s", n, g.Title)
		}
	}

	return groups, err
}

// layoutGroups returns groups as text: a line with their common properties, and one for each device. The columns are
// those of all groups.
func (s Style) layoutGroups(groups []group) string {
	var all [][]string
	for _, g := range groups {
		all = append(all, g.Rows...)
	}
	rows := fold(all, s.Width-4)

	var out strings.Builder
	for _, g := range groups {
		title := s.addNote(s.wrap(g.Title, s.Width-2), nil, s.Width-2, "  ", g.Note)
		out.WriteString(joinLines("  ", "  ", title))
		for _, lines := range rows[:len(g.Rows)] {
			out.WriteString(joinLines("    ", "    ", lines))
		}
		rows = rows[len(g.Rows):]
	}

	return out.String()
}

// addNote returns lines with a dim note behind the last one if there is room, else in a line of its own. paint is for
// the lines, nil for none.
func (s Style) addNote(
	lines []string,
	paint func(string) string,
	width int,
	gap, note string,
) []string {
	last := lines[len(lines)-1]
	for i, l := range lines {
		if paint != nil {
			lines[i] = paint(l)
		}
	}
	if columns(last+gap+note) > width {
		return append(lines, s.dim(note))
	}
	lines[len(lines)-1] += gap + s.dim(note)

	return lines
}

// removeEmptyColumns returns rows without the columns that are empty in all of them.
func removeEmptyColumns(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	if len(rows) == 0 {
		return out
	}
	for column := range rows[0] {
		isEmpty := !slices.ContainsFunc(rows, func(r []string) bool {
			return r[column] != ""
		})
		for i, r := range rows {
			if !isEmpty {
				out[i] = append(out[i], r[column])
			}
		}
	}

	return out
}
