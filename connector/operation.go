package connector

import "context"

// operationKey is the key of WithOperation in a context.
type operationKey struct{}

// WithOperation returns a context with the purpose of a request, for request counters. name is one of a few constants
// in the code, for example "create customer", and contains no data about the customer.
func WithOperation(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, operationKey{}, name)
}

// OperationOf returns the purpose of a request, or "" if none was set.
func OperationOf(ctx context.Context) string {
	name, _ := ctx.Value(operationKey{}).(string)
	return name
}
