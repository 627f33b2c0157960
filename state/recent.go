package state

import (
	"context"
	"fmt"
	"time"

	"payersync/connector"
)

// mostRecent bounds the changes of mandates that Recent reads, so that it takes no longer in an older ledger.
const mostRecent = 20_000

// Recent counts what happened since a time.
type Recent struct {
	Since string // later than requested if too much happened to count all of it

	Runs                            int // finished ones, without those that only planned
	Created, Linked, Updated, Asked int // payers, by these runs; Asked are signing links
	Mandates                        []RecentStatus
}

// RecentStatus counts the mandates that came to a status.
type RecentStatus struct {
	Status connector.MandateStatus
	Count  int
	Last   string // when the newest of them was observed
}

// Recent returns what happened since a time.
func (l *Ledger) Recent(ctx context.Context, since time.Time) (Recent, error) {
	r := Recent{Since: since.UTC().Format(layout)}
	err := l.queryRow(ctx, `SELECT count(*), coalesce(sum(created), 0), coalesce(sum(adopted), 0), coalesce(sum(updated), 0),
	coalesce(sum(links_requested), 0)
FROM (SELECT * FROM runs ORDER BY run_id DESC LIMIT ?1) r WHERE finished_at >= ?2 AND kind <> 'plan'`,
		mostRecent, r.Since).Scan(&r.Runs, &r.Created, &r.Linked, &r.Updated, &r.Asked)
	if err != nil {
		return r, fmt.Errorf("read the recent runs: %w", err)
	}
	type row struct {
		RecentStatus
		read     int // with the changes before that time
		earliest string
	}
	rows, err := list(ctx, l, `SELECT to_status, sum(CASE WHEN observed_at >= ?2 THEN 1 ELSE 0 END), max(observed_at), count(*),
	min(observed_at)
FROM (SELECT to_status, observed_at FROM mandate_history ORDER BY seq DESC LIMIT ?1) h GROUP BY to_status ORDER BY to_status`,
		[]any{mostRecent, r.Since}, func(r *row) []any {
			return []any{&r.Status, &r.Count, &r.Last, &r.read, &r.earliest}
		})
	if err != nil || len(rows) == 0 {
		return r, err
	}
	read, earliest := 0, rows[0].earliest
	for _, row := range rows {
		read, earliest = read+row.read, min(earliest, row.earliest)
		if row.Count > 0 {
			r.Mandates = append(r.Mandates, row.RecentStatus)
		}
	}
	if read == mostRecent {
		r.Since = max(r.Since, earliest)
	}
	return r, nil
}
