package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// Read is the content of a payer's customer in the last read.
type Read struct {
	At      time.Time               `json:"at"`                // when the newest read of it began
	Differs []connector.FieldChange `json:"differs,omitempty"` // what it holds (to) otherwise than was sent (from)
}

func placeOfRead(p Payer) []byte {
	return place("payers", "read_values", p.Connection, p.SourceID)
}

// SetRead stores the values of a payer's customer that differ from the sent ones in a read; none for an equal
// customer. A read without changes writes nothing.
func (tx *Tx) SetRead(p Payer, differs []connector.FieldChange) error {
	var box []byte
	digest := ""
	if len(differs) > 0 {
		plain, err := json.Marshal(differs)
		if err != nil {
			return err
		}
		at := placeOfRead(p)
		if digest = tx.l.seal.digest(plain, at); digest != p.ReadDigest {
			box = tx.l.seal.box(plain, at)
		}
	}
	if digest == p.ReadDigest {
		return nil
	}
	return connector.Wrap(tx.exec("UPDATE payers SET read_values = ?, read_digest = ? WHERE connection = ? AND source_id = ? AND NOT "+isForgotten,
		box, digest, p.Connection, p.SourceID), "keep what customer %s holds", p.BillingID)
}

// HeldValues are what a read or a list showed of our values on a payer's customer.
type HeldValues struct {
	Applied bool                    // it shows the applied values
	Instead bool                    // it shows the values of another update, which may have arrived late
	Values  *connector.Customer     // those of the two that it shows, with the service's ids of the contacts
	Differs []connector.FieldChange // what it holds otherwise than was sent
}

// lastRead is the expression for when customer c of the index was last read or listed.
var lastRead = `CASE c.digest WHEN '' THEN c.listed_at ELSE max(c.listed_at, coalesce((SELECT max(q.started_at) FROM passes q WHERE q.` +
	strings.ReplaceAll(proof, "AND ", "AND q.") + ` AND q.pass_id > c.known_pass), '')) END`

// LastRead returns the content of a payer's customer in the last read; nil before the first.
func (l *Ledger) LastRead(ctx context.Context, p Payer) (*Read, error) {
	if !p.Seen || p.Applied == nil {
		return nil, nil
	}
	var at sql.NullString
	var box []byte
	err := l.queryRow(ctx, "SELECT "+lastRead+", p.read_values FROM payers p JOIN remote_customers c ON c.billing_id = p.billing_id WHERE p.connection = ? AND p.source_id = ?",
		p.Connection, p.SourceID).Scan(&at, &box)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what customer %s holds: %w", p.BillingID, err)
	}
	r := new(Read)
	var wrong error
	r.At, wrong = parseTime(at)
	return r, errors.Join(wrong, l.openJSON(box, placeOfRead(p), &r.Differs))
}
