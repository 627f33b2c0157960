package state

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// tryAgain calls do until it does not ask to be called again, and returns its last error. Between two calls it waits for
// every; within is the longest time that it goes on for, 0 for as long as ctx.
// The library's own limit would end no loop whose clock stands still between two calls.
func tryAgain(ctx context.Context, every, within time.Duration, do func() (again bool, err error)) error {
	again, began := false, time.Now()
	inTime := func() bool { return within == 0 || time.Since(began) < within }
	policy := retrypolicy.NewBuilder[any]().HandleIf(func(any, error) bool { return again && inTime() }).
		WithMaxRetries(-1).WithDelay(every).ReturnLastFailure().Build()
	return failsafe.With(policy).WithContext(ctx).Run(func() (err error) {
		again, err = do()
		return err
	})
}
