package letters_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/mail/mailtest"
	"payersync/state"
)

// covers F142
func TestAJournalThatIsGoneHoldsEverything(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*world) error{
		"deleted": func(w *world) error { return remove(w.desk.Settings.Journal) },
		"emptied": func(w *world) error { return write(w.desk.Settings.Journal, "") },
		"damaged": func(w *world) error {
			return write(w.desk.Settings.Journal, strings.Replace(read(w.desk.Settings.Journal), "2026", "x", 1))
		},
		"cut short": func(w *world) error {
			return write(w.desk.Settings.Journal, strings.SplitAfter(read(w.desk.Settings.Journal), "\n")[0])
		},
		"of another ledger": func(w *world) error { return write(w.desk.Settings.Journal, "payersync letters 1 OTHER ID\n") },
		"no journal at all": func(w *world) error { return write(w.desk.Settings.Journal, "hello\n") },
		"another in its way": func(w *world) error {
			return write(w.desk.Settings.Journal, strings.Replace(read(w.desk.Settings.Journal), "\n", "X\n", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, 2)
			if err := harm(w); err != nil {
				t.Fatal(err)
			}
			w.advance(time.Hour)
			w.wantHeld(letters.HoldJournal)
			w.days(3)
			w.wantHeld(letters.HoldJournal)
			w.goesOn()
			if holds := w.look().Holds; len(holds) > 0 {
				t.Errorf("still %+v", holds)
			}
			w.approve()
			w.days(1)
			w.noDoubles()
			if n := len(w.box.Received()); n != 4 {
				t.Errorf("%d letters came", n)
			}
		})
	}
	w := begun(t, 1) // a fragment of a line is of a letter that never left
	if err := write(w.desk.Settings.Journal, read(w.desk.Settings.Journal)+"2026-11-2"); err != nil {
		t.Fatal(err)
	}
	w.days(3)
	if n := len(w.box.Received()); n != 2 {
		t.Errorf("%d letters came, with a line that was cut off", n)
	}
	if got := read(w.desk.Settings.Journal); strings.Count(got, "\n") != 3 || strings.Contains(got, "2026-11-22") {
		t.Errorf("the journal is\n%s", got)
	}
}

// covers F141
func TestAClockThatIsSetSendsNothing(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, by := range []time.Duration{year, -year, 25 * time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			w := begun(t, 2)
			w.days(2)
			w.advance(3 * time.Hour)
			w.send()
			w.advance(by)
			w.wantHeld(letters.HoldClock)
			w.advance(-by) // it is put right: nobody has to say anything
			w.days(1)
			if n := len(w.box.Received()); n != 4 {
				t.Errorf("%d letters came, want a reminder to each", n)
			}
		})
	}
}

func TestFourteenDaysDown(t *testing.T) {
	t.Parallel()
	w := begun(t, 8)
	w.desk.Settings.PerDay = 5
	w.advance(14 * 24 * time.Hour)
	w.sync()
	w.wantHeld(letters.HoldClock)
	w.goesOn()
	w.send()
	if n := w.approve(); n != 8 {
		t.Errorf("a person reads %d letters", n)
	}
	for range 5 {
		w.send()
	}
	if n := len(w.box.Received()) - 8; n != 5 {
		t.Errorf("%d letters came on the first day, want no more than letters.per_day", n)
	}
	w.days(1)
	w.noDoubles()
	to := map[string]int{}
	for _, m := range w.box.Received() {
		to[m.To[0]]++
	}
	for address, n := range to {
		if n != 2 {
			t.Errorf("%d letters to %s", n, address)
		}
	}
}

// covers F139
func TestAMappingErrorThatMovesAddressesSendsNothing(t *testing.T) {
	t.Parallel()
	for _, share := range []int{1, 50} { // all, or one of fifty
		t.Run(fmt.Sprintf("one of %d", share), func(t *testing.T) {
			t.Parallel()
			w := begun(t, 100)
			w.days(2)
			before := len(w.box.Received())
			for i := 0; i < 100; i += share {
				w.books.put(fmt.Sprintf("c%03d", i), fmt.Sprintf("Payer %d", i),
					fmt.Sprintf("payer%d@bakery%d.io", (i+1)%100, (i+1)%100))
			}
			w.mapping = "# edited\n" + w.mapping
			w.days(1)
			if n := len(w.box.Received()) - before; n != 0 {
				t.Errorf("%d letters left", n)
			}
			if share == 1 {
				if why := w.look().Batch.Why; !slices.ContainsFunc(why, func(b letters.Brake) bool {
					return b.Why == letters.WhyChanged && strings.Contains(b.Text, "100 of 100")
				}) {
					t.Errorf("it waits because of %+v", why)
				}
			}
		})
	}
}

func TestManyMoreLettersThanTheDayBeforeWait(t *testing.T) {
	t.Parallel()
	w := begun(t, 15)
	for i := range 40 {
		w.books.put(fmt.Sprintf("n%03d", i), fmt.Sprintf("New %d", i), fmt.Sprintf("new%d@shop%d.io", i, i))
	}
	w.days(1)
	if n := len(w.box.Received()); n != 15 {
		t.Errorf("%d letters came, want no more than the first", n)
	}
	if got := w.approve(); got != 40 {
		t.Errorf("approved %d", got)
	}
	for range 3 {
		w.send()
	}
	if n := len(w.box.Received()); n != 55 {
		t.Errorf("%d letters came after the approval", n)
	}
}

// covers F145
func TestTooManyLettersThatComeBackStopAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(12)
	w.send()
	w.approve()
	w.box.Fail(mailtest.AtRcpt, mailtest.Refusal(550, "no such user"))
	if res := w.send(); res.Refused != 3 {
		t.Errorf("%+v", res)
	}
	w.box.Fail(mailtest.AtRcpt, nil)
	if res := w.send(); res.Sent != 0 || w.look().Count(letters.Paused, letters.WhyBrake) != 9 {
		t.Errorf("it goes on: %+v", res)
	}
	w.advance(time.Minute)
	if n, err := w.desk.Resume(t.Context(), "", byAda); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if res := w.send(); res.Sent != 9 {
		t.Errorf("after a person has said so: %+v", res)
	}
}

// covers F143
func TestATestInstallationWritesToNobodyButWhoIsNamedForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.desk.Settings.Test, w.desk.Settings.TestTo = true, "me@harbour.io"
	w.payers(3)
	w.send()
	w.approve()
	w.send()
	w.days(3)
	if n := len(w.box.Received()); n != 6 {
		t.Errorf("%d letters came", n)
	}
	for _, m := range w.box.Received() {
		if !slices.Equal(m.To, []string{"me@harbour.io"}) {
			t.Errorf("a letter to %v", m.To)
		}
	}
}

func TestPayersWithOneAddressWaitForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("a", "Ada", "ada@bakery.io")
	w.books.put("b", "Ada again", "ADA@bakery.io")
	w.books.put("c", "Bob", "bob@bakery.io")
	w.sync()
	w.send()
	if got := w.approve(); got != 1 {
		t.Errorf("approved %d letters together", got)
	}
	w.send()
	w.wantGot("11-23 bob@bakery.io invitation")
	a := state.RecordID{Connection: "acme", SourceID: "a"}
	both := []state.RecordID{a, {Connection: "acme", SourceID: "b"}}
	if _, err := w.desk.ApproveAlone(t.Context(), []state.RecordID{a}, w.look().Alone(both).Hash, byAda); !errors.Is(err,
		letters.ErrChanged) {
		t.Errorf("one of two that were shown: %v", err)
	}
	if n, err := w.desk.ApproveAlone(t.Context(), both, w.look().Alone(both).Hash, byAda); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	w.send()
	w.days(1)
	w.wantGot("11-23 bob@bakery.io invitation", "11-23 ada@bakery.io invitation")
	if _, err := w.desk.ApproveAlone(t.Context(), []state.RecordID{a}, "", byAda); !errors.Is(err, letters.ErrNothing) {
		t.Errorf("once more: %v", err)
	}
}

func TestAMandateInThePlaceOfAnotherBeginsByHand(t *testing.T) {
	t.Parallel()
	w := begun(t, 1)
	if _, err := w.service.Migrate(w.service.Customers()[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := w.service.SetStatus(w.mandate("c000"), connector.MandateCreated); err != nil {
		t.Fatal(err)
	}
	w.days(10)
	w.wantGot("11-23 payer0@bakery0.io invitation")
}

func TestLettersWhoseLinksLeadElsewhereAreHeldBeforeSomebodyApprovesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(5)
	w.desk.Settings.LinkHosts = []string{"pay.example.com"}
	p := w.look()
	if len(p.Holds) != 1 || p.Holds[0].Code != letters.HoldLinks || p.Holds[0].Connection != "acme" ||
		!strings.Contains(p.Holds[0].Text, "leads to localhost:") {
		t.Errorf("the holds are %+v", p.Holds)
	}
	w.desk.Settings.LinkHosts = []string{"localhost"}
	if p := w.look(); len(p.Holds) != 0 {
		t.Errorf("the host is named, and letters are held: %+v", p.Holds)
	}
}

func TestBooksOrServiceThatWereNotReadHoldLetters(t *testing.T) {
	t.Parallel()
	w := begun(t, 1)
	for range 2 {
		w.advance(24*time.Hour - time.Minute)
		w.send()
	}
	w.wantHeld(letters.HoldSource)
	w.wantHeld(letters.HoldSweep)
}
