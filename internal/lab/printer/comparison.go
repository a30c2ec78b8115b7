package printer

import (
	"io"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/secret"
)

const (
	maxDetail   = 100 // characters of a value of an input that are shown, such as the list of all cores
	maxNewLines = 20  // lines of an input's text that are shown
)

// ComparisonText writes what differs between two generations, each with its causes, and below it what changed before.
func ComparisonText(w io.Writer, d compare.Difference, s Style) error {
	return s.render(w, "comparison", d, template.FuncMap{
		"at":         func(path string) string { return s.cell(strings.TrimPrefix(path, ".")) },
		"change":     s.describeChange,
		"detail":     func(v compare.Value) string { return secret.Cut(s.cell(string(v)), maxDetail) },
		"diff":       func(diff string) string { return indentDiff(s.colourDiff(maxNewLines, diff)) },
		"faint":      s.faint,
		"generation": generationTitle,
	})
}

// describeChange returns a change behind its kind, whose column has a width, and up to a limit the lines of its diff.
func (s Style) describeChange(width, limit int, c compare.NodeChange) (string, error) {
	head, diff, err := s.listLines(width, limit, c)

	return joinLines("  ", "  ", head) + indentDiff(diff), err
}

// listLines returns the lines of describeChange, without an indent.
func (s Style) listLines(width, limit int, c compare.NodeChange) (head, diff []string, err error) {
	values, err := part("values", c)
	row := []string{signs[c.Action], pad(c.Kind, width), values}

	return s.table([][]string{row}, s.Width-columns("  "), nil), s.shownDiff(limit, c), err
}

// shownDiff returns the lines of a change's diff, up to a limit; none if other changes are its difference.
func (s Style) shownDiff(limit int, c compare.NodeChange) []string {
	if c.Listed {
		return nil
	}

	return s.colourDiff(limit, c.Diff)
}

func generationTitle(number int, at time.Time) string {
	text := strconv.Itoa(number)
	if at.IsZero() {
		return text
	}

	return text + ", " + at.Local().Format(time.DateTime)
}

// faint returns the lines of a text behind an indent, dim.
func (s Style) faint(indent int, text string) (out []string) {
	for _, l := range s.wrap(text, s.Width-indent) {
		out = append(out, s.dim(l))
	}

	return out
}

// colourDiff returns the lines of a diff, up to a limit.
func (s Style) colourDiff(limit int, diff string) []string {
	lines := splitLines(s.clean(diff))
	for i, l := range lines {
		switch {
		case strings.HasPrefix(l, "+"):
			lines[i] = s.green(l)
		case strings.HasPrefix(l, "-"):
			lines[i] = s.red(l)
		case strings.HasPrefix(l, "@"):
			lines[i] = s.dim(l)
		}
	}
	if len(lines) > limit {
		lines = append(lines[:limit], s.dim("… (-o json has all of it)"))
	}

	return lines
}

func indentDiff(lines []string) string { return joinLines("      ", "      ", lines) }
