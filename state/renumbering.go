package state

import (
	"context"
	"fmt"
)

// Renumbering is a record on hold because it may be a payer of ours under a new number.
type Renumbering struct {
	New, Old  RecordID
	BillingID string // the customer of the old record; "" while none is known
}

// renumberings joins record t, on hold as renumbered, with each departed payer p that it may be. A person has
// not told the two apart.
var (
	renumberings = ` attention t CROSS JOIN payers n ON n.connection = t.connection AND n.source_id = t.source_id` +
		sharedBy("n", "p") + ofRenumbering

	// renumberingsOf is renumberings for one departed payer, from whose traits the search begins.
	renumberingsOf = ` payers p` + sharedBy("p", "n") +
		` CROSS JOIN attention t ON t.connection = n.connection AND t.source_id = n.source_id` + ofRenumbering
)

const ofRenumbering = `
	JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
	WHERE t.reason = 'renumbered' AND ` + hasLeft + ` AND ` + mayHave + `
	  AND NOT (p.connection = t.connection AND EXISTS (SELECT 1 FROM apart a WHERE a.connection = t.connection AND a.source_id = min(t.source_id, p.source_id) AND a.other_id = max(t.source_id, p.source_id)))
	  AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = t.connection AND w.source_id = t.source_id AND w.billing_id = p.billing_id AND w.word = 'reject')`

// sharedBy joins a payer with the other payers that share its name and another trait.
func sharedBy(payer, other string) string {
	return ` CROSS JOIN json_each(nullif(` + payer + `.likeness, '')) j CROSS JOIN likenesses o ON o.hash = ` + traitHash +
		` AND o.hash & 7 >= 2 AND o.payer_id <> ` + payer + `.payer_id
	CROSS JOIN payers ` + other + ` ON ` + other + `.payer_id = o.payer_id`
}

// hasSuccessor is the condition that v reports the mandate of a departed payer with a possible new
// number. A person then decides on both records at once.
var hasSuccessor = `(v.reason = 'left_with_mandate' AND EXISTS (SELECT 1 FROM` + renumberingsOf +
	` AND p.connection = v.connection AND p.source_id = v.source_id))`

// Renumberings returns the first records that may be payers of ours under new numbers, in order.
func (l *Ledger) Renumberings(ctx context.Context, limit int) ([]Renumbering, error) {
	return l.renumberings(ctx, renumberings, limit)
}

// mostRenumberings is how many a record may be a half of for people to be shown them.
const mostRenumberings = 20

// RenumberingsOf returns those of which a record is either half. It is on hold as renumbered, or it was
// removed.
func (l *Ledger) RenumberingsOf(ctx context.Context, id RecordID) ([]Renumbering, error) {
	asNew, err := l.renumberings(ctx, renumberings+" AND t.connection = ? AND t.source_id = ?", id.Connection, id.SourceID,
		mostRenumberings)
	if err != nil {
		return nil, err
	}
	asOld, err := l.renumberings(ctx, renumberingsOf+" AND p.connection = ? AND p.source_id = ?", id.Connection,
		id.SourceID, mostRenumberings)
	return append(asNew, asOld...), err
}

func (l *Ledger) renumberings(ctx context.Context, from string, args ...any) ([]Renumbering, error) {
	found, err := list(ctx, l,
		`SELECT DISTINCT t.connection, t.source_id, p.connection, p.source_id, coalesce(p.billing_id, '') FROM`+from+
			" ORDER BY t.connection, t.source_id, p.connection, p.source_id"+limitTo, args, func(r *Renumbering) []any {
			return []any{&r.New.Connection, &r.New.SourceID, &r.Old.Connection, &r.Old.SourceID, &r.BillingID}
		})
	if err != nil {
		return nil, fmt.Errorf("look for payers under new numbers: %w", err)
	}
	return found, nil
}

// succeeded returns the departed records that may be there under new numbers, of one record or of
// all.
func (l *Ledger) succeeded(ctx context.Context, of ...RecordID) (map[RecordID]bool, error) {
	const departed = "SELECT DISTINCT p.connection, p.source_id FROM"
	query, args := departed+renumberings, []any{}
	for _, id := range of {
		query, args = departed+renumberingsOf+" AND p.connection = ? AND p.source_id = ?",
			append(args, id.Connection, id.SourceID)
	}
	out := map[RecordID]bool{}
	err := each(ctx, l, query, args, func(id *RecordID) []any { return []any{&id.Connection, &id.SourceID} },
		func(id RecordID) error {
			out[id] = true
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("look for payers under new numbers: %w", err)
	}
	return out, nil
}
