package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"payersync/connector"
)

// MonitoringCounts are a ledger's counts and totals, for monitoring. None of it is a personal value. Lists are in no
// order.
type MonitoringCounts struct {
	Runs         []RunCount        // that have ended
	LastEnded    []RunSpan         // the newest run of each connection that has ended; plans are not looked at
	LastComplete []RunSpan         // the newest that was complete
	OpenRuns     []RunSpan         // those under way
	Sent         []SentCount       // changing requests with a known end
	Unanswered   []UnansweredCount // those that may still take effect
	Payers       []PayerCount
	Mandates     map[string]int // by status, as the service spells it
	Attention    []AttentionCount
	Waiting      map[string]int // webhooks that are not settled, by state
	OldestWaits  time.Time      // when the oldest came that waits to be reflected; zero for none
	Size, WAL    int64          // of the ledger's file and of its log, in bytes
}

// RunCount is how many runs of a kind a connection had that ended in one way.
type RunCount struct {
	Connection, Kind, Outcome string
	N                         int
}

// RunSpan is one run in time.
type RunSpan struct {
	Connection, Outcome   string
	Kind                  string
	StartedAt, FinishedAt time.Time
}

// SentCount is how many requests for an action of a connection ended in one way.
type SentCount struct {
	Connection string
	Action     connector.Action
	End        AttemptEnd
	N          int
}

// UnansweredCount is the number of a connection's requests for an action with an unknown result that may
// still take effect, and the time of the first.
type UnansweredCount struct {
	Connection string
	Action     connector.Action
	N          int
	Since      time.Time
}

// PayerCount is how many payers of a connection are linked in one way.
type PayerCount struct {
	Connection, State string
	N                 int
	Left              int // of N, records that left the books or were left out
}

// payerCounts counts the payers by how they are linked.
func (l *Ledger) payerCounts(ctx context.Context) ([]PayerCount, error) {
	rows, err := list(ctx, l, `SELECT p.connection, p.link_state, count(*), count(*) FILTER (WHERE `+isNoPayer+`)
		FROM payers p JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id GROUP BY 1, 2`, nil,
		func(r *PayerCount) []any {
			return []any{&r.Connection, &r.State, &r.N, &r.Left}
		})
	if err != nil {
		return nil, fmt.Errorf("count the payers: %w", err)
	}
	return rows, nil
}

// Counter counts what a ledger holds, again and again: of what only grows, what has ended is
// counted once. It is safe for concurrent use.
type Counter struct {
	ledger *Ledger

	mu   sync.Mutex
	runs settled
	sent settled
}

// NewCounter returns a counter for the ledger.
func (l *Ledger) NewCounter() *Counter { return &Counter{ledger: l} }

// settled is the count of a table up to a row, and the earlier rows that had not ended then.
// Finished rows never change.
type settled struct {
	upTo   int64
	groups map[group]tally
	open   []int64
}

// group is the key of a count.
type group [3]string

type tally struct {
	n    int
	last int64 // the newest row
}

// Count counts. Rows that are removed while the process lives stay counted.
func (c *Counter) Count(ctx context.Context) (n MonitoringCounts, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs, err := c.runs.count(ctx, c.ledger, runsByEnd)
	if err != nil {
		return n, err
	}
	sent, err := c.sent.count(ctx, c.ledger, sentByEnd)
	if err != nil {
		return n, err
	}
	for g, t := range runs {
		n.Runs = append(n.Runs, RunCount{g[0], g[1], g[2], t.n})
	}
	for g, t := range sent {
		n.Sent = append(n.Sent, SentCount{g[0], connector.Action(g[1]), AttemptEnd(g[2]), t.n})
	}
	for _, step := range []func(context.Context, *MonitoringCounts) error{
		func(ctx context.Context, n *MonitoringCounts) error { return c.ledger.spans(ctx, runs, n) },
		c.ledger.countUnanswered, c.ledger.countPayers, c.ledger.countWaiting, c.ledger.fileSizes,
	} {
		if err := step(ctx, &n); err != nil {
			return n, err
		}
	}
	return n, nil
}

// counted is the way to count a table: the rows after ?1, and those of the ids ?1 that have ended
// since. Both give groups, whether they have ended, how many rows they have, the newest of them,
// and the ids of what has not ended.
type counted struct{ behind, since string }

var (
	runsByEnd = counted{
		`SELECT connection, kind, outcome, finished_at IS NOT NULL, count(*), max(run_id), json_group_array(run_id) FILTER (WHERE finished_at IS NULL)
			FROM runs WHERE run_id > ?1 GROUP BY 1, 2, 3, 4`,
		`SELECT connection, kind, outcome, 1, 1, run_id, '[]' FROM runs WHERE run_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?1)) AND finished_at IS NOT NULL`,
	}
	sentByEnd = counted{
		`SELECT connection, action, ended, ended <> '', count(*), max(attempt_id), json_group_array(attempt_id) FILTER (WHERE ended = '')
			FROM attempts WHERE attempt_id > ?1 GROUP BY 1, 2, 3`,
		`SELECT connection, action, ended, 1, 1, attempt_id, '[]' FROM attempts WHERE attempt_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?1)) AND ended <> ''`,
	}
)

// count returns the ended ones in each group. Each query sees the table at one moment, so that no row is met
// twice or never.
func (s *settled) count(ctx context.Context, l *Ledger, c counted) (map[group]tally, error) {
	type row struct {
		group
		ended bool
		tally
		open string
	}
	ids, err := json.Marshal(s.open)
	if err != nil {
		return nil, err
	}
	next := settled{upTo: s.upTo, groups: maps.Clone(s.groups), open: slices.Clone(s.open)}
	if next.groups == nil {
		next.groups = map[group]tally{}
	}
	for _, q := range []struct {
		query string
		from  any
	}{{c.since, string(ids)}, {c.behind, s.upTo}} {
		rows, err := list(ctx, l, q.query, []any{q.from}, func(r *row) []any {
			return []any{&r.group[0], &r.group[1], &r.group[2], &r.ended, &r.n, &r.last, &r.open}
		})
		if err != nil {
			return nil, fmt.Errorf("count the ledger: %w", err)
		}
		for _, r := range rows {
			next.upTo = max(next.upTo, r.last)
			if !r.ended {
				var more []int64
				if err := json.Unmarshal([]byte(r.open), &more); err != nil {
					return nil, fmt.Errorf("count the ledger: %w", err)
				}
				next.open = append(next.open, more...)
				continue
			}
			if q.query == c.since {
				next.open = slices.DeleteFunc(next.open, func(id int64) bool { return id == r.last })
			}
			next.groups[r.group] = tally{next.groups[r.group].n + r.n, max(next.groups[r.group].last, r.last)}
		}
	}
	*s = next
	return next.groups, nil
}

// spans looks up the newest runs of each connection, by what was counted.
func (l *Ledger) spans(ctx context.Context, runs map[group]tally, n *MonitoringCounts) error {
	ended, complete := map[string]int64{}, map[string]int64{}
	for g, t := range runs {
		if g[1] == string(connector.RunPlan) {
			continue
		}
		ended[g[0]] = max(ended[g[0]], t.last)
		if g[2] == string(connector.RunComplete) {
			complete[g[0]] = max(complete[g[0]], t.last)
		}
	}
	var err error
	if n.LastEnded, err = l.runSpans(ctx, ended); err != nil {
		return err
	}
	if n.LastComplete, err = l.runSpans(ctx, complete); err != nil {
		return err
	}
	return l.openRuns(ctx, n)
}

// openRuns looks up the runs in progress. An interrupted run counts as the newest ended run of its connection, at the
// end of its lease.
func (l *Ledger) openRuns(ctx context.Context, n *MonitoringCounts) error {
	open, err := l.listSpans(ctx, "WHERE finished_at IS NULL")
	for _, r := range open {
		if r.Outcome != string(connector.RunInterrupted) {
			n.OpenRuns = append(n.OpenRuns, r)
			continue
		}
		if r.Kind == string(connector.RunPlan) {
			continue
		}
		n.LastEnded = slices.DeleteFunc(n.LastEnded, func(e RunSpan) bool { return e.Connection == r.Connection })
		n.LastEnded = append(n.LastEnded, r)
	}
	return err
}

func (l *Ledger) runSpans(ctx context.Context, newest map[string]int64) (out []RunSpan, err error) {
	for id := range maps.Values(newest) {
		found, err := l.listSpans(ctx, "WHERE run_id = ?", id)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (l *Ledger) listSpans(ctx context.Context, where string, args ...any) ([]RunSpan, error) {
	type row struct {
		RunSpan
		started, finished sql.NullString
		lease             string
	}
	rows, err := list(ctx, l, "SELECT connection, outcome, kind, started_at, finished_at, lease_until FROM runs "+where,
		args, func(r *row) []any {
			return []any{&r.Connection, &r.Outcome, &r.Kind, &r.started, &r.finished, &r.lease}
		})
	if err != nil {
		return nil, fmt.Errorf("look for the newest runs: %w", err)
	}
	out := make([]RunSpan, 0, len(rows))
	for _, r := range rows {
		if r.Outcome, err = l.outcomeNow(r.Outcome, r.lease); err != nil {
			return nil, err
		}
		if r.Outcome == string(connector.RunInterrupted) {
			r.finished = sql.NullString{String: r.lease, Valid: true}
		}
		if err := parseTimes(map[*time.Time]sql.NullString{&r.StartedAt: r.started, &r.FinishedAt: r.finished}); err != nil {
			return nil, err
		}
		out = append(out, r.RunSpan)
	}
	return out, nil
}

func (l *Ledger) countUnanswered(ctx context.Context, n *MonitoringCounts) error {
	type row struct {
		UnansweredCount
		since sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT connection, action, count(*), min(sent_at) FROM attempts WHERE ended = '' AND over = 0 GROUP BY 1, 2", nil,
		func(r *row) []any {
			return []any{&r.Connection, &r.Action, &r.N, &r.since}
		})
	for _, r := range rows {
		if r.Since, err = parseTime(r.since); err != nil {
			break
		}
		n.Unanswered = append(n.Unanswered, r.UnansweredCount)
	}
	if err != nil {
		return fmt.Errorf("count requests without an answer: %w", err)
	}
	return nil
}

func (l *Ledger) countPayers(ctx context.Context, n *MonitoringCounts) (err error) {
	if n.Payers, err = l.payerCounts(ctx); err != nil {
		return err
	}
	if n.Mandates, err = l.counts(ctx, "SELECT status, count(*) FROM mandates GROUP BY status"); err != nil {
		return fmt.Errorf("count the mandates: %w", err)
	}
	n.Attention, err = l.attentionCounts(ctx)
	return err
}

// countWaiting counts the webhooks that are not settled. Those in quarantine were counted
// with what needs a person.
func (l *Ledger) countWaiting(ctx context.Context, n *MonitoringCounts) (err error) {
	if n.Waiting, err = l.counts(ctx,
		"SELECT state, sum(deliveries) FROM inbox_counts WHERE state IN ('received', 'parked') GROUP BY state HAVING sum(deliveries) > 0"); err != nil {
		return fmt.Errorf("count the inbox: %w", err)
	}
	for _, a := range n.Attention {
		if a.Reason == string(connector.ReasonEventNotUnderstood) {
			n.Waiting[string(connector.InboxQuarantined)] += a.N + a.PutOff
		}
	}
	n.OldestWaits, err = l.time(ctx, "SELECT min(received_at) FROM inbox WHERE state IN ('received', 'parked')")
	return err
}

// fileSizes looks at the size of the files, and opens neither (fault F66).
func (l *Ledger) fileSizes(_ context.Context, n *MonitoringCounts) error {
	if !l.below.isFile() {
		return nil
	}
	for _, f := range []struct {
		name string
		into *int64
	}{{l.path, &n.Size}, {l.path + "-wal", &n.WAL}} {
		info, err := os.Lstat(f.name)
		if errors.Is(err, fs.ErrNotExist) && f.into == &n.WAL {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at the ledger's files: %w", err)
		}
		*f.into = info.Size()
	}
	return nil
}
