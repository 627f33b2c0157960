package state

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// tryAgain calls do until it no longer asks for another call, and returns its last error. It waits for every
// between two calls, and goes on for within at most; 0 means as long as ctx. The library's own limit would
// end no loop if the clock stands still between two calls.
func tryAgain(ctx context.Context, every, within time.Duration, do func() (again bool, err error)) error {
	again, began := false, time.Now()                                          //nolint:forbidigo // it measures how long the loop goes on, and tells no time
	inTime := func() bool { return within == 0 || time.Since(began) < within } //nolint:forbidigo // see began
	policy := retrypolicy.NewBuilder[any]().HandleIf(func(any, error) bool { return again && inTime() }).
		WithMaxRetries(-1).WithDelay(every).ReturnLastFailure().Build()
	return failsafe.With(policy).WithContext(ctx).Run(func() (err error) {
		again, err = do()
		return err
	})
}
