package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// covers F46, F64, S4
func TestSettleWantsTwoListsThatAgreeAndNoneFromBeforeARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.billing.put(fmt.Sprint("c", i), fmt.Sprint("K", i), "", "")
	}
	w.billing.hide["c3"] = 1
	if _, err := w.rec.Believe(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if ids, err := w.ledger.KeyHolders(t.Context(), connector.Key{Name: "no", Value: "K3"}); err != nil || len(ids) != 1 {
		t.Errorf("holders of a key that one list lost = %v, %v", ids, err)
	}
	w.do(func(tx *state.Tx) error { return tx.MarkRestored() })
	var quarantine *reconcile.QuarantineError
	if _, err := w.rec.Believe(t.Context(), 0); !errors.As(err, &quarantine) {
		t.Errorf("err = %v, want QuarantineError", err)
	}
	w.now = w.now.Add(16 * time.Minute)
	if _, err := w.rec.Believe(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestSettleGivesUpWhenTheListNeverStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 { // each pass but the first sees one customer more
		id := fmt.Sprintf("c%02d", i)
		w.billing.put(id, id, "", "")
		w.billing.hide[id] = i
	}
	if _, err := w.rec.Believe(t.Context(), 0); !errors.Is(err, reconcile.ErrListChanges) {
		t.Errorf("err = %v, want ErrListChanges", err)
	}
}

// covers F132
func TestALinkWhoseAnswerWasOvertakenIsNotToldLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		told  connector.Reason
		late  connector.Mandate
		still bool
	}{
		"its link": {connector.ReasonLinkLost,
			connector.Mandate{ID: "m1", Status: connector.MandateCreated, URL: "https://sign.example/1"}, false},
		"its link, refused meanwhile": {connector.ReasonLinkRefused,
			connector.Mandate{ID: "m1", Status: connector.MandateCreated, URL: "https://sign.example/1"}, false},
		"no link": {connector.ReasonLinkLost,
			connector.Mandate{ID: "m1", Status: connector.MandateCreated}, true},
		"that of a mandate replaced": {connector.ReasonLinkLost,
			connector.Mandate{ID: "m0", Status: connector.MandateCreated, URL: "https://sign.example/0"}, true},
		"what a link says nothing of": {connector.ReasonMandateCancelled,
			connector.Mandate{ID: "m1", Status: connector.MandateCreated, URL: "https://sign.example/1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.link("A1", "c1")
			var asked int64
			w.do(func(tx *state.Tx) (err error) {
				if asked, err = tx.Ticket(); err != nil {
					return err
				}
				read, err := tx.Ticket()
				if err != nil {
					return err
				}
				shown := []connector.Mandate{{ID: "m0", Status: connector.MandateCreated},
					{ID: "m1", Status: connector.MandateCreated}}
				if c.told == connector.ReasonMandateCancelled {
					shown[1].Status = connector.MandateCancelled
				}
				for _, m := range shown { // which reads show after it was asked for
					if _, err := reconcile.Observe(tx,
						reconcile.Observation{CustomerID: "c1", Mandate: &m, Ticket: read, Cause: connector.CauseLink}); err != nil {
						return err
					}
				}
				return nil
			})
			p, err := w.ledger.Payer(t.Context(), "acme", "A1")
			if err != nil {
				t.Fatal(err)
			}
			w.do(func(tx *state.Tx) error {
				tx.Explain(p, state.TopicMandate, c.told, "")
				if c.told == connector.ReasonLinkRefused {
					return tx.RefuseLink(p)
				}
				return nil
			})
			if told := w.reasons()["A1"]; told != string(c.told) {
				t.Fatalf("before the answer, told %q", told)
			}
			w.do(func(tx *state.Tx) error {
				seen, err := reconcile.Observe(tx,
					reconcile.Observation{CustomerID: "c1", Mandate: &c.late, Ticket: asked, Cause: connector.CauseLink})
				if !seen.Stale {
					t.Error("the answer was not overtaken")
				}
				return err
			})
			if told := w.reasons()["A1"]; (told == string(c.told)) != c.still {
				t.Errorf("told %q", told)
			}
			link, err := w.ledger.SigningLink(t.Context(), "m1")
			if err != nil || (link != "") != (c.late.ID == "m1" && c.late.URL != "") {
				t.Errorf("the link kept is %q, %v", link, err)
			}
		})
	}
}
