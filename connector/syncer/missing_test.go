package syncer_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// left is a world in which payer A1 was removed by the function leave, with an unsigned mandate; A2 to A9
// stay.
func left(t *testing.T, leave func(w *world)) *world {
	t.Helper()
	w := newWorld(t)
	for _, no := range []string{"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "B1", "B2"} {
		w.books.put(no, "Payer "+no, no+"@example.com")
	}
	w.complete(w.run())
	leave(w)
	w.complete(w.run())
	return w
}

// leavings are the ways in which a record leaves.
var leavings = map[string]func(w *world){
	"excluded": func(w *world) {
		w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Payer A1", "Email": "a1@example.com",
			"Postcode": "LS1 4AP", "Group": "supplier"})
	},
	"archived": func(w *world) {
		w.books.set(connector.Record{SourceID: "A1", State: connector.RecordArchived, Data: json.RawMessage(`{"No":"A1"}`)})
	},
	"not shown": func(w *world) {
		w.books.records = slices.DeleteFunc(slices.Clone(w.books.records),
			func(r connector.Record) bool { return r.SourceID == "A1" })
	},
}

// returns brings record A1 back as it was.
func (w *world) returns() {
	w.books.put("A1", "Payer A1", "A1@example.com")
	w.complete(w.run())
}

// sign moves the payer's mandate on.
func (w *world) sign(to connector.MandateStatus) {
	w.t.Helper()
	if err := w.service.SetStatus(w.payer("A1").MandateID, to); err != nil {
		w.t.Fatal(err)
	}
	w.sweep()
	w.complete(w.run())
}

func (w *world) told(want connector.Reason, when string) {
	w.t.Helper()
	rows, err := w.ledger.AttentionOf(w.t.Context(), "acme", "A1")
	if err != nil {
		w.t.Fatal(err)
	}
	switch {
	case want == "" && len(rows) > 0:
		w.t.Errorf("%s: people are told %+v, want nothing", when, rows)
	case want != "" && (len(rows) != 1 || rows[0].Reason != string(want)):
		w.t.Errorf("%s: people are told %+v, want %s alone", when, rows, want)
	}
}

func (w *world) letStay() {
	w.t.Helper()
	if news, err := w.syncer.Close(w.t.Context(), w.payer("A1"),
		syncer.Operator{Name: "Ann", Reason: "it pays until March"}); err != nil || !news {
		w.t.Fatalf("closed: %t, %v", news, err)
	}
}

// covers F120
func TestAPayerThatLeavesWithAMandateIsShownOnceAndCanBeClosed(t *testing.T) {
	t.Parallel()
	for how, leave := range leavings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := left(t, leave)
			writes := w.service.Writes()
			w.told(connector.ReasonLeftWithMandate, "while its link is open")
			w.sign(connector.MandatePending)
			w.sign(connector.MandateActive)
			w.told(connector.ReasonLeftWithMandate, "after the payer has signed")
			if _, err := w.syncer.Close(t.Context(), w.payer("A1"), syncer.Operator{Name: "Ann"}); !errors.Is(err,
				syncer.ErrReasonNeeded) {
				t.Errorf("closed without a reason: %v", err)
			}
			w.letStay()
			w.told("", "right after it was closed")
			for range 3 {
				w.clock.advance(25 * time.Hour)
				w.sweep()
				w.complete(w.run())
			}
			w.told("", "after it was closed")
			if news, err := w.syncer.Close(t.Context(), w.payer("A1"),
				syncer.Operator{Name: "Ann", Reason: "again"}); err != nil || news {
				t.Errorf("what is closed was closed again: %t, %v", news, err)
			}
			w.returns()
			w.told("", "after it has returned")
			leave(w)
			w.complete(w.run())
			w.told(connector.ReasonLeftWithMandate, "after it has left again")
			if n := w.service.Writes() - writes; n != 0 {
				t.Errorf("%d requests were sent for a payer that has left", n)
			}
		})
	}
}

// covers F120
func TestAnotherMandateOfAPayerThatHasLeftIsShown(t *testing.T) {
	t.Parallel()
	for how, leave := range leavings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := left(t, leave)
			w.letStay()
			first := w.payer("A1")
			w.sign(connector.MandateCancelled)
			if _, err := w.syncer.RequestLink(t.Context(), first,
				syncer.Operator{Name: "Bob", Reason: "changed bank"}); err != nil {
				t.Fatal(err)
			}
			if w.payer("A1").MandateID == first.MandateID {
				t.Fatal("the service made no other mandate")
			}
			w.complete(w.run())
			w.told(connector.ReasonLeftWithMandate, "of the other mandate")
			if _, err := w.syncer.Close(t.Context(), first, syncer.Operator{Name: "Ann", Reason: "as before"}); !errors.Is(err,
				state.ErrOtherMandate) {
				t.Errorf("a word about the mandate before was taken for one about this: %v", err)
			}
		})
	}
}

// covers F120
func TestOfAPayerThatHasLeftNothingIsToldOnceItsMandateIsCancelled(t *testing.T) {
	t.Parallel()
	for how, leave := range leavings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := left(t, leave)
			if err := w.syncer.CancelMandate(t.Context(), w.billing, w.payer("A1"),
				syncer.Operator{Name: "Ann", Reason: "it has left"}); err != nil {
				t.Fatal(err)
			}
			want := connector.Reason("")
			if how == "archived" {
				want = connector.ReasonRecordGone
			}
			w.told(want, "right after it was cancelled")
			w.complete(w.run())
			w.told(want, "after the next run")
			if want != "" {
				w.letStay()
				w.complete(w.run())
				w.told("", "after it was closed")
			}
			w.returns()
			w.told(connector.ReasonMandateCancelled, "after it has returned")
		})
	}
}

// covers F120
func TestAPayerThatLeavesWithACancelledMandateIsNotTold(t *testing.T) {
	t.Parallel()
	w := left(t, func(w *world) {
		w.sign(connector.MandateCancelled)
		w.told(connector.ReasonMandateCancelled, "before it leaves")
		leavings["excluded"](w)
	})
	w.told("", "after it has left")
}

// A customer that is deleted takes its mandate along.
//
// covers F43, F120
func TestOfAPayerThatHasLeftNothingIsToldOnceItsCustomerIsGone(t *testing.T) {
	t.Parallel()
	w := left(t, leavings["excluded"])
	if err := w.service.Delete(w.payer("A1").BillingID); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	w.sweep()
	w.complete(w.run())
	w.told("", "after its customer is gone")
}

// covers F120
func TestAForecastNamesThePayersThatWouldLeaveWithAMandate(t *testing.T) {
	t.Parallel()
	w := left(t, func(*world) {})
	w.mapping = `version: 1
source: books
key: {customerNo: No}
include: Group == "payer" and No != "A1"
customer:
  name: trim(Name)
`
	p, err := w.syncer.Preview(t.Context(), w.connection(), syncer.PreviewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Failures) != 1 || p.Failures[0].Reason != connector.ReasonLeftWithMandate || p.Failures[0].New != 1 ||
		p.Dropped.Count != 1 {
		t.Errorf("the forecast tells %+v and drops %+v", p.Failures, p.Dropped)
	}
}
