package app

import (
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// ImageVerdict is whether the image that has booted may stay, for programs that go back to the image before it.
type ImageVerdict struct {
	Keep bool   `json:"keep"`
	Why  string `json:"why"`
}

// JudgeImage returns whether a boot shows that its image does not work. What another image cannot fix, and what is not
// known, never gives an image back: a cluster that is unreachable would otherwise roll back a whole fleet.
func JudgeImage(s NodeStatus) ImageVerdict {
	const unknown = "nothing shows that the image is at fault: "

	switch {
	case s.NotStarted != "":
		return ImageVerdict{Why: "systemd could not start prelet: " + s.NotStarted}
	case s.Problem != "":
		return ImageVerdict{Keep: true, Why: unknown + s.Problem}
	case s.Condition == Unfinished:
		return ImageVerdict{Keep: true, Why: unknown + "this boot has no verdict"}
	case isImageFault(s.ErrorCode()):
		return ImageVerdict{Why: s.Summary}
	case s.Verdict == "bad":
		return ImageVerdict{Why: s.Why}
	case s.Exit != 0:
		return ImageVerdict{Keep: true, Why: fmt.Sprintf("%sexit status %d: %s", unknown, s.Exit, s.Summary)}
	case s.Held != nil && !s.Pinned:
		return ImageVerdict{Why: "the plan of the site is held: " + s.Held.Why}
	}

	return ImageVerdict{Keep: true, Why: s.Summary}
}

// isImageFault reports whether an image with another site, kubelet or prelet could do better than one whose run ended
// with a code.
func isImageFault(code fault.Code) bool {
	switch code {
	case "":
		return false
	case fault.VariableMissing, fault.VariableInvalid, fault.SiteSignature: // what a machine was given
		return false
	case fault.OtherMachine: // a name that two machines have
		return false
	}

	const invalidSite = 10 // of all codes about the site
	return slices.Contains([]int{
		invalidSite,
		fault.RolledBack.Exit(),
		fault.RollbackFails.Exit(),
		fault.Systemd.Exit(),
		fault.Internal.Exit(),
	}, code.Exit())
}
