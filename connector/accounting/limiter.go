package accounting

import (
	"context"
	"fmt"
	"time"

	"payersync/connector"
)

// Limiter shares the request budget of one organisation among all its readers.
type Limiter interface {
	// Acquire waits for a turn and counts it; release ends it. The error is a
	// *Parked when there is no turn before a later time.
	Acquire(ctx context.Context) (release func(), err error)

	// Park closes the organisation to every process until the given time, as a
	// Retry-After of hours asks for (fault F13).
	Park(ctx context.Context, until time.Time) error
}

// Parked means the budget of an organisation is used up until a later time. It is a throttled fault: the run
// ends with exit status 5, and others go on.
type Parked struct{ Until time.Time }

// Error says when the source may be read again.
func (e *Parked) Error() string {
	return fmt.Sprintf("the accounting system's request limit is used up; it may be asked again at %s",
		e.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns the fault for callers, with its time.
func (e *Parked) Unwrap() error {
	return &connector.RemoteError{
		Op: "read the accounting system", Fault: connector.FaultThrottled, RetryAt: e.Until,
		Detail: "its request limit is used up",
	}
}

// Disconnected means the accounting system refuses access: the consent was withdrawn, the organisation is
// gone, the plan lapsed, or a permission is missing. It says nothing about any customer (fault F29).
type Disconnected struct {
	Reason string // why, in plain words without personal values
	Err    error  // the cause, if it helps
}

// Error says why and what to do next.
func (e *Disconnected) Error() string {
	return fmt.Sprintf("the accounting system does not let payersync in: %s; mend that there or in the configuration; if a consent has ended, give it again", e.Reason)
}

// Steps returns the step that gives a consent again.
func (e *Disconnected) Steps() []connector.Step { return []connector.Step{{Do: connector.DoConnect}} }

// Unwrap returns the cause.
func (e *Disconnected) Unwrap() error { return e.Err }
