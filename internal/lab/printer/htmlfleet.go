package printer

import (
	"cmp"
	"io"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/model/secret"
)

// htmlEffect is a change of some groups: one cell for each of the first groups, nil for one without the change.
type htmlEffect struct {
	Kind, Name string
	Cells      []*compare.NodeChange
}

// maxEffects and maxColumns bound the matrix: the largest groups are first.
const (
	maxEffects = 400
	maxColumns = 50
)

// FleetHTML writes the page of a fleet's plan.
func FleetHTML(w io.Writer, r *fleet.FleetEffect, redactor *secret.Redactor) error {
	own := slices.Clone(r.Groups)
	for i, g := range own {
		own[i] = r.Own(g)
	}
	columns := own[:min(len(own), maxColumns)]
	matrix := fleetMatrix(columns)
	matrix = matrix[:min(len(matrix), maxEffects)]
	kinds := listKinds(r.Groups)
	data := struct {
		*fleet.FleetEffect
		Kinds   []string // of changes, for the filter
		Columns []fleet.Group
		Matrix  []htmlEffect
		Hidden  int // effects that are not in Matrix
	}{r, kinds, columns, matrix, len(fleetMatrix(own)) - len(matrix)}

	title := "prelet: plan of " + Count(r.Recordings, "machine")
	return htmlStyle(redactor).writePage(w, "fleet.gohtml", title, r.PreletVersion, data, template.FuncMap{
		"counts":   func(g fleet.Group) []string { return countEach(g, kinds) },
		"declared": listDeclared,
		"kinds":    func(g fleet.Group) string { return strings.Join(listKinds([]fleet.Group{g}), " ") },
		"machine":  shortenMachine,
		"own":      r.Own,
		"next":     func(i int) int { return i + 1 },
		"cell":     formatCell,
		"sign":     func(c compare.NodeChange) string { return strings.Replace(signs[c.Action], "-", "−", 1) },
	})
}

// maxCell bounds the value in a cell of the matrix; a pointer over the cell shows all of it.
const maxCell = 24

// formatCell returns the value in a cell of the matrix: the new one, or a removed one. It is empty for a file and for a
// hidden value.
func formatCell(c compare.NodeChange) string {
	if c.Kind == "file" || c.Hidden != "" {
		return ""
	}

	text := []rune(strings.Trim(cmp.Or(c.To, c.From), `"`))
	if len(text) > maxCell {
		text = append(text[:maxCell-1], '…')
	}

	return string(text)
}

// listKinds returns the kinds of all changes, in their order.
func listKinds(groups []fleet.Group) []string {
	return slices.DeleteFunc(compare.Kinds(), func(kind string) bool {
		return !slices.ContainsFunc(groups, func(g fleet.Group) bool { return countKind(g, kind) > 0 })
	})
}

// countEach returns how many changes of each kind a group has; "" for none.
func countEach(g fleet.Group, kinds []string) (counts []string) {
	for _, kind := range kinds {
		counts = append(counts, formatNumber(countKind(g, kind)))
	}

	return counts
}

func countKind(g fleet.Group, kind string) (n int) {
	for _, c := range g.Changes {
		if c.Kind == kind {
			n++
		}
	}

	return n
}

// fleetMatrix returns each effect with the groups that have it.
func fleetMatrix(groups []fleet.Group) (rows []htmlEffect) {
	known := map[[2]string]int{}
	for i, g := range groups {
		for n, c := range g.Changes {
			key := [2]string{c.Kind, c.Name}
			at, isKnown := known[key]
			if !isKnown {
				at = len(rows)
				known[key] = at
				rows = append(rows, htmlEffect{c.Kind, c.Name, make([]*compare.NodeChange, len(groups))})
			}
			rows[at].Cells[i] = &g.Changes[n]
		}
	}
	kinds := compare.Kinds()
	slices.SortStableFunc(rows, func(a, b htmlEffect) int {
		return cmp.Or(
			slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind),
			cmp.Compare(a.Name, b.Name),
		)
	})

	return rows
}

// shortenMachine returns the name of a machine without the folder of its recording.
func shortenMachine(m fleet.Member) string {
	m.Source = shortenPath(m.Source)

	return nameMachine(m)
}
