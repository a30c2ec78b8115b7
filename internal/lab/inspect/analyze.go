package inspect

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
)

// Analysis has the times of the last run of this boot: the document of `analyze -o json`.
type Analysis struct {
	FormatVersion int           `json:"format_version"`
	BootID        string        `json:"boot_id"`
	State         string        `json:"state"`
	Problem       string        `json:"problem,omitempty"` // why there is nothing to analyze; "" where there is
	Start         *time.Time    `json:"start"`             // of the first span; null without one
	Micros        int64         `json:"us"`                // from there to the end of the last one
	Spans         []report.Span `json:"spans,omitempty"`   // the longest first
	Chain         []report.Link `json:"chain,omitempty"`

	status *report.Status
}

// Analyze reads the report of the last run of this boot, or of the last one of a node below a root, whose boot is not
// known.
func Analyze(ctx context.Context, e *machine.Env, root string) (Analysis, error) {
	h, err := e.HostOf(root, false)
	if err != nil {
		return Analysis{}, err
	}
	defer h.Units.Close()
	if h.IsBelow() {
		h.BootID = ""
	}

	s, err := h.LoadReport()
	if errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Join(string(h.RunRoot), h.RunDir)
		err = errors.New("prelet has not run in this boot: " + dir + " has no report. A run with --root writes none")
	}

	return analyzeStatus(s, err, h.BootID), nil
}

// analyzeStatus returns the analysis of a status that was read with an error, or of no boot in particular for "".
func analyzeStatus(s *report.Status, err error, boot string) Analysis {
	out := Analysis{FormatVersion: 1, status: cmp.Or(s, emptyStatus())}
	switch {
	case err != nil:
		out.Problem = err.Error()
	case boot != "" && s.BootID != boot:
		out.Problem = "prelet has not run in this boot; its last report is of an earlier one"
	case s.State == report.Running:
		out.Problem = "the run of this boot has not ended: prelet status --wait waits for it"
	case len(s.Spans) == 0:
		out.Problem = "the report of the last run has no times: prelet " + s.Version + " wrote it"
	}
	out.BootID = out.status.BootID
	out.State = out.status.State
	if out.Problem == "" {
		first, last := s.Extent()
		out.Start = &first
		out.Micros = last.Sub(first).Microseconds()
		out.Spans = s.Blame()
		out.Chain = s.CriticalChain()
	}

	return out
}
