package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) keepCustomer(ctx context.Context, s *session.Session, p state.Payer, d decision) error {
	_, sure, err := a.act(ctx, s,
		admin.Decision{Act: connector.ActKeep, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}},
		asksInWalk, d.reason, d.yes)
	if err != nil {
		return notUndone("keep the customer of "+show.Visible(p.SourceID), err)
	}
	if sure {
		a.Print("Customer %s stays the record's.", show.Visible(p.BillingID))
	}
	return a.Result(undoReport{SourceID: p.SourceID, BillingID: p.BillingID, Diff: []connector.FieldChange{},
		Kept: []string{}, Accepted: sure})
}

func (a *app) payersUndoCmd() *cobra.Command {
	var d decision
	c := &cobra.Command{
		Use:   "undo CHANGE --reason TEXT",
		Short: "Restore a customer to its values before a change",
		Long: `Undoes a change by its number from payersync payers show.

If the change linked a customer, the undo restores all fields written on it since. It
restores a field only if the customer still shows the written value; it keeps and
names later changes of colleagues. The record is then
unlinked, as with payersync payers
unlink.

If the change updated a customer, the undo restores the changed fields. They keep the
old values until the record's value changes.

The command shows the present and the new value of each field, and asks. The audit log
keeps a yes with its reason. The next run sends it, within the limits for plans. You
cannot undo a change that created a customer, because payersync never deletes
anything.`,
		Example: "  payersync payers show C0001\n  payersync payers undo 17 --reason 'matched the wrong company' && payersync sync",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runPayersUndo(cmd.Context(), args, d) },
	}
	d.flags(c)
	return c
}

func (a *app) runPayersUndo(ctx context.Context, args []string, d decision) error {
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || id < 1 {
		return usage.Errorf("a change has a number: payersync payers show names those of a record, as in payersync payers undo 17")
	}
	if d.reason == "" {
		return usage.Errorf("undoing a change takes a reason: --reason 'matched the wrong company'")
	}
	return a.with(ctx, a.open, func(s *session.Session) error {
		return a.undo(ctx, s, id, d)
	})
}

// undoReport is the output of `payers undo` and `payers different` with --output json.
type undoReport struct {
	ChangeID  int64                   `json:"change_id,omitempty"`
	SourceID  string                  `json:"source_id"`
	BillingID string                  `json:"billing_id"`
	Mandate   string                  `json:"mandate_status"` // that stays with the customer; "" for none
	Diff      []connector.FieldChange `json:"diff"`           // the customer's present and future values
	Kept      []string                `json:"kept"`           // fields changed by a colleague since
	Unlinks   bool                    `json:"unlinks"`        // the record and the customer come to be apart
	Accepted  bool                    `json:"accepted"`
}

func (a *app) undo(ctx context.Context, s *session.Session, id int64, d decision) error {
	doing := fmt.Sprintf("undo change %d", id)
	owner, err := s.Ledger.ChangeOwner(ctx, id)
	if err != nil {
		return notUndone(doing, err)
	}
	p, err := s.Ledger.Payer(ctx, owner.Connection, owner.SourceID)
	if err != nil {
		return notUndone(doing, err)
	}
	proposal, err := a.attentionOf(s).Propose(ctx, admin.Decision{Act: connector.ActUndo, Record: owner, Change: id})
	switch {
	case err != nil:
		return notUndone(doing, err)
	case proposal.Undo.Adoption != nil:
		return a.unlink(ctx, proposal, *proposal.Undo.Adoption, d)
	}
	report := undoReport{ChangeID: id, SourceID: p.SourceID, BillingID: p.BillingID,
		Diff: append([]connector.FieldChange{}, proposal.Diff()...), Kept: []string{}}
	return a.undoes(ctx, proposal, report, doing, "The next sync sends it.", d)
}

// unlink shows the effect of unlinking a customer, asks, and stores the answer.
func (a *app) unlink(ctx context.Context, proposal admin.Proposal, u syncer.Unlink, d decision) error {
	p := u.Payer
	report := undoReport{
		ChangeID: u.From, SourceID: p.SourceID, BillingID: p.BillingID, Mandate: string(u.Mandate), Unlinks: true,
		Diff: append([]connector.FieldChange{}, u.Diff...), Kept: append([]string{}, u.Kept...),
	}
	return a.undoes(ctx, proposal, report, "unlink the customer of "+show.Visible(p.SourceID),
		"The next run does it. Then link the record to its customer: payersync payers match.", d)
}

// undoes asks, and restores or unlinks a customer.
func (a *app) undoes(ctx context.Context, proposal admin.Proposal, report undoReport, doing, done string,
	d decision) (err error) {
	if report.Accepted, err = a.agrees(ctx, proposal, asksAlways, d.yes); err != nil {
		return err
	}
	if report.Accepted {
		if _, err := proposal.Perform(ctx, by(d.reason)); err != nil {
			return notUndone(doing, err)
		}
		a.Print("%s", done)
	}
	return a.Result(report)
}

// notUndone says why a customer is not restored or unlinked, and the next step.
func notUndone(doing string, err error) error {
	next := ""
	switch {
	case errors.Is(err, state.ErrNoChange), errors.Is(err, state.ErrNoPayer):
		next = "payersync payers show names the changes of a record"
	case errors.Is(err, syncer.ErrNothingBefore), errors.Is(err, syncer.ErrNeverSent), errors.Is(err, syncer.ErrNotKept):
		next = "payersync payers different takes the record's key off its customer"
	case errors.Is(err, state.ErrNotMovable), errors.Is(err, syncer.ErrNotItsCustomer),
		errors.Is(err, syncer.ErrNothingToUndo),
		errors.Is(err, state.ErrNotUnlinking), errors.Is(err, syncer.ErrNothingToCompare):
		next = "payersync payers show says how the record stands"
	case errors.Is(err, syncer.ErrReadMeanwhile):
		next = "say it again"
	}
	if next == "" {
		return fmt.Errorf("cannot %s: %w", doing, err)
	}
	return fmt.Errorf("cannot %s: %w; %s", doing, err, next)
}
