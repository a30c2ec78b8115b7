package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

// formatFlags are the flags of fmt. With one of them nothing is written.
type formatFlags struct {
	check, diff bool
}

func (a *cli) fmt() *cobra.Command {
	var flags formatFlags
	c := &cobra.Command{
		Use:     "fmt [PATH... | -]",
		GroupID: "site",
		Short:   "Format site files",
		Long: `Rewrites *.hcl files in the canonical format,
by default those of the current folder, or of the layers that .prelet.hcl names. Of a folder, the tests in its
folder tests are formatted as well; other folders are not entered.

With - it formats standard input and writes the result to standard output,
as an editor needs it. A text with a syntax error writes nothing there.`,
		Example: "  prelet fmt\n  prelet fmt --check site/\n  prelet fmt --diff site/ | less\n" +
			"  prelet fmt - < site.hcl",
		RunE: stoppable(func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && args[0] == sites.StandardInput:
				file, err := sites.FormatInput(c.InOrStdin())
				if err != nil {
					return err
				}
				return a.showFormattedInput(file, flags)
			case slices.Contains(args, sites.StandardInput):
				return fault.Usage.Errorf("fmt -: standard input excludes other files")
			}

			if len(args) == 0 {
				var w lab.Request
				if err := w.UseRepository(a.env(), lang.AnyOwner()); err != nil {
					return err
				}
				args = sites.ListRepository(w.Repository)
			}
			done, err := sites.Format(args, flags.check || flags.diff)
			for _, f := range done.Files {
				a.showFormatted(f, flags)
			}
			switch {
			case err != nil:
				return err
			case done.Code != "":
				return quit(done.Code)
			case flags.check && len(done.Changed()) > 0:
				return exit(3)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&flags.check, "check", false,
		"write nothing, list the files that would change, and exit 3 if there are any")
	c.Flags().BoolVar(&flags.diff, "diff", false, "write nothing, print what would change as a unified diff")
	return c
}

// showFormatted prints the path or the difference of a file that is formatted, or why it could not be.
func (a *cli) showFormatted(f sites.FormattedFile, flags formatFlags) {
	switch {
	case f.Diagnostics != nil:
		text := f.Source
		if lang.IsVarsFile(f.Path) {
			text = lang.HideValues(text, nil)
		}
		shown := &lang.Site{Sources: map[string][]byte{f.Path: text}}
		a.printDiagnostics(shown, f.Diagnostics)
	case flags.diff:
		_ = printer.FileDiff(a.stdout, f.Path, f.Source, f.Text)
	default:
		fmt.Fprintln(a.stdout, f.Path)
	}
}

// showFormattedInput prints the canonical form of standard input, or with a flag what that flag asks for. The text is
// not redacted: it is the caller's own text, and goes back into a file.
func (a *cli) showFormattedInput(f sites.FormattedFile, flags formatFlags) error {
	switch {
	case f.Diagnostics != nil:
		a.showFormatted(f, flags)
		return quit(origin.Code(f.Diagnostics))
	case !flags.check && !flags.diff:
		if _, err := a.exact.Write(f.Text); err != nil {
			return fault.CannotWrite.Errorf("cannot print: %s", err)
		}
		return nil
	case !f.IsCanonical():
		a.showFormatted(f, flags)
		if flags.check {
			return exit(3)
		}
	}

	return nil
}
