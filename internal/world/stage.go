package world

import "context"

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
