package queue

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payersync/connector/worker"
)

// Schedule says when a job of an account comes.
type Schedule struct {
	Job  string // unique in its account
	Cron string // see worker.ParseSchedule

	// Last is when the job was last done, before the queue knew it; zero for never. When its time has
	// come since, and when it was never done, it comes at once.
	Last time.Time

	// OnTime skips a time missed because no node was running. Any other job catches up once for all missed times.
	OnTime bool

	Care bool // it and reading or sending jobs do not wait for each other
}

const (
	missedAfter = time.Minute      // later than that, a time was missed
	maxDelay    = 10 * time.Second // spreads the jobs of many accounts
	atOnce      = 100              // schedules in one transaction
	unreadable  = time.Hour        // the pause of a schedule unreadable for this node
)

// Every replaces the schedules of an account. An unchanged schedule keeps its next time. A removed job finishes if in
// progress, and is not started again. On an error nothing was replaced.
func (q *Queue) Every(ctx context.Context, account int64, schedules []Schedule) error {
	if err := check(schedules); err != nil {
		return err
	}
	// two nodes wait for each other in one order
	sorted := slices.SortedFunc(slices.Values(schedules), func(a, b Schedule) int { return strings.Compare(a.Job, b.Job) })
	err := q.write(ctx, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		names := make([]string, 0, len(sorted))
		for _, s := range sorted {
			names = append(names, s.Job)
			queueSchedule(batch, account, s, now)
		}
		batch.Queue("DELETE FROM river.schedules WHERE account = $1 AND job <> ALL ($2)", account, names)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("set the schedules of account %d: %w", account, err)
	}
	return nil
}

// check lists every invalid schedule with the reason.
func check(schedules []Schedule) error {
	var problems []error
	names := map[string]bool{worker.DrainName: true}
	for _, s := range schedules {
		if s.Job == "" || names[s.Job] {
			problems = append(problems, fmt.Errorf("the job %q is given twice, or has no name or one that is taken", s.Job))
		}
		names[s.Job] = true
		if _, err := worker.ParseSchedule(s.Cron); err != nil {
			problems = append(problems, fmt.Errorf("the job %s: %w", s.Job, err))
		}
	}
	return errors.Join(problems...)
}

// queueSchedule adds the statement to store a schedule. An unchanged schedule writes nothing.
func queueSchedule(batch *pgx.Batch, account int64, s Schedule, now time.Time) {
	changed, _ := next(account, s.Cron, now) // it was checked
	first := changed
	if !s.OnTime {
		first = now
		if !s.Last.IsZero() {
			first, _ = next(account, s.Cron, s.Last)
		}
	}
	batch.Queue(`INSERT INTO river.schedules AS known (account, job, cron, on_time, care, next_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account, job) DO UPDATE SET cron = excluded.cron, on_time = excluded.on_time, care = excluded.care,
	next_at = CASE WHEN known.cron = excluded.cron THEN known.next_at ELSE $7 END
WHERE (known.cron, known.on_time, known.care) IS DISTINCT FROM (excluded.cron, excluded.on_time, excluded.care)`,
		account, s.Job, s.Cron, s.OnTime, s.Care, first, changed)
}

// next returns the next time of a schedule after a time, plus the account's delay. The delay is constant, so intervals
// stay exact.
func next(account int64, cron string, after time.Time) (time.Time, error) {
	schedule, err := worker.ParseSchedule(cron)
	if err != nil {
		return time.Time{}, err
	}
	hash := fnv.New64a()
	_ = binary.Write(hash, binary.LittleEndian, account) // a hash takes everything
	delay := time.Duration(hash.Sum64() % uint64(maxDelay))
	return schedule.Next(after.UTC().Add(-delay)).Add(delay), nil
}

// Row is a schedule's row in the table.
type Row struct {
	Job, Cron string
	NextAt    time.Time
	Outcome   worker.Outcome // how it last ended, "" for never
	EndedAt   time.Time      // when, zero for never
}

// Schedules returns the schedules of an account by the names of their jobs.
func (q *Queue) Schedules(ctx context.Context, account int64) ([]Row, error) {
	rows, err := q.cfg.Pool.Query(ctx,
		`SELECT job, cron, next_at, coalesce(outcome, ''), coalesce(ended_at, '0001-01-01 00:00:00+00')
FROM river.schedules WHERE account = $1 ORDER BY job`, account)
	if err != nil {
		return nil, fmt.Errorf("read the schedules of account %d: %w", account, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
}

// tick starts the due jobs, and drains accounts with deliveries. Ticks may come early, late or simultaneously: the rows
// decide. The next tick repeats failed work.
func (q *Queue) tick(ctx context.Context, _ *river.Job[tickArgs]) error {
	for {
		taken, err := q.startDue(ctx)
		if err != nil {
			q.cfg.Log("jobs whose time has come were not started; the next tick does it: " + err.Error())
			break
		}
		if taken < atOnce {
			break
		}
	}
	if err := q.nudgeDue(ctx); err != nil {
		q.cfg.Log("drains of deliveries that lie were not started; the next tick does it: " + err.Error())
	}
	return nil
}

func (q *Queue) nudgeDue(ctx context.Context) error {
	accounts, err := q.cfg.Due(ctx)
	if err != nil || len(accounts) == 0 {
		return err
	}
	slices.Sort(accounts)
	var drains []river.InsertManyParams
	for _, account := range slices.Compact(accounts) {
		drains = append(drains, river.InsertManyParams{Args: drainArgs{account}})
	}
	_, err = q.client.InsertMany(ctx, drains)
	return err
}

// due is a row with an elapsed time.
type due struct {
	Account      int64
	Job, Cron    string
	OnTime, Care bool
	NextAt, Now  time.Time
}

// startDue starts some due jobs and returns the number of rows taken. It skips rows locked by another node.
func (q *Queue) startDue(ctx context.Context) (taken int, err error) {
	var events []event
	err = q.write(ctx, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, `SELECT account, job, cron, on_time, care, next_at, now() FROM river.schedules
WHERE next_at <= now() ORDER BY next_at, account, job LIMIT $1 FOR UPDATE SKIP LOCKED`, atOnce)
		if err != nil {
			return err
		}
		rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[due])
		if err != nil || len(rows) == 0 {
			return err
		}
		taken = len(rows)
		events, err = q.start(ctx, tx, rows)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		q.cfg.Report(e.account, e.JobEvent)
	}
	return taken, nil
}

// event is a report about an account.
type event struct {
	account int64
	worker.JobEvent
}

// ErrNotScheduled means the account has no schedule for a job.
var ErrNotScheduled = errors.New("the job has no schedule")

// Start requests a scheduled job of an account now, for the first node that is free. by is the person who wants it. It
// reports false if the job is at work, waiting or parked, and then requests nothing. It fails with ErrNotScheduled.
func (q *Queue) Start(ctx context.Context, account int64, job, by string) (bool, error) {
	row := due{Account: account, Job: job}
	err := q.cfg.Pool.QueryRow(ctx, "SELECT care FROM river.schedules WHERE account = $1 AND job = $2", account,
		job).Scan(&row.Care)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, ErrNotScheduled
	}
	if err == nil {
		var inserted *rivertype.JobInsertResult
		if inserted, err = q.client.Insert(ctx, sliceArgs{Account: account, Name: job, Trigger: worker.TriggerManual, By: by},
			row.place()); err == nil {
			return !inserted.UniqueSkippedAsDuplicate, nil
		}
	}
	return false, fmt.Errorf("request the job %s: %w", job, err)
}

// Request is a job that a person requested and that is not over.
type Request struct {
	Job, By string
	At      time.Time
}

// Requests returns the unfinished jobs of an account that people requested, the oldest first. River learns
// of the end of a job later than its hold.
func (q *Queue) Requests(ctx context.Context, account int64) ([]Request, error) {
	rows, err := q.cfg.Pool.Query(ctx, `SELECT args->>'job', coalesce(args->>'by', ''), created_at FROM river.river_job j
WHERE kind = 'slice' AND finalized_at IS NULL AND (args->>'account')::bigint = $1 AND args->>'trigger' = $2 AND NOT EXISTS (
	SELECT 1 FROM river.holds h WHERE h.account = $1 AND h.job = args->>'job' AND h.job_id = j.id AND h.held_until IS NULL
	AND h.again_at IS NULL) ORDER BY id`,
		account, worker.TriggerManual)
	if err != nil {
		return nil, fmt.Errorf("read the requests of account %d: %w", account, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Request])
}

// start passes the jobs of rows to River, moves the rows to their next times, and returns the events of jobs not
// started.
func (q *Queue) start(ctx context.Context, tx pgx.Tx, rows []due) (events []event, err error) {
	var (
		jobs     []river.InsertManyParams
		accounts []int64
		names    []string
		times    []time.Time
	)
	for _, row := range rows {
		at, err := next(row.Account, row.Cron, row.Now)
		missed := row.Now.Sub(row.NextAt) > missedAfter
		switch {
		case err != nil: // another node may know its time zone
			at = row.Now.Add(unreadable)
			events = append(events, event{row.Account, worker.JobEvent{Job: row.Job, Outcome: worker.Failed, Err: err}})
		case !missed || !row.OnTime:
			jobs = append(jobs, row.job(missed))
		}
		accounts, names, times = append(accounts, row.Account), append(names, row.Job), append(times, at)
	}
	if len(jobs) > 0 {
		inserted, err := q.client.InsertManyTx(ctx, tx, jobs)
		if err != nil {
			return nil, err
		}
		for _, i := range inserted {
			if i.UniqueSkippedAsDuplicate {
				events = append(events, skipped(i.Job))
			}
		}
	}
	_, err = tx.Exec(ctx, `UPDATE river.schedules s SET next_at = moved.next_at
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS moved (account, job, next_at) WHERE s.account = moved.account AND s.job = moved.job`, accounts, names, times)
	return events, err
}

// job returns River's job for a due row.
func (row due) job(missed bool) river.InsertManyParams {
	args := jobArgs{Account: row.Account, Name: row.Job, Trigger: worker.TriggerSchedule}
	if missed {
		args.Trigger = worker.TriggerCatchUp
	}
	return river.InsertManyParams{Args: sliceArgs(args), InsertOpts: row.place()}
}

// place returns the queue of River for a row.
func (row due) place() *river.InsertOpts {
	if row.Care {
		return &river.InsertOpts{Queue: care}
	}
	return &river.InsertOpts{Queue: runs}
}

// skipped is the event of a job due while it was at work, waiting or parked.
func skipped(known *rivertype.JobRow) event {
	var args jobArgs
	if err := json.Unmarshal(known.EncodedArgs, &args); err != nil {
		args.Name = known.Kind // nobody but this package writes them
	}
	e := worker.JobEvent{Job: args.Name, Outcome: worker.Skipped}
	if known.State == rivertype.JobStateScheduled {
		e.Until = known.ScheduledAt
	}
	return event{args.Account, e}
}

// write runs do in a transaction with read committed isolation: each statement sees earlier commits.
func (q *Queue) write(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, q.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do)
}
