package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	box, digest, err := tx.l.boxRead(p, differs)
	if err != nil || digest == p.ReadDigest {
		return err
	}
	return tx.exec("UPDATE payers SET read_values = ?, read_digest = ? WHERE connection = ? AND source_id = ? AND NOT "+isForgotten, box, digest, p.Connection, p.SourceID)
}

// boxRead seals the values that differ in a read, if they are not known. The digest is "" for none.
func (l *Ledger) boxRead(p Payer, differs []connector.FieldChange) (box []byte, digest string, err error) {
	if len(differs) == 0 {
		return nil, "", nil
	}
	plain, err := json.Marshal(differs)
	if digest = l.seal.digest(plain, placeOfRead(p)); digest != p.ReadDigest {
		box = l.seal.box(plain, placeOfRead(p))
	}
	return box, digest, err
}

// SubjectValues are what a read or a list showed of our values on a payer's customer.
type SubjectValues struct {
	Applied bool                    // it shows the applied values
	Instead bool                    // it shows the values of another update, which may have arrived late
	Values  *connector.Customer     // those of the two that it shows, with the service's ids of the contacts
	Differs []connector.FieldChange // what it holds otherwise than was sent
}

// saveHeld stores what an observation shows of our values on a customer. When it is news, the next plan looks at the
// record. The ids of contacts are no news, and a list shows none.
func (tx *Tx) saveHeld(k *Known, h SubjectValues) error {
	p := k.Payer
	box, digest, err := tx.l.boxRead(p, h.Differs)
	if err != nil {
		return err
	}
	hash, shows, at := p.AppliedHash, "", any(nil)
	var applied []byte
	if h.Instead {
		hash = h.Values.Hash()
	}
	if h.Applied || h.Instead {
		shows = hash
	}
	if hash != p.AppliedHash || h.Applied && k.List == nil && !slices.Equal(p.Applied.People, h.Values.People) {
		if applied, err = tx.l.boxApplied(p, *h.Values); err != nil {
			return err
		}
	}
	if hash != p.AppliedHash {
		at = stamp(tx.now)
	}
	looked := hash != p.AppliedHash || shows != p.Shows || shows != "" && !k.Confirmed
	if !looked && applied == nil && digest == p.ReadDigest {
		return nil
	}
	if err := tx.exec(`UPDATE payers SET applied = coalesce(?3, applied), applied_hash = ?4, shows = ?5,
		  read_values = CASE WHEN read_digest = ?6 THEN read_values ELSE ?7 END, read_digest = ?6, updated_at = coalesce(?9, updated_at),
		  shown_at = CASE WHEN ?8 = 1 THEN (SELECT ticket FROM ledger) ELSE shown_at END,
		  confirmed_at = CASE WHEN ?8 = 1 AND ?5 <> '' THEN (SELECT ticket FROM ledger) ELSE confirmed_at END
		WHERE connection = ?1 AND source_id = ?2 AND NOT `+isForgotten, p.Connection, p.SourceID, applied, hash, shows,
		digest, box, looked, at); err != nil || !looked {
		return err
	}
	if tx.Touch(p); hash == p.AppliedHash && shows == p.Shows {
		return nil
	}
	return tx.lookAgain(p)
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
