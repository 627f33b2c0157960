package state

import (
	"context"
	"encoding/json"
	"time"

	"payersync/connector"
)

// Refusals are the requests to the webhook endpoint refused on one day for one reason.
type Refusals struct {
	Day    string `json:"day"`    // in UTC, as 2006-01-02
	Reason string `json:"reason"` // a word of ours, from a closed set
	Count  int    `json:"requests"`
	First  string `json:"first_at"`
	Last   string `json:"last_at"`
}

// RefusalsKept is for how long it is kept how many requests were refused.
const RefusalsKept = 90 * 24 * time.Hour

const oldRefusals = `FROM webhook_refusals w WHERE w.last_at <= ?1`

// NewRefusals returns requests that were refused for a reason between two moments of one day.
func NewRefusals(reason string, n int, first, last time.Time) Refusals {
	return Refusals{Day: first.UTC().Format(time.DateOnly), Reason: reason, Count: n, First: first.UTC().Format(layout),
		Last: last.UTC().Format(layout)}
}

// AddRefusals adds refused requests to the stored counts; several processes may do so.
func (tx *Tx) AddRefusals(more []Refusals) error {
	rows, err := json.Marshal(more)
	if err != nil {
		return err
	}
	return connector.Wrap(tx.exec(`INSERT INTO webhook_refusals (day, reason, requests, first_at, last_at)
		SELECT value ->> 'day', value ->> 'reason', CAST(value ->> 'requests' AS BIGINT), value ->> 'first_at', value ->> 'last_at' FROM json_each(?) WHERE true
		ON CONFLICT (day, reason) DO UPDATE SET requests = webhook_refusals.requests + excluded.requests,
		  first_at = min(webhook_refusals.first_at, excluded.first_at), last_at = max(webhook_refusals.last_at, excluded.last_at)`,
		string(rows)), "note how many requests were refused")
}

// Refusals returns the refused requests since a time, by day and reason: the newest day first, and
// each day's most frequent reason first.
func (l *Ledger) Refusals(ctx context.Context, since time.Time) ([]Refusals, error) {
	return list(ctx, l, "SELECT day, reason, requests, first_at, last_at FROM webhook_refusals WHERE last_at >= ? ORDER BY day DESC, requests DESC, reason",
		[]any{stamp(since)}, func(r *Refusals) []any { return []any{&r.Day, &r.Reason, &r.Count, &r.First, &r.Last} })
}

func (tx *Tx) eraseRefusals(cut string) (int64, error) {
	return tx.count("DELETE FROM webhook_refusals WHERE (day, reason) IN (SELECT w.day, w.reason "+oldRefusals+" LIMIT ?2 + 0)", cut, retainBatch)
}
