package printer

import (
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/internal/report/fleet"
)

// FleetMarkdown writes a report for a merge request: a table of the groups, and the changes of each in a part that is
// folded at first.
func FleetMarkdown(w io.Writer, r *fleet.Report, detail FleetDetail, s Style) error {
	b := page{Style: s}
	b.writeLine("### prelet: " + sumFleet(r))
	b.writeLine("")
	if r.Against != "" {
		b.writeLine("Compared with the site " + b.code(r.Against) + ".")
		b.writeLine("")
	}
	for _, a := range r.Assumed {
		b.writeLine("- assumed: " + b.escape(describeFleetAssumed(a)))
	}
	if len(r.Assumed) > 0 {
		b.writeLine("")
	}
	b.writeLine("| nodes | effect | for example |")
	b.writeLine("|---:|---|---|")
	for _, g := range r.Groups {
		example := ""
		if len(g.Machines) > 0 && g.Machines[0].Source != "" {
			example = b.code(g.Machines[0].Source)
		}
		effect := strings.TrimPrefix(headGroup(g), Count(g.Count, "node")+": ")
		b.writeLine(fmt.Sprintf("| %d | %s | %s |", g.Count, b.escape(effect), example))
	}
	if rows := listDeclared(r); len(rows) > 0 {
		b.writeLine("")
		b.writeLine(declaredHeading + ":")
		b.writeLine("")
		for _, row := range rows {
			b.writeLine("- " + b.code(row[0]) + ": " + row[1])
		}
	}
	for _, g := range r.Groups {
		b.writeGroupMarkdown(g, detail)
	}

	return b.flush(w)
}

// writeGroupMarkdown writes the changes, messages and names of a group.
func (b *page) writeGroupMarkdown(g fleet.Group, detail FleetDetail) {
	hasNames := detail == FleetNames || g.State == fleet.Failed
	isEmpty := len(g.Changes) == 0 && !hasNames
	if detail == FleetSummary && g.State != fleet.Failed || isEmpty {
		return
	}

	b.writeLine("")
	b.writeLine("<details><summary>" + b.escapeHTML(headGroup(g)) + "</summary>")
	b.writeLine("")
	if len(g.Changes) > 0 {
		b.writeFence(listChanges(g))
	}
	for _, m := range g.Messages {
		summary := b.escape(m.Summary + " [" + m.Code + "]")
		b.writeLine(fmt.Sprintf("- %s: %s %s", m.Severity, summary, b.code(m.Place)))
	}
	for _, note := range noteGroup(g) {
		b.writeLine("- " + b.escape(note))
	}
	if hasNames {
		b.writeLine("")
		for _, m := range g.Machines {
			line := b.code(nameMachine(m)) + " " + b.escape(m.Reason)
			b.writeLine("- " + strings.TrimSuffix(line, " "))
		}
	}
	b.writeLine("")
	b.writeLine("</details>")
}

// listChanges returns the changes of a group as the lines of a diff.
func listChanges(g fleet.Group) (lines []string) {
	for _, c := range g.Changes {
		head := c.Kind + " " + c.Name
		if c.Kind == "file" {
			lines = append(lines, "  "+head+describeValues(c))
			if !c.Listed {
				lines = append(lines, splitLines(c.Diff)...)
			}
			continue
		}
		if c.From != "" {
			lines = append(lines, "- "+head+" = "+c.From)
		}
		if c.To != "" {
			lines = append(lines, "+ "+head+" = "+c.To)
		}
	}
	if hidden := len(lines) - maxMarkdownLines; hidden > 0 {
		lines = append(lines[:maxMarkdownLines], fmt.Sprintf("  … and %s (-o json has all)", Count(hidden, "line")))
	}

	return lines
}

// maxMarkdownLines bounds the lines of one group: a comment of a merge request has a limit.
const maxMarkdownLines = 200

// writeFence writes lines as a block of code whose fence is longer than any in the lines.
func (b *page) writeFence(lines []string) {
	fence := "```"
	for _, l := range lines {
		for strings.Contains(l, fence) {
			fence += "`"
		}
	}
	b.writeLine(fence + "diff")
	for _, l := range lines {
		b.writeLine(b.cell(l))
	}
	b.writeLine(fence)
}

// code returns a text as code, "" for "".
func (b *page) code(text string) string {
	if text == "" {
		return ""
	}
	text = strings.NewReplacer("`", "'", "|", "\\|").Replace(b.cell(text))

	return "`" + text + "`"
}

// escape returns a text without a meaning for Markdown and HTML.
func (b *page) escape(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]",
		"<", "&lt;", ">", "&gt;", "&", "&amp;", "#", "\\#", "@", unmention,
	).Replace(b.cell(text))
}

// escapeHTML returns a text for a block of HTML in Markdown, where signs of Markdown have no meaning.
func (b *page) escapeHTML(text string) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;", "@", unmention).Replace(b.cell(text))
}

// unmention is an @ that is not a mention: a comment of HTML follows, which is not shown.
const unmention = "@<!-- -->"
