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

// jobArgs are River's arguments of a job. Its account and name identify it.
type jobArgs struct {
	Account int64  `json:"account" river:"unique"`
	Name    string `json:"job" river:"unique"`
	Trigger string `json:"trigger"`
	By      string `json:"by,omitempty"` // the person who requested it
}

// The job kinds of River. The database contains their names: a renamed kind is a new one.
type (
	sliceArgs jobArgs // goes on in slices
	drainArgs struct {
		Account int64 `json:"account"`
	}
	tickArgs struct{}
)

// Kind returns the name of the kind.
func (sliceArgs) Kind() string { return "slice" }

// Kind returns the name of the kind.
func (drainArgs) Kind() string { return worker.DrainName }

// Kind returns the name of the kind.
func (tickArgs) Kind() string { return "tick" }

// InsertOpts allows one job of an account and name.
func (sliceArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{UniqueOpts: once} }

// InsertOpts allows one job of an account.
func (drainArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: hooks, UniqueOpts: once}
}

// InsertOpts gives a tick one attempt: a tick lost with its node is not repeated, and does not block others.
func (tickArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ticks, MaxAttempts: 1}
}

// once keeps a job from being inserted while it is not over.
var once = river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable,
	rivertype.JobStateScheduled,
}}

// handler runs the jobs of a kind. It keeps panics from River, because River would log them.
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
	river.AddWorker(all, &handler[sliceArgs]{timeout: q.cfg.pace.slice,
		work: func(ctx context.Context, job *river.Job[sliceArgs]) error {
			return q.work(ctx, job.JobRow, jobArgs(job.Args))
		}})
	river.AddWorker(all, &handler[drainArgs]{timeout: q.cfg.pace.slice, work: q.drain})
	river.AddWorker(all, &handler[tickArgs]{timeout: tickTime, work: q.tick})
	return all
}

// work lets a scheduled job go on, if it still is one.
func (q *Queue) work(ctx context.Context, row *rivertype.JobRow, args jobArgs) error {
	var scheduled bool
	node := q.lease.Load()
	err := q.cfg.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river.schedules WHERE account = $1 AND job = $2)",
		args.Account, args.Name).Scan(&scheduled)
	if err == nil && scheduled {
		scheduled, err = q.stillMine(ctx, row)
	}
	if err == nil && !scheduled {
		return nil
	}
	s := standing{held: true}
	if err == nil {
		g := &going{event: event{args.Account, worker.JobEvent{Job: args.Name, Trigger: args.Trigger}}, id: row.ID, node: node,
			by: args.By, ended: make(chan struct{})}
		g.holder = fmt.Sprint(q.client.ID(), " ", q.holds.Add(1))
		s, err = q.slice(ctx, g, q.places[row.Queue])
	}
	switch {
	case err != nil:
		q.cfg.Log("a job waits: " + err.Error())
		return q.again(q.cfg.pace.look)
	case s.over:
		return nil
	case s.held:
		return q.again(q.cfg.pace.look)
	}
	return q.again(s.again)
}

// slice begins a job unless a node has it in progress, and stays with it for a while. Afterwards, and on other nodes,
// the job's state is checked now and then.
func (q *Queue) slice(ctx context.Context, g *going, places chan struct{}) (standing, error) {
	s, err := q.acquireJob(ctx, g)
	if err != nil || !s.mine {
		return s, err
	}
	over := time.NewTimer(q.cfg.Slice)
	defer over.Stop()
	select {
	case places <- struct{}{}:
		q.startJob(g, func() { <-places })
	case <-over.C:
		q.letGo(ctx, g)
		return standing{}, nil
	case <-ctx.Done():
		q.letGo(ctx, g)
		return standing{}, nil
	}
	select {
	case <-g.ended:
		return g.stood, nil
	case <-over.C:
	case <-ctx.Done(): // the node stops, and gives the job up as soon as it has ended
	}
	return standing{held: true}, nil
}

// errInterrupted tells River a drain ended because River was stopping: another node continues it, and it is not
// counted.
var errInterrupted = context.Canceled

// more is the outcome of a drain's slice with another to follow.
const more worker.Outcome = ""

// doSlice does a slice of a drain and returns the result. Its beginning is reported when the slice before was
// not one of the same drain.
func (q *Queue) doSlice(ctx context.Context, row *rivertype.JobRow, e event, do func(context.Context) error) event {
	begun := begunAt(row)
	if begun.IsZero() {
		begun = q.cfg.Now()
		q.cfg.Report(e.account, worker.JobEvent{Job: e.Job, Outcome: worker.Begun, Trigger: e.Trigger})
	}
	err := connector.Guard(func() error { return do(ctx) })
	if errors.Is(err, ErrMore) {
		return noted(ctx, e, &begun)
	}
	return noted(ctx, q.outcome(ctx, e, begun, err), nil)
}

// outcome returns the outcome of work started at begun.
func (q *Queue) outcome(ctx context.Context, e event, begun time.Time, err error) event {
	now := q.cfg.Now()
	e.Took, e.Err = now.Sub(begun), err
	e.Outcome, e.Until = worker.OutcomeOf(ctx, err, now)
	var broken *connector.PanicError
	if errors.As(err, &broken) {
		e.Outcome, e.Until = worker.Panicked, time.Time{}
	}
	return e
}

// begunKey is the key of a drain's start time in River's metadata.
const begunKey = "begun"

func begunAt(row *rivertype.JobRow) time.Time {
	var kept struct {
		Begun time.Time `json:"begun"`
	}
	_ = json.Unmarshal(row.Metadata, &kept) // unreadable ones have not begun
	return kept.Begun
}

// noted stores the drain's start time for the next slice, nil for a finished drain.
func noted(ctx context.Context, e event, begun *time.Time) event {
	_ = river.MetadataSet(ctx, begunKey, begun) // it fails outside of River alone
	return e
}

// again tells River to repeat a job after a time, behind the jobs waiting by then. River adds the time to its own
// clock, and this ignores later clock changes.
func (q *Queue) again(in time.Duration) error {
	return &rivertype.JobSnoozeError{Duration: in + q.cfg.Now().Sub(q.clock.Now())}
}

// noteTime is how long the end of a job may wait for the database. The job may be stopping.
const noteTime = 5 * time.Second

// drain reflects the deliveries of an account, and goes on behind all others while there are some.
func (q *Queue) drain(ctx context.Context, job *river.Job[drainArgs]) error {
	account, open, holds := job.Args.Account, false, fence(q.lease.Load())
	if mine, err := q.stillMine(ctx, job.JobRow); err != nil || !mine {
		return q.again(q.cfg.pace.drainAgain)
	}
	ctx = connector.WithFence(ctx, holds)
	e := q.doSlice(ctx, job.JobRow, event{account, worker.JobEvent{Job: worker.DrainName, Trigger: worker.TriggerSchedule}},
		func(ctx context.Context) (err error) {
			if err = q.cfg.Drain(ctx, account); err == nil {
				open, err = q.finish(ctx, job)
			}
			return err
		})
	switch {
	case e.Outcome == more:
		return q.again(0)
	case e.Err != nil && holds() != nil:
		q.cfg.Log(errUnseen.Error())
		return q.again(q.cfg.pace.drainAgain)
	}
	q.cfg.Report(account, e.JobEvent)
	switch {
	case e.Outcome == worker.Parked:
		return q.again(e.Until.Sub(q.cfg.Now()))
	case e.Outcome == worker.Interrupted:
		return errInterrupted
	case e.Outcome != worker.Done:
		return q.again(q.cfg.pace.drainAgain)
	case open:
		return q.again(0)
	}
	return nil
}

// errOpen takes back the end of a drain.
var errOpen = errors.New("there are deliveries that nobody drains")

// finish ends a drain, unless the account has deliveries. A nudge meanwhile was skipped, because this drain was in
// progress; its delivery was committed before. So finish ends the drain first, and then checks for deliveries. The
// check sees the delivery of an earlier skipped nudge. A later nudge waits for this transaction and starts a new drain.
// In the reverse order, a delivery between the two steps would be left behind.
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
