package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/state"
)

// deliveryReport is one delivery as `webhooks show` prints it.
type deliveryReport struct {
	state.StoredDelivery
	Members []billing.EventMember `json:"members"`        // its members, without values
	Body    string                `json:"body,omitempty"` // only with --body
	Erased  bool                  `json:"body_erased"`    // its bytes are not kept any more
}

func (a *app) webhooksShowCmd() *cobra.Command {
	var whole bool
	c := &cobra.Command{
		Use:   "show DELIVERY",
		Short: "Show one delivery with its outcome and members",
		Long: `Shows one delivery, and the reason of a quarantine. It lists the members without their
values, because a delivery may contain names and addresses. The paths are written as
in billing.webhook.event_paths. --body prints the delivery as received, and the audit
log keeps your name. You may omit the hash at the end of a delivery's key.`,
		Example: "  payersync webhooks show event:0b6f1c2e",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			return a.showDelivery(ctx, s, args[0], whole)
		}),
	}
	c.Flags().BoolVar(&whole, "body", false, "print the delivery as received; the audit log keeps your name")
	return c
}

func (a *app) showDelivery(ctx context.Context, s *session.Session, name string, whole bool) error {
	d, body, err := deliveriesOf(s).Named(ctx, name)
	if err != nil {
		return noDelivery(err, name)
	}
	r := deliveryReport{StoredDelivery: d, Erased: len(body) == 0}
	r.Members, _ = billing.EventMembers(body) // what is no object has none, and its detail says so
	if whole {
		if err := deliveriesOf(s).NoteShown(ctx, d.DeliveryKey, actor()); err != nil {
			return err
		}
		r.Body = string(body)
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.printDelivery(r)
	return nil
}

func (a *app) printDelivery(r deliveryReport) {
	rows := [][]string{
		{"Delivery", r.DeliveryKey}, {"Received", r.ReceivedAt}, {"Type", r.EventType}, {"Customer", r.BillingID},
		{"Mandate", r.MandateID},
		{"State", r.State}, {"Why", r.Detail}, {"Came again", fmt.Sprint(r.Repeats)},
	}
	if r.Erased {
		rows = append(rows, []string{"Body", "not kept any more: its time is over, or its payer was forgotten"})
	}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(a.Out, "%-11s %s\n", row[0], show.Visible(row[1]))
		}
	}
	if len(r.Members) > 0 {
		fmt.Fprintln(a.Out, "\nIt consists of")
		rows := connector.Map(r.Members, func(m billing.EventMember) []string { return []string{m.Path, m.Kind} })
		show.Table(a.Out, []string{"Member", "Value"}, rows)
	}
	if r.Body != "" {
		fmt.Fprintf(a.Out, "\n%s\n", shownLines(r.Body))
	}
}

// deliveriesOf returns the acts on deliveries.
func deliveriesOf(s *session.Session) *admin.Deliveries {
	return &admin.Deliveries{Ledger: s.Ledger, Read: func(typeHeader, eventType string, body []byte) []state.Delivery {
		return server.RereadEvents(eventPaths(s), typeHeader, eventType, body)
	}}
}

// noDelivery says where to find the keys of deliveries.
func noDelivery(err error, name string) error {
	if errors.Is(err, admin.ErrNoDelivery) {
		return fmt.Errorf("no delivery has the key %q, or several begin with it; payersync webhooks list shows the keys",
			name)
	}
	return err
}

func (a *app) webhooksReplayCmd() *cobra.Command {
	var quarantined bool
	c := &cobra.Command{
		Use:   "replay DELIVERY…",
		Args:  cobra.ArbitraryArgs,
		Short: "Reflect deliveries again, or understand them anew",
		Long: `Processes deliveries again: payersync reads their customers once more. It parses a
quarantined delivery with the present billing.webhook.event_paths, and splits it if
they name a list of events. A replay does no harm, because a delivery only causes a
read. You may omit the hash at the end of a delivery's key.

--quarantined parses all quarantined deliveries. Readable ones go back to the inbox;
the others stay in quarantine, with the reason.`,
		Example: "  payersync webhooks replay event:0b6f1c2e\n  payersync webhooks replay --quarantined",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runWebhooksReplay(cmd.Context(), args, quarantined)
		},
	}
	c.Flags().BoolVar(&quarantined, "quarantined", false, "all quarantined deliveries")
	return c
}

func (a *app) runWebhooksReplay(ctx context.Context, args []string, quarantined bool) error {
	if quarantined == (len(args) > 0) {
		return usage.Errorf("name the deliveries to replay, or all quarantined ones with --quarantined")
	}
	return a.with(ctx, a.open, func(s *session.Session) error {
		if quarantined {
			return a.replayQuarantined(ctx, s)
		}
		if err := connector.Each(args,
			func(name string) error { return a.replayDelivery(ctx, s, name) }); err != nil {
			return err
		}
		drained, err := s.Reconciler.Drain(ctx)
		if err != nil {
			return err
		}
		return a.showDrained(drained)
	})
}

func (a *app) showDrained(drained reconcile.DrainResult) error {
	if a.JSON() {
		return show.JSON(a.Out, drained)
	}
	text := connector.Plural(drained.Reflected+drained.Superseded, "customer") + " read again"
	if drained.Parked > 0 {
		text += fmt.Sprintf(", %d not known yet and looked for again later", drained.Parked)
	}
	_, err := fmt.Fprintln(a.Out, text+".")
	return err
}

// replayDelivery puts one delivery back.
func (a *app) replayDelivery(ctx context.Context, s *session.Session, name string) error {
	_, _, err := a.act(ctx, s, admin.Decision{Act: connector.ActReplay, Delivery: name}, asksInWalk, "", false)
	var unclear admin.NotUnderstoodError
	switch {
	case errors.As(err, &unclear):
		return fmt.Errorf("cannot replay %s: %s See payersync webhooks show %[1]s, and name its members in billing.webhook.event_paths; or give it up with payersync webhooks close",
			show.Visible(name), unclear.Detail)
	case errors.Is(err, admin.ErrNoDelivery):
		return fmt.Errorf("cannot replay: %w", noDelivery(err, name))
	case err != nil:
		return fmt.Errorf("cannot replay %s: %w", show.Visible(name), err)
	}
	return nil
}

func (a *app) webhooksCloseCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "close DELIVERY… --reason TEXT",
		Short: "Give up deliveries that nobody can understand",
		Long: `Closes deliveries that are quarantined or have an unknown customer, so that they need
no more attention. They stay in the inbox as ignored, and the audit log keeps your
name and the reason. The sweep repairs their effects. You may omit the hash at the end
of a delivery's key.`,
		Example: "  payersync webhooks close event:0b6f1c2e --reason 'a test of the provider'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage.Errorf("closing a delivery takes a reason: --reason 'a test of the provider'")
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				return connector.Each(args, func(name string) error { return a.closeDelivery(cmd.Context(), s, name, reason) })
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) closeDelivery(ctx context.Context, s *session.Session, name, reason string) error {
	out, sure, err := a.act(ctx, s, admin.Decision{Act: connector.ActCloseDelivery, Delivery: name}, asksInWalk, reason,
		false)
	key := out.Key
	switch {
	case errors.Is(err, admin.ErrNoDelivery):
		return fmt.Errorf("cannot close: %w", noDelivery(err, name))
	case err != nil:
		return fmt.Errorf("cannot close %s: %w", show.Visible(name), err)
	case !sure:
		return nil
	case !out.News:
		a.Print("Delivery %s was closed before.", show.Visible(key))
		return a.Result(map[string]string{"delivery_key": key})
	}
	a.Print("Delivery %s is closed.", show.Visible(key))
	return a.Result(map[string]string{"delivery_key": key})
}
