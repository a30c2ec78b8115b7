package printer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/report"
)

// htmlTimes is the timeline of a run.
type htmlTimes struct {
	Took   safe
	Axis   []string
	Rows   []htmlTime // stages and steps in the order in which they began, each with the longest of its parts
	Blame  []htmlTime // everything, the longest first
	Chain  []safe     // the names that the end of the run waited for
	Hidden int        // parts that are in Blame only
}

// htmlTime is a span as a bar. Left and Width are percentages of the whole.
type htmlTime struct {
	Class            string // chain, part
	Kind, Name, Took safe
	At               safe
	Left, Width      string
}

// minBar is the least width of a bar in percent: a shorter one would not be visible.
const minBar = 0.4

// bootTimes returns the timeline of a run.
func (s Style) bootTimes(st report.Status) *htmlTimes {
	first, last := st.Extent()
	whole := max(last.Sub(first), time.Microsecond)
	bar := func(span report.Span, class string) htmlTime {
		left := min(100*float64(span.Start.Sub(first))/float64(whole), 100-minBar)
		width := max(100*float64(span.Took())/float64(whole), minBar)

		return htmlTime{
			Class: class,
			Kind:  s.safe(span.Kind),
			Name:  s.safe(span.Name),
			Took:  s.safe(htmlTook(span.Took())),
			At:    s.safe(htmlTook(span.Start.Sub(first))),
			Left:  fmt.Sprintf("%.2f%%", left),
			Width: fmt.Sprintf("%.2f%%", min(width, 100-left)),
		}
	}

	out := &htmlTimes{Took: s.safe(htmlTook(whole))}
	for i := range 5 {
		out.Axis = append(out.Axis, htmlTook(whole*time.Duration(i)/4))
	}

	chain := st.CriticalChain()
	for _, l := range chain {
		out.Chain = append(out.Chain, s.safe(l.Name))
	}
	spans := slices.SortedStableFunc(slices.Values(st.Spans), func(a, b report.Span) int {
		return cmp.Or(
			a.Start.Compare(b.Start),
			cmp.Compare(b.Micros, a.Micros),
		)
	})
	for _, span := range spans {
		if span.Kind != report.KindStage && span.Kind != report.KindStep {
			continue
		}
		class := ""
		var parts []report.Span
		isLink := func(l report.Link) bool { return l.Span == span }
		if i := slices.IndexFunc(chain, isLink); i >= 0 {
			class = "chain"
			parts = chain[i].Parts
		}
		out.Rows = append(out.Rows, bar(span, class))
		for _, part := range parts {
			out.Rows = append(out.Rows, bar(part, "part"))
		}
	}
	for _, span := range st.Blame() {
		out.Blame = append(out.Blame, bar(span, ""))
	}
	out.Hidden = len(out.Blame) - len(out.Rows)

	return out
}

// htmlTook returns a duration for a page, with three digits.
func htmlTook(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond || d == 0:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}

	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
