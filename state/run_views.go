package state

import (
	"context"
	"fmt"
	"time"

	"payersync/connector"
)

// RunRow is a row of v_runs.
type RunRow struct {
	RunID          int64   `json:"run_id"`
	Connection     string  `json:"connection"`
	Kind           string  `json:"kind"`
	Trigger        string  `json:"trigger"`
	StartedAt      string  `json:"started_at"`
	FinishedAt     *string `json:"finished_at"`
	Outcome        string  `json:"outcome"`
	Pulled         int     `json:"pulled"`
	Unchanged      int     `json:"unchanged"`
	Excluded       int     `json:"excluded"`
	Created        int     `json:"created"`
	Adopted        int     `json:"adopted"`
	Updated        int     `json:"updated"`
	LinksRequested int     `json:"links_requested"`
	Held           int     `json:"held"`
	Failed         int     `json:"failed"`
}

const runColumns = `run_id, connection, kind, trigger, started_at, finished_at, outcome, pulled, unchanged, excluded,
	created, adopted, updated, links_requested, held, failed`

func (r *RunRow) dest() []any {
	return []any{&r.RunID, &r.Connection, &r.Kind, &r.Trigger, &r.StartedAt, &r.FinishedAt, &r.Outcome, &r.Pulled,
		&r.Unchanged,
		&r.Excluded, &r.Created, &r.Adopted, &r.Updated, &r.LinksRequested, &r.Held, &r.Failed}
}

// RunProblem is why the newest run of a connection did not come to its end.
type RunProblem struct {
	Connection string `json:"connection"`
	RunID      int64  `json:"run_id"`
	Problem    string `json:"problem"` // in words, as the run told it; or what it left undone

	Outcome string  `json:"outcome"`            // incomplete, interrupted or failed
	Reason  string  `json:"reason,omitempty"`   // why it is incomplete, see WhyIncomplete
	Undone  string  `json:"undone,omitempty"`   // what it left undone, such as signing links without an answer
	RetryAt *string `json:"retry_at,omitempty"` // when a run can continue; nil if unknown
}

// RunProblems returns why the newest runs did not finish, one for each such connection.
func (l *Ledger) RunProblems(ctx context.Context) ([]RunProblem, error) {
	type row struct {
		RunProblem
		lease string
	}
	rows, err := list(ctx, l,
		`SELECT connection, run_id, CASE error WHEN '' THEN undone ELSE error END, error, outcome, undone, retry_at, lease_until FROM runs r
		WHERE run_id = (SELECT max(run_id) FROM runs WHERE connection = r.connection) AND (outcome IN ('incomplete', 'running') OR outcome = 'failed' AND (error <> '' OR undone <> ''))
		ORDER BY connection`, nil, func(r *row) []any {
			return []any{&r.Connection, &r.RunID, &r.Problem, &r.Reason, &r.Outcome, &r.Undone, &r.RetryAt, &r.lease}
		})
	if err != nil {
		return nil, err
	}
	found := []RunProblem{}
	for _, r := range rows {
		p, told := r.RunProblem, r.Reason
		if p.Outcome, err = l.outcomeNow(p.Outcome, r.lease); err != nil {
			return nil, err
		}
		p.Reason = ""
		switch connector.RunOutcome(p.Outcome) {
		case connector.RunRunning:
			continue
		case connector.RunInterrupted:
			p.Problem = leaseRanOut
		case connector.RunIncomplete:
			p.Reason = WhyIncomplete(told, p.Undone)
		}
		found = append(found, p)
	}
	return found, nil
}

// outcomeNow returns the outcome of a run by its stored outcome and lease.
func (l *Ledger) outcomeNow(stored, lease string) (string, error) {
	until, err := time.Parse(time.RFC3339, lease)
	if err != nil {
		return stored, fmt.Errorf("read the lease of a run: %w", err)
	}
	return string(connector.OutcomeAt(connector.RunOutcome(stored), until, l.Now())), nil
}

// LatestRuns returns the newest run of each connection.
func (l *Ledger) LatestRuns(ctx context.Context) ([]RunRow, error) {
	return l.runRows(ctx, selectRuns+" WHERE run_id IN (SELECT max(run_id) FROM runs GROUP BY connection) ORDER BY connection", nil)
}

// Runs returns rows of v_runs, newest first.
func (l *Ledger) Runs(ctx context.Context, f Filter) ([]RunRow, error) {
	query, args := f.apply(selectRuns, "outcome", "run_id DESC")
	return l.runRows(ctx, query, args)
}

// selectRuns selects what runRows reads.
const selectRuns = "SELECT " + runColumns +
	", (SELECT r.lease_until FROM runs r WHERE r.run_id = v_runs.run_id) FROM v_runs"

// runRows reads rows of v_runs, each with its outcome now.
func (l *Ledger) runRows(ctx context.Context, query string, args []any) ([]RunRow, error) {
	type row struct {
		RunRow
		lease string
	}
	rows, err := list(ctx, l, query, args, func(r *row) []any { return append(r.dest(), &r.lease) })
	if err != nil {
		return nil, err
	}
	out := make([]RunRow, len(rows))
	for i, r := range rows {
		out[i] = r.RunRow
		if out[i].Outcome, err = l.outcomeNow(r.Outcome, r.lease); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RunDetail is a run with further details for people.
type RunDetail struct {
	RunRow
	Waiting  int    // records that were planned and not done
	Holder   string // the process, and the requesting person if there is one
	Mapping  string // version
	Problem  string // in words; "" for none
	Undone   string // what it left undone, in words; "" for nothing
	RetryAt  *string
	Plan     int64 // that it made; 0 for none
	SentPlan int64 // whose changes it sent, once it is over; 0 for none

	lease string
}

// AddsUp reports whether the run has counted every record it read once. An unfinished run has not counted
// yet.
func (r RunDetail) AddsUp() bool {
	return r.FinishedAt == nil ||
		r.Pulled == r.Unchanged+r.Excluded+r.Created+r.Adopted+r.Updated+r.Held+r.Failed+r.Waiting
}

const selectRunDetails = `SELECT r.run_id, r.connection, r.kind, r.trigger, r.started_at, r.finished_at, r.outcome, r.pulled, r.unchanged, r.excluded,
	r.created, r.adopted, r.updated, r.links_requested, r.held, r.failed, r.waiting, r.holder, r.mapping_version, r.error, r.undone, r.retry_at,
	coalesce((SELECT max(plan_id) FROM plans p WHERE p.run_id = r.run_id AND ` + isFinished +
	`), 0), coalesce(r.sent_plan, 0), r.lease_until FROM runs r `

func (r *RunDetail) dest() []any {
	return append(r.RunRow.dest(), &r.Waiting, &r.Holder, &r.Mapping, &r.Problem, &r.Undone, &r.RetryAt, &r.Plan,
		&r.SentPlan, &r.lease)
}

// runDetails reads runs with their details, each with its outcome now.
func (l *Ledger) runDetails(ctx context.Context, query string, args ...any) ([]RunDetail, error) {
	found, err := list(ctx, l, query, args, (*RunDetail).dest)
	for i := range found {
		r := &found[i]
		if r.Outcome, err = l.outcomeNow(r.Outcome, r.lease); err != nil {
			return nil, err
		}
		if r.Outcome == string(connector.RunInterrupted) {
			r.Problem = leaseRanOut
		}
	}
	return found, err
}

// RunPage returns runs, the newest first, that are older than the run before; 0 for the newest.
func (l *Ledger) RunPage(ctx context.Context, before int64, limit int) ([]RunDetail, error) {
	return l.runDetails(ctx, selectRunDetails+"WHERE ?1 = 0 OR r.run_id < ?1 ORDER BY r.run_id DESC LIMIT ?2", before,
		limit)
}

// Run returns one run; nil when there is none with this number.
func (l *Ledger) Run(ctx context.Context, run int64) (*RunDetail, error) {
	found, err := l.runDetails(ctx, selectRunDetails+"WHERE r.run_id = ?", run)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// OpenRun returns the number of the connection's open run; 0 for none. A run of a dead process stays open
// until its lease ends.
func (l *Ledger) OpenRun(ctx context.Context, connection string) (int64, error) {
	return single[int64](l.queryRow(ctx,
		"SELECT coalesce(max(run_id), 0) FROM runs WHERE connection = ? AND finished_at IS NULL AND lease_until > ?",
		connection, stamp(l.Now())))
}

// RunChange is what a run did for one payer, or came to.
type RunChange struct {
	ID       int64
	SourceID string
	Action   connector.Action
	State    connector.ChangeState
	Reason   connector.Reason
	Detail   string
}

// RunChanges returns up to limit changes last worked on by a run, after change id after, in order. Void
// changes are omitted.
func (l *Ledger) RunChanges(ctx context.Context, run, after int64, limit int) ([]RunChange, error) {
	return list(ctx, l, `SELECT change_id, source_id, CASE unlinks WHEN 1 THEN 'unlink' ELSE action END, state, reason, detail
		FROM changes WHERE run_id = ? AND change_id > ? AND state <> 'void' ORDER BY change_id LIMIT ?`,
		[]any{run, after, limit},
		func(r *RunChange) []any { return []any{&r.ID, &r.SourceID, &r.Action, &r.State, &r.Reason, &r.Detail} })
}

// RunWork returns how many changes a run has worked on so far, and how many of them are done. A running run has no
// other count yet.
func (l *Ledger) RunWork(ctx context.Context, run int64) (all, done int, err error) {
	err = l.queryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM changes
		WHERE run_id = ? AND state <> 'void'`, run).Scan(&all, &done)
	return all, done, err
}
