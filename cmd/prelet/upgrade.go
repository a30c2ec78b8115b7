package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/printer"
)

func (a *cli) upgrade() *cobra.Command {
	var w where
	var to string
	c := &cobra.Command{
		Use:     "upgrade --to VERSION",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Show what newer kubelets would do differently on these nodes",
		Long: `Plans the site on this node, or on recorded ones, with the kubelet in place
and with each newer minor version up to VERSION. It reports what comes with each version:
with what the kubelet exits, what it silently ignores, what means something else, what is deprecated,
and what changes on the node. Each line has the number of nodes, the place and the next step.

It reads what prelet plan reads, writes nothing, and needs no cluster and no newer kubelet.

Exit status: 0 if nothing changes, 3 if something changes, 10 if a kubelet would not start.
Where some node has no plan, and nothing breaks on the others, it is that of its failure.`,
		Example: "  prelet upgrade --to 1.37\n" +
			"  prelet upgrade --to 1.37 --from node17.prelet --config ./site\n" +
			"  prelet upgrade --to 1.37 --from fleet/ -o markdown",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			if to == "" {
				return failure(fault.Usage, "--to VERSION needed, as in --to 1.37")
			}

			report, err := a.env().Upgrade(ctx, app.UpgradeOptions{Where: w.Where, To: to})
			if err != nil {
				return err
			}
			switch w.output.name {
			case "json":
				err = a.printJSON(report)
			case "markdown":
				err = printText(a, report, printer.UpgradeMarkdown)
			default:
				err = printText(a, report, printer.UpgradeText)
			}
			if err != nil {
				return err
			}

			switch code := report.Code(); {
			case report.Breaks():
				return exit(fault.KubeletFlag.Exit())
			case code != "":
				return quit(code)
			case report.ChangesNodes():
				return exit(3)
			}
			return nil
		}),
	}
	w.addRecordedFlags(c)
	w.output.addFlag(c, "text", "json", "markdown")
	c.Flags().StringVar(&to, "to", "", "the minor `VERSION` of Kubernetes, as 1.37")

	return c
}
