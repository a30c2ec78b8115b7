package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// width is how many columns help fills: those of a console on a rack's trolley.
const width = 80

// usage is what --help says below a command's text. It is ours since cobra's own does not wrap flags; and no template of
// cobra's, because a program that runs one keeps every exported method of every type that it links (see deptest).
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:")
	if c.Runnable() {
		fmt.Fprintf(w, "\n  %s", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n  %s [command]", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\n\nExamples:\n%s", c.Example)
	}
	for _, g := range c.Groups() {
		usageGroup(w, c, g.ID, g.Title)
	}
	if c.HasAvailableSubCommands() && !c.AllChildCommandsHaveGroup() {
		title := "Additional Commands:"
		if len(c.Groups()) == 0 {
			title = "Available Commands:"
		}
		usageGroup(w, c, "", title)
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\n\nFlags:\n%s", strings.TrimRight(c.LocalFlags().FlagUsagesWrapped(width), " \n"))
	}
	if c.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\n\nGlobal Flags:\n%s", strings.TrimRight(c.InheritedFlags().FlagUsagesWrapped(width), " \n"))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\nUse \"%s [command] --help\" for more information about a command.", c.CommandPath())
	}
	_, err := fmt.Fprintln(w)
	return err
}

func usageGroup(w io.Writer, c *cobra.Command, id, title string) {
	fmt.Fprintf(w, "\n\n%s", title)
	for _, sub := range c.Commands() {
		if sub.GroupID == id && (sub.IsAvailableCommand() || sub.Name() == "help") {
			fmt.Fprintf(w, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}
