package worker

import "payersync/connector"

// cronLog turns the log lines of cron's wrapper into reports: it logs panics only.
type cronLog struct {
	job    *job
	report func(JobEvent)
}

// Info is never called.
func (cronLog) Info(string, ...any) {}

// skipped reports a tick of the job during its run or pause.
func (l cronLog) skipped() {
	e := JobEvent{Job: l.job.name, Outcome: Skipped}
	if until := l.job.parked.Load(); until != nil {
		e.Until = *until
	}
	l.report(e)
}

// Error is called after a panic, with the stack as the second of keysAndValues.
func (l cronLog) Error(thrown error, _ string, keysAndValues ...any) {
	stack := ""
	if len(keysAndValues) > 1 {
		stack, _ = keysAndValues[1].(string)
	}
	l.report(JobEvent{Job: l.job.name, Outcome: Panicked, Err: connector.NewPanicError(thrown, stack)})
}
