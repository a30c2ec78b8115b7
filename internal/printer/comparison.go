package printer

import (
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/insight/compare"
)

const (
	maxDetail   = 100 // characters of a value of an input that are shown, such as the list of all cores
	maxNewLines = 20  // lines of a text that only one side has that are shown
)

// ComparisonText writes what differs between two generations, and below it why.
func ComparisonText(w io.Writer, d compare.Difference, s Style) error {
	return s.render(w, "comparison", d, template.FuncMap{
		"at":         func(path string) string { return s.cell(strings.TrimPrefix(path, ".")) },
		"detail":     func(v compare.Value) string { return Cut(s.cell(string(v)), maxDetail) },
		"diff":       s.textDiff,
		"faint":      s.faint,
		"generation": generationTitle,
		"isShown": func(d compare.Detail) bool {
			return d.Texts[0] != "" && d.Texts[1] != "" || countLines(d) <= maxNewLines
		},
		"lines": countLines,
	})
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

// textDiff returns a unified diff below its heading.
func (s Style) textDiff(before, after string) string {
	return s.colourDiff(math.MaxInt, compare.Unified(s.clean(before), s.clean(after)))
}

// colourDiff returns the lines of a diff, up to a limit.
func (s Style) colourDiff(limit int, diff string) string {
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

	return joinLines("      ", "      ", lines)
}

func countLines(d compare.Detail) int {
	return len(splitLines(d.Texts[0])) + len(splitLines(d.Texts[1]))
}
