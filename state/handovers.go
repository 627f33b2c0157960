package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"payersync/connector"
)

// NoteHandover notes that somebody else sent the link of a mandate on a day. It reports false
// when that was noted before.
func (tx *Tx) NoteHandover(mandateID string, day time.Time, actor string) (news bool, err error) {
	n, err := tx.count("INSERT INTO handovers (mandate_id, sent_on, noted_at, actor) VALUES (?, ?, ?, ?) ON CONFLICT (mandate_id, sent_on) DO NOTHING",
		mandateID, day.Format(time.DateOnly), stamp(tx.now), actor)
	if err != nil {
		return false, fmt.Errorf("note that the link of mandate %s was sent: %w", mandateID, err)
	}
	return n > 0, nil
}

// Signing is how a mandate came from its link to a signature, as far as it has.
type Signing struct {
	MandateID  string
	Connection string    // "" where no payer has it
	Language   string    // of the first letter, else of the payer's label; "" where none is known
	Created    time.Time // when it was first observed
	Signed     time.Time // when it was first observed to be signed; zero for not yet
	Sent       time.Time // when its link was first sent; zero where nobody did
	Times      int       // how often it was sent before it was signed
}

// EachSigning hands over every mandate that was first observed waiting for its signature, of
// one connection or of all for "".
func (l *Ledger) EachSigning(ctx context.Context, connection string, do func(Signing) error) error {
	type row struct {
		Signing
		sourceID              string
		created, signed, sent sql.NullString
		box                   []byte
	}
	return each(ctx, l, `WITH moves AS (SELECT mandate_id, min(seq) AS first, min(CASE WHEN to_status = 'PENDING' OR to_status = 'ACTIVE' THEN observed_at END) AS signed
			FROM mandate_history GROUP BY mandate_id),
		sendings AS (SELECT mandate_id, ended_at AS at FROM letters WHERE state = 'sent' UNION ALL SELECT mandate_id, sent_on || 'T00:00:00.000Z' FROM handovers),
		sent AS (SELECT s.mandate_id, min(s.at) AS first, count(CASE WHEN w.signed IS NULL OR s.at <= w.signed THEN 1 END) AS times FROM sendings s JOIN moves w ON w.mandate_id = s.mandate_id GROUP BY s.mandate_id)
		SELECT w.mandate_id, coalesce(p.connection, ''), coalesce(p.source_id, ''), h.observed_at, w.signed, t.first, coalesce(t.times, 0),
		  coalesce((SELECT e.language FROM letters e WHERE e.mandate_id = w.mandate_id AND e.state = 'sent' ORDER BY e.step LIMIT 1), ''),
		  (SELECT b.label FROM labels b WHERE b.connection = p.connection AND b.source_id = p.source_id)
		FROM moves w JOIN mandate_history h ON h.seq = w.first LEFT JOIN sent t ON t.mandate_id = w.mandate_id LEFT JOIN payers p ON p.billing_id = h.billing_id
		WHERE h.to_status = 'CREATED' AND (p.connection = ?1 OR ?1 = '')`, []any{connection}, func(r *row) []any {
		return []any{&r.MandateID, &r.Connection, &r.sourceID, &r.created, &r.signed, &r.sent, &r.Times, &r.Language, &r.box}
	}, func(r row) error {
		for from, to := range map[*sql.NullString]*time.Time{&r.created: &r.Created, &r.signed: &r.Signed, &r.sent: &r.Sent} {
			var err error
			if *to, err = parseTime(*from); err != nil {
				return err
			}
		}
		if r.Language == "" {
			label, err := l.openLabel(RecordID{r.Connection, r.sourceID}, r.box)
			if err != nil {
				return err
			}
			r.Language = languageOf(label)
		}
		return do(r.Signing)
	})
}

func languageOf(label *connector.Label) string {
	if label == nil {
		return ""
	}
	return label.Language
}

// Replacing returns the mandates that payers have now in the place of earlier ones.
func (l *Ledger) Replacing(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	err := each(ctx, l, `SELECT p.mandate_id FROM payers p
		WHERE p.mandate_id IS NOT NULL AND EXISTS (SELECT 1 FROM mandates o WHERE o.billing_id = p.billing_id AND o.mandate_id <> p.mandate_id)`, nil,
		func(id *string) []any { return []any{id} }, func(id string) error { out[id] = true; return nil })
	return out, err
}
