// Package waits reports long waits of a command, once for each cause, with or without a terminal: a command that is
// silent for minutes seems to hang. It also ends the process of a command that was stopped and waits in the kernel.
package waits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/machine/probe"
)

// Reporter reports the waits of one command.
type Reporter struct {
	Say    func(string)                      // redacts
	Reason func(why string, until time.Time) // of the wait that a terminal shows; nil elsewhere

	mu   sync.Mutex
	seen map[string]int // failed attempts by cause, up to reportAfter
	over bool
}

// longWait is the shortest wait that is reported at once.
const longWait = 2 * time.Second

// reportAfter is the number of failed attempts after which a wait is reported.
const reportAfter = 2

// Retry is called for each failed request to the cluster that is repeated. The first short wait for a cause is not
// reported, because one retry often helps. A retry at another server has no wait.
func (w *Reporter) Retry(r probe.Retry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || r.Wait == 0 {
		return
	}
	if w.seen == nil {
		w.seen = map[string]int{}
	}

	if w.Reason != nil {
		w.Reason(r.Server+": "+r.Why, r.Until)
	}

	cause := r.Server + " " + r.Why
	wasReported := w.seen[cause] >= reportAfter
	w.seen[cause]++
	if r.Wait >= longWait {
		w.seen[cause] = reportAfter
	}
	if wasReported || w.seen[cause] < reportAfter {
		return
	}

	until := r.Until.Local().Format(time.TimeOnly)
	w.Say(fmt.Sprintf("waiting for %s: %s; trying until %s", r.Server, r.Why, until))
}

// AnnounceClock returns set, which waits for the clock, with a line about that wait before it: a certificate's dates do
// not fit the clock, which often shows 1970 or the image's time at this point of a boot.
func (w *Reporter) AnnounceClock(set func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		w.mu.Lock()
		if !w.over {
			now := time.Now().UTC().Format(time.RFC3339)
			w.Say(fmt.Sprintf("waiting for the clock to be set: it is %s, outside a certificate's validity", now))
		}
		w.mu.Unlock()
		return set(ctx)
	}
}

// End stops the reports: an abandoned stage may still retry while the result is printed.
func (w *Reporter) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}
