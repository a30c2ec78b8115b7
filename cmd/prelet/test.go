package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) test() *cobra.Command {
	var o sites.TestOptions
	var output format
	var isQuiet bool
	var junit string
	c := &cobra.Command{
		Use:     "test [PATH...]",
		GroupID: "site",
		Short:   "Run the tests of a site",
		Long: `Plans the site over recorded machines and compares the plans with what
*.prelettest.hcl files say. PATH is such a file, or the folder of a site:
then its test files are those in it and in its folder tests.
The default is the current folder, or the layers that .prelet.hcl names.
A folder with a .prelet.hcl, also as --config, is as if you were in it.

-o github prints text, and annotations for GitHub's checks.
--quiet prints only what failed, and the sum.

It needs no machine, no network and no credential.
A run has one result for each machine. Exit status 3 means that a test failed.

--config names the site where it is not the folder of the test file,
or has several layers.`,
		Example: "  prelet test\n  prelet test ./site --run gpu\n" +
			"  prelet test --config base --config prod prod/tests\n" +
			"  prelet test -o github --junit results.xml\n  prelet test --update",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			if err := o.UseOwnRepository(a.env(), lang.AnyOwner()); err != nil {
				return err
			}
			if o.Repository.Path == "" {
				config := o.Config
				o.Config = args
				if err := o.UseRepository(a.env(), lang.AnyOwner()); err != nil {
					return err
				}
				o.Config = config // without it, each test has the site of its folder
			}
			o.Paths = args
			shown := &testsShown{cli: a, output: output, isQuiet: isQuiet}
			found, err := sites.Test(ctx, a.env(), o, shown.show)
			if err != nil {
				return err
			}
			return shown.end(found, junit)
		}),
	}
	c.Flags().StringArrayVar(&o.Config, "config", nil,
		"site `PATH`, a file or a folder, instead of the folder of the test file (repeatable)")
	addKubeletFlag(c, &o.Kubelets)
	c.Flags().StringVar(&o.Run, "run", "", "only runs whose name matches `REGEX`")
	c.Flags().BoolVar(&o.Update, "update", false, "write the snapshots that are missing or differ")
	c.Flags().BoolVarP(&isQuiet, "quiet", "q", false, "print what failed, and the sum")
	output.addFlag(c, "text", "json", "github")
	c.Flags().StringVar(&junit, "junit", "", "write the results as JUnit's XML to `FILE`, too")
	return c
}

// testsShown prints the results of tests: as text one by one, as JSON all at the end.
type testsShown struct {
	*cli
	output  format
	isQuiet bool // results that passed are only counted
	all     []testfile.MachineResult
}

func (a *testsShown) show(sources *lang.Site, r testfile.MachineResult) error {
	a.all = append(a.all, r)
	if a.output.isJSON() || a.isQuiet && r.Passed() {
		return nil
	}

	err := a.print(func(o io.Writer) error {
		return printer.TestText(o, sources.Sources, r, printer.StyleOf(a.stdout, a.getenv))
	})
	if err != nil || a.output.name != "github" {
		return err
	}
	return a.printCommands(func(o io.Writer) error {
		return printer.TestAnnotations(o, r)
	})
}

// end prints the sum, or the mistakes that kept the tests from running, and returns how the command ends.
func (a *testsShown) end(found sites.Tests, junit string) error {
	if junit != "" {
		var report bytes.Buffer
		all := slices.Concat(a.all, testfile.Mistakes(found.Diagnostics))
		if err := printer.JUnit(&report, all, a.redact); err != nil {
			return err
		}
		if err := userfile.WriteReport(junit, report.Bytes()); err != nil {
			return err
		}
	}

	if a.output.isJSON() {
		return cmp.Or(a.printJSON(printer.TestsDocument(a.all, found.TestSum, found.Diagnostics)), quit(found.Code()))
	}

	a.printDiagnostics(found.Site, printer.Sorted(found.Diagnostics))
	if a.output.name == "github" {
		err := a.printCommands(func(o io.Writer) error {
			return printer.DiagnosticAnnotations(o, found.Diagnostics)
		})
		if err != nil {
			return err
		}
	}
	if found.Diagnostics.HasErrors() {
		return quit(found.Code())
	}
	return cmp.Or(printText(a.cli, found.TestSum, printer.TestSumText), quit(found.Code()))
}
