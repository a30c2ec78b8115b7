package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/app"
)

// addCompletions adds the completions of arguments and values of flags. It reads files only: no cluster, no
// hardware. What cannot be read is not offered.
func (a *cli) addCompletions(root *cobra.Command) {
	arguments := map[string]cobra.CompletionFunc{
		"explain":      completeKinds,
		"history diff": a.completeGenerations,
		"history show": a.completeGenerations,
		"rollback":     a.completeGenerations,
	}
	values := map[string]cobra.CompletionFunc{
		"from":     completeFiles("prelet", "gz"),
		"objects":  completeFolders,
		"out":      completeFolders,
		"root":     completeFolders,
		"var":      a.completeVariables,
		"var-file": completeFiles("vars"),
	}

	for _, c := range root.Commands() {
		a.addCompletions(c)

		path := strings.TrimPrefix(c.CommandPath(), "prelet ")
		switch {
		case arguments[path] != nil:
			c.ValidArgsFunction = arguments[path]
		case !strings.Contains(c.Use, " ") && c.ValidArgsFunction == nil: // it has no arguments
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if complete := values[f.Name]; complete != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, complete)
			}
		})
	}
}

// describeFlagsPlainly removes what only help understands from the descriptions of flags: the marks around the name of
// a value, and breaks of lines, where a shell ends a description.
func describeFlagsPlainly(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		f.Usage = strings.NewReplacer("`", "", "\n", " ").Replace(f.Usage)
	})
	for _, child := range c.Commands() {
		describeFlagsPlainly(child)
	}
}

// completeFiles offers files with these extensions, and folders.
func completeFiles(extensions ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

func completeFolders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeGenerations offers the numbers of the kept generations, the newest first, each with its time and status.
func (a *cli) completeGenerations(
	c *cobra.Command, args []string, _ string,
) (numbers []string, _ cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	isFull := len(args) > 0 && c.Name() != "diff" || len(args) > 1
	root, _ := c.Flags().GetString("root")

	past, err := a.env().History(c.Context(), root)
	if isFull || err != nil {
		return nil, directive
	}
	for _, g := range past.Newest() {
		about := g.Time.Local().Format("2006-01-02 15:04") + " " + g.Words()
		numbers = append(numbers, cobra.CompletionWithDesc(strconv.Itoa(g.Generation), about))
	}

	return numbers, directive
}

// completeVariables offers the variables of the site, as NAME=, each with its description. A sensitive one is left out:
// --var refuses it.
func (a *cli) completeVariables(c *cobra.Command, _ []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace

	found, err := a.env().Graph(app.GraphOptions{Where: whereOf(c)})
	if err != nil || found.Site == nil {
		return nil, directive
	}
	for _, name := range slices.Sorted(maps.Keys(found.Site.Variables)) {
		if v := found.Site.Variables[name]; !v.Sensitive {
			out = append(out, cobra.CompletionWithDesc(name+"=", v.Description))
		}
	}

	return out, directive
}

// completeKinds offers the kinds of what explain explains.
func completeKinds(_ *cobra.Command, args []string, _ string) (kinds []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		kinds = []string{"label/", "taint/", "flag/", "config/", "file/", "code/", "var/", "local/", "stage/"}
	}

	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// whereOf returns the site and the root of a command line.
func whereOf(c *cobra.Command) (w app.Where) {
	w.Config, _ = c.Flags().GetStringArray("config")
	w.Root, _ = c.Flags().GetString("root")

	return w
}
