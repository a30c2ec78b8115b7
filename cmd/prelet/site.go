package main

import (
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) site() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "site [PATH...]",
		GroupID: "site",
		Short:   "Show which files and values of a site are in effect",
		Long: `Lists the files of each layer: in effect, hidden or masked by a later layer, ignored.
Then the variables with the place of the value that counts and of those that lost,
what override blocks have replaced, whether the site's signature is valid, and a digest of the files in effect.
The digest is the same for a node and a checkout, wherever the files are.

A machine may give variables other values: by credentials, and on the kernel command line.
prelet explain shows which value a plan has.`,
		Example: "  prelet site\n  prelet site image/ prod/\n  prelet site --root /mnt/image -o json",
		RunE: stoppable(func(*cobra.Command, []string) error {
			found, err := sites.Effect(a.env(), w.Request)
			if err != nil {
				return err
			}
			a.printDiagnostics(found.Site, printer.Sorted(found.Diagnostics))
			if err := a.show(w.output.isJSON(), "site", found); err != nil {
				return err
			}
			return quit(origin.Code(found.Diagnostics))
		}),
	}
	w.addSiteFlags(c)
	a.readRepository(c, &w.Request, lang.OS())
	addRootFlag(c, &w.Root)
	c.AddCommand(a.siteSign(), a.siteVerify(), a.siteUpdate())
	return c
}
