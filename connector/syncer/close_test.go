package syncer_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

var keeper = syncer.Operator{Name: "Ann", Reason: "a test record"}

func (w *world) giveUp(id string, want bool) {
	w.t.Helper()
	if news, err := w.syncer.GiveUp(w.t.Context(), w.connection(), state.RecordID{Connection: "acme", SourceID: id},
		keeper); err != nil || news != want {
		w.t.Fatalf("given up: %t, %v; want %t", news, err, want)
	}
}

// A create that may still arrive stays known whatever a person decides on its record. After it arrives
// nothing more is sent, and a record included again has no second customer.
func TestARequestOfARecordThatWasGivenUpStaysKnown(t *testing.T) {
	t.Parallel()
	for arrives, wait := range map[string]func(*world){
		"never":               func(*world) {},
		"before the next run": func(w *world) { w.service.ReleaseLate(); w.run() },
		"before a sweep":      func(w *world) { w.run(); w.service.ReleaseLate() },
	} {
		t.Run(arrives, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(3)
			w.complete(w.run())
			w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Method: http.MethodPost, Path: "/api/customers"})
			w.books.put("A1", "Payer A1", "a1@example.com")
			w.run()
			w.service.ClearFaults()
			w.told(connector.ReasonOutcomeUnknown, "of a create without an answer")
			w.giveUp("A1", true)
			w.giveUp("A1", false)
			w.told(connector.ReasonOutcomeUnknown, "while the create may arrive")
			writes := w.service.Writes()
			wait(w)
			for range 4 {
				w.clock.advance(time.Hour)
				w.sweep()
				w.run()
			}
			w.complete(w.run())
			if n := w.service.Writes() - writes; n > 1 || arrives == "never" && n > 0 {
				t.Errorf("%d requests reached the service after the word", n)
			}
			w.told("", "when the request is over")
			if _, err := w.syncer.TakeUp(t.Context(), state.RecordID{Connection: "acme", SourceID: "A1"}, keeper); err != nil {
				t.Fatal(err)
			}
			w.complete(w.run())
			if made := w.made("A1"); len(made) != 1 || w.payer("A1").BillingID == "" {
				t.Errorf("taken up again, the record has the customers %v, and is linked to %q", made, w.payer("A1").BillingID)
			}
		})
	}
}

// A record that was given up stays given up when it changes, and a person is told.
//
// covers S19
func TestARecordThatWasGivenUpIsNeverSentByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.books.put("A1", "Payer A1", "no address")
	w.complete(w.run())
	w.told(connector.ReasonEmailMalformed, "of an address that is none")
	writes := w.service.Writes()
	w.giveUp("A1", true)
	w.told("", "right after the word")
	w.complete(w.run())
	w.told("", "after a run")
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Payer A1", "Email": "a1@example.com", "Postcode": "LS1 4AP",
		"Group": "payer"})
	w.complete(w.run())
	w.told(connector.ReasonGivenUpChanged, "when it was mended")
	w.giveUp("A1", true)
	w.complete(w.run())
	w.told("", "when it was given up as it is now")
	if n := w.service.Writes() - writes; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	by := syncer.Operator{Name: "Ann", Reason: "it pays after all"}
	for i := range 2 {
		if news, err := w.syncer.TakeUp(t.Context(), state.RecordID{Connection: "acme", SourceID: "A1"}, by); err != nil ||
			news != (i == 0) {
			t.Errorf("taken up: %t, %v", news, err)
		}
	}
	w.complete(w.run())
	if w.byKey()["A1"].ID == "" || w.payer("A1").BillingID == "" {
		t.Error("a record that was taken up again was not connected")
	}
	w.told("", "when it was connected")
}

// The customer of a payer that is given up stays as it is, with its mandate; of another
// mandate a person is told.
func TestAPayerWithAMandateIsGivenUpAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.books.put("A1", "Payer A1", "a1@example.com")
	w.complete(w.run())
	before, writes := w.raw(w.payer("A1").BillingID), w.service.Writes()
	w.giveUp("A1", true)
	w.books.put("A1", "Payer A1 renamed", "a1@example.com")
	w.complete(w.run())
	w.told(connector.ReasonGivenUpChanged, "when its name changes")
	w.giveUp("A1", true)
	w.sign(connector.MandateActive)
	w.told("", "when the payer signs the mandate that it had")
	if w.service.Writes() != writes || w.raw(w.payer("A1").BillingID) == "" {
		t.Errorf("something was sent; it was %s", before)
	}
	w.sign(connector.MandateCancelled)
	w.told("", "when the mandate is cancelled")
	if _, err := w.syncer.RequestLink(t.Context(), w.payer("A1"),
		syncer.Operator{Name: "Bob", Reason: "changed bank"}); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	w.told(connector.ReasonLeftWithMandate, "of another mandate")
}

// Giving many up is no loss that a plan has to ask about: a person has said it.
func TestPayersThatAreGivenUpAreNoStandstill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, no := range []string{"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9"} {
		w.books.put(no, "Payer "+no, no+"@example.com")
	}
	w.complete(w.run())
	for _, no := range []string{"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8"} {
		w.giveUp(no, true)
	}
	w.complete(w.run())
}

// A mandate left as it is by a person has no finding, however often it is read, until another replaces it.
// Nothing is requested by itself.
func TestAMandateThatIsLetBeIsToldOfWhenItIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.books.put("A1", "Payer A1", "a1@example.com")
	w.complete(w.run())
	w.sign(connector.MandateCancelled)
	w.told(connector.ReasonMandateCancelled, "of a mandate that was cancelled")
	asked := w.linkRequests()
	by := syncer.Operator{Name: "Ann", Reason: "it pays by card"}
	if _, err := w.syncer.Close(t.Context(), w.payer("A1"), syncer.Operator{Name: "Ann"}); !errors.Is(err,
		syncer.ErrReasonNeeded) {
		t.Errorf("closed without a reason: %v", err)
	}
	for i := range 2 {
		if news, err := w.syncer.Close(t.Context(), w.payer("A1"), by); err != nil || news != (i == 0) {
			t.Fatalf("closed: %t, %v", news, err)
		}
	}
	for range 3 {
		w.told("", "after it was closed")
		w.clock.advance(25 * time.Hour)
		w.sweep()
		w.complete(w.run())
	}
	w.books.put("A1", "Payer A1 renamed", "a1@example.com")
	w.complete(w.run())
	w.told("", "after its record has changed")
	if n := w.linkRequests() - asked; n != 0 {
		t.Errorf("%d links were asked for", n)
	}
	w.sign("PAUSED")
	w.told(connector.ReasonStatusUnknown, "of a status that nobody spoke of")
	w.sign(connector.MandateCancelled)
	w.told(connector.ReasonMandateCancelled, "when it is cancelled once more")
}

// Only what is told can be closed, and what has left is not given up.
func TestNothingIsClosedThatIsNotTold(t *testing.T) {
	t.Parallel()
	w := left(t, leavings["archived"])
	if _, err := w.syncer.Close(t.Context(), w.payer("A2"), keeper); !errors.Is(err, syncer.ErrNothingToClose) {
		t.Errorf("closed what is in order: %v", err)
	}
	if _, err := w.syncer.GiveUp(t.Context(), w.connection(), state.RecordID{Connection: "acme", SourceID: "A1"},
		keeper); !errors.Is(err, syncer.ErrLeftOut) {
		t.Errorf("gave up what has left: %v", err)
	}
	if _, err := w.syncer.GiveUp(t.Context(), w.connection(), state.RecordID{Connection: "acme", SourceID: "A2"},
		syncer.Operator{Name: "Ann"}); !errors.Is(err, syncer.ErrReasonNeeded) {
		t.Errorf("gave up without a reason: %v", err)
	}
}
