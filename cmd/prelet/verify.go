package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/run"
	"github.com/prelet/prelet/internal/model/origin"
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

The checks of a kubelet, in the order of their results:
` + describeChecks() + `
A check whose state is unknown does not fail it, as where the API server answers 401 or nothing:
files that ran before would not help there. A monitor that must know reads the states of -o json.

Exit status 0 healthy, 50 unhealthy, 51 unhealthy after a rollback too.`,
		Example: "  prelet verify\n  prelet verify -o json",
		RunE: stopWriteOnSignal(func(ctx context.Context, _ []string) error {
			found, err := run.Verify(ctx, a.env())
			switch {
			case err != nil:
				return err
			case found.Off:
				a.printNotice("prelet=off is on the kernel command line: nothing is judged")
				return nil
			}
			return a.endVerify(found, output.isJSON())
		}),
	}
	output.addFlag(c, "text", "json")
	return c
}

// describeChecks returns a line for each check of a verdict.
func describeChecks() string {
	var b strings.Builder
	for _, c := range activation.ListChecks() {
		fmt.Fprintf(&b, "  %-12s %s\n", c.Name, c.What)
	}

	return b.String()
}

func (a *cli) endVerify(v commit.Result, asJSON bool) error {
	messages := commit.Explain(v.Err)
	if asJSON {
		d := newOutcome(v, messages)
		if v.Err != nil && d.Why == "" {
			d.Why = v.Err.Error()
		}
		if err := a.printJSON(d); err != nil {
			a.printNotice(err.Error()) // the verdict itself was reached
		}
		return quit(v.Code)
	}

	for _, c := range v.Outcome.Checks {
		fmt.Fprintf(a.stdout, "  %-10s %-7s %s\n", c.Name, c.State, a.redact(c.Message))
	}
	switch {
	case messages != nil:
		a.printDiagnostics(nil, messages)
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
