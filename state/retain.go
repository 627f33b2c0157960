package state

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"payersync/connector"
)

// Retention says how long what is personal and decides nothing any more is kept. Ids, statuses,
// times and counts stay, and so do the history of mandates and the audit log. The sealed field
// changes of a plan are kept as long as the audit log with its approval; no retention erases part
// of either. Only forgetting a payer erases its field changes.
type Retention struct {
	Bodies  time.Duration // of webhooks that are done with
	Details time.Duration // of settled changes: the customer they were to write, the request, and the customer before
	Letters time.Duration // of letters to payers: their text; 0 for LettersKept
}

// LettersKept is the retention time of the text of letters. LettersKnown is the retention time of
// their sending and approval, once nothing depends on it.
const (
	LettersKept  = 90 * 24 * time.Hour
	LettersKnown = 730 * 24 * time.Hour
)

// ReasonsKept is for how long it is kept why mandates ended: thirteen months, as long as a payer
// may ask for a direct debit back.
const ReasonsKept = 396 * 24 * time.Hour

// Retained counts the deleted data, or the data to delete.
type Retained struct {
	Bodies  int `json:"webhook_bodies"`
	Details int `json:"change_details"`
	Letters int `json:"letter_texts"`
	Sent    int `json:"letters"`
	Reasons int `json:"failure_reasons"`

	Approved int `json:"letter_approvals"` // letters that a person let go, each by itself
	Told     int `json:"letters_told"`     // letters of which the journal alone told
	Refusals int `json:"webhook_refusals"` // days and reasons by which refused requests were counted
}

// retainBatch is how many rows one commit changes: no other write waits long.
const retainBatch = 100

// A webhook without a meaning or a known customer keeps its body until it is closed, and for the
// retention time after that.
const oldBodies = `FROM inbox i INDEXED BY inbox_bodies WHERE i.body <> x'' AND (i.state = 'reflected' OR i.state = 'superseded' OR i.state = 'ignored')
	AND coalesce(i.processed_at, i.received_at) <= ?1`

// A settled change is no longer read once a newer one of its payer's lane has that age. The newest before
// that holds the written values, in case a later one is undone or refused. These are always kept: the values
// of an open request, of a create until a read has shown its customer, of a change to be taken back for a
// person, and of a customer's newest update.
const oldDetails = `FROM changes c INDEXED BY changes_details WHERE (c.wanted IS NOT NULL OR c.body IS NOT NULL OR c.pre_image IS NOT NULL)
	AND (c.state = 'done' OR c.state = 'failed' OR c.state = 'held' OR c.state = 'void') AND c.updated_at <= ?1
	AND EXISTS (SELECT 1 FROM changes n WHERE n.connection = c.connection AND n.source_id = c.source_id AND n.lane = c.lane AND n.change_id > c.change_id
	  AND (n.state = 'done' OR n.state = 'failed' OR n.state = 'held') AND n.body IS NOT NULL AND n.unlinks = 0 AND n.updated_at <= ?1)
	AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.change_id = c.change_id AND (a.ended = '' OR a.billing_id <> '' AND a.attempt_id = (
	  SELECT max(o.attempt_id) FROM attempts o WHERE o.billing_id = a.billing_id AND (o.action = 'adopt' OR o.action = 'update'))))
	AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.connection = c.connection AND p.source_id = c.source_id
	  AND (p.unlink_at > 0 OR p.applied IS NULL AND c.action = 'create' AND c.state = 'done'))`

// The text of a letter that is still to be sent stays.
const oldLetters = `FROM letters t WHERE t.body IS NOT NULL AND t.ended_at <= ?1 AND t.state <> 'frozen' AND t.state <> 'sending'`

// The fact of a sent letter stays as long as its mandate is its payer's, because the next letter
// depends on it.
const oldSent = `FROM letters t WHERE t.ended_at <= ?1 AND t.body IS NULL AND t.state <> 'frozen' AND t.state <> 'sending' AND NOT EXISTS (
	SELECT 1 FROM payers p WHERE p.connection = t.connection AND p.source_id = t.source_id AND p.mandate_id = t.mandate_id)`

const oldReasons = `FROM failure_reasons f WHERE f.kept_at <= ?1`

// The approval of a setup's letters stays; the letters shown with it go.
const oldApproved = `FROM letter_approved a JOIN letter_approvals b ON b.approval_id = a.approval_id WHERE b.at <= ?1`

const oldTold = `FROM letter_journal j WHERE j.at <= ?1`

// part is something that is kept for a time only.
type part struct {
	n     *int
	rows  string
	erase func(*Tx, string) (int64, error)
	older time.Duration
}

func (r Retention) parts(out *Retained) []part {
	return []part{
		{&out.Bodies, oldBodies, (*Tx).eraseBodies, r.Bodies}, {&out.Details, oldDetails, (*Tx).eraseDetails, r.Details},
		{&out.Letters, oldLetters, (*Tx).eraseLetters, cmp.Or(r.Letters, LettersKept)},
		{&out.Sent, oldSent, (*Tx).eraseSent, LettersKnown},
		{&out.Reasons, oldReasons, (*Tx).eraseReasons, ReasonsKept},
		{&out.Approved, oldApproved, (*Tx).eraseApproved, LettersKnown}, {&out.Told, oldTold, (*Tx).eraseTold, LettersKnown},
		{&out.Refusals, oldRefusals, (*Tx).eraseRefusals, RefusalsKept},
	}
}

// Retain deletes older data. It writes a little at a time, and stops between two writes when ctx ends; its
// work until then is reported.
func (l *Ledger) Retain(ctx context.Context, r Retention) (out Retained, err error) {
	for _, part := range r.parts(&out) {
		cut := l.cutoff(part.older)
		for {
			var n int64
			if err := l.Do(ctx, func(tx *Tx) (err error) {
				n, err = part.erase(tx, cut)
				return err
			}); err != nil {
				return out, fmt.Errorf("keep no longer what is old: %w", err)
			}
			if *part.n += int(n); n < retainBatch {
				break
			}
		}
	}
	return out, nil
}

// WouldRetain returns the data Retain would delete.
func (l *Ledger) WouldRetain(ctx context.Context, r Retention) (out Retained, err error) {
	for _, part := range r.parts(&out) {
		if err := l.queryRow(ctx, "SELECT count(*) "+part.rows, l.cutoff(part.older)).Scan(part.n); err != nil {
			return out, fmt.Errorf("look what is old: %w", err)
		}
	}
	return out, nil
}

// cutoff returns the moment so long ago, as the ledger stores it.
func (l *Ledger) cutoff(age time.Duration) string { return l.Now().Add(-age).Format(layout) }

func (tx *Tx) eraseBodies(cut string) (int64, error) {
	return tx.count("UPDATE inbox SET body = x'' WHERE inbox_id IN (SELECT i.inbox_id "+oldBodies+" LIMIT ?2 + 0)", cut,
		retainBatch)
}

// eraseDetails erases the details of some changes. Fields that moved with an update are counted
// among the updates with known bytes, so they go with them.
func (tx *Tx) eraseDetails(cut string) (int64, error) {
	const some = "(SELECT c.change_id " + oldDetails + " ORDER BY c.updated_at, c.change_id LIMIT ?2 + 0)"
	if err := tx.exec("DELETE FROM foreign_moves WHERE change_id IN "+some, cut, retainBatch); err != nil {
		return 0, err
	}
	if err := tx.storeFields(some, cut, retainBatch); err != nil {
		return 0, err
	}
	return tx.count("UPDATE changes SET wanted = NULL, body = NULL, body_sha256 = '', pre_image = NULL WHERE change_id IN "+some, cut, retainBatch)
}

// storeFields stores the field changes of creates that set all of the wanted customer: they are
// kept longer.
func (tx *Tx) storeFields(which string, args ...any) error {
	wanted := map[int64]connector.Customer{}
	if err := tx.each("SELECT change_id, wanted FROM changes WHERE action = 'create' AND diff IS NULL AND wanted IS NOT NULL AND change_id IN "+which, args, func(scan func(...any) error) error {
		var id int64
		var box []byte
		var c connector.Customer
		if err := scan(&id, &box); err != nil {
			return err
		}
		err := tx.l.openJSON(box, changePlace("wanted", id), &c)
		wanted[id] = c
		return err
	}); err != nil {
		return fmt.Errorf("read what was wanted: %w", err)
	}
	for id, c := range wanted {
		plain, err := json.Marshal(connector.Diff(connector.Customer{}, c))
		if err != nil {
			return err
		}
		if err := tx.exec("UPDATE changes SET diff = ? WHERE change_id = ?", tx.l.seal.box(plain, changePlace("diff", id)),
			id); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) eraseLetters(cut string) (int64, error) {
	return tx.count("UPDATE letters SET body = NULL, answer = '' WHERE letter_id IN (SELECT t.letter_id "+oldLetters+" LIMIT ?2 + 0)", cut, retainBatch)
}

func (tx *Tx) eraseSent(cut string) (int64, error) {
	return tx.count("DELETE FROM letters WHERE letter_id IN (SELECT t.letter_id "+oldSent+" LIMIT ?2 + 0)", cut,
		retainBatch)
}

func (tx *Tx) eraseReasons(cut string) (int64, error) {
	return tx.count("DELETE FROM failure_reasons WHERE seq IN (SELECT f.seq "+oldReasons+" LIMIT ?2 + 0)", cut,
		retainBatch)
}

func (tx *Tx) eraseApproved(cut string) (int64, error) {
	return tx.count(`DELETE FROM letter_approved WHERE (mandate_id, step, recipient, approval_id) IN (
		SELECT a.mandate_id, a.step, a.recipient, a.approval_id `+oldApproved+" LIMIT ?2 + 0)", cut, retainBatch)
}

func (tx *Tx) eraseTold(cut string) (int64, error) {
	return tx.count("DELETE FROM letter_journal WHERE (message_id, at) IN (SELECT j.message_id, j.at "+oldTold+" LIMIT ?2 + 0)", cut, retainBatch)
}
