package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) console() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "console",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Evaluate expressions, line by line",
		Long: `Reads one expression from each line of standard input, over this node or a recorded one,
and shows its value, its type and where its parts come from, as eval does.
The node is planned once; before an expression needs the plan, only the stages that expressions need run.
Empty lines and lines that begin with # are skipped; exit or Ctrl-D ends it.
On a terminal it has a history, the arrow keys, and Ctrl-C empties the line.

An error in a line is printed and the next line is read.
The exit status is that of plan if the site fails on this node;
else 64 if a line had an error and standard input is not a terminal.`,
		Example: "  prelet console --from node17.prelet --config ./site\n" +
			"  echo 'node.labels' | prelet console",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := stopOnSignal(c.Context())
			defer stop()

			console, err := a.env().OpenOneConsole(ctx, w.Where)
			if err != nil {
				return err
			}
			defer console.Close()

			if console.Plan.Eval == nil {
				return refuse(console.Plan.Site, console.Plan.Diagnostics)
			}
			return a.runConsole(ctx, console, w.output.isJSON())
		},
	}
	w.addRecordedFlags(c)
	w.output.addFlag(c, "text", "json")
	return c
}

// runConsole evaluates the lines of standard input until it ends.
func (a *cli) runConsole(ctx context.Context, console *app.Console, asJSON bool) error {
	a.printPlanErrors(console.Plan)
	in := a.openLines()

	isFailed := false
	for {
		line, err := in.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if in.isTerminal() {
				fmt.Fprintln(a.stderr) // after the prompt
			}
			return a.endConsole(console, isFailed && !in.isTerminal())
		case err != nil:
			return err
		}

		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if line == "exit" {
			return a.endConsole(console, isFailed && !in.isTerminal())
		}
		before := console.Plan
		x := console.Evaluate(ctx, line)
		if x.Plan != before {
			a.printPlanErrors(x.Plan)
		}
		isFailed = isFailed || x.Err != nil
		if err := a.showLine(x, asJSON); err != nil {
			return err
		}
		if console.GaveUp() { // that evaluation goes on until this process ends
			return a.endConsole(console, true)
		}
	}
}

// printPlanErrors prints why the site failed on this node, if it did.
func (a *cli) printPlanErrors(p *boot.Plan) {
	if p.Diagnostics.HasErrors() {
		a.printDiagnostics(p.Site, printer.Sorted(p.Diagnostics))
	}
}

// endConsole returns how a console ends.
func (a *cli) endConsole(console *app.Console, isFailed bool) error {
	code := console.Code()
	if code == "" && isFailed {
		code = fault.Usage
	}
	return quit(code)
}

// showLine prints the value of one line, or its error.
func (a *cli) showLine(x app.Evaluated, asJSON bool) error {
	failed := toExitError(x.Err)
	switch {
	case asJSON && x.Err != nil:
		return a.printDocument(func(o io.Writer) error {
			return failureJSON(o, "", failed)
		})
	case asJSON:
		return a.printDocument(func(o io.Writer) error {
			return printer.EvaluationJSON(o, x.Evaluation, "", nil)
		})
	case x.Err != nil:
		a.printDiagnostics(failed.site, failed.diags)
		return nil
	}

	a.printDiagnostics(x.Plan.Site, printer.Sorted(x.Diagnostics))
	err := a.print(func(o io.Writer) error {
		return printer.EvaluationText(o, x.Evaluation, printer.StyleOf(a.stdout, a.getenv))
	})
	if len(x.Chain) > 0 {
		fmt.Fprintln(a.stdout)
	}

	return err
}

// lines are the lines of standard input. On a terminal they can be edited and have a history. The terminal is in raw
// mode only while a line is read, so that output needs no care.
type lines struct {
	plain    *bufio.Reader
	terminal *term.Terminal // nil: standard input is not a terminal
}

// openLines opens standard input. There is a prompt if standard error is a terminal as well.
func (a *cli) openLines() *lines {
	if !term.IsTerminal(int(os.Stdin.Fd())) || !printer.IsTerminal(a.stderr) {
		return &lines{plain: bufio.NewReaderSize(os.Stdin, lang.MaxBytes+1)}
	}

	fmt.Fprintln(a.stderr, "One expression in each line; exit or Ctrl-D ends it.")
	screen := struct {
		io.Reader
		io.Writer
	}{dropLines{os.Stdin}, os.Stderr}

	terminal := term.NewTerminal(screen, "> ")
	columns, rows, err := term.GetSize(int(os.Stdin.Fd()))
	if err == nil && columns > 0 { // a serial console has no size: a long line is broken at 80 columns
		_ = terminal.SetSize(columns, rows)
	}

	return &lines{terminal: terminal}
}

// dropLines reads keys of a terminal in raw mode. Ctrl-C is read as Ctrl-E Ctrl-U, which empties the line: the terminal
// itself takes Ctrl-C for the end of the input.
type dropLines struct{ keys io.Reader }

// Read implements io.Reader.
func (d dropLines) Read(buffer []byte) (int, error) {
	n, err := d.keys.Read(buffer[:(len(buffer)+1)/2])
	text := bytes.ReplaceAll(buffer[:n], []byte{'C' - '@'}, []byte{'E' - '@', 'U' - '@'})

	return copy(buffer, text), err
}

func (l *lines) isTerminal() bool { return l.terminal != nil }

// next returns the next line; io.EOF after the last one.
func (l *lines) next(ctx context.Context) (string, error) {
	read := l.readPlain
	if l.isTerminal() {
		in := int(os.Stdin.Fd())
		before, err := term.MakeRaw(in)
		if err != nil {
			return "", failure(fault.Usage, "the terminal cannot be used: %s", err)
		}
		defer func() { _ = term.Restore(in, before) }()
		read = l.terminal.ReadLine
	}

	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1) // a read cannot be stopped: after a signal its result is not received
	go func() {
		line, err := read()
		done <- result{line, err}
	}()

	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", failure(fault.Interrupted, "stopped by a signal: %s", context.Cause(ctx))
	}
}

func (l *lines) readPlain() (string, error) {
	line, err := l.plain.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", failure(fault.Usage, "a line of standard input is longer than %d KiB", lang.MaxBytes>>10)
	case errors.Is(err, io.EOF) && len(line) > 0:
		return string(line), nil
	case errors.Is(err, io.EOF):
		return "", io.EOF
	case err != nil:
		return "", failure(fault.Usage, "standard input cannot be read: %s", err)
	}

	return string(line), nil
}
