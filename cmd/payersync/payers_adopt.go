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

func (a *app) payersAdoptCmd() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "adopt ID --reason TEXT",
		Short: "Link the customer with a record's key, although it looks like somebody else",
		Long: `Shows a record on hold (key_disputed) beside the customer with its key in the billing
service. It shows the present and the new value of each field, and asks whether the
two belong together. The audit log keeps a yes with its reason, for this customer
alone. The next run links the customer, within the limits for plans. Nothing is sent
before that run.`,
		Example: "  payersync payers adopt C0001 --reason 'renamed in March' && payersync sync",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usage.Errorf("linking a customer needs a reason: --reason 'renamed in March'")
			}
			return a.withPayer(cmd.Context(), args[0], func(s *session.Session, p state.Payer) error {
				return a.adopt(cmd.Context(), s, p, syncer.Operator{Name: actor(), Reason: reason}, yes)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

// adoptReport is the output of `payers adopt --output json`.
type adoptReport struct {
	SourceID  string                  `json:"source_id"`
	BillingID string                  `json:"billing_id"`
	Differs   []string                `json:"differs"`
	Diff      []connector.FieldChange `json:"diff"`
	Accepted  bool                    `json:"accepted"`
}

func (a *app) adopt(ctx context.Context, s *session.Session, p state.Payer, by syncer.Operator, yes bool) error {
	proposal, err := a.attentionOf(s).Propose(ctx, office.Decision{Act: connector.ActAdopt, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}})
	if errors.Is(err, syncer.ErrNoHolder) {
		return fmt.Errorf("cannot link a customer to %s: %w; payersync payers show prints its state", show.Visible(p.SourceID), err)
	}
	if err != nil {
		return err
	}
	a.Say("Customer %s carries %s, the key of record %s.", show.Visible(proposal.Customer), show.Visible(p.Key.String()), show.Visible(p.SourceID))
	return a.decideOn(ctx, proposal, by, yes)
}

// decideOn shows a record's values beside those of a customer, asks whether the two are one, and
// notes a yes.
func (a *app) decideOn(ctx context.Context, proposal office.Proposal, by syncer.Operator, yes bool) (err error) {
	h, p := proposal.Holder, proposal.Record
	if len(h.Against) > 0 {
		a.Say("These values differ: %s.", strings.Join(h.Against, ", "))
	}
	if len(h.Diff) > 0 {
		a.Say("The customer's present and new values:")
	}
	for _, d := range h.Diff {
		a.Say("  %s: %q → %q", d.Path, show.Visible(d.From), show.Visible(d.To))
	}
	report := adoptReport{SourceID: p.SourceID, BillingID: h.Customer, Differs: append([]string{}, h.Against...), Diff: append([]connector.FieldChange{}, h.Diff...)}
	report.Accepted, err = a.Confirms(ctx, yes, fmt.Sprintf("cannot link a customer to %s without a yes, so nothing was noted", show.Visible(p.SourceID)), "Is it the record's customer?")
	if err != nil {
		return err
	}
	if report.Accepted {
		if err := proposal.Note(ctx, by); err != nil {
			return fmt.Errorf("cannot link a customer to %s: %w; payersync payers show prints its state", show.Visible(p.SourceID), err)
		}
		a.Say("The next run links it.")
	} else {
		a.Say("Nothing was noted.")
	}
	return a.Result(report)
}
