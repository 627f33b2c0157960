package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/state"
)

// Why a change is not undone.
var (
	// ErrNothingBefore means the change created a customer or requested a signing link. There are no earlier values to
	// restore, and payersync never deletes.
	ErrNothingBefore = errors.New("there was nothing before it that could be put back")
	// ErrNeverSent means no part of the change was sent.
	ErrNeverSent = errors.New("nothing of it was sent")
	// ErrNotKept means the values written by the change are past their retention time.
	ErrNotKept = errors.New("what it wrote, and what was there before, is not kept any more")
	// ErrNotItsCustomer means the record now has another customer, or none.
	ErrNotItsCustomer = errors.New("its record has another customer by now, or none")
	// ErrNothingToUndo means none of the change's values are wanted any more.
	ErrNothingToUndo = errors.New("nothing that it wrote is wanted any more, or it wrote nothing new")
)

// Undo is the effect of restoring a customer to its state before a change.
type Undo struct {
	Change state.PastChange
	// set when the change linked the customer: all later writes are reverted, and it is unlinked
	Adoption *Unlink
	Fields   []connector.FieldChange // of an update: From is the earlier value, To is ours

	drift Drift
}

// UndoOf returns the effect of undoing a payer's change. Undoing an adoption also undoes all later writes and releases
// the customer. Undoing an update restores the earlier values of its fields, until the record's value changes. UndoOf
// writes nothing.
func (s *Syncer) UndoOf(ctx context.Context, conn Connection, p state.Payer, change int64) (Undo, error) {
	var u Undo
	sent, err := s.Ledger.SentChange(ctx, p, change)
	if err != nil {
		return u, err
	}
	u.Change = sent.PastChange
	switch {
	case sent.Action == connector.ActionCreate, sent.Action == connector.ActionLink, sent.Action == connector.ActionUnlink:
		return u, ErrNothingBefore
	case sent.Written.Sent == nil && !sent.FrozenAt.IsZero() && sent.State != connector.ChangePending:
		return u, ErrNotKept
	case sent.Written.Sent == nil || sent.State == connector.ChangePending:
		return u, ErrNeverSent
	case sent.State == connector.ChangeFrozen, sent.State == connector.ChangeUnknown:
		return u, state.ErrUnderWay
	case p.BillingID == "" || sent.BillingID != p.BillingID:
		return u, ErrNotItsCustomer
	}
	if sent.Action == connector.ActionAdopt {
		unlink, err := s.UnlinkOf(ctx, p, change)
		u.Adoption = &unlink
		return u, err
	}
	if u.drift, err = s.DriftOf(ctx, conn, p); err != nil {
		return u, err
	}
	u.drift.places = map[string]string{}
	before, err := s.differing(&u.drift, connector.RemoteCustomer{ID: p.BillingID, Raw: sent.Written.Before}, sent.Last)
	if err != nil {
		return u, err
	}
	after, err := s.differing(&u.drift, connector.RemoteCustomer{ID: p.BillingID, Raw: sent.Written.Sent}, &sent.Wanted)
	u.Fields = slices.DeleteFunc(before, func(f connector.FieldChange) bool { return slices.Contains(after, f) })
	if err == nil && len(u.Fields) == 0 {
		err = ErrNothingToUndo
	}
	u.drift.Fields = u.Fields
	return u, err
}

// SayUndo notes an operator's decision to undo a change. The next plan shows and sends it, within the limits.
func (s *Syncer) SayUndo(ctx context.Context, u Undo, by Operator) error {
	if u.Adoption != nil {
		return s.SayUnlink(ctx, *u.Adoption, by)
	}
	if by.Reason == "" {
		return fmt.Errorf("undo a change: %w", ErrReasonNeeded)
	}
	d := u.drift
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		p, err := tx.PayerByBillingID(d.Payer.BillingID)
		if err != nil {
			return err
		}
		if p.AppliedHash != d.Payer.AppliedHash || !slices.Equal(p.Accepted, d.Payer.Accepted) {
			return ErrReadMeanwhile
		}
		if err := tx.Accept(p, d.beside(d.taken(nil))); err != nil {
			return err
		}
		_, err = tx.RetryRecord(p.Connection, p.SourceID)
		return errors.Join(err, tx.Audit(state.Entry{Actor: by.Name, Action: "undo change",
			Subject: fmt.Sprintf("%s %s %d", p.SourceID, p.BillingID, u.Change.ID), Reason: by.Reason}))
	})
}
