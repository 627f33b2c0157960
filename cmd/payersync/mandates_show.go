package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/connector"
	"payersync/state"
)

// mandateStory is one mandate as `mandates show` prints it; why a bank cancelled it
// only on demand.
type mandateStory struct {
	state.MandateRow
	History       []state.HistoryRow `json:"history"`
	FailureReason *string            `json:"failure_reason,omitempty"`
}

func (a *app) mandatesShowCmd() *cobra.Command {
	var reason bool
	c := &cobra.Command{
		Use:   "show MANDATE",
		Short: "Show one mandate and what became of it",
		Long: `Shows one mandate by its id, and every status it was seen in. Where a bank cancelled
it, the billing service may have given a code that says why. It is for debugging with
the service, and not for payers: --failure-reason shows it, and the audit log keeps
who looked.`,
		Example: "  payersync mandates show m8Qk2\n  payersync mandates show m8Qk2 --failure-reason",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.openLedger(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			story, err := s.mandateStory(cmd.Context(), args[0])
			if err == nil && reason {
				err = s.addFailureReason(cmd.Context(), &story)
			}
			if err != nil {
				return err
			}
			if a.json() {
				return printJSON(a.out, story)
			}
			a.printMandate(story)
			return nil
		},
	}
	c.Flags().BoolVar(&reason, "failure-reason", false, "with the service's code of why a bank cancelled it; the audit log keeps who looked")
	return c
}

func (s *session) mandateStory(ctx context.Context, id string) (mandateStory, error) {
	row, err := s.ledger.Mandate(ctx, id)
	if err != nil {
		return mandateStory{}, err
	}
	if row == nil {
		return mandateStory{}, fmt.Errorf("no mandate has the id %q; payersync mandates list shows all", id)
	}
	story := mandateStory{MandateRow: *row, History: []state.HistoryRow{}}
	moves, err := s.ledger.History(ctx, row.BillingID)
	for _, move := range moves {
		if move.MandateID == id {
			story.History = append(story.History, move)
		}
	}
	return story, err
}

// addFailureReason opens the reason once the audit log has that it was asked for.
func (s *session) addFailureReason(ctx context.Context, story *mandateStory) error {
	if err := s.ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: actor(), Action: "show failure reason", Subject: story.MandateID})
	}); err != nil {
		return err
	}
	reason, err := s.ledger.FailureReason(ctx, story.MandateID)
	story.FailureReason = &reason
	return err
}

func (a *app) printMandate(m mandateStory) {
	for _, row := range [][2]string{
		{"Mandate", m.MandateID}, {"Customer", m.BillingID}, {"Connection", shown(m.Connection)}, {"Record", shown(m.SourceID)},
		{"Status", connector.MandateStatus(m.Status).Label() + " since " + m.StatusSince}, {"Last seen", m.LastSeenAt},
	} {
		fmt.Fprintf(a.out, "%-11s %s\n", row[0], visible(row[1]))
	}
	if m.FailureReason != nil {
		reason := "none was given"
		if *m.FailureReason != "" {
			reason = *m.FailureReason + " (for debugging with the billing service; not for the payer)"
		}
		fmt.Fprintf(a.out, "%-11s %s\n", "Failure", visible(reason))
	}
	var rows [][]string
	for _, h := range m.History {
		rows = append(rows, []string{h.ObservedAt, h.FromStatus, h.ToStatus, h.ServiceTime, h.Cause})
	}
	fmt.Fprintln(a.out)
	a.printRows([]string{"Observed", "From", "To", "Service's time", "Learnt by"}, rows)
}
