package state

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

	Of map[connector.Action][]RecordID // the payers of few changes, the newest first
}

// RecentStatus counts the mandates that came to a status.
type RecentStatus struct {
	Status connector.MandateStatus
	Count  int
	Last   string     // when the newest of them was observed
	Of     []RecordID // the payers of few mandates, the newest first
}

// Of few payers Recent returns the ids.
const (
	fewRecent   = 20   // payers of the same event
	changesRead = 2000 // of the newest runs, to find them
)

// Recent returns what happened since a time, with the payers of each event that concerns few of them.
func (l *Ledger) Recent(ctx context.Context, since time.Time) (Recent, error) {
	r := Recent{Since: since.UTC().Format(layout)}
	err := l.queryRow(ctx, `SELECT count(*), coalesce(sum(created), 0), coalesce(sum(adopted), 0), coalesce(sum(updated), 0),
	coalesce(sum(links_requested), 0)
FROM (SELECT * FROM runs ORDER BY run_id DESC LIMIT ?1) r WHERE finished_at >= ?2 AND kind <> 'plan'`,
		mostRecent, r.Since).Scan(&r.Runs, &r.Created, &r.Linked, &r.Updated, &r.Asked)
	if err == nil {
		err = l.addRecentChanges(ctx, &r)
	}
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
	return r, l.addRecentMandates(ctx, r)
}

// addRecentChanges adds the payers of few changes.
func (l *Ledger) addRecentChanges(ctx context.Context, r *Recent) error {
	few := func(n int) bool { return n > 0 && n <= fewRecent }
	if !few(r.Created) && !few(r.Linked) && !few(r.Updated) && !few(r.Asked) {
		return nil
	}
	counts := map[connector.Action]int{connector.ActionCreate: r.Created, connector.ActionAdopt: r.Linked,
		connector.ActionUpdate: r.Updated, connector.ActionLink: r.Asked}
	type row struct {
		action connector.Action
		id     RecordID
	}
	return each(ctx, l, `SELECT action, connection, source_id FROM (
	SELECT c.action, c.connection, c.source_id, c.state, c.attempts, c.run_id, c.change_id FROM runs r JOIN changes c ON c.run_id = r.run_id
	WHERE r.run_id > (SELECT max(run_id) FROM runs) - ?1 AND r.finished_at >= ?2 AND r.kind <> 'plan'
	ORDER BY r.run_id DESC, c.change_id DESC LIMIT ?3) t WHERE state = 'done' AND attempts > 0 ORDER BY run_id DESC, change_id DESC`,
		[]any{mostRecent, r.Since, changesRead},
		func(r *row) []any { return []any{&r.action, &r.id.Connection, &r.id.SourceID} },
		func(c row) error {
			if few(counts[c.action]) && !slices.Contains(r.Of[c.action], c.id) {
				if r.Of == nil {
					r.Of = map[connector.Action][]RecordID{}
				}
				r.Of[c.action] = append(r.Of[c.action], c.id)
			}
			return nil
		})
}

// addRecentMandates adds the payers of few mandates that came to the same status.
func (l *Ledger) addRecentMandates(ctx context.Context, r Recent) error {
	few := connector.Filter(r.Mandates, func(s RecentStatus) bool { return s.Count <= fewRecent })
	asked, err := json.Marshal(connector.Map(few, func(s RecentStatus) connector.MandateStatus { return s.Status }))
	if err != nil || len(few) == 0 {
		return err
	}
	type row struct {
		status connector.MandateStatus
		id     RecordID
	}
	return each(ctx, l, `SELECT h.to_status, p.connection, p.source_id
FROM (SELECT seq, billing_id, to_status, observed_at FROM mandate_history ORDER BY seq DESC LIMIT ?1) h JOIN payers p ON p.billing_id = h.billing_id
WHERE h.observed_at >= ?2 AND h.to_status IN (SELECT value FROM json_each(?3)) ORDER BY h.seq DESC`,
		[]any{mostRecent, r.Since, string(asked)},
		func(r *row) []any { return []any{&r.status, &r.id.Connection, &r.id.SourceID} },
		func(m row) error {
			at := slices.IndexFunc(r.Mandates, func(s RecentStatus) bool { return s.Status == m.status })
			if s := &r.Mandates[at]; !slices.Contains(s.Of, m.id) {
				s.Of = append(s.Of, m.id)
			}
			return nil
		})
}
