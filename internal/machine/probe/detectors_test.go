package probe

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
)

// fabricReq waits for a fabric for 30 seconds.
func fabricReq() tape.DetectorReq {
	return tape.DetectorReq{
		Name:       "nvidia",
		WaitFor:    map[string][]string{"fabric_state": {"completed", "failed", "not-supported"}},
		WaitMillis: 30_000,
	}
}

// askFabric asks a detector that needs a time to report a state, and reports other ones before. It returns the answer,
// how often the detector was asked, and how long it took.
func askFabric(t *testing.T, l *Live, timeout time.Duration, report func(after time.Duration) tape.Answer) (
	a tape.Answer, asked int, took time.Duration,
) {
	t.Helper()
	start := time.Now()
	l.o.Detectors = tape.SourceFunc(func(ctx context.Context, _ tape.Question) tape.Answer {
		asked++
		work, cancel := tape.BeginWork(ctx, time.Hour)
		defer cancel()
		if end, ok := work.Deadline(); !ok || time.Until(end) > 10*time.Second {
			t.Errorf("attempt %d: got %s for it, want at most the detector's own 10s", asked, time.Until(end))
		}
		time.Sleep(100 * time.Millisecond)
		return report(time.Since(start))
	})
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	a = l.answerDetector(tape.WithLimit(ctx, 10*time.Second), fabricReq())

	return a, asked, time.Since(start)
}

func fabricIs(state any) tape.Answer {
	return tape.Detector.Answer(tape.DetectorAns{Facts: map[string]any{"fabric_state": state}})
}

// TestWaitForFabric: the detector is asked again until its answer ends the wait, or the time is over. An attempt that
// fails is the answer.
func TestWaitForFabric(t *testing.T) {
	for name, tt := range map[string]struct {
		report      func(after time.Duration) tape.Answer
		timeout     time.Duration
		want        string
		least, most time.Duration
		leastAsked  int
	}{
		"completed at once": {
			report:  func(time.Duration) tape.Answer { return fabricIs("completed") },
			timeout: 40 * time.Second, want: "completed", most: time.Second, leastAsked: 1,
		},
		"no fabric": {
			report:  func(time.Duration) tape.Answer { return fabricIs("not-supported") },
			timeout: 40 * time.Second, want: "not-supported", most: time.Second, leastAsked: 1,
		},
		"unknown, then in progress, then completed": {
			report: func(after time.Duration) tape.Answer {
				switch {
				case after < 3*time.Second:
					return fabricIs(nil)
				case after < 10*time.Second:
					return fabricIs("in-progress")
				}
				return fabricIs("completed")
			},
			timeout: 40 * time.Second, want: "completed", least: 10 * time.Second, most: 11 * time.Second, leastAsked: 10,
		},
		"never completed": {
			report:  func(time.Duration) tape.Answer { return fabricIs("in-progress") },
			timeout: 40 * time.Second, want: "in-progress", least: 30 * time.Second, most: 31 * time.Second, leastAsked: 30,
		},
		"the stage ends earlier": {
			report:  func(time.Duration) tape.Answer { return fabricIs("in-progress") },
			timeout: 12 * time.Second, want: "in-progress", least: 6 * time.Second, most: 7 * time.Second, leastAsked: 6,
		},
		"it fails": {
			report:  func(time.Duration) tape.Answer { return tape.Failure(fault.DetectorFailed, "it crashed", "") },
			timeout: 40 * time.Second, want: "it crashed", most: time.Second, leastAsked: 1,
		},
		"no GPU": {
			report: func(time.Duration) tape.Answer {
				return tape.Detector.Answer(tape.DetectorAns{Skipped: "no device"})
			},
			timeout: 40 * time.Second, want: "no device", most: time.Second, leastAsked: 1,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			reported := ""
			l := &Live{o: Sources{Redactor: secret.NewRedactor(), OnRetry: func(r Retry) { reported += r.Server + ": " + r.Why }}}
			a, asked, took := askFabric(t, l, tt.timeout, tt.report)
			wait := ""
			if tt.leastAsked > 1 {
				wait = "fabric_state of nvidia: not yet one of completed, failed, not-supported"
			}
			if reported != wait {
				t.Errorf("%s: got the report %q, want %q", name, reported, wait)
			}
			if got := string(a.Value) + a.Why(); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %s, want %q", name, got, tt.want)
			}
			if asked < tt.leastAsked || took < tt.least || took > tt.most {
				t.Errorf("%s: got %d attempts in %s; want at least %d, in %s to %s", name, asked, took, tt.leastAsked, tt.least, tt.most)
			}
		})
	}
}

// TestRecordedFabric: a recorded tree does not change, so its detector is asked once.
func TestRecordedFabric(t *testing.T) {
	asked := 0
	l := newLive(t, Sources{Hardware: t.TempDir(), Detectors: tape.SourceFunc(func(context.Context, tape.Question) tape.Answer {
		asked++
		return fabricIs("in-progress")
	})})
	if a := l.answerDetector(t.Context(), fabricReq()); asked != 1 || !strings.Contains(string(a.Value), "in-progress") {
		t.Errorf("got %s after %d attempts, want in-progress after one", a.Value, asked)
	}
}
