package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) ledgerForgetCmd() *cobra.Command {
	var d decision
	var connection string
	stays := false
	c := &cobra.Command{
		Use:   "forget RECORD --reason TEXT",
		Short: "Erase the personal values of one payer, and keep them from coming back",
		Long: `Erases everything personal that the ledger holds about one payer: its record, what it
was known by, what was sent and applied, webhooks about it, its signing link. Ids,
statuses, times and what people did stay. The record is found by source id, key value,
billing id or mandate id.

The next reading of the books does not bring the payer back: a keyed hash of who it was
is kept, in the ledger and in a file beside it, so that a backup from before does not
bring it back either. A new record with its number, or with its name and e-mail address,
is held and told instead. payersync ledger unforget takes it back.

Nothing is sent and nothing is deleted at the billing service. A mandate that holds is
cancelled first (payersync mandates cancel), or stays, which --mandate-stays says. While
a request that was sent may still arrive, the payer cannot be forgotten.

It shows what would be erased and what remains elsewhere, and asks. A yes is kept with
its reason in the audit log: write no name into the reason.`,
		Example: "  payersync ledger forget C0001 --reason 'request of 3 March, ticket 88'\n  payersync ledger forget C0001 --mandate-stays --yes --reason 'ticket 88'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(d.reason) == "" {
				return usage.Errorf("forgetting a payer takes a reason, without a name: --reason 'request of 3 March, ticket 88'")
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				id, err := oneRecord(cmd.Context(), s, args[0], connection)
				if err != nil {
					return err
				}
				return a.forget(cmd.Context(), s, id, stays, d)
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection, where several have a record of that name")
	c.Flags().BoolVar(&stays, "mandate-stays", false, "the payer's mandate stays as it is at the billing service")
	d.flags(c)
	return c
}

func (a *app) forget(ctx context.Context, s *session.Session, id state.RecordID, stays bool, d decision) error {
	name := show.Visible(id.SourceID)
	r, err := office.ForgetOf(ctx, s.Ledger, id)
	switch {
	case errors.Is(err, state.ErrForgotten):
		a.Say("The payer of record %s was forgotten before, and nothing is left to erase; payersync ledger unforget takes it back.", name)
		return a.Result(r)
	case err != nil:
		return notForgotten(name, err)
	}
	a.sayForget(r)
	if r.MandateHolds() && !stays {
		return usage.Errorf("cannot forget %s: its mandate %s still holds (%s), and nobody would be told of it any more; cancel it first with payersync mandates cancel %[2]s, or say that it stays: --mandate-stays",
			name, show.Visible(r.MandateID), connector.MandateStatus(r.Mandate).Label())
	}
	yes, err := a.Confirms(ctx, d.yes, fmt.Sprintf("cannot forget %s without a yes, so nothing was erased", name), "Shall the payer be forgotten?")
	if err != nil {
		return err
	}
	if !yes {
		a.Say("Nothing was erased.")
		return a.Result(r)
	}
	if r.FilesLater, err = office.Forget(ctx, s.Ledger, id, syncer.Operator{Name: actor(), Reason: d.reason}); err != nil {
		return notForgotten(name, err)
	}
	r.Forgotten = true
	if s.Config.Node != nil {
		a.Say("Forgotten. The next reading of the books does not bring it back. A backup of the database from before does, when it is put back.")
	} else {
		a.Say("Forgotten. The next reading of the books does not bring it back, nor does a backup, as long as %s stays beside the ledger.", state.ForgottenList(s.Config.Ledger.Path))
	}
	if r.FilesLater {
		a.Say("Another process was reading the ledger, so its files may still hold what was erased in places that are free: the next start cleans them.")
	}
	return a.Result(r)
}

func (a *app) sayForget(r office.Forgetting) {
	a.Say("Record %s of %s: %s.", show.Visible(r.SourceID), r.Connection, orElse(show.Visible(r.Name), "no name is known"))
	a.Say("Everything personal would be erased that the ledger holds about it: its record, what lists show of it, what was applied, %s, the bodies of %s, %s, its signing link.",
		"what "+connector.Plural(r.Erases.Changes, "change")+" wrote", connector.Plural(r.Erases.Deliveries, "delivery"), "what it is compared with others by")
	a.Say("Ids, statuses, times and the audit log stay.")
	for _, alike := range r.Alike {
		a.Say("Record %s of %s has the same name or e-mail address, and stays. If it is the same person: payersync ledger forget %[1]s --connection %[2]s.", show.Visible(alike.SourceID), alike.Connection)
	}
	for _, where := range r.Elsewhere {
		a.Say("%s", show.Visible(where))
	}
}

// notForgotten says why a payer is not forgotten, and what to do.
func notForgotten(name string, err error) error {
	next := ""
	switch {
	case errors.Is(err, state.ErrRunning):
		next = "try again when it has ended"
	case errors.Is(err, state.ErrUnderWay):
		next = fmt.Sprintf("let payersync sync bring it to its end, or wait %s and sync then", state.Arrival)
	case errors.Is(err, state.ErrUnlinking):
		next = "let payersync sync carry that out, or take it back: payersync payers unlink --keep"
	}
	if next == "" {
		return fmt.Errorf("cannot forget %s: %w", name, err)
	}
	return fmt.Errorf("cannot forget %s: %w; %s", name, err, next)
}

func (a *app) ledgerUnforgetCmd() *cobra.Command {
	var reason, connection string
	c := &cobra.Command{
		Use:   "unforget RECORD --reason TEXT",
		Short: "Let a payer be kept again that was forgotten, or a record that looks like one",
		Long: `Lets a record be kept again whose payer was forgotten, or a new record that is held
because it has the number, or the name and the e-mail address, of one that was. Nothing
that was erased comes back by itself: the next sync reads the books whole, and plans the
record as it is there. The word is kept with its reason in the audit log.`,
		Example: "  payersync ledger unforget C0001 --reason 'a customer again since May'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage.Errorf("letting a payer be kept again takes a reason: --reason 'a customer again since May'")
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				id, err := oneRecord(cmd.Context(), s, args[0], connection)
				if err != nil {
					return err
				}
				err = office.Unforget(cmd.Context(), s.Ledger, id, syncer.Operator{Name: actor(), Reason: reason})
				before := errors.Is(err, state.ErrNotForgotten)
				switch {
				case before:
					a.Say("Record %s is not forgotten: there is nothing to take back.", show.Visible(id.SourceID))
				case err != nil:
					return fmt.Errorf("cannot let %s be kept again: %w", show.Visible(id.SourceID), err)
				default:
					a.Say("Record %s is kept again: the next sync reads the books whole.", show.Visible(id.SourceID))
				}
				return a.Result(map[string]any{"connection": id.Connection, "source_id": id.SourceID, "said_before": before})
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection, where several have a record of that name")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}
