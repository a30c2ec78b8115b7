package activation

import "strings"

// The names of the table, which words.md explains.
var phaseNames = []string{
	none:      "none",
	settled:   "settled",
	mixed:     "mixed",
	pending:   "pending",
	returning: "returning",
}

var triggerNames = []string{
	OnFinish:     "finish",
	OnChange:     "change",
	OnResume:     "resume",
	OnUnchanged:  "unchanged",
	OnFailed:     "failed",
	OnNoSite:     "no site",
	OnOff:        "off",
	OnRollback:   "rollback",
	OnVerify:     "verify",
	onCommitted:  "committed",
	onJudge:      "judge",
	onReady:      "ready",
	onGood:       "good",
	onBad:        "bad",
	onUnknown:    "unknown",
	onSuperseded: "superseded",
}

var factNames = []string{
	always:           "",
	isOpen:           "gate open",
	isShutOnPurpose:  "shut on purpose",
	isWhole:          "whole",
	isExhausted:      "exhausted",
	isNewBoot:        "new boot",
	mayWait:          "may wait",
	canGoBack:        "can roll back",
	hasTooManyRounds: "too many rounds",
	mayPatch:         "may patch",
}

var stepNames = []string{
	sweep:         "sweep",
	preflight:     "preflight",
	preflightBack: "preflight",
	commit:        "commit",
	shutGate:      "shut gate",
	stop:          "stop",
	publish:       "publish",
	complete:      "complete",
	restore:       "restore",
	reload:        "reload",
	actUnits:      "act on units",
	countTry:      "count try",
	openGate:      "open gate",
	requestStart:  "request start",
	watch:         "watch",
	uncountTry:    "uncount try",
	retire:        "retire",
	closeGood:     "close as good",
	closeBad:      "close as bad",
	holdBack:      "hold back",
	reportShut:    "report shut",
	reportOther:   "report other",
	leavePending:  "leave pending",
	patchLabels:   "patch labels",
}

// Page returns docs/develop/activation.md: the table as text.
func Page() string {
	var b strings.Builder

	b.WriteString(`# Activation

After planning, prelet works through one table. Before each row it reads where the node is (the phase); a killed
process needs to remember nothing. For a phase and a trigger the first row whose condition holds is used. Its steps run
in order; each may run twice. The last column is the next trigger, in the phase that is found then.
[words.md](../../internal/commit/activation/words.md) has the meaning of each name.

| phase | trigger | if | steps | then |
|---|---|---|---|---|
`)

	for _, r := range table {
		if r.Never == "" {
			fact := factNames[r.When]
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

	return b.String()
}

// writeRow writes the phases and triggers of a row, and its other cells.
func writeRow(b *strings.Builder, r row, others ...string) {
	cells := []string{joinNames(phaseNames, r.In), joinNames(triggerNames, r.On)}
	cells = append(cells, others...)
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// joinNames returns the names of phases, triggers or steps.
func joinNames[T ~int](names []string, list []T) string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, names[x])
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

	return triggerNames[on]
}
