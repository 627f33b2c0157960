package state

import (
	"context"
	"database/sql"
	"fmt"

	"payersync/connector"
)

// DuplicateCustomers are two customers that look like two of one payer.
type DuplicateCustomers struct {
	BillingID, OtherID string // the lesser id first
	Score              int    // from 0 to 100
	Reasons            string // codes, which match.ReasonsOf puts into words
}

// SaveDuplicates keeps the pairs that a comparison of all customers found, in the place of those
// before. Known pairs keep the time of their first finding. The view open_duplicates computes their
// reports, so these end by themselves.
func (tx *Tx) SaveDuplicates(found []DuplicateCustomers) error {
	known, now := map[[2]string]string{}, stamp(tx.now)
	if err := tx.each("SELECT billing_id, other_id, since FROM duplicate_customers", nil,
		func(scan func(...any) error) error {
			var id [2]string
			var since string
			err := scan(&id[0], &id[1], &since)
			known[id] = since
			return err
		}); err != nil {
		return fmt.Errorf("read the customers that look like one payer: %w", err)
	}
	if err := tx.exec("DELETE FROM duplicate_customers"); err != nil {
		return err
	}
	var rows []any
	for _, d := range found {
		since := now
		if before, is := known[[2]string{d.BillingID, d.OtherID}]; is {
			since = before
		}
		rows = append(rows, d.BillingID, d.OtherID, d.Score, d.Reasons, since)
	}
	return connector.Wrap(tx.insertRows("INSERT INTO duplicate_customers (billing_id, other_id, score, reasons, since) VALUES ", "(?, ?, ?, ?, ?)", rows, ""), "keep the customers that look like one payer")
}

// OpenDuplicate is a second customer of a payer that a person has yet to decide on.
type OpenDuplicate struct {
	RecordID
	BillingID string // the customer that the payer is linked to
	OtherID   string
	Score     int
	Reasons   string
	Detail    string // both, with their mandates
}

// OpenDuplicates returns the reported second customers of one record, the best match first.
func (l *Ledger) OpenDuplicates(ctx context.Context, of RecordID) ([]OpenDuplicate, error) {
	found, err := list(ctx, l,
		"SELECT connection, source_id, billing_id, other_id, score, reasons, detail FROM open_duplicates WHERE connection = ? AND source_id = ? ORDER BY score DESC, other_id",
		[]any{of.Connection, of.SourceID}, func(d *OpenDuplicate) []any {
			return []any{&d.Connection, &d.SourceID, &d.BillingID, &d.OtherID, &d.Score, &d.Reasons, &d.Detail}
		})
	return found, connector.Wrap(err, "look for second customers of record %s", of.SourceID)
}

// rejectedSeconds are the decisions w that an apparent second customer of the linked record ?1, ?2
// is another payer's.
const rejectedSeconds = ` FROM words w JOIN payers p ON p.connection = w.connection AND p.source_id = w.source_id
	JOIN duplicate_customers d ON d.billing_id = w.billing_id AND d.other_id = p.billing_id OR d.other_id = w.billing_id AND d.billing_id = p.billing_id
	WHERE w.connection = ?1 AND w.source_id = ?2 AND w.word = 'reject' AND w.reason = '' `

// RejectedSeconds returns a linked record's apparent second customers, assigned to other payers by a person.
// The person may take that back.
func (l *Ledger) RejectedSeconds(ctx context.Context, of RecordID) ([]string, error) {
	return l.ids(ctx, "SELECT w.billing_id"+rejectedSeconds+"ORDER BY w.billing_id", of.Connection, of.SourceID)
}

// CountDuplicates returns the number of records with a reported second customer.
func (l *Ledger) CountDuplicates(ctx context.Context) (n int, err error) {
	err = l.queryRow(ctx, "SELECT count(*) FROM (SELECT DISTINCT connection, source_id FROM open_duplicates) o").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count second customers of payers: %w", err)
	}
	return n, nil
}

// toldOfRecords are the reported reasons of records, including computed ones.
const toldOfRecords = `(SELECT connection, source_id, reason, since FROM attention
	UNION ALL SELECT connection, source_id, 'duplicate_customer', since FROM open_duplicates)`

// firstTold is the reason of record or payer %s in lists: the first of its reported reasons.
const firstTold = `coalesce((SELECT a.reason FROM attention a WHERE a.connection = %[1]s.connection AND a.source_id = %[1]s.source_id
	ORDER BY CASE a.topic WHEN 'link' THEN 0 WHEN 'record' THEN 1 ELSE 2 END LIMIT 1),
	CASE WHEN (%[1]s.connection, %[1]s.source_id) IN (SELECT connection, source_id FROM open_duplicates) THEN 'duplicate_customer' END)`

// doubled returns the records with a reported second customer, and since when: of one record, or of
// all for none.
func (l *Ledger) doubled(ctx context.Context, of ...RecordID) (map[RecordID]Reported, error) {
	type row struct {
		RecordID
		since sql.NullString
	}
	query, args := "SELECT connection, source_id, min(since) FROM open_duplicates", []any{}
	for _, id := range of {
		query, args = query+" WHERE connection = ? AND source_id = ?", append(args, id.Connection, id.SourceID)
	}
	out := map[RecordID]Reported{}
	err := each(ctx, l, query+" GROUP BY connection, source_id", args,
		func(r *row) []any { return []any{&r.Connection, &r.SourceID, &r.since} }, func(r row) error {
			since, err := parseTime(r.since)
			out[r.RecordID] = Reported{Reason: connector.ReasonDuplicateCustomer, Since: since}
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("look for second customers of payers: %w", err)
	}
	return out, nil
}
