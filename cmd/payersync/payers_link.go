package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) payersLinkCmd() *cobra.Command {
	var d decision
	connection := ""
	c := &cobra.Command{
		Use:   "link RECORD CUSTOMER --reason TEXT",
		Short: "Say whose customer a record is; the next sync adopts it",
		Long: `Shows a record beside a customer of the billing service that carries no key of ours, or
the record's, field by field as the customer is and as it would be, and asks whether
the two are one. A yes is kept with its reason in the audit log; the next sync adopts
the customer, within the limits for plans. Nothing is sent before that sync.

To find out who may be who, and to decide on many, use payersync payers match.`,
		Example: "  payersync payers link C0001 9b2f1c --reason 'told us on the phone' && payersync sync",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.reason == "" {
				return usage.Errorf("linking a record takes a reason: --reason 'told us on the phone'")
			}
			return a.with(cmd.Context(), a.open, func(s *session.Session) error {
				r, err := oneRecord(cmd.Context(), s, args[0], connection)
				if err != nil {
					return err
				}
				proposal, err := a.attentionOf(s).Propose(cmd.Context(), office.Decision{Act: connector.ActLink, Record: r, Customer: args[1]})
				if err != nil {
					return notLinked(r.SourceID, args[1], err)
				}
				a.Say("Record %s, and customer %s.", show.Visible(r.SourceID), show.Visible(proposal.Customer))
				return a.decideOn(cmd.Context(), proposal, syncer.Operator{Name: actor(), Reason: d.reason}, d.yes)
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection, where several have a record of that name")
	d.flags(c)
	return c
}

// notLinked says why a record is not linked to a customer, and what to do.
func notLinked(sourceID, customer string, err error) error {
	next := "payersync payers show says how it stands"
	switch {
	case errors.Is(err, state.ErrLinkedAlready):
		next = "payersync payers unlink takes the record off the customer that it has"
	case errors.Is(err, syncer.ErrNoCustomer):
		next = "look its id up in the billing service, or in payersync payers match"
	case errors.Is(err, syncer.ErrCarriesAnother):
		next = "take that key off the customer in the billing service, if it is wrong"
	}
	return fmt.Errorf("cannot link %s to %s: %w; %s", show.Visible(sourceID), show.Visible(customer), err, next)
}
