package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

func (a *app) payersAskCmd() *cobra.Command {
	var not, undo bool
	var reason, connection string
	c := &cobra.Command{
		Use:   "ask RECORD…",
		Short: "Decide whether payers are asked for a mandate, whatever the mapping says",
		Long: `Decides that payersync asks payers for a mandate, or with --not that it does not. Name
payers by source id, key value, billing id or mandate id. The decision overrides the
rule mandate.request of the mapping. The audit log keeps it, and --undo takes it back.

Nothing is sent. The next plan shows the resulting signing links, and a run requests
them within the limits. After a cancelled mandate, use payersync mandates request with
a reason instead: it asks at once. A signing link from an earlier request stays;
payersync letters stop stops letters about it.`,
		Example: "  payersync payers ask C0001 C0002 --reason 'they agreed by phone'\n  payersync payers ask C0003 --not\n  payersync payers ask C0003 --undo",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runPayersAsk(cmd.Context(), args, not, undo, reason, connection)
		},
	}
	c.Flags().BoolVar(&not, "not", false, "do not ask them")
	c.Flags().BoolVar(&undo, "undo", false, "take the decision back: the mapping decides")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().StringVar(&connection, "connection", "", "the connection, if several have the record")
	return c
}

func (a *app) runPayersAsk(ctx context.Context, args []string, not, undo bool, reason, connection string) error {
	act := connector.ActAsk
	switch {
	case not && undo:
		return usage.Errorf("--not decides not to ask, and --undo takes a decision back; leave one of them out")
	case not:
		act = connector.ActAskNot
	case undo:
		act = connector.ActAskByRule
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		var records []state.RecordID
		for _, id := range args {
			r, err := oneRecord(ctx, s, id, connection)
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return connector.Each(records,
			func(r state.RecordID) error { return a.decideAsking(ctx, s, r, act, reason) })
	})
}

// askReport is the output of `payers ask --output json` for each record.
type askReport struct {
	Connection string                `json:"connection"`
	SourceID   string                `json:"source_id"`
	MandateID  string                `json:"mandate_id"`
	Asking     connector.AskDecision `json:"asking"` // "" where the mapping decides
	Before     bool                  `json:"said_before"`
}

func (a *app) decideAsking(ctx context.Context, s *session.Session, r state.RecordID, act connector.Act,
	reason string) error {
	out, sure, err := a.act(ctx, s, admin.Decision{Act: act, Record: r}, asksInWalk, reason, false)
	id := show.Visible(r.SourceID)
	switch {
	case errors.Is(err, state.ErrNoRecord):
		return fmt.Errorf("cannot decide on record %s: its payer was forgotten; payersync ledger forget --undo takes that back", id)
	case err != nil:
		return fmt.Errorf("cannot decide on record %s: %w", id, err)
	case !sure:
		return nil
	}
	said, d := "Record %s is to be asked", connector.Ask
	switch act {
	case connector.ActAskNot:
		said, d = "Record %s is not to be asked", connector.DoNotAsk
	case connector.ActAskByRule:
		said, d = "For record %s the mapping decides", connector.AskByRule
	}
	if !out.News {
		said += ", as before"
	}
	a.Print(said+". The next plan shows the effects; nothing was sent.", id)
	if d == connector.Ask && out.MandateID != "" {
		a.Print("  It has mandate %s already. No other one is asked for by itself, also after a cancellation: payersync mandates request asks.", show.Visible(out.MandateID))
	}
	return a.Result(askReport{r.Connection, r.SourceID, out.MandateID, d, !out.News})
}
