package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The rows below are the public views of the ledger, column by column (their
// JSON names are the column names). None holds a personal value.

// PayerRow is a row of v_payers.
type PayerRow struct {
	Connection      string  `json:"connection"`
	SourceID        string  `json:"source_id"`
	KeyName         string  `json:"key_name"`
	KeyValue        string  `json:"key_value"`
	BillingID       *string `json:"billing_id"`
	LinkState       string  `json:"link_state"`
	MandateID       *string `json:"mandate_id"`
	MandateStatus   *string `json:"mandate_status"`
	AttentionReason *string `json:"attention_reason"`
	UpdatedAt       string  `json:"updated_at"`
	KeyScope        string  `json:"key_scope"` // organisation that the key names; "" for none
}

// MandateRow is a row of v_mandates.
type MandateRow struct {
	MandateID   string  `json:"mandate_id"`
	BillingID   string  `json:"billing_id"`
	Connection  *string `json:"connection"`
	SourceID    *string `json:"source_id"`
	Status      string  `json:"status"`
	StatusSince string  `json:"status_since"`
	FirstSeenAt string  `json:"first_seen_at"`
	LastSeenAt  string  `json:"last_seen_at"`
}

// HistoryRow is a row of v_mandate_history.
type HistoryRow struct {
	Seq         int64  `json:"seq"`
	MandateID   string `json:"mandate_id"`
	BillingID   string `json:"billing_id"`
	FromStatus  string `json:"from_status"`
	ToStatus    string `json:"to_status"`
	ServiceTime string `json:"service_time"`
	ObservedAt  string `json:"observed_at"`
	Cause       string `json:"cause"`
}

// AttentionRow is a row of v_attention.
type AttentionRow struct {
	Connection string `json:"connection"`
	SourceID   string `json:"source_id"`
	Reason     string `json:"reason"`
	Detail     string `json:"detail"`
	Since      string `json:"since"`

	PutOff *PutOff `json:"-"` // by a person who wants to be told later; nil for not
}

// InboxRow is a row of v_inbox.
type InboxRow struct {
	DeliveryKey string  `json:"delivery_key"`
	ReceivedAt  string  `json:"received_at"`
	EventType   string  `json:"event_type"`
	BillingID   string  `json:"billing_id"`
	State       string  `json:"state"`
	ProcessedAt *string `json:"processed_at"`
}

// Filter narrows a list. Zero fields do not narrow; a Limit of 0 means no limit.
type Filter struct {
	Connection string
	State      string // link state, mandate status, inbox state or reason
	PutOff     string // of Attention alone: NotPutOff or OnlyPutOff
	Alone      bool   // of Attention alone: not what is told with another record, as ReasonCount.Paired counts it
	OnHold     bool   // of Attention alone: only what keeps a record on hold, as Plan.Holds counts it
	Limit      int
}

// apply returns a query with the filter, in an order.
func (f Filter) apply(query, stateColumn, order string) (string, []any) {
	var where []string
	var args []any
	if f.Connection != "" {
		where, args = append(where, "connection = ?"), append(args, f.Connection)
	}
	if f.State != "" {
		where, args = append(where, stateColumn+" = ?"), append(args, f.State)
	}
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += " ORDER BY " + order
	if f.Limit > 0 {
		query, args = query+limitTo, append(args, f.Limit)
	}
	return query, args
}

// Payers returns rows of v_payers by connection and source id.
func (l *Ledger) Payers(ctx context.Context, f Filter) ([]PayerRow, error) {
	out := []PayerRow{}
	err := l.EachPayer(ctx, f, func(r PayerRow) error { out = append(out, r); return nil })
	return out, err
}

// EachPayer hands rows of v_payers over, by connection and source id.
func (l *Ledger) EachPayer(ctx context.Context, f Filter, do func(PayerRow) error) error {
	query, args := f.apply(`SELECT connection, source_id, key_name, key_value, billing_id, link_state,
		mandate_id, mandate_status, attention_reason, updated_at, key_scope FROM v_payers`, "link_state",
		"connection, source_id")
	return each(ctx, l, query, args, func(r *PayerRow) []any {
		return []any{&r.Connection, &r.SourceID, &r.KeyName, &r.KeyValue, &r.BillingID, &r.LinkState,
			&r.MandateID, &r.MandateStatus, &r.AttentionReason, &r.UpdatedAt, &r.KeyScope}
	}, do)
}

const mandateColumns = "mandate_id, billing_id, connection, source_id, status, status_since, first_seen_at, last_seen_at"

func (r *MandateRow) dest() []any {
	return []any{&r.MandateID, &r.BillingID, &r.Connection, &r.SourceID, &r.Status, &r.StatusSince, &r.FirstSeenAt,
		&r.LastSeenAt}
}

// byAge is the order of mandates in a list: the newest first.
const byAge = "first_seen_at DESC, mandate_id"

// Mandates returns rows of v_mandates, newest first.
func (l *Ledger) Mandates(ctx context.Context, f Filter) ([]MandateRow, error) {
	out := []MandateRow{}
	err := l.EachMandates(ctx, f, nil, func(some []MandateRow) error { out = append(out, some...); return nil })
	return out, err
}

// mandatesAtOnce is how many mandates of a list are read at a time.
const mandatesAtOnce = 1000

// EachMandates passes rows of v_mandates to do, newest first, some at a time. It reads the list of ids first,
// and calls told, unless it is nil, with their number and whether the limit cut some off. It reads each row
// only when it passes it on. It holds only the ids of all rows in memory, so a slow caller blocks nobody.
func (l *Ledger) EachMandates(ctx context.Context, f Filter, told func(n int, more bool) error,
	do func(some []MandateRow) error) error {
	pages, n, more, err := l.mandatePages(ctx, f)
	if err == nil && told != nil {
		err = told(n, more)
	}
	for i := 0; i < len(pages) && err == nil; i++ {
		var some []MandateRow
		some, err = list(ctx, l, "SELECT "+mandateColumns+" FROM v_mandates WHERE mandate_id IN (SELECT value FROM json_each(?)) ORDER BY "+byAge, []any{pages[i]}, (*MandateRow).dest)
		if err == nil {
			err = do(some)
		}
	}
	return err
}

// mandatePages returns the ids of the mandates of a filter, newest first, in lists as JSON; how many they are, and
// whether there are more than its limit.
func (l *Ledger) mandatePages(ctx context.Context, f Filter) (pages []string, n int, more bool, err error) {
	limit := f.Limit
	if limit > 0 {
		f.Limit++ // one more tells whether there are more
	}
	query, args := f.apply("SELECT mandate_id FROM v_mandates", "status", byAge)
	var page []string
	full := func() error {
		text, err := json.Marshal(page)
		pages, page = append(pages, string(text)), page[:0]
		return err
	}
	err = each(ctx, l, query, args, func(id *string) []any { return []any{id} }, func(id string) error {
		if more = limit > 0 && n == limit; more {
			return nil
		}
		n++
		if page = append(page, id); len(page) == mandatesAtOnce {
			return full()
		}
		return nil
	})
	if err == nil && len(page) > 0 {
		err = full()
	}
	return pages, n, more, err
}

// History returns the history of one customer's mandates, oldest first.
func (l *Ledger) History(ctx context.Context, billingID string) ([]HistoryRow, error) {
	return list(ctx, l, `SELECT seq, mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause
		FROM v_mandate_history WHERE billing_id = ? ORDER BY seq`, []any{billingID}, func(r *HistoryRow) []any {
		return []any{&r.Seq, &r.MandateID, &r.BillingID, &r.FromStatus, &r.ToStatus, &r.ServiceTime, &r.ObservedAt, &r.Cause}
	})
}

// Attention returns rows of v_attention, oldest first.
func (l *Ledger) Attention(ctx context.Context, f Filter) ([]AttentionRow, error) {
	out := []AttentionRow{}
	err := l.EachAttention(ctx, f, func(r AttentionRow) error { out = append(out, r); return nil })
	return out, err
}

// EachAttention passes on the rows of Attention, one by one, until do returns an error.
func (l *Ledger) EachAttention(ctx context.Context, f Filter, do func(AttentionRow) error) error {
	query, args := l.reportedQuery(f)
	query += " ORDER BY since, connection, source_id"
	if f.Limit > 0 {
		query, args = query+limitTo, append(args, f.Limit)
	}
	return each(ctx, l, query, args, (*reportedRow).dest, func(r reportedRow) error { return do(r.shown()) })
}

// AttentionPage returns rows of Attention after a row, or the first for none.
func (l *Ledger) AttentionPage(ctx context.Context, f Filter, after AttentionRow) ([]AttentionRow, error) {
	told, args := l.reportedQuery(f)
	query := "SELECT * FROM (" + told +
		") t WHERE (since, connection, source_id) > (?4, ?5, ?6) ORDER BY since, connection, source_id" + limitTo
	out := []AttentionRow{}
	err := each(ctx, l, query, append(args, after.Since, after.Connection, after.SourceID, f.Limit), (*reportedRow).dest,
		func(r reportedRow) error {
			out = append(out, r.shown())
			return nil
		})
	return out, err
}

const inboxColumns = "delivery_key, received_at, event_type, billing_id, state, processed_at"

func (r *InboxRow) dest() []any {
	return []any{&r.DeliveryKey, &r.ReceivedAt, &r.EventType, &r.BillingID, &r.State, &r.ProcessedAt}
}

// Inbox returns rows of v_inbox, newest first. Filter.Connection does not apply.
func (l *Ledger) Inbox(ctx context.Context, f Filter) ([]InboxRow, error) {
	f.Connection = ""
	query, args := f.apply("SELECT "+inboxColumns+" FROM v_inbox", "state", "received_at DESC, delivery_key")
	return list(ctx, l, query, args, (*InboxRow).dest)
}

// Funnel is the ledger in numbers.
type Funnel struct {
	Payers    map[string]int `json:"payers"`    // by link state, as payers list lists them
	Left      map[string]int `json:"left"`      // of Payers, by link state: those that left the books or were left out
	Mandates  map[string]int `json:"mandates"`  // by status
	Attention map[string]int `json:"attention"` // by reason: what needs a person now
	PutOff    map[string]int `json:"put_off"`   // by reason: what a person put off until later
	Inbox     map[string]int `json:"inbox"`     // by state
	Closed    map[string]int `json:"closed"`    // what persons have said instead, by ClosedKind
}

// Funnel counts payers, mandates, what needs attention and the inbox.
func (l *Ledger) Funnel(ctx context.Context) (f Funnel, err error) {
	for _, c := range []struct {
		into  *map[string]int
		query string
	}{
		{&f.Mandates, "SELECT status, count(*) FROM mandates GROUP BY status"},
		{&f.Closed, "SELECT kind, count(*) FROM (" + closedWords + ") w GROUP BY kind"},
		{&f.Inbox, "SELECT state, sum(deliveries) FROM inbox_counts GROUP BY state HAVING sum(deliveries) > 0"},
	} {
		if *c.into, err = l.counts(ctx, c.query); err != nil {
			return f, err
		}
	}
	payers, err := l.payerCounts(ctx)
	if err != nil {
		return f, err
	}
	f.Payers, f.Left = map[string]int{}, map[string]int{}
	for _, p := range payers {
		f.Payers[p.State] += p.N
		if p.Left > 0 {
			f.Left[p.State] += p.Left
		}
	}
	reasons, err := l.ReasonCounts(ctx)
	f.Attention, f.PutOff = map[string]int{}, map[string]int{}
	for _, r := range reasons {
		if r.Count > 0 {
			f.Attention[string(r.Reason)] = r.Count
		}
		if r.PutOff > 0 {
			f.PutOff[string(r.Reason)] = r.PutOff
		}
	}
	return f, err
}

func (l *Ledger) counts(ctx context.Context, query string) (map[string]int, error) {
	type row struct {
		name string
		n    int
	}
	rows, err := list(ctx, l, query, nil, func(r *row) []any { return []any{&r.name, &r.n} })
	out := map[string]int{}
	for _, r := range rows {
		out[r.name] = r.n
	}
	return out, err
}

// Silence is what sweeps found since the last webhook came. When it is more than
// one sweep, webhooks that were due did not come (fault F33).
type Silence struct {
	Since   string `json:"since"`   // when the last webhook came; "" for never
	Sweeps  int    `json:"sweeps"`  // that found a change
	Changes int    `json:"changes"` // of mandates that were known before
}

const lastDelivery = "SELECT max(last_at) FROM inbox_counts"

// Silence counts what sweeps found since the last webhook came.
func (l *Ledger) Silence(ctx context.Context) (s Silence, err error) {
	err = l.queryRow(ctx, `SELECT w.last, count(DISTINCT h.cause_id), count(h.seq)
		FROM (SELECT coalesce((`+lastDelivery+`), '') AS last) w
		LEFT JOIN mandate_history h ON h.observed_at > w.last AND h.cause = 'sweep' AND h.from_status <> ''
		GROUP BY w.last`).Scan(&s.Since, &s.Sweeps, &s.Changes)
	if err != nil {
		return s, fmt.Errorf("look for webhooks that did not come: %w", err)
	}
	return s, nil
}

// LastDelivery returns when the last webhook came; the zero time for never.
func (l *Ledger) LastDelivery(ctx context.Context) (time.Time, error) {
	return l.time(ctx, lastDelivery)
}

// NewestRunEnd returns when the connection's newest run ended; the zero time for none and for an
// open run. A scheduler uses it to catch up: the run of a killed process is open until the next run
// begins.
func (l *Ledger) NewestRunEnd(ctx context.Context, connection string) (time.Time, error) {
	return l.time(ctx, "SELECT (SELECT finished_at FROM runs WHERE connection = ? AND kind <> 'plan' ORDER BY run_id DESC LIMIT 1)", connection)
}

// LastFinished returns when the connection last finished a run of its own accord
// or by hand; the zero time for never.
func (l *Ledger) LastFinished(ctx context.Context, connection string) (time.Time, error) {
	return l.time(ctx, "SELECT max(finished_at) FROM runs WHERE connection = ? AND kind <> 'plan'", connection)
}

// ReadRow is the time of a connection's last complete reading.
type ReadRow struct {
	Connection string
	At         time.Time // when that run began
}

// LastReads returns when each connection was last read completely; connections without such a read are left
// out.
func (l *Ledger) LastReads(ctx context.Context) ([]ReadRow, error) {
	type row struct {
		ReadRow
		at sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT connection, max(started_at) FROM runs WHERE read_kind <> '' GROUP BY connection ORDER BY connection", nil,
		func(r *row) []any { return []any{&r.Connection, &r.at} })
	out := make([]ReadRow, len(rows))
	for i, r := range rows {
		out[i] = r.ReadRow
		if out[i].At, err = parseTime(r.at); err != nil {
			return nil, err
		}
	}
	return out, err
}

// LastPass returns when the last complete pass over the service began; the zero
// time for never.
func (l *Ledger) LastPass(ctx context.Context) (time.Time, error) {
	return l.time(ctx, "SELECT max(started_at) FROM passes WHERE finished_at IS NOT NULL")
}

func (l *Ledger) time(ctx context.Context, query string, args ...any) (time.Time, error) {
	var s sql.NullString
	if err := l.queryRow(ctx, query, args...).Scan(&s); err != nil {
		return time.Time{}, fmt.Errorf("read the ledger: %w", err)
	}
	return parseTime(s)
}

// list runs a query and scans every row into a T.
func list[T any](ctx context.Context, l *Ledger, query string, args []any, dest func(*T) []any) ([]T, error) {
	out := []T{}
	err := each(ctx, l, query, args, dest, func(r T) error { out = append(out, r); return nil })
	return out, err
}

// each runs a query and hands every row over as a T.
func each[T any](ctx context.Context, l *Ledger, query string, args []any, dest func(*T) []any,
	do func(T) error) error {
	rows, err := l.query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r T
		if err := rows.Scan(dest(&r)...); err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return l.sound.noteDamage(rows.Err())
}

// AttentionOf returns what needs attention on one payer.
func (l *Ledger) AttentionOf(ctx context.Context, connection, sourceID string) ([]AttentionRow, error) {
	out := []AttentionRow{}
	err := each(ctx, l, reportedRows+" WHERE v.connection = ?2 AND v.source_id = ?3 ORDER BY v.since, v.reason",
		[]any{stamp(l.Now()), connection, sourceID}, (*reportedRow).dest,
		func(r reportedRow) error { out = append(out, r.shown()); return nil })
	return out, err
}
