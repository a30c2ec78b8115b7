package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
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
		RunE: stoppable(func(c *cobra.Command, _ []string) error {
			past, err := inspect.ReadHistory(c.Context(), a.env(), w.Root)
			if err != nil {
				return err
			}
			return a.show(w.output.isJSON(), "history", past)
		}),
	}
	c.AddCommand(a.historyShow(), a.historyDiff())
	w.addStateFlags(c)
	return c
}

func (a *cli) historyShow() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "show N",
		Args:  requireArgs(1, "the number of a generation; prelet history lists them"),
		Short: "Show what a generation did to each file",
		Long: `Shows the status of generation N, why it was made, and what it did to each file.
prelet history diff shows what it changed in the node, and why.`,
		Example: "  prelet history show 12\n  prelet history show 12 -o json",
		RunE: stoppable(func(c *cobra.Command, args []string) error {
			n, err := parseGeneration(args[0])
			if err != nil {
				return err
			}
			one, err := inspect.Generation(c.Context(), a.env(), w.Root, n)
			if err != nil {
				return err
			}
			return a.show(w.output.isJSON(), "generation", one)
		}),
	}
	w.addStateFlags(c)
	return c
}

// historyDiff compares two generations.
func (a *cli) historyDiff() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "diff A [B]",
		Args:  requireArgs(2, "one or two numbers of generations; prelet history lists them"),
		Short: "Show what changed between two generations, and why",
		Long: `Compares generation A with generation B, or with the one in place:
labels, taints, flags, each field of the kubelet's configuration, each file.
Below it is what changed before: lines of the site, variables, objects of the cluster, hardware,
the kubelet's version, prelet's version.
A change names the causes that it depends on, as far as they are known.
Contents with a secret are never shown.
What a generation does not have, as a plan after a rollback to 0, is named, and the rest is compared.`,
		Example: "  prelet history diff 11\n  prelet history diff 11 12 -o json",
		RunE: stoppable(func(c *cobra.Command, args []string) error {
			numbers := []int{0, inspect.InPlace}
			for i, text := range args {
				n, err := parseGeneration(text)
				if err != nil {
					return err
				}
				numbers[i] = n
			}

			d, err := inspect.HistoryDiff(c.Context(), a.env(), w.Root, numbers[0], numbers[1])
			if err != nil {
				return err
			}
			return printResult(a, w.output.isJSON(), d, printer.ComparisonText)
		}),
	}
	w.addStateFlags(c)
	return c
}

// parseGeneration returns the number of a generation that an argument names.
func parseGeneration(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n == 0 {
		return 0, fault.Usage.Errorf("0 is the state before prelet, which has no plan; " +
			"prelet history show 1 lists what generation 1 changed in it")
	}
	if err != nil || n < 1 {
		return 0, fault.Usage.Errorf("%q is not a number of a generation; prelet history lists them", text)
	}
	return n, nil
}
