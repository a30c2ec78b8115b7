package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/machine/delivery"
)

func (a *cli) siteUpdate() *cobra.Command {
	var root string
	var output format
	c := &cobra.Command{
		Use:   "update",
		Args:  refuseArguments,
		Short: "Pull the site of this node, if there is a new one",
		Long: `Asks the places of the delivery block in their order, verifies a new site with the keys of the image,
and stores it. The next run uses it: prelet run. On a node without delivery it does nothing.

prelet-site.service calls it before each boot's run, and prelet-check.service between boots.
After a failure the node keeps the last verified site.`,
		Example: "  prelet site update\n  prelet site update -o json\n  prelet site update --root /mnt/image",
		RunE: finishOnSignal(func(ctx context.Context, _ []string) error {
			done, err := delivery.Update(ctx, a.env(), root, a.delivery)
			if err != nil {
				return err
			}
			return a.show(output.isJSON(), "siteupdate", done)
		}),
	}
	output.addFlag(c, "text", "json")
	addRootFlag(c, &root)
	return c
}
