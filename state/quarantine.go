package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// QuarantinedDelivery is a delivery that was not understood, with its body; an erased one has none.
type QuarantinedDelivery struct {
	ID         int64
	Key        string
	Type       string // as it was read when it came; "" when none was
	TypeHeader string // as Delivery says
	ReceivedAt time.Time
	Body       []byte
}

// QuarantinedAfter returns up to limit quarantined deliveries after an id. Callers read them in
// parts, so nothing stays open in between.
func (l *Ledger) QuarantinedAfter(ctx context.Context, id int64, limit int) ([]QuarantinedDelivery, error) {
	type row struct {
		QuarantinedDelivery
		at  string
		box []byte
	}
	rows, err := list(ctx, l,
		"SELECT inbox_id, delivery_key, event_type, type_header, received_at, body FROM inbox WHERE state = 'quarantined' AND inbox_id > ? ORDER BY inbox_id"+limitTo,
		[]any{id, limit}, func(r *row) []any { return []any{&r.ID, &r.Key, &r.Type, &r.TypeHeader, &r.at, &r.box} })
	if err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", err)
	}
	out := make([]QuarantinedDelivery, len(rows))
	for i, r := range rows {
		out[i] = r.QuarantinedDelivery
		// one that cannot be read hides no delivery
		out[i].ReceivedAt, _ = parseTime(sql.NullString{String: r.at, Valid: true})
		if len(r.box) > 0 {
			if out[i].Body, err = l.seal.open(r.box, place("inbox", "body", r.Key)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// KnownIDs are the ids of all customers and mandates that the ledger knows.
type KnownIDs struct{ Customers, Mandates *connector.IDs }

// KnownIDs returns the ids of a delivery's subject.
func (l *Ledger) KnownIDs(ctx context.Context) (k KnownIDs, err error) {
	read := func(query string) (*connector.IDs, error) {
		out := connector.NewIDs()
		return out, each(ctx, l, query, nil, func(id *string) []any { return []any{id} },
			func(id string) error { out.Add(id); return nil })
	}
	var errs [2]error
	k.Customers, errs[0] = read("SELECT billing_id FROM payers WHERE billing_id <> '' UNION ALL SELECT billing_id FROM remote_customers WHERE billing_id <> ''")
	k.Mandates, errs[1] = read("SELECT mandate_id FROM mandates WHERE mandate_id <> ''")
	return k, errors.Join(errs[:]...)
}

// EventType is a type of deliveries, as it was read, and how many came of it. Those that were
// not understood are counted apart, too.
type EventType struct {
	Type            string // "" where none was read; then only what was not understood counts
	Count           int
	First, Last     time.Time
	Quarantined     int       // and not put off by a person
	QuarantinedAt   time.Time // when the first of them came; zero for none
	QuarantinedLast time.Time
}

// maxEventTypes bounds how many types are looked at: they may be values that never repeat.
const maxEventTypes = 1000

// EventTypes returns the types of all deliveries, the one that came first first.
func (l *Ledger) EventTypes(ctx context.Context) ([]EventType, error) {
	type row struct {
		EventType
		times [4]sql.NullString
	}
	rows, err := list(ctx, l, `
		WITH t AS (SELECT event_type AS name, sum(deliveries) AS n, min(first_at) AS first, max(last_at) AS last FROM inbox_counts
		    GROUP BY event_type HAVING sum(deliveries) > 0 ORDER BY 1 LIMIT ? + 0),
		  q AS (SELECT event_type, count(*) AS n, min(received_at) AS first, max(received_at) AS last FROM inbox i WHERE state = 'quarantined'
		    AND NOT EXISTS (SELECT 1 FROM put_off o WHERE o.connection = '' AND o.source_id = i.delivery_key AND o.reason = 'event_not_understood' AND o.at >= i.received_at AND o.until > ?) GROUP BY event_type)
		SELECT t.name, CASE t.name WHEN '' THEN coalesce(q.n, 0) ELSE t.n END, t.first, t.last, coalesce(q.n, 0), q.first, q.last
		FROM t LEFT JOIN q ON q.event_type = t.name ORDER BY 3, 1`, []any{maxEventTypes, stamp(l.Now())}, func(r *row) []any {
		return []any{&r.Type, &r.Count, &r.times[0], &r.times[1], &r.Quarantined, &r.times[2], &r.times[3]}
	})
	if err != nil {
		return nil, fmt.Errorf("read the types of deliveries: %w", err)
	}
	out := make([]EventType, len(rows))
	for i, r := range rows {
		out[i] = r.EventType
		for j, into := range []*time.Time{&out[i].First, &out[i].Last, &out[i].QuarantinedAt, &out[i].QuarantinedLast} {
			*into, _ = parseTime(r.times[j]) // one that cannot be read hides no delivery
		}
	}
	return out, nil
}

// streakSeen limits the search for the last understood delivery.
const streakSeen = 500

// NotUnderstoodSince returns how many of the newest deliveries of counted types were not understood
// in a row, and when the first came. Ignored deliveries do not count.
func (l *Ledger) NotUnderstoodSince(ctx context.Context, counts func(eventType string) bool) (n int, since time.Time,
	err error) {
	type row struct{ state, eventType, at string }
	rows, err := list(ctx, l, "SELECT state, event_type, received_at FROM inbox ORDER BY inbox_id DESC"+limitTo,
		[]any{streakSeen},
		func(r *row) []any { return []any{&r.state, &r.eventType, &r.at} })
	if err != nil {
		return 0, since, fmt.Errorf("read the newest deliveries: %w", err)
	}
	for _, r := range rows {
		switch {
		case r.state == string(connector.InboxIgnored) || !counts(r.eventType):
		case r.state != string(connector.InboxQuarantined):
			return n, since, nil
		default:
			n++
			since, _ = parseTime(sql.NullString{String: r.at, Valid: true}) // one that cannot be read hides nothing
		}
	}
	return n, since, nil
}
