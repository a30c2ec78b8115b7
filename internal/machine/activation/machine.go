package activation

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/kubelet"
)

// Clock is time, so that a test can skip waits.
type Clock interface {
	Now() time.Time
	Monotonic() time.Duration // since boot, on the clock of Unit.Started
	// Sleep waits for d or until ctx ends. Then it returns the cause of ctx.
	Sleep(ctx context.Context, d time.Duration) error
}

// Node is the machine whose kubelet runs on a generation: its systemd, its clock, its kubelet and cluster, and what
// prelet knows of both. All effects of a walk are its own, but for those of the Store and the Gate.
type Node interface {
	Units
	Clock
	Probe

	// Foreign returns why a generation belongs to another machine, or "". prelet neither starts the kubelet on a
	// generation that came with an image nor rolls back to it.
	Foreign(gen int) string
	// OtherMachine returns how a Node is that of another machine than this one, or "".
	OtherMachine(kubelet.NodeObject) string
	// WhyNotJoined returns why the files of this node are not those of a node that has joined its cluster, as this
	// machine; "" if they are.
	WhyNotJoined() string
	// Waits reports whether a unit would wait for the gate with some files: their content by path, nil for a removed
	// file.
	Waits(unit string, files map[string][]byte) bool
	// AskBinary returns the words with which the kubelet's binary refuses the files and the command line in place, ""
	// if it does not, or cannot be asked.
	AskBinary(ctx context.Context, unit string) (words string)

	// Note is called when a step begins and when it ends.
	Note(report.Event)
	// Extend is called before each wait with its maximum duration, so that the unit's own timeout can be extended.
	Extend(time.Duration)
	// Redact hides secrets in a verdict, which is stored: a kubelet may quote them.
	Redact(string) string
}

// StateMachine activates generations. It is used from one goroutine.
type StateMachine struct {
	Node     Node
	Store    Store
	Gate     Gate
	BootID   string
	StateDir string // the folder of the Store, for messages

	// Rival describes a machine that the Node was of at an earlier look in this boot; "" if it was always this one's.
	// Then only a Node that stays this machine's for rivalWait counts as its.
	Rival string

	mountsWaited time.Duration // by AwaitMounts so far

	rows  []row            // nil: the table
	onRow func(row)        // called with each row that runs; nil except in tests
	hook  func(step, bool) // called before and, with true, after each step; nil except in tests
}

// Verdict is the result for the generation in place, as it is in the status.
type Verdict = report.Verdict

// The verdicts.
const (
	Unchanged = report.Unchanged
	Pending   = report.Pending
	Good      = report.Good
	Bad       = report.Bad
	Unknown   = report.Unknown
)

// Judgement is a verdict with its reasons.
type Judgement struct {
	Verdict Verdict
	Why     string        // what failed, or what could not be determined
	Checks  []CheckResult // of the last look
	Cause   *Cause        // of a bad verdict, from the kubelet's log; nil: not in the log

	onlyPods bool // the only failure is that pods cannot start
	clockSet bool // Verdict is Unknown because the clock was set during the watch
}

// Outcome is the result of a walk that ended without an error.
type Outcome struct {
	Judgement
	Generation int        // in place now
	Committed  bool       // OnChange has written the journal, or may have
	From       int        // the generation before the rollback, or 0
	AsBefore   bool       // the rollback restored the state before prelet
	InPlace    Verdict    // after a rollback: the verdict on Generation, while Verdict is the one on From
	Held       bool       // the plan of From is held
	Trouble    []string   // what follows a changed file and did not work, and does not undo the generation
	Acted      []Act      // the jobs of units that systemd accepted, in their order
	Unwritten  []string   // what could not be written, or not as it should be, without a failure
	HeldBack   string     // the reason why the gate is shut; empty when it is open
	Code       fault.Code // of the failure; "" when there is none
	IsRefused  bool       // preflight has refused the change, and nothing was changed
	Overtaken  bool       // another process has put Generation in place while this one watched another
}

// Act is a job of a unit.
type Act struct {
	Unit   string `json:"unit"`
	Action string `json:"action"` // start | restart | reload | create
}

func (m *StateMachine) note(step, state, format string, args ...any) {
	m.Node.Note(report.Event{
		Stage:   step,
		State:   state,
		Summary: fmt.Sprintf(format, args...),
	})
}

func (m *StateMachine) extendTimeout(d time.Duration) {
	m.Node.Extend(d + WaitMargin)
}

// Preflight checks whether a commit could be activated, and changes nothing. Its errors have the code fault.Systemd
// (systemd does not answer, the unit is masked or missing, or it would start without the gate), fault.KubeletMachine if
// its program cannot be executed or something else that it needs is missing, or fault.CannotWrite if the run folder is
// full. changed are the files of the unit that the commit changes, with their content: they may end what keeps it from
// starting, except for a masked unit. A unit that does not start with them is rolled back. p is the spec of the
// generation that will be in place.
func (m *StateMachine) Preflight(ctx context.Context, p Spec, changed map[string][]byte) (Unit, error) {
	u, err := m.lookAgain(ctx, p, changed)
	if err != nil {
		return u, err
	}

	// The order of units is needed after the commit, when it is too late to fail.
	_, err = m.Node.MayWait(ctx, p.Unit)

	return u, systemdFault("looking at the order of "+p.Unit, err)
}

// lookAgain checks of a preflight only the space of the run folder, and the unit: those can have changed while a commit
// was staged.
func (m *StateMachine) lookAgain(ctx context.Context, p Spec, changed map[string][]byte) (Unit, error) {
	unit := p.Unit
	var u Unit
	var l check.List
	l.Add("disk", check.Commit, func(r *check.Recorder) { r.Fail(m.Gate.checkSpace()) })
	l.Add("unit", check.Commit, func(r *check.Recorder) {
		var err error
		u, err = m.Node.Look(ctx, unit)
		r.Fail(systemdFault("looking at "+unit, err))
	})
	l = append(l, CheckUnit(&u, m.Gate.Path(), p.managed(), func() bool { return m.canFix(u, changed) }))
	err := l.First()

	return u, err
}

// canFix reports whether changed files of a unit may end what keeps it from being activated.
func (m *StateMachine) canFix(u Unit, changed map[string][]byte) bool {
	isBrought := false
	for file := range changed {
		isBrought = isBrought || path.Base(file) == u.Name
	}
	if len(changed) == 0 || u.Load == "masked" || u.Load == "not-found" && !isBrought {
		return false
	}

	return m.Node.Waits(u.Name, changed)
}

// CheckUnit returns the check of a unit that a commit stops and starts: systemd can start it, the files that it needs
// exist, its program can be executed, and it waits at the gate. u is read when the check runs. files are those that are
// in place after the commit. canFix reports whether files of the unit may remove the obstacle; nil: it has none.
func CheckUnit(u *Unit, gate string, files []string, canFix func() bool) check.Row {
	return check.Row{Name: "unit", Needs: check.Running | check.Files | check.Commit, Run: func(r *check.Recorder) {
		if u.Load == "loaded" { // systemd starts no other unit by hand
			r.Fail(checkHeld(*u))
		}
		if err := cmp.Or(checkStart(*u, gate), checkNeeds(*u, files)); err != nil && (canFix == nil || !canFix()) {
			r.Fail(err)
		}
	}}
}

// checkHeld returns why a unit cannot be stopped and started by hand as it is, or nil.
func checkHeld(u Unit) error {
	f := &fault.Fault{Code: fault.Systemd}

	switch {
	case u.NoStart || u.NoStop:
		verb := "start"
		line := "RefuseManualStart"
		if u.NoStop {
			verb = "stop"
			line = "RefuseManualStop"
		}

		f.Summary = fmt.Sprintf("systemd refuses to %s %s by hand (%s=yes)", verb, u.Name, line)
		f.Next = fmt.Sprintf(
			"systemctl cat %s shows the line: paste %s=no below [Unit] in a later drop-in and run "+
				"systemctl daemon-reload",
			u.Name, line,
		)
	case firstOwn(u.NeverWith) != "":
		f.Summary = fmt.Sprintf("%s and %s conflict, so systemd stops one for the other", u.Name, firstOwn(u.NeverWith))
		f.Next = fmt.Sprintf(
			"systemctl cat %s %s shows the line Conflicts=: remove it and run systemctl daemon-reload",
			u.Name,
			firstOwn(u.NeverWith),
		)
	case firstOwn(u.FailsWith) != "":
		f.Summary = fmt.Sprintf(
			"%s requires %s, so one failed run would keep it from starting for the rest of the boot",
			u.Name,
			firstOwn(u.FailsWith),
		)
		f.Next = fmt.Sprintf(
			"systemctl cat %s shows the line Requires=, Requisite= or BindsTo=: write Wants= and run "+
				"systemctl daemon-reload",
			u.Name,
		)
	default:
		return nil
	}

	return f
}

// checkStart returns why a unit cannot be activated, or nil.
func checkStart(u Unit, gate string) error {
	f := &fault.Fault{Code: fault.Systemd}

	switch {
	case u.Load == "masked":
		f.Summary = u.Name + " is masked, so it cannot start"
		f.Next = "systemctl unmask " + u.Name
	case u.Load == "not-found":
		f.Summary = "cannot find " + u.Name
		f.Next = "install its package, or name the kubelet's unit in the site: " +
			"stage \"restart\" \"kubelet\" { unit = \"NAME.service\" }"
		if strings.HasPrefix(u.Name, "prelet") {
			f.Next = "install prelet's package"
		}
	case u.Load != "loaded":
		f.Summary = fmt.Sprintf("systemd could not load %s (%s)", u.Name, u.Load)
		f.Next = "systemctl status " + u.Name
	case !u.RequiresFile(gate):
		f.Summary = describeUngated(u.Name, gate)
		f.Next = fmt.Sprintf(
			"an empty EnvironmentFile= in a later drop-in removes it (systemctl cat %s shows them all): "+
				"below that line, paste EnvironmentFile=%s and run systemctl daemon-reload",
			u.Name,
			gate,
		)
	default:
		return nil
	}

	return f
}

// checkNeeds returns why the program of a unit cannot be executed, or what else the unit needs and is missing, or nil.
func checkNeeds(u Unit, files []string) error {
	missing := u.FindMissing(func(needed string) bool {
		return slices.ContainsFunc(files, func(file string) bool {
			return file == needed || strings.HasPrefix(file, needed+"/")
		})
	})
	if missing.Why == "" {
		return nil
	}

	return &fault.Fault{
		Code:    fault.KubeletMachine,
		Summary: u.Name + " cannot start: " + missing.Why,
		Next: fmt.Sprintf(
			"install what is missing, or correct the unit (systemctl cat %s) and run systemctl daemon-reload", u.Name,
		),
	}
}

func describeUngated(unit, gate string) string {
	return fmt.Sprintf("%s would start without waiting for prelet: no EnvironmentFile=%s is in force", unit, gate)
}

// firstOwn returns the first of prelet's own units in a list, or "".
func firstOwn(units []string) string {
	for _, u := range units {
		if u == BootUnit || u == ApplyUnit || u == VerifyUnit {
			return u
		}
	}

	return ""
}
