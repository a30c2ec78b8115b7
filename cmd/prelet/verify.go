package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/present"
)

func (a *cli) verify() *cobra.Command {
	var output string
	c := &cobra.Command{Use: "verify", GroupID: "node", Args: noArgument, Short: "Judge whether the kubelet is well on the generation in place",
		Long: "What prelet-verify.service calls after each start of the kubelet: healthy, and the generation is good; ill, and the\n" +
			"node goes back to the last good one. When nothing awaits a verdict, it looks, with the same checks, and changes\n" +
			"nothing; labels and taints that others changed are told as drift. Where there never was a generation, there is\n" +
			"nothing to judge.\n" +
			"Exit status 0 healthy, 50 not, 51 not healthy after going back either.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := (&where{output: output}).json()
			if err != nil {
				return err
			}
			ctx, stop := stoppable(c.Context())
			defer stop()
			found, err := a.env().Verify(ctx)
			switch {
			case err != nil:
				return err
			case found.Off:
				a.complain("prelet=off stands on the kernel command line: nothing is judged")
				return nil
			}
			return a.endVerify(found.Result, asJSON)
		}}
	c.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	return c
}

// verdict is what `verify -o json` prints.
type verdict struct {
	FormatVersion int              `json:"format_version"`
	Generation    int              `json:"generation"`
	Verdict       string           `json:"verdict"` // good, bad, unknown, pending; empty when nothing was to be judged
	Why           string           `json:"why,omitempty"`
	HeldBack      string           `json:"held_back,omitempty"`
	Checks        []activate.Check `json:"checks"`
	Cause         *activate.Cause  `json:"cause,omitempty"` // of the verdict, by the kubelet's own word
	Exit          int              `json:"exit"`

	Diagnostics []present.Diagnostic `json:"diagnostics"`
}

func (a *cli) endVerify(res apply.Result, asJSON bool) error {
	out, code := res.Outcome, res.Code
	if asJSON {
		v := verdict{
			FormatVersion: 1, Generation: out.Generation, Verdict: string(out.Verdict), Why: out.Why, HeldBack: out.HeldBack,
			Checks: append([]activate.Check{}, out.Checks...), Cause: out.Cause, Exit: code.Exit(),
			Diagnostics: present.DiagnosticsJSON(apply.Explain(res.Err)),
		}
		if res.Err != nil && v.Why == "" {
			v.Why = res.Err.Error()
		}
		if err := a.printJSON(v); err != nil {
			return err
		}
		return quit(code)
	}
	for _, c := range out.Checks {
		fmt.Fprintf(a.stdout, "  %-10s %-7s %s\n", c.Name, c.State, a.redact(c.Message))
	}
	switch {
	case res.Err != nil:
		if diags := apply.Explain(res.Err); diags != nil {
			a.say(nil, diags)
		} else {
			a.complain(res.Err.Error())
		}
	case out.HeldBack != "":
		a.complain("the kubelet may not start: " + out.HeldBack)
	case code != "":
		a.complain(res.Summary)
	case out.Generation == 0:
		fmt.Fprintln(a.stdout, "There is no generation to judge: prelet has written none on this node.")
	case out.Verdict == activate.Unchanged:
		fmt.Fprintf(a.stdout, "Generation %d awaits no verdict.\n", out.Generation)
	default:
		fmt.Fprintln(a.stdout, a.redact(upper(res.Summary))+".")
	}
	return quit(code)
}
