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
	"github.com/prelet/prelet/internal/testing/table"
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
	for name, c := range table.YAML[map[string]struct {
		Reports     []string // states, each but the last one until a time
		Timeout     table.Duration
		Want        string
		Least, Most table.Duration
		LeastAsked  int
	}](t, `
completed at once: {reports: [completed], timeout: 40s, want: completed, most: 1s, leastAsked: 1}
no fabric: {reports: [not-supported], timeout: 40s, want: not-supported, most: 1s, leastAsked: 1}
unknown, then in progress, then completed: {reports: [null@3s, in-progress@10s, completed], timeout: 40s,
  want: completed, least: 10s, most: 11s, leastAsked: 10}
never completed: {reports: [in-progress], timeout: 40s, want: in-progress, least: 30s, most: 31s, leastAsked: 30}
the stage ends earlier: {reports: [in-progress], timeout: 12s, want: in-progress, least: 6s, most: 7s, leastAsked: 6}
it fails: {reports: [FAILS], timeout: 40s, want: it crashed, most: 1s, leastAsked: 1}
no GPU: {reports: [SKIPPED], timeout: 40s, want: no device, most: 1s, leastAsked: 1}
`) {
		report := func(after time.Duration) tape.Answer {
			state := ""
			for _, r := range c.Reports {
				var until string
				state, until, _ = strings.Cut(r, "@")
				if end, err := time.ParseDuration(until); err != nil || after < end {
					break
				}
			}
			switch state {
			case "null":
				return fabricIs(nil)
			case "FAILS":
				return tape.Failure(fault.DetectorFailed, "it crashed", "")
			case "SKIPPED":
				return tape.Detector.Answer(tape.DetectorAns{Skipped: "no device"})
			}
			return fabricIs(state)
		}
		synctest.Test(t, func(t *testing.T) {
			reported := ""
			l := &Live{o: Sources{Redactor: secret.NewRedactor(), OnRetry: func(r Retry) { reported += r.Server + ": " + r.Why }}}
			a, asked, took := askFabric(t, l, c.Timeout.Duration, report)
			wait := ""
			if c.LeastAsked > 1 {
				wait = "fabric_state of nvidia: not yet one of completed, failed, not-supported"
			}
			if reported != wait {
				t.Errorf("%s: got the report %q, want %q", name, reported, wait)
			}
			if got := string(a.Value) + a.Why(); !strings.Contains(got, c.Want) {
				t.Errorf("%s: got %s, want %q", name, got, c.Want)
			}
			if asked < c.LeastAsked || took < c.Least.Duration || took > c.Most.Duration {
				t.Errorf("%s: got %d attempts in %s; want at least %d, in %s to %s", name, asked, took, c.LeastAsked, c.Least, c.Most)
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
