package connector

import "context"

// runKey is the key of WithRun in a context.
type runKey struct{}

// WithRun returns a context for work within a run of the ledger, so log entries can name the run.
func WithRun(ctx context.Context, run int64) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

// RunOf returns the run of WithRun; 0 outside of one.
func RunOf(ctx context.Context) int64 {
	run, _ := ctx.Value(runKey{}).(int64)
	return run
}
