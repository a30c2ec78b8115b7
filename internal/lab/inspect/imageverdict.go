package inspect

import (
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
)

// ImageVerdict is whether the image that has booted may stay, for programs that go back to the image before it.
type ImageVerdict struct {
	Keep bool   `json:"keep"`
	Why  string `json:"why"`
}

// FindImageVerdict returns whether a boot shows that its image does not work. A fault that another image cannot fix, or
// an unknown state, never gives an image back: a cluster that is unreachable would otherwise roll back a whole fleet.
func FindImageVerdict(s NodeStatus) ImageVerdict {
	const unknown = "nothing shows that the image is at fault: "

	switch code := s.ErrorCode(); {
	case s.NotStarted != "" && s.NotGiven:
		return ImageVerdict{Keep: true, Why: unknown + s.NotStarted}
	case s.NotStarted != "":
		return ImageVerdict{Why: s.NotStarted}
	case s.Problem != "":
		return ImageVerdict{Keep: true, Why: unknown + s.Problem}
	case s.Condition == Unfinished && s.Failing != "" && s.Gate.Open: // no unit is going to give a verdict
		return ImageVerdict{Why: s.Failing}
	case s.Condition == Unfinished:
		return ImageVerdict{Keep: true, Why: unknown + "this boot has no verdict"}
	case isSiteFault(code) && s.runsOnGood():
		return ImageVerdict{Keep: true, Why: "the kubelet may start on a good generation: " + s.Summary}
	case isSiteFault(code), isKubeletFault(code):
		return ImageVerdict{Why: s.Summary}
	case s.Verdict == report.Bad:
		return ImageVerdict{Why: s.Why}
	case s.Exit != 0:
		return ImageVerdict{Keep: true, Why: fmt.Sprintf(
			"%sexit status %d: %s",
			unknown,
			s.Exit,
			s.Summary,
		)}
	case s.Failing != "":
		return ImageVerdict{Why: s.Failing}
	case s.verifiedFault() != "":
		return ImageVerdict{Why: s.verifiedFault()}
	case s.Held != nil && !s.Pinned:
		return ImageVerdict{Why: "the plan of the site is held: " + s.Held.Why}
	case s.Unjudged:
		return ImageVerdict{Keep: true, Why: unknown + "this boot has no verdict"}
	}

	return ImageVerdict{Keep: true, Why: s.Summary}
}

// verifiedFault returns how the kubelet of this boot was unhealthy on files that had not changed; "" if it was not.
func (s NodeStatus) verifiedFault() string {
	for _, reason := range s.Status.Degraded {
		if isKubeletFault(reason.Code) {
			return reason.Summary
		}
	}

	return ""
}

// runsOnGood reports whether the kubelet may start on a generation whose verdict was good.
func (s NodeStatus) runsOnGood() bool {
	isGood := s.Kept == string(generation.StatusGood) && s.Verdict != report.Bad
	return isGood && s.Gate.Open && s.Gate.Generation == s.Generation
}

// isSiteFault reports whether a site with a code cannot work on any machine with this image: its text is wrong, or the
// kubelet does not accept it. All other codes of sites depend on the machine as well: on a file, a variable, a host
// name or a label's value that it was given, or on the cluster's configuration.
func isSiteFault(code fault.Code) bool {
	return slices.Contains([]fault.Code{
		fault.Syntax,
		fault.Encoding,
		fault.UnknownBlock,
		fault.UnknownStage,
		fault.UnknownArgument,
		fault.MissingArgument,
		fault.Duplicate,
		fault.OverrideMissing,
		fault.Cycle,
		fault.Reference,
		fault.WrongType,
		fault.RequiredVersion,
		fault.KubeletFlag,
		fault.KubeletGate,
	}, code)
}

// isKubeletFault reports whether a run ended with an unhealthy kubelet, a systemd that refuses its unit, or a prelet
// that fails, which the image has. A Node that another machine has is none of these.
func isKubeletFault(code fault.Code) bool {
	return slices.Contains([]fault.Code{
		fault.RolledBack,
		fault.KubeletUnhealthy,
		fault.RollbackFails,
		fault.Systemd,
		fault.Internal,
	}, code)
}
