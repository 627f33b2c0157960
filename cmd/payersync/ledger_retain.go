package main

import (
	"context"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/state"
)

func (a *app) ledgerRetainCmd() *cobra.Command {
	dry := false
	c := &cobra.Command{
		Use:   "retain [--dry-run]",
		Short: "Erase data older than the configured retention",
		Long: `Erases personal data that is older than retention in the configuration and has no
further use: the bodies of finished webhooks, and the requests of finished changes
with the customers before them. Ids, statuses, times, counts, the history of mandates,
the audit log and the field changes of plans stay. Data in use stays too: unreadable
webhooks until you close them, requests without an answer, and the newest change of
every payer. You cannot undo a change without its details.

payersync serve does this by schedules.retention; use this command if you start
commands by cron. It writes in small steps, so you may interrupt it, and run it beside
anything.`,
		Example: "  payersync ledger retain --dry-run\n  payersync ledger retain",
		RunE: a.runs(a.openLedger,
			func(ctx context.Context, s *session.Session, _ []string) error { return a.retain(ctx, s, dry) }),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show the data to erase")
	return c
}

// retainReport is the output of `ledger retain --output json`.
type retainReport struct {
	state.Retained
	BodiesAfter  int  `json:"webhook_bodies_days"`
	DetailsAfter int  `json:"change_details_days"`
	DryRun       bool `json:"dry_run"`
}

func (a *app) retain(ctx context.Context, s *session.Session, dry bool) (err error) {
	days := s.Config.Retention
	r := retainReport{BodiesAfter: days.WebhookBodies, DetailsAfter: days.ChangeDetails, DryRun: dry}
	what := "are kept no longer"
	if dry {
		what = "would be kept no longer"
		r.Retained, err = s.Ledger.WouldRetain(ctx, days.Limits())
	} else {
		r.Retained, err = s.Ledger.Retain(ctx, days.Limits())
	}
	if err != nil {
		return err
	}
	a.Print("The bodies of %s, older than %d days, and the details of %s, older than %d days, %s.",
		connector.Plural(r.Bodies, "webhook"), days.WebhookBodies,
		connector.Plural(r.Details, "change"), days.ChangeDetails, what)
	if r.Reasons > 0 {
		a.Print("So it is with why %s ended, as the billing service said it, after thirteen months.",
			connector.Plural(r.Reasons, "mandate"))
	}
	return a.Result(r)
}
