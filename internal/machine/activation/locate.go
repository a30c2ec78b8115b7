package activation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// location is where a node is in one pass of a walk, as locate and the facts of rows have read it.
type location struct {
	on    Trigger
	phase phase
	placement
	gateState
	wayBack

	blockReason string // why a kubelet must not start on the files in place, of the fact that found it
	newBoot     bool   // no process of this boot has counted itself as a try
}

// placement is the generation in place, or the generation that is being published, as locate reads it.
type placement struct {
	journal *generation.Journal // nil: no commit or rollback is in progress
	current *generation.Info    // the generation in place; nil: there is none
	placed  time.Duration       // when its files were in place, on this boot's clock; 0: in an earlier boot

	// The rest is read by ownSpec.
	hasSpec      bool
	spec         Spec          // of the current generation, or of the generation that is being published
	since        time.Duration // a kubelet that started earlier has not read the files; 0: any has
	keepsKubelet bool          // the change of files does not concern the kubelet, which is not stopped for it
}

// gateState is how the gate is, as locate reads it.
type gateState struct {
	gateOpen    bool
	gate        int   // the generation that the gate is open on; -1 when its file is not from prelet
	noneStarted bool  // no kubelet can have started in this boot
	runDirLost  *bool // nil: not asked, see isRunDirLost
}

// wayBack is the rollback from the generation in place, or why there is none: read by isExhausted, canGoBack and
// wayBackByHand.
type wayBack struct {
	rollback   *rollback // nil: no rollback is possible
	stayReason string    // why no rollback is possible
	stayErr    error     // the same as an error, of a rollback by hand
}

type rollback struct {
	from, to    int // generations; to is 0 for the state before prelet
	reason      string
	cause       *Cause   // the cause of reason, from the kubelet's log
	hold        bool     // hold the plan of from, if it was at fault
	removeFiles []string // state files that a kubelet on the goal would reject
	keeps       bool     // it does not change the kubelet's files
	warnings    []string // of CheckRollback
}

// locate reads where the node is, for a trigger. It changes nothing. t is what this process has done so far.
func (m *StateMachine) locate(t *walkState, on Trigger) (h location, err error) {
	h.on = on
	if h.journal, err = m.Store.Journal(); err != nil {
		return h, err
	}

	// A crash is recovered from, and a change is committed, also when the generation in place cannot be read.
	h.phase = phaseOf(h.journal, nil)
	if h.phase != mixed && on != OnFinish && on != OnChange {
		if h.current, err = m.Store.Current(); err != nil {
			return h, err
		}

		h.phase = phaseOf(h.journal, h.current)
		if h.current == nil && h.journal != nil {
			return h, fault.Internal.Errorf("generation %d awaits its verdict, and is not there", h.journal.Gen)
		}
	}

	h.placed = t.filesSince(m, h.journal)
	h.newBoot = h.journal != nil && h.journal.BootID != m.BootID
	h.gate, h.gateOpen, err = m.Gate.State()
	h.noneStarted = !h.gateOpen && m.Gate.HasBlockedAll()

	return h, err
}

// hasEndedRun reports whether a run of this boot has ended, and the gate is not shut on purpose.
func (m *StateMachine) hasEndedRun(ctx context.Context) bool {
	if m.Gate.Reason() != "" {
		return false
	}

	return m.Gate.WasOpened() || HasRun(ctx, m.Node)
}

// HasRun reports whether a run of this boot has ended, well or not, as far as systemd knows.
func HasRun(ctx context.Context, units Units) bool {
	for _, name := range []string{BootUnit, ApplyUnit} {
		u, err := units.Look(ctx, name)

		switch {
		case err != nil:
		case u.Active == "active", u.Started != 0 && !isAlive(u):
			return true
		}
	}

	return false
}

// WhyLost returns why the store does not have the generation that this boot has put in place, with what to do; "" if
// it has it, or if nothing shows that there was one.
func (m *StateMachine) WhyLost(ctx context.Context) string {
	if a := m.Store.StartsOver(); a != nil {
		return a.DescribeNext()
	}
	current, err := m.Store.Current()
	gen, open, gateErr := m.Gate.State()
	if err != nil || gateErr != nil || current != nil {
		return ""
	}
	if open && gen > 0 || !open && m.hasEndedRun(ctx) {
		return fmt.Sprintf("prelet has run in this boot, and %s has no generation: prelet run makes one", m.StateDir)
	}

	return ""
}

// phaseOf returns the phase of a journal and the generation in place. Either may be nil.
func phaseOf(j *generation.Journal, current *generation.Info) phase {
	switch {
	case j != nil && j.Phase != generation.PhaseVerify:
		return mixed
	case j != nil && j.From != 0:
		return returning
	case j != nil:
		return pending
	case current != nil:
		return settled
	}

	return none
}

// describeInPlace returns the first words of an error after a commit.
func describeInPlace(h *location) string {
	return fmt.Sprintf("generation %d is in place", h.current.Gen)
}

// whyNotGoOn returns why a kubelet must not start on the generation in place after a failed run, or "". A generation
// without a verdict is good enough on a node that has joined with it.
func (m *StateMachine) whyNotGoOn(ctx context.Context, t *walkState, current *generation.Info) string {
	mixed := m.whyMixed(ctx, current.Gen)
	unjoined := m.whyUnjoined(ctx, current)
	isSaid := strings.Contains(t.Failure, t.Unrestored) // also if there is nothing to say

	switch {
	case mixed != "" && isSaid:
		return mixed + "; and " + t.Failure
	case mixed != "":
		return mixed + "; it could not be put back: " + t.Unrestored + "; and " + t.Failure
	case unjoined != "":
		return t.Failure + "; and " + unjoined
	}

	return ""
}

// MayGoOn reports whether a kubelet may start on the files of the generation in place after a failed run.
func (m *StateMachine) MayGoOn(ctx context.Context, current *generation.Info) bool {
	return m.whyUnjoined(ctx, current) == ""
}

// whyNotAsFound returns why a kubelet must not start on files without a generation, or "".
func (m *StateMachine) whyNotAsFound() string {
	over := m.Store.StartsOver()
	switch {
	case over != nil && over.IsMixed:
		return over.String() + ", while a change of the files was interrupted: prelet run writes them again"
	}
	if why := m.Node.WhyNotJoined(); why != "" {
		return "no generation was ever in place, or it was lost, and this node has not joined: " + why
	}

	return ""
}

// IsAsFound reports whether there is no generation, and a kubelet may start on the files without one: this node has
// joined with them.
func (m *StateMachine) IsAsFound() bool {
	current, err := m.Store.Current()

	return err == nil && current == nil && m.whyNotAsFound() == ""
}

// whyUnjoined returns that a generation without a verdict is on a node that has not joined with it, or "".
func (m *StateMachine) whyUnjoined(ctx context.Context, current *generation.Info) string {
	if current.Status == generation.StatusPending && !m.hasJoined(ctx, current.Gen) {
		return fmt.Sprintf("generation %d was never judged, and the node has not joined", current.Gen)
	}

	return ""
}

// prepareRollback completes a rollback from the generation in place. It checks now, while the gate is open and the
// kubelet runs, whether the rollback is possible: if not, the generation stays, with the reason.
func (m *StateMachine) prepareRollback(ctx context.Context, h *location, w rollback) error {
	goal, err := m.specAfterRollback(h.spec, w.to)
	if err != nil {
		return err
	}

	w.from = h.current.Gen
	w.removeFiles = h.spec.staleStateFiles(goal)

	changed, warnings, err := m.Store.CheckRollback(w.from, w.to, w.removeFiles...)
	if err != nil {
		const format = "a rollback to generation %d is not possible, so the current one stays: %v"
		h.stayReason = fmt.Sprintf(format, w.to, err)
		h.stayErr = err
		return nil
	}

	if w.hold && len(changed) == 0 {
		h.stayReason = "a rollback would change no file, so this generation is not at fault: " +
			"it stays, and is verified again"
		return nil
	}

	w.warnings = warnings
	w.keeps = keepsKubelet(changed, []Spec{h.spec, goal})

	u, err := m.Node.Look(ctx, h.spec.Unit)
	if err == nil && u.NoStop && isAlive(u) && !w.keeps {
		f := checkHeld(u)
		h.stayReason = "a rollback is not possible while the kubelet cannot be stopped, so it " +
			"stays: " + f.Error()
		h.stayErr = f
		return nil
	}

	h.rollback = &w

	return nil
}

// specAfterRollback returns the spec of the goal of a rollback.
func (m *StateMachine) specAfterRollback(left Spec, to int) (Spec, error) {
	if to == 0 {
		return left.withoutPrelet(), nil
	}

	return m.SpecOf(to)
}

// lastGood returns the last generation that was good on this machine. A generation that was good on the machine of the
// image does not count: it has that machine's name. Numbers only grow, so if the last good generation is foreign, this
// machine has none. After a state was set aside it is 0 until there is one: the files as they were found, unless they
// were a mixture, or this machine has not joined with them. spec is that of the generation in place.
func (m *StateMachine) lastGood(spec Spec) (gen int, ok bool) {
	if gen, ok = m.Store.LastGood(); ok {
		return gen, m.WhyForeign(gen) == ""
	}
	a := m.Store.FindAside()

	return 0, a != nil && !a.IsMixed && !spec.Joins
}

// WhyForeign returns why a generation belongs to another machine, or "". 0 is the state before prelet.
func (m *StateMachine) WhyForeign(gen int) string {
	if gen == 0 {
		return ""
	}

	return m.Node.Foreign(gen)
}

// WhyMixed returns why the files on disk are not those of the generation in place, or "".
func (m *StateMachine) WhyMixed(ctx context.Context) string {
	current, err := m.Store.Current()
	if err != nil || current == nil {
		return ""
	}

	return m.whyMixed(ctx, current.Gen)
}

// DescribeOthers returns which managed files that do not decide about the kubelet differ from the generation in place,
// and how; "" if none does, or if that is not known.
func (m *StateMachine) DescribeOthers(spec Spec) string {
	all, err := m.Store.ListDrift(func(path string) bool {
		_, decides := spec.Files[path]
		return !decides && slices.Contains(spec.Others, path)
	})
	if err != nil || len(all) == 0 {
		return ""
	}

	var words []string
	for _, d := range all {
		words = append(words, d.Path+": "+d.Why)
	}

	return joinShort(words) + "; the next run restores it"
}

// whyMixed returns why the files on disk that decide about the kubelet are not those of the generation, or "". A
// generation of another machine is never accepted: with its files the kubelet would register as that node.
func (m *StateMachine) whyMixed(ctx context.Context, gen int) string {
	if why := m.WhyForeign(gen); why != "" {
		return fmt.Sprintf(
			"generation %d was made on another machine (%s), and no run has made one here; %s",
			gen, why, machineid.HowToKeep,
		)
	}

	spec, err := m.SpecOf(gen)
	if err == nil && len(spec.Files) > 0 {
		err = m.Node.Files(ctx, spec.Files)
	}

	if err != nil {
		return fmt.Sprintf("generation %d is not in place whole: %v", gen, err)
	}

	return ""
}

func (m *StateMachine) hasJoined(ctx context.Context, gen int) bool {
	spec, err := m.SpecOf(gen)

	return err == nil && spec.Kubeconfig != "" && m.Node.Kubeconfig(ctx, spec.Node) == nil
}

// BlobsOfGoal returns the blobs for a rollback from a generation to the state before prelet, which has none of its own:
// the unit of the kubelet and its health address, as a spec. to is 0, or a generation that restored that state; nil for
// another.
func (m *StateMachine) BlobsOfGoal(from, to int) (map[string][]byte, error) {
	if info, _ := m.Store.Info(to); to != 0 && info.Restores != 0 {
		return nil, nil
	}

	goal, err := m.specAfterRollback(m.specOrDefault(from), to)
	if err != nil {
		return nil, err
	}
	text, err := goal.withoutPrelet().Encode()

	return map[string][]byte{SpecBlob: text}, err
}

// errMayRun is wrapped when it could not be determined whether the unit runs.
var errMayRun = errors.New("so it may be running")
