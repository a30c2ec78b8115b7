package activation

import "slices"

// phase is where a node is, as read from its disk. locate reads it before each row.
type phase int

const (
	none      phase = iota // there never was a generation, or all were lost
	settled                // a generation is in place and awaits no verdict
	mixed                  // a commit or a rollback was interrupted: files of two generations
	pending                // a complete generation is in place and awaits its verdict
	returning              // the same, after a rollback
)

// Trigger is the event that selects a row: an entry into the machine, or the result of the previous row.
type Trigger int

// The triggers up to OnVerify are entries; the others are results of rows.
const (
	OnFinish     Trigger = iota // only finish an interrupted commit or rollback
	OnChange                    // a run has a change to put in place
	OnResume                    // continue with the generation in place: nothing has to change, or may change
	OnUnchanged                 // the same, and the site's plan is the one in place
	OnFailed                    // a run failed before its commit
	OnNoSite                    // the node has no site
	OnOff                       // prelet=off: only the gate opens
	OnRollback                  // a rollback by hand
	OnVerify                    // prelet-verify: the kubelet starts, or has crashed
	onCommitted                 // this process has just written the journal
	onJudge                     // the kubelet may start on the generation in place, which awaits a verdict
	onReady                     // the units that the files notify have read them
	onGood                      // the verdict
	onBad                       // the verdict
	onUnknown                   // no verdict could be reached
	onSuperseded                // another prelet process took over while the lock was free

	done       // nothing follows
	repeat     // the same trigger again
	stepResult // the result of the last step: onGood, onBad, onUnknown or onSuperseded; of actUnits onReady or onBad
)

// step is one action of a row. Each step may run again after it has finished, or after it was interrupted.
type step int

const (
	sweep         step = iota // remove the staged files of a commit that never happened
	preflight                 // check whether a commit could be activated, before any file is written
	stage                     // stage the change: everything is on disk, and nothing is in place
	preflightBack             // the same before a rollback by hand; note that the unit runs
	commit                    // look at the unit again, and write the journal: from here on only forward
	shutGate                  // shut the gate and write the reason
	stop                      // stop the unit if it is alive; it is then owed a start
	publish                   // put every file in place
	complete                  // finish the publish of an interrupted process
	restore                   // put the contents of an earlier generation in place
	reload                    // make systemd read its unit files, if one changed and the gate is shut
	actUnits                  // restart and reload the units that changed files notify, and find owed restarts
	countTry                  // count this boot as a try
	openGate                  // open the gate on the generation in place, if it is shut or names another
	notePending               // note for prelet-verify.service whether a generation has no verdict
	requestStart              // request a start if one is due, without waiting for it
	watch                     // without the lock: start the unit if due, and watch it until there is a verdict
	uncountTry                // do not count this boot as a try
	retire                    // remove files that are not needed once the generation is good
	closeGood                 // close the journal: the generation is good; the plan that was rolled back is held
	closeBad                  // close the journal: unhealthy after the rollback too; the plan is not held
	holdBack                  // shut the gate and write the reason
	reportShut                // report the reason why the gate is shut
	reportOther               // report the verdict of the process that took over
	leavePending              // leave the verdict to the process that takes over
	patchLabels               // without the lock: patch labels and taints of the Node that differ from the site's plan
)

// row contains the steps for a trigger in a phase.
type row struct {
	In    []phase
	On    []Trigger
	When  fact // the first row whose fact holds is used; nil: always
	Reads fact // asked before the first step, which needs its answer; nil: none
	Do    []step
	Then  Trigger // the next trigger, in the phase that is located then
	// Never is the reason why this row cannot occur. Such a row has no steps, and reaching it is an error.
	Never string
}

var (
	unmixed       = []phase{none, settled, pending, returning}
	inPlace       = []phase{settled, pending, returning} // a complete generation is in place
	awaiting      = []phase{pending, returning}          // and awaits a verdict
	rollbackSteps = []step{shutGate, stop, restore}
)

// table contains all rows of the activation. For each phase and trigger the first row whose fact holds is used; the
// last row of a pair has no condition. Its steps run in order; each may run again after it was interrupted. The next
// trigger follows in the phase that is found then: a killed process needs to remember nothing.
//
// # Rules
//
//   - The lock is held during every step but watch: a start of the kubelet waits for prelet.service, which waits for
//     the lock.
//   - Inside a unit that the kubelet is ordered after and that has a job (prelet.service at boot), a start is requested
//     and never waited for. A stop may be waited for anywhere.
//   - A kubelet in auto-restart is restarted, because a start would wait for RestartSec=.
//   - A kubelet whose start was not requested (inactive, no job) is not started, unless prelet stopped it. A file in
//     the run folder records that, so it survives the process.
//   - The gate is open only on a complete generation. A kubelet that runs or is about to run is stopped before a file
//     changes.
//   - The gate opens after systemd has read its changed unit files, also when a killed process changed them.
//   - A try is a boot that began to verify and did not finish. After three tries prelet rolls back before the kubelet
//     starts.
//   - Taints are never part of a verdict, because controllers remove the taints with which a node starts. Labels are
//     part of it only on a Node that this generation made, because cloud controllers set labels later. Other
//     differences are reported as drift.
//   - A kubelet whose log shows that it can never start with this configuration is rolled back at its first exit; other
//     failures, such as a missing file, after the third.
//   - SIGTERM does not interrupt the steps after the commit; it only ends waits.
var table = []row{
	// After a crash: these rows come first for every entry.
	{
		In:    []phase{mixed},
		On:    []Trigger{OnFinish},
		Reads: ownSpec,
		Do:    []step{shutGate, stop, complete, reload},
		Then:  done,
	},
	{
		In:    []phase{mixed},
		On:    []Trigger{OnResume, OnUnchanged, OnFailed, OnNoSite, OnOff, OnRollback, OnVerify, onSuperseded},
		Reads: ownSpec,
		Do:    []step{shutGate, stop, complete}, Then: repeat,
	},
	{In: []phase{none, settled}, On: []Trigger{OnFinish}, Do: []step{sweep}, Then: done},
	{In: awaiting, On: []Trigger{OnFinish}, Reads: ownSpec, Do: []step{sweep, reload}, Then: done},

	// A change.
	{In: unmixed, On: []Trigger{OnChange}, Do: []step{preflight, stage, commit}, Then: onCommitted},
	{
		In:    []phase{mixed},
		On:    []Trigger{onCommitted},
		Reads: ownSpec,
		Do:    []step{shutGate, stop, publish},
		Then:  OnResume,
	},

	// Prelet is switched off.
	{In: unmixed, On: []Trigger{OnOff}, Do: []step{openGate}, Then: done},

	// Every other way to the gate asks the same questions first: a hold of the site, another machine, files that are
	// not those of one generation, a generation that was never judged on a node that has not joined. After a plan, and
	// in a rollback, the files were compared or written by this process. For a deliberate refusal, the reason is at the
	// gate already.
	{In: unmixed, On: []Trigger{OnVerify}, When: isShutOnPurpose, Do: []step{reportShut}, Then: done},
	{
		In:   unmixed,
		On:   []Trigger{OnResume, OnUnchanged, OnFailed, OnNoSite, OnVerify},
		When: isHeld,
		Do:   []step{holdBack},
		Then: done,
	},

	// The store is empty: prelet was never used, had nothing to write, or the state folder was lost. A node without a
	// site has nothing to join with.
	{
		In:   []phase{none},
		On:   []Trigger{OnFailed, OnNoSite, OnVerify},
		When: isOpen,
		Do:   []step{notePending},
		Then: done,
	},
	{In: []phase{none}, On: []Trigger{OnFailed}, When: isNotAsFound, Do: []step{holdBack}, Then: done},
	{In: []phase{none}, On: []Trigger{OnNoSite}, When: wasMixture, Do: []step{holdBack}, Then: done},
	{
		In:    []phase{none},
		On:    []Trigger{OnFailed, OnNoSite, OnResume, OnUnchanged},
		Reads: ownSpec,
		Do:    []step{openGate, requestStart}, Then: done,
	},
	{In: []phase{none}, On: []Trigger{OnVerify}, Do: []step{reportShut}, Then: done},

	// Continue with the generation in place, if a kubelet may start on it.
	{In: inPlace, On: []Trigger{OnFailed, OnNoSite}, When: mayGoOn, Then: OnResume},
	{In: inPlace, On: []Trigger{OnFailed, OnNoSite}, When: isOpen, Then: done},
	{In: inPlace, On: []Trigger{OnFailed, OnNoSite}, Do: []step{holdBack}, Then: done},
	{
		In: []phase{settled}, On: []Trigger{OnUnchanged}, When: mayPatch, Reads: ownSpec,
		Do: []step{patchLabels}, Then: OnResume,
	},
	{In: inPlace, On: []Trigger{OnUnchanged}, Then: OnResume},
	{
		In:    []phase{settled},
		On:    []Trigger{OnResume},
		Reads: ownSpec,
		Do:    []step{openGate, requestStart},
		Then:  done,
	},
	{
		In:   []phase{pending},
		On:   []Trigger{OnResume},
		When: isExhausted,
		Do:   rollbackSteps,
		Then: OnResume,
	},
	{
		In:    awaiting,
		On:    []Trigger{OnResume},
		When:  isNewBoot,
		Reads: ownSpec,
		Do:    []step{countTry, openGate},
		Then:  onJudge,
	},
	{In: awaiting, On: []Trigger{OnResume}, Reads: ownSpec, Do: []step{reload, actUnits}, Then: stepResult},
	{In: awaiting, On: []Trigger{onReady}, Do: []step{openGate}, Then: onJudge},

	// The kubelet starts or has crashed.
	{In: []phase{settled}, On: []Trigger{OnVerify}, When: isOpen, Do: []step{notePending}, Then: done},
	{In: awaiting, On: []Trigger{OnVerify}, When: isOpen, Reads: ownSpec, Do: []step{notePending}, Then: onJudge},
	{In: inPlace, On: []Trigger{OnVerify}, When: isNotWhole, Do: []step{holdBack}, Then: done},
	{
		In:    []phase{settled},
		On:    []Trigger{OnVerify},
		Reads: ownSpec,
		Do:    []step{openGate, requestStart},
		Then:  done,
	},
	{
		In:    awaiting,
		On:    []Trigger{OnVerify},
		Reads: ownSpec,
		Do:    []step{actUnits},
		Then:  stepResult,
	},

	// By hand.
	{
		In:    inPlace,
		On:    []Trigger{OnRollback},
		Reads: wayBackByHand,
		Do:    append([]step{preflightBack}, rollbackSteps...),
		Then:  OnResume,
	},

	// The verdict.
	{
		In:    awaiting,
		On:    []Trigger{onJudge},
		When:  mayWait,
		Reads: ownSpec,
		Do:    []step{countTry, watch},
		Then:  stepResult,
	},
	{In: awaiting, On: []Trigger{onJudge}, Reads: ownSpec, Do: []step{requestStart}, Then: done},
	{In: awaiting, On: []Trigger{onGood}, Reads: ownSpec, Do: []step{retire, closeGood}, Then: done},
	{In: awaiting, On: []Trigger{onUnknown}, Do: []step{uncountTry}, Then: done},
	{
		In:   []phase{pending},
		On:   []Trigger{onBad},
		When: canGoBack,
		Do:   rollbackSteps,
		Then: OnResume,
	},
	{In: []phase{pending}, On: []Trigger{onBad}, When: isOpen, Then: done},
	{In: []phase{pending}, On: []Trigger{onBad}, Do: []step{openGate}, Then: onJudge},
	{In: []phase{returning}, On: []Trigger{onBad}, Do: []step{closeBad}, Then: done},
	{
		In:   awaiting,
		On:   []Trigger{onSuperseded},
		When: hasTooManyRounds,
		Do:   []step{leavePending},
		Then: done,
	},
	{In: awaiting, On: []Trigger{onSuperseded}, Then: OnResume},
	{In: []phase{settled}, On: []Trigger{onSuperseded}, Do: []step{reportOther}, Then: done},

	// Pairs that cannot occur.
	{In: []phase{none}, On: []Trigger{OnRollback}, Never: "nothing to roll back: no generation is in place"},
	{
		In: []phase{none}, On: []Trigger{onSuperseded},
		Never: "what was watched is gone: generations are only removed while one is in place",
	},
	{
		In:    []phase{mixed},
		On:    []Trigger{OnChange},
		Never: "nothing can be staged before an interrupted commit is finished",
	},
	{In: unmixed, On: []Trigger{onCommitted}, Never: "the commit has written the journal under this lock"},
	{
		In: []phase{none, settled, mixed}, On: []Trigger{onJudge, onReady, onGood, onBad, onUnknown},
		Never: "nothing awaits a verdict: the journal was read under this lock",
	},
}

// next returns the row for a phase and a trigger. holds reports whether a fact is true.
func next(rows []row, in phase, on Trigger, holds func(fact) (bool, error)) (row, error) {
	for _, r := range rows {
		if !slices.Contains(r.In, in) || !slices.Contains(r.On, on) {
			continue
		}
		isTrue, err := r.When == nil, error(nil)
		if r.When != nil {
			isTrue, err = holds(r.When)
		}
		if isTrue || err != nil {
			return r, err
		}
	}

	return row{Never: "the table has no row for it"}, nil
}
