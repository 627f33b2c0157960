package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) attentionCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "attention",
		Short:   "Show the records that need a person, try them again, or close what is known",
		Example: "  payersync attention list\n  payersync attention retry C0001 && payersync sync\n  payersync attention close C0002 --reason 'it pays until March'",
	}
	return subcommands(c, a.attentionListCmd(), a.attentionRetryCmd(), a.attentionCloseCmd())
}

func (a *app) attentionListCmd() *cobra.Command {
	var f state.Filter
	c := &cobra.Command{
		Use:     "list",
		Short:   "List what is the matter with which record, and what to do",
		Example: "  payersync attention list --reason email_malformed --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
				f.Limit = a.limitOf(cmd)
				return a.listAttention(cmd.Context(), s, f)
			})
		},
	}
	c.Flags().StringVar(&f.Connection, "connection", "", "only this connection")
	c.Flags().StringVar(&f.State, "reason", "", "only this reason code")
	limitFlag(c)
	return c
}

func (a *app) listAttention(ctx context.Context, s *session.Session, f state.Filter) error {
	if err := errors.Join(s.Config.Has(f.Connection), oneOf("reason", f.State, reasons()...)); err != nil {
		return err
	}
	limit := f.Limit
	f.Limit = oneMore(limit)
	attention, err := s.Ledger.Attention(ctx, f)
	if err != nil {
		return err
	}
	attention, more := upTo(attention, limit)
	defer a.tellMore(more, limit)
	if a.JSON() {
		return show.Lines(a.Out, attention)
	}
	var records []state.RecordID
	for _, r := range attention {
		if r.Connection != "" { // else it is a delivery
			records = append(records, state.RecordID{Connection: r.Connection, SourceID: r.SourceID})
		}
	}
	known, err := a.labelsOf(ctx, s, records)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, r := range attention {
		name := known[state.RecordID{Connection: r.Connection, SourceID: r.SourceID}].Name
		rows = append(rows, []string{r.Connection, r.SourceID, name, r.Detail, connector.Reason(r.Reason).Next()})
	}
	a.Rows(named([]string{"Connection", "Record", "Name", "What is the matter", "What to do"}, rows))
	return nil
}

// reasons are the codes of why a record needs a person.
func reasons() []connector.Reason { return slices.Sorted(maps.Keys(connector.Reasons)) }

func (a *app) attentionRetryCmd() *cobra.Command {
	var connection, reason string
	c := &cobra.Command{
		Use:   "retry [ID]",
		Short: "Let the next sync try records again although they did not change",
		Long: `Lets the next sync plan a record again by its source id, for example after a refusal
of the billing service was put right there; with --reason, every record that needs
a person for that reason. Nothing is sent before that sync.`,
		Example: "  payersync attention retry C0001 && payersync sync\n  payersync attention retry --reason rejected && payersync sync",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (reason != "") {
				return usage.Errorf("name one record, or a reason: payersync attention retry C0001, or payersync attention retry --reason rejected")
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				if err := errors.Join(s.Config.Has(connection), oneOf("reason", reason, reasons()...)); err != nil {
					return err
				}
				if reason != "" {
					return a.retryReason(cmd.Context(), s, state.Filter{Connection: connection, State: reason})
				}
				names, err := s.Config.Named(nil)
				if connection != "" {
					names, err = s.Config.Named([]string{connection})
				}
				if err != nil {
					return err
				}
				return a.retry(cmd.Context(), s, names, args[0])
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the records' connection; all of them when left out")
	c.Flags().StringVar(&reason, "reason", "", "every record that needs a person for this reason code")
	return c
}

// retryReason lets the next sync try every record again that the filter finds.
func (a *app) retryReason(ctx context.Context, s *session.Session, f state.Filter) error {
	found, err := s.Ledger.Attention(ctx, f)
	if err != nil {
		return err
	}
	marked := 0
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		marked = 0
		for _, r := range found {
			again, err := tx.RetryRecord(r.Connection, r.SourceID)
			if err != nil {
				return err
			}
			if again {
				marked++
			}
		}
		return tx.Audit(state.Entry{Actor: actor(), Action: "retry records", Subject: connector.Plural(marked, "record"), Reason: f.State})
	}); err != nil {
		return err
	}
	a.Say("The next sync tries %s again.", connector.Plural(marked, "record"))
	return a.Result(map[string]any{"reason": f.State, "records": marked})
}

func (a *app) retry(ctx context.Context, s *session.Session, connections []config.Connection, sourceID string) error {
	found := false
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		for _, c := range connections {
			marked, err := tx.RetryRecord(c.Name, sourceID)
			if err != nil {
				return err
			}
			found = found || marked
		}
		if !found {
			return nil
		}
		return tx.Audit(state.Entry{Actor: actor(), Action: "retry record", Subject: sourceID})
	}); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("cannot retry %q: no record has this source id; payersync attention list shows them", sourceID)
	}
	a.Say("The next sync tries record %s again.", show.Visible(sourceID))
	return a.Result(map[string]string{"source_id": sourceID})
}

func (a *app) attentionCloseCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "close ID… --reason TEXT",
		Short: "Say that payers whose records have left may stay as they are",
		Long: `Closes what is told of payers whose records have left, by source id, key value,
billing id or mandate id: left_with_mandate and record_gone. Nothing is sent, and
the mandates still hold. A payer is told of again when its record returns and leaves
once more, or when another mandate appears. The audit log keeps who closed it and why.
Anything else that needs a person is over when it is put right.`,
		Example: "  payersync attention close C0002 C0003 --reason 'they pay until March'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usage.Errorf("closing takes a reason: --reason 'it pays until March'")
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				for _, id := range args {
					p, err := onePayer(cmd.Context(), s, id)
					if err != nil {
						return err
					}
					if err := a.letStay(cmd.Context(), s, p, syncer.Operator{Name: actor(), Reason: reason}); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) letStay(ctx context.Context, s *session.Session, p state.Payer, by syncer.Operator) error {
	if err := (&syncer.Syncer{Ledger: s.Ledger}).LetStay(ctx, p, by); err != nil {
		return fmt.Errorf("cannot close what is told of %s: %w", show.Visible(p.SourceID), err)
	}
	mandate := "It has no mandate."
	if p.MandateID != "" {
		mandate = fmt.Sprintf("Its mandate %s stays as it is.", show.Visible(p.MandateID))
	}
	a.Say("Closed for record %s. %s", show.Visible(p.SourceID), mandate)
	return a.Result(map[string]string{"source_id": p.SourceID, "mandate_id": p.MandateID})
}
