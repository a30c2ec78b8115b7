package commit

import (
	"github.com/prelet/prelet/internal/fault"
)

// Ending is how a run or a verify ended: a code, "" for success, and one line.
type Ending struct {
	Code    fault.Code
	Summary string
}

// DecideVerify returns the report of a verify, and the code of the command. It is pure.
//
// last is how the last run of this boot ended. While its cause persists, or while it is the reason why the gate is
// shut, the report keeps it. Started by the unit, a verify behind a shut gate ends with success: prelet.service shows
// that failure.
func DecideVerify(res Ended, last Ending, byUnit bool) (reported Ending, code fault.Code) {
	reported = Ending{res.Code, res.Summary}
	code = res.Code

	switch {
	case res.Outcome.HeldBack != "" && last.Code != "":
		reported = last
	case res.Outcome.HeldBack != "" && res.Code != fault.RolledBack:
		reported.Code = fault.KubeletUnhealthy
	case res.Code == "" && last.Code.IsLasting():
		reported = Ending{last.Code, last.Summary + "; " + res.Summary}
	}

	if code == "" && res.Outcome.HeldBack != "" && !byUnit {
		code = fault.KubeletUnhealthy
	}

	return reported, code
}
