package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
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
			h := a.env().Host(ctx)
			defer h.Units.Close()
			s, err := a.standing(ctx, h, wait)
			if err != nil {
				return err
			}
			if asJSON {
				if err := a.printJSON(s); err != nil {
					return err
				}
			} else if err := a.print(func(o io.Writer) error { return statusText(o, h, s, long) }); err != nil {
				return err
			}
			return exit(s.Code)
		}}
	c.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the run has ended and its generation has been judged")
	c.Flags().BoolVar(&long, "long", false, "the stages and their times as well")
	return c
}

// standing is what `status -o json` prints: status.json, with what only this moment can tell.
type standing struct {
	*report.Status
	Gate struct {
		Open       bool   `json:"open"`
		Generation int    `json:"generation"`
		Why        string `json:"why,omitempty"` // it is shut
	} `json:"gate"`
	Code int `json:"status_exit"` // of this command

	Interrupted string `json:"interrupted,omitempty"` // a commit whose writer is gone, and what to do

	kept string // what the generations know of the one in place; "" for who may not read them
}

// judged is the last verdict: this boot's, or the one that the generation has kept since an earlier one.
func (s standing) judged() string {
	switch verdict := cmp.Or(s.Verdict, s.kept); verdict {
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

const (
	statusEvery = 200 * time.Millisecond
	idleLooks   = 25 // in a row: longer than systemd takes to start what was killed again (RestartSec=)
)

func (a *cli) standing(ctx context.Context, h *app.Host, wait bool) (standing, error) {
	for idle := 0; ; {
		var out standing
		s, err := report.Load(h.RunDir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Status, out.Code = &report.Status{FormatVersion: report.FormatVersion, Degraded: []report.Reason{}, Stages: []report.Stage{}}, 3
		case err != nil:
			return out, failure(fault.Internal, "%s", err)
		default:
			out.Status, out.Code = s, statusExit(s.InBoot(h.BootID))
		}
		gen, open, err := h.Gate().State()
		if err != nil {
			return out, failure(fault.Internal, "%s", err)
		}
		out.Gate.Open = open
		if open {
			out.Gate.Generation = gen
		} else {
			out.Gate.Why = h.Gate().Why()
		}
		out.kept, out.Interrupted = kept(h, out.Generation)
		if out.Interrupted != "" {
			out.Code = max(out.Code, 1)
		}
		if !wait || out.Code != 3 && out.Verdict != "pending" && out.Interrupted == "" {
			return out, nil
		}
		if idle++; !isIdle(ctx, h, out) {
			idle = 0
		} else if idle >= idleLooks {
			a.complain("nobody is going to judge it: no unit of prelet is at work, and the kubelet does not start")
			return out, nil
		}
		if h.Clock.Sleep(ctx, statusEvery) != nil {
			return out, nil // as it stands when somebody has waited long enough
		}
	}
}

// isIdle says whether nothing is under way that a wait could see the end of: the run has ended, or its writer is gone.
func isIdle(ctx context.Context, h *app.Host, s standing) bool {
	if s.State == report.Running && s.Interrupted == "" {
		return false
	}
	for _, name := range []string{app.BootUnit, app.ApplyUnit, app.VerifyUnit} {
		u, err := h.Units.Look(ctx, name)
		ended := u.Active == "inactive" || u.Active == "failed" || u.Load == "not-found" || name == app.BootUnit && u.Active == "active" // for as long as the boot
		if err != nil || u.Job != 0 || !ended {
			return false
		}
	}
	if s.Interrupted != "" { // nobody stands between that and the kubelet
		return true
	}
	u, err := h.Units.Look(ctx, activate.DefaultUnit)
	return err == nil && u.Job == 0 && u.Load != "not-found" && (u.Active == "inactive" || u.Active == "failed")
}

// kept is the status of a generation, and what was interrupted, as far as this user may know.
func kept(h *app.Host, gen int) (status, interrupted string) {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return "", ""
	}
	defer store.Close()
	if j := store.Abandoned(); j != nil {
		interrupted = fmt.Sprintf("whoever put generation %d in place is gone, in the middle of it; prelet recover finishes it, if no unit of prelet does", j.Gen)
	}
	cur, err := store.Current()
	if err != nil || cur == nil || cur.Gen != gen {
		return "", interrupted
	}
	return string(cur.Status), interrupted
}

func statusText(o io.Writer, h *app.Host, s standing, long bool) error {
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
	case s.BootID != h.BootID:
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
		row("generation", "%d%s", s.Generation, s.judged())
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

// statusExit is the exit status of `prelet status`, which has statuses of its own.
func statusExit(state string) int {
	switch state {
	case report.OK:
		return 0
	case report.Degraded:
		return 2
	case report.Running:
		return 3
	}
	return 1
}
