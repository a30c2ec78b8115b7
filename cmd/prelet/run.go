package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
)

func (a *cli) run() *cobra.Command {
	var w where
	var retry bool
	c := &cobra.Command{Use: "run", GroupID: "node", Args: noArgument, Short: "Do all of it: gather, decide, write, see the kubelet come up",
		Long: "What the unit calls at boot. By hand it leaves a request, starts prelet-apply.service, which has the credentials and\n" +
			"outlives a session, and shows how that ends; with --config it works in this process. With --root, files are written\n" +
			"below a folder and no unit is touched.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			ctx, stop := writing(c.Context())
			defer stop()
			r, err := a.env().Run(ctx, app.RunOptions{Where: w.Where, Retry: retry, Request: w.request("run", retry)})
			if err != nil {
				return err
			}
			return a.endRun(r, asJSON)
		}}
	w.nodeFlags(c)
	c.Flags().BoolVar(&retry, "retry", false, "try a held plan again, and let go of a generation that was chosen by hand")
	return c
}

// stoppable is a context that SIGTERM, Ctrl-C and the end of a session end; the last not under nohup.
func stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx == nil {
		ctx = context.Background()
	}
	ends := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, ends...)
}

// writing is stoppable for what writes the node's files: who reads its output and goes away must not end it in the middle.
func writing(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	return stoppable(ctx)
}

// request is the command line that prelet-apply.service runs in our place.
func (w *where) request(command string, retry bool) []string {
	args := []string{command}
	if retry {
		args = append(args, "--retry")
	}
	for _, v := range w.Variables {
		args = append(args, "--var", v)
	}
	if w.output != "" {
		args = append(args, "-o", w.output)
	}
	return args
}

// runResult is what `run -o json` prints.
type runResult struct {
	FormatVersion int                  `json:"format_version"`
	Complete      bool                 `json:"complete"`
	PlanHash      string               `json:"plan_hash"`
	Generation    int                  `json:"generation"`
	Changed       bool                 `json:"changed"`
	Verdict       string               `json:"verdict,omitempty"`
	Why           string               `json:"why,omitempty"`
	Checks        []activate.Check     `json:"checks,omitempty"`
	Cause         *activate.Cause      `json:"cause,omitempty"`     // of the verdict, by the kubelet's own word
	Held          string               `json:"held,omitempty"`      // why the site's plan is not applied
	HeldBack      string               `json:"held_back,omitempty"` // why the kubelet may not start
	Exit          int                  `json:"exit"`
	Summary       string               `json:"summary"`
	Degraded      []boot.Degraded      `json:"degraded"`
	Diagnostics   []present.Diagnostic `json:"diagnostics"`
}

func (a *cli) endRun(run app.Ran, asJSON bool) error {
	if run.Reply != nil {
		return a.replied(run.Reply)
	}
	res, out := run.Result, run.Outcome
	var diags hcl.Diagnostics
	r := runResult{FormatVersion: 1, Generation: out.Generation, Changed: res.Changed, Verdict: string(out.Verdict), Why: out.Why, Checks: out.Checks, Cause: out.Cause,
		Held: res.Held, HeldBack: out.HeldBack, Exit: res.Code.Exit(), Summary: res.Summary, Degraded: append([]boot.Degraded{}, run.Degraded...)}
	if p := res.Plan; p != nil {
		r.Complete, r.PlanHash, diags = p.Complete, p.Hash, present.Sorted(p.Diagnostics)
	}
	placed := apply.Diagnose(res.Plan, res.Err)
	if placed != nil {
		r.Complete, diags = false, append(diags, placed)
	}
	var told hcl.Diagnostics // of an error that is about no line of the site
	if placed == nil {
		told = apply.Explain(res.Err)
		diags = append(diags, told...)
	}
	r.Diagnostics = present.DiagnosticsJSON(diags)
	if asJSON {
		if err := a.printJSON(r); err != nil {
			return err
		}
		return quit(res.Code)
	}
	if len(diags) > 0 {
		a.say(run.Site, withoutNotes(diags))
	}
	if res.Err != nil && placed == nil && told == nil {
		a.complain(res.Err.Error())
	}
	if s := upper(afterReason(res)); s != "" {
		to := a.stdout
		if res.Code != "" {
			to = a.stderr
		}
		fmt.Fprintln(to, a.redact(s)+".")
	}
	if res.Held != "" {
		fmt.Fprintln(a.stdout, a.redact(upper(res.Held))+".")
	}
	if out.HeldBack != "" {
		a.complain("the kubelet may not start: " + out.HeldBack)
	}
	return quit(res.Code)
}

// afterReason is the summary without what the messages above it have said already.
func afterReason(res apply.Result) string {
	said := res.Reason
	if res.Err != nil && res.Summary == res.Err.Error() {
		said = res.Summary
	}
	if rest, ok := strings.CutPrefix(res.Summary, said); said != "" && ok {
		return strings.TrimPrefix(rest, "; ")
	}
	return res.Summary
}

// upper makes a sentence of what stands behind a colon elsewhere.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// complain says on stderr what went wrong.
func (a *cli) complain(s string) { fmt.Fprintln(a.stderr, "prelet:", a.redact(s)) }

func (a *cli) printJSON(v any) error {
	return a.print(func(o io.Writer) error {
		e := json.NewEncoder(o)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	})
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
