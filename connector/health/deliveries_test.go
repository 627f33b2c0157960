package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state"
)

// receive takes in deliveries of one type, a second for each.
func (d *desk) receive(eventType string, as connector.InboxState, n int) {
	d.t.Helper()
	d.at = d.at.Add(time.Duration(n) * time.Second)
	d.do(func(tx *state.Tx) error {
		for i := range n {
			v := state.Delivery{Key: fmt.Sprint(eventType, d.at.UnixNano(), i), Type: eventType, State: as, Body: []byte("{}")}
			if as == connector.InboxReceived {
				v.BillingID = "b1"
			}
			if _, err := tx.Receive(v); err != nil {
				return err
			}
		}
		return nil
	})
}

// told returns what holds of deliveries, by code and subject.
func (d *desk) told(settled ...string) map[string]Condition {
	d.t.Helper()
	found, err := Present(d.t.Context(), d.Ledger, Expected{Knows: func(eventType string) bool {
		return slices.Contains(settled, eventType) ||
			slices.Contains([]string{"dd-mandate", "customer.changed", "payment.made"}, eventType)
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	out := map[string]Condition{}
	for _, c := range found {
		out[string(c.Code)+" "+c.Subject] = c
	}
	return out
}

// covers F166
func TestAnUnknownTypeIsOneConditionHoweverManyDeliveriesAreOfIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive("dispute.opened", connector.InboxQuarantined, 1)
	first := d.told()["event_type_unknown dispute.opened"]
	d.receive("dispute.opened", connector.InboxQuarantined, 999)
	d.receive("payment.made", connector.InboxIgnored, 5)
	d.receive("dd-mandate", connector.InboxReceived, 5)
	got := d.told()
	c := got["event_type_unknown dispute.opened"]
	if len(got) != 1 || c.Count != 1000 || !c.Since.Equal(first.Since) || !c.Grown.IsZero() || c.Urgent {
		t.Fatalf("told are %+v", got)
	}
	if want := `1000 deliveries of the unknown type "dispute.opened" arrived, the first on 2026-03-02 09:00 UTC, the last on 2026-03-02 09:16 UTC. payersync keeps them, and cannot use deliveries without a customer or mandate.`; c.Sentence != want {
		t.Errorf("it says:\n%s\nwant:\n%s", c.Sentence, want)
	}
	d.receive("refund.made", connector.InboxReceived, 2)
	got = d.told()
	if refund := got["event_type_unknown refund.made"]; len(got) != 2 || refund.Count != 2 || len(c.Steps) != 2 ||
		!slices.Equal(refund.Steps, []connector.Step{{Do: connector.DoListDeliveries}}) {
		t.Errorf("with a second type, of which all is settled, told are %+v", got)
	}
	if got := d.told("refund.made", "dispute.opened"); len(got) != 1 || got["webhooks_not_understood "].Count != 1000 {
		t.Errorf("with types that are known, and deliveries that are not settled, told are %+v", got)
	}
}

// Types are strangers' text.
//
// covers F166
func TestTypesOfStrangersAreBoundedAndShownSafely(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive("\u202eevil\u2028"+strings.Repeat("é", 90), connector.InboxQuarantined, 1)
	for i := range 50 {
		d.receive(fmt.Sprintf("t%02d", i), connector.InboxQuarantined, 1)
	}
	got := d.told()
	if rest := got["event_type_unknown "]; len(got) != typesTold+1 || rest.Count != 51-typesTold ||
		!strings.Contains(rest.Next, "event_paths.type") {
		t.Errorf("%d are told, the rest as %+v", len(got), rest)
	}
	for _, c := range got {
		if strings.ContainsAny(c.Sentence, "\u202e\u2028") || utf8.RuneCountInString(c.Sentence) > 300 {
			t.Errorf("told is %q", c.Sentence)
		}
	}
	kept := d.told()
	d.receive("a new one before all others", connector.InboxQuarantined, 1)
	for name := range kept {
		if _, still := d.told()[name]; !still {
			t.Errorf("%s is over because of another type", name)
		}
	}
}

// covers F167
func TestShapesThatChangedOvernightAreOneUrgentThing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive("dd-mandate", connector.InboxReceived, 10)
	d.receive("dd-mandate", connector.InboxQuarantined, 2)
	if c := d.told()["webhooks_not_understood "]; c.Urgent || c.Count != 2 {
		t.Errorf("two that are not understood are told as %+v", c)
	}
	d.receive("customer.changed", connector.InboxQuarantined, 300)
	d.receive("", connector.InboxQuarantined, 300)
	d.receive("payment.made", connector.InboxIgnored, 10)
	got := d.told()
	c := got["webhooks_not_understood "]
	if len(got) != 1 || !c.Urgent || c.Count != 602 ||
		!strings.HasPrefix(c.Sentence, "payersync has not been able to read any delivery since 2026-03-02 09:0") {
		t.Errorf("told are %+v", got)
	}
	if diff := cmp.Diff([]connector.Step{{Do: connector.DoShapes}, {Do: connector.DoReplay}}, c.Steps); diff != "" {
		t.Errorf("the way out (-want +got):\n%s", diff)
	}
	d.receive("dd-mandate", connector.InboxReceived, 1)
	if c := d.told()["webhooks_not_understood "]; c.Urgent || c.Count != 602 {
		t.Errorf("when one is understood again, told is %+v", c)
	}
}
