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
	return s.render(w, name, u, template.FuncMap{
		"changes":    (*fleet.Upgrade).ChangesNodes,
		"code":       s.code,
		"describe":   describeVersion,
		"escape":     s.escape,
		"escapeHTML": s.escapeHTML,
		"failures":   groupFailures,
		"from":       describeFrom,
		"groups":     groupUpgraded,
		"name":       nameMachine,
		"nodes":      func(r fleet.Upgraded) string { return describeVersions(u, r) },
		"row":        func(cells ...string) [][]string { return [][]string{cells} },
	})
}

// UpgradeHTML writes a page with a table of effects and versions.
func UpgradeHTML(w io.Writer, u *fleet.Upgrade, redactor *value.Redactor) error {
	title := "prelet: upgrade of " + Count(u.Machines, "node") + " to " + describeVersion(u.To)

	return htmlStyle(redactor).writePage(w, "upgrade.gohtml", title, u.PreletVersion, u, html.FuncMap{
		"changes":  (*fleet.Upgrade).ChangesNodes,
		"count":    Count,
		"describe": describeVersion,
		"failures": groupFailures,
		"from":     describeFrom,
		"groups":   groupUpgraded,
		"name":     shortenMachine,
	})
}

// upgradeGroup is the effects of one kind.
type upgradeGroup struct {
	Heading string
	Rows    []fleet.Upgraded
}

// groupUpgraded returns the effects by kind. Feature gates that are on or off since the same version are one row.
func groupUpgraded(u *fleet.Upgrade) (groups []upgradeGroup) {
	for _, effect := range fleet.UpgradeEffects() {
		g := upgradeGroup{Heading: upgradeHeadings[effect]}
		for _, r := range u.Effects {
			isSame := func(row fleet.Upgraded) bool {
				isEqual := row.Change.Action == r.Change.Action && row.Change.To == r.Change.To
				return effect == fleet.Gates && row.First() == r.First() && isEqual
			}
			if r.Effect != effect {
				continue
			}
			if i := slices.IndexFunc(g.Rows, isSame); i >= 0 {
				g.Rows[i].Change.Name += ", " + r.Change.Name
			} else {
				g.Rows = append(g.Rows, r)
			}
		}
		if len(g.Rows) > 0 {
			groups = append(groups, g)
		}
	}

	return groups
}

// unplanned is how many machines have no plan for one reason, and the first of them.
type unplanned struct {
	fleet.Machine
	Machines int
}

// groupFailures returns the machines without a plan by reason.
func groupFailures(u *fleet.Upgrade) (out []unplanned) {
	for _, m := range u.Failed {
		i := slices.IndexFunc(out, func(g unplanned) bool { return g.Reason == m.Reason })
		if i < 0 {
			i = len(out)
			out = append(out, unplanned{Machine: m})
		}
		out[i].Machines++
	}

	return out
}

// describeFrom returns how many machines have which version: "from 1.35 (2 nodes), 1.36 (1 node) ". It is empty where
// no version is known.
func describeFrom(u *fleet.Upgrade) string {
	var parts []string
	for _, version := range slices.Sorted(maps.Keys(u.From)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", describeVersion(version), Count(u.From[version], "node")))
	}
	if len(parts) == 0 {
		return ""
	}

	return "from " + strings.Join(parts, ", ") + " "
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
	var versions, counted []string
	most := slices.Max(r.Counts)
	isEqual := true
	for i, n := range r.Counts {
		if n == 0 {
			continue
		}
		version := describeVersion(u.Versions[i])
		versions = append(versions, version)
		counted = append(counted, fmt.Sprintf("%s (%s)", version, Count(n, "node")))
		isEqual = isEqual && n == most
	}
	if !isEqual {
		return strings.Join(counted, ", ")
	}

	return fmt.Sprintf("%s (%s)", strings.Join(versions, ", "), Count(most, "node"))
}
