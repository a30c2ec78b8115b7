package printer

import (
	"fmt"
	"io"
	"text/template"
	"time"

	"github.com/prelet/prelet/internal/report"
)

// BlameText writes what took time in a run, the longest first.
func BlameText(w io.Writer, st report.Status, s Style) error {
	return s.render(w, "blame", st, template.FuncMap{"took": formatTook})
}

// ChainText writes the critical chain of a run: when each link began, how long it took, and what in it.
func ChainText(w io.Writer, st report.Status, s Style) error {
	data := struct {
		report.Status
		First, Last time.Time
	}{Status: st}
	data.First, data.Last = st.Extent()

	return s.render(w, "chain", data, template.FuncMap{
		"branch": func(n, of int) string {
			if n == of-1 {
				return "└ "
			}
			return "├ "
		},
		"stamp": func(t time.Time) string { return t.Local().Format(time.DateTime) },
		"took":  formatTook,
	})
}

// formatTook returns a duration in milliseconds, from ten seconds on in seconds.
func formatTook(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}

	return fmt.Sprintf("%.3fs", d.Seconds())
}

type analysisDocument struct {
	FormatVersion int           `json:"format_version"`
	BootID        string        `json:"boot_id"`
	State         string        `json:"state"`
	Problem       string        `json:"problem,omitempty"`
	Start         *time.Time    `json:"start"` // of the first span; null without one
	Micros        int64         `json:"us"`
	Spans         []report.Span `json:"spans,omitempty"`
	Chain         []linkJSON    `json:"chain,omitempty"`
}

type linkJSON struct {
	report.Span
	GapMicros int64         `json:"gap_us"`
	Parts     []report.Span `json:"parts"`
}

// BlameJSON writes what took time as one document of format version 1. problem is why there is nothing.
func BlameJSON(w io.Writer, st report.Status, problem string) error {
	d := newAnalysisDocument(st, problem)
	if problem == "" {
		d.Spans = st.Blame()
	}

	return EncodeJSON(w, d)
}

// ChainJSON writes the critical chain as one document of format version 1. problem is why there is none.
func ChainJSON(w io.Writer, st report.Status, problem string) error {
	d := newAnalysisDocument(st, problem)
	if problem == "" {
		for _, l := range st.CriticalChain() {
			gap := l.Gap.Microseconds()
			d.Chain = append(d.Chain, linkJSON{l.Span, gap, orEmpty(l.Parts)})
		}
	}

	return EncodeJSON(w, d)
}

func newAnalysisDocument(st report.Status, problem string) analysisDocument {
	d := analysisDocument{
		FormatVersion: 1,
		BootID:        st.BootID,
		State:         st.State,
		Problem:       problem,
	}
	if first, last := st.Extent(); problem == "" {
		d.Start = &first
		d.Micros = last.Sub(first).Microseconds()
	}

	return d
}
