package boot

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
)

// Degraded is one thing that is not as the site wants it, though the boot goes on.
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

// Findings are what a step says beside its value.
type Findings struct {
	Diags    hcl.Diagnostics
	Degraded []Degraded
	Stages   []StageReport
	Unknown  unknowns
}

// with are these findings and those of what came after.
func (f Findings) join(more Findings) Findings {
	return Findings{
		Diags:    slices.Concat(f.Diags, more.Diags),
		Degraded: slices.Concat(f.Degraded, more.Degraded),
		Stages:   slices.Concat(f.Stages, more.Stages),
		Unknown:  f.Unknown.join(more.Unknown),
	}
}

// inOrder are the findings of several stages, by address, as if one had run after the other in that order.
func joinInOrder(order []*site.Instance, by map[string]Findings) (out Findings) {
	for _, i := range order {
		if f, ok := by[i.Addr()]; ok {
			out = out.join(f)
		}
	}

	return out
}

func (f *Findings) report(ds ...*hcl.Diagnostic) { f.Diags = append(f.Diags, ds...) }

func (f *Findings) degrade(c fault.Code, summary string) {
	f.Degraded = append(f.Degraded, Degraded{c, summary})
}

// degradedBy notes the warnings of gatherers that mean less than the site wants.
func (f *Findings) degradeFor(ds hcl.Diagnostics) {
	for _, d := range ds {
		switch c := origin.CodeOf(d); {
		case d.Severity != hcl.DiagWarning, origin.IsNote(d):
		case c == fault.DetectorDegraded, c == fault.HardwareDegraded, c == fault.Stale:
			f.degrade(c, d.Summary)
		}
	}
}
