package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) verify() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "verify", GroupID: "node", Args: refuseArguments,
		Short: "Judge whether the kubelet is well on the generation in place",
		Long: "What prelet-verify.service calls after each start of the kubelet: healthy, and the generation is " +
			"good; ill, and the\n" +
			"node goes back to the last good one. When nothing awaits a verdict, it looks, with the same checks, " +
			"and changes\n" +
			"nothing; labels and taints that others changed are told as drift. Where there never was a generation, " +
			"there is\n" +
			"nothing to judge.\n" +
			"Exit status 0 healthy, 50 not, 51 not healthy after going back either.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := (&where{output: output}).isJSON()
			if err != nil {
				return err
			}
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			found, err := a.env().Verify(ctx)
			switch {
			case err != nil:
				return err
			case found.Off:
				a.complain("prelet=off stands on the kernel command line: nothing is judged")
				return nil
			}
			return a.endVerify(found, asJSON)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	return c
}

// verdict is the document of `verify -o json`.
type verdict struct {
	FormatVersion int              `json:"format_version"`
	Generation    int              `json:"generation"`
	Verdict       string           `json:"verdict"` // good, bad, unknown, pending; "" where there was nothing to judge
	Why           string           `json:"why,omitempty"`
	HeldBack      string           `json:"held_back,omitempty"`
	Checks        []activate.Check `json:"checks"`
	Cause         *activate.Cause  `json:"cause,omitempty"` // of the verdict, from the kubelet's log
	Exit          int              `json:"exit"`

	Diagnostics []present.Diagnostic `json:"diagnostics"`
}

func (a *cli) endVerify(v app.Verified, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(newVerdict(v)); err != nil {
			a.complain(err.Error()) // what was done is done
		}
		return quit(v.Code)
	}

	for _, c := range v.Outcome.Checks {
		fmt.Fprintf(a.stdout, "  %-10s %-7s %s\n", c.Name, c.State, a.redact(c.Message))
	}
	switch {
	case v.Messages != nil:
		a.say(nil, v.Messages)
	case v.Err != nil:
		a.complain(v.Err.Error())
	case v.Outcome.HeldBack != "":
		a.complain("the kubelet may not start: " + v.Outcome.HeldBack)
	case v.Code != "":
		a.complain(v.Summary)
	case v.Outcome.Generation == 0 && v.Outcome.Why != "":
		fmt.Fprintln(a.stdout, capitalize(v.Outcome.Why)+".")
	case v.Outcome.Generation == 0:
		fmt.Fprintln(a.stdout, "There is no generation to judge: prelet has written none on this node.")
	case v.Outcome.Verdict == activate.Unchanged:
		fmt.Fprintf(a.stdout, "Generation %d awaits no verdict.\n", v.Outcome.Generation)
	default:
		fmt.Fprintln(a.stdout, a.redact(capitalize(v.Summary))+".")
	}
	return quit(v.Code)
}

func newVerdict(v app.Verified) verdict {
	out := v.Outcome
	d := verdict{
		FormatVersion: 1, Generation: out.Generation, Verdict: string(out.Verdict), Why: out.Why,
		HeldBack: out.HeldBack, Checks: append([]activate.Check{}, out.Checks...), Cause: out.Cause,
		Exit: v.Code.Exit(), Diagnostics: present.DiagnosticsJSON(v.Messages),
	}
	if v.Err != nil && d.Why == "" {
		d.Why = v.Err.Error()
	}
	return d
}
