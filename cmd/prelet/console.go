package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) console() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "console",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Evaluate expressions, line by line",
		Long: `Reads one expression from each line of standard input, and evaluates it as eval does, over this node or a
recorded one. It looks at the node once: start it again to see what has changed since. After a failure of the site,
and over a folder of recordings, each line looks again.
Empty lines and lines that begin with # are skipped; exit or Ctrl-D ends it.
For a history and the arrow keys, run it as "rlwrap prelet console".

An error in a line is printed and the next line is read.
The exit status is that of the first line with an error.`,
		Example: "  prelet console --from node17.prelet --config ./site\n" +
			"  echo 'node.labels' | prelet console",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			return a.runConsole(ctx, w)
		}),
	}
	a.addRecordedFlags(c, &w)
	w.output.addFlag(c, "text", "json")
	return c
}

// runConsole evaluates the lines of standard input until it ends.
func (a *cli) runConsole(ctx context.Context, w where) error {
	session := &planning.Session{Env: a.env(), Request: w.Request}
	defer session.Close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lang.MaxBytes+1)

	var failed fault.Code
	for {
		text, isEnd, err := readLine(ctx, lines)
		switch {
		case err != nil:
			return err
		case isEnd, text == "exit":
			a.printed = true // each line has its document

			return quit(failed)
		case text == "", strings.HasPrefix(text, "#"):
			continue
		}

		x := toExitError(a.evaluate(ctx, session, text, w.output.isJSON()))
		if failed == "" {
			failed = x.code
		}
		a.printError(x)
		if x.code != "" && !a.printed && w.output.isJSON() {
			if err := a.printJSON(a.failureDocument("", x)); err != nil {
				return err
			}
		}
		a.printed = false

		if session.Env.GaveUp.Load() { // that evaluation goes on until this process ends
			a.printed = true

			return quit(failed)
		}
	}
}

// readLine returns the next line without spaces around it. A read cannot be stopped: after a signal its result is not
// received.
func readLine(ctx context.Context, lines *bufio.Scanner) (text string, isEnd bool, err error) {
	more := make(chan bool, 1)
	go func() { more <- lines.Scan() }()

	select {
	case <-ctx.Done():
		return "", false, fault.Interrupted.Errorf("stopped by a signal: %s", context.Cause(ctx))
	case isLine := <-more:
		if errors.Is(lines.Err(), bufio.ErrTooLong) {
			return "", false, fault.Usage.Errorf("a line of standard input is longer than %d KiB", lang.MaxBytes>>10)
		}
		if lines.Err() != nil {
			return "", false, fault.Usage.Errorf("standard input cannot be read: %s", lines.Err())
		}
		return strings.TrimSpace(lines.Text()), !isLine, nil
	}
}
