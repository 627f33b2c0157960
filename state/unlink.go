package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
)

// Unlink is a person's decision that a payer's customer is not its own.
type Unlink struct {
	At   int64 // ticket at which it was said; 0 for never
	From int64 // our first change to take back; 0 for the key alone
}

// ErrNotUnlinking means that nobody has unlinked the payer's customer.
var ErrNotUnlinking = errors.New("nobody has said that the customer is not the record's")

// SayUnlink stores a person's decision to unlink a payer's customer, and the first change to take back; 0 for
// the key alone. An update of the next plan does that, and a read of the result separates the two. It fails
// with ErrNotMovable or ErrUnderWay.
func (tx *Tx) SayUnlink(p Payer, from int64) error {
	if !p.Seen || p.BillingID == "" {
		return ErrNotMovable
	}
	return tx.setUnlink(p, from, "(SELECT max(ticket, 1) FROM ledger)")
}

// TakeUnlinkBack revokes SayUnlink. It fails with ErrNotUnlinking, and with ErrUnderWay when a
// request that carries it out may still arrive.
func (tx *Tx) TakeUnlinkBack(p Payer) error {
	if p.Unlink.At == 0 {
		return ErrNotUnlinking
	}
	return tx.setUnlink(p, 0, "0")
}

func (tx *Tx) setUnlink(p Payer, from int64, at string) error {
	if err := tx.nothingUnderWay(p.Connection, p.SourceID); err != nil {
		return err
	}
	if err := tx.exec("UPDATE payers SET unlink_at = "+at+", unlink_from = ?, moves_name = '', moves_value = '', updated_at = ? WHERE connection = ? AND source_id = ? AND billing_id = ?",
		from, stamp(tx.now), p.Connection, p.SourceID, p.BillingID); err != nil {
		return fmt.Errorf("note whose customer %s is: %w", p.BillingID, err)
	}
	_, err := tx.ReplanRecord(p.Connection, p.SourceID)
	return err
}

// Unlink separates a payer and its customer, after a read has shown nothing of ours left to take back. The
// record is on hold until a person identifies it, and detail asks for that. Without a detail it is removed.
func (tx *Tx) Unlink(p Payer, detail string) error {
	steps := []func() error{
		func() error { return tx.dropPlanned(p.Connection, p.SourceID, LaneCustomer, LaneMandate) },
		func() error { return tx.emptyPayer(p) },
		func() error {
			return tx.exec(`UPDATE payers SET parted = (SELECT coalesce(max(change_id), 0) FROM changes c WHERE c.connection = ?1 AND c.source_id = ?2)
				WHERE connection = ?1 AND source_id = ?2`, p.Connection, p.SourceID)
		},
		func() error {
			return tx.exec("DELETE FROM words WHERE connection = ? AND source_id = ? AND word <> 'reject'", p.Connection,
				p.SourceID)
		},
		func() error {
			return tx.exec(`INSERT INTO words (connection, source_id, billing_id, word, reason, ticket, said_at) VALUES (?, ?, ?, 'spent', ?, (SELECT max(ticket, 1) FROM ledger), ?)
				ON CONFLICT (connection, source_id, billing_id) DO UPDATE SET word = excluded.word, reason = excluded.reason, ticket = excluded.ticket, said_at = excluded.said_at`,
				p.Connection, p.SourceID, p.BillingID, connector.ReasonUnlinked, stamp(tx.now))
		},
	}
	tx.Touch(p)
	if detail != "" {
		tx.HoldLink(p, connector.LinkHeld, connector.ReasonUnlinked)
		tx.Explain(p, TopicLink, connector.ReasonUnlinked, detail)
	}
	steps = append(steps, func() error { return tx.LookNext(p) })
	if err := connector.Each(steps, func(step func() error) error { return step() }); err != nil {
		return fmt.Errorf("unlink customer %s: %w", p.BillingID, err)
	}
	return nil
}

// emptyPayer forgets all that a payer's customer made known of it.
func (tx *Tx) emptyPayer(p Payer) error {
	return tx.exec(`UPDATE payers SET billing_id = NULL, link_state = 'new', applied = NULL, accepted = NULL, stays_at = 0, stays_with = '', stays_word = 0, let_be = 0, let_be_of = '', applied_hash = '', read_values = NULL, read_digest = '', shows = '', shown_at = 0,
		confirmed_at = 0, answered_at = 0, seen_at = 0, mandate_id = NULL, drained_at = NULL, moves_name = '', moves_value = '', unlink_at = 0, unlink_from = 0, updated_at = ?
		WHERE connection = ? AND source_id = ?`, stamp(tx.now), p.Connection, p.SourceID)
}

// Written returns the sent updates of a payer's customer from a change on, the newest first, with
// the customer before each; none for change 0.
func (l *Ledger) Written(ctx context.Context, p Payer, from int64) ([]connector.Written, error) {
	if from == 0 {
		return nil, nil
	}
	type row struct {
		id        int64
		pre, body []byte
	}
	rows, err := list(ctx, l,
		`SELECT change_id, pre_image, body FROM changes WHERE connection = ? AND source_id = ? AND lane = 'customer' AND action <> 'create'
		AND unlinks = 0 AND change_id >= ? AND (billing_id = ?4 OR billing_id IS NULL) AND body IS NOT NULL AND pre_image IS NOT NULL ORDER BY change_id DESC`,
		[]any{p.Connection, p.SourceID, from, p.BillingID}, func(r *row) []any { return []any{&r.id, &r.pre, &r.body} })
	if err != nil {
		return nil, fmt.Errorf("read what was written on customer %s: %w", p.BillingID, err)
	}
	out := make([]connector.Written, len(rows))
	for i, r := range rows {
		before, err := l.seal.open(r.pre, changePlace("pre_image", r.id))
		sent, errSent := l.seal.open(r.body, changePlace("body", r.id))
		if err := errors.Join(err, errSent); err != nil {
			return nil, fmt.Errorf("change %d: %w", r.id, err)
		}
		out[i] = connector.Written{Before: before, Sent: sent}
	}
	return out, nil
}

// ErrNoChange means that the ledger has no such change of the payer.
var ErrNoChange = errors.New("the ledger has no such change")

// SentChange is a change of a payer's customer with its sent content.
type SentChange struct {
	PastChange
	BillingID string // the customer that was adopted or updated
	Wanted    connector.Customer
	Last      *connector.Customer // what the change before it wanted; nil when there was none
	Written   connector.Written   // zero when nothing was sent
}

// SentChange returns a change of a payer; ErrNoChange when there is none.
func (l *Ledger) SentChange(ctx context.Context, p Payer, id int64) (SentChange, error) {
	var c SentChange
	past, err := l.ChangesOf(ctx, p.Connection, p.SourceID)
	if err != nil {
		return c, err
	}
	at := slices.IndexFunc(past, func(c PastChange) bool { return c.ID == id })
	if at < 0 {
		return c, ErrNoChange
	}
	c.PastChange = past[at]
	var wanted, last, pre, body []byte
	var lastID int64
	if err := l.queryRow(ctx,
		`SELECT coalesce(c.billing_id, ''), c.wanted, c.pre_image, c.body, coalesce(o.change_id, 0), o.wanted
		FROM changes c LEFT JOIN changes o ON o.connection = c.connection AND o.source_id = c.source_id AND o.change_id = (SELECT max(change_id) FROM changes n
			WHERE n.connection = c.connection AND n.source_id = c.source_id AND n.lane = 'customer' AND n.change_id < c.change_id AND n.body IS NOT NULL AND n.unlinks = 0)
		WHERE c.change_id = ?`, id).Scan(&c.BillingID, &wanted, &pre, &body, &lastID, &last); err != nil {
		return c, fmt.Errorf("read change %d: %w", id, err)
	}
	if last != nil {
		c.Last = new(connector.Customer)
		err = l.openJSON(last, changePlace("wanted", lastID), c.Last)
	}
	var errBefore, errSent error
	c.Written.Before, errBefore = l.seal.open(pre, changePlace("pre_image", id))
	c.Written.Sent, errSent = l.seal.open(body, changePlace("body", id))
	if err := errors.Join(err, errBefore, errSent, l.openJSON(wanted, changePlace("wanted", id), &c.Wanted)); err != nil {
		return c, fmt.Errorf("change %d: %w", id, err)
	}
	return c, nil
}

// ChangeOwner returns the record that a change is of; ErrNoChange when there is none.
func (l *Ledger) ChangeOwner(ctx context.Context, id int64) (RecordID, error) {
	var r RecordID
	err := l.queryRow(ctx, "SELECT connection, source_id FROM changes WHERE change_id = ?", id).Scan(&r.Connection,
		&r.SourceID)
	if errors.Is(err, sql.ErrNoRows) {
		return r, ErrNoChange
	}
	return r, err
}
