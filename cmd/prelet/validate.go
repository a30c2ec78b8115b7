package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) validate() *cobra.Command {
	var w where
	var strict bool
	c := &cobra.Command{
		Use: "validate [PATH...]", GroupID: "site", Short: "Check a site with no machine and no network",
		Long: "Checks syntax, names, types, references, owners, labels and taints, then evaluates the whole site on " +
			"machines that\n" +
			"prelet knows: one of which nothing is known, one where everything failed, a bare VM, one whose facts " +
			"are null, eight\n" +
			"H100, eight MI300X, two sockets. So gpus[0] is found out on a laptop.\n\n" +
			"--kubelet-version tells what a kubelet of that version would make of it: flags and feature gates that " +
			"it does not\n" +
			"know or no longer takes, fields that it has not, values that it refuses, and what it swallows without " +
			"a word. While\n" +
			"the base is not known, fields are judged together where the site sets or removes all of them.",
		Example: "  prelet validate\n  prelet validate ./site --strict\n  prelet validate ./site --kubelet-version " +
			"1.36",
		RunE: func(_ *cobra.Command, args []string) error {
			asJSON, err := w.isJSON()
			if err != nil {
				return err
			}
			w.Config = append(w.Config, args...)

			found, err := a.env().Validate(app.ValidateOptions{Where: w.Where, Strict: strict})
			if err != nil {
				return err
			}
			return a.showValidated(found, asJSON)
		},
	}
	w.addSiteFlags(c)
	c.Flags().StringVar(&w.Root, "root", "", "look for the site below `DIR`")
	c.Flags().BoolVar(&strict, "strict", false, "warnings are errors")
	c.Flags().StringVar(&w.KubeletVersion, "kubelet-version", "",
		"judge the site for a kubelet of `VERSION`, as 1.36 or v1.36.3")
	return c
}

// validation is the document of `validate -o json`.
type validation struct {
	FormatVersion int                  `json:"format_version"`
	Valid         bool                 `json:"valid"`
	Diagnostics   []present.Diagnostic `json:"diagnostics"`
}

func (a *cli) showValidated(v app.Validated, asJSON bool) error {
	diags := present.Sorted(v.Diagnostics)
	if asJSON {
		if err := a.printJSON(validation{1, v.IsValid(), present.DiagnosticsJSON(diags)}); err != nil {
			return err
		}
	} else {
		a.say(v.Site, diags)
	}

	if code := origin.Code(v.Diagnostics); code != "" {
		return quit(code)
	}
	if v.StrictErr != nil {
		return v.StrictErr
	}
	if !asJSON {
		fmt.Fprintf(a.stdout, "The site is valid: %s, %s, tried on %s.\n", present.Count(len(v.Site.Files), "file"),
			present.Count(len(v.Site.Stages), "stage"), present.Count(v.Machines, "machine"))
	}
	return nil
}
