package state

import (
	"fmt"
	"strings"
	"time"
)

// Letter is a letter to a payer about a mandate and a step of its reminders.
type Letter struct {
	MandateID string
	Step      int    // 0 is the invitation
	Kind      string // which template
	RecordID
	Recipient string    // keyed hash of the address
	Setup     string    // hash of what a person approves the first batch of
	Language  string    // BCP 47
	MessageID string    // keyed hash of mandate and step
	Body      []byte    // the frozen bytes with their recipient; nil when they are kept no longer
	LookedAt  time.Time // when the customer was read before it
	FrozenAt  time.Time
}

// FreezeLetter keeps a letter before its first byte leaves. That one was frozen for the step
// already is an error.
func (tx *Tx) FreezeLetter(l Letter) error {
	err := tx.exec(`INSERT INTO letters (mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, digest, body, looked_at, frozen_at, state)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'frozen')`,
		l.MandateID, l.Step, l.Kind, l.Connection, l.SourceID, l.Recipient, l.Setup, l.Language, l.MessageID, digestOf(l.Body),
		tx.l.seal.box(l.Body, place("letters", "body", l.MessageID)), stamp(l.LookedAt), stamp(l.FrozenAt))
	if err != nil {
		return fmt.Errorf("freeze the letter of step %d for mandate %s: %w", l.Step, l.MandateID, err)
	}
	return nil
}

// RecipientHash returns the keyed hash by which letters and stops know an e-mail address,
// whatever its case and the spaces around it; "" for a ledger without its key.
func (l *Ledger) RecipientHash(address string) string {
	if l.Sealed() {
		return ""
	}
	return l.seal.digest([]byte(strings.ToLower(strings.TrimSpace(address))), place("letters", "recipient"))
}
