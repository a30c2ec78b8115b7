package activate

import (
	"fmt"
	"strings"
)

// word is a name with its meaning.
type word struct{ name, meaning string }

var phaseNames = []word{
	none:      {"none", "there never was a generation"},
	settled:   {"settled", "a generation is in place, and no verdict on it is awaited"},
	mixed:     {"mixed", "a commit or a way back was interrupted: the journal says publish or rollback"},
	pending:   {"pending", "a generation is in place whole, and awaits its verdict"},
	returning: {"returning", "the same, and it came by going back"},
}

var triggerNames = []word{
	onFinish:     {"finish", "every command that writes begins with what a crash left"},
	onChange:     {"change", "a run has staged a commit"},
	onResume:     {"same", "go on with what is in place: nothing is to change, or may be"},
	onFailed:     {"failed", "a run failed before its commit"},
	onNoSite:     {"no site", "a run found no site"},
	onRollback:   {"back", "`prelet rollback`"},
	onVerify:     {"check", "`prelet-verify.service`: the kubelet starts, or has crashed"},
	onCommitted:  {"committed", "this process has just written the journal"},
	onJudge:      {"judge", "the gate is open on what awaits a verdict"},
	onGood:       {"good", "the verdict: the kubelet is well"},
	onBad:        {"bad", "the verdict: the kubelet is ill"},
	onUnknown:    {"unknown", "no verdict could be reached"},
	onSuperseded: {"superseded", "another prelet took over while the lock was free"},
}

var factNames = []word{
	always: {"", ""},
	isOpen: {"gate open", "the kubelet may start already"},
	isShutOnPurpose: {
		"gate kept", "it was not open in this boot, and nothing was put in place in this boot: it is shut on purpose",
	},
	isWhole: {
		"whole",
		"the files are those of the generation, which was made on this machine; " +
			"after a failure also: it is good, or the node has joined with it",
	},
	isExhausted: {
		"exhausted", "three boots began to judge it and came to no end, there is a good one to go back to, and the site lets",
	},
	isNewBoot: {"new boot", "no process of this boot has counted itself as a try"},
	mayWait:   {"may wait", "this process may wait for a start of the kubelet: it is not prelet.service at boot"},
	canGoBack: {
		"better", "there is a good generation to go back to, the site lets, and that one does not have the same fault",
	},
	hasTooManyRounds: {"too often", "others took over five times"},
}

var stepNames = []word{
	sweep: {"sweep", "remove what a commit that never happened staged"},
	preflight: {
		"ready", "systemd answers, and the unit is there and waits for the gate; else 52, and nothing was changed",
	},
	preflightBack: {"ready", ""},
	commit:        {"commit", "write the journal: from here on only forward"},
	shutGate:      {"shut", "the gate"},
	stop:          {"stop", "the kubelet, if it runs or is about to; a start is owed to it then"},
	publish:       {"publish", "put every file in place; the journal says that a verdict is awaited"},
	complete:      {"complete", "publish what somebody was interrupted at"},
	restore:       {"return", "commit and publish the contents of an earlier generation, as a new one"},
	reload:        {"reload", "make systemd read its unit files before the gate opens, if one changed"},
	countTry:      {"count", "this boot as a try"},
	openGate:      {"open", "the gate, if it is shut"},
	requestStart:  {"ask", "for a start of the kubelet, if one is owed or the gate held it up; nobody waits for it"},
	watch: {
		"watch",
		"with the lock free: start the kubelet if that is due, wait, look until there is a verdict; " +
			"lock, and see whether the journal is the same",
	},
	uncountTry:   {"uncount", "this boot was no try"},
	retire:       {"retire", "remove files that a good generation needs no more, like the bootstrap token"},
	closeGood:    {"close", "the journal: the generation is good, and a plan that was left for it is held"},
	closeBad:     {"close as ill", "the journal: the plan that was left was not at fault, and is not held"},
	holdBack:     {"withhold", "shut the gate, and keep why"},
	reportShut:   {"tell", "why the gate is shut"},
	reportOther:  {"take", "report the verdict of whoever took over"},
	leavePending: {"leave", "the verdict to whoever takes over"},
}

// Page returns docs/reference/activation.md: the table as text.
func Page() string {
	var b strings.Builder

	b.WriteString(`# Activation

What prelet does after a plan is known: it is one table. Before each row prelet looks where the node is (the phase), so
that a process that was killed anywhere needs nobody who remembers it. For a phase and a trigger the first row whose
condition holds is the one. Its steps are done in order; each may be done twice. Then the trigger of the last column
follows, in the phase that is found then.

| phase | trigger | if | steps | then |
|---|---|---|---|---|
`)

	for _, r := range table {
		if r.Never == "" {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", joinNames(phaseNames, r.In), joinNames(triggerNames, r.On),
				factNames[r.When].name, joinNames(stepNames, r.Do), describeNext(r.Then))
		}
	}

	b.WriteString("\n## What cannot happen\n\n| phase | trigger | because |\n|---|---|---|\n")

	for _, r := range table {
		if r.Never != "" {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", joinNames(phaseNames, r.In), joinNames(triggerNames, r.On), r.Never)
		}
	}

	b.WriteString("\n## Words\n")
	writeWords(&b, "Phases", phaseNames)
	writeWords(&b, "Triggers", triggerNames)
	writeWords(&b, "Conditions", factNames)
	writeWords(&b, "Steps", stepNames)

	return b.String()
}

func writeWords(b *strings.Builder, title string, names []word) {
	fmt.Fprintf(b, "\n### %s\n\n", title)

	for _, e := range names {
		if e.meaning != "" {
			fmt.Fprintf(b, "- **%s**: %s\n", e.name, e.meaning)
		}
	}
}

// joinNames returns the names of phases, triggers or steps.
func joinNames[T ~int](names []word, list []T) string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, names[x].name)
	}

	return strings.Join(out, ", ")
}

func describeNext(on trigger) string {
	switch on {
	case done:
		return "–"
	case repeat:
		return "the same"
	case stepResult:
		return joinNames(triggerNames, []trigger{onGood, onBad, onUnknown, onSuperseded})
	}

	return triggerNames[on].name
}
