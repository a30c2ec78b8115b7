package detecthw

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// TestDetectorsEndBeforeTheStage: detectors that take all of the time, and whose processes need 5 s to end, have
// results, and each has its own time from when it is worked on.
func TestDetectorsEndBeforeTheStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := tape.SourceFunc(func(ctx context.Context, _ tape.Question) tape.Answer {
			time.Sleep(60 * time.Second) // until it has a user
			work, cancel := tape.BeginWork(ctx, time.Hour)
			defer cancel()
			began := time.Now()
			<-work.Done()
			if took, want := time.Since(began), 20*time.Second; took != want {
				t.Errorf("got %s for the detector, want its %s", took, want)
			}
			<-ctx.Done()
			time.Sleep(5 * time.Second)

			return tape.Failure(fault.DetectorFailed, "it exceeded its deadline", "")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		isChosen := func(string) bool { return true }
		all := askAll(ctx, []stages.Detector{{Name: "a", Timeout: 20 * time.Second}}, isChosen, tape.Facts{}, 0, hangs)
		if all[0].state != stateFailed || ctx.Err() != nil {
			t.Errorf("got state %q, and the stage's time is over: %v; want %q before that", all[0].state, ctx.Err(), stateFailed)
		}
	})
}
