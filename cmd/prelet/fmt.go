package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/lang"
)

func (a *cli) fmt() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "fmt [PATH...]", GroupID: "site", Short: "Lay site files out in the canonical form",
		Long: "Rewrites *.hcl and *.prelet.vars files, in the current folder if none is named. Folders are not " +
			"entered.",
		RunE: func(_ *cobra.Command, args []string) error {
			done, err := app.Format(args, check)
			a.showFormatted(done)
			switch {
			case err != nil:
				return err
			case done.Code != "":
				return quit(done.Code)
			case check && len(done.Changed()) > 0:
				return exit(3)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false,
		"write nothing, list the files that would change, and exit 3 if there are any")
	return c
}

// showFormatted prints the paths of formatted files, and why the others could not be formatted.
func (a *cli) showFormatted(done app.Formatted) {
	for _, f := range done.Files {
		if f.Diagnostics != nil {
			a.say(&site.Site{Sources: map[string][]byte{f.Path: f.Source}}, f.Diagnostics)
			continue
		}
		fmt.Fprintln(a.stdout, f.Path)
	}
}
