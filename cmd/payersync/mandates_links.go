package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) mandatesLinksCmd() *cobra.Command {
	var which admin.Links
	var lost, yes bool
	var older string
	c := &cobra.Command{
		Use:   "links (--lost | --older DAYS)",
		Short: "Fetch lost or old signing links again",
		Long: `Asks the billing service again for the signing links of unsigned mandates. --lost
selects the lost ones: the answer was lost, the ledger was rebuilt, or the signing
link expired (billing.link_valid). --older selects those last fetched so long ago, and
so checks whether they are still the same. payersync never opens a signing link. If
the service refuses one, payersync shows it no more, and attention list reports it.

billing.dialect.link_when_created says what another request returns. It is the same
mandate, or a new mandate in place of the open one (the command asks about each), or
unknown (it asks about all at once; --yes answers). After an interruption, run it
again: it goes on with the rest. The audit log keeps your name.`,
		Example: "  payersync mandates links --lost\n  payersync mandates links --older 30d --connection acme --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runMandatesLinks(cmd.Context(), which, lost, yes, older)
		},
	}
	c.Flags().BoolVar(&lost, "lost", false, "the lost signing links")
	c.Flags().StringVar(&older, "older", "", "the signing links fetched so many days ago, for example 30d")
	c.Flags().StringVar(&which.Connection, "connection", "", "only this connection")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) runMandatesLinks(ctx context.Context, which admin.Links, lost, yes bool, older string) error {
	if lost == (older != "") {
		return usage.Errorf("select the signing links: payersync mandates links --lost, or --older 30d")
	}
	if older != "" {
		var days config.Days
		if err := days.UnmarshalText([]byte(older)); err != nil {
			return usage.Errorf("--older: %v", err)
		}
		which.Older = days.Length()
	}
	return a.with(ctx, a.open, func(s *session.Session) error {
		if err := s.Config.Has(which.Connection); err != nil {
			return err
		}
		acts := mandatesOf(s)
		payers, err := acts.Find(ctx, which)
		if err != nil {
			return err
		}
		if payers, err = a.chooseLinks(ctx, acts, payers, yes); err != nil {
			return err
		}
		return a.fetchLinks(ctx, acts, payers)
	})
}

// chooseLinks returns the payers whose signing link may be requested again.
func (a *app) chooseLinks(ctx context.Context, acts *admin.Mandates, payers []state.Payer, yes bool) ([]state.Payer,
	error) {
	asks := acts.Asks(len(payers))
	n := connector.Plural(len(payers), "payer")
	switch {
	case asks == admin.AskNothing:
		return payers, nil
	case asks == admin.AskOnce:
		sure, err := a.Confirms(ctx, yes, fmt.Sprintf("the signing links of %s would be requested again", n),
			fmt.Sprintf("Ask again for the signing links of %s?", n))
		if err != nil || !sure {
			return nil, err
		}
		return payers, nil
	case a.Unasked() != "":
		return nil, usage.Errorf("billing.dialect.link_when_created says that another request replaces the open mandate, so you must confirm each of the %s, and %s: run it on a terminal, or name one with payersync mandates request", n, a.Unasked())
	}
	var chosen []state.Payer
	for _, p := range payers {
		sure, err := a.Asks(ctx, "Replace the open mandate of record %s by a new one?", show.Visible(p.SourceID))
		if err != nil {
			return nil, err
		}
		if sure {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// fetchLinks requests the signing links of the payers from chooseLinks.
func (a *app) fetchLinks(ctx context.Context, acts *admin.Mandates, payers []state.Payer) error {
	progress := show.NewProgress(a.ErrOut, a.now)
	defer progress.End()
	r, ended := acts.Fetch(ctx, admin.Fetching{
		Payers: payers, Said: true, By: syncer.Operator{Name: actor()}, Progress: progress.Show,
		Failed: func(sourceID string, err error) {
			a.report(fmt.Errorf("%s: cannot fetch the signing link: %w", show.Visible(sourceID), err))
		},
	})
	if err := a.showLinks(r); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	if r.Failed > 0 {
		return exitError(exitAttention)
	}
	return nil
}

func (a *app) showLinks(r admin.Fetched) error {
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	if r.Asked == 0 {
		_, err := fmt.Fprintln(a.Out, "No signing link is to be fetched, or none was chosen.")
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s of %d fetched, %d failed. payersync mandates list --links shows them.\n",
		connector.Plural(r.Fetched, "link"), r.Asked, r.Failed)
	return err
}
