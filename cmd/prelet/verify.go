package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) verify() *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:     "verify",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Check whether the kubelet is healthy with the current generation",
		Long: `prelet-verify.service calls it after each start of the kubelet.
If the kubelet is healthy, the generation is good.
If not, the node rolls back to the last good generation.

When no generation awaits a verdict, it runs the same checks and changes nothing;
prelet status shows what it found, until the kubelet is healthy again.
It reports labels and taints that others changed as drift.
Without a generation it checks nothing.

Exit status 0 healthy, 50 unhealthy, 51 unhealthy after a rollback too.`,
		Example: "  prelet verify\n  prelet verify -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			found, err := a.env().Verify(ctx)
			switch {
			case err != nil:
				return err
			case found.Off:
				a.printNotice("prelet=off is on the kernel command line: nothing is judged")
				return nil
			}
			return a.endVerify(found, output.isJSON())
		},
	}
	output.addFlag(c, "text", "json")
	return c
}

// verdict is the document of `verify -o json`.
type verdict struct {
	FormatVersion int                `json:"format_version"`
	Generation    int                `json:"generation"`
	Verdict       string             `json:"verdict"` // good, bad, unknown, pending; "" if nothing was judged
	Why           string             `json:"why,omitempty"`
	HeldBack      string             `json:"held_back,omitempty"`
	Checks        []activation.Check `json:"checks"`
	Cause         *activation.Cause  `json:"cause,omitempty"` // of the verdict, from the kubelet's log
	Exit          int                `json:"exit"`

	Diagnostics []printer.Diagnostic `json:"diagnostics"`
}

func (a *cli) endVerify(v app.Verified, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(newVerdict(v)); err != nil {
			a.printNotice(err.Error()) // the verdict itself was reached
		}
		return quit(v.Code)
	}

	for _, c := range v.Outcome.Checks {
		fmt.Fprintf(a.stdout, "  %-10s %-7s %s\n", c.Name, c.State, a.redact(c.Message))
	}
	switch {
	case v.Messages != nil:
		a.printDiagnostics(nil, v.Messages)
	case v.Err != nil:
		a.printNotice(v.Err.Error())
	case v.Outcome.HeldBack != "":
		a.printNotice("the kubelet may not start: " + v.Outcome.HeldBack)
	case v.Code != "":
		a.printNotice(v.Summary)
	case v.Outcome.Generation == 0 && v.Outcome.Why != "":
		fmt.Fprintln(a.stdout, origin.Capitalize(v.Outcome.Why)+".")
	case v.Outcome.Generation == 0:
		fmt.Fprintln(a.stdout, "No generation to judge: prelet has not written one on this node.")
	case v.Outcome.Verdict == activation.Unchanged:
		fmt.Fprintf(a.stdout, "Generation %d awaits no verdict.\n", v.Outcome.Generation)
	default:
		fmt.Fprintln(a.stdout, a.redact(origin.Capitalize(v.Summary))+".")
	}
	return quit(v.Code)
}

func newVerdict(v app.Verified) verdict {
	out := v.Outcome
	d := verdict{
		FormatVersion: 1,
		Generation:    out.Generation,
		Verdict:       string(out.Verdict),
		Why:           out.Why,
		HeldBack:      out.HeldBack,
		Checks:        append([]activation.Check{}, out.Checks...),
		Cause:         out.Cause,
		Exit:          v.Code.Exit(),
		Diagnostics:   printer.DiagnosticsJSON(v.Messages),
	}
	if v.Err != nil && d.Why == "" {
		d.Why = v.Err.Error()
	}
	return d
}
