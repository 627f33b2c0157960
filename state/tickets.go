package state

import (
	"context"
	"fmt"
	"time"
)

// Arrival is how long after a request has left it may still arrive and take effect. A request for a
// signing link does not wait, but only looks. At worst it makes a second mandate to sign, and a
// payer without a link could never sign.
const Arrival = 15 * time.Minute

// hasArrived is the condition that a request without an end can arrive no more, and that this is not stored yet. A
// request for a signing link waits for nothing. Any other one left at ?1 or before.
const hasArrived = "ended = '' AND over = 0 AND (sent_at <= ?1 OR action = 'link')"

// Ticket returns the next read ticket. A later ticket means a later read, in every process with the ledger.
// It also marks the requests that can no longer arrive, so a read with this ticket shows their result.
func (tx *Tx) Ticket() (int64, error) {
	ticket, err := tx.nextTicket()
	if err != nil {
		return 0, err
	}
	if err := tx.exec("UPDATE attempts SET over = ?2 WHERE "+hasArrived, stamp(tx.now.Add(-Arrival)),
		ticket-1); err != nil {
		return 0, fmt.Errorf("note which requests can arrive no more: %w", err)
	}
	return ticket, nil
}

// nextTicket issues a ticket.
func (tx *Tx) nextTicket() (int64, error) { return tx.nextTickets(1) }

// nextTickets issues several tickets in a row, and returns the last. It notes the first ticket after a
// restore, and the time by which all requests before a ticket have arrived.
func (tx *Tx) nextTickets(n int) (last int64, err error) {
	err = tx.exec(`UPDATE ledger SET ticket = ticket + ?2, doubt_of = restored_at,
		doubt = CASE WHEN restored_at IS DISTINCT FROM doubt_of THEN ticket ELSE doubt END,
		doubt_over = CASE WHEN restored_at IS DISTINCT FROM doubt_of THEN 0 WHEN doubt > 0 AND doubt_over = 0 AND restored_at <= ?1 THEN ticket ELSE doubt_over END`,
		stamp(tx.now.Add(-Arrival)), n)
	if err == nil {
		err = tx.row([]any{&last}, "SELECT ticket FROM ledger")
	}
	if err != nil {
		return 0, fmt.Errorf("take a ticket: %w", err)
	}
	return last, nil
}

// NoteArrived notes the requests that can no longer arrive, as Ticket does, if there are any. It
// takes a ticket only then, and writes nothing otherwise.
func (l *Ledger) NoteArrived(ctx context.Context) error {
	var due bool
	if err := l.queryRow(ctx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE `+hasArrived+`)
		OR restored_at IS DISTINCT FROM doubt_of OR (doubt > 0 AND doubt_over = 0 AND restored_at <= ?1) FROM ledger`,
		stamp(l.Now().Add(-Arrival))).Scan(&due); err != nil {
		return fmt.Errorf("look for requests that can arrive no more: %w", err)
	}
	if !due {
		return nil
	}
	_, err := l.Ticket(ctx)
	return err
}

// Ticket commits and returns the next read ticket; take it before the read.
func (l *Ledger) Ticket(ctx context.Context) (ticket int64, err error) {
	err = l.Do(ctx, func(tx *Tx) error {
		ticket, err = tx.Ticket()
		return err
	})
	return ticket, err
}
