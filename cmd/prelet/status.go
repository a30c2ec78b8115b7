package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/report"
)

func (a *cli) status() *cobra.Command {
	var output string
	var wait, long bool
	c := &cobra.Command{Use: "status", GroupID: "node", Args: noArgument, Short: "Show what the last run did, and how the node stands",
		Long: "Exit status 0 ok, 1 failed, 2 degraded (done, but not as the site says), 3 not run in this boot, or still running:\n" +
			"the verdict on the kubelet is awaited.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := (&where{output: output}).json()
			if err != nil {
				return err
			}
			ctx, stop := stoppable(c.Context())
			defer stop()
			s, err := a.env().Status(ctx, wait)
			if err != nil {
				return err
			}
			if asJSON {
				if err := a.printJSON(s); err != nil {
					return err
				}
			} else if err := a.print(func(o io.Writer) error { return statusText(o, s, long) }); err != nil {
				return err
			}
			return exit(s.Code)
		}}
	c.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the run has ended and its generation has been judged")
	c.Flags().BoolVar(&long, "long", false, "the stages and their times as well")
	return c
}

// judged is the last verdict: this boot's, or the one that the generation has kept since an earlier one.
func judged(s app.Standing) string {
	switch verdict := cmp.Or(s.Verdict, s.Kept); verdict {
	case "":
		return ""
	case "pending":
		return ", not judged yet: prelet-verify does that once the kubelet has started"
	case "unknown":
		return ", not judged: it could not be told whether the kubelet is well"
	case string(generation.StatusRestored):
		return ", not judged: it came by going back"
	default:
		return " (" + verdict + ")"
	}
}

func statusText(o io.Writer, s app.Standing, long bool) error {
	var b strings.Builder
	const indent, columns = 12, 80
	row := func(name, format string, args ...any) {
		for i, line := range strings.Split(present.Reflow(fmt.Sprintf(format, args...), columns-indent), "\n") {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%-*s%s\n", indent, name, line)
		}
	}
	switch {
	case s.State == "":
		row("prelet", "has not run on this node (systemctl status %s; of runs with --root: prelet history --root DIR)", app.BootUnit)
	case !s.ThisBoot:
		row("prelet", "has not run in this boot; what follows is of an earlier one")
	default:
		row("prelet", "%s", s.State)
	}
	if s.Summary != "" {
		row("last run", "%s", s.Summary)
	}
	if s.Exit != 0 {
		row("", "exit status %d; journalctl -u %s has the messages", s.Exit, app.BootUnit)
	}
	if s.Generation > 0 {
		row("generation", "%d%s", s.Generation, judged(s))
		if s.Why != "" {
			row("", "%s", s.Why)
		}
	}
	switch {
	case s.Gate.Open && s.Gate.Generation > 0:
		row("kubelet", "may start, on generation %d", s.Gate.Generation)
	case s.Gate.Open:
		row("kubelet", "may start")
	case s.Gate.Why != "":
		row("kubelet", "may not start: %s", s.Gate.Why)
	default:
		row("kubelet", "may not start: prelet has not finished a run in this boot")
	}
	if s.Interrupted != "" {
		row("stopped", "%s", s.Interrupted)
	}
	if s.Held != nil {
		row("held", "%s", s.Held.Why)
	}
	name := "degraded"
	for _, d := range s.Degraded {
		if s.Held != nil && d.Summary == s.Held.Why {
			continue
		}
		row(name, "%s: %s", d.Code, d.Summary)
		name = ""
	}
	name = "note"
	for _, n := range s.Notes {
		row(name, "%s: %s", n.Code, n.Summary)
		name = ""
	}
	if s.Finished != nil {
		row("ended", "%s, after %s", s.Finished.Local().Format(time.DateTime), s.Finished.Sub(s.Started).Round(time.Millisecond))
	} else if s.State == report.Running {
		row("begun", "%s", s.Started.Local().Format(time.DateTime))
	}
	if long {
		b.WriteString("\n")
		for _, x := range s.Stages {
			fmt.Fprintf(&b, "%-32s %-8s %6d ms\n", x.Address, x.State, x.Millis)
		}
	}
	_, err := io.WriteString(o, b.String())
	return err
}
