package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/inspect"
)

// addCompletions adds the completions of arguments. It reads files only: no cluster, no hardware. What cannot be read
// is not offered. The values of flags that are not words of a list are files.
func (a *cli) addCompletions(root *cobra.Command) {
	arguments := map[string]cobra.CompletionFunc{
		"explain":      completeKinds,
		"history diff": a.completeGenerations,
		"history show": a.completeGenerations,
		"rollback":     a.completeGenerations,
		"schema":       cobra.NoFileCompletions,
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

// completeGenerations offers the numbers of the kept generations, the newest first, each with its time and status.
func (a *cli) completeGenerations(
	c *cobra.Command, args []string, _ string,
) (numbers []string, _ cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	isFull := len(args) > 0 && c.Name() != "diff" || len(args) > 1
	root, _ := c.Flags().GetString("root")

	past, err := inspect.ReadHistory(c.Context(), a.env(), root)
	if isFull || err != nil {
		return nil, directive
	}
	for _, g := range past.Newest() {
		about := g.Time.Local().Format("2006-01-02 15:04") + " " + g.Words()
		numbers = append(numbers, cobra.CompletionWithDesc(strconv.Itoa(g.Generation), about))
	}

	return numbers, directive
}

// completeKinds offers the kinds of what explain explains, and the codes.
func completeKinds(_ *cobra.Command, args []string, begun string) (kinds []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 && strings.HasPrefix(begun, "code/") {
		for _, c := range fault.Codes() {
			kinds = append(kinds, "code/"+string(c))
		}

		return kinds, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) == 0 {
		kinds = []string{"label/", "taint/", "flag/", "config/", "file/", "code/", "var/", "local/", "stage/"}
	}

	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
