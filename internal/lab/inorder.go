package lab

import (
	"context"
	"runtime"
	"sync"

	"github.com/prelet/prelet/internal/machine"
)

// InOrder computes a result for each item, several at a time, and passes the results to show in the order of the items.
// The queue limits how many results exist at once: one for each CPU, and the next one to show. An error of show ends
// it, and so does a signal. The environment shows how many are done.
func InOrder[T, R any](
	ctx context.Context, e *machine.Env, items []T, compute func(context.Context, T) R, show func(R) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()

	queue := make(chan chan R, runtime.GOMAXPROCS(0))
	workers.Go(func() {
		defer close(queue)
		for _, item := range items {
			out := make(chan R, 1)
			select {
			case queue <- out:
			case <-ctx.Done():
				return
			}
			workers.Go(func() { out <- compute(ctx, item) })
		}
	})

	done := 0
	for out := range queue {
		e.Count(done, len(items))
		r := <-out
		done++
		if err := machine.CheckStopped(ctx); err != nil {
			return err
		}
		if err := show(r); err != nil {
			return err
		}
	}

	e.Count(len(items), len(items))

	return machine.CheckStopped(ctx)
}
