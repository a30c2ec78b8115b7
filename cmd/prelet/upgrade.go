package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/fleets"
	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
)

type upgradeFlags struct {
	where
	to     string
	server string
	page   string // --html
}

func (a *cli) upgrade() *cobra.Command {
	var f upgradeFlags
	f.TakesKubelets = true
	c := &cobra.Command{
		Use:     "upgrade --to VERSION",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Show what newer kubelets would do differently on these nodes",
		Long: `Plans the site on this node, or on recorded ones, with the current kubelet
and with each newer minor version up to VERSION. It reports for each version the settings with which
the kubelet would not start, those that it silently ignores, that change their meaning or are deprecated,
and what changes on the node. Each line has the number of nodes, the place and the next step.
--html writes a page with a table of effects and versions instead.

It reads what prelet plan reads, and needs no cluster and no newer kubelet. Lines to remove are printed with those
that replace them.

Exit status: 0 if nothing changes on the nodes, 3 if something changes, 10 if a kubelet would not start.
If a node has no plan, and nothing breaks on the others, it is the status of that failure.`,
		Example: "  prelet upgrade --to 1.37\n" +
			"  prelet upgrade --to 1.37 --from node17.prelet --config ./site\n" +
			"  prelet upgrade --to 1.37 --from fleet/ -o markdown\n" +
			"  prelet upgrade --to 1.37 --from fleet/ --html upgrade.html",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			switch {
			case f.to == "" && len(f.Kubelets) == 0:
				return fault.Usage.Errorf(
					"name the newer kubelet: --to VERSION, such as --to 1.37, or --kubelet PROGRAM")
			case f.page != "" && f.output.isSet:
				return fault.Usage.Errorf("--html and --output exclude each other: the page has everything")
			}

			a.printed = f.page == "-" // a failure has no document there
			u, err := fleets.Upgrade(ctx, a.env(), fleets.UpgradeOptions{
				Request: f.Request,
				To:      f.to,
				Server:  f.server,
			})
			if err != nil {
				return err
			}
			if err := a.showUpgrade(u, &f); err != nil {
				return err
			}

			return endUpgrade(u)
		}),
	}
	a.addRecordedFlags(c, &f.where)
	f.output.addFlag(c, "text", "json", "markdown")
	addPageFlag(c, &f.page)
	c.Flags().StringVar(&f.to, "to", "", "the minor `VERSION` of Kubernetes, as 1.37")
	c.Flags().StringVar(&f.server, "server-version", "",
		"the API server is of `VERSION`: report versions of the kubelet that Kubernetes does not support with it")

	return c
}

// showUpgrade prints a report, or writes its page.
func (a *cli) showUpgrade(u *fleet.Upgrade, f *upgradeFlags) error {
	if f.page != "" {
		return a.writePage(f.page, inspect.Reported{Upgrade: u})
	}
	write := printer.UpgradeText
	if f.output.name == "markdown" {
		write = printer.UpgradeMarkdown
	}

	return printResult(a, f.output.isJSON(), u, write)
}

func endUpgrade(u *fleet.Upgrade) error {
	switch code := u.Code(); {
	case u.Breaks():
		return exit(fault.KubeletFlag.Exit())
	case code != "":
		return quit(code)
	case u.ChangesNodes():
		return exit(3)
	}

	return nil
}
