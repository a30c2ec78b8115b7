package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/run"
	"github.com/prelet/prelet/internal/machine/waits"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) run() *cobra.Command {
	var w where
	var retry, isThisMachine, noHold bool
	c := &cobra.Command{
		Use:     "run",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Plan, commit, restart the kubelet and wait for the verdict",
		Long: `At boot, prelet.service calls it.

By hand, it requests a run from prelet-apply.service, and shows how that ends:
the unit has the credentials, and it continues after your session ends.
With --config it runs in this process.
With --root it writes files below a folder and touches no unit.`,
		Example: "  prelet run\n  prelet run --retry\n  prelet run --config ./site --root /mnt/image",
		RunE: stopWriteOnSignal(func(ctx context.Context, _ []string) error {
			collectRarely()
			if err := w.Check(); err != nil {
				return err
			}

			request := w.buildRequest("run", retry)
			if isThisMachine {
				request = append(request, "--"+thisMachineFlag)
			}
			if noHold {
				request = append(request, "--"+noHoldFlag)
			}
			r, err := run.Run(ctx, a.env(), run.RunOptions{
				Where:       w.Where,
				Retry:       retry,
				NoHold:      noHold,
				ThisMachine: isThisMachine,
				Request:     request,
			})
			if err != nil {
				return err
			}
			return a.endRun(r, w.output.isJSON())
		}),
	}
	w.addPlaceFlags(c)
	w.output.addFlag(c, "text", "json")
	c.Flags().BoolVar(&w.Takeover, "takeover", false,
		"join under a name that a Ready node of another machine has")
	c.Flags().BoolVar(&w.AcceptMissing, acceptMissingFlag, false,
		"accept that variables have lost the value of the last good generation (a credential, the kernel command line)")
	c.Flags().BoolVar(&isThisMachine, thisMachineFlag, false,
		"say that the generations and the kubelet's identity on this disk are of this machine")
	c.Flags().BoolVar(&retry, "retry", false,
		"try a held plan again, and release a pinned generation")
	c.Flags().BoolVar(&noHold, noHoldFlag, false,
		"start the kubelet although a hold of the site is true")
	return c
}

// runMemory is the size in bytes at which a run begins to collect garbage, several times that of a boot.
const runMemory = 128 << 20

// collectRarely lets a boot end before its garbage is collected, which would take a fifth of its CPU time. A run that
// waits for its cluster for hours is collected at runMemory.
func collectRarely() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(runMemory)
}

const (
	acceptMissingFlag = "accept-missing-variables"
	thisMachineFlag   = "this-machine"
	noHoldFlag        = "no-hold"
)

type runner func(ctx context.Context, args []string) error

// stopOnSignal runs a command with a context that ends on SIGTERM, SIGINT and SIGHUP. Under nohup, SIGHUP stays
// ignored.
func stopOnSignal(body runner) func(*cobra.Command, []string) error { return watchSignals(body, false) }

// stoppable is stopOnSignal for a part of a command that needs its flags: the context of the command ends meanwhile.
func stoppable(body func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return stopOnSignal(func(ctx context.Context, args []string) error {
			defer c.SetContext(c.Context())
			c.SetContext(ctx)

			return body(c, args)
		})(c, args)
	}
}

// finishOnSignal is stopOnSignal for a command that writes: the write in progress is completed first.
func finishOnSignal(body runner) func(*cobra.Command, []string) error {
	return watchSignals(body, true)
}

func watchSignals(body runner, writes bool) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ends := []os.Signal{syscall.SIGTERM, os.Interrupt}
		if !signal.Ignored(syscall.SIGHUP) {
			ends = append(ends, syscall.SIGHUP)
		}
		ctx, stop := signal.NotifyContext(c.Context(), ends...)
		defer stop()

		watch := waits.Watch{
			Print: func(line string) { fmt.Fprintln(c.ErrOrStderr(), "prelet:", line) },
			Exit:  os.Exit,

			Writes: writes,
		}
		defer watch.Start(ctx)()

		return body(ctx, args)
	}
}

// stopWriteOnSignal is finishOnSignal for a command that writes the node's files. It ignores SIGPIPE: a closed pager
// must not stop a commit.
func stopWriteOnSignal(body runner) func(*cobra.Command, []string) error {
	return finishOnSignal(func(ctx context.Context, args []string) error {
		signal.Ignore(syscall.SIGPIPE)
		return body(ctx, args)
	})
}

// buildRequest returns the command line for prelet-apply.service, which runs it in place of this process.
func (w *where) buildRequest(command string, retry bool) []string {
	args := []string{command}
	if retry {
		args = append(args, "--retry")
	}
	if w.Takeover {
		args = append(args, "--takeover")
	}
	if w.AcceptMissing {
		args = append(args, "--"+acceptMissingFlag)
	}
	for _, v := range w.Variables {
		args = append(args, "--var", v)
	}

	return append(args, "-o", w.output.name)
}

// outcome is the document of `verify -o json`, and part of that of `run -o json`.
type outcome struct {
	FormatVersion int                      `json:"format_version"`
	Generation    int                      `json:"generation"`
	Verdict       activation.Verdict       `json:"verdict"` // good, bad, unknown, pending; "" if nothing was judged
	Why           string                   `json:"why,omitempty"`
	HeldBack      string                   `json:"held_back,omitempty"` // why the kubelet may not start
	Checks        []activation.CheckResult `json:"checks"`
	Cause         *activation.Cause        `json:"cause,omitempty"` // of the verdict, from the kubelet's log
	Exit          int                      `json:"exit"`
	Diagnostics   []printer.Diagnostic     `json:"diagnostics"`
}

func newOutcome(res commit.Result, diags hcl.Diagnostics) outcome {
	return outcome{
		FormatVersion: 1,
		Generation:    res.Outcome.Generation,
		Verdict:       res.Outcome.Verdict,
		Why:           res.Outcome.Why,
		HeldBack:      res.Outcome.HeldBack,
		Checks:        append([]activation.CheckResult{}, res.Outcome.Checks...),
		Cause:         res.Outcome.Cause,
		Exit:          res.Code.Exit(),
		Diagnostics:   printer.DiagnosticsJSON(diags),
	}
}

// runResult is the document of `run -o json`.
type runResult struct {
	outcome
	Complete bool           `json:"complete"`
	PlanHash string         `json:"plan_hash"`
	Changed  bool           `json:"changed"`
	Held     string         `json:"held,omitempty"` // why the site's plan is not applied
	Summary  string         `json:"summary"`
	Degraded []fault.Reason `json:"degraded"`

	Files []inspect.FileLine `json:"files"` // that the committed generation changed
	Units []activation.Act   `json:"units"` // that were started, restarted or reloaded

	Overwritten []string `json:"overwritten,omitempty"` // files that somebody had changed
}

func (a *cli) endRun(ended commit.Result, asJSON bool) error {
	if ended.IsPrinted {
		return a.endElsewhere(ended)
	}

	var diags hcl.Diagnostics
	var site *lang.Site
	if ended.Plan != nil {
		diags = printer.Sorted(ended.Plan.Diagnostics)
		site = ended.Plan.Site
	}
	messages, isComplete := ended.Explain()
	diags = a.nameRoots(append(diags, messages...))
	if asJSON {
		if err := a.printJSON(newRunResult(ended, isComplete, diags)); err != nil {
			a.printNotice(err.Error()) // the change itself succeeded
		}
		return quit(ended.Code)
	}

	if len(diags) > 0 {
		a.printDiagnostics(site, removeNotes(diags))
	}
	if ended.Err != nil && messages == nil {
		a.printNotice(ended.Err.Error())
	}
	if s := origin.Capitalize(summaryAfterReason(ended)); s != "" {
		to := a.stdout
		if ended.Code != "" {
			to = a.stderr
		}
		fmt.Fprintln(to, a.redact(a.nameRoot(s))+".")
	}
	if err := a.show(false, "done", newRunResult(ended, isComplete, nil)); err != nil {
		a.printNotice(err.Error()) // the change itself succeeded
	}
	if ended.Held != "" {
		fmt.Fprintln(a.stdout, a.redact(a.nameRoot(origin.Capitalize(ended.Held)))+".")
	}
	if ended.Outcome.HeldBack != "" {
		a.printNotice("the kubelet may not start: " + ended.Outcome.HeldBack)
	}
	return quit(ended.Code)
}

// endElsewhere ends a command that another process ran and whose result it printed.
func (a *cli) endElsewhere(ended commit.Result) error {
	a.printed = true

	return quit(ended.Code)
}

func newRunResult(ended commit.Result, isComplete bool, diags hcl.Diagnostics) runResult {
	r := runResult{
		outcome:  newOutcome(ended, diags),
		Complete: isComplete,
		Changed:  ended.Changed,
		Held:     ended.Held,
		Summary:  ended.Summary,
		Degraded: append([]fault.Reason{}, ended.Degraded...),

		Files: inspect.ListFiles(ended.Entries),
		Units: append([]activation.Act{}, ended.Outcome.Acted...),

		Overwritten: generation.ListOverwritten(ended.Entries),
	}
	if ended.Plan != nil {
		r.PlanHash = ended.Plan.Hash
	}

	return r
}

// summaryAfterReason returns the summary without the reason that the messages above it have.
func summaryAfterReason(res commit.Result) string {
	if res.Reason != "" && res.Summary == res.Outcome.HeldBack {
		return "" // it follows as the reason why the kubelet may not start
	}
	reason := res.Reason
	if res.Err != nil && res.Summary == res.Err.Error() {
		reason = res.Summary
	}
	rest, ok := strings.CutPrefix(res.Summary, reason)
	if reason != "" && ok {
		return strings.TrimPrefix(rest, "; ")
	}
	return res.Summary
}

// printNotice prints a line to stderr.
func (a *cli) printNotice(s string) {
	fmt.Fprintln(a.stderr, "prelet:", a.redact(a.nameRoot(s)))
}

// removeNotes drops notes, which only `prelet plan` shows, except that the host has another name than its node.
func removeNotes(ds hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range ds {
		if !origin.IsNote(d) || origin.CodeOf(d) == fault.Identity {
			out = append(out, d)
		}
	}
	return out
}
