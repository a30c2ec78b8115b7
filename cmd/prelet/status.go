package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
)

// imageWait is longer than a boot takes until its verdict, a rollback included (TimeoutStartSec= and RuntimeMaxSec= of
// the units). Then nothing is known about the image, so it stays.
const imageWait = 10 * time.Minute

func (a *cli) status() *cobra.Command {
	var w where
	var wait, long, image bool
	c := &cobra.Command{
		Use:     "status",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Show the last run and the state of the node",
		Long: `Shows how the last run of this boot ended, its generation and the verdict on it,
whether the kubelet may start, and why the node is degraded or held.
With --root it reads the report of another node's files, such as /host in a debug container.

Exit status 0 ok, 1 failed, 2 degraded (the kubelet may start, but not as the site says),
3 not run in this boot, or still running, the wait for the verdict on the kubelet included.

With --image it shows whether the image of this boot works: exit status 1 if the kubelet, the
site or prelet does not work with it, 0 if it works or if nothing is known. An unreachable
cluster does not give an image back.`,
		Example: "  prelet status\n  prelet status --wait && kubectl uncordon node17\n" +
			"  prelet status --root /host -o json\n  prelet status --wait --image",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			if image {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, imageWait)
				defer cancel()
			}
			var shown []string // rows, before the generations were read
			show := func(s inspect.NodeStatus) error {
				for _, text := range []*string{&s.Problem, &s.Interrupted, &s.Lost, &s.SetAside} {
					*text = a.nameRoot(*text)
				}

				if w.output.isJSON() {
					return a.printJSON(s)
				}

				var text strings.Builder
				if err := a.view(&text, "status", struct {
					inspect.NodeStatus
					Long bool
				}{s, long}); err != nil {
					return err
				}
				added := addRows(&shown, text.String())
				return a.print(func(w io.Writer) error {
					_, err := io.WriteString(w, added)
					return err
				})
			}
			var early func(inspect.NodeStatus)
			if !wait && !image && !w.output.isJSON() {
				early = func(s inspect.NodeStatus) { _ = show(s) } // the last one has the error
			}
			s, err := inspect.Status(ctx, a.env(), w.Root, wait, early)
			if err != nil {
				return err
			}

			if image {
				return a.printImageVerdict(inspect.FindImageVerdict(s), w.output)
			}
			if err := show(s); err != nil {
				return err
			}
			return exit(s.StatusExit)
		}),
	}
	w.addStateFlags(c)
	c.Flags().
		BoolVar(&wait, "wait", false, "wait until the run has ended and its generation has been judged")
	c.Flags().BoolVar(&image, "image", false, "only whether the image of this boot works")
	c.MarkFlagsMutuallyExclusive("image", "root")
	c.Flags().BoolVar(&long, "long", false, "more: the stages and their times")
	return c
}

// addRows returns the rows of a text that are not shown yet, and adds them. A line that begins with a space continues a
// row.
func addRows(shown *[]string, text string) string {
	var rows []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") && len(rows) > 0 {
			rows[len(rows)-1] += line
			continue
		}
		rows = append(rows, line)
	}
	rows = slices.DeleteFunc(rows, func(row string) bool { return slices.Contains(*shown, row) })
	*shown = append(*shown, rows...)

	return strings.Join(rows, "")
}

// printImageVerdict prints whether the image of this boot may stay. Exit status 1 gives it back.
func (a *cli) printImageVerdict(v inspect.ImageVerdict, output format) error {
	status, word := 0, "works"
	if !v.Keep {
		status, word = 1, "does not work"
	}

	if output.isJSON() {
		return cmp.Or(a.printJSON(v), exit(status))
	}

	err := a.print(func(o io.Writer) error {
		_, err := fmt.Fprintln(o, printer.Reflow("The image "+word+": "+v.Why, a.width()))
		return err
	})

	return cmp.Or(err, exit(status))
}
