package printer

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	html "github.com/DataDog/datadog-agent/pkg/template/html"
	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/secret"
)

// UpgradeText writes what newer kubelets do differently for people.
func UpgradeText(w io.Writer, u *fleet.Upgrade, s Style) error {
	return s.render(w, "upgrade", s.newUpgradeView(u), template.FuncMap{"name": nameMachine})
}

// UpgradeMarkdown writes it for a merge request: a table of effects and versions, and the reasons in parts that are
// folded at first.
func UpgradeMarkdown(w io.Writer, u *fleet.Upgrade, s Style) error {
	s.Colour = false

	return s.render(w, "upgrade.md", s.newUpgradeView(u), template.FuncMap{
		"code":       s.code,
		"escape":     s.escape,
		"escapeHTML": s.escapeHTML,
		"name":       nameMachine,
	})
}

// UpgradeHTML writes a page with a table of effects and versions.
func UpgradeHTML(w io.Writer, u *fleet.Upgrade, redactor *secret.Redactor) error {
	s := htmlStyle(redactor)
	view := s.newUpgradeView(u)
	more := html.FuncMap{"describe": describeVersion, "name": shortenMachine}

	return s.writePage(w, "upgrade.gohtml", "prelet: "+view.Heading, u.PreletVersion, view, more)
}

// upgradeView is a report as all formats show it.
type upgradeView struct {
	*fleet.Upgrade
	Heading  string // 12 nodes: from 1.35 (2 nodes), 1.36 (10 nodes) to 1.37
	Groups   []upgradeGroup
	Failures []unplanned
	IsEqual  bool // nothing changes on the nodes
}

type upgradeGroup struct {
	Heading string
	Rows    []upgradeRow
}

// upgradeRow is an effect, its place, and the versions with the numbers of machines.
type upgradeRow struct {
	fleet.Upgraded
	At, Nodes string
}

// unplanned is how many machines have no plan for one reason, and the first of them.
type unplanned struct {
	fleet.Member
	Machines int
}

// newUpgradeView groups effects by kind, and machines without a plan by reason. Feature gates that are on or off since
// the same version are one row.
func (s Style) newUpgradeView(u *fleet.Upgrade) (v upgradeView) {
	v.Upgrade = u
	v.IsEqual = !u.ChangesNodes() && len(u.Failed) == 0
	v.Heading = Count(u.Machines, "node") + ":"
	for i, version := range slices.Sorted(maps.Keys(u.From)) {
		word := ", "
		if i == 0 {
			word = " from "
		}
		v.Heading += word + describeVersion(version)
		if len(u.From) > 1 {
			v.Heading += " (" + Count(u.From[version], "node") + ")"
		}
	}
	v.Heading += " to " + describeVersion(u.To)

	for _, kind := range fleet.UpgradeGroups() {
		g := upgradeGroup{Heading: kind.Heading}
		for _, r := range u.Effects {
			if r.Effect != kind.Effect {
				continue
			}
			row := upgradeRow{Upgraded: r, Nodes: describeVersions(u, r)}
			row.At = joinParts(", ", r.Place.Site, r.Place.ConfigMap, r.Place.File)
			row.Lines = slices.Concat(
				s.colourDiff(maxNewLines, strings.Join(r.Lines, "\n")),
				s.shownDiff(maxNewLines, r.Change),
			)
			i := slices.IndexFunc(g.Rows, func(other upgradeRow) bool {
				other.Change.Name = r.Change.Name
				return r.Effect == fleet.Gates && other.Nodes == row.Nodes && other.Change == r.Change
			})
			if i < 0 {
				g.Rows = append(g.Rows, row)
			} else {
				g.Rows[i].Change.Name += ", " + r.Change.Name
			}
		}
		if len(g.Rows) > 0 {
			v.Groups = append(v.Groups, g)
		}
	}

	for _, m := range u.Failed {
		i := slices.IndexFunc(v.Failures, func(f unplanned) bool { return f.Reason == m.Reason })
		if i < 0 {
			i = len(v.Failures)
			v.Failures = append(v.Failures, unplanned{Member: m})
		}
		v.Failures[i].Machines++
	}

	return v
}

// describeVersion returns a minor version with the release from which it is known, if it is not out yet.
func describeVersion(version string) string {
	minor, _ := known.Minor(version)

	return known.Describe(minor)
}

// describeVersions returns the versions with an effect: "1.36, 1.37", each with the number of machines if that is not
// equal for all. Of a feature gate it is only the version that switches it.
func describeVersions(u *fleet.Upgrade, r fleet.Upgraded) string {
	if r.Effect == fleet.Gates {
		return describeVersion(u.Versions[r.First()])
	}
	var versions []string
	var counts []int
	for i, n := range r.Counts {
		if n > 0 {
			versions = append(versions, describeVersion(u.Versions[i]))
			counts = append(counts, n)
		}
	}
	most := slices.Max(counts)
	if most == slices.Min(counts) {
		return fmt.Sprintf("%s (%s)", strings.Join(versions, ", "), Count(most, "node"))
	}
	for i, n := range counts {
		versions[i] += " (" + Count(n, "node") + ")"
	}

	return strings.Join(versions, ", ")
}
