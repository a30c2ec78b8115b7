package printer

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/report/fleet"
)

// fleetPage is the page of a fleet's plan.
type fleetPage struct {
	Lead     safe
	Head     []htmlRow
	Tiles    []htmlTile
	Assumed  []safe
	Declares []safe   // the declared features of only some nodes
	Kinds    []string // of changes, for the filter
	Groups   []htmlGroup
	Columns  []htmlGroup  // of Matrix: the first groups
	Matrix   []htmlEffect // one row for each effect, one cell for each column
	Hidden   int          // effects that are not in Matrix
	Machines []htmlMachine
}

// htmlTile is a number with its meaning.
type htmlTile struct {
	Class, Name string
	Count       int
}

// htmlGroup is the machines with equal effect.
type htmlGroup struct {
	Number   int
	State    fleet.State
	Count    int
	Heading  safe
	Kinds    string // of its changes, separated by spaces
	Changes  []htmlChange
	Messages []htmlMessage
	Notes    []safe
	First    safe // a machine of the group
}

// htmlChange is a change with its values.
type htmlChange struct {
	Action, Sign, Kind string
	Name, Values       safe
	Lines              []htmlLine
}

// htmlEffect is a change of some groups.
type htmlEffect struct {
	Kind  string
	Name  safe
	Cells []htmlCell
}

// htmlCell is the part of an effect that a group has; none without a sign.
type htmlCell struct {
	Group        int
	Action, Sign string
	Text         safe
}

// htmlMachine is a machine with the number of changes of each kind in fleetPage.Kinds.
type htmlMachine struct {
	Group  int
	State  fleet.State
	Name   safe
	Reason safe
	Counts []string
}

// maxEffects and maxColumns bound the matrix: the largest groups are first.
const (
	maxEffects = 400
	maxColumns = 50
)

// FleetHTML writes the page of a fleet's plan.
func FleetHTML(w io.Writer, r *fleet.Report, redactor *value.Redactor) error {
	s := htmlStyle(redactor)
	page := fleetPage{
		Lead:   s.safe(upperFirst(sumFleet(r)) + "."),
		Head:   s.htmlRows(fleetHead(r)),
		Tiles:  fleetTiles(r),
		Kinds:  listKinds(r),
		Matrix: s.fleetMatrix(r.Groups[:min(len(r.Groups), maxColumns)]),
	}
	page.Matrix = page.Matrix[:min(len(page.Matrix), maxEffects)]
	page.Hidden = countEffects(r.Groups) - len(page.Matrix)
	for _, a := range r.Assumed {
		page.Assumed = append(page.Assumed, s.safe("Assumed: "+describeFleetAssumed(a)+"."))
	}
	for _, row := range listDeclared(r) {
		page.Declares = append(page.Declares, s.safe(row[0]+": "+row[1]))
	}
	for i, g := range r.Groups {
		page.Groups = append(page.Groups, s.htmlGroup(i+1, g))
		page.Machines = append(page.Machines, s.htmlMachines(i+1, g, page.Kinds)...)
	}
	page.Columns = page.Groups[:min(len(page.Groups), maxColumns)]

	return writeHTML(w, "fleet.gohtml", htmlPage{
		Title:   "prelet: plan of " + s.safe(Count(r.Recordings, "machine")),
		Version: s.safe(r.PreletVersion),
		Body:    page,
	})
}

func fleetHead(r *fleet.Report) [][]string {
	rows := [][]string{
		{"compared with", cmp.Or(r.Against, "the disks of the machines")},
		{"site", cmp.Or(r.Site, "the one in each recording")},
	}
	if r.AgainstSite != "" {
		rows = append(rows, []string{"compared site", r.AgainstSite})
	}

	return rows
}

func fleetTiles(r *fleet.Report) []htmlTile {
	tiles := []htmlTile{
		{"changed", "would change", r.Changed},
		{"unchanged", "no change", r.Unchanged},
		{"unknown", "not complete", r.Incomplete},
		{"degraded", "degraded", r.Degraded},
		{"failed", "failed", r.Failed},
	}
	for i, t := range tiles {
		if t.Count == 0 {
			tiles[i].Class = "zero"
		}
	}

	return append([]htmlTile{{"", "recordings", r.Recordings}}, tiles...)
}

// changeKinds are the kinds of changes, in the order in which they are shown.
var changeKinds = []string{"label", "taint", "flag", "config", "file", "activation", "diagnostic"}

// listKinds returns the kinds of all changes, in their order.
func listKinds(r *fleet.Report) (kinds []string) {
	for _, kind := range changeKinds {
		isKind := func(c fleet.Change) bool { return c.Kind == kind }
		hasKind := func(g fleet.Group) bool { return slices.ContainsFunc(g.Changes, isKind) }
		if slices.ContainsFunc(r.Groups, hasKind) {
			kinds = append(kinds, kind)
		}
	}

	return kinds
}

// countEffects returns how many effects some groups have together.
func countEffects(groups []fleet.Group) int {
	known := map[[2]string]bool{}
	for _, g := range groups {
		for _, c := range g.Changes {
			known[[2]string{c.Kind, c.Name}] = true
		}
	}

	return len(known)
}

// fleetMatrix returns each effect with the groups that have it.
func (s Style) fleetMatrix(groups []fleet.Group) (rows []htmlEffect) {
	known := map[[2]string]int{}
	for i, g := range groups {
		for _, c := range g.Changes {
			key := [2]string{c.Kind, c.Name}
			at, isKnown := known[key]
			if !isKnown {
				at = len(rows)
				known[key] = at
				rows = append(rows, htmlEffect{
					Kind:  c.Kind,
					Name:  s.safe(c.Name),
					Cells: emptyCells(len(groups)),
				})
			}
			cell := &rows[at].Cells[i]
			cell.Action = c.Action
			cell.Sign = signOfChange(c)
			cell.Text = s.safe(describeFleetChange(c))
		}
	}
	slices.SortStableFunc(rows, func(a, b htmlEffect) int {
		return cmp.Or(
			slices.Index(changeKinds, a.Kind)-slices.Index(changeKinds, b.Kind),
			cmp.Compare(a.Name, b.Name),
		)
	})

	return rows
}

func emptyCells(n int) []htmlCell {
	out := make([]htmlCell, n)
	for i := range out {
		out[i].Group = i + 1
	}

	return out
}

func (s Style) htmlGroup(number int, g fleet.Group) htmlGroup {
	out := htmlGroup{
		Number:  number,
		State:   g.State,
		Count:   g.Count,
		Heading: s.safe(headGroup(g)),
		Notes:   s.safeAll(noteGroup(g)),
	}
	if len(g.Machines) > 0 {
		out.First = s.safe(shortenMachine(g.Machines[0]))
	}

	var kinds []string
	for _, c := range g.Changes {
		change := htmlChange{
			Action: c.Action,
			Sign:   signOfChange(c),
			Kind:   c.Kind,
			Name:   s.safe(c.Name),
			Values: s.safe(describeValues(c)),
		}
		if !c.Listed {
			change.Lines = s.htmlLines(s.clean(c.Diff))
		}
		out.Changes = append(out.Changes, change)
		kinds = append(kinds, c.Kind)
	}
	out.Kinds = strings.Join(slices.Compact(kinds), " ")
	for _, m := range g.Messages {
		out.Messages = append(out.Messages, htmlMessage{
			Severity: m.Severity,
			Code:     s.safe(m.Code),
			Summary:  s.safe(m.Summary),
			Place:    s.safe(m.Place),
		})
	}

	return out
}

func (s Style) htmlMachines(group int, g fleet.Group, kinds []string) (out []htmlMachine) {
	var counts []string
	for _, kind := range kinds {
		n := 0
		for _, c := range g.Changes {
			if c.Kind == kind {
				n++
			}
		}
		counts = append(counts, formatNumber(n))
	}
	for _, m := range g.Machines {
		out = append(out, htmlMachine{
			Group:  group,
			State:  g.State,
			Name:   s.safe(cmp.Or(shortenMachine(m), "This node")),
			Reason: s.safe(m.Reason),
			Counts: counts,
		})
	}

	return out
}

// shortenMachine returns the name of a machine without the folder of its recording.
func shortenMachine(m fleet.Machine) string {
	m.Source = shortenPath(m.Source)

	return nameMachine(m)
}
