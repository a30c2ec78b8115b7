package activation

import (
	"reflect"
	"regexp"
	"runtime"
	"strings"
)

// The names of the table in messages of tests.
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

// factName returns the name of a fact in words, such as "new boot" of isNewBoot; "" of none.
func factName(f fact) string {
	if f == nil {
		return ""
	}
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	name = name[strings.LastIndex(name, ".")+1:]
	name = strings.ToLower(capital.ReplaceAllString(name, " $0"))

	return strings.TrimPrefix(name, "is ")
}

var capital = regexp.MustCompile("[A-Z]")

var stepNames = []string{
	sweep:         "sweep",
	preflight:     "preflight",
	preflightBack: "preflight",
	stage:         "stage",
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
	notePending:   "note pending",
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

// joinNames returns the names of phases, triggers or steps.
func joinNames[T ~int](names []string, list []T) string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, names[x])
	}

	return strings.Join(out, ", ")
}
