package state

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// loadLetterKey reads the key for data that outlives the sealing key. It is derived from that key, so a
// ledger restored to before the first letter has it too. It is stored, sealed, once the ledger gets another
// key.
func (l *Ledger) loadLetterKey(ctx context.Context, db executor) error {
	if l.seal.away != nil {
		return nil
	}
	var box []byte
	if err := db.QueryRowContext(ctx, "SELECT letter_key FROM ledger").Scan(&box); err != nil {
		return fmt.Errorf("read the ledger's key of letters: %w", err)
	}
	if box == nil {
		l.letterKey = l.seal.letters
		return nil
	}
	var err error
	if l.letterKey, err = l.seal.open(box, placeOfLetterKey); err != nil {
		return fmt.Errorf("read the ledger's key of letters: %w", err)
	}
	return nil
}

var placeOfLetterKey = place("ledger", "letter_key")

// keepLetterKey stores the key of letters, sealed with the key it was derived from, so that it
// stays the same with the next one.
func (tx *Tx) keepLetterKey() error {
	return tx.exec("UPDATE ledger SET letter_key = ? WHERE letter_key IS NULL",
		tx.l.seal.box(tx.l.letterKey, placeOfLetterKey))
}

// LetterHash returns a keyed hash that never changes in the ledger's life, even after a restore or
// with another sealing key. kind separates hashes of different things. It is "" for a ledger
// without its key.
func (l *Ledger) LetterHash(kind string, texts ...string) string {
	if l.Sealed() {
		return ""
	}
	m := hmac.New(sha256.New, l.letterKey)
	for _, text := range append([]string{kind}, texts...) {
		fmt.Fprintf(m, "%d ", len(text))
		m.Write([]byte(text))
	}
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// LetterSteps is how many steps there are at most: an invitation and four reminders.
const LetterSteps = 5

// LetterID returns the id of a step's letter about a mandate, everywhere and for ever: the same letter is the
// same message.
func (l *Ledger) LetterID(mandate string, step int) string {
	return l.LetterHash("letter", mandate, strconv.Itoa(step))
}

// RecipientHash returns the keyed hash of an e-mail address, equal for all capitalisations.
func (l *Ledger) RecipientHash(address string) string {
	return l.LetterHash("recipient", strings.ToLower(strings.TrimSpace(address)))
}
