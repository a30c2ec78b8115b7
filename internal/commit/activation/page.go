package activation

import (
	"fmt"
	"strings"
)

// word is a name with its meaning.
type word struct{ name, meaning string }

var phaseNames = []word{
	none:    {"none", "there never was a generation"},
	settled: {"settled", "a generation is in place and awaits no verdict"},
	mixed: {
		"mixed",
		"a commit or a rollback was interrupted: the journal's phase is publish or rollback",
	},
	pending:   {"pending", "a complete generation is in place and awaits its verdict"},
	returning: {"returning", "the same, after a rollback"},
}

var triggerNames = []word{
	OnFinish: {"finish", "every command that writes first finishes what a crash left"},
	OnChange: {"change", "a run has staged a commit"},
	OnResume: {
		"resume",
		"continue with the generation in place: nothing has to change, or may change",
	},
	OnUnchanged:  {"unchanged", "the same, and the site's plan is the one in place"},
	OnFailed:     {"failed", "a run failed before its commit"},
	OnNoSite:     {"no site", "a run found no site"},
	OnOff:        {"off", "`prelet=off` is on the kernel command line: only the gate opens"},
	OnRollback:   {"rollback", "`prelet rollback`"},
	OnVerify:     {"verify", "`prelet-verify.service`: the kubelet starts, or has crashed"},
	onCommitted:  {"committed", "this process has just written the journal"},
	onJudge:      {"judge", "the gate is open on a generation that awaits a verdict"},
	onReady:      {"ready", "the units that changed files notify have read them, or are going to"},
	onGood:       {"good", "the verdict: the kubelet is healthy"},
	onBad:        {"bad", "the verdict: the kubelet is unhealthy"},
	onUnknown:    {"unknown", "no verdict could be reached"},
	onSuperseded: {"superseded", "another prelet process took over while the lock was free"},
}

var factNames = []word{
	always: {"", ""},
	isOpen: {"gate open", "the kubelet may start already"},
	isShutOnPurpose: {
		"shut on purpose",
		"no process of this boot has opened the gate or put anything in place, as far as the run folder and " +
			"systemd know",
	},
	isWhole: {
		"whole",
		"the files are those of the generation, which was made on this machine; " +
			"after a failure also: it is good, or the node has joined with it",
	},
	isExhausted: {
		"exhausted",
		"three boots began to judge it and did not finish, there is a good generation to roll back to, " +
			"and the site allows it",
	},
	isNewBoot: {"new boot", "no process of this boot has counted itself as a try"},
	mayWait: {
		"may wait",
		"this process may wait for a start of the kubelet: it is not prelet.service at boot, and the state " +
			"folder is not read-only",
	},
	canGoBack: {
		"can roll back",
		"there is a good generation to roll back to, the site allows it, and it does not have the same fault",
	},
	hasTooManyRounds: {"too many rounds", "other processes took over five times"},
	mayPatch: {
		"may patch",
		"the site has `reconcile_labels` or `taint_credential`, and this process may wait: " +
			"it is not prelet.service at boot",
	},
}

var stepNames = []word{
	sweep: {"sweep", "remove what a commit that never happened has staged"},
	preflight: {
		"preflight",
		"check that systemd answers, that the unit exists and waits for the gate, as the change makes it, " +
			"and that the run folder has space; else exit status 52 or 40, nothing changed",
	},
	preflightBack: {"preflight", ""},
	commit:        {"commit", "write the journal: from here on only forward"},
	shutGate:      {"shut gate", "shut the gate and write the reason"},
	stop: {
		"stop",
		"stop the kubelet if it runs or is about to run; it is then owed a start",
	},
	publish:  {"publish", "put every file in place; the journal then awaits a verdict"},
	complete: {"complete", "finish the publish of an interrupted process"},
	restore: {
		"restore",
		"commit and publish the contents of an earlier generation, as a new one",
	},
	reload: {
		"reload",
		"make systemd read its unit files before the gate opens, if one changed",
	},
	actUnits: {
		"act on units",
		"restart and reload the units that changed files notify, as far as that is owed: systemd's, then the site's",
	},
	countTry: {"count try", "count this boot as a try"},
	openGate: {"open gate", "open the gate if it is shut"},
	requestStart: {
		"request start",
		"request a start of the kubelet if it is owed or the gate blocked it, without waiting for it",
	},
	watch: {
		"watch",
		"with the lock free: start the kubelet if that is due, wait, and watch it until there is a verdict; " +
			"then take the lock and check that the journal is the same",
	},
	uncountTry: {"uncount try", "do not count this boot as a try"},
	retire: {
		"retire",
		"remove files that a good generation no longer needs, such as the bootstrap token",
	},
	closeGood: {
		"close as good",
		"close the journal: the generation is good; the plan that was rolled back is held",
	},
	closeBad: {
		"close as bad",
		"close the journal: unhealthy after the rollback too; the plan is not held",
	},
	holdBack:     {"hold back", "shut the gate and write the reason"},
	reportShut:   {"report shut", "report the reason why the gate is shut"},
	reportOther:  {"report other", "report the verdict of the process that took over"},
	leavePending: {"leave pending", "leave the verdict to the process that takes over"},
	patchLabels: {
		"patch labels",
		"with the lock free: patch the labels of the Node that differ from the site's plan, as far as the " +
			"cluster allows",
	},
}

// Page returns docs/reference/activation.md: the table as text.
func Page() string {
	var b strings.Builder

	b.WriteString(`# Activation

After planning, prelet works through one table. Before each row it reads where the node is (the phase), so a killed
process needs to remember nothing. For a phase and a trigger the first row whose condition holds is used. Its steps run
in order; each may run twice. The last column is the next trigger, in the phase that is found then.

| phase | trigger | if | steps | then |
|---|---|---|---|---|
`)

	for _, r := range table {
		if r.Never == "" {
			fact := factNames[r.When].name
			steps := joinNames(stepNames, r.Do)
			writeRow(&b, r, fact, steps, describeNext(r))
		}
	}

	b.WriteString("\n## What cannot happen\n\n| phase | trigger | because |\n|---|---|---|\n")

	for _, r := range table {
		if r.Never != "" {
			writeRow(&b, r, r.Never)
		}
	}

	b.WriteString("\n## Words\n")
	writeWords(&b, "Phases", phaseNames)
	writeWords(&b, "Triggers", triggerNames)
	writeWords(&b, "Conditions", factNames)
	writeWords(&b, "Steps", stepNames)

	return b.String()
}

// writeRow writes the phases and triggers of a row, and its other cells.
func writeRow(b *strings.Builder, r row, others ...string) {
	cells := []string{joinNames(phaseNames, r.In), joinNames(triggerNames, r.On)}
	cells = append(cells, others...)
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
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

func describeNext(r row) string {
	on := r.Then
	switch on {
	case done:
		return "–"
	case repeat:
		return "the same"
	case stepResult:
		if r.Do[len(r.Do)-1] == actUnits {
			return joinNames(triggerNames, []Trigger{onReady, onBad})
		}
		return joinNames(triggerNames, []Trigger{onGood, onBad, onUnknown, onSuperseded})
	}

	return triggerNames[on].name
}
