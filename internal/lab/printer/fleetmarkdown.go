package printer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/lab/fleet"
)

// listChanges returns the changes of a group as the lines of a diff.
func (s Style) listChanges(g fleet.Group) (lines []string, err error) {
	for _, c := range g.Changes {
		head, diff, failed := s.listLines(kindWidth(g), maxMarkdownLines, c)
		lines = slices.Concat(lines, head, diff)
		err = cmp.Or(err, failed)
	}
	if hidden := len(lines) - maxMarkdownLines; hidden > 0 {
		lines = append(lines[:maxMarkdownLines], fmt.Sprintf("  … and %s (-o json has all)", Count(hidden, "line")))
	}

	return lines, err
}

// maxMarkdownLines bounds the lines of one group: a comment of a merge request has a limit.
const maxMarkdownLines = 200

// fence returns lines as a block of code, with a fence that is in none of them.
func (s Style) fence(lines []string) string {
	fence := "```"
	for _, l := range lines {
		for strings.Contains(l, fence) {
			fence += "`"
		}
	}

	text := fence + "diff\n"
	for _, l := range lines {
		text += s.cell(l) + "\n"
	}

	return text + fence + "\n"
}

// code returns a text as code, "" for "".
func (s Style) code(text string) string {
	if text == "" {
		return ""
	}
	text = strings.NewReplacer("`", "'", "|", "\\|").Replace(s.cell(text))

	return "`" + text + "`"
}

// escape returns a text without a meaning for Markdown and HTML.
func (s Style) escape(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]",
		"<", "&lt;", ">", "&gt;", "&", "&amp;", "#", "\\#", "@", unmention,
	).Replace(s.cell(text))
}

// escapeHTML returns a text for a block of HTML in Markdown, where signs of Markdown have no meaning.
func (s Style) escapeHTML(text string) string {
	return strings.NewReplacer(
		"<",
		"&lt;",
		">",
		"&gt;",
		"&",
		"&amp;",
		"@",
		unmention,
	).Replace(s.cell(text))
}

// unmention is an @ that is not a mention: a comment of HTML follows, which is not shown.
const unmention = "@<!-- -->"
