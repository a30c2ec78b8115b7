package printer

import (
	"html"
	"io"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/fleet"
)

// TestChangeIsTheSameInAllViews: each view of a fleet and of an upgrade has the same line of a change and the lines of
// its diff, also on a terminal.
func TestChangeIsTheSameInAllViews(t *testing.T) {
	changes := []compare.NodeChange{
		{Kind: "taint", Name: "gpu:NoSchedule", Action: "create", To: "yes"},
		{Kind: "file", Name: "/etc/a.conf", Action: "update", Diff: "@@ -1 +1 @@\n-old\n+new\n"},
	}
	r := &fleet.FleetEffect{Groups: []fleet.Group{{Count: 1, State: fleet.Changed, Changes: changes}}}
	u := fleet.NewUpgrade("", "", 36)
	for _, c := range changes {
		u.Effects = append(u.Effects, fleet.Upgraded{
			UpgradedItem: fleet.UpgradedItem{Effect: fleet.Changes, Change: c},
			Counts:       make([]int, len(u.Versions)),
		})
		u.Effects[len(u.Effects)-1].Counts[0] = 1
	}

	style := Style{Colour: true, Width: 100}
	for name, write := range map[string]func(w io.Writer) error{
		"fleet":             func(w io.Writer) error { return FleetText(w, FleetView{r, FleetGroups}, style) },
		"fleet, Markdown":   func(w io.Writer) error { return FleetMarkdown(w, FleetView{r, FleetGroups}, style) },
		"fleet, page":       func(w io.Writer) error { return FleetHTML(w, r, htmlRedactor()) },
		"upgrade":           func(w io.Writer) error { return UpgradeText(w, u, style) },
		"upgrade, Markdown": func(w io.Writer) error { return UpgradeMarkdown(w, u, style) },
		"upgrade, page":     func(w io.Writer) error { return UpgradeHTML(w, u, htmlRedactor()) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		got := strings.ReplaceAll(html.UnescapeString(b.String()), "\\", "")
		for _, want := range []string{"+ taint gpu=yes:NoSchedule", "~ file /etc/a.conf", "-old", "+new"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got\n%s\nwant it to contain %s", name, got, want)
			}
		}
		if strings.Contains(name, "Markdown") && strings.Contains(got, "x1b") {
			t.Errorf("%s: got\n%s\nwant no colours", name, got)
		}
	}
}

// TestUpgradeWithoutPlan: each view of an upgrade names a machine that has no plan, and the reason.
func TestUpgradeWithoutPlan(t *testing.T) {
	u := fleet.NewUpgrade("", "", 36)
	for _, source := range []string{"rack1.prelet", "rack2.prelet"} {
		u.Failed = append(u.Failed, fleet.Member{Source: source, Reason: "the file is cut off"})
	}

	for name, write := range map[string]func(w io.Writer) error{
		"text":     func(w io.Writer) error { return UpgradeText(w, u, Style{Width: 100}) },
		"Markdown": func(w io.Writer) error { return UpgradeMarkdown(w, u, Style{Width: 100}) },
		"page":     func(w io.Writer) error { return UpgradeHTML(w, u, htmlRedactor()) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		for _, want := range []string{"2 nodes", "rack1.prelet", "the file is cut off"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: got\n%s\nwant it to contain %s", name, b.String(), want)
			}
		}
	}
}
