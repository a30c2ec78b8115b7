package booting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/report"
)

// nodeRun is a run, a verdict, a rollback or a recovery on this node, with what its publications read.
type nodeRun struct {
	*commit.Run
	env      *app.Env
	host     *app.Host
	planner  *planner      // nil without a plan
	isAgain  bool          // it adds to the report of an earlier process of this boot
	reported commit.Ending // if it is not how it ended: a verdict reports the failure of a run while its cause persists
	status   report.Status // as it was published; the zero value before, and if another process has reported it
}

// publication is something that follows a result.
type publication struct {
	name    string
	publish func(context.Context) error
	// isReport is set if it is of this process: it follows also a run that could not open the generations, but not one
	// whose process that took over has reported it.
	isReport bool
	code     fault.Code // a failure is a note with this code in the status and the journal; "": it is only printed
	failure  string     // what a failure means for the node
}

// publications returns what follows a result, in this order. A failure of one changes neither the result nor another
// publication. From "lock" on they wait for the cluster, with the lock free.
func (r *nodeRun) publications() []publication {
	return []publication{
		{"machine", r.keepMachine, false, "", "the marks of this machine are not kept"},
		{"programs", r.keepPrograms, false, fault.CannotWrite,
			"the next boot starts the kubelet's binary and reads the detectors again"},
		{"recording", r.keepRecording, false, fault.CannotWrite, "the recording for others could not be kept"},
		{"results of conditions", r.keepConditions, false, fault.NodeCondition,
			"conditions: the Node may keep those of an earlier boot"},
		{"console", r.printOnConsole, true, "", "the console has no line"},
		// Before the status: `status --wait` takes its end for that of the run.
		{"owed verdict", r.oweVerdict, false, "", "prelet-verify.service may not judge this boot"},
		{"status, journal, metrics", r.finish, true, "", "the status is not that of this run"},
		{"login", r.showAtLogin, true, "", "the console's login does not show this result"},
		{"last good", r.keepLastGood, false, "", "prelet-fallback.service uses an older list of files"},
		{"lock", r.unlock, false, "", "other commands wait until the end of this one"},
		{"annotations", r.annotate, false, fault.NodeDrift, "annotations"},
		{"event", r.sendEvent, false, fault.NodeDrift, "events: the Node does not have the last one"},
		{"conditions", r.deliver, false, "", "conditions"},
	}
}

// isLook reports whether a kubelet was only looked at that was judged before: the report is that of the run.
func (r *nodeRun) isLook() bool { return r.Report == nil }

// publish publishes the result.
func (r *nodeRun) publish(ctx context.Context) { r.publishAll(ctx, r.publications()) }

func (r *nodeRun) publishAll(ctx context.Context, all []publication) {
	if r.reported == (commit.Ending{}) {
		r.reported = commit.Ending{Code: r.Code, Summary: r.Summary}
	}
	isReported := r.Outcome.Overtaken && r.Report.IsOvertaken()
	for _, p := range all {
		if p.isReport && isReported || !p.isReport && r.Store == nil {
			continue
		}
		err := p.publish(ctx)
		switch {
		case err == nil:
		case p.code != "" && !r.isLook():
			r.env.SayError(r.Report.NoteAfterEnd(p.code, p.failure+": "+err.Error()))
		default:
			r.env.Say(p.failure + ": " + err.Error())
		}
	}
}

// keepMachine keeps this machine as the owner of its generations, after a run.
func (r *nodeRun) keepMachine(context.Context) error {
	if r.planner == nil {
		return nil
	}

	return commit.KeepMachine(r.Store, machineid.Of(r.host.Root), r.host.CertifiedNode, false)
}

// finish writes the status, the end of the run in the journal, and the metrics. A look at a kubelet that was judged
// before replaces a part of the status.
func (r *nodeRun) finish(context.Context) (err error) {
	h := r.host
	if !r.isLook() {
		r.status, err = r.Report.Finish(r.reported.Code, r.reported.Summary)
		return err
	}

	err = report.ReplaceVerified(h.RunDir, h.BootID, r.Code, r.env.Redactor.String(r.Summary))
	if s, loadErr := h.LoadReport(); loadErr == nil {
		r.status = *s
	}

	return err
}

// unlock lets other commands change the node. A look has done so before.
func (r *nodeRun) unlock(context.Context) error {
	if r.isLook() {
		return nil
	}

	return r.Store.Unlock()
}

// deliver patches the conditions that the Node may not have. Those of a verdict are owed since the run.
func (r *nodeRun) deliver(ctx context.Context) error {
	if !r.Off && !r.isAgain {
		settleConditions(ctx, r.env, r.host, r.Code != "")
	}

	return nil
}

// consoleLimit is the longest line for the console, in characters: three lines of 80 columns.
const consoleLimit = 240

// printOnConsole says on the console how a run ended that failed, unless the run before in this boot ended in the same
// way: where a node does not come up, nothing else may be readable.
func (r *nodeRun) printOnConsole(context.Context) error {
	h := r.host
	code := r.reported.Code
	if h.Console == nil || h.Self == app.ApplyUnit || code == "" || r.isLook() {
		return nil
	}
	summary := r.env.Redactor.String(r.reported.Summary)
	if s, err := h.LoadReport(); err == nil && s.BootID == h.BootID {
		if last := s.Result(); last.Code == code && last.Summary == summary {
			return nil
		}
	}

	return h.Console(describeFailure(h, code.Exit(), summary))
}

// describeFailure returns the line for the console after a failed run.
func describeFailure(h *app.Host, exit int, summary string) string {
	kubelet := "the kubelet may not start"
	if gen, open, err := h.Gate().State(); err == nil && open {
		kubelet = fmt.Sprintf("the kubelet starts on generation %d, which was in place", gen)
		if gen == 0 {
			kubelet = "the kubelet starts on the files that are there"
		}
	}

	return fitConsole(fmt.Sprintf("prelet failed (%d), %s: %s", exit, kubelet, summary))
}

// fitConsole returns a line for the console, with the next step.
func fitConsole(line string) string {
	const next = " (prelet status)"

	return printer.Cut(strings.Join(strings.Fields(line), " "), consoleLimit-len(next)) + next
}

const (
	// issueFile is in the run folder: agetty prints it above the console's login, by the link of
	// tmpfiles.d/prelet.conf.
	issueFile = "issue"
	// agettyReload is next to the run folder. A change of its times lets an agetty that waits print its prompt again.
	agettyReload = "agetty.reload"
)

// showAtLogin shows one line at the console's login while the gate is shut, the kubelet unhealthy or the boot degraded.
// A line on the console itself has scrolled out of view when somebody looks.
func (r *nodeRun) showAtLogin(context.Context) error {
	file := filepath.Join(r.host.RunDir, issueFile)
	was, _ := nodefile.ReadFile(file, nodefile.Max)
	line := r.describeForLogin()
	if line != "" {
		line = strings.ReplaceAll(line, `\`, `\\`) + "\n" // agetty expands \n, \4
	}
	if line == string(was) {
		return nil
	}

	write := func() error { return atomicfile.File(file, 0o644, []byte(line)) }
	if line == "" {
		write = func() error { return atomicfile.Remove(file) }
	}
	if err := write(); err != nil {
		return err
	}

	now := r.host.Clock.Now()
	err := os.Chtimes(filepath.Join(filepath.Dir(r.host.RunDir), agettyReload), now, now)
	if errors.Is(err, fs.ErrNotExist) { // no agetty waits
		return nil
	}

	return err
}

// describeForLogin returns the line for the console's login; "" for a boot that is good.
func (r *nodeRun) describeForLogin() string {
	h, s := r.host, r.status
	s.Verdict = "" // what is wrong already stays so, whatever the verdict is
	_, message := describeState(s)

	switch {
	case r.isLook() && r.Code != "":
		return fitConsole("prelet: " + r.env.Redactor.String(r.Summary))
	case s.State == report.Failed:
		return describeFailure(h, s.Exit, message)
	case h.Gate().IsShut():
		return fitConsole("prelet: the kubelet may not start: " + h.Gate().Reason())
	case s.State == report.Degraded:
		return fitConsole("prelet: degraded: " + message)
	}

	return ""
}
