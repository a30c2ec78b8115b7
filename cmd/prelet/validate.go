package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) validate() *cobra.Command {
	var w where
	var strict bool
	c := &cobra.Command{
		Use:     "validate [PATH...]",
		GroupID: "site",
		Short:   "Check a site without a machine or a network",
		Long: `Checks syntax, names, types, references, owners, labels and taints.
Then evaluates the whole site on sample machines: one without any facts,
one where every read failed, a bare VM, one whose facts are null,
eight H100, eight MI300X, an arm64 server.
So a mistake such as gpus[0] on a node without GPUs shows up on a laptop.

--hardware and --from plan the site on recorded machines too, in memory and as a test does,
and report errors that only these machines show. --var and --var-file give variables their values.

The file .prelet.hcl of a repository, in this folder or above it, names layers, machines, objects and kubelets:
what no flag gives is taken from there.

--kubelet-version checks the site for a kubelet of that version:
flags and feature gates that it does not know or no longer has, unknown fields,
values that it rejects, and what it silently ignores.
While the base is not known, fields that depend on each other are checked
only if the site sets or removes all of them; a note names the others.
--objects gives the base: the ConfigMaps of the cluster in a folder.
--kubelet asks a kubelet's binary too, which needs the base.`,
		Example: "  prelet validate\n  prelet validate ./site --strict\n  prelet validate ./site --kubelet-version " +
			"1.36",
		RunE: stoppable(func(*cobra.Command, []string) error {
			found, err := sites.Validate(a.env(), sites.ValidateOptions{Request: w.Request, Strict: strict})
			if err != nil {
				return err
			}
			return a.showValidated(found, w.output.isJSON())
		}),
	}
	w.addSiteFlags(c)
	a.readRepository(c, &w.Request, lang.OS())
	addRootFlag(c, &w.Root)
	w.addHardwareFlag(c)
	w.addObjectsFlag(c)
	w.addFromFlag(c)
	w.addVarFlag(c)
	w.addVarFileFlag(c)
	c.Flags().BoolVar(&strict, "strict", false, strictUsage)
	w.addKubeletVersionFlag(c)
	addKubeletFlag(c, &w.Kubelets)
	return c
}

// validation is the document of `validate -o json`.
type validation struct {
	FormatVersion int                  `json:"format_version"`
	Valid         bool                 `json:"valid"`
	Diagnostics   []printer.Diagnostic `json:"diagnostics"`
}

func (a *cli) showValidated(v sites.Validated, asJSON bool) error {
	diags := a.nameRoots(printer.Sorted(v.Diagnostics))
	if asJSON {
		document := validation{1, v.IsValid(), printer.DiagnosticsJSON(diags)}
		if err := a.printJSON(document); err != nil {
			return err
		}
	} else {
		a.printDiagnostics(v.Site, diags)
	}

	if code := origin.Code(v.Diagnostics); code != "" {
		return quit(code)
	}
	if v.StrictErr != nil {
		return v.StrictErr
	}
	if !asJSON {
		planned := ""
		if v.Planned > 0 {
			planned = ", planned on " + printer.Count(v.Planned, "machine")
		}
		fmt.Fprintf(
			a.stdout,
			"The site is valid: %s, %s, tried on %s%s.\n",
			printer.Count(len(v.Site.Files), "file"),
			printer.Count(len(v.Site.Stages), "stage"),
			printer.Count(v.Machines, "machine"),
			planned,
		)
	}
	return nil
}
