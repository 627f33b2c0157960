package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// mandateStory is one mandate as `mandates show` prints it, with the service's reasons only on demand.
type mandateStory struct {
	state.MandateRow
	History        []state.HistoryRow    `json:"history"`
	FailureReason  *string               `json:"failure_reason,omitempty"` // the newest; "" when there is none
	FailureReasons []state.FailureReason `json:"failure_reasons,omitempty"`
}

func (a *app) mandatesShowCmd() *cobra.Command {
	var support bool
	c := &cobra.Command{
		Use:   "show MANDATE",
		Short: "Show one mandate and its history",
		Long: `Shows one mandate by its id, with every status seen. For a mandate cancelled by a
bank, the billing service may have given a reason code. The code is for questions to
the service, not for payers. --for-support shows it beside its status, and the audit
log keeps your name. It is kept for thirteen months.`,
		Example: "  payersync mandates show m8Qk2\n  payersync mandates show m8Qk2 --for-support",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			story, err := storyOf(ctx, s, args[0])
			if err == nil && support {
				err = addFailureReasons(ctx, s, &story)
			}
			if err != nil {
				return err
			}
			if a.JSON() {
				return show.JSON(a.Out, story)
			}
			a.printMandate(story)
			return nil
		}),
	}
	c.Flags().BoolVar(&support, "for-support", false,
		"with the service's reason codes of its statuses; the audit log keeps your name")
	c.Flags().BoolVar(&support, "failure-reason", false, "")
	_ = c.Flags().MarkHidden("failure-reason") // as it was called before
	return c
}

func storyOf(ctx context.Context, s *session.Session, id string) (mandateStory, error) {
	row, err := s.Ledger.Mandate(ctx, id)
	if err != nil {
		return mandateStory{}, err
	}
	if row == nil {
		return mandateStory{}, fmt.Errorf("no mandate has the id %q; payersync mandates list shows all", id)
	}
	story := mandateStory{MandateRow: *row, History: []state.HistoryRow{}}
	moves, err := s.Ledger.History(ctx, row.BillingID)
	story.History = append(story.History,
		connector.Filter(moves, func(move state.HistoryRow) bool { return move.MandateID == id })...)
	return story, err
}

// addFailureReasons unseals the reasons, after the audit log has stored the request for them.
func addFailureReasons(ctx context.Context, s *session.Session, story *mandateStory) error {
	if err := admin.Audit(ctx, s.Ledger, state.Entry{Actor: actor(), Action: "show failure reason", Subject: story.MandateID}); err != nil {
		return err
	}
	reasons, err := s.Ledger.FailureReasons(ctx, story.MandateID)
	newest := ""
	if len(reasons) > 0 {
		newest = reasons[len(reasons)-1].Code
	}
	story.FailureReason, story.FailureReasons = &newest, reasons
	return err
}

func (a *app) printMandate(m mandateStory) {
	for _, row := range [][2]string{
		{"Mandate", m.MandateID}, {"Customer", m.BillingID}, {"Connection", show.Value(m.Connection)},
		{"Record", show.Value(m.SourceID)},
		{"Status", connector.MandateStatus(m.Status).Label() + " since " + show.Stored(m.StatusSince)},
		{"Last seen", show.Stored(m.LastSeenAt)},
	} {
		fmt.Fprintf(a.Out, "%-11s %s\n", row[0], show.Visible(row[1]))
	}
	if m.FailureReason != nil && len(m.FailureReasons) == 0 {
		fmt.Fprintf(a.Out, "%-11s %s\n", "Failure", "none was given")
	}
	for _, r := range m.FailureReasons {
		fmt.Fprintf(a.Out, "%-11s %s\n", "Failure",
			show.Visible(fmt.Sprintf("%s, with %s on %s (for debugging with the billing service; not for the payer)", r.Code,
				connector.MandateStatus(r.Status).Label(), show.Stored(r.ObservedAt))))
	}
	var rows [][]string
	for _, h := range m.History {
		rows = append(rows, []string{h.ObservedAt, h.FromStatus, h.ToStatus, h.ServiceTime, h.Cause})
	}
	fmt.Fprintln(a.Out)
	a.Rows([]string{"Observed", "From", "To", "Service's time", "Learnt by"}, rows)
}
