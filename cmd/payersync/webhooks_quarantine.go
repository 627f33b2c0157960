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
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/state"
)

// deliveryReport is one delivery as `webhooks show` prints it.
type deliveryReport struct {
	state.StoredDelivery
	Members []billing.EventMember `json:"members"`        // what it consists of, without values
	Body    string                `json:"body,omitempty"` // only with --body
	Erased  bool                  `json:"body_erased"`    // its bytes are not kept any more
}

func (a *app) webhooksShowCmd() *cobra.Command {
	var whole bool
	c := &cobra.Command{
		Use:   "show DELIVERY",
		Short: "Show one delivery: what became of it, and what it consists of",
		Long: `Shows one delivery, and for one that was not understood why. Its members are listed
without their values, as billing.webhook.event_paths would name them: a delivery may
hold names and addresses. --body prints it as it came, and the audit log keeps who
looked. The hash at the end of a delivery's key may be left out.`,
		Example: "  payersync webhooks show event:0b6f1c2e",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				return a.showDelivery(cmd.Context(), s, args[0], whole)
			})
		},
	}
	c.Flags().BoolVar(&whole, "body", false, "print the delivery as it came; the audit log keeps who looked")
	return c
}

func (a *app) showDelivery(ctx context.Context, s *session.Session, name string, whole bool) error {
	d, body, err := deliveryNamed(ctx, s, name)
	if err != nil {
		return err
	}
	r := deliveryReport{StoredDelivery: d, Erased: len(body) == 0}
	r.Members, _ = billing.EventMembers(body) // what is no object has none, and its detail says so
	if whole {
		if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
			return tx.Audit(state.Entry{Actor: actor(), Action: "show delivery body", Subject: d.DeliveryKey})
		}); err != nil {
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
		{"Delivery", r.DeliveryKey}, {"Received", r.ReceivedAt}, {"Type", r.EventType}, {"Customer", r.BillingID}, {"Mandate", r.MandateID},
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
		var rows [][]string
		for _, m := range r.Members {
			rows = append(rows, []string{m.Path, m.Kind})
		}
		show.Table(a.Out, []string{"Member", "Value"}, rows)
	}
	if r.Body != "" {
		fmt.Fprintf(a.Out, "\n%s\n", shownLines(r.Body))
	}
}

// deliveryNamed finds the one delivery that a person means, and its body.
func deliveryNamed(ctx context.Context, s *session.Session, name string) (state.StoredDelivery, []byte, error) {
	d, err := s.Ledger.DeliveryNamed(ctx, name)
	if err != nil {
		return state.StoredDelivery{}, nil, err
	}
	if d == nil {
		return state.StoredDelivery{}, nil, fmt.Errorf("no delivery has the key %q, or several begin with it; payersync webhooks list shows the keys", name)
	}
	body, err := s.Ledger.DeliveryBody(ctx, d.DeliveryKey)
	if errors.Is(err, state.ErrBodyErased) {
		err = nil // what it is about is known all the same
	}
	return *d, body, err
}

func (a *app) webhooksReplayCmd() *cobra.Command {
	var quarantined bool
	c := &cobra.Command{
		Use:   "replay DELIVERY…",
		Short: "Reflect deliveries again, or understand them anew",
		Long: `Puts deliveries back into the inbox and reflects them: their customers are read once
more. One that was not understood is read anew with the present
billing.webhook.event_paths. Replaying does no harm, because a delivery is only a
hint to look. The hash at the end of a delivery's key may be left out.

--quarantined reads all anew that were not understood. Those that are now go back to
the inbox; the others stay where they are, and it says why.`,
		Example: "  payersync webhooks replay event:0b6f1c2e\n  payersync webhooks replay --quarantined",
		RunE: func(cmd *cobra.Command, args []string) error {
			if quarantined == (len(args) > 0) {
				return usage.Errorf("name the deliveries to replay, or all that were not understood with --quarantined")
			}
			return a.with(cmd.Context(), a.open, func(s *session.Session) error {
				if quarantined {
					return a.replayQuarantined(cmd.Context(), s)
				}
				for _, name := range args {
					if err := replayDelivery(cmd.Context(), s, name); err != nil {
						return err
					}
				}
				drained, err := s.Reconciler.Drain(cmd.Context())
				if err != nil {
					return err
				}
				return a.showDrained(drained)
			})
		},
	}
	c.Flags().BoolVar(&quarantined, "quarantined", false, "all that were not understood")
	return c
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

// replay puts one delivery back.
func replayDelivery(ctx context.Context, s *session.Session, name string) error {
	d, body, err := deliveryNamed(ctx, s, name)
	if err != nil {
		return fmt.Errorf("cannot replay: %w", err)
	}
	quarantined := d.State == string(connector.InboxQuarantined)
	if !quarantined && d.BillingID == "" && d.MandateID == "" {
		return fmt.Errorf("cannot replay %s: it names neither a customer nor a mandate, so there is nothing to read", show.Visible(d.DeliveryKey))
	}
	anew := server.Reread(eventPaths(s), d.TypeHeader, d.EventType, body)
	anew.Key = d.DeliveryKey
	if quarantined && anew.State == connector.InboxQuarantined {
		return fmt.Errorf("cannot replay %s: %s See payersync webhooks show %[1]s, and name its members in billing.webhook.event_paths; or give it up with payersync webhooks close",
			show.Visible(d.DeliveryKey), anew.Detail)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		if quarantined {
			if _, err := tx.RereadDelivery(anew); err != nil {
				return err
			}
		}
		if _, err := tx.ReplayDelivery(d.DeliveryKey); err != nil {
			return err
		}
		return tx.Audit(state.Entry{Actor: actor(), Action: "replay delivery", Subject: d.DeliveryKey})
	})
}

func (a *app) webhooksCloseCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "close DELIVERY… --reason TEXT",
		Short: "Give up deliveries that nobody can understand",
		Long: `Closes deliveries that were not understood, or whose customer nobody knows, so that
they no longer need a person. They stay in the inbox as ignored, and the audit log
keeps who closed them and why. What they meant is left to the sweep. The hash at the
end of a delivery's key may be left out.`,
		Example: "  payersync webhooks close event:0b6f1c2e --reason 'a test of the provider'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage.Errorf("closing a delivery takes a reason: --reason 'a test of the provider'")
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				for _, name := range args {
					if err := a.closeDelivery(cmd.Context(), s, name, reason); err != nil {
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

// closedByPerson is what is said of a delivery that a person gave up.
const closedByPerson = "It was closed by a person; the audit log has the reason."

func (a *app) closeDelivery(ctx context.Context, s *session.Session, name, reason string) error {
	d, _, err := deliveryNamed(ctx, s, name)
	if err != nil {
		return fmt.Errorf("cannot close: %w", err)
	}
	if d.State == string(connector.InboxIgnored) && d.Detail == closedByPerson {
		a.Say("Delivery %s was closed before.", show.Visible(d.DeliveryKey))
		return a.Result(map[string]string{"delivery_key": d.DeliveryKey})
	}
	closed := false
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if closed, err = tx.DismissDelivery(d.DeliveryKey, closedByPerson); err != nil || !closed {
			return err
		}
		return tx.Audit(state.Entry{Actor: actor(), Action: "close delivery", Subject: d.DeliveryKey, Reason: reason})
	}); err != nil {
		return err
	}
	if !closed {
		return fmt.Errorf("cannot close %s: it is %s, and only quarantined and parked deliveries wait to be closed", show.Visible(d.DeliveryKey), d.State)
	}
	a.Say("Delivery %s is closed.", show.Visible(d.DeliveryKey))
	return a.Result(map[string]string{"delivery_key": d.DeliveryKey})
}
