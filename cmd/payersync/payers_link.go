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
		Short: "Say which customer belongs to a record; the next run links it",
		Long: `Shows a record beside a customer of the billing service without a payersync key, or
with the record's key. It shows the present and the new value of each field, and asks
whether the two belong together. The audit log keeps a yes with its reason. The next
run links the customer, within the limits for plans. Nothing is sent before that run.

To find matches, and to decide on many, use payersync payers match.`,
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
	c.Flags().StringVar(&connection, "connection", "", "the connection, if several have the record")
	d.flags(c)
	return c
}

// notLinked says why a record is not linked to a customer, and what to do.
func notLinked(sourceID, customer string, err error) error {
	next := "payersync payers show says how it stands"
	switch {
	case errors.Is(err, state.ErrLinkedAlready):
		next = "payersync payers unlink unlinks the record from its present customer"
	case errors.Is(err, syncer.ErrNoCustomer):
		next = "look its id up in the billing service, or in payersync payers match"
	case errors.Is(err, syncer.ErrCarriesAnother):
		next = "remove that key from the customer in the billing service, if it is wrong"
	}
	return fmt.Errorf("cannot link %s to %s: %w; %s", show.Visible(sourceID), show.Visible(customer), err, next)
}
