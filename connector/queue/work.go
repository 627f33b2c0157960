package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payersync/connector"
	"payersync/connector/worker"
)

// jobArgs are what River keeps of a job. A job is known by its account and name alone.
type jobArgs struct {
	Account int64  `json:"account" river:"unique"`
	Name    string `json:"job" river:"unique"`
	Trigger string `json:"trigger"`
}

// The kinds of jobs that River knows. Their names are in the database: a renamed one is another.
type (
	sliceArgs jobArgs // goes on in slices
	longArgs  jobArgs // cannot be cut
	drainArgs struct {
		Account int64 `json:"account"`
	}
	tickArgs struct{}
)

// Kind returns the name of the kind.
func (sliceArgs) Kind() string { return "slice" }

// Kind returns the name of the kind.
func (longArgs) Kind() string { return "long" }

// Kind returns the name of the kind.
func (drainArgs) Kind() string { return worker.DrainName }

// Kind returns the name of the kind.
func (tickArgs) Kind() string { return "tick" }

// InsertOpts returns that there is one of an account and name, cut or not.
func (sliceArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{UniqueOpts: once} }

// InsertOpts returns that there is one of an account and name, cut or not.
func (longArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{UniqueOpts: once} }

// InsertOpts returns that there is one of an account.
func (drainArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: hooks, UniqueOpts: once}
}

// InsertOpts returns that a tick that is lost with its node is not made up for, and keeps no
// other from coming.
func (tickArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ticks, MaxAttempts: 1}
}

// once keeps a job from being inserted while it is not over.
var once = river.UniqueOpts{ByArgs: true, ExcludeKind: true, ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable, rivertype.JobStateScheduled,
}}

// handler does the jobs of a kind. What a job throws does not reach River, which would log it.
type handler[A river.JobArgs] struct {
	river.WorkerDefaults[A]
	timeout time.Duration
	work    func(context.Context, *river.Job[A]) error
}

// Timeout returns how long a job may be at work.
func (h *handler[A]) Timeout(*river.Job[A]) time.Duration { return h.timeout }

// Work does a job, or a slice of it.
func (h *handler[A]) Work(ctx context.Context, job *river.Job[A]) error {
	return connector.Guard(func() error { return h.work(ctx, job) })
}

func (q *Queue) workers() *river.Workers {
	all := river.NewWorkers()
	river.AddWorker(all, &handler[sliceArgs]{timeout: q.cfg.pace.slice, work: func(ctx context.Context, job *river.Job[sliceArgs]) error {
		return q.work(ctx, job.JobRow, jobArgs(job.Args))
	}})
	river.AddWorker(all, &handler[longArgs]{timeout: LongTime, work: func(ctx context.Context, job *river.Job[longArgs]) error {
		return q.work(ctx, job.JobRow, jobArgs(job.Args))
	}})
	river.AddWorker(all, &handler[drainArgs]{timeout: q.cfg.pace.slice, work: q.drain})
	river.AddWorker(all, &handler[tickArgs]{timeout: tickTime, work: q.tick})
	return all
}

// work lets a scheduled job go on, if it still is one.
func (q *Queue) work(ctx context.Context, row *rivertype.JobRow, args jobArgs) error {
	var scheduled bool
	unknown := q.cfg.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river.schedules WHERE account = $1 AND job = $2)", args.Account, args.Name).Scan(&scheduled)
	if unknown == nil && !scheduled {
		return nil
	}
	e := q.goOn(ctx, row, event{args.Account, worker.Event{Job: args.Name, Trigger: args.Trigger}}, func(ctx context.Context) error {
		if unknown != nil {
			return fmt.Errorf("learn whether the job is still scheduled: %w", unknown)
		}
		return q.cfg.Work(ctx, Job{args.Account, args.Name}, args.Trigger)
	})
	if e.Outcome == more {
		return q.again(ctx, 0)
	}
	q.ended(ctx, e)
	switch e.Outcome {
	case worker.Parked:
		return q.again(ctx, time.Until(e.Until))
	case worker.Interrupted:
		return errInterrupted
	}
	return nil
}

// errInterrupted is what River takes for a job that ended because River was told to stop: another node
// goes on with it, and it is not counted.
var errInterrupted = context.Canceled

// more is the outcome of a slice that is followed by another.
const more worker.Outcome = ""

// goOn does a slice of a job and returns what became of the job. Its beginning is
// reported when the slice before was not one of the same run.
func (q *Queue) goOn(ctx context.Context, row *rivertype.JobRow, e event, do func(context.Context) error) event {
	begun := begunAt(row)
	if begun.IsZero() {
		begun = time.Now()
		q.cfg.Report(e.account, worker.Event{Job: e.Job, Outcome: worker.Begun, Trigger: e.Trigger})
	}
	err := connector.Guard(func() error { return do(ctx) })
	if errors.Is(err, ErrMore) {
		return noted(ctx, e, &begun)
	}
	now := time.Now()
	e.Took, e.Err = now.Sub(begun), err
	e.Outcome, e.Until = worker.OutcomeOf(ctx, err, now)
	var broken *connector.PanicError
	if errors.As(err, &broken) {
		e.Outcome, e.Until = worker.Panicked, time.Time{}
	}
	return noted(ctx, e, nil)
}

// begunKey is where River keeps, with a job, when its run began.
const begunKey = "begun"

func begunAt(row *rivertype.JobRow) time.Time {
	var kept struct {
		Begun time.Time `json:"begun"`
	}
	_ = json.Unmarshal(row.Metadata, &kept) // what cannot be read has not begun
	return kept.Begun
}

// noted keeps for the next slice when the run began, nil for a run that has ended.
func noted(ctx context.Context, e event, begun *time.Time) event {
	_ = river.MetadataSet(ctx, begunKey, begun) // it fails outside of River alone
	return e
}

// again is what River is told of a job that is to come again after a time, behind those that wait by
// then. River would add the time to this node's clock; others go by the database's, and a node whose
// clock is fast would keep its jobs from coming.
func (q *Queue) again(ctx context.Context, in time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	var now time.Time
	if err := q.cfg.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err == nil {
		in += now.Sub(q.cfg.pace.now())
	}
	return &rivertype.JobSnoozeError{Duration: in}
}

// noteTime is how long the end of a job may wait for the database. The job may have been told to stop.
const noteTime = 5 * time.Second

// ended reports how a job ended and keeps it beside its schedule.
func (q *Queue) ended(ctx context.Context, e event) {
	q.cfg.Report(e.account, e.Event)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if _, err := q.cfg.Pool.Exec(ctx, "UPDATE river.schedules SET outcome = $3, ended_at = clock_timestamp() WHERE account = $1 AND job = $2",
		e.account, e.Job, string(e.Outcome)); err != nil {
		q.cfg.Log("the table of schedules does not show how a job ended: " + err.Error())
	}
}

// drain reflects the deliveries of an account, and goes on behind all others while there are some.
func (q *Queue) drain(ctx context.Context, job *river.Job[drainArgs]) error {
	account, open := job.Args.Account, false
	e := q.goOn(ctx, job.JobRow, event{account, worker.Event{Job: worker.DrainName, Trigger: worker.TriggerSchedule}}, func(ctx context.Context) (err error) {
		if err = q.cfg.Drain(ctx, account); err == nil {
			open, err = q.finish(ctx, job)
		}
		return err
	})
	if e.Outcome == more {
		return q.again(ctx, 0)
	}
	q.cfg.Report(account, e.Event)
	switch {
	case e.Outcome == worker.Parked:
		return q.again(ctx, time.Until(e.Until))
	case e.Outcome == worker.Interrupted:
		return errInterrupted
	case e.Outcome != worker.Done:
		return q.again(ctx, q.cfg.pace.drainAgain)
	case open:
		return q.again(ctx, 0)
	}
	return nil
}

// errOpen takes back the end of a drain.
var errOpen = errors.New("there are deliveries that nobody drains")

// finish ends a drain, unless the account has deliveries. A nudge that comes meanwhile was skipped,
// for this drain was at work; its delivery was committed before. The end therefore comes
// first, and then the look: a nudge that is skipped before has its delivery seen, and one that comes
// after waits for this transaction and begins a drain of its own. The other way round a delivery
// between the two would lie.
func (q *Queue) finish(ctx context.Context, job *river.Job[drainArgs]) (open bool, err error) {
	err = q.write(ctx, func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return err
		}
		open, err := q.cfg.Open(ctx, tx, job.Args.Account)
		if err == nil && open {
			err = errOpen
		}
		return err
	})
	if errors.Is(err, errOpen) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("end the drain: %w", err)
	}
	return false, nil
}
