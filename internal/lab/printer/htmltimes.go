package printer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/machine/report"
)

type htmlTimes struct {
	First time.Time
	Whole time.Duration
	Axis  []string
	Rows  []htmlTime    // stages and steps in the order in which they began, each with the longest of its parts
	Blame []report.Span // everything, the longest first
}

type htmlTime struct {
	report.Span
	Class string // chain, part
}

// minBar is the least width of a bar in percent: a shorter one would not be visible.
const minBar = 0.4

func bootTimes(st report.Status) *htmlTimes {
	first, last := st.Extent()
	out := &htmlTimes{
		First: first,
		Whole: max(last.Sub(first), time.Microsecond),
		Blame: st.Blame(),
	}
	for i := range 5 {
		out.Axis = append(out.Axis, htmlTook(out.Whole*time.Duration(i)/4))
	}

	chain := st.CriticalChain()
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
		isLink := func(l report.Link) bool { return l.Span == span }
		i := slices.IndexFunc(chain, isLink)
		if i < 0 {
			out.Rows = append(out.Rows, htmlTime{Span: span})
			continue
		}
		out.Rows = append(out.Rows, htmlTime{span, "chain"})
		for _, part := range chain[i].Parts {
			out.Rows = append(out.Rows, htmlTime{part, "part"})
		}
	}

	return out
}

// Left returns where the bar of a span begins.
func (t htmlTimes) Left(span report.Span) string { return fmt.Sprintf("%.2f%%", t.left(span)) }

func (t htmlTimes) left(span report.Span) float64 {
	return min(100*float64(span.Start.Sub(t.First))/float64(t.Whole), 100-minBar)
}

// Width returns how long the bar of a span is.
func (t htmlTimes) Width(span report.Span) string {
	width := max(100*float64(span.Took())/float64(t.Whole), minBar)

	return fmt.Sprintf("%.2f%%", min(width, 100-t.left(span)))
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
