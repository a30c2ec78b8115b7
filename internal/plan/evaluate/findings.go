package evaluate

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

// StageReport is the state of one stage: "running", or its outcome.
type StageReport struct {
	Address string        `json:"address"`
	State   string        `json:"state"`
	Took    time.Duration `json:"-"`
}

// Findings are the messages of a step, in addition to its value.
type Findings struct {
	origin.Collector

	Stages []StageReport
}

// join returns these findings followed by more. It changes neither.
func (f Findings) join(more Findings) Findings {
	return Findings{
		Collector: origin.Collector{
			Diags:    slices.Concat(f.Diags, more.Diags),
			Degraded: slices.Concat(f.Degraded, more.Degraded),
		},
		Stages: slices.Concat(f.Stages, more.Stages),
	}
}

// add adds the findings of another step after these.
func (f *Findings) add(more Findings) {
	*f = f.join(more)
}

func newFindings(ds ...*hcl.Diagnostic) (found Findings) {
	found.Report(ds...)

	return found
}

// degradeFor adds a reason for each warning of a gather stage that reports missing data, or an identity that the
// cluster refuses. An absent detector is a warning, and not an error, unless the site requires it; also on a node that
// runs no detectors at all.
func (f *Findings) degradeFor(ds hcl.Diagnostics) {
	for _, d := range ds {
		if d.Severity != hcl.DiagWarning || origin.IsNote(d) {
			continue
		}
		switch c := origin.CodeOf(d); c {
		case fault.DetectorDegraded, fault.HardwareDegraded, fault.Stale, fault.Identity:
			f.Degrade(c, d.Summary)
		}
	}
}

// degradeForConditions adds a reason for each condition of the Node that will not be True.
func (f *Findings) degradeForConditions(ds hcl.Diagnostics) {
	for _, d := range ds {
		if c := origin.CodeOf(d); c == fault.NodeCondition {
			f.Degrade(c, d.Summary+": "+d.Detail)
		}
	}
}

// makeWarnings returns copies of diagnostics that do not stop the boot.
func makeWarnings(ds hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range ds {
		out = append(out, origin.MakeWarning(d))
	}

	return out
}
