package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) history() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "history",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "List the generations of this node",
		Long: `Lists the kept generations with their time, their status and the number of files that each changed.
An asterisk marks the generation in place. Below the list is what is pinned or held, and why.`,
		Example: "  prelet history\n  prelet history --root /mnt/node17\n  prelet history -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			past, err := a.env().History(c.Context(), w.Root)
			switch {
			case err != nil:
				return err
			case w.output.isJSON():
				return a.printJSON(past)
			}
			return a.print(func(o io.Writer) error {
				return printHistory(o, past)
			})
		},
	}
	c.AddCommand(a.historyShow(), a.historyDiff())
	addRootFlag(c, &w.Root)
	w.output.addFlag(c, "text", "json")
	return c
}

// historyShow shows one generation.
func (a *cli) historyShow() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "show N",
		Args:  exactArgs(1, "the number of a generation; prelet history lists them"),
		Short: "Show what a generation did to each file",
		Long: `Shows the status of generation N, why it was made, and what it did to each file.
prelet history diff shows what it changed in the node, and why.`,
		Example: "  prelet history show 12\n  prelet history show 12 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			n, err := parseGeneration(args[0])
			if err != nil {
				return err
			}
			one, err := a.env().Generation(c.Context(), w.Root, n)
			switch {
			case err != nil:
				return err
			case w.output.isJSON():
				return a.printJSON(one)
			}
			return a.print(func(o io.Writer) error {
				return printHistoryEntry(o, one)
			})
		},
	}
	addRootFlag(c, &w.Root)
	w.output.addFlag(c, "text", "json")
	return c
}

func requireGenerations(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return failure(fault.Usage,
			"history diff takes one or two numbers of generations: prelet history diff 11 12; "+
				"prelet history lists them")
	}

	return nil
}

// historyDiff compares two generations.
func (a *cli) historyDiff() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "diff A [B]",
		Args:  requireGenerations,
		Short: "Show what changed between two generations, and why",
		Long: `Compares generation A with generation B, or with the one in place:
labels, taints, flags, each field of the kubelet's configuration, each file.
Below it is what changed before: lines of the site, variables, objects of the cluster, hardware,
the kubelet's version, prelet's version.
A change names the causes that it depends on, as far as they are known.
Contents with a secret are never shown.
What is damaged or missing in a generation is named, and the rest is compared.`,
		Example: "  prelet history diff 11\n  prelet history diff 11 12 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			numbers := []int{0, app.InPlace}
			for i, text := range args {
				n, err := parseGeneration(text)
				if err != nil {
					return err
				}
				numbers[i] = n
			}

			d, err := a.env().HistoryDiff(c.Context(), w.Root, numbers[0], numbers[1])
			if err != nil {
				return err
			}
			if w.output.isJSON() {
				return a.printDocument(func(o io.Writer) error {
					return printer.ComparisonJSON(o, d)
				})
			}
			return a.print(func(o io.Writer) error {
				return printer.ComparisonText(o, d, printer.StyleOf(a.stdout, a.getenv))
			})
		},
	}
	addRootFlag(c, &w.Root)
	w.output.addFlag(c, "text", "json")
	return c
}

// parseGeneration returns the number of a generation that an argument names.
func parseGeneration(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n == 0 {
		return 0, failure(fault.Usage, "0 is the state before prelet, which has no plan; "+
			"prelet history show 1 lists what generation 1 changed in it")
	}
	if err != nil || n < 1 {
		return 0, failure(fault.Usage, "%q is not a number of a generation; prelet history lists them", text)
	}
	return n, nil
}

// countChanged returns the number of files that a generation changed.
func countChanged(c app.HistoryEntry) (n int) {
	for _, f := range c.Files {
		if f.Action != string(generation.ActionNone) && f.Action != string(generation.ActionKeep) {
			n++
		}
	}
	return n
}

func isDamaged(c app.HistoryEntry) bool {
	return c.Status == string(generation.StatusDamaged)
}

// generationStatus returns the status for people; JSON has the store's own word.
func generationStatus(c app.HistoryEntry) string {
	if c.Status == string(generation.StatusRolledBack) {
		return "rolled back"
	}
	return c.Status
}

// describeOrigin returns why a generation was made or left; "" for an ordinary one.
func describeOrigin(c app.HistoryEntry) string {
	var out []string
	if c.Restores != nil && *c.Restores == 0 {
		out = append(out, "as before prelet")
	} else if c.Restores != nil {
		out = append(out, fmt.Sprintf("contents of %d", *c.Restores))
	}
	if c.Adopted {
		out = append(out, "adopted: the files were as planned already")
	}
	if c.Why != "" {
		out = append(out, c.Why)
	}
	return strings.Join(out, "; ")
}

func printHistory(o io.Writer, c app.History) error {
	var b strings.Builder
	if len(c.Generations) == 0 {
		b.WriteString("No generation exists yet.\n")
	} else {
		fmt.Fprintf(&b, "  %4s  %-19s  %-11s  %7s\n", "", "time", "status", "changed")
	}
	for _, g := range slices.Backward(c.Generations) {
		mark := " "
		if g.Generation == c.InPlace {
			mark = "*"
		}
		line := fmt.Sprintf(
			"%s %4d  %-19s  %-11s  %7d  %s",
			mark,
			g.Generation,
			g.Time.Local().
				Format(time.DateTime),
			generationStatus(g),
			countChanged(g),
			describeOrigin(g),
		)
		if isDamaged(g) { // nothing else is known, and the reason takes more than a line
			line = fmt.Sprintf("%s %4d  %-19s  %-11s  %7s  see prelet history show %[2]d",
				mark, g.Generation, "-", generationStatus(g), "-")
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	switch {
	case c.Pinned == nil:
	case c.Pinned.Generation == generation.Unreadable:
		fmt.Fprintf(&b, "\nWhat is held on this node cannot be read (%s).\n"+
			"Nothing is applied until prelet rollback --release.\n", c.Pinned.Why)
	default:
		fmt.Fprintf(&b, "\nGeneration %d is pinned: %s.\n"+
			"Nothing else is applied until prelet rollback --release.\n", c.Pinned.Generation, c.Pinned.Why)
	}
	for plan, why := range c.Held {
		fmt.Fprintf(&b, "\nHeld: %s: %s.\nprelet run --retry tries it again.\n", shortenPlan(plan), why)
	}
	_, err := io.WriteString(o, b.String())
	return err
}

// shortenPlan returns the part of a plan's identity that people compare.
func shortenPlan(plan string) string {
	hash, version, _ := strings.Cut(strings.TrimPrefix(plan, "sha256:"), "@")
	return hash[:min(12, len(hash))] + " on kubelet " + version
}

func printHistoryEntry(o io.Writer, c app.HistoryEntry) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Generation %d, %s", c.Generation, generationStatus(c))
	if !isDamaged(c) {
		b.WriteString(", " + c.Time.Local().Format(time.DateTime))
	}
	b.WriteString("\n")
	if r := describeOrigin(c); r != "" {
		fmt.Fprintf(&b, "%s\n", r)
	}
	if c.Plan != "" {
		fmt.Fprintf(&b, "Plan %s\n", shortenPlan(c.Plan))
	}
	b.WriteString("\n")
	for _, f := range c.Files {
		line := fmt.Sprintf("  %-8s %s", f.Action, f.Path)
		if f.Drift {
			line += "  (somebody had changed it)"
		}
		if f.Why != "" {
			line += "  (" + f.Why + ")"
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(o, b.String())
	return err
}
