package waits

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// longRead is how long a read of a path takes until a command says that it waits for it, and how long a command that
// was stopped may take to end.
const longRead = 2 * time.Second

// Watch prints the long waits of a command. If a command was stopped by a signal and still runs, it ends the process:
// if the command waits for a file system that does not answer, because nothing else can end that wait, or if it only
// reads.
type Watch struct {
	Waiting func(atLeast time.Duration) []string // nodefile.Waiting; nil: that
	Print   func(line string)
	Exit    func(status int)
	Writes  bool // the command must not be ended in the middle of a change
}

// Start begins to watch, until stop is called.
func (w Watch) Start(ctx context.Context) (stop func()) {
	if w.Waiting == nil {
		w.Waiting = nodefile.Waiting
	}
	ended := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.watch(ctx, ended)
	}()

	return func() {
		close(ended)
		<-gone
	}
}

func (w Watch) watch(ctx context.Context, ended <-chan struct{}) {
	tick := time.NewTicker(longRead / 8)
	defer tick.Stop()
	said := map[string]bool{}
	var stopAt time.Time

	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}

		paths := w.Waiting(longRead)
		for _, path := range paths {
			if !said[path] {
				said[path] = true
				w.Print(fmt.Sprintf("waiting for %s: its file system does not answer; at most %s",
					path, nodefile.Patience))
			}
		}

		switch now := time.Now(); {
		case ctx.Err() == nil:
		case stopAt.IsZero():
			stopAt = now.Add(longRead - longRead/4)
		case now.After(stopAt) && w.endStopped(said):
			return
		}
	}
}

// endStopped ends the process if it has waited long for a file, or only reads, and otherwise says once why it goes on.
// A read that began a moment ago may be one of a disk that is busy.
func (w Watch) endStopped(said map[string]bool) (hasEnded bool) {
	if paths := w.Waiting(longRead / 2); len(paths) > 0 {
		w.Print(fmt.Sprintf("stopped by a signal while it waited for %s, whose file system does not answer", paths[0]))
		w.Exit(fault.Interrupted.Exit())

		return true
	}
	if !w.Writes {
		w.Print("stopped by a signal")
		w.Exit(fault.Interrupted.Exit())

		return true
	}
	const why = "stopped by a signal: it ends after what it has begun, which must not be left half done"
	if !said[why] {
		said[why] = true
		w.Print(why)
	}

	return false
}
