package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestADecisionMakesPayerAttentionAndChange(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	r := record("c1", "Ada")
	d.save(run, acme, r)
	want := customer("c1", "Ada")
	v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: want,
		Diff: connector.Diff(connector.Customer{}, want)})
	v.Link, v.Topic = true, TopicLink
	d.decide(run, acme, v.Because(connector.ReasonLikeness, ""))

	c := d.open(acme, "c1", LaneCustomer)
	if c.Action != connector.ActionCreate || c.State != connector.ChangePending || c.Body != nil || c.BillingID != "" {
		t.Errorf("the change is %+v, want a pending create", c)
	}
	if diff := cmp.Diff(want, c.Wanted); diff != "" {
		t.Errorf("wanted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(connector.Diff(connector.Customer{}, want), c.Diff); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if p := c.Payer; p.Key != key("c1") || p.LinkState != connector.LinkNew || p.Applied != nil || p.BillingID != "" {
		t.Errorf("the payer is %+v, want a new one", p)
	}
	if l := d.open(acme, "c1", LaneMandate); l.Action != connector.ActionLink {
		t.Errorf("the mandate's change is %+v, want a link request", l)
	}
	rows, err := d.AttentionOf(t.Context(), acme, "c1")
	if err != nil || len(rows) != 1 || rows[0].Reason != "likeness" ||
		rows[0].Detail != connector.ReasonLikeness.Sentence() {
		t.Errorf("attention is %+v, %v; want the likeness with its sentence", rows, err)
	}

	d.decide(run, acme, included(r, nil))
	if rows, err := d.AttentionOf(t.Context(), acme, "c1"); err != nil || len(rows) != 0 {
		t.Errorf("attention is %+v, %v after a decision without a reason, want none", rows, err)
	}
	if n, err := d.PendingCount(t.Context(), acme, LaneCustomer); n != 0 || err != nil {
		t.Errorf("%d changes wait, %v; want none", n, err)
	}
}

func TestAttentionKeepsItsTimeWhileTheReasonStays(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	say := func(r connector.Reason, detail string) AttentionRow {
		d.do(func(tx *Tx) error { return tx.tell(acme, "c1", TopicMandate, r, detail) })
		rows, err := d.AttentionOf(t.Context(), acme, "c1")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		return rows[0]
	}
	first := say(connector.ReasonLinkRefused, "")
	d.clock.move(Lease)
	if again := say(connector.ReasonLinkRefused, "Again."); again.Since != first.Since || again.Detail != "Again." {
		t.Errorf("got %+v, want the time of the first and the detail of the last", again)
	}
	if other := say(connector.ReasonLinkLost, ""); other.Since == first.Since {
		t.Error("another reason kept the time of the first")
	}
	d.do(func(tx *Tx) error { return tx.tell(acme, "c1", TopicLink, "", "") })
	if rows, err := d.AttentionOf(t.Context(), acme, "c1"); err != nil || len(rows) != 1 {
		t.Errorf("no finding about the link left %v, %v", rows, err)
	}
}

// covers F43
func TestNothingElseIsToldOfACustomerThatIsMissing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	say := func(r connector.Reason) string {
		d.do(func(tx *Tx) error {
			tx.Explain(Payer{Connection: acme, SourceID: "c1"}, TopicLink, r, "")
			return nil
		})
		rows, err := d.AttentionOf(t.Context(), acme, "c1")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		return rows[0].Reason
	}
	if got := say(connector.ReasonOutcomeUnknown); got != string(connector.ReasonOutcomeUnknown) {
		t.Errorf("attention is %s, want outcome_unknown", got)
	}
	d.do(func(tx *Tx) error { _, err := tx.ForgetRemote("b1", 5); return err })
	for _, r := range []connector.Reason{connector.ReasonCustomerMissing, connector.ReasonForeignChange} {
		if got := say(r); got != string(connector.ReasonCustomerMissing) {
			t.Errorf("after %s attention is %s, want customer_missing", r, got)
		}
	}
	d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b1", key("c1")), 6); return err })
	if got := say(connector.ReasonForeignChange); got != string(connector.ReasonForeignChange) {
		t.Errorf("once it is back, attention is %s, want foreign_change", got)
	}
}

// A plan decides on a record. Before that is stored, another process reads its customer and finds an older
// update's values. The read's result stays: the next plan decides again. The same happens after a person's
// retry. Otherwise the decision is stored.
//
// covers F99, S6
func TestADecisionIsNotStoredOverWhatAReadHasShownSince(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*Tx, Payer) error{
		"nothing":       nil,
		"another value": func(tx *Tx, p Payer) error { return tx.SetShown(p, false) },
		"an older value": func(tx *Tx, p Payer) error {
			values := customer("c1", "Old")
			return tx.saveHeld(&Known{Payer: p}, SubjectValues{Instead: true, Values: &values})
		},
		"a doubled key": func(tx *Tx, p Payer) error {
			_, err := tx.SaveRemote(connector.RemoteCustomer{ID: "b2", Name: "Other",
				ExternalData: map[string]string{"acct": "c1"}}, 1)
			return err
		},
		"a word to try again": func(tx *Tx, p Payer) error {
			_, err := tx.RetryRecord(acme, p.SourceID)
			return err
		},
		"nobody there": func(tx *Tx, p Payer) error {
			_, err := tx.ForgetRemote("b1", 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			r := record("c1", "c1")
			d.save(run, acme, r)
			d.decide(run, acme, included(r, nil))
			d.link(acme, "c1", "b1")
			d.do(func(tx *Tx) error {
				if err := tx.SetApplied(d.payerOf(acme, "c1"), customer("c1", "c1")); err != nil {
					return err
				}
				_, err := tx.ReplanRecord(acme, "c1")
				return err
			})
			decision := included(r, nil)
			decision.Stands = d.candidates(acme, mapping)[0].Stands
			p := d.payerOf(acme, "c1")
			if meanwhile != nil {
				d.do(func(tx *Tx) error {
					tx.Explain(p, TopicLink, connector.ReasonForeignChange, "")
					return meanwhile(tx, p)
				})
			}
			d.decide(run, acme, decision)
			again := len(d.candidates(acme, mapping)) > 0
			if again != (meanwhile != nil) {
				t.Errorf("the next plan looks again: %t", again)
			}
			if told, err := d.AttentionOf(t.Context(), acme, "c1"); err != nil || len(told) > 0 != again {
				t.Errorf("told is %v, %v", told, err)
			}
			if _, outcome := d.closeRun(run, connector.RunComplete); outcome == connector.RunComplete == again {
				t.Errorf("the run is %s", outcome)
			}
		})
	}
}
