package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// nodeRun is a run, a verdict, a rollback or a recovery on this node, with what its publications read.
type nodeRun struct {
	*commit.Run
	kind     kinds
	env      *machine.Env
	found    report.Drift   // of a check between boots
	checked  *report.Status // the last run, which that check follows
	host     *machine.Host
	where    *machine.Where // of a run that plans; nil: it does not
	node     *machine.Node  // of the last plan; nil: there is none
	isAgain  bool           // it adds to the report of an earlier process of this boot
	needsRun bool           // only a run helps where a verdict keeps the gate shut
	tries    conditionTries
	// owesAnnotations: the Node did not get them, and may get them after the tries of the conditions.
	owesAnnotations bool
	reported        commit.Ending // of a run whose failure a verdict reports while its cause persists
	before          report.Status // the last result of this boot before this one; the zero value if there is none
	status          report.Status // as it was published; the zero value before, and if another process has reported it
}

// kinds is a set of kinds of results.
type kinds int

const (
	ofRun       kinds = 1 << iota
	ofOvertaken       // of a run whose process that took over has reported it
	ofUnopened        // of a run that could not open the generations
	ofLook            // of a look at a kubelet that was judged before: the report is that of the run
	ofNothing         // nothing was judged
	ofRoot            // of a run below a root, where no unit runs
	ofCheck           // of a check between boots
	ofTry             // of another try of what this process has published before
	ofRelease         // of a release by hand: the report is that of the run
)

// publication is something that follows a result.
type publication struct {
	name    string
	publish func(*nodeRun, context.Context) error
	follows kinds
	code    fault.Code // a failure is a note with this code in the status and the journal; "": it is only printed
	failure string     // what a failure means for the node
}

// errNotTried is that of a publication that another process tries: its note stays.
var errNotTried = errors.New("not tried")

// publications returns what follows a result, in this order. A failure of one changes neither the result nor another
// publication. From "lock" on they wait for the cluster, with the lock free.
func publications() []publication {
	const (
		opened   = ofRun | ofOvertaken
		reported = ofRun | ofUnopened
	)

	return []publication{
		{"machine", (*nodeRun).keepMachine, opened | ofRoot, "", "the marks of this machine are not kept"},
		{"programs", (*nodeRun).keepPrograms, opened | ofRoot, fault.CannotWrite,
			"the next boot starts the kubelet's binary and reads the detectors again"},
		{"recording", (*nodeRun).keepRecording, opened, fault.CannotWrite,
			"the recording for others could not be kept"},
		{"results of conditions", (*nodeRun).keepConditions, opened, fault.NodeCondition,
			"conditions: the Node may keep those of an earlier boot"},
		{"console", (*nodeRun).printOnConsole, reported, "", "the console has no line"},
		// Before the status: `status --wait` takes its end for that of the run.
		{"owed verdict", (*nodeRun).oweVerdict, opened | ofLook, "", "prelet-verify.service may not judge this boot"},
		{"journal", (*nodeRun).finish, reported, "", "the journal does not have the result"},
		{"status", (*nodeRun).writeStatus, reported | ofLook | ofRelease, "", "the status is not that of this run"},
		{"change", (*nodeRun).logChange, reported | ofLook | ofRelease, "",
			"the journal does not have the state of the node"},
		{"metrics", (*nodeRun).writeMetrics, reported | ofLook | ofRelease, "",
			"the metrics are not those of this run"},
		{"login", (*nodeRun).showAtLogin, reported | ofLook | ofRelease, "",
			"the console's login does not show this result"},
		{"description", (*nodeRun).describeKubelet, reported | ofLook, "",
			"systemctl status of the kubelet does not show whether it may start"},
		{"last good", (*nodeRun).keepLastGood, opened | ofLook, "",
			"prelet-fallback.service uses an older list of files"},
		{"generations", (*nodeRun).collect, opened | ofRoot, fault.CannotWrite, "old generations stay"},
		{"run", (*nodeRun).askRun, opened, "", noRun},
		{"lock", (*nodeRun).unlock, opened | ofLook | ofNothing, "", "other commands wait until the end of this one"},
		{"event", (*nodeRun).sendEvent, opened | ofLook, fault.NodeDrift,
			"events: the Node does not have the last one"},
		{"conditions", (*nodeRun).settleConditions, opened | ofLook | ofNothing | ofTry, fault.NodeCondition,
			"conditions: the Node does not have them"},
		annotations(),
		nextTry(),
		{"drift", (*nodeRun).logDrift, ofCheck, "", "the journal does not have what this check has found"},
		{"event of drift", (*nodeRun).sendDrift, ofCheck, "", "events: the Node does not have that of this check"},
		{"conditions with drift", (*nodeRun).patchDrift, ofCheck, "",
			"conditions: the Node has those before this check"},
		{"check", (*nodeRun).writeChecked, ofCheck, "", "the status and the metrics do not have this check"},
	}
}

// annotations is the publication that follows all tries of the conditions, where the Node may still come.
func annotations() publication {
	return publication{"annotations", (*nodeRun).annotate, ofRun | ofOvertaken, fault.NodeDrift, "annotations"}
}

func nextTry() publication {
	return publication{"next try", (*nodeRun).handOver, ofRun | ofOvertaken | ofLook | ofNothing, "",
		machine.VerifyUnit + " patches the conditions of the Node, and was not started"}
}

// publish publishes the result. Annotations that a Node did not get because its kubelet was about to register it are
// tried once more after the tries of the conditions.
func (r *nodeRun) publish(ctx context.Context) {
	r.publishTries(ctx)
	if r.owesAnnotations {
		r.tries.isOwn = false
		r.note(annotations(), r.annotate(ctx))
		r.note(nextTry(), r.handOver(ctx))
	}
}

// publishTries publishes the result, and tries again while the Node may get its conditions. What verify has to do
// meanwhile it does, with all that follows: systemd does not start this unit again while it runs.
func (r *nodeRun) publishTries(ctx context.Context) {
	h := r.host
	if s, err := h.LoadReport(); err == nil && s.BootID == h.BootID {
		r.before = s.Result()
	}
	for r.publishAll(ctx, publications()); r.tries.isOwn; r.publishAll(ctx, publications()) {
		if h.Self != machine.VerifyUnit && r.kind != ofTry {
			r.env.Say(fmt.Sprintf("waiting at most %s for a healthy kubelet, before the Node gets its conditions; "+
				"prelet verify shows the checks", (r.tries.end - h.Clock.Monotonic()).Round(time.Second)))
		}
		r.kind = ofTry
		if !r.waitForConditions(ctx) {
			return
		}
		if needsVerify(ctx, h) {
			_, err := verifyNode(ctx, r.env, h)
			r.env.SayError(err)
			return
		}
	}
}

func (r *nodeRun) publishAll(ctx context.Context, all []publication) {
	if r.reported == (commit.Ending{}) {
		r.reported = commit.Ending{Code: r.Code, Summary: r.Summary}
	}
	if r.kind == ofRun && r.Outcome.Overtaken && r.Report.IsOvertaken() {
		r.kind = ofOvertaken
	}
	for _, p := range all {
		if p.follows&r.kind != 0 {
			r.note(p, p.publish(r, ctx))
		}
	}
}

// note reports how a publication ended. That of another try replaces the notes of those before.
func (r *nodeRun) note(p publication, err error) {
	message := ""
	if err != nil {
		message = p.failure + ": " + err.Error()
	}
	switch {
	case errors.Is(err, errNotTried):
	case p.follows&ofTry != 0:
		message = r.env.Redactor.String(message)
		r.env.SayError(report.ReplaceNote(r.host.RunDir, r.host.BootID, p.code, message))
	case err == nil:
	case p.code != "" && r.Report != nil:
		r.env.SayError(r.Report.NoteAfterEnd(p.code, message))
	default:
		r.env.Say(message)
	}
}

// keepMachine keeps this machine as the owner of its generations, after a run on its own hardware.
func (r *nodeRun) keepMachine(context.Context) error {
	if r.where == nil || r.where.Hardware != "" {
		return nil
	}

	return commit.KeepMachine(r.Store, machineOf(r.host), r.host.CertifiedNode, false)
}

// machineOf returns the machine of a host. The host name of an image is not that of a machine.
func machineOf(h *machine.Host) machineid.Hashes {
	m := machineid.Of(h.Root)
	if h.IsBelow() {
		m.Host = ""
	}

	return m
}

// collect removes old generations.
func (r *nodeRun) collect(context.Context) error { return r.Ended.Collect(r.Store) }

// finish sets the result in the report, and writes the end of the run to the journal.
func (r *nodeRun) finish(context.Context) error {
	r.status = r.Report.Finish(r.reported.Code, r.reported.Summary)

	return nil
}

// writeStatus writes the status. A look and a release replace a part of that of the run.
func (r *nodeRun) writeStatus(context.Context) (err error) {
	if r.kind == ofRelease {
		r.status, err = report.Release(r.host.RunDir, r.host.BootID)

		return err
	}
	if r.Report != nil {
		return r.Report.WriteStatus()
	}
	summary := r.env.Redactor.String(r.reported.Summary)
	r.status, err = report.ReplaceVerified(r.host.RunDir, r.host.BootID, r.reported.Code, summary)

	return err
}

func (r *nodeRun) writeMetrics(context.Context) error { return r.status.WriteMetrics(r.host.RunDir) }

// unlock lets other commands change the node.
func (r *nodeRun) unlock(context.Context) error {
	if r.Store == nil {
		return nil
	}

	return r.Store.Unlock()
}

// printOnConsole says on the console how a run ended that failed, unless the run before in this boot ended in the same
// way: where a node does not come up, nothing else may be readable.
func (r *nodeRun) printOnConsole(context.Context) error {
	h := r.host
	code := r.reported.Code
	if h.Console == nil || h.Self == machine.ApplyUnit || code == "" {
		return nil
	}
	summary := r.env.Redactor.String(r.reported.Summary)
	if r.before.Code == code && r.before.Summary == summary {
		return nil
	}

	return h.Console(machine.ErrPriority, describeFailure(h, code.Exit(), summary))
}

// describeFailure returns the line for the console after a failed run.
func describeFailure(h *machine.Host, exit int, summary string) string {
	kubelet := "the kubelet may not start"
	if gen, open, err := h.Gate().State(); err == nil && open {
		kubelet = fmt.Sprintf("the kubelet starts on generation %d, which was in place", gen)
		if gen == 0 {
			kubelet = "the kubelet starts on the files that are there"
		}
	}

	return machine.FitConsole(fmt.Sprintf("prelet failed (%d), %s: %s", exit, kubelet, summary))
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
	case r.kind == ofLook && r.reported.Code != "":
		return machine.FitConsole("prelet: " + r.env.Redactor.String(r.reported.Summary))
	case s.State == report.Failed:
		return describeFailure(h, s.Exit, message)
	case h.Gate().IsShut():
		return machine.FitConsole("prelet: the kubelet may not start: " + h.Gate().Reason())
	case s.State == report.Degraded:
		return machine.FitConsole("prelet: degraded: " + message)
	}

	return ""
}

// describeKubelet shows in the first line of `systemctl status kubelet` why it may not start: below, there are only
// lines since its last try. systemd has a drop-in of each description that was set in this boot.
func (r *nodeRun) describeKubelet(ctx context.Context) error {
	h, unit := r.host, r.UnitName()
	dropIn := filepath.Join(filepath.Dir(h.RunDir), "systemd/system.control", unit+".d", "50-Description.conf")
	_, err := nodefile.Lstat(dropIn)
	isShut := h.Gate().IsShut()
	if !isShut && err != nil {
		return nil
	}

	u, err := h.Units.Look(ctx, unit)
	if err != nil || u.Load != "loaded" { // without an answer the run has failed for that, or the verdict has no result
		return nil
	}
	text, _, _ := strings.Cut(u.Description, "; prelet")
	if isShut {
		text += "; " + r.describeForLogin()
	}
	if text == u.Description {
		return nil
	}

	if err := h.Units.Describe(ctx, unit, text); err != nil {
		return err
	}

	// systemd takes its own drop-in for unread if it has a name before another one, and warns of that until it is read.
	if now, err := h.Units.Look(ctx, unit); err != nil || !now.Unread || u.Unread {
		return err
	}

	return h.Units.Reload(ctx)
}
