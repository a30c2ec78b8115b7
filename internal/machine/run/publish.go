package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// nodeRun is a run, a verdict, a rollback, a recovery, a release or a look at this node, with what its publications
// read. Report is nil where the report is that of an earlier run, Store where the generations could not be opened.
type nodeRun struct {
	*commit.Run
	planned
	published
	env      *machine.Env
	host     *machine.Host
	follows  func(*nodeRun) []publication // ofRun, ofLook, …: its kind
	isAgain  bool                         // it adds to the report of an earlier process of this boot
	needsRun bool                         // only a run helps where a verdict keeps the gate shut
	tries    conditionTries
}

// planned is the site of a run that plans; the zero value for all others.
type planned struct {
	where *machine.Where
	node  *machine.Node // of the last plan; nil before
}

// published is the result for the status, and for everything that shows it. Publications fill it.
type published struct {
	before report.Status // the last result of this boot before this one; the zero value if there is none
	status report.Status // as it was published; the zero value before, and if another process has reported it
}

// publication is something that follows a result.
type publication struct {
	name    string
	publish func(context.Context) error
	code    fault.Code // a failure is a note with this code in the status and the journal; "": it is only printed
	failure string     // the consequence of a failure for the node
}

// describe returns the consequence of a failure, with its reason.
func (p publication) describe(err error) string { return p.failure + ": " + err.Error() }

// errNotTried means that another process makes the publication: its note stays.
var errNotTried = errors.New("not tried")

// ofRun returns the publications of a run, a verdict, a rollback or a recovery, in this order. A failure of one changes
// neither the result nor another publication. From "lock" on they wait for the cluster, with the lock free.
func (r *nodeRun) ofRun() []publication {
	if r.Outcome.Overtaken && r.Report.IsOvertaken() {
		return r.ofOvertaken()
	}

	return slices.Concat(r.toKeep(), r.ofUnopened(), r.toSettle())
}

// ofOvertaken returns the publications of a run that was reported by the process that took over.
func (r *nodeRun) ofOvertaken() []publication { return slices.Concat(r.toKeep(), r.toSettle()) }

// ofUnopened returns the publications of a run that could not open the generations: its report.
func (r *nodeRun) ofUnopened() []publication {
	return slices.Concat(
		[]publication{
			{"console", r.printOnConsole, "", "the console has no line"},
			{"journal", r.finish, "", "the journal does not have the result"},
		},
		r.ofStatus(func(context.Context) error { return r.Report.WriteStatus() }),
		[]publication{r.description()},
	)
}

// ofLook returns the publications of a look at a kubelet that was judged before: the report is that of the run.
func (r *nodeRun) ofLook() []publication {
	return slices.Concat(
		[]publication{r.owedVerdict()},
		r.ofStatus(r.replaceVerified),
		[]publication{r.description(), r.lastGood(), r.lock(), r.event(), r.conditions(), r.nextTry()},
	)
}

// ofNothing returns the publications of a verify that has judged nothing.
func (r *nodeRun) ofNothing() []publication {
	return []publication{r.lock(), r.conditions(), r.nextTry()}
}

// ofRelease returns the publications of a release by hand: the report is that of the run.
func (r *nodeRun) ofRelease() []publication { return r.ofStatus(r.releaseStatus) }

// ofRoot returns the publications of a run below a root, where no unit runs.
func (r *nodeRun) ofRoot() []publication {
	return []publication{r.marks(), r.programs(), r.generations()}
}

// toKeep returns the publications that later boots, and other processes of this one, read.
func (r *nodeRun) toKeep() []publication {
	return []publication{
		r.marks(),
		r.programs(),
		{"recording", r.keepRecording, fault.CannotWrite, "the recording for others could not be kept"},
		{"results of conditions", r.keepConditions, fault.NodeCondition,
			"conditions: the Node may keep those of an earlier boot"},
		r.owedVerdict(),
	}
}

// ofStatus returns the publications of each result and each later change of it. write writes the present status.
func (r *nodeRun) ofStatus(write func(context.Context) error) []publication {
	return []publication{
		{"status", write, "", "the status is not that of this run"},
		{"change", r.logChange, "", "the journal does not have the state of the node"},
		{"metrics", r.writeMetrics, "", "the metrics are not those of this run"},
		{"login", r.showAtLogin, "", "the console's login does not show this result"},
	}
}

// toSettle returns the publications after the report.
func (r *nodeRun) toSettle() []publication {
	return []publication{
		r.lastGood(),
		r.generations(),
		{"run", r.askRun, "", noRun},
		r.lock(),
		r.event(),
		r.conditions(),
		r.annotations(),
		r.nextTry(),
	}
}

// The publications that are in more than one of these lists.

func (r *nodeRun) marks() publication {
	return publication{"machine", r.keepMachine, "", "the marks of this machine are not kept"}
}

func (r *nodeRun) programs() publication {
	return publication{"programs", r.keepPrograms, fault.CannotWrite,
		"the next boot starts the kubelet's binary and reads the detectors again"}
}

// owedVerdict comes before the status: `status --wait` takes its end for that of the run.
func (r *nodeRun) owedVerdict() publication {
	return publication{"owed verdict", r.oweVerdict, "", "prelet-verify.service may not judge this boot"}
}

func (r *nodeRun) description() publication {
	return publication{"description", r.describeKubelet, "",
		"systemctl status of the kubelet does not show whether it may start"}
}

func (r *nodeRun) lastGood() publication {
	return publication{"last good", r.keepLastGood, "", "prelet-fallback.service uses an older list of files"}
}

func (r *nodeRun) generations() publication {
	collect := func(context.Context) error { return r.Result.Collect(r.Store) }

	return publication{"generations", collect, fault.CannotWrite, "old generations stay"}
}

func (r *nodeRun) lock() publication {
	return publication{"lock", r.unlock, "", "other commands wait until the end of this one"}
}

func (r *nodeRun) event() publication {
	return publication{"event", r.sendEvent, fault.NodeDrift, "events: the Node does not have the last one"}
}

func (r *nodeRun) conditions() publication {
	return publication{retried, r.settleConditions, fault.NodeCondition, "conditions: the Node does not have them"}
}

// annotations is the publication that follows all tries of the conditions, where the Node may still come.
func (r *nodeRun) annotations() publication {
	return publication{"annotations", r.annotate, fault.NodeDrift, "annotations"}
}

func (r *nodeRun) nextTry() publication {
	return publication{"next try", r.handOver, "",
		machine.VerifyUnit + " patches the conditions of the Node, and was not started"}
}

// retried is the publication whose note replaces that of the try before.
const retried = "conditions"

// conclude publishes the result, and then does all that follows.
func (r *nodeRun) conclude(ctx context.Context) {
	r.announce(ctx)
	r.followUp(ctx)
}

// announce publishes the result once.
func (r *nodeRun) announce(ctx context.Context) {
	if s, err := r.host.LoadReport(); err == nil && s.BootID == r.host.BootID {
		r.before = s.Result()
	}
	r.publish(ctx, r.follows(r))
}

// followUp tries the conditions again while the Node may get them, and judges when a verdict is due, which has a result
// of its own and is followed in its place. Then it tries annotations once more that a Node did not get because its
// kubelet was about to register it.
func (r *nodeRun) followUp(ctx context.Context) {
	all := []*nodeRun{r}
	for last := r; last != nil && last.retryConditions(ctx); {
		v, err := judgeNode(ctx, r.env, r.host)
		r.env.SayError(err)
		if last = v; v != nil {
			defer v.closeStore()
			all = append(all, v)
		}
	}

	for _, of := range slices.Backward(all) {
		if of.tries.owesAnnotations {
			of.tries.isOwn = false
			of.publish(ctx, []publication{of.annotations(), of.nextTry()})
		}
	}
}

// retryConditions tries again while the Node may get its conditions. It ends as soon as a verify is due, which the
// caller makes, with all that follows: systemd does not start this unit again while it runs.
func (r *nodeRun) retryConditions(ctx context.Context) (isVerifyDue bool) {
	h := r.host
	if r.tries.isOwn && h.Self != machine.VerifyUnit {
		r.env.Say(fmt.Sprintf("waiting at most %s for a healthy kubelet, before the Node gets its conditions; "+
			"prelet verify shows the checks", (r.tries.end - h.Clock.Monotonic()).Round(time.Second)))
	}
	for r.tries.isOwn && r.waitForConditions(ctx) {
		if needsVerify(ctx, h) {
			return true
		}
		r.publish(ctx, []publication{r.conditions()})
	}

	return false
}

// publish makes publications. None starts another run.
func (r *nodeRun) publish(ctx context.Context, all []publication) {
	for _, p := range all {
		r.note(p, p.publish(ctx))
	}
}

// note reports how a publication ended.
func (r *nodeRun) note(p publication, err error) {
	message := ""
	if err != nil {
		message = p.describe(err)
	}
	switch {
	case errors.Is(err, errNotTried):
	case p.name == retried:
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

// finish sets the result in the report, and writes the end of the run to the journal.
func (r *nodeRun) finish(context.Context) error {
	ended := r.ForStatus()
	r.status = r.Report.Finish(ended.Code, ended.Summary)

	return nil
}

// replaceVerified replaces what an earlier look has found in the status of the run.
func (r *nodeRun) replaceVerified(context.Context) (err error) {
	found := r.ForStatus()
	summary := r.env.Redactor.String(found.Summary)
	r.status, err = report.ReplaceVerified(r.host.RunDir, r.host.BootID, found.Code, summary)

	return err
}

// releaseStatus notes in the status of the run that the held plans are released.
func (r *nodeRun) releaseStatus(context.Context) (err error) {
	r.status, err = report.Release(r.host.RunDir, r.host.BootID)

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
	code := r.ForStatus().Code
	if h.Console == nil || h.Self == machine.ApplyUnit || code == "" {
		return nil
	}
	summary := r.env.Redactor.String(r.ForStatus().Summary)
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
	s.Verdict = "" // present faults stay, whatever the verdict is
	_, message := describeState(s)

	switch {
	case r.Report == nil && r.ForStatus().Code != "": // a look
		return machine.FitConsole("prelet: " + r.env.Redactor.String(r.ForStatus().Summary))
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
