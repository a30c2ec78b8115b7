package printer

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	html "github.com/DataDog/datadog-agent/pkg/template/html"
	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/insight/fleet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/value"
)

// upgradeHeadings has the heading of each effect of a newer kubelet.
var upgradeHeadings = map[rules.Effect]string{
	rules.Exits:      "The kubelet would not start",
	fleet.Fails:      "There would be no plan",
	fleet.MayExit:    "The kubelet may not start",
	fleet.Skews:      "Not supported with this API server",
	rules.Ends:       "A later kubelet would not start",
	rules.Ignores:    "Silently ignored",
	rules.Differs:    "Means something else",
	rules.Places:     "Other pods would be placed",
	fleet.Changes:    "Changes on the node",
	fleet.Gates:      "Feature gates that a version turns on or off",
	rules.Deprecated: "Deprecated",
}

// UpgradeText writes what newer kubelets do differently for people.
func UpgradeText(w io.Writer, u *fleet.Upgrade, s Style) error {
	return s.renderUpgrade(w, "upgrade", u)
}

// UpgradeMarkdown writes it for a merge request: a table of effects and versions, and the reasons in parts that are
// folded at first.
func UpgradeMarkdown(w io.Writer, u *fleet.Upgrade, s Style) error {
	return s.renderUpgrade(w, "upgrade.md", u)
}

func (s Style) renderUpgrade(w io.Writer, name string, u *fleet.Upgrade) error {
	return s.render(w, name, newUpgradeView(u), template.FuncMap{
		"code":       s.code,
		"escape":     s.escape,
		"escapeHTML": s.escapeHTML,
		"name":       nameMachine,
	})
}

// UpgradeHTML writes a page with a table of effects and versions.
func UpgradeHTML(w io.Writer, u *fleet.Upgrade, redactor *value.Redactor) error {
	title := "prelet: upgrade of " + Count(u.Machines, "node") + " to " + describeVersion(u.To)
	more := html.FuncMap{"describe": describeVersion, "name": shortenMachine}

	return htmlStyle(redactor).writePage(w, "upgrade.gohtml", title, u.PreletVersion, newUpgradeView(u), more)
}

// upgradeView is a report as all formats show it.
type upgradeView struct {
	*fleet.Upgrade
	Heading  string // 12 nodes: from 1.35 (2 nodes), 1.36 (10 nodes) to 1.37
	Groups   []upgradeGroup
	Failures []unplanned
	IsEqual  bool // nothing changes on the nodes
}

// upgradeGroup is the effects of one kind.
type upgradeGroup struct {
	Heading string
	Rows    []upgradeRow
}

// upgradeRow is an effect: its message, or a change with its values, and the versions with the numbers of machines.
type upgradeRow struct {
	fleet.Upgraded
	Name, Values, At, Nodes string
}

// unplanned is how many machines have no plan for one reason, and the first of them.
type unplanned struct {
	fleet.Machine
	Machines int
}

// newUpgradeView groups effects by kind, and machines without a plan by reason. Feature gates that are on or off since
// the same version are one row.
func newUpgradeView(u *fleet.Upgrade) (v upgradeView) {
	v.Upgrade = u
	v.IsEqual = !u.ChangesNodes() && len(u.Failed) == 0
	v.Heading = Count(u.Machines, "node") + ":"
	for i, version := range slices.Sorted(maps.Keys(u.From)) {
		word := ", "
		if i == 0 {
			word = " from "
		}
		v.Heading += fmt.Sprintf("%s%s (%s)", word, describeVersion(version), Count(u.From[version], "node"))
	}
	v.Heading += " to " + describeVersion(u.To)

	for _, effect := range fleet.UpgradeEffects() {
		g := upgradeGroup{Heading: upgradeHeadings[effect]}
		for _, r := range u.Effects {
			if r.Effect != effect {
				continue
			}
			row := upgradeRow{Upgraded: r, Name: r.Message.Summary, At: r.Place.String(), Nodes: describeVersions(u, r)}
			if row.Name == "" {
				row.Name = r.Change.Kind + " " + r.Change.Name
				row.Values, _ = part("values", r.Change) // cannot fail: it has only texts
			}
			i := slices.IndexFunc(g.Rows, func(other upgradeRow) bool {
				return effect == fleet.Gates && other.Nodes == row.Nodes && other.Values == row.Values
			})
			if i < 0 {
				g.Rows = append(g.Rows, row)
			} else {
				g.Rows[i].Name += ", " + r.Change.Name
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
			v.Failures = append(v.Failures, unplanned{Machine: m})
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
