package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/bundle"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/fleets"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
)

// ReportOptions are the node or the recordings of a report.
type ReportOptions struct {
	lab.Request
	Against string // see PlanOptions
}

// Reported is the content of a report: a boot of one node, or the plans of a fleet.
type Reported struct {
	Upgrade *fleet.Upgrade // of newer kubelets; else nil

	// BootView is of one node. The Status is that of the last run; nil for a recording, unless it is in a bundle, and
	// where there is none.
	printer.BootView
	Fleet *fleet.FleetEffect // nil for one node
	Code  fault.Code         // of the plans; "" where every plan has been made
}

// Report plans the node of o or, where o.From is a folder, each recording in it, as Plan does. Of a node it reads the
// report of the last run as well. It writes nothing.
func Report(ctx context.Context, e *machine.Env, o ReportOptions) (Reported, error) {
	var out Reported
	options := fleets.PlanOptions{Request: o.Request, Explains: true}
	if o.Against != "" {
		options.Against = []string{o.Against}
	}
	plans, err := fleets.Plan(ctx, e, options, func(p planning.Planned) error {
		out.View = p.View
		out.Held = p.Held
		return nil
	})
	if err != nil {
		return out, err
	}
	if plans.Code == fault.NoSite && out.Plan != nil {
		return out, lab.RefuseSite(out.Plan.Site, out.Plan.Diagnostics)
	}
	if len(plans.Reports) > 0 {
		out.Fleet = plans.Reports[0]
	}
	out.Code = plans.Code
	if out.Fleet != nil {
		return out, nil
	}
	out.Source = o.From
	out.Now = time.Now()
	out.Machine = cmp.Or(o.Hardware, o.Root)

	found, err := analyzeFrom(ctx, e, o.Request)
	if err != nil {
		return out, err
	}
	out.NoTimes = found.Problem
	if found.status.State != "" {
		out.Status = found.status
	}

	return out, nil
}

// analyzeFrom analyzes the last run of the node of w. A recording has none, and a bundle that of its node.
func analyzeFrom(ctx context.Context, e *machine.Env, w lab.Request) (Analysis, error) {
	switch {
	case w.From == "":
		return Analyze(ctx, e, w.Root)
	case !bundle.IsNamed(w.From):
		err := errors.New("a recording has the answers of a run, not how long they took; a bundle has both")
		return analyzeStatus(nil, err, ""), nil
	}

	s, err := bundle.ReadStatus(w.From)
	if err != nil {
		err = fmt.Errorf("%s: %w", w.From, err)
	}

	return analyzeStatus(s, err, ""), nil
}
