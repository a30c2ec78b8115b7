package printer

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/model/kubelet"
)

// FleetDetail is how much of a fleet's report is printed.
type FleetDetail int

// The details.
const (
	FleetGroups  FleetDetail = iota // each group with its changes
	FleetNames                      // and with the names of its machines
	FleetSummary                    // one line for each group
)

// FleetView is a report with how much of it is printed.
type FleetView struct {
	*fleet.FleetEffect
	Detail FleetDetail
}

// HasNames reports whether the names of machines are printed.
func (v FleetView) HasNames() bool { return v.Detail == FleetNames }

// IsSummary reports whether a group is one line.
func (v FleetView) IsSummary() bool { return v.Detail == FleetSummary }

// Document returns the report as JSON. Without FleetNames it has only the names of machines that failed.
func (v FleetView) Document() *fleet.FleetEffect {
	if v.HasNames() {
		return v.FleetEffect
	}

	return v.WithoutNames()
}

// FleetText writes a report for people: the groups, and the sum of all machines.
func FleetText(w io.Writer, v FleetView, s Style) error {
	return s.renderFleet(w, "fleet", v)
}

// FleetMarkdown writes a report for a merge request: a table of the groups, and the changes of each in a part that is
// folded at first.
func FleetMarkdown(w io.Writer, v FleetView, s Style) error {
	s.Colour = false

	return s.renderFleet(w, "fleet.md", v)
}

func (s Style) renderFleet(w io.Writer, name string, v FleetView) error {
	return s.render(w, name, v, template.FuncMap{
		"changes":    s.listChanges,
		"hasCommon":  func(v FleetView) bool { return len(v.Common.Changes) > 0 },
		"own":        func(v FleetView, g fleet.Group) fleet.Group { return v.Own(g) },
		"code":       s.code,
		"declared":   listDeclared,
		"change":     s.describeChange,
		"escape":     s.escape,
		"escapeHTML": s.escapeHTML,
		"fence":      s.fence,
		"hasNames":   FleetView.HasNames,
		"heading":    func() string { return declaredHeading },
		"isSummary":  FleetView.IsSummary,
		"kindWidth":  kindWidth,
		"machines":   listMachines,
		"more":       describeMore,
		"name":       nameMachine,
		"lines":      splitLines,
		"title":      s.listTitle,
		"severity":   func(word string) string { return "  " + s.paintOf(word)(word+":") + " " },
	})
}

// listTitle returns the lines of a group's title, with an example where no other line follows.
func (s Style) listTitle(v FleetView, g fleet.Group) ([]string, error) {
	title, err := part("head", g)
	if err == nil && v.IsSummary() {
		var example string
		example, err = part("example", g)
		title = joinParts(", ", title, example)
	}

	return s.wrap(title, s.Width), err
}

const declaredHeading = "Not all nodes would declare these features (status.declaredFeatures), by which pods are placed"

// listDeclared returns the features that some nodes would declare and others would not, with how many do.
func listDeclared(r *fleet.FleetEffect) (rows [][]string) {
	for _, f := range r.Declares.Features {
		if f.Nodes == r.Declares.Nodes {
			continue
		}
		count := ofCount(f.Nodes, r.Declares.Nodes)
		if f.ByRuntime {
			count += ", if their runtime supports it"
		}
		rows = append(rows, []string{f.Name, count})
	}

	return rows
}

// countedChanges returns the changes that a heading counts or names: without the kubelet's files whose difference is
// other changes, unless nothing else changes.
func countedChanges(changes []compare.NodeChange) []compare.NodeChange {
	isListed := func(c compare.NodeChange) bool { return c.Listed }
	if counted := slices.DeleteFunc(slices.Clone(changes), isListed); len(counted) > 0 {
		return counted
	}

	return changes
}

// nameTaint writes a taint that comes or goes as a plan does: KEY=VALUE:EFFECT.
func nameTaint(c compare.NodeChange) compare.NodeChange {
	if key, effect, _ := strings.Cut(c.Name, ":"); c.Kind == "taint" && c.Action != "update" && c.Hidden == "" {
		c.Name = kubelet.Taint{Key: key, Value: strings.Trim(c.From+c.To, `"`), Effect: effect}.String()
		c.From, c.To = "", ""
	}

	return c
}

func listErrors(g fleet.Group) (codes []string) {
	for _, m := range g.Messages {
		if m.Severity == "error" {
			codes = append(codes, m.Code)
		}
	}

	return codes
}

// countKinds returns how many items of each kind change, in the order of the changes.
func countKinds(changes []compare.NodeChange) string {
	count := map[string]int{}
	var order []string
	for _, c := range changes {
		if count[c.Kind] == 0 {
			order = append(order, c.Kind)
		}
		count[c.Kind]++
	}

	var parts []string
	for _, kind := range order {
		word := map[string]string{"config": "configuration field", "activation": "restart policy"}[kind]
		parts = append(parts, countOf(count[kind], cmp.Or(word, kind)))
	}

	return strings.Join(parts, ", ")
}

func countOf(n int, word string) string {
	if n != 1 && strings.HasSuffix(word, "y") {
		word = strings.TrimSuffix(word, "y") + "ie"
	}

	return Count(n, word)
}

// kindWidth returns the width of a column with the kinds of a group's changes.
func kindWidth(g fleet.Group) (width int) {
	for _, c := range g.Changes {
		width = max(width, len(c.Kind))
	}

	return width
}

// describeMore returns how many changes are beyond a limit; "" if none are.
func describeMore(changes []compare.NodeChange, limit int) string {
	if len(changes) <= limit {
		return ""
	}

	return fmt.Sprintf("… and %s (-o json has all)", Count(len(changes)-limit, "change"))
}

var signs = map[string]string{
	"create":  "+",
	"delete":  "-",
	"keep":    "=",
	"none":    " ",
	"release": "=",
	"restore": "<",
	"unknown": "?",
	"update":  "~",
}

func ofCount(n, all int) string {
	switch {
	case n == all && all == 1:
		return "it"
	case n == all:
		return "all " + fmt.Sprint(all)
	}

	return fmt.Sprintf("%d of %d", n, all)
}

// maxSameFailures is how many machines that failed for the same reason are named without FleetNames.
const maxSameFailures = 10

// listMachines returns the names of a group, and the reason of each that failed. Of many that failed for one reason it
// returns the first ones, unless all names are asked for.
func listMachines(g fleet.Group, all bool) (out []string) {
	same := map[string]int{}
	hidden := 0
	for _, m := range g.Machines {
		same[m.Reason]++
		name := nameMachine(m)
		switch {
		case m.Reason == "":
			out = append(out, name)
		case same[m.Reason] > maxSameFailures && !all:
			hidden++
		case same[m.Reason] > 1:
			out = append(out, name+": the same")
		case strings.Contains(m.Reason, m.Source):
			out = append(out, m.Reason)
		default:
			out = append(out, name+": "+m.Reason)
		}
	}
	if hidden > 0 {
		out = append(out, fmt.Sprintf("… and %d more for the same reason (--names lists them)", hidden))
	}

	return out
}

// nameMachine returns the recording of a machine, and its node name unless the recording has it.
func nameMachine(m fleet.Member) string {
	if m.Node == "" || strings.HasPrefix(path.Base(m.Source), m.Node+".") {
		return m.Source
	}

	return joinParts(" ", m.Source, "("+m.Node+")")
}
