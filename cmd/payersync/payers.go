package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/state"
)

func (a *app) payersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "payers",
		Short:   "Show who is where, and say who is who",
		Example: "  payersync payers list --state missing\n  payersync payers show C0001",
	}
	return subcommands(c, a.payersListCmd(), a.payersShowCmd(), a.payersMatchCmd(), a.payersAdoptCmd(), a.payersLinkCmd(), a.payersRekeyCmd(), a.payersMergeCmd(), a.payersUnlinkCmd(), a.payersUndoCmd(), a.payersDriftCmd())
}

var linkStates = []connector.LinkState{
	connector.LinkNew, connector.LinkCreating, connector.LinkLinked, connector.LinkMissing, connector.LinkConflict, connector.LinkHeld,
}

func (a *app) payersListCmd() *cobra.Command {
	var f state.Filter
	c := &cobra.Command{
		Use:     "list",
		Short:   "List payers and where they stand",
		Example: "  payersync payers list --connection acme --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
				return a.listPayers(cmd.Context(), s, f)
			})
		},
	}
	c.Flags().StringVar(&f.Connection, "connection", "", "only this connection")
	c.Flags().StringVar(&f.State, "state", "", "only this link state (new, creating, linked, missing, conflict, held)")
	c.Flags().IntVar(&f.Limit, "limit", 0, "at most so many; 0 for all")
	return c
}

func (a *app) listPayers(ctx context.Context, s *session.Session, f state.Filter) error {
	if err := errors.Join(s.Config.Has(f.Connection), oneOf("state", f.State, linkStates...)); err != nil {
		return err
	}
	payers, err := s.Ledger.Payers(ctx, f)
	if err != nil {
		return err
	}
	if a.JSON() {
		return show.Lines(a.Out, payers)
	}
	var rows [][]string
	for _, p := range payers {
		rows = append(rows, []string{p.Connection, p.SourceID, p.KeyName + "=" + p.KeyValue, p.LinkState, show.Value(p.BillingID), show.Value(p.MandateStatus), show.Value(p.AttentionReason)})
	}
	a.Rows([]string{"Connection", "Record", "Key", "Link", "Customer", "Mandate", "Attention"}, rows)
	return nil
}
