package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/report"
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
			h := a.env().Host(ctx)
			defer h.Units.Close()
			return a.verifyNode(ctx, h, asJSON)
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

func (a *cli) verifyNode(ctx context.Context, h *app.Host, asJSON bool) error {
	if h.Self == "" && !h.Off() && never(h) {
		return a.endVerify(h, apply.Result{}, asJSON)
	}
	store, err := h.LockNode(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if h.Off() {
		a.complain("prelet=off stands on the kernel command line: nothing is judged")
		return nil
	}
	j, err := store.Journal()
	if err == nil && j == nil {
		if gen, open, gateErr := h.Gate().State(); gateErr == nil && open {
			return a.look(ctx, h, store, gen, asJSON)
		}
	}
	codeBefore, before := earlier(h)
	rep := a.env().Report(h, true)
	r := &apply.Run{Store: store, Machine: h.Machine(store, rep), Report: rep}
	res := r.Verify(ctx)
	code, summary := res.Code, res.Summary
	switch {
	case res.Outcome.HeldBack != "" && codeBefore != "":
		code, summary = codeBefore, before // that is why, and prelet.service has said so
	case res.Outcome.HeldBack != "":
		code = fault.RolledBack
	case code == "" && codeBefore.Lasts():
		code, summary = codeBefore, before+"; "+summary
	}
	if _, err := rep.Finish(code.Exit(), summary); err != nil {
		a.complain(err.Error())
	}
	return a.endVerify(h, res, asJSON)
}

// never says that prelet has not done anything on this node yet, and keeps nothing back: no generation, no commit under way,
// and no run of this boot that shut the gate. It leaves no trace. Where it cannot be seen, who takes the lock finds out.
func never(h *app.Host) bool {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return false
	}
	defer store.Close()
	j, err := store.Journal()
	if err != nil || j != nil {
		return false
	}
	cur, err := store.Current()
	return err == nil && cur == nil && h.Gate().Why() == ""
}

// look is for a kubelet that was judged already: it writes nothing at all.
func (a *cli) look(ctx context.Context, h *app.Host, store *generation.Store, gen int, asJSON bool) error {
	res := apply.Result{}
	if cur, err := store.Current(); err == nil && cur != nil {
		gen = cur.Gen
	}
	res.Outcome.Generation = gen
	if h.Self == "" && gen > 0 {
		if err := store.Unlock(); err != nil { // it waits for a kubelet that has just started
			return a.storeFailure(err)
		}
		checks, cause, err := h.Machine(store, nil).Examine(ctx, gen)
		if err != nil {
			checks = []activate.Check{{Name: "plan", State: "failed", Message: err.Error()}}
		}
		res.Outcome.Checks, res.Outcome.Cause = checks, cause
		for _, c := range res.Outcome.Checks {
			if c.State == "failed" {
				res.Code = fault.RolledBack
				res.Summary = fmt.Sprintf("the kubelet is not well on generation %d: %s: %s", gen, c.Name, c.Message)
				if cause != nil {
					res.Summary += "; the kubelet: " + cause.String()
				}
				break
			}
		}
	}
	return a.endVerify(h, res, asJSON)
}

// earlier is how the run before in this boot ended: the code stands for all with the exit status in status.json.
func earlier(h *app.Host) (code fault.Code, summary string) {
	s, err := report.Load(h.RunDir)
	if err != nil || s.BootID != h.BootID {
		return "", ""
	}
	return fault.OfExit(s.Exit), s.Summary
}

func (a *cli) endVerify(h *app.Host, res apply.Result, asJSON bool) error {
	out, code := res.Outcome, res.Code
	if out.HeldBack != "" && h.Self == "" && code == "" {
		code = fault.RolledBack // the unit has nothing to add to a failure that prelet.service shows
	}
	if asJSON {
		v := verdict{1, out.Generation, string(out.Verdict), out.Why, out.HeldBack, append([]activate.Check{}, out.Checks...), out.Cause, code.Exit(), present.DiagnosticsJSON(apply.Explain(res.Err))}
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
