package app

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/prelet/prelet/internal/report"
)

// Analysis is what took time in the last run of this boot.
type Analysis struct {
	*report.Status
	Problem string // why there is nothing to analyze; "" where there is
}

// Analyze reads the report of the last run of this boot, or of the last one of a node below a root, whose boot is not
// known.
func (e *Env) Analyze(ctx context.Context, root string) (Analysis, error) {
	h, err := e.hostOf(ctx, root, false)
	if err != nil {
		return Analysis{}, err
	}
	defer h.Units.Close()
	if h.isBelow() {
		h.BootID = ""
	}

	s, err := h.loadReport()
	if errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Join(string(h.RunRoot), h.RunDir)
		err = errors.New("prelet has not run in this boot: " + dir + " has no report. A run with --root writes none")
	}

	return analyzeStatus(s, err, h.BootID), nil
}

// analyzeStatus returns the analysis of a status that was read with an error, or of no boot in particular for "".
func analyzeStatus(s *report.Status, err error, boot string) Analysis {
	out := Analysis{Status: s}
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
	if s == nil {
		out.Status = emptyStatus()
	}

	return out
}
