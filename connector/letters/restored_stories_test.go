package letters_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector/letters"
	"payersync/connector/outbox"
)

// covers F140
func TestALedgerThatWasPutBackSendsNothingBeforeAPersonSaysSo(t *testing.T) {
	t.Parallel()
	for _, mark := range []bool{true, false} {
		t.Run(fmt.Sprintf("with the mark %v", mark), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.payers(3)
			w.send()
			w.approve()
			old := w.backup()
			w.send()
			if n := len(w.box.Received()); n != 3 {
				t.Fatalf("%d letters came", n)
			}
			w.putBack(old, mark)
			w.wantHeld(map[bool]letters.HoldCode{true: letters.HoldRestored, false: letters.HoldJournal}[mark])
			w.days(3)
			if n, err := w.desk.Continue(t.Context(), byAda); n != 3 || err != nil {
				t.Fatalf("learnt of %d letters, %v", n, err)
			}
			w.send()
			if w.look().Batch.Hash != "" {
				w.approve()
			}
			w.send()
			w.days(1)
			w.noDoubles()
			for _, came := range w.got()[3:] {
				if strings.Contains(came, "invitation") {
					t.Errorf("a second invitation: %s", came)
				}
			}
			if n := len(w.box.Received()); n != 6 {
				t.Errorf("%d letters came, want a reminder to each", n)
			}
		})
	}
}

// covers F140
func TestWhoWantsNoLettersGetsNoneAfterTheLedgerWasPutBack(t *testing.T) {
	t.Parallel()
	w := begun(t, 3)
	old := w.backup()
	said, err := w.ledger.OptOut(t.Context(), w.ledger.StopToken(w.mandate("c001")))
	if err != nil || !said.News {
		t.Fatalf("no word was noted: %+v, %v", said, err)
	}
	w.advance(10 * time.Minute)
	w.send()
	w.putBack(old, false)
	w.wantHeld(letters.HoldJournal)
	w.goesOn()
	w.days(3)
	w.approve()
	w.days(1)
	if came := strings.Join(w.got()[3:], "\n"); strings.Contains(came, "payer1@") || !strings.Contains(came, "payer2@") {
		t.Errorf("after the ledger was put back came:\n%s", came)
	}
}

// A journal that could not be written once leaves no gap by which a ledger that was put back
// goes unnoticed.
//
// covers F140, F142
func TestALetterThatWasPutOffIsNotSentTwiceAfterTheLedgerWasPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(1)
	w.send()
	w.approve()
	journal := w.desk.Settings.Journal
	w.desk.Step = func(at letters.Point) error { // the journal's folder goes away for a moment
		if at == outbox.Begun {
			w.desk.Step = nil
			return os.Rename(journal, journal+".away")
		}
		return nil
	}
	if _, err := w.desk.Run(t.Context()); err == nil || len(w.box.Received()) != 0 {
		t.Fatalf("%d letters left without a journal, %v", len(w.box.Received()), err)
	}
	if err := os.Rename(journal+".away", journal); err != nil {
		t.Fatal(err)
	}
	old := w.backup()
	w.advance(5 * time.Minute)
	if res := w.send(); res.Sent != 1 {
		t.Fatalf("it did not leave afterwards: %+v", res)
	}
	w.putBack(old, false)
	w.advance(5 * time.Minute)
	w.wantHeld(letters.HoldJournal)
}

// covers F139
func TestAddressesThatMoveOnADayWithoutLettersWaitForAPerson(t *testing.T) {
	t.Parallel()
	w := begun(t, 20)
	w.days(1)
	for i := range 20 {
		w.books.put(fmt.Sprintf("c%03d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("payer%d@bakery%d.io", 19-i, 19-i))
	}
	w.sync()
	w.send()
	w.days(4)
	if came := w.got()[20:]; len(came) > 0 {
		t.Errorf("to addresses that had moved came:\n%s", strings.Join(came, "\n"))
	}
	if got := w.look().Batch; len(got.Letters) != 20 ||
		!slices.ContainsFunc(got.Why, func(b letters.Brake) bool { return b.Why == letters.WhyChanged }) {
		t.Errorf("%d letters wait because of %+v", len(got.Letters), got.Why)
	}
}
