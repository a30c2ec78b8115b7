package main

import (
	"cmp"
	"context"
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

// imageWait is longer than a boot takes until its verdict, a rollback included (TimeoutStartSec= and RuntimeMaxSec= of
// the units). Then nothing is known about the image, so it stays.
const imageWait = 10 * time.Minute

func (a *cli) status() *cobra.Command {
	var output format
	var root string
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
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			if image {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, imageWait)
				defer cancel()
			}
			s, err := a.env().Status(ctx, root, wait)
			if err != nil {
				return err
			}

			if image {
				return a.printImageVerdict(app.JudgeImage(s), output)
			}
			if output.isJSON() {
				err = a.printJSON(newStatusDocument(s))
			} else {
				err = a.print(func(o io.Writer) error {
					return printStatus(o, s, long, a.width())
				})
			}
			if err != nil {
				return err
			}
			return exit(statusExit(s.Condition))
		},
	}
	addRootFlag(c, &root)
	output.addFlag(c, "text", "json")
	c.Flags().
		BoolVar(&wait, "wait", false, "wait until the run has ended and its generation has been judged")
	c.Flags().BoolVar(&image, "image", false, "only whether the image of this boot works")
	c.MarkFlagsMutuallyExclusive("image", "root")
	c.Flags().BoolVar(&long, "long", false, "more: the stages and their times")
	return c
}

// printImageVerdict prints whether the image of this boot may stay. Exit status 1 gives it back.
func (a *cli) printImageVerdict(v app.ImageVerdict, output format) error {
	status, word := 0, "works"
	if !v.Keep {
		status, word = 1, "does not work"
	}

	var err error
	if output.isJSON() {
		err = a.printJSON(v)
	} else {
		err = a.print(func(o io.Writer) error {
			_, err := fmt.Fprintln(o, printer.Reflow("The image "+word+": "+v.Why, a.width()))
			return err
		})
	}
	if err != nil {
		return err
	}

	return exit(status)
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
	Problem     string `json:"problem,omitempty"`     // why the last run's report cannot be read
	Failing     string `json:"failing,omitempty"`     // how the kubelet's unit fails
	NotStarted  string `json:"not_started,omitempty"` // why prelet.service could not start, or dies at each try
}

func newStatusDocument(s app.NodeStatus) statusDocument {
	d := statusDocument{
		Status:      s.Status,
		Exit:        statusExit(s.Condition),
		Interrupted: s.Interrupted,
		Lost:        s.Lost,
		Problem:     s.Problem,
		Failing:     s.Failing,
		NotStarted:  s.NotStarted,
	}
	d.Gate.Open = s.Gate.Open
	d.Gate.Generation = s.Gate.Generation
	d.Gate.Why = s.Gate.Why

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

// describeVerdict returns the last verdict: that of this boot, or the stored one of the generation.
func describeVerdict(s app.NodeStatus) string {
	switch verdict := cmp.Or(s.Verdict, s.Kept); verdict {
	case "":
		return ""
	case "pending":
		return ", not judged yet: prelet-verify does that once the kubelet has started"
	case "unknown":
		return ", not judged: whether the kubelet is healthy is not known"
	case string(generation.StatusRestored):
		return ", not judged: a rollback restored it"
	default:
		return " (" + verdict + ")"
	}
}

// rows is text in rows of a name and a text, wrapped at a width.
type rows struct {
	strings.Builder
	width int // in columns
}

// add adds a row. Further lines of its text have no name.
func (r *rows) add(name, format string, args ...any) {
	const indent = 12

	text := printer.Reflow(fmt.Sprintf(format, args...), r.width-indent)
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(r, "%-*s%s\n", indent, name, line)
	}
}

// addSet adds a row unless text is "".
func (r *rows) addSet(name, text string) {
	if text != "" {
		r.add(name, "%s", text)
	}
}

// printStatus prints a status in rows of a name and a text; with long, the stages as well.
func printStatus(o io.Writer, s app.NodeStatus, long bool, width int) error {
	b := rows{width: width}
	b.addRun(s)
	b.addGate(s)

	if s.Lost != s.Gate.Why {
		b.addSet("lost", s.Lost)
	}
	b.addSet("stopped", s.Interrupted)

	b.addNotes(s)

	if s.Finished != nil {
		took := s.Finished.Sub(s.Started).Round(time.Millisecond)
		b.add("ended", "%s, after %s", s.Finished.Local().Format(time.DateTime), took)
	} else if s.State == report.Running {
		b.add("begun", "%s", s.Started.Local().Format(time.DateTime))
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

// addRun adds the last run and its generation.
func (r *rows) addRun(s app.NodeStatus) {
	switch {
	case s.Problem != "":
		r.add("prelet", "%s", s.Problem)
	case s.Begun != "":
		r.add("prelet", "%s", s.Begun)
	case s.State == "":
		r.add(
			"prelet",
			"has not run on this node (systemctl status %s; of runs with --root: prelet history --root DIR)",
			app.BootUnit,
		)
	case !s.ThisBoot:
		r.add("prelet", "has not run in this boot; what follows is of an earlier one")
	case s.State == report.Failed && s.Condition == app.Degraded:
		r.add("prelet", "degraded: the run failed, and the generation in place stays")
	default:
		r.add("prelet", "%s", s.State)
	}

	r.addSet("systemd", s.NotStarted)
	r.addSet("kubelet", s.Failing)
	r.addSet("last run", s.Summary)
	switch {
	case s.Exit != 0 && s.Unit != "":
		r.add("", "exit status %d; journalctl -u %s has the messages", s.Exit, s.Unit)
	case s.Exit != 0:
		r.add("", "exit status %d; if it did not print the messages, journalctl -u 'prelet*' has them", s.Exit)
	}

	if s.Generation > 0 {
		r.add("generation", "%d%s", s.Generation, describeVerdict(s))
		r.addSet("", s.Why)
	}
}

// addGate adds whether the kubelet may start.
func (r *rows) addGate(s app.NodeStatus) {
	switch {
	case s.Gate.Open && s.Gate.Generation > 0:
		r.add("kubelet", "may start, on generation %d", s.Gate.Generation)
	case s.Gate.Open:
		r.add("kubelet", "may start")
	case s.Gate.Why != "":
		r.add("kubelet", "may not start: %s", s.Gate.Why)
	case s.Problem != "": // below a root without a run folder
		r.add("kubelet", "whether it may start is not known: the gate is in memory, as the report is")
	default:
		r.add("kubelet", "may not start: prelet has not finished a run in this boot")
	}
}

// addNotes adds the held plan, the reasons for a degraded boot and the notes.
func (r *rows) addNotes(s app.NodeStatus) {
	if s.Held != nil {
		r.add("held", "%s", s.Held.Why)
	}

	name := "degraded"
	for _, d := range s.Degraded {
		if s.Held != nil && d.Summary == s.Held.Why {
			continue
		}
		r.add(name, "%s: %s", d.Code, d.Summary)
		name = ""
	}

	name = "note"
	for _, n := range s.Notes {
		r.add(name, "%s: %s", n.Code, n.Summary)
		name = ""
	}
}
