package probe

import (
	"context"
	"fmt"
	"os"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

func (l *Live) answerLock(ctx context.Context, r world.LockReq) world.Answer {
	return l.askDetectors(ctx, r.Name, world.Lock.Question(r))
}

// answerDetector returns the report of a detector. The output of a vendor's program may contain a secret of this node
// that the program found, so the redactor gets all secrets of the site before any output is kept.
func (l *Live) answerDetector(ctx context.Context, r world.DetectorReq) world.Answer {
	q := world.Detector.Question(r)

	return l.redactDetector(r.Name, l.askDetectors(ctx, r.Name, q))
}

func (l *Live) redactDetector(name string, a world.Answer) world.Answer {
	if l.o.Redactor == nil {
		return a
	}

	l.LearnSecrets()

	if f := a.Fault; f != nil {
		redact := l.o.Redactor.String
		return world.Failure(f.Code, redact(f.Why), redact(f.Next))
	}

	if text := string(a.Value); l.o.Redactor.String(text) != text {
		why := fmt.Sprintf("Detector %q: its output is refused because it contains a secret of this node", name)
		return world.Failure(fault.DetectorFailed, why,
			"Check what the site grants it, and which other users may read that credential")
	}

	return a
}

// askDetectors asks Options.Detectors. The fault of a detector that cannot run here has the code fault.Absent.
func (l *Live) askDetectors(ctx context.Context, name string, q world.Question) world.Answer {
	info, err := os.Stat(l.o.Hardware)
	isFile := l.o.Hardware != "" && (err != nil || !info.IsDir())

	why := ""

	switch {
	case isFile:
		why = "Detectors need a tree, and the hardware here is recorded in one file"
	case l.o.Detectors == nil:
		why = "Nothing runs detectors here"
	default:
		return l.o.Detectors.Ask(ctx, q)
	}

	return world.Failure(fault.Absent,
		fmt.Sprintf("%s, so %q gives no facts and has state = \"absent\"", why, name),
		"See that the site does without them: try(…, null) or a test of the state where they are used")
}
