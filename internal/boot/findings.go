package boot

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
)

// Degraded is one thing that is not as the site wants it, although the boot goes on.
type Degraded struct {
	Code    fault.Code `json:"code"`
	Summary string     `json:"summary"`
}

// StageReport is how one stage went.
type StageReport struct {
	Address string        `json:"address"`
	State   string        `json:"state"`
	Took    time.Duration `json:"-"`
}

// Findings are what a step returns in addition to its value.
type Findings struct {
	Diags    hcl.Diagnostics
	Degraded []Degraded
	Stages   []StageReport
	Unknown  unknowns
}

// join returns these findings followed by more. It changes neither.
func (f Findings) join(more Findings) Findings {
	return Findings{
		Diags:    slices.Concat(f.Diags, more.Diags),
		Degraded: slices.Concat(f.Degraded, more.Degraded),
		Stages:   slices.Concat(f.Stages, more.Stages),
		Unknown:  f.Unknown.join(more.Unknown),
	}
}

// joinInOrder joins the findings of stages, by address, in an order that does not depend on which ran first.
func joinInOrder(order []*site.Instance, by map[string]Findings) (out Findings) {
	for _, i := range order {
		if f, ok := by[i.Addr()]; ok {
			out = out.join(f)
		}
	}

	return out
}

// report adds diagnostics.
func (f *Findings) report(ds ...*hcl.Diagnostic) { f.Diags = append(f.Diags, ds...) }

// degrade adds a reason for a degraded boot.
func (f *Findings) degrade(c fault.Code, summary string) {
	f.Degraded = append(f.Degraded, Degraded{c, summary})
}

// degradeFor adds a reason for each warning of a gather stage which means that something is missing.
func (f *Findings) degradeFor(ds hcl.Diagnostics) {
	for _, d := range ds {
		switch c := origin.CodeOf(d); {
		case d.Severity != hcl.DiagWarning, origin.IsNote(d):
		case c == fault.DetectorDegraded, c == fault.HardwareDegraded, c == fault.Stale:
			f.degrade(c, d.Summary)
		}
	}
}
