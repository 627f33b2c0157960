package connector

import "context"

// operationKey is the key of WithOperation in a context.
type operationKey struct{}

// WithOperation returns a context for a request that says what it is for, for whoever
// counts requests: one of a few names that are written in the code, such as "create
// customer", and nothing of whom it is about.
func WithOperation(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, operationKey{}, name)
}

// OperationOf returns what a request is for, or "" where nobody said.
func OperationOf(ctx context.Context) string {
	name, _ := ctx.Value(operationKey{}).(string)
	return name
}
