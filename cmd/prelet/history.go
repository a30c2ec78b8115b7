package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
)

func (a *cli) history() *cobra.Command {
	w := where{output: "text"}
	show := 0
	c := &cobra.Command{
		Use: "history", GroupID: "node", Args: refuseArguments, Short: "List the generations of this node",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.isJSON()
			if err != nil {
				return err
			}
			if c.Flags().Changed("show") {
				one, err := a.env().Generation(c.Context(), w.Root, show)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(one)
				}
				return a.print(func(o io.Writer) error { return printChapter(o, one) })
			}

			past, err := a.env().History(c.Context(), w.Root)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(past)
			}
			return a.print(func(o io.Writer) error { return printChronicle(o, past) })
		},
	}
	c.Flags().IntVar(&show, "show", 0, "what generation `N` did to each file")
	c.Flags().StringVar(&w.Root, "root", "", "the generations below `DIR`")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`FORMAT`: text or json")
	return c
}

// countChanged returns the number of files that a generation changed.
func countChanged(c app.Chapter) (n int) {
	for _, f := range c.Files {
		if f.Action != string(generation.ActionNone) && f.Action != string(generation.ActionKeep) {
			n++
		}
	}
	return n
}

func isDamaged(c app.Chapter) bool { return c.Status == string(generation.StatusDamaged) }

// generationStatus returns the status for people; JSON has the store's own word.
func generationStatus(c app.Chapter) string {
	if c.Status == string(generation.StatusRolledBack) {
		return "rolled back"
	}
	return c.Status
}

// describeOrigin returns why a generation was made or left; "" for an ordinary one.
func describeOrigin(c app.Chapter) string {
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

func printChronicle(o io.Writer, c app.Chronicle) error {
	var b strings.Builder
	if len(c.Generations) == 0 {
		b.WriteString("There is no generation yet.\n")
	} else {
		fmt.Fprintf(&b, "  %4s  %-19s  %-11s  %7s\n", "", "time", "status", "changed")
	}
	for _, g := range slices.Backward(c.Generations) {
		mark := " "
		if g.Generation == c.InPlace {
			mark = "*"
		}
		line := fmt.Sprintf("%s %4d  %-19s  %-11s  %7d  %s", mark, g.Generation,
			g.Time.Local().Format(time.DateTime), generationStatus(g), countChanged(g), describeOrigin(g))
		if isDamaged(g) { // nothing else is known, and the reason takes more than a line
			line = fmt.Sprintf("%s %4d  %-19s  %-11s  %7s  prelet history --show %[2]d says why",
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
		fmt.Fprintf(&b, "\nGeneration %d was chosen by hand: %s.\n"+
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

func printChapter(o io.Writer, c app.Chapter) error {
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
