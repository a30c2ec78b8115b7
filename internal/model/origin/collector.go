package origin

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
)

// Collector collects the findings of one step, in their order. The zero value has none.
type Collector struct {
	Diags    hcl.Diagnostics
	Degraded []fault.Reason // for a degraded boot
}

func (c *Collector) Report(ds ...*hcl.Diagnostic) {
	c.Diags = append(c.Diags, ds...)
}

// Degrade adds a reason for a degraded boot.
func (c *Collector) Degrade(code fault.Code, summary string) {
	c.Degraded = append(c.Degraded, fault.Reason{Code: code, Summary: summary})
}

// Error adds the result of the function Error.
func (c *Collector) Error(code fault.Code, at hcl.Range, summary, detail string, args ...any) {
	c.Report(Error(code, at, summary, detail, args...))
}

// Warn adds what Warning returns.
func (c *Collector) Warn(code fault.Code, at hcl.Range, summary, detail string, args ...any) {
	c.Report(Warning(code, at, summary, detail, args...))
}

// Note adds the result of the function Note.
func (c *Collector) Note(code fault.Code, at hcl.Range, summary, detail string, args ...any) {
	c.Report(Note(code, at, summary, detail, args...))
}
