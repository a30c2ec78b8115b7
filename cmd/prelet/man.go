//go:build man

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/images"
	"github.com/prelet/prelet/internal/lab/reference"
)

// main writes the manual pages and the completions of shells into a folder, for tools/install.sh. Only this program,
// which is not installed, has cobra's writer of pages.
func main() {
	if err := writeFiles(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "prelet:", err)
		os.Exit(1)
	}
}

// writeFiles writes a page for each command, prelet(5) about the language, and prelet.SHELL for each shell. The date
// of the pages is that of $SOURCE_DATE_EPOCH, or else the current one.
func writeFiles(folder string) error {
	a := cli{
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
	}
	date, err := images.BuildTime(a.env())
	if err != nil {
		return err
	}
	date = date.UTC()
	header := &doc.GenManHeader{
		Section: "8",
		Date:    &date,
		Source:  "prelet " + version,
		Manual:  "prelet",
	}

	root := a.root()
	root.DisableAutoGenTag = true
	err = errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(folder, "prelet.bash"), true),
		root.GenZshCompletionFile(filepath.Join(folder, "prelet.zsh")),
		root.GenFishCompletionFile(filepath.Join(folder, "prelet.fish"), true),
	)
	if err != nil {
		return err
	}

	addCommandLists(root)
	root.Long += "\n\n" + filesText + exitStatuses()
	if err := errors.Join(doc.GenManTree(root, header, folder), writeDates(folder, date)); err != nil {
		return err
	}

	title := fmt.Sprintf("%% \"PRELET\" \"5\" %q %q %q\n", date.Format(time.DateOnly), header.Source, header.Manual)
	page := md2man.Render([]byte(title + languageText + plainMarkdown(reference.Describe(reference.Collect()).Markdown())))

	return os.WriteFile(filepath.Join(folder, "prelet.5"), page, 0o644)
}

// writeDates gives the pages of commands a date that mandoc reads: cobra writes the month alone.
func writeDates(folder string, date time.Time) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.8"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte(date.Format("Jan 2006")), []byte(date.Format(time.DateOnly)), 1)
		if err := os.WriteFile(page, text, 0o644); err != nil {
			return err
		}
	}

	return nil
}

const languageText = `# NAME
prelet - the language of a site

# DESCRIPTION
A site is a set of HCL files, **\*.hcl**, in /etc/prelet: blocks with arguments. A stage gathers, decides or renders.
This page lists the blocks, the types of stages, the functions and the facts; **prelet validate** checks a site.

# SEE ALSO
**prelet(8)**, **prelet-validate(8)**, **prelet-schema(8)**, **prelet-explain(8)**

`

const filesText = `# FILES
**/etc/prelet**
: the site of this node; see **prelet(5)**

**/usr/lib/prelet**
: the site of the image, detectors and their locks

**/run/prelet/status.json**
: the report of the last run of this boot

**/run/prelet/kubelet.env**
: the gate: the kubelet's unit requires it

**/var/lib/prelet**
: generations and recordings

# EXIT STATUS
`

// addCommandLists adds to the description of each command a list of those below it.
func addCommandLists(c *cobra.Command) {
	var list strings.Builder
	for _, sub := range c.Commands() {
		addCommandLists(sub)
		if sub.IsAvailableCommand() {
			fmt.Fprintf(
				&list,
				"\n**%s(8)**\n: %s\n",
				strings.ReplaceAll(sub.CommandPath(), " ", "-"),
				sub.Short,
			)
		}
	}
	if list.Len() > 0 {
		c.Long = cmp.Or(c.Long, c.Short+".") + "\n\n# COMMANDS\n" + list.String()
	}
}

func exitStatuses() string {
	var list strings.Builder
	for _, s := range fault.ExitStatuses() {
		fmt.Fprintf(&list, "\n**%d**\n: %s\n", s.Status, s.Meaning)
	}

	return list.String()
}

var (
	linkPattern  = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)
	tablePattern = regexp.MustCompile(`(?m)^\|.*\n\|[-|]+\n`) // the head of a table
	rowPattern   = regexp.MustCompile(`(?m)^\|.*\|$`)
	barPattern   = regexp.MustCompile(`(^|[^\\])\|`)
)

// plainMarkdown returns a page as it suits a terminal: no links, and each table as a list, because its cells are too
// long for columns. The first cell of a row is the term, the last one its description.
func plainMarkdown(page string) string {
	page = linkPattern.ReplaceAllString(page, "$1")
	page = tablePattern.ReplaceAllString(page, "")

	return rowPattern.ReplaceAllStringFunc(page, func(row string) string {
		cells := strings.Split(barPattern.ReplaceAllString(strings.Trim(row, "| "), "$1\x00"), "\x00")
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), `\|`, "|")
		}
		last := len(cells) - 1
		term := cells[0]
		if last > 1 {
			term += " (" + strings.Join(cells[1:last], ", ") + ")"
		}

		return "\n" + term + "\n: " + cells[last] + "\n"
	})
}
