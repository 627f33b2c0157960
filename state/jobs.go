package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"payersync/connector"
)

// JobRow is the ledger's data of a job of payersync serve. A job that began after it last ended is
// at work, or its process died over it.
type JobRow struct {
	Name    string    `json:"name"`
	BegunAt time.Time `json:"begun_at,omitzero"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	DoneAt  time.Time `json:"done_at,omitzero"` // when it last ended well
	// of its last end: done, failed, panicked, interrupted or parked; "" while it never ended
	Outcome     string    `json:"outcome"`
	ParkedUntil time.Time `json:"parked_until,omitzero"` // while it waits because a remote system asked for it
	Problem     string    `json:"problem,omitempty"`     // why its last end was not a good one
}

// JobEnd is how a job ended.
type JobEnd struct {
	Outcome string    // as in [JobRow]
	Until   time.Time // of a parked one: when it goes on
	Problem string    // why, unless it is done
}

// jobsSince is the first schema that knows jobs.
const jobsSince = 26

// jobDone is the outcome of a job that ended well.
const jobDone = "done"

// Jobs returns every job that ever began, by name, including those of removed connections.
func (l *Ledger) Jobs(ctx context.Context) ([]JobRow, error) {
	type row struct {
		JobRow
		begun, ended, done, parked sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT name, begun_at, ended_at, done_at, outcome, parked_until, problem FROM jobs ORDER BY name", nil,
		func(r *row) []any {
			return []any{&r.Name, &r.begun, &r.ended, &r.done, &r.Outcome, &r.parked, &r.Problem}
		})
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	out := make([]JobRow, 0, len(rows))
	for _, r := range rows {
		for _, t := range []struct {
			stored sql.NullString
			into   *time.Time
		}{{r.begun, &r.BegunAt}, {r.ended, &r.EndedAt}, {r.done, &r.DoneAt}, {r.parked, &r.ParkedUntil}} {
			if *t.into, err = parseTime(t.stored); err != nil {
				return nil, err
			}
		}
		out = append(out, r.JobRow)
	}
	return out, nil
}

// BeginJob notes that a job begins.
func (tx *Tx) BeginJob(name string) error {
	err := tx.exec("INSERT INTO jobs (name, begun_at) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET begun_at = ?2, parked_until = NULL", name, stamp(tx.now))
	return connector.Wrap(err, "note that the job %s begins", name)
}

// EndJob notes how a job that began has ended.
func (tx *Tx) EndJob(name string, end JobEnd) error {
	err := tx.exec(`UPDATE jobs SET ended_at = ?2, done_at = CASE WHEN ?3 = ?6 THEN ?2 ELSE done_at END, outcome = ?3, parked_until = ?4, problem = ?5 WHERE name = ?1`,
		name, stamp(tx.now), end.Outcome, stamp(end.Until), end.Problem, jobDone)
	return connector.Wrap(err, "note that the job %s ended", name)
}
