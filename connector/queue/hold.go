package queue

import (
	"context"
	_ "embed" // the table of holds
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payersync/connector"
	"payersync/connector/worker"
)

//go:embed holds.sql
var holdsTable string

const (
	holdFor   = 2 * time.Minute // how long a node may be silent before another goes on with its jobs
	lookEvery = 10 * time.Second
)

// errHoldLost means another node may be working on a job by now.
var errHoldLost = errors.New("the node stood still, or could not reach the database, for so long that another may go on with the job; this one stops")

// going is a job in progress on this node. It continues while its River row is queued again.
type going struct {
	event
	id     int64  // of River's row
	by     string // the person who requested it; "" for the schedule
	holder string // another for each hold, also of one node
	lease  *connector.Lease
	node   *connector.Lease // of this node, when the job was taken
	ended  chan struct{}
	stood  standing // to be read once it has ended
}

func (g *going) job() Job { return Job{g.account, g.Job} }

// holds fails with errHoldLost when another node may have the job by now.
func (g *going) holds() error {
	if g.lease.Over() || g.node.Over() {
		return errHoldLost
	}
	return nil
}

// standing is the state of a job. The zero value may continue at once.
type standing struct {
	mine  bool          // this node has taken it just now
	held  bool          // some node has it under way
	over  bool          // it has ended, and its outcome is reported
	again time.Duration // until it goes on
}

// acquireJob takes a job for this node, for as long as a slice and a hold last, unless another has it or it has
// ended.
func (q *Queue) acquireJob(ctx context.Context, g *going) (s standing, err error) {
	var wait *time.Duration
	g.lease = connector.NewLease(q.cfg.pace.hold, connector.OfThisMachine().Add(q.cfg.Slice))
	err = q.cfg.Pool.QueryRow(ctx, `WITH mine AS (
	INSERT INTO river.holds AS h (account, job, job_id, holder, held_until) VALUES ($1, $2, $3, $4, clock_timestamp() + $5::interval)
	ON CONFLICT (account, job) DO UPDATE SET job_id = excluded.job_id, holder = excluded.holder, held_until = excluded.held_until, again_at = NULL
	WHERE CASE WHEN h.held_until IS NULL THEN h.job_id <> excluded.job_id OR h.again_at <= clock_timestamp() ELSE h.held_until <= clock_timestamp() END
	RETURNING 1
) SELECT EXISTS (SELECT 1 FROM mine), h.job_id IS DISTINCT FROM $3 OR h.held_until IS NOT NULL, h.again_at - clock_timestamp()
FROM (SELECT 1) one LEFT JOIN river.holds h ON h.account = $1 AND h.job = $2`,
		append(here(g), q.cfg.Slice+q.cfg.pace.hold)...).Scan(&s.mine, &s.held, &wait) // the rows as they were before it
	switch {
	case err != nil:
		return s, fmt.Errorf("learn whether another node is at work on a job: %w", err)
	case s.mine, s.held:
	case wait != nil:
		s.again = *wait
	default:
		s.over = true
	}
	return s, nil
}

// startJob runs a job taken by this node until it ends, in a place returned by leave.
func (q *Queue) startJob(g *going, leave func()) {
	q.underWay.Go(func() {
		defer leave()
		defer close(g.ended)
		ctx, cancel := context.WithCancelCause(connector.WithFence(q.life, g.holds))
		defer cancel(nil)
		done, kept := make(chan struct{}), make(chan struct{})
		go func() { defer close(kept); q.renewHold(ctx, g, done, func() { cancel(errHoldLost) }) }()
		began := q.cfg.Now()
		q.cfg.Report(g.account, worker.JobEvent{Job: g.Job, Outcome: worker.Begun, Trigger: g.Trigger})
		err := connector.Guard(func() error {
			return q.cfg.Work(worker.WithPerson(ctx, g.by), g.job(), g.Trigger)
		})
		close(done)
		<-kept
		g.stood = q.releaseJob(ctx, g, began, err)
	})
}

// renewHold renews the hold of a job in progress until done is closed, and calls lost once another node may take it.
func (q *Queue) renewHold(ctx context.Context, g *going, done <-chan struct{}, lost func()) {
	tick := time.NewTicker(q.cfg.pace.hold / 8)
	defer tick.Stop()
	for g.holds() == nil {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		asked := connector.OfThisMachine()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.cfg.pace.hold/4)
		kept, err := q.cfg.Pool.Exec(within, "UPDATE river.holds SET held_until = clock_timestamp() + $5::interval"+heldHere,
			append(here(g), q.cfg.pace.hold)...)
		cancel()
		switch {
		case err == nil && kept.RowsAffected() == 0:
			lost()
			return
		case err == nil:
			g.lease.Renew(asked)
		}
	}
	lost()
}

// releaseJob ends the hold of begin, and returns the job's state.
func (q *Queue) releaseJob(ctx context.Context, g *going, began time.Time, err error) standing {
	switch {
	case errors.Is(context.Cause(ctx), errHoldLost):
		q.cfg.Log(errHoldLost.Error())
		return standing{held: true}
	case errors.Is(err, ErrMore):
		q.letGo(ctx, g)
		return standing{}
	}
	e := q.outcome(ctx, g.event, began, err)
	q.close(ctx, g, e)
	switch e.Outcome {
	case worker.Interrupted:
		return standing{}
	case worker.Parked:
		return standing{again: e.Until.Sub(q.cfg.Now())}
	}
	return standing{over: true}
}

// heldHere selects the row of a job in progress on this node.
const heldHere = " WHERE account = $1 AND job = $2 AND job_id = $3 AND holder = $4 AND held_until IS NOT NULL"

func here(g *going) []any { return []any{g.account, g.Job, g.id, g.holder} }

// letGo ends a hold so any node may continue the job.
func (q *Queue) letGo(ctx context.Context, g *going) {
	q.note(ctx, func(b *pgx.Batch) { b.Queue("DELETE FROM river.holds"+heldHere, here(g)...) })
}

// close reports the end of a job, and notes it with its schedule and for the next node to get River's row.
func (q *Queue) close(ctx context.Context, g *going, e event) {
	q.cfg.Report(e.account, e.JobEvent)
	var wait *time.Duration
	if e.Outcome == worker.Parked {
		left := e.Until.Sub(q.cfg.Now())
		wait = &left
	}
	q.note(ctx, func(b *pgx.Batch) {
		b.Queue("UPDATE river.schedules SET outcome = $3, ended_at = clock_timestamp() WHERE account = $1 AND job = $2",
			e.account, e.Job, string(e.Outcome))
		if e.Outcome == worker.Interrupted {
			b.Queue("DELETE FROM river.holds"+heldHere, here(g)...)
			return
		}
		b.Queue("UPDATE river.holds SET held_until = NULL, again_at = clock_timestamp() + $5::interval"+heldHere,
			append(here(g), wait)...)
	})
}

// note stores the outcome of a job, even if the node is stopping.
func (q *Queue) note(ctx context.Context, write func(*pgx.Batch)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	b := &pgx.Batch{}
	write(b)
	if err := q.cfg.Pool.SendBatch(ctx, b).Close(); err != nil {
		q.cfg.Log("the database does not know how a job ended, which may come once more: " + err.Error())
	}
}
