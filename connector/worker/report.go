package worker

import (
	"errors"
	"fmt"
	"runtime"
)

// PanicError is the error of a job that panicked. What was thrown could hold
// anything, so only an error of the Go runtime is given in words; of any other
// error the type is given.
type PanicError struct {
	What  string // for example "runtime error: index out of range [3] with length 2"
	Stack string // where it happened
}

// Error returns what was thrown.
func (e *PanicError) Error() string { return "the job panicked: " + e.What }

// cronLog turns what cron's wrappers log of a job into reports: skips and
// panics are all they have to say.
type cronLog struct {
	job    *job
	report func(Event)
}

// Info is called when the job's time came while it was running or parked.
func (l cronLog) Info(string, ...any) {
	e := Event{Job: l.job.name, Outcome: Skipped}
	if until := l.job.parked.Load(); until != nil {
		e.Until = *until
	}
	l.report(e)
}

// Error is called after a panic, with the stack as the second of keysAndValues.
func (l cronLog) Error(thrown error, _ string, keysAndValues ...any) {
	e := &PanicError{What: fmt.Sprintf("%T", thrown)}
	var broken runtime.Error
	if errors.As(thrown, &broken) {
		e.What = broken.Error()
	}
	if len(keysAndValues) > 1 {
		e.Stack, _ = keysAndValues[1].(string)
	}
	l.report(Event{Job: l.job.name, Outcome: Panicked, Err: e})
}
