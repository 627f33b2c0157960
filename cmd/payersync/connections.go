package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) connectionsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "connections",
		Short: "Say how two connections belong together",
		Long: `A new connection may read the same company as an old one, for example after a change
of the accounting system, or another company. Until you say which, payersync creates
no customer for a new record that matches a payer of the old connection.`,
		Example: "  payersync connections move acme-csv acme\n  payersync connections move --separate acme-csv acme --reason 'the sister company'",
	}
	return subcommands(c, also(a.connectionsMoveCmd(), "separate", a.connectionsSeparateCmd()))
}

func (a *app) connectionsSeparateCmd() *cobra.Command {
	var reason string
	undo := false
	c := &cobra.Command{
		Use:   "separate OLD NEW --reason TEXT",
		Short: "Say that two connections belong to separate companies",
		Long: `Notes that NEW and OLD are separate companies, although some of their payers match.
The next plan of NEW creates customers for its records as usual. OLD may be missing
from the configuration. Nothing is sent, and the audit log keeps the decision. --undo
takes it back.`,
		Example: `  payersync connections move --separate acme-csv acme --reason 'the sister company'
  payersync connections move --separate acme-csv acme --undo --reason 'they are the same company'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runConnectionsSeparate(cmd.Context(), args, reason, undo)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&undo, "undo", false, "take the decision back")
	return c
}

func (a *app) runConnectionsSeparate(ctx context.Context, args []string, reason string, undo bool) error {
	if reason == "" {
		return usage.Errorf("the decision takes a reason: --reason 'the sister company'")
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		d := state.ConnectionDecision{Old: args[0], New: args[1], Decision: state.BooksSeparate, Actor: actor(),
			Reason: reason}
		if undo {
			return a.takeSeparateBack(ctx, s, d)
		}
		return a.separateConnections(ctx, s, d)
	})
}

// separateReport is the output of `connections move --separate --output json`.
type separateReport struct {
	Old      string              `json:"old"`
	New      string              `json:"new"`
	Decision state.BooksDecision `json:"decision"` // "" when it was taken back
	Before   bool                `json:"said_before"`
}

func (a *app) separateConnections(ctx context.Context, s *session.Session, d state.ConnectionDecision) error {
	if err := s.Config.Has(d.New); err != nil {
		return err
	}
	news, err := admin.SeparateConnections(ctx, s.Ledger, d.Old, d.New, syncer.Operator{Name: d.Actor, Reason: d.Reason})
	if err != nil {
		return notDecided(d, err)
	}
	if news {
		a.Print("Noted: %s and %s are separate companies. The next plan of %[2]s uses this.", show.Visible(d.Old),
			show.Visible(d.New))
	} else {
		a.Print("%s and %s were separate before, and stay so.", show.Visible(d.Old), show.Visible(d.New))
	}
	return a.Result(separateReport{d.Old, d.New, d.Decision, !news})
}

func (a *app) takeSeparateBack(ctx context.Context, s *session.Session, d state.ConnectionDecision) error {
	if err := admin.UndoSeparation(ctx, s.Ledger, d.Old, d.New, syncer.Operator{Name: d.Actor, Reason: d.Reason}); err != nil {
		return notDecided(d, err)
	}
	a.Print("The decision that %s and %s are separate is taken back.", show.Visible(d.Old), show.Visible(d.New))
	return a.Result(separateReport{Old: d.Old, New: d.New})
}

// notDecided says why a decision about two connections was not taken, and what to do.
func notDecided(d state.ConnectionDecision, err error) error {
	next := ""
	switch {
	case errors.Is(err, state.ErrNoConnection):
		next = "; only a connection with an earlier run can be named"
	case errors.Is(err, state.ErrSameConnection):
		next = "; name the old one and the new one"
	}
	return fmt.Errorf("cannot decide about the connections %s and %s: %w%s", show.Visible(d.Old), show.Visible(d.New), err,
		next)
}
