package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/connector"
	"payersync/state"
)

func (a *app) payersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "payers",
		Short:   "Show who is where",
		Example: "  payersync payers list --state missing\n  payersync payers show C0001",
	}
	return subcommands(c, a.payersListCmd(), a.payersShowCmd())
}

func (a *app) payersListCmd() *cobra.Command {
	var f state.Filter
	c := &cobra.Command{
		Use:     "list",
		Short:   "List payers and where they stand",
		Example: "  payersync payers list --connection acme --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.openLedger(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			return a.listPayers(cmd.Context(), s, f)
		},
	}
	c.Flags().StringVar(&f.Connection, "connection", "", "only this connection")
	c.Flags().StringVar(&f.State, "state", "", "only this link state (new, creating, linked, missing, conflict, held)")
	c.Flags().IntVar(&f.Limit, "limit", 0, "at most so many; 0 for all")
	return c
}

func (a *app) listPayers(ctx context.Context, s *session, f state.Filter) error {
	payers, err := s.ledger.Payers(ctx, f)
	if err != nil {
		return err
	}
	if a.json() {
		return printLines(a.out, payers)
	}
	var rows [][]string
	for _, p := range payers {
		rows = append(rows, []string{p.Connection, p.SourceID, p.KeyName + "=" + p.KeyValue, p.LinkState, shown(p.BillingID), shown(p.MandateStatus), shown(p.AttentionReason)})
	}
	printTable(a.out, []string{"Connection", "Record", "Key", "Link", "Customer", "Mandate", "Attention"}, rows)
	return nil
}

func (a *app) payersShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one payer: its link, its mandates, what needs attention",
		Long:    "Shows one payer by source id, key value, billing id or mandate id.",
		Example: "  payersync payers show C0001\n  payersync payers show C0001 --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.openLedger(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			payers, err := s.ledger.FindPayers(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(payers) == 0 {
				return fmt.Errorf("cannot show %q: no payer has it as source id, key value, billing id or mandate id; payersync payers list shows all", args[0])
			}
			for _, p := range payers {
				if err := a.showPayer(cmd.Context(), s, p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// payerReport is what `payers show --output json` prints for a payer.
type payerReport struct {
	Connection string               `json:"connection"`
	SourceID   string               `json:"source_id"`
	Key        connector.Key        `json:"key"`
	LinkState  connector.LinkState  `json:"link_state"`
	BillingID  string               `json:"billing_id,omitempty"`
	MandateID  string               `json:"mandate_id,omitempty"`
	Applied    *connector.Customer  `json:"applied,omitempty"` // what the customer holds of us
	History    []state.HistoryRow   `json:"history"`
	Attention  []state.AttentionRow `json:"attention"`
}

func (a *app) showPayer(ctx context.Context, s *session, p state.Payer) error {
	r := payerReport{Connection: p.Connection, SourceID: p.SourceID, Key: p.Key, LinkState: p.LinkState, BillingID: p.BillingID, MandateID: p.MandateID, Applied: p.Applied}
	var err error
	if r.History, err = s.ledger.History(ctx, p.BillingID); err != nil {
		return err
	}
	if r.Attention, err = s.ledger.AttentionOf(ctx, p.Connection, p.SourceID); err != nil {
		return err
	}
	if a.json() {
		return printJSON(a.out, r)
	}
	fmt.Fprintf(a.out, "%s, record %s (%s): %s\n", r.Connection, visible(r.SourceID), visible(r.Key.String()), r.LinkState)
	if r.BillingID != "" {
		fmt.Fprintf(a.out, "  customer %s\n", visible(r.BillingID))
	}
	if r.Applied != nil {
		for _, d := range connector.Diff(connector.Customer{}, *r.Applied) {
			fmt.Fprintf(a.out, "    %s: %q\n", d.Path, visible(d.To))
		}
	}
	for _, h := range r.History {
		fmt.Fprintf(a.out, "  %s  mandate %s: %s (seen by %s)\n", h.ObservedAt, visible(h.MandateID), visible(connector.MandateStatus(h.ToStatus).Label()), h.Cause)
	}
	for _, n := range r.Attention {
		fmt.Fprintf(a.out, "  ! %s %s\n", n.Detail, connector.Reason(n.Reason).Next())
	}
	return nil
}
