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
		Short: "Keep no longer what is older than the configured retention",
		Long: `Erases what is personal, decides nothing any more and is older than retention says in
the configuration: the bodies of webhooks that are done with, and the requests of settled
changes with the customers before them. Ids, statuses, times, counts, the history of
mandates, the audit log and the field changes that plans show stay, and so does what is
still needed: webhooks that were not understood until they are closed,
requests without an answer, and the newest change of every payer. A change whose details
are gone cannot be undone.

payersync serve does it by schedules.retention; this is for those who run commands by
cron. It writes a little at a time, so it may be interrupted and run beside anything.`,
		Example: "  payersync ledger retain --dry-run\n  payersync ledger retain",
		RunE:    a.runs(a.openLedger, func(ctx context.Context, s *session.Session, _ []string) error { return a.retain(ctx, s, dry) }),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be kept no longer")
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
	a.Say("The bodies of %s, older than %d days, and the details of %s, older than %d days, %s.", connector.Plural(r.Bodies, "webhook"), days.WebhookBodies,
		connector.Plural(r.Details, "change"), days.ChangeDetails, what)
	if r.Reasons > 0 {
		a.Say("So it is with why %s ended, as the billing service said it, after thirteen months.", connector.Plural(r.Reasons, "mandate"))
	}
	return a.Result(r)
}
