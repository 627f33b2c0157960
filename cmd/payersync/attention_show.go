package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector/admin"
	"payersync/state"
)

func (a *app) attentionShowCmd() *cobra.Command {
	connection := ""
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Explain one finding, and the effect of each way to resolve it",
		Long: `Explains the findings about one record, one delivery or the webhook subscription. Name
a record by source id, key value, billing id or mandate id. Name a delivery by its
key, and the subscription by the word webhooks. The command shows the time, the facts
in the ledger, and every way to resolve the finding: the command to type, and its
effect. It reads the ledger, and sends nothing.`,
		Example: "  payersync attention show C0001\n  payersync attention show webhooks --output json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runAttentionShow(cmd, args, connection) },
	}
	c.Flags().StringVar(&connection, "connection", "", "the record's connection; the default is all connections")
	return c
}

func (a *app) runAttentionShow(cmd *cobra.Command, args []string, connection string) error {
	return a.with(cmd.Context(), a.mappingSession, func(s *session.Session) error {
		if err := s.Config.Has(connection); err != nil {
			return err
		}
		matters, err := a.mattersOf(cmd.Context(), s, args[0], connection)
		if err != nil {
			return err
		}
		for i, m := range matters {
			m := withCommands(cmd.Root(), m, len(matters) > 1)
			if a.JSON() {
				if err := show.JSON(a.Out, m); err != nil {
					return err
				}
				continue
			}
			if i > 0 {
				fmt.Fprintln(a.Out)
			}
			a.printMatter(m)
		}
		return nil
	})
}

// mattersOf returns the findings about the id.
func (a *app) mattersOf(ctx context.Context, s *session.Session, id, connection string) (out []admin.Matter,
	err error) {
	found, err := s.Ledger.FindRecords(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if connection != "" && r.Connection != connection {
			continue
		}
		m, _ := a.mappingOf(ctx, s, r.Connection) // what it would tell is left out, and its own commands say why
		matter, err := admin.MatterOf(ctx, s.Ledger, r, admin.Explainer{Mapping: m})
		if err != nil {
			return nil, err
		}
		out = append(out, matter)
	}
	if len(out) > 0 {
		return out, nil
	}
	if id == admin.Subscription {
		m, err := admin.MatterOfSubscription(ctx, s.Ledger)
		return []admin.Matter{m}, err
	}
	d, err := s.Ledger.DeliveryNamed(ctx, id)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("cannot show %q: no record%s has it as source id, key value, billing id or mandate id, and no delivery as its key; payersync attention list shows all findings", id, of(connection))
	}
	return []admin.Matter{admin.MatterOfDelivery(*d)}, nil
}

func (a *app) printMatter(m shownMatter) {
	title := "Delivery " + m.SourceID
	switch {
	case m.Connection != "":
		title = fmt.Sprintf("%s, record %s", m.Connection, strings.TrimSpace(m.SourceID+" "+m.Name))
	case m.SourceID == admin.Subscription:
		title = "The webhook subscription"
	}
	fmt.Fprintln(a.Out, show.Visible(title))
	if len(m.Told) == 0 {
		fmt.Fprintln(a.Out, "  Nothing is told of it.")
	}
	for _, t := range m.Told {
		fmt.Fprintf(a.Out, "\n! %s (%s, since %s)\n  %s\n", show.Visible(t.Detail), t.Reason, show.Stored(t.Since), t.Next)
		a.printWays(t.Ways)
	}
	if len(m.Evidence) > 0 {
		fmt.Fprintln(a.Out, "\nFacts in the ledger")
	}
	for _, e := range m.Evidence {
		fmt.Fprintf(a.Out, "  %s\n", show.Visible(e))
	}
	if len(m.Closed) > 0 {
		fmt.Fprintln(a.Out, "\nDecisions of people")
	}
	for _, c := range m.Closed {
		fmt.Fprintf(a.Out, "  %s\n", show.Visible(closedLine(c)))
	}
}

// closedLine says who closed a finding, when and why.
func closedLine(c state.ClosedRow) string {
	text := closedMeaning[c.Kind]
	if c.At != "" {
		text += fmt.Sprintf(", said by %s on %s: %s", c.By, show.Stored(c.At), c.Why)
	}
	return text
}
