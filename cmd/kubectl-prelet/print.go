package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/texts"
)

// document is the output as JSON or YAML.
type document struct {
	FormatVersion int    `json:"format_version"`
	Nodes         []node `json:"nodes"`
}

// print writes the document as JSON or YAML. Characters that control a terminal or change the order of a
// text are escaped, because annotations are written by nodes.
func (o *listFlags) print(w io.Writer, d document) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return err
	}
	shown := []byte(texts.Escape(text.String()))
	if o.output == "yaml" {
		var err error
		if shown, err = yaml.JSONToYAML(shown); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, texts.Escape(string(shown)))

	return err
}

// clean replaces characters that change a terminal's state or the order of a text: annotations are written by nodes.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// rank orders nodes: what needs attention is at the end, where it stays visible on a terminal.
func (n node) rank() int {
	switch {
	case n.isDegraded():
		return 3
	case n.Problem != "":
		return 2
	case n.Report == nil, n.Stale != "":
		return 1
	}

	return 0
}

// sortNodes orders nodes by rank, revision, generation, plan and name.
func sortNodes(nodes []node) {
	slices.SortStableFunc(nodes, func(a, b node) int {
		byReport := 0
		if a.Report != nil && b.Report != nil {
			byReport = cmp.Or(
				cmp.Compare(a.Report.Revision, b.Report.Revision),
				cmp.Compare(a.Report.Generation, b.Report.Generation),
				cmp.Compare(a.Report.Plan, b.Report.Plan),
			)
		}

		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			byReport,
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// keepDegraded returns the nodes that are degraded, and those whose damaged report may hide that.
func keepDegraded(nodes []node) []node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n node) bool {
		return !n.isDegraded() && n.Problem == ""
	})
}

func (n node) codes() (out []string) {
	for _, d := range n.Report.Degraded {
		if !slices.Contains(out, d.Code) {
			out = append(out, d.Code)
		}
	}

	return out
}

// maxCell limits the columns of a table that nodes write: one node must not push the others' columns out of sight. It
// counts bytes, as the printer does.
const maxCell = 40

// shorten cuts a text that is longer than a cell.
func shorten(s string) string {
	text := clean(s)
	if len(text) <= maxCell {
		return text
	}

	return strings.ToValidUTF8(text[:maxCell-len("…")], "") + "…"
}

// printTable prints one line for each node, with the version of its kubelet and the time of its report if isWide.
func printTable(w io.Writer, nodes []node, isWide bool) error {
	table := metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Node"},
		{Name: "Status"},
		{Name: "Generation"},
		{Name: "Plan"},
		{Name: "Revision"},
		{Name: "Degraded"},
		{Name: "Kubelet", Priority: 1}, // only if wide
		{Name: "Changed", Priority: 1},
		{Name: "Site", Priority: 1},
		{Name: "Ring", Priority: 1},
		{Name: "Waits", Priority: 1},
		{Name: "Stale", Priority: 1},
	}}

	for _, n := range nodes {
		generation, plan, revision, degraded, site, ring, waits := "-", "-", "-", "no report", "-", "-", "-"
		stale := "-"
		if n.Stale != "" {
			stale = "yes"
		}
		switch {
		case n.Problem != "":
			degraded = "report is damaged"
		case n.Report != nil:
			generation = strconv.Itoa(n.Report.Generation)
			plan = cmp.Or(clean(shortenHash(n.Report.Plan)), "-")
			revision = cmp.Or(shorten(n.Report.Revision), "-")
			degraded = cmp.Or(shorten(strings.Join(n.codes(), ",")), "-")
			site = cmp.Or(clean(shortenHash(n.Report.Site)), "-")
			ring = cmp.Or(shorten(n.Report.Ring), "-")
			waits = cmp.Or(shorten(n.waits()), "-")
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			clean(n.Name),
			n.Status,
			generation,
			plan,
			revision,
			degraded,
			cmp.Or(clean(n.Kubelet), "-"),
			cmp.Or(n.changed(), "-"),
			site,
			ring,
			waits,
			stale,
		}})
	}

	var text bytes.Buffer // the printer ignores the errors of its writer
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: isWide}).PrintObj(&table, &text); err != nil {
		return err
	}
	_, err := text.WriteTo(w)

	return err
}

// waits returns the reason for which a newer site of the node waits; "" if none does.
func (n node) waits() string {
	reason, _, _ := strings.Cut(n.Report.Waits, ":")

	return reason
}

// changed returns when the report changed; "" if that is not known.
func (n node) changed() string {
	if n.Time == nil {
		return ""
	}

	return n.Time.Local().Format(time.DateTime + " MST")
}

const shownDigits = 12 // of a hash, as prelet history shows it

func shortenHash(hash string) string {
	digits := strings.TrimPrefix(hash, "sha256:")
	return digits[:min(len(digits), shownDigits)]
}

// summarize returns one line about all nodes.
func summarize(nodes []node) string {
	revisions := map[string]int{}
	var silent, damaged, degraded, waiting, stale int
	for _, n := range nodes {
		switch {
		case n.Problem != "":
			damaged++
		case n.Report == nil:
			silent++
		default:
			revisions[n.Report.Revision]++
			if n.Report.Waits != "" {
				waiting++
			}
		}
		if n.isDegraded() {
			degraded++
		}
		if n.Stale != "" {
			stale++
		}
	}

	parts := []string{fmt.Sprintf("nodes: %d", len(nodes)), fmt.Sprintf("degraded: %d", degraded)}
	if silent > 0 {
		parts = append(parts, fmt.Sprintf("without a report: %d", silent))
	}
	if damaged > 0 {
		parts = append(parts, fmt.Sprintf("with a damaged report: %d", damaged))
	}
	if waiting > 0 {
		parts = append(parts, fmt.Sprintf("with a site that waits: %d", waiting))
	}
	if stale > 0 {
		parts = append(parts, fmt.Sprintf("with a stale site: %d", stale))
	}
	for _, revision := range slices.Sorted(maps.Keys(revisions)) {
		if revision != "" {
			parts = append(parts, fmt.Sprintf("revision %s: %d", shorten(revision), revisions[revision]))
		}
	}

	return strings.Join(parts, ", ")
}

func printNode(w io.Writer, n node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, clean(value))
		}
	}

	line("node", n.Name)
	status := n.Status
	if n.Why != "" {
		status += ": " + n.Why
	}
	line("status", status)
	line("kubelet", n.Kubelet)
	line("stale site", n.Stale)

	if n.Report == nil {
		line("report", cmp.Or(n.Problem, "none: the site has no annotations {}, the kubelet may not patch its Node, "+
			"or no run has ended since"))
		line("next", "on the node: prelet status")
		return t.Flush()
	}

	line("generation", strconv.Itoa(n.Report.Generation))
	line("plan", n.Report.Plan)
	line("revision", n.Report.Revision)
	line("site", n.Report.Site)
	line("ring", n.Report.Ring)
	line("waits", n.Report.Waits)
	line("changed", n.changed())

	if !n.isDegraded() {
		line("degraded", "no")
	}
	for _, d := range n.Report.Degraded {
		line("degraded", d.Code+": "+d.Summary)
	}
	for _, code := range n.codes() {
		line("next", "prelet explain code/"+code)
	}
	line("next", "on the node: prelet status, prelet history")

	return t.Flush()
}
