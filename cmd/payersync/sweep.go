package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/health"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) sweepCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "sweep [NAME…]",
		Args:  cobra.ArbitraryArgs,
		Short: "Make one reconcile pass over the billing service",
		Long: `Reads every customer of the billing service once. It repairs mandate statuses that
came with no webhook, refreshes the index of keys, and reports customers that are
missing, have drift, or share a key. Then it compares all customers, and reports
payers with a second one. It changes nothing in the service. It ends with exit status
3 for a missing or doubled customer, a payer with a second customer, or a replaced,
disabled or deleted webhook subscription. payersync reports these, and never repairs
them by itself. All connections share one service, so the names only have to exist.`,
		Example: "  payersync sweep\n  payersync sweep --output json",
		RunE: a.runs(a.open, func(ctx context.Context, s *session.Session, names []string) error {
			if _, err := s.Config.Named(names); err != nil {
				return err
			}
			drained, err := s.Reconciler.Drain(ctx)
			if err != nil {
				return err
			}
			began := s.Ledger.Now()
			progress := show.NewProgress(a.ErrOut, a.now)
			swept, err := s.Reconciler.Sweep(reconcile.WithProgress(ctx, func(done, total int) {
				if !a.Quiet {
					progress.Show(syncer.Progress{Stage: "customers", Done: done, Total: total})
				}
			}))
			progress.End()
			a.warnForgotten(s.Config, err)
			if err != nil {
				return err
			}
			doubles, err := s.Syncer.FindDuplicates(ctx)
			if err != nil {
				return err
			}
			subscription, _, lookErr := followSubscription(ctx, s)
			looks := swept.Missing+swept.Unlisted+swept.Doubled+doubles.Records > 0 || subscription.Problem != "" &&
				!subscription.Closed()
			news, err := foundNews(ctx, s, swept, subscription, began)
			if err != nil {
				return err
			}
			if looks && news || !a.Quiet {
				if err := a.showSweep(drained, swept, doubles, subscription); err != nil {
					return err
				}
			}
			if doubles.Skipped && !a.Quiet {
				a.Print("Nobody looked for second customers of payers: the list of customers is not believed yet. Sweep again.")
			}
			if lookErr != nil {
				a.Print("%s", errorText(lookErr))
			}
			if looks {
				return exitError(exitAttention)
			}
			return nil
		}),
	}
	a.quietFlag(c, "print only findings that the sweep before did not have")
	return c
}

// foundNews reports whether a sweep found something unknown at its beginning.
func foundNews(ctx context.Context, s *session.Session, swept reconcile.SweepResult,
	subscription state.SubscriptionFacts, began time.Time) (bool, error) {
	// a missing customer is found once
	if swept.Missing > 0 || subscription.Problem != "" && !subscription.Since.Before(began.Truncate(time.Millisecond)) {
		return true, nil
	}
	newest, before, err := s.Ledger.LackingLately(ctx)
	if err != nil || newest > before {
		return true, err
	}
	counts, err := s.Ledger.ReasonCounts(ctx)
	return slices.ContainsFunc(counts,
		func(c state.ReasonCount) bool { return !c.Newest.Before(began.Truncate(time.Millisecond)) }), err
}

func (a *app) showSweep(drained reconcile.DrainResult, swept reconcile.SweepResult, doubles syncer.Duplicates,
	subscription state.SubscriptionFacts) error {
	if a.JSON() {
		return show.JSON(a.Out, struct {
			reconcile.SweepResult
			Duplicates   int                     `json:"duplicates"` // payers with a second customer
			Drained      reconcile.DrainResult   `json:"drained"`
			Subscription state.SubscriptionFacts `json:"subscription"`
		}{swept, doubles.Records, drained, subscription})
	}
	if c, changed := health.Subscription(subscription, show.Time); changed {
		a.Print("%s", show.Visible(conditionText(c)))
	}
	_, err := fmt.Fprintf(a.Out,
		"%s in the billing service: %s repaired, %d changed by others, %d missing, %d not listed, %d with a doubled key, %s with a second customer\n",
		connector.Plural(swept.Customers, "customer"), connector.Plural(swept.Repaired, "mandate status"), swept.Drifted,
		swept.Missing, swept.Unlisted, swept.Doubled, connector.Plural(doubles.Records, "payer"))
	return err
}
