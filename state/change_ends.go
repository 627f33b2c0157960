package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
)

// ErrCustomerTaken means that a customer is linked to another payer already.
var ErrCustomerTaken = errors.New("the customer is linked to another payer")

// ErrLinkedAlready means that a payer is linked to another customer by now.
var ErrLinkedAlready = errors.New("the payer is linked to another customer")

// LinkPayer links a payer to a customer. With seen, a read has just shown the customer with its
// key; otherwise a read must confirm it after an answered create. It fails with ErrLinkedAlready
// for a payer with another customer: a late answer moves no link.
func (tx *Tx) LinkPayer(p Payer, billingID string, seen bool) error {
	to := connector.LinkCreating
	if seen {
		to = connector.LinkLinked
	}
	return tx.link(p, billingID,
		"link_state = ?4, updated_at = ?5, seen_at = CASE WHEN ?6 = 1 THEN (SELECT max(ticket, 1) FROM ledger) ELSE 0 END",
		mayLink, to, stamp(tx.now), seen)
}

// LinkAdopted links the payer of a change to the customer that it adopts, which a read has just shown with the key. It
// fails with ErrLeaseLost if another process has ended the run, and with ErrNotOpen if the change is open no more: a
// later plan, or a person, may have decided otherwise while the customer was read.
func (tx *Tx) LinkAdopted(run int64, c Change) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	open, err := txSingle[bool](tx, "SELECT count(*) > 0 FROM changes WHERE change_id = ? AND "+openStates, c.ID)
	if err != nil || !open {
		return cmp.Or(err, notOpen(c.ID))
	}
	return tx.LinkPayer(c.Payer, c.BillingID, true)
}

// isFreeFor is the condition that a row of payers may have a customer.
func isFreeFor(billingID string) string {
	return strings.ReplaceAll(`(payers.billing_id IS NULL OR payers.billing_id = $) AND NOT EXISTS (
		SELECT 1 FROM payers other WHERE other.billing_id = $ AND (other.connection <> payers.connection OR other.source_id <> payers.source_id))`, "$", billingID)
}

// mayLink is the condition that the payer ?1, ?2 may have the customer ?3.
var mayLink = "connection = ?1 AND source_id = ?2 AND " + isFreeFor("?3")

// link links a payer to a customer under a condition, at least mayLink, and sets further columns with three
// arguments from ?4 on.
func (tx *Tx) link(p Payer, billingID string, set, where string, three ...any) error {
	key := []any{p.Connection, p.SourceID, billingID}
	if err := tx.exec("UPDATE payers SET billing_id = ?3, "+set+" WHERE "+where, append(key, three...)...); err != nil {
		return err
	}
	var told bool
	err := tx.row([]any{&told},
		"SELECT EXISTS (SELECT 1 FROM words WHERE connection = ?1 AND source_id = ?2 AND word <> 'reject') FROM payers WHERE billing_id = ?3 AND "+where, key...)
	switch {
	case err == nil && told: // a word that they are the same has been carried out
		return tx.exec("DELETE FROM words WHERE connection = ? AND source_id = ? AND word <> 'reject'", p.Connection,
			p.SourceID)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	var linked bool
	if err := tx.row([]any{&linked},
		"SELECT EXISTS (SELECT 1 FROM payers WHERE connection = ? AND source_id = ? AND billing_id <> ?)",
		p.Connection, p.SourceID, billingID); err != nil {
		return fmt.Errorf("look whom payer %s is linked to: %w", p.SourceID, err)
	}
	if linked {
		return ErrLinkedAlready
	}
	return ErrCustomerTaken
}

// Created closes a create that the service answered with a customer, and links the customer to the
// payer. The sent values count as the customer's values until a read confirms them. It fails as
// LinkPayer does.
func (tx *Tx) Created(run int64, c Change, billingID string) error {
	box, err := tx.l.boxApplied(c.Payer, c.Wanted)
	if err != nil {
		return err
	}
	err = tx.link(c.Payer, billingID,
		"link_state = 'creating', seen_at = 0, answered_at = (SELECT ticket FROM ledger), "+asApplied("?4", "?5", "?6"),
		mayLink+" AND NOT "+isForgotten, box, c.Wanted.Hash(), stamp(tx.now))
	if errors.Is(err, ErrCustomerTaken) { // or the payer was forgotten, of which nothing is kept but its customer
		err = tx.LinkPayer(c.Payer, billingID, false)
	}
	if err != nil {
		return err
	}
	return tx.CloseWith(run, c, connector.ChangeDone, "", "")
}

// CloseDone closes the update of a customer as done: what it wanted is now what the
// customer holds of us.
func (tx *Tx) CloseDone(run int64, c Change) error {
	closing := tx.CloseWith(run, c, connector.ChangeDone, "", "")
	return errors.Join(closing, tx.SetApplied(c.Payer, c.Wanted))
}

// CloseConfirmed closes an update after a confirming read. foreign holds the foreign fields changed
// meanwhile, without their places in lists. It reports detail to a person, unless all these fields change
// with every update.
func (tx *Tx) CloseConfirmed(run int64, c Change, foreign []string, detail string) error {
	if err := tx.CloseDone(run, c); err != nil || len(foreign) == 0 {
		return err
	}
	for _, path := range foreign {
		if err := tx.exec("INSERT INTO foreign_moves (change_id, path) VALUES (?, ?) ON CONFLICT DO NOTHING", c.ID,
			connector.Indexed(path)); err != nil {
			return fmt.Errorf("note what moved with change %d: %w", c.ID, err)
		}
	}
	var told bool
	if err := tx.row([]any{&told},
		"SELECT EXISTS (SELECT 1 FROM foreign_moves m WHERE m.change_id = ? AND NOT "+movesAlways+")", c.ID); err != nil {
		return fmt.Errorf("look what moves with every update: %w", err)
	}
	if told {
		tx.Explain(c.Payer, TopicLink, connector.ReasonForeignChange, detail)
		return nil
	}
	// Earlier reports close now, unless the customer differs from our values.
	return tx.each(`SELECT a.connection, a.source_id FROM attention a JOIN changes c ON c.connection = a.connection AND c.source_id = a.source_id AND c.lane = 'customer'
		WHERE a.topic = 'link' AND a.reason = 'foreign_change' AND c.state = 'done'
		AND c.change_id = (SELECT max(n.change_id) FROM changes n WHERE n.connection = c.connection AND n.source_id = c.source_id AND n.lane = 'customer' AND n.body IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM foreign_moves m WHERE m.change_id = c.change_id AND NOT `+movesAlways+`)`, nil,
		func(scan func(...any) error) error {
			var p Payer
			err := scan(&p.Connection, &p.SourceID)
			tx.Explain(p, TopicLink, "", "")
			return err
		})
}

// movesAlways is the condition that the field of m moves with every update, such as a revision or a
// time of the last change. It moved with nine of ten updates since its first move, and with at
// least two.
const movesAlways = `(
	SELECT count(*) >= 2 AND count(*) * 10 >= 9 * (SELECT count(*) FROM changes u
		WHERE u.state = 'done' AND u.body IS NOT NULL AND u.action <> 'create'
		  AND u.updated_at >= (SELECT min(f.updated_at) FROM foreign_moves s JOIN changes f ON f.change_id = s.change_id WHERE s.path = m.path))
	FROM foreign_moves o WHERE o.path = m.path)`

// SentCreate returns the frozen customer of a payer's create whose customer was found by its key,
// or nil if there is none.
func (l *Ledger) SentCreate(ctx context.Context, p Payer) (*connector.Customer, error) {
	var id int64
	var box []byte
	err := l.queryRow(ctx, `SELECT change_id, wanted FROM changes
		WHERE connection = ?1 AND source_id = ?2 AND lane = 'customer' AND action = 'create' AND state = 'done'
		AND change_id > (SELECT parted FROM payers WHERE connection = ?1 AND source_id = ?2) ORDER BY change_id DESC LIMIT 1`,
		p.Connection, p.SourceID).Scan(&id, &box)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what payer %s was created with: %w", p.SourceID, err)
	}
	sent := new(connector.Customer)
	if err := l.openJSON(box, changePlace("wanted", id), sent); err != nil {
		return nil, fmt.Errorf("change %d: %w", id, err)
	}
	if sent.ExternalData[p.Key.Name] != p.Key.Value {
		return nil, nil
	}
	return sent, nil
}

// LeaveUnknown leaves a change open whose request got no answer, and says so on the payer.
func (tx *Tx) LeaveUnknown(run int64, c Change, detail string) error {
	const reason = connector.ReasonOutcomeUnknown
	if err := tx.moveChange(run, c, connector.ChangeUnknown, reason, detail); err != nil {
		return err
	}
	tx.Explain(c.Payer, c.topic(reason), reason, detail)
	return nil
}

// CloseWith closes a change as done, failed, held or void, and says on the payer what a person
// should know of it; "" for nothing. A create that will never be sent again drops the planned signing
// link. A void one is planned again.
func (tx *Tx) CloseWith(run int64, c Change, to connector.ChangeState, reason connector.Reason, detail string) error {
	if err := tx.moveChange(run, c, to, reason, detail); err != nil {
		return err
	}
	p := c.Payer
	if c.Action == connector.ActionCreate && to != connector.ChangeDone {
		if err := tx.dropPlanned(p.Connection, p.SourceID, LaneMandate); err != nil {
			return err
		}
	}
	if to == connector.ChangeVoid {
		_, err := tx.ReplanRecord(p.Connection, p.SourceID)
		return err
	}
	tx.Explain(p, c.topic(reason), reason, detail)
	if reason == "" {
		return nil
	}
	return tx.lookNextIfOthers(p, reason)
}

// topic returns the topic of a reason that the change ends with, or waits for.
func (c Change) topic(reason connector.Reason) Topic {
	switch {
	case c.Lane == LaneMandate:
		return TopicMandate
	case reason == "":
		return TopicLink
	}
	return Topic(protocol.LaneOf(reason))
}

// Unsent takes back an attempt of a change that certainly never left.
func (tx *Tx) Unsent(c Change, a Attempt) error {
	if err := tx.EndAttempt(a, AttemptUnsent); err != nil {
		return err
	}
	tx.Touch(c.Payer)
	return tx.exec("UPDATE changes SET state = 'pending', attempts = attempts - 1 WHERE change_id = ? AND state = 'frozen' AND body IS NULL", c.ID)
}

// moveChange moves an open change on, and its record's class with it.
func (tx *Tx) moveChange(run int64, c Change, to connector.ChangeState, reason connector.Reason, detail string) error {
	if err := tx.touch(run, c, "state = ?, reason = ?, detail = ?, ended_at = (SELECT ticket FROM ledger)", openStates, to,
		reason, detail); err != nil || c.Lane == LaneMandate {
		return err
	}
	tx.touched(RecordID{c.Payer.Connection, c.Payer.SourceID}).ended = reason
	return nil
}
