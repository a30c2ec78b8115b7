package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/probe"
)

// waits tells what a command waits for, once for each cause, with or without a terminal: minutes without a word look as
// if it hung.
type waits struct {
	say func(string) // redacts

	mu   sync.Mutex
	seen map[string]int // attempts that failed, by cause; enough of them: it was told
	over bool
}

// longWait is from when on a wait is told at once.
const longWait = 2 * time.Second

// retry is told of each attempt at the cluster that failed and that is made again. The first retry of a cause is silent
// where it comes soon: it often helps. Where another server is asked at once, nobody waits.
func (w *waits) retry(r live.Retry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || r.Wait == 0 {
		return
	}
	if w.seen == nil {
		w.seen = map[string]int{}
	}
	cause := r.Server + " " + r.Why
	const enough = 2
	was := w.seen[cause]
	if w.seen[cause]++; r.Wait >= longWait {
		w.seen[cause] = enough
	}
	if was >= enough || w.seen[cause] < enough {
		return
	}
	w.say(fmt.Sprintf("waiting for %s: %s; trying until %s", r.Server, r.Why, r.Until.Local().Format(time.TimeOnly)))
}

// clock says that a certificate's dates do not fit this machine's clock, which often is 1970 or the image's at this
// point of a boot, and that the next request waits until it is set.
func (w *waits) clock(set func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		w.mu.Lock()
		if !w.over {
			w.say(fmt.Sprintf("waiting for the clock to be set: it says %s, and a certificate's dates do not fit",
				time.Now().UTC().Format(time.RFC3339)))
		}
		w.mu.Unlock()
		return set(ctx)
	}
}

// end ends that: what a stage that was given up still tries is nobody's business, and the result is being printed.
func (w *waits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}
