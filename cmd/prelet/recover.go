package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/lang/origin"
)

func (a *cli) recover() *cobra.Command {
	var root string
	var output format
	c := &cobra.Command{
		Use:     "recover",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Finish or undo what a crash left",
		Long: `Works without a network.
Every command that writes does it first. This one is for scripts,
and for a node where prelet was killed and has not run again.
Afterwards all files are of one generation, and the kubelet may start on it.`,
		Example: "  prelet recover\n  prelet recover --root /mnt/node17 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := stopWriteOnSignal(c.Context())
			defer stop()
			was, err := a.env().Recover(ctx, root)
			if err != nil {
				return err
			}
			if output.isJSON() {
				return a.printJSON(newRecovery(was))
			}
			a.printRecovered(was.Journal)
			for _, path := range was.Differing {
				fmt.Fprintf(
					a.stdout,
					"%s is not as generation %d made it; prelet run puts it in place, or adopts it.\n",
					path,
					was.InPlace,
				)
			}
			if was.Lost != "" {
				fmt.Fprintln(a.stdout, origin.Capitalize(was.Lost)+".")
			}
			return nil
		},
	}
	addRootFlag(c, &root)
	output.addFlag(c, "text", "json")
	return c
}

// recovery is the document of `recover -o json`.
type recovery struct {
	FormatVersion int      `json:"format_version"`
	InPlace       int      `json:"in_place,omitempty"`    // absent for none, and after an interrupted one
	Interrupted   int      `json:"interrupted,omitempty"` // the generation that was finished or undone; absent for none
	Phase         string   `json:"phase,omitempty"`       // of that one
	Differing     []string `json:"differing"`             // files that are not as the generation in place made them
	Lost          string   `json:"lost,omitempty"`        // that it was lost, and what to do
}

func newRecovery(was app.Recovered) recovery {
	r := recovery{
		FormatVersion: 1,
		InPlace:       was.InPlace,
		Differing:     append([]string{}, was.Differing...),
		Lost:          was.Lost,
	}
	if was.Journal != nil && was.Journal.Phase != generation.PhaseVerify {
		r.Interrupted = was.Journal.Gen
		r.Phase = string(was.Journal.Phase)
	}

	return r
}

// printRecovered prints the interrupted change; was is nil if none was interrupted.
func (a *cli) printRecovered(was *generation.Journal) {
	switch {
	case was == nil:
		fmt.Fprintln(a.stdout, "Nothing was interrupted.")
	case was.Phase == generation.PhaseVerify:
		fmt.Fprintf(a.stdout, "Nothing was interrupted; generation %d awaits its verdict.\n", was.Gen)
	default:
		fmt.Fprintf(
			a.stdout,
			"Finished what was interrupted: the journal said %s of generation %d.\n",
			was.Phase,
			was.Gen,
		)
	}
}
