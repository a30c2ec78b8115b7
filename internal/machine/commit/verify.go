package commit

import (
	"github.com/prelet/prelet/internal/fault"
)

// DecideVerify returns the report of a verify, and the code of the command. It is pure.
//
// last is how the last run of this boot ended. While its cause persists, or while it is the reason why the gate is
// shut, the report keeps it. Started by the unit, a verify behind a shut gate ends with success: prelet.service shows
// that failure.
func DecideVerify(res Result, last fault.Reason, byUnit bool) (reported fault.Reason, code fault.Code) {
	reported = fault.Reason{Code: res.Code, Summary: res.Summary}
	code = res.Code

	switch {
	case res.Outcome.HeldBack != "" && last.Code != "":
		reported = last
	case res.Outcome.HeldBack != "" && res.Code != fault.RolledBack:
		reported.Code = fault.KubeletUnhealthy
	case res.Code == "" && last.Code.IsLasting():
		reported = fault.Reason{Code: last.Code, Summary: last.Summary + "; " + res.Summary}
	}

	if code == "" && res.Outcome.HeldBack != "" && !byUnit {
		code = fault.KubeletUnhealthy
	}

	return reported, code
}
