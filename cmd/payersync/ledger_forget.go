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
	"payersync/connector/admin"
	"payersync/state"
)

func (a *app) ledgerForgetCmd() *cobra.Command {
	var d decision
	var connection string
	stays := false
	c := &cobra.Command{
		Use:   "forget RECORD --reason TEXT",
		Short: "Erase the personal values of one payer, and keep them from coming back",
		Long: `Erases all personal data of one payer from the ledger: its record, its match features,
sent and applied values, webhooks, and the signing link. Ids, statuses, times and
decisions of people stay. Name the record by source id, key value, billing id or
mandate id.

Later runs do not bring the payer back. A keyed hash of its identity stays in the
ledger and in a file beside it, so even an older backup does not restore the payer. If
a new record has its number, or its name and e-mail address, payersync puts it on hold
and reports it. payersync ledger forget --undo takes this back.

Nothing is sent, and nothing is deleted at the billing service. First cancel a mandate
that still holds (payersync mandates cancel), or keep it with --mandate-stays. While a
sent request may still arrive, you cannot forget the payer.

The command shows the data to erase and the data that remains elsewhere, and asks. The
audit log keeps a yes with its reason: write no name into the reason.`,
		Example: "  payersync ledger forget C0001 --reason 'request of 3 March, ticket 88'\n  payersync ledger forget C0001 --mandate-stays --yes --reason 'ticket 88'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runLedgerForget(cmd.Context(), args, d, connection, stays)
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection, if several have the record")
	c.Flags().BoolVar(&stays, "mandate-stays", false, "the payer's mandate stays as it is at the billing service")
	d.flags(c)
	return c
}

func (a *app) runLedgerForget(ctx context.Context, args []string, d decision, connection string, stays bool) error {
	if strings.TrimSpace(d.reason) == "" {
		return usage.Errorf("forgetting a payer takes a reason, without a name: --reason 'request of 3 March, ticket 88'")
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		id, err := oneRecord(ctx, s, args[0], connection)
		if err != nil {
			return err
		}
		return a.forget(ctx, s, id, stays, d)
	})
}

func (a *app) forget(ctx context.Context, s *session.Session, id state.RecordID, stays bool, d decision) error {
	name := show.Visible(id.SourceID)
	r, err := admin.ForgetOf(ctx, s.Ledger, id)
	switch {
	case errors.Is(err, state.ErrForgotten):
		a.Print("The payer of record %s was forgotten before, and nothing is left to erase; payersync ledger forget --undo takes it back.", name)
		return a.Result(r)
	case err != nil:
		return notForgotten(name, err)
	}
	a.sayForget(r)
	if r.MandateHolds() && !stays {
		return usage.Errorf("cannot forget %s: its mandate %s still holds (%s), and payersync would report it to nobody any more; cancel it first with payersync mandates cancel %[2]s, or keep it: --mandate-stays",
			name, show.Visible(r.MandateID), connector.MandateStatus(r.Mandate).Label())
	}
	proposal, err := a.attentionOf(s).Propose(ctx, admin.Decision{Act: connector.ActForget, Record: id, Stays: stays})
	if err != nil {
		return notForgotten(name, err)
	}
	sure, err := a.agrees(ctx, proposal, asksAlways, d.yes)
	switch {
	case err != nil:
		return err
	case !sure:
		return a.Result(r)
	}
	done, err := proposal.Perform(ctx, by(d.reason))
	if err != nil {
		return notForgotten(name, err)
	}
	r.FilesLater = done.Later
	r.Forgotten = true
	if s.Config.Node != nil {
		a.Print("Forgotten. Later runs do not bring it back. An older backup of the database does, if somebody restores it.")
	} else {
		a.Print("Forgotten. Later runs do not bring it back, nor does a backup, as long as %s stays beside the ledger.",
			state.ForgottenList(s.Config.Ledger.Path))
	}
	if r.FilesLater {
		a.Print("Another process was reading the ledger, so free pages of its files may still contain the erased data. The next start cleans them.")
	}
	return a.Result(r)
}

func (a *app) sayForget(r admin.Forgetting) {
	a.Print("Record %s of %s: %s.", show.Visible(r.SourceID), r.Connection, orElse(show.Visible(r.Name), "no name is known"))
	a.Print("The command would erase all personal data about it in the ledger: its record, the values in lists, the applied values, %s, the bodies of %s, %s, its signing link.",
		"what "+connector.Plural(r.Erases.Changes, "change")+" wrote", connector.Plural(r.Erases.Deliveries, "delivery"),
		"what it is compared with others by")
	for _, alike := range r.Alike {
		a.Print("Record %s of %s has the same name or e-mail address, and stays. If it is the same person: payersync ledger forget %[1]s --connection %[2]s.", show.Visible(alike.SourceID), alike.Connection)
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
		next = "let payersync sync carry that out, or take it back: payersync payers different --keep"
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
		Short: "Accept a forgotten payer again, or a new record that matches one",
		Long: `Accepts a record of a forgotten payer again, or a new record on hold with the number,
or the name and e-mail address, of a forgotten payer. The command restores no erased
data. The next run reads the accounting system completely, and plans the record with
its values there. The audit log keeps the decision with its reason.`,
		Example: "  payersync ledger forget --undo C0001 --reason 'a customer again since May'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runLedgerUnforget(cmd.Context(), args, reason, connection)
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection, if several have the record")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) runLedgerUnforget(ctx context.Context, args []string, reason, connection string) error {
	if strings.TrimSpace(reason) == "" {
		return usage.Errorf("letting a payer be kept again takes a reason: --reason 'a customer again since May'")
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		id, err := oneRecord(ctx, s, args[0], connection)
		if err != nil {
			return err
		}
		out, sure, err := a.act(ctx, s, admin.Decision{Act: connector.ActUnforget, Record: id}, asksInWalk,
			reason, false)
		switch {
		case err != nil:
			return fmt.Errorf("cannot let %s be kept again: %w", show.Visible(id.SourceID), err)
		case !sure:
			return nil
		case !out.News:
			a.Print("Record %s is not forgotten: there is nothing to take back.", show.Visible(id.SourceID))
		default:
			a.Print("Record %s is accepted again: the next run reads the accounting system completely.",
				show.Visible(id.SourceID))
		}
		return a.Result(map[string]any{"connection": id.Connection, "source_id": id.SourceID, "said_before": !out.News})
	})
}
