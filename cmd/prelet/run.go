package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
)

// lockWait is how long a command waits for another prelet.
const lockWait = 30 * time.Second

func (a *app) run() *cobra.Command {
	var w where
	c := &cobra.Command{Use: "run", GroupID: "node", Args: cobra.NoArgs, Short: "Do all of it: gather, decide, write, and make sure that the kubelet came up",
		Long: "What the unit calls at boot. With --root, files are written below a folder and no unit is touched.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if err := w.check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return a.runRoot(ctx, w, asJSON)
		}}
	w.nodeFlags(c)
	return c
}

// runRoot writes below a root where no unit runs.
func (a *app) runRoot(ctx context.Context, w where, asJSON bool) error {
	store, err := a.lock(ctx, w)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := store.Recover(); err != nil {
		return a.storeFailure(err)
	}
	n, diags, err := a.open(w, store)
	if err != nil {
		return err
	}
	defer n.close()
	p := &boot.Plan{Site: n.site, Diagnostics: diags}
	if !diags.HasErrors() {
		p = n.plan(ctx, a.progress())
		p.Diagnostics = append(diags, p.Diagnostics...)
	}
	r := runResult{FormatVersion: 1, PlanHash: p.Hash, Degraded: p.Degraded}
	if !p.Diagnostics.HasErrors() && !p.Complete {
		return failure(origin.Internal, "the plan is not complete")
	}
	if p.Complete {
		gen, changed, err := apply.ToDisk(ctx, n.applyOptions(p))
		if err != nil {
			return a.storeFailure(err)
		}
		r.Generation, r.Changed = gen, changed
	}
	return a.endRun(n, p, r, asJSON)
}

type runResult struct {
	FormatVersion int                  `json:"format_version"`
	PlanHash      string               `json:"plan_hash"`
	Generation    int                  `json:"generation"`
	Changed       bool                 `json:"changed"`
	Verdict       string               `json:"verdict,omitempty"`
	Exit          int                  `json:"exit"`
	Degraded      []boot.Degraded      `json:"degraded"`
	Diagnostics   []present.Diagnostic `json:"diagnostics"`
}

func (a *app) endRun(n *node, p *boot.Plan, r runResult, asJSON bool) error {
	r.Exit = max(r.Exit, origin.Exit(p.Diagnostics))
	r.Diagnostics = present.DiagnosticsJSON(present.Sorted(p.Diagnostics))
	if r.Degraded == nil {
		r.Degraded = []boot.Degraded{}
	}
	if asJSON {
		if err := a.print(func(o io.Writer) error {
			e := json.NewEncoder(o)
			e.SetEscapeHTML(false)
			return e.Encode(r)
		}); err != nil {
			return err
		}
		return exit(r.Exit)
	}
	a.say(n.site, present.Sorted(withoutNotes(p.Diagnostics)))
	if r.Exit == 0 {
		what := fmt.Sprintf("No changes. Generation %d is in place.", r.Generation)
		if r.Changed {
			what = fmt.Sprintf("Generation %d is in place.", r.Generation)
		}
		fmt.Fprintln(a.stdout, what)
	}
	return exit(r.Exit)
}

// withoutNotes leaves notes to plan: a run at boot tells what matters.
func withoutNotes(ds hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range ds {
		if !origin.IsNote(d) {
			out = append(out, d)
		}
	}
	return out
}

// lock opens the generations for writing.
func (a *app) lock(ctx context.Context, w where) (*generation.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	s, err := generation.Open(ctx, generation.Options{Root: w.root, Dir: w.stateDir(), BootID: live.BootID(a.getenv)})
	if err != nil {
		return nil, a.storeFailure(err)
	}
	return s, nil
}

// storeFailure is an error of apply with its exit status.
func (a *app) storeFailure(err error) error {
	var coded interface{ ExitCode() int }
	var secret *apply.SecretError
	switch {
	case errors.As(err, &secret):
		return failure(origin.CredentialMissing, "%s", err)
	case errors.As(err, &coded):
		return exitError{coded.ExitCode(), err.Error()}
	}
	return failure(origin.Internal, "%s", err)
}

func (n *node) applyOptions(p *boot.Plan) apply.Options {
	return apply.Options{Store: n.store, Plan: p, Recording: recording(p, header(n.where)), Secret: n.live.Secret, Owner: apply.Owners(n.root)}
}
