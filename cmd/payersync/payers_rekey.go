package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) payersMovedCmd() *cobra.Command {
	var from, reason string
	var yes bool
	c := &cobra.Command{
		Use:   "moved RECORD --reason TEXT",
		Short: "Let a renumbered record keep its customer and mandate",
		Long: `Moves the customer of a record to the record's new key: the record got a new number,
and is on hold (key_changed). With --from it is the customer of another record. That
record was removed, and this one replaces it.

The command shows the present and the new value of each field, and asks. The audit log
keeps a yes with its reason. The next run writes the key, within the limits for plans;
the mandate and its signing link stay as they are. Nothing is sent before that run.`,
		Example: "  payersync payers moved C0001 --reason 'new numbers since March' && payersync sync\n" +
			"  payersync payers moved C0907 --from C0001 --reason 'entered anew in March'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runPayersMoved(cmd.Context(), args, from, reason, yes)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the removed `RECORD` that has the customer")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) runPayersMoved(ctx context.Context, args []string, from, reason string, yes bool) error {
	if reason == "" {
		return usage.Errorf("moving a customer takes a reason: --reason 'new numbers since March'")
	}
	holder := args[0]
	if from != "" {
		holder = from
	}
	return a.with(ctx, a.open, func(s *session.Session) error {
		p, err := holderOf(ctx, s, args[0], holder)
		if err != nil {
			return err
		}
		record, err := recordNamed(ctx, s, args[0], p, from != "")
		if err != nil {
			return err
		}
		return a.rekey(ctx, s, p, record, from != "", reason, yes)
	})
}

// holderOf finds the payer of holder. It looks for the source id in the record's own connection first, which
// keeps moved customers' ids, and then for any id in every connection.
func holderOf(ctx context.Context, s *session.Session, record, holder string) (state.Payer, error) {
	records, err := s.Ledger.FindRecords(ctx, record)
	if err != nil {
		return state.Payer{}, err
	}
	if len(records) == 1 && holder != record {
		p, err := s.Ledger.Payer(ctx, records[0].Connection, holder)
		if err == nil || !errors.Is(err, state.ErrNoPayer) {
			return p, err
		}
	}
	return onePayer(ctx, s, holder)
}

// recordNamed returns the record to get a payer's customer: the payer's own, or that of id.
func recordNamed(ctx context.Context, s *session.Session, id string, p state.Payer, other bool) (state.RecordID,
	error) {
	own := state.RecordID{Connection: p.Connection, SourceID: p.SourceID}
	if !other {
		return own, nil
	}
	found, err := s.Ledger.FindRecords(ctx, id)
	if err != nil {
		return own, err
	}
	found = slices.DeleteFunc(found, func(r state.RecordID) bool { return r == own })
	switch len(found) {
	case 0:
		return own, fmt.Errorf("no record but the owner of the customer is called %q; payersync plan reads the accounting system anew", show.Visible(id))
	case 1:
		return found[0], nil
	}
	return own, usage.Errorf("%q names %d records; use an id of only one in its accounting system", show.Visible(id),
		len(found))
}

// rekeyReport is the output of `payers moved --output json`.
type rekeyReport struct {
	SourceID  string                  `json:"source_id"` // the future record of the customer
	From      string                  `json:"from"`      // its present record
	BillingID string                  `json:"billing_id"`
	OldKey    connector.Key           `json:"old_key"`
	NewKey    connector.Key           `json:"new_key"`
	Mandate   string                  `json:"mandate_status"` // "" for none
	Diff      []connector.FieldChange `json:"diff"`
	Accepted  bool                    `json:"accepted"`
}

func (a *app) rekey(ctx context.Context, s *session.Session, p state.Payer, record state.RecordID, other bool,
	reason string, yes bool) error {
	d := admin.Decision{Act: connector.ActRekey, Record: record}
	if other {
		d.Act, d.Other = connector.ActTakeOver, state.RecordID{Connection: p.Connection, SourceID: p.SourceID}
	}
	proposal, err := a.attentionOf(s).Propose(ctx, d)
	m := proposal.Move
	switch {
	case errors.Is(err, syncer.ErrSaidBefore):
		a.Print("Record %s has customer %s already. The next sync writes its key there.", show.Visible(record.SourceID),
			show.Visible(m.From.BillingID))
		return a.Result(rekeyReport{SourceID: record.SourceID, From: p.SourceID, BillingID: m.From.BillingID, OldKey: p.Key,
			NewKey: m.Key, Diff: m.Diff, Accepted: true})
	case err != nil:
		return notMoved(record.SourceID, err)
	}
	report := rekeyReport{
		SourceID: record.SourceID, From: p.SourceID, BillingID: p.BillingID, OldKey: p.Key, NewKey: m.Key,
		Mandate: string(m.Mandate), Diff: append([]connector.FieldChange{}, m.Diff...),
	}
	if report.Accepted, err = a.agrees(ctx, proposal, asksAlways, yes); err != nil {
		return err
	}
	if report.Accepted {
		if _, err := proposal.Perform(ctx, by(reason)); err != nil {
			return notMoved(record.SourceID, err)
		}
		a.Print("The next sync writes it.")
	}
	return a.Result(report)
}

// notMoved says why a customer is not moved, and what to do.
func notMoved(sourceID string, err error) error {
	next := "payersync payers show says how each of them stands"
	switch {
	case errors.Is(err, state.ErrUnlinking):
		next = "payersync payers different --keep takes that back"
	case errors.Is(err, state.ErrInTheBooks):
		next = "archive or delete it there, sync, and say it again"
	case errors.Is(err, syncer.ErrNotSent):
		next = "payersync payers show says why"
	case errors.Is(err, state.ErrNoRecord):
		next = "payersync plan reads the accounting system anew"
	case errors.Is(err, state.ErrUnderWay), errors.Is(err, syncer.ErrNothingToMove):
		return fmt.Errorf("cannot move a customer to %s: %w", show.Visible(sourceID), err)
	}
	return fmt.Errorf("cannot move a customer to %s: %w; %s", show.Visible(sourceID), err, next)
}
