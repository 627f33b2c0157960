package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"payersync/connector/reconcile"
	"payersync/state"
)

func (a *app) sweepCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "sweep [NAME…]",
		Short: "Make one reconcile pass over the billing service",
		Long: `Reads every customer of the billing service once: repairs mandate statuses that no
webhook told, refreshes the index of keys, and reports customers that are missing,
changed by somebody else, or carry a key twice. It changes nothing in the service,
and ends with exit status 3 when it found one missing or doubled, or the webhook
subscription replaced, disabled or deleted. That is told and never put right by itself.
The service is one for all connections, so names only have to be known.`,
		Example: "  payersync sweep\n  payersync sweep --output json",
		RunE: func(cmd *cobra.Command, names []string) error {
			s, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			if _, err := s.cfg.configured(names); err != nil {
				return err
			}
			drained, err := s.reconciler.Drain(cmd.Context())
			if err != nil {
				return err
			}
			swept, err := s.reconciler.Sweep(cmd.Context())
			if err != nil {
				return err
			}
			subscription, _, lookErr := s.followSubscription(cmd.Context())
			looks := swept.Missing+swept.Unlisted+swept.Doubled > 0 || subscription.Problem != ""
			if looks || !a.quiet {
				if err := a.showSweep(drained, swept, subscription); err != nil {
					return err
				}
			}
			if lookErr != nil {
				a.say("%v", lookErr)
			}
			if looks {
				return exitError(exitAttention)
			}
			return nil
		},
	}
	a.quietFlag(c)
	return c
}

func (a *app) showSweep(drained reconcile.DrainResult, swept reconcile.SweepResult, subscription state.SubscriptionFacts) error {
	if a.json() {
		return printJSON(a.out, struct {
			reconcile.SweepResult
			Drained      reconcile.DrainResult   `json:"drained"`
			Subscription state.SubscriptionFacts `json:"subscription"`
		}{swept, drained, subscription})
	}
	for _, text := range subscriptionTexts(subscription) {
		a.say("%s", visible(text))
	}
	_, err := fmt.Fprintf(a.out, "%s in the billing service: %s repaired, %d changed by others, %d missing, %d not listed, %d with a doubled key\n",
		plural(swept.Customers, "customer"), plural(swept.Repaired, "mandate status"), swept.Drifted, swept.Missing, swept.Unlisted, swept.Doubled)
	return err
}
