package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// LostMandate is a payer's cancelled mandate, or one with an undocumented status, that needs a
// person.
type LostMandate struct {
	MandateID string
	RecordID
	Status connector.MandateStatus
	Moved  bool      // while it was known; false when it was so when it was first seen
	At     time.Time // when that was observed
}

// LostMandates returns the payers' lost mandates that need attention, oldest first. It omits mandates
// cancelled through payersync, and postponed ones.
func (l *Ledger) LostMandates(ctx context.Context) ([]LostMandate, error) {
	type row struct {
		LostMandate
		at sql.NullString
	}
	rows, err := list(ctx, l, `SELECT m.mandate_id, p.connection, p.source_id, m.status, h.from_status <> '', h.observed_at
		FROM attention a JOIN payers p ON p.connection = a.connection AND p.source_id = a.source_id
		JOIN mandates m ON m.mandate_id = p.mandate_id
		JOIN mandate_history h ON h.mandate_id = m.mandate_id AND h.seq = (SELECT max(n.seq) FROM mandate_history n WHERE n.mandate_id = m.mandate_id)
		WHERE a.topic = 'mandate' AND a.reason IN ('mandate_cancelled', 'status_unknown') AND m.status NOT IN ('CREATED', 'PENDING', 'ACTIVE') AND h.cause <> 'cancel'
		  AND NOT EXISTS (SELECT 1 FROM put_off o WHERE o.connection = a.connection AND o.source_id = a.source_id AND o.reason = a.reason AND o.at >= a.since AND o.until > ?)
		ORDER BY h.seq`, []any{stamp(l.Now())}, func(r *row) []any {
		return []any{&r.MandateID, &r.Connection, &r.SourceID, &r.Status, &r.Moved, &r.at}
	})
	if err != nil {
		return nil, fmt.Errorf("look for mandates that were lost: %w", err)
	}
	out := make([]LostMandate, len(rows))
	for i, r := range rows {
		out[i] = r.LostMandate
		if out[i].At, err = parseTime(r.at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReasonCount is how many records need a person for a reason. Count, PutOff and Paired add up to
// all records with the reason.
type ReasonCount struct {
	Reason connector.Reason
	Count  int       // that need a person now
	PutOff int       // by a person who wants to be told later
	Paired int       // told with another record, which may be the payer under a new number
	Oldest time.Time // of Count: since when the first is told; zero for none
	Newest time.Time // of Count: since when the last is told, or was to be told again
}

// AttentionCount is how many records of a connection need a person for one reason, as ReasonCount
// counts them.
type AttentionCount struct {
	Connection, Reason string
	N                  int
	PutOff             int
	Paired             int

	oldest, newest sql.NullString
}

// attentionCounts counts the records that need a person, by connection and reason. Every displayed
// count comes from here.
func (l *Ledger) attentionCounts(ctx context.Context) ([]AttentionCount, error) {
	rows, err := list(ctx, l,
		`SELECT connection, reason, count(*) FILTER (WHERE off = 0 AND paired = 0), count(*) FILTER (WHERE off = 1 AND paired = 0), count(*) FILTER (WHERE paired = 1),
		min(since) FILTER (WHERE off = 0 AND paired = 0), max(again) FILTER (WHERE off = 0 AND paired = 0)
		FROM (SELECT v.connection AS connection, v.reason AS reason, v.since AS since, max(v.since, coalesce(o.until, '')) AS again,
		  CASE WHEN o.until > ?1 THEN 1 ELSE 0 END AS off, CASE WHEN `+hasSuccessor+` THEN 1 ELSE 0 END AS paired
		  FROM `+tellings+` v LEFT JOIN put_off o ON o.connection = v.connection AND o.source_id = v.source_id AND o.reason = v.reason AND o.at >= v.since) t
		GROUP BY connection, reason ORDER BY reason, connection`, []any{stamp(l.Now())}, func(r *AttentionCount) []any {
			return []any{&r.Connection, &r.Reason, &r.N, &r.PutOff, &r.Paired, &r.oldest, &r.newest}
		})
	if err != nil {
		return nil, fmt.Errorf("count the findings: %w", err)
	}
	return rows, nil
}

// ReasonCounts returns the number of records that need a person, by reason.
func (l *Ledger) ReasonCounts(ctx context.Context) ([]ReasonCount, error) {
	rows, err := l.attentionCounts(ctx)
	if err != nil {
		return nil, err
	}
	out := []ReasonCount{}
	for _, r := range rows {
		if len(out) == 0 || string(out[len(out)-1].Reason) != r.Reason {
			out = append(out, ReasonCount{Reason: connector.Reason(r.Reason)})
		}
		c := &out[len(out)-1]
		c.Count, c.PutOff, c.Paired = c.Count+r.N, c.PutOff+r.PutOff, c.Paired+r.Paired
		var oldest, newest time.Time
		if err := parseTimes(map[*time.Time]sql.NullString{&oldest: r.oldest, &newest: r.newest}); err != nil {
			return nil, err
		}
		if c.Oldest.IsZero() || !oldest.IsZero() && oldest.Before(c.Oldest) {
			c.Oldest = oldest
		}
		if newest.After(c.Newest) {
			c.Newest = newest
		}
	}
	return out, nil
}

// RunEnd is the end of a connection's newest finished run; runs that only plan do not count.
type RunEnd struct {
	Connection string
	RunID      int64
	Outcome    connector.RunOutcome
	Problem    string    // why it did not come to its end, in words
	Since      time.Time // when the first of the unbroken row of runs with this outcome ended; zero for a good one
}

// RunEnds returns how the connections' newest runs ended, by connection.
func (l *Ledger) RunEnds(ctx context.Context) ([]RunEnd, error) {
	type row struct {
		RunEnd
		since sql.NullString
	}
	rows, err := list(ctx, l, `SELECT r.connection, r.run_id, r.outcome, r.error,
		  CASE WHEN r.outcome IN ('failed', 'incomplete') THEN (SELECT min(f.finished_at) FROM runs f WHERE f.connection = r.connection AND f.kind <> 'plan' AND f.run_id > coalesce(
		    (SELECT max(g.run_id) FROM runs g WHERE g.connection = r.connection AND g.kind <> 'plan' AND g.finished_at IS NOT NULL AND g.outcome <> r.outcome), 0)) END
		FROM connections c JOIN runs r ON r.run_id = (SELECT max(n.run_id) FROM runs n WHERE n.connection = c.name AND n.kind <> 'plan' AND n.finished_at IS NOT NULL)
		WHERE NOT EXISTS (SELECT 1 FROM connection_decisions d WHERE d.old_connection = c.name AND d.decision = 'moved') -- it has no next run
		ORDER BY r.connection`, nil,
		func(r *row) []any { return []any{&r.Connection, &r.RunID, &r.Outcome, &r.Problem, &r.since} })
	if err != nil {
		return nil, fmt.Errorf("look how runs ended: %w", err)
	}
	out := make([]RunEnd, len(rows))
	for i, r := range rows {
		out[i] = r.RunEnd
		if out[i].Since, err = parseTime(r.since); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// WaitingSince returns the first plan of a connection's present wait for approval. Newer plans replaced it
// before a decision.
func (l *Ledger) WaitingSince(ctx context.Context, p Plan) (first int64, at time.Time, err error) {
	var since sql.NullString
	err = l.queryRow(ctx, `SELECT plan_id, created_at FROM plans WHERE connection = ?1 AND plan_id <= ?2 AND limits <> '' AND plan_id > coalesce(
		  (SELECT max(d.plan_id) FROM plans d WHERE d.connection = ?1 AND d.plan_id < ?2
		   AND (d.limits = '' OR d.approved_at IS NOT NULL OR d.rejected_at IS NOT NULL OR (d.missing + d.lost > 0) <> (?3 = 1))), 0)
		ORDER BY plan_id LIMIT 1`, p.Connection, p.ID, p.Standstill()).Scan(&first, &since)
	if errors.Is(err, sql.ErrNoRows) {
		return p.ID, p.CreatedAt, nil
	}
	if err == nil {
		at, err = parseTime(since)
	}
	if err != nil {
		return 0, at, fmt.Errorf("look since when a plan waits: %w", err)
	}
	return first, at, nil
}

// Unanswered returns the number of unanswered changing requests sent before a time whose effect no
// read has shown, and when the first was sent.
func (l *Ledger) Unanswered(ctx context.Context, before time.Time) (n int, first time.Time, err error) {
	var at sql.NullString
	if err := l.queryRow(ctx, "SELECT count(*), min(sent_at) FROM attempts WHERE ended = '' AND sent_at < ?",
		stamp(before)).Scan(&n, &at); err != nil {
		return 0, first, fmt.Errorf("look for requests without an answer: %w", err)
	}
	first, err = parseTime(at)
	return n, first, err
}

// Began returns when the first run of the ledger began; the zero time for never.
func (l *Ledger) Began(ctx context.Context) (time.Time, error) {
	return l.time(ctx, "SELECT min(started_at) FROM runs")
}
