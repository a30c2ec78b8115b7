package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/manual"
)

// manCommand writes the manual pages, for packages: one for each command, and prelet(5) about the language. Their month
// is that of $SOURCE_DATE_EPOCH, or else the current one.
func (a *cli) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1), Short: "Write the manual pages",
		RunE: func(c *cobra.Command, args []string) error {
			date, err := a.env().BuildTime()
			if err != nil {
				return err
			}

			pages := map[string]string{"prelet.5": languagePage(date)}
			addManPages(pages, c.Root(), date)
			for name, text := range pages {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
					return failure(fault.CannotWrite, "the manual pages: %s", err)
				}
			}

			return nil
		},
	}
}

// languagePage returns the page of the language, made of the reference.
func languagePage(date time.Time) string {
	p := manual.Page{
		Name:    "prelet",
		Section: 5,
		Short:   "the language of a site",
		Date:    date,
		Version: manVersion(),
	}
	p.AddHeading("Description")
	p.AddText("A site is a set of HCL files, `*.hcl`, in `/etc/prelet`: blocks with arguments. " +
		"A stage gathers, decides or renders. This page lists the blocks, the types of stages, the functions " +
		"and the facts; `prelet validate` checks a site.")
	p.AddText(app.Language().Markdown())
	p.AddHeading("See also")
	p.AddText("prelet(8), prelet-validate(8), prelet-schema(8), prelet-explain(8)")

	return p.String()
}

func manVersion() string { return "prelet " + version }

// addManPages adds the pages of a command and of those below it, by their file names.
func addManPages(pages map[string]string, c *cobra.Command, date time.Time) {
	p := commandPage(c, date)
	pages[p.Name+".8"] = p.String()
	for _, sub := range listManCommands(c) {
		addManPages(pages, sub, date)
	}
}

// listManCommands returns the commands below a command that have a page.
func listManCommands(c *cobra.Command) (out []*cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			out = append(out, sub)
		}
	}

	return out
}

// nameManPage returns the name of a command's page: prelet-history-diff.
func nameManPage(c *cobra.Command) string {
	return strings.ReplaceAll(c.CommandPath(), " ", "-")
}

func commandPage(c *cobra.Command, date time.Time) *manual.Page {
	c.InitDefaultHelpFlag()
	p := &manual.Page{
		Name:    nameManPage(c),
		Section: 8,
		Short:   c.Short,
		Date:    date,
		Version: manVersion(),
	}

	p.AddHeading("Synopsis")
	subs := listManCommands(c)
	if len(subs) > 0 {
		p.AddText("**" + c.CommandPath() + "** COMMAND [flags]")
	}
	if c.Runnable() {
		p.AddText("**" + c.UseLine() + "**")
	}
	p.AddHeading("Description")
	p.AddText(cmp.Or(c.Long, c.Short+"."))

	if len(subs) > 0 {
		p.AddHeading("Commands")
		for _, sub := range subs {
			p.AddItem(`\fB`+manual.Escape(nameManPage(sub))+`\fR(8)`, manual.Inline(sub.Short))
		}
	}
	p.AddHeading("Options")
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		addManFlag(p, f)
	})
	if c.Example != "" {
		p.AddHeading("Examples")
		p.AddLiteral(strings.Split(strings.ReplaceAll(c.Example, "\n  ", "\n"), "\n"))
	}
	if !c.HasParent() {
		addManFiles(p)
	}

	p.AddHeading("See also")
	see := []string{"prelet(5)"}
	if c.HasParent() {
		see = append(see, nameManPage(c.Parent())+"(8)")
	}
	p.AddText(strings.Join(see, ", "))

	return p
}

// addManFlag adds a flag: its names, the name of its value, its description and its default.
func addManFlag(p *manual.Page, f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	name := `\fB` + manual.Escape("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		name = `\fB` + manual.Escape("-"+f.Shorthand) + `\fR, ` + name
	}
	if value != "" {
		name += ` \fI` + manual.Escape(value) + `\fR`
	}

	text := manual.Inline(usage)
	hasDefault := f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false"
	if hasDefault {
		text += " (default " + manual.Escape(f.DefValue) + ")"
	}
	p.AddItem(name, text)
}

// addManFiles adds what holds for all commands.
func addManFiles(p *manual.Page) {
	p.AddHeading("Files")
	for _, f := range [][2]string{
		{"/etc/prelet", "the site of this node; see prelet(5)"},
		{"/usr/lib/prelet", "the site of the image, detectors and their locks"},
		{"/run/prelet/status.json", "the report of the last run of this boot"},
		{"/run/prelet/kubelet.env", "the gate: the kubelet's unit requires it"},
		{"/var/lib/prelet", "generations and recordings"},
	} {
		p.AddItem(`\fI`+manual.Escape(f[0])+`\fR`, manual.Escape(f[1]))
	}

	_, statuses, _ := strings.Cut(fault.ExitStatusPage(), "\n")
	statuses, _, _ = strings.Cut(statuses, "\n## ")
	p.AddHeading("Exit status")
	p.AddText(statuses)
}
