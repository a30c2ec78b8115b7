package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

func (l *Live) answerLock(ctx context.Context, r tape.LockReq) tape.Answer {
	return l.askDetectors(ctx, r.Name, tape.Lock.Question(r))
}

// answerDetector returns the report of a detector. The output of a vendor's program may contain a secret of this node
// that the program found, so the redactor gets all secrets of the site before any output is kept.
func (l *Live) answerDetector(ctx context.Context, r tape.DetectorReq) tape.Answer {
	return l.redactDetector(r.Name, l.waitForDetector(ctx, r))
}

// detectorInterval is the time between the end of a detector and its next start.
const detectorInterval = 500 * time.Millisecond

// waitForDetector asks a detector, and asks it again until the condition of the site's wait is met, the time of the
// wait is over, or an attempt fails. A recorded tree does not change, so its detectors are asked once.
func (l *Live) waitForDetector(ctx context.Context, r tape.DetectorReq) tape.Answer {
	q := tape.Detector.Question(r)
	if len(r.WaitFor) == 0 || l.o.Hardware != "" {
		return l.askDetectors(ctx, r.Name, q)
	}

	wait := time.Duration(r.WaitMillis) * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok { // that of the stage
		left := time.Until(deadline)
		wait = min(wait, left-min(attemptTime, left/2))
	}
	until := time.Now().Add(wait)

	for isReported := false; ; isReported = true {
		a := l.askDetectors(ctx, r.Name, q)

		left := time.Until(until)
		fact := findAwaited(a, r.WaitFor)
		if fact == "" || left <= 0 {
			return a
		}
		if !isReported { // without its value, which may be a secret
			values := strings.Join(r.WaitFor[fact], ", ")
			l.reportWait(fact+" of "+r.Name, "not yet one of "+values, left)
		}

		select {
		case <-time.After(min(detectorInterval, left)):
		case <-ctx.Done():
			return a
		}
	}
}

// attemptTime is reserved for the last attempt: the time that a detector has by default.
const attemptTime = 10 * time.Second

// findAwaited returns a fact of a detector that does not have one of the values that end the wait; "" if there is none,
// or the detector has failed.
func findAwaited(a tape.Answer, waitFor map[string][]string) string {
	var report tape.DetectorAns
	if a.Fault != nil || json.Unmarshal(a.Value, &report) != nil {
		return ""
	}
	if report.Skipped != "" || len(report.Problems) > 0 {
		return ""
	}

	for fact, values := range waitFor {
		v, _ := report.Facts[fact].(string)
		if !slices.Contains(values, v) {
			return fact
		}
	}

	return ""
}

func (l *Live) redactDetector(name string, a tape.Answer) tape.Answer {
	l.LearnSecrets()

	if f := a.Fault; f != nil {
		redact := l.o.Redactor.String
		return tape.Failure(f.Code, redact(f.Why), redact(f.Next))
	}

	if text := string(a.Value); l.o.Redactor.String(text) != text {
		why := fmt.Sprintf("Detector %q: its output is refused because it contains a secret of this node", name)
		return tape.Failure(fault.DetectorFailed, why,
			"Check what the site grants it, and which other users may read that credential")
	}

	return a
}

// askDetectors asks Sources.Detectors. The fault of a detector that cannot run here has the code fault.Absent.
func (l *Live) askDetectors(
	ctx context.Context,
	name string,
	q tape.Question,
) tape.Answer {
	info, err := nodefile.Stat(l.o.Hardware)
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

	return tape.Failure(fault.Absent,
		fmt.Sprintf("%s, so %q gives no facts and has state = \"absent\"", why, name),
		"See that the site does without them: try(…, null) or a test of the state where they are used")
}
