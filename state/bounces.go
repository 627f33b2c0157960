package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// LetterOfMessage returns the sent letter with a Message-ID, without its bytes; nil if none is
// ours, or for a forgotten payer.
func (l *Ledger) LetterOfMessage(ctx context.Context, messageID string) (out *Letter, err error) {
	err = l.eachLetter(ctx, "WHERE message_id = ? AND recipient <> 'forgotten' AND sending_at IS NOT NULL",
		[]any{messageID}, func(t Letter) error { out = &t; return nil })
	return out, err
}

// RecipientOf returns the keyed hash of a payer's letter address; "" if unknown.
func (l *Ledger) RecipientOf(ctx context.Context, id RecordID) (recipient string, err error) {
	err = l.queryRow(ctx, "SELECT recipient FROM letter_addresses WHERE connection = ? AND source_id = ?", id.Connection,
		id.SourceID).Scan(&recipient)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look where record %s is written to: %w", id.SourceID, err)
	}
	return recipient, nil
}

// PayersAt returns how many payers are written to at an address, by its keyed hash.
func (l *Ledger) PayersAt(ctx context.Context, recipient string) (n int, err error) {
	if err = l.queryRow(ctx, "SELECT count(*) FROM letter_addresses WHERE recipient = ?", recipient).Scan(&n); err != nil {
		return 0, fmt.Errorf("look who is written to at an address: %w", err)
	}
	return n, nil
}

// Revive clears the bounce of an address, by its keyed hash, and returns whether there was one.
func (tx *Tx) Revive(recipient string) (bool, error) {
	n, err := tx.count("UPDATE letter_stops SET ended_at = ? WHERE scope = 'address' AND recipient = ? AND why = 'bounced' AND ended_at IS NULL", stamp(tx.now), recipient)
	if err != nil {
		return false, fmt.Errorf("take back that letters come back: %w", err)
	}
	return n > 0, nil
}
