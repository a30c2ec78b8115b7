package activate

import "slices"

// phase is where a node is, by what lies on its disk. locate reads it before each row.
type phase int

// The phases.
const (
	none      phase = iota // there never was a generation
	settled                // a generation is in place, and nobody awaits a verdict on it
	mixed                  // a commit or a way back was interrupted: files of two generations
	pending                // a generation is in place whole, and awaits its verdict
	returning              // the same, and it came by going back
)

// trigger is what happens in a phase: somebody enters, or the row before came to something.
type trigger int

// The triggers. Those up to onCheck are how prelet enters; the others come out of rows.
const (
	onFinish     trigger = iota // what a crash left is to be finished, and nothing more
	onChange                    // a run has staged a commit
	onResume                    // go on with what is in place: nothing is to change, or may be
	onFailed                    // a run failed before its commit
	onNoSite                    // there is no site
	onRollback                  // somebody goes back by hand
	onVerify                    // prelet-verify: the kubelet starts, or has crashed
	onCommitted                 // this process has just written the journal
	onJudge                     // what is in place may start, and is to be judged
	onGood                      // the verdict
	onBad                       //
	onUnknown                   // none could be reached
	onSuperseded                // another prelet took over while the lock was free

	done // nothing follows
	repeat
	stepResult // what the last step found: onGood, onBad, onUnknown or onSuperseded
)

// fact is what a row asks of here beside its phase.
type fact int

// The facts.
const (
	always           fact = iota
	isOpen                // the gate is open
	isShutOnPurpose       // the gate is shut on purpose: this boot has neither opened it nor put anything in place
	isWhole               // a kubelet may start on what is in place; here.WhyNot says why not
	isExhausted           // too many boots began to judge it and came to no end, and there is a good one to go back to
	isNewBoot             // no process of this boot has counted itself as a try
	mayWait               // this process may wait for a start of the unit
	canGoBack             // there is a good one to go back to, and it may help; here.Stay says why not
	hasTooManyRounds      // others took over maxRounds times
)

// step is one thing that a row does. Each may be done again after it was done, or half done.
type step int

// The steps.
const (
	sweep         step = iota // remove what a commit that never happened staged
	preflight                 // look whether a commit could be activated; note that the unit runs
	preflightBack             // the same for going back by hand
	commit                    // write the journal: from here on only forward
	shutGate                  // the gate, with a reason
	stop                      // the unit, if it is alive; what ran is owed a start
	publish                   // put every file in place
	complete                  // the same, for whoever was interrupted
	restore                   // put the contents of an earlier generation in place
	reload                    // make systemd read its unit files, if one changed and the gate is shut
	countTry                  // count this boot as a try
	openGate                  // the gate, on what is in place, if it is shut
	requestStart              // ask for a start if one is due, and do not wait for it
	watch                     // without the lock: start the unit if that is due, wait, and look until there is a verdict
	uncountTry                // this boot was no try
	retire                    // remove files that are not needed once the generation is good
	closeGood                 // the journal: the generation is good; the plan that was left is held
	closeBad                  // the journal: what was gone back to is ill as well; the plan is not held
	holdBack                  // shut the gate and keep why, for whoever asks
	reportShut                // say why the gate is shut
	reportOther               // report the verdict of whoever took over
	leavePending              // leave the verdict to whoever takes over
)

// row says what is done when something happens in a phase.
type row struct {
	In   []phase
	On   []trigger
	When fact // the first row whose fact holds is the one
	Do   []step
	Then trigger // what follows, in the phase that is then located; again is the same trigger
	// Never says why this cannot happen. Then the row does nothing, and to come here is an error.
	Never string
}

var (
	unmixed       = []phase{none, settled, pending, returning}
	inPlace       = []phase{settled, pending, returning} // a generation is, whole
	awaiting      = []phase{pending, returning}          // and awaits a verdict
	rollbackSteps = []step{shutGate, stop, restore}
)

// table is all that activation does. For each phase and trigger the rows are asked in this order; the last has no
// condition.
var table = []row{
	// What a crash left comes first, whoever enters.
	{In: []phase{mixed}, On: []trigger{onFinish}, Do: []step{shutGate, stop, complete, reload}, Then: done},
	{
		In: []phase{mixed}, On: []trigger{onResume, onFailed, onNoSite, onRollback, onVerify, onSuperseded},
		Do: []step{shutGate, stop, complete}, Then: repeat,
	},
	{In: []phase{none, settled}, On: []trigger{onFinish}, Do: []step{sweep}, Then: done},
	{In: awaiting, On: []trigger{onFinish}, Do: []step{sweep, reload}, Then: done},

	// A change.
	{In: unmixed, On: []trigger{onChange}, Do: []step{preflight, commit}, Then: onCommitted},
	{In: []phase{mixed}, On: []trigger{onCommitted}, Do: []step{shutGate, stop, publish}, Then: onResume},

	// Prelet was never used.
	{In: []phase{none}, On: []trigger{onFailed, onNoSite, onVerify}, When: isOpen, Then: done},
	{In: []phase{none}, On: []trigger{onFailed}, Do: []step{holdBack}, Then: done},
	{In: []phase{none}, On: []trigger{onNoSite}, Do: []step{openGate, requestStart}, Then: done},
	{In: []phase{none}, On: []trigger{onVerify}, Do: []step{reportShut}, Then: done},

	// The generation in place goes on, if a kubelet may start on it.
	{In: inPlace, On: []trigger{onFailed, onNoSite}, When: isWhole, Then: onResume},
	{In: inPlace, On: []trigger{onFailed, onNoSite}, When: isOpen, Then: done},
	{In: inPlace, On: []trigger{onFailed, onNoSite}, Do: []step{holdBack}, Then: done},
	{In: []phase{settled}, On: []trigger{onResume}, Do: []step{openGate, requestStart}, Then: done},
	{In: []phase{pending}, On: []trigger{onResume}, When: isExhausted, Do: rollbackSteps, Then: onResume},
	{In: awaiting, On: []trigger{onResume}, When: isNewBoot, Do: []step{countTry, openGate}, Then: onJudge},
	{In: awaiting, On: []trigger{onResume}, Do: []step{reload, openGate}, Then: onJudge},

	// A kubelet starts or has crashed.
	{In: []phase{settled}, On: []trigger{onVerify}, When: isOpen, Then: done},
	{In: awaiting, On: []trigger{onVerify}, When: isOpen, Then: onJudge},
	{In: inPlace, On: []trigger{onVerify}, When: isShutOnPurpose, Do: []step{reportShut}, Then: done},
	{In: []phase{settled}, On: []trigger{onVerify}, When: isWhole, Do: []step{openGate, requestStart}, Then: done},
	{In: awaiting, On: []trigger{onVerify}, When: isWhole, Do: []step{openGate}, Then: onJudge},
	{In: inPlace, On: []trigger{onVerify}, Do: []step{holdBack}, Then: done},

	// By hand.
	{In: inPlace, On: []trigger{onRollback}, Do: append([]step{preflightBack}, rollbackSteps...), Then: onResume},

	// The verdict.
	{In: awaiting, On: []trigger{onJudge}, When: mayWait, Do: []step{countTry, watch}, Then: stepResult},
	{In: awaiting, On: []trigger{onJudge}, Do: []step{requestStart}, Then: done},
	{In: awaiting, On: []trigger{onGood}, Do: []step{retire, closeGood}, Then: done},
	{In: awaiting, On: []trigger{onUnknown}, Do: []step{uncountTry}, Then: done},
	{In: []phase{pending}, On: []trigger{onBad}, When: canGoBack, Do: rollbackSteps, Then: onResume},
	{In: []phase{pending}, On: []trigger{onBad}, Then: done},
	{In: []phase{returning}, On: []trigger{onBad}, Do: []step{closeBad}, Then: done},
	{In: awaiting, On: []trigger{onSuperseded}, When: hasTooManyRounds, Do: []step{leavePending}, Then: done},
	{In: awaiting, On: []trigger{onSuperseded}, Then: onResume},
	{In: []phase{settled}, On: []trigger{onSuperseded}, Do: []step{reportOther}, Then: done},

	// What cannot happen.
	{In: []phase{none}, On: []trigger{onResume}, Never: "nothing to resume: no generation is in place"},
	{In: []phase{none}, On: []trigger{onRollback}, Never: "nothing to go back from: no generation is in place"},
	{
		In: []phase{none}, On: []trigger{onSuperseded},
		Never: "what was watched is gone: generations are only removed while one is in place",
	},
	{In: []phase{mixed}, On: []trigger{onChange}, Never: "nothing can be staged before an interrupted commit is finished"},
	{In: unmixed, On: []trigger{onCommitted}, Never: "the commit has written the journal under this lock"},
	{
		In: []phase{none, settled, mixed}, On: []trigger{onJudge, onGood, onBad, onUnknown},
		Never: "nothing awaits a verdict: the journal was read under this lock",
	},
}

// next is the row for what happens here. It is pure.
func next(rows []row, h location, on trigger) row {
	for _, row := range rows {
		if slices.Contains(row.In, h.phase) && slices.Contains(row.On, on) && h.holds(row.When) {
			return row
		}
	}

	return row{Never: "the table has no row for it"}
}
