package app

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
)

// Planned is the site over one node.
type Planned struct {
	Plan       *boot.Plan
	Generation int    // the one in place; 0 before the first
	Held       string // why a run would not apply the plan; "" where it would
}

// Plan evaluates the site over the node of w. It writes nothing.
func (e *Env) Plan(ctx context.Context, w Where) (Planned, error) {
	n, found, err := e.Open(w, nil)
	if err != nil {
		return Planned{}, err
	}
	defer n.Close()

	out := Planned{Plan: n.PlanUnless(ctx, found, e.Progress), Generation: n.Generation()}
	if n.Store != nil && out.Plan.Complete {
		out.Held = apply.WhyHeld(n.Store, out.Plan)
	}
	return out, nil
}

// Recordings lists the recordings of a folder, by name; nil where from is not a folder.
func Recordings(from string) ([]string, error) {
	if st, err := os.Stat(from); from == "" || err != nil || !st.IsDir() {
		return nil, nil
	}
	var out []string
	for _, pattern := range []string{"*.prelet", "*.prelet.gz"} {
		m, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return nil, failure(fault.Usage, "--from %s: %s", from, err)
		}
		out = append(out, m...)
	}
	if len(out) == 0 {
		return nil, failure(fault.Usage, "--from %s: there is no recording (*.prelet, *.prelet.gz) in this folder", from)
	}
	slices.Sort(out)
	return out, nil
}
