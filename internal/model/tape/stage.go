package tape

import (
	"context"
	"time"
)

type stageKey struct{}

// WithStage returns a context for the questions of a stage, by its address.
func WithStage(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, stageKey{}, address)
}

// StageOf returns the address of the stage that asks; "" for other questions.
func StageOf(ctx context.Context) string {
	address, _ := ctx.Value(stageKey{}).(string)

	return address
}

type limitKey struct{}

// WithLimit returns a context for a question whose answer may take that long from BeginWork on: waiting until it is
// worked on does not count.
func WithLimit(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// BeginWork returns a context that ends after the limit of WithLimit, and at the latest with ctx. A context with
// neither limit nor deadline gets the usual limit.
func BeginWork(ctx context.Context, usual time.Duration) (context.Context, context.CancelFunc) {
	limit, isLimited := ctx.Value(limitKey{}).(time.Duration)
	if _, hasDeadline := ctx.Deadline(); !isLimited && hasDeadline {
		return context.WithCancel(ctx)
	}
	if !isLimited {
		limit = usual
	}

	return context.WithTimeout(ctx, limit)
}
