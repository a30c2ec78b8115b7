package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/report"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) status() *cobra.Command {
	var output string
	var wait, long bool
	c := &cobra.Command{
		Use: "status", GroupID: "node", Args: refuseArguments,
		Short: "Show what the last run did, and how the node stands",
		Long: "Exit status 0 ok, 1 failed, 2 degraded (done, but not as the site says), 3 not run in this boot, or " +
			"still running:\n" +
			"the verdict on the kubelet is awaited.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := (&where{output: output}).isJSON()
			if err != nil {
				return err
			}
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			s, err := a.env().Status(ctx, wait)
			if err != nil {
				return err
			}

			if asJSON {
				err = a.printJSON(newStatusDocument(s))
			} else {
				err = a.print(func(o io.Writer) error { return printStatus(o, s, long) })
			}
			if err != nil {
				return err
			}
			return exit(statusExit(s.Condition))
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the run has ended and its generation has been judged")
	c.Flags().BoolVar(&long, "long", false, "the stages and their times as well")
	return c
}

// statusDocument is the document of `status -o json`: status.json with the state of the node at this moment.
type statusDocument struct {
	*report.Status
	Gate struct {
		Open       bool   `json:"open"`
		Generation int    `json:"generation"`
		Why        string `json:"why,omitempty"`
	} `json:"gate"`
	Exit        int    `json:"status_exit"` // of this command
	Interrupted string `json:"interrupted,omitempty"`
	Lost        string `json:"lost,omitempty"`        // that the generation in place was lost
	Problem     string `json:"problem,omitempty"`     // why there is no report of the last run
	NotStarted  string `json:"not_started,omitempty"` // why systemd could not start prelet.service
}

func newStatusDocument(s app.Standing) statusDocument {
	d := statusDocument{Status: s.Status, Exit: statusExit(s.Condition), Interrupted: s.Interrupted, Lost: s.Lost, Problem: s.Problem, NotStarted: s.NotStarted}
	d.Gate.Open, d.Gate.Generation, d.Gate.Why = s.Gate.Open, s.Gate.Generation, s.Gate.Why

	return d
}

// statusExit returns the exit status of `prelet status`, whose exit statuses are its own.
func statusExit(c app.Condition) int {
	switch c {
	case app.Healthy:
		return 0
	case app.Degraded:
		return 2
	case app.Unfinished:
		return 3
	}
	return 1
}

// describeVerdict returns the last verdict: that of this boot, or the one that is stored with the generation.
func describeVerdict(s app.Standing) string {
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

// printStatus prints a status in rows of a name and a text; with long, the stages as well.
func printStatus(o io.Writer, s app.Standing, long bool) error {
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
	case s.Problem != "":
		row("prelet", "%s", s.Problem)
	case s.State == "":
		row("prelet", "has not run on this node (systemctl status %s; of runs with --root: prelet history --root DIR)",
			app.BootUnit)
	case !s.ThisBoot:
		row("prelet", "has not run in this boot; what follows is of an earlier one")
	default:
		row("prelet", "%s", s.State)
	}
	if s.NotStarted != "" {
		row("systemd", "%s", s.NotStarted)
	}
	if s.Summary != "" {
		row("last run", "%s", s.Summary)
	}
	if s.Exit != 0 {
		row("", "exit status %d; journalctl -u %s has the messages", s.Exit, app.BootUnit)
	}
	if s.Generation > 0 {
		row("generation", "%d%s", s.Generation, describeVerdict(s))
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
	if s.Lost != "" && s.Gate.Why != s.Lost {
		row("lost", "%s", s.Lost)
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
		row("ended", "%s, after %s", s.Finished.Local().Format(time.DateTime),
			s.Finished.Sub(s.Started).Round(time.Millisecond))
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
