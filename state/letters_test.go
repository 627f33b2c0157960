package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

// waitingPayer is a ledger with a payer c1 whose mandate m1 waits for a signature.
func waitingPayer(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.do(func(tx *Tx) error { return tx.SetMandate(acme, "c1", "m1") })
	d.mandate(connector.Mandate{Status: connector.MandateCreated, URL: "https://pay.example.com/s/1"}, connector.CauseLink)
	return d
}

func (d *desk) draft(step int, body string) Letter {
	return Letter{MandateID: "m1", Step: step, Kind: "invitation", RecordID: RecordID{acme, "c1"},
		Recipient: d.RecipientHash("ada@bakery.example"), Setup: "s", Language: "en",
		MessageID: d.LetterHash("letter", "m1", string(rune('0'+step))), Body: []byte(body), LookedAt: d.Now(),
		FrozenAt: d.Now()}
}

func (d *desk) begin(l Letter) (body []byte, may bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		body, may, err = tx.BeginSending(l.MessageID, tx.Now().Add(-15*time.Minute), tx.Now().Format(time.DateOnly))
		return err
	})
	return body, may
}

func (d *desk) letters() []Letter {
	d.t.Helper()
	out, err := d.LettersOf(d.t.Context(), RecordID{acme, "c1"})
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// covers F114
func TestALetterIsSentOnceForAStep(t *testing.T) {
	t.Parallel()
	for _, end := range []MessageState{MessageSent, MessageUnclear} {
		d := waitingPayer(t)
		l := d.draft(0, "to Ada")
		d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
		body, may := d.begin(l)
		if !may || string(body) != "to Ada" {
			t.Fatalf("may it leave: %v, %q", may, body)
		}
		if _, may := d.begin(l); may {
			t.Error("it may leave a second time while it is sent")
		}
		d.do(func(tx *Tx) error { return tx.EndLetter(l.MessageID, end, false, "250 ok") })
		if err := d.Do(t.Context(), func(tx *Tx) error { return tx.FreezeLetter(l) }); !errors.Is(err, ErrLetterTaken) {
			t.Errorf("%s: frozen a second time: %v", end, err)
		}
		if got := d.letters(); len(got) != 1 || got[0].State != end || got[0].Attempts != 1 {
			t.Errorf("the letters are %+v", got)
		}
	}
}

func TestALetterThatWasCertainlyNotTakenIsFrozenAnewThreeTimesAtMost(t *testing.T) {
	t.Parallel()
	d := waitingPayer(t)
	for n := range MostDeferrals {
		l := d.draft(0, strings.Repeat("x", n+1))
		d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
		if body, may := d.begin(l); !may || len(body) != n+1 {
			t.Fatalf("try %d: may it leave: %v, with %d bytes", n, may, len(body))
		}
		d.do(func(tx *Tx) error { return tx.EndLetter(l.MessageID, MessageDeferred, true, "450 later") })
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.FreezeLetter(d.draft(0, "once more")) }); !errors.Is(err,
		ErrLetterTaken) {
		t.Errorf("a fourth time: %v", err)
	}
	refused := d.draft(1, "refused")
	d.do(func(tx *Tx) error { return tx.FreezeLetter(refused) })
	d.begin(refused)
	d.do(func(tx *Tx) error { return tx.EndLetter(refused.MessageID, MessageRefused, false, "550 no such user") })
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.FreezeLetter(refused) }); !errors.Is(err, ErrLetterTaken) {
		t.Errorf("once more to an address that is not there: %v", err)
	}
	refused.Recipient = d.RecipientHash("ada@elsewhere.example")
	d.do(func(tx *Tx) error { return tx.FreezeLetter(refused) })
}

// What comes to be known between freezing and sending keeps a letter from leaving.
//
// covers F114
func TestAFrozenLetterDoesNotLeaveWhenThingsHaveChanged(t *testing.T) {
	t.Parallel()
	stop := func(s LetterStop) func(*desk) error {
		return func(d *desk) error {
			if s.Scope == StopAddress {
				s.Recipient = d.RecipientHash("ADA@bakery.example")
			}
			s.Actor = "ada"
			return d.Do(d.t.Context(), func(tx *Tx) error { return tx.AddLetterStop(s) })
		}
	}
	status := func(s connector.MandateStatus) func(*desk) error {
		return func(d *desk) error { d.mandate(connector.Mandate{Status: s}, connector.CauseWebhook); return nil }
	}
	for name, change := range map[string]func(*desk) error{
		"signed":            status(connector.MandatePending),
		"cancelled":         status(connector.MandateCancelled),
		"an unknown status": status("HALF_SIGNED"),
		"another mandate": func(d *desk) error {
			return d.Do(d.t.Context(), func(tx *Tx) error { return tx.SetMandate(acme, "c1", "m2") })
		},
		"the payer stopped":  stop(LetterStop{Scope: StopPayer, RecordID: RecordID{acme, "c1"}, Why: StopPerson}),
		"opted out":          stop(LetterStop{Scope: StopAddress, Why: StopOptedOut}),
		"everything paused":  stop(LetterStop{Scope: StopAll, Why: StopPause, UntilOn: "9999-01-01"}),
		"connection paused":  stop(LetterStop{Scope: StopConnection, RecordID: RecordID{Connection: acme}, Why: StopPause}),
		"looked at long ago": func(d *desk) error { d.clock.move(15 * time.Minute); return nil },
		"the clock set back": func(d *desk) error { d.clock.move(-time.Minute); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := waitingPayer(t)
			l := d.draft(0, "to Ada")
			d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
			if err := change(d); err != nil {
				t.Fatal(err)
			}
			if _, may := d.begin(l); may {
				t.Error("it may leave")
			}
			if got := d.letters(); got[0].State != MessageVoid || got[0].Attempts != 0 {
				t.Errorf("it is %s after %d attempts", got[0].State, got[0].Attempts)
			}
		})
	}
	d := waitingPayer(t)
	for _, s := range []LetterStop{
		{Scope: StopPayer, RecordID: RecordID{acme, "c2"}, Why: StopPerson},
		{Scope: StopAddress, Recipient: d.RecipientHash("bob@bakery.example"), Why: StopBounced},
		{Scope: StopConnection, RecordID: RecordID{Connection: "other"}, Why: StopPause},
		{Scope: StopAll, Why: StopPause, UntilOn: d.Now().Format(time.DateOnly)},
	} {
		if err := stop(s)(d); err != nil && s.Scope != StopAddress {
			t.Fatal(err)
		}
	}
	stops, err := d.LetterStops(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stops {
		if s.Scope == StopAddress { // the loop above named Ada's
			d.do(func(tx *Tx) error { return tx.EndLetterStop(s.ID) })
		}
	}
	l := d.draft(0, "to Ada")
	d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
	if _, may := d.begin(l); !may {
		t.Error("stops of others, one that was taken back and one whose day has come keep it from leaving")
	}
}

// covers F114
func TestALetterThatADeadProcessWasSendingIsUnclear(t *testing.T) {
	t.Parallel()
	d := waitingPayer(t)
	l := d.draft(0, "to Ada")
	d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
	d.begin(l)
	var n int64
	d.do(func(tx *Tx) (err error) { n, err = tx.AbandonSending(); return err })
	got := d.letters()[0]
	if n != 1 || got.State != MessageUnclear {
		t.Fatalf("%d letters; it is %s", n, got.State)
	}
	say := func(word string) error {
		return d.Do(t.Context(), func(tx *Tx) error {
			return tx.SayOfLetter(got.ID, word,
				Entry{Actor: "ada", Action: "letter " + word})
		})
	}
	if err := say(WordAgain); err != nil {
		t.Fatal(err)
	}
	d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
	if _, may := d.begin(l); !may {
		t.Error("it does not leave although a person said that it may")
	}
	if err := say(WordArrived); !errors.Is(err, ErrNotUnclear) {
		t.Errorf("a word on a letter that is being sent: %v", err)
	}
}

func TestASignatureVoidsLettersThatHaveNotLeft(t *testing.T) {
	t.Parallel()
	d := waitingPayer(t)
	l := d.draft(0, "to Ada")
	d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
	d.do(func(tx *Tx) error { return tx.VoidLetters(acme, "c1") })
	if got := d.letters()[0].State; got != MessageFrozen {
		t.Fatalf("it is %s while the mandate waits", got)
	}
	d.mandate(connector.Mandate{Status: connector.MandatePending}, connector.CauseWebhook)
	d.do(func(tx *Tx) error { return tx.VoidLetters(acme, "c1") })
	if got := d.letters()[0].State; got != MessageVoid {
		t.Errorf("it is %s", got)
	}
}

func TestOnlyOneProcessSendsLetters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, err := d.TryOutbox(MessageLetter)
	if err != nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	if second, err := d.another().TryOutbox(MessageLetter); err != nil || second != nil {
		t.Errorf("a second process: %v, %v", second, err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestTheTextOfALetterIsKeptForATimeAndThatItWasSentLonger(t *testing.T) {
	t.Parallel()
	d := waitingPayer(t)
	for step := range 2 {
		l := d.draft(step, "to Ada")
		d.do(func(tx *Tx) error { return tx.FreezeLetter(l) })
		d.begin(l)
		d.do(func(tx *Tx) error { return tx.EndLetter(l.MessageID, MessageSent, false, "250 ok") })
	}
	kept := d.draft(2, "still to be sent")
	d.do(func(tx *Tx) error { return tx.FreezeLetter(kept) })
	limits := Retention{Bodies: 1000 * day, Details: 1000 * day}
	retain := func(age time.Duration, want Retained) {
		t.Helper()
		d.clock.move(age)
		if got, err := d.Retain(context.Background(), limits); err != nil || got != want {
			t.Errorf("it erased %+v, %v; want %+v", got, err, want)
		}
	}
	retain(LettersKept-time.Hour, Retained{})
	retain(time.Hour, Retained{Letters: 2})
	retain(LettersKnown, Retained{}) // the mandate is the payer's
	d.do(func(tx *Tx) error { return tx.SetMandate(acme, "c1", "m2") })
	retain(0, Retained{Sent: 2})
	if got := d.letters(); len(got) != 1 || got[0].State != MessageFrozen {
		t.Errorf("left are %+v", got)
	}
}

func TestWhatWasLetGoAndWhatTheJournalToldAreKeptForTwoYears(t *testing.T) {
	t.Parallel()
	d := waitingPayer(t)
	for n := range retainBatch + 1 {
		d.do(func(tx *Tx) error {
			return errors.Join(tx.ApproveLetters("s", "b", n == 0, []ApprovedLetter{{MandateID: "m1", Step: n, Recipient: "r"}},
				Entry{Actor: "ada"}),
				tx.SaveJournalLetter(JournalLetter{fmt.Sprint("told ", n), "r", tx.now}))
		})
	}
	limits := Retention{Bodies: 1000 * day, Details: 1000 * day}
	old := Retained{Approved: retainBatch + 1, Told: retainBatch + 1}
	d.clock.move(LettersKnown - time.Hour)
	if got, err := d.Retain(t.Context(), limits); err != nil || got != (Retained{}) {
		t.Errorf("within two years it erased %+v, %v", got, err)
	}
	d.do(func(tx *Tx) error {
		return errors.Join(tx.ApproveLetters("s", "b", false, []ApprovedLetter{{MandateID: "m1", Recipient: "r"}},
			Entry{Actor: "ada"}), tx.SaveJournalLetter(JournalLetter{"new", "r", tx.now}))
	})
	d.clock.move(time.Hour)
	if got, err := d.WouldRetain(t.Context(), limits); err != nil || got != old {
		t.Errorf("it would erase %+v, %v", got, err)
	}
	if got, err := d.Retain(t.Context(), limits); err != nil || got != old {
		t.Errorf("it erased %+v, %v", got, err)
	}
	told, err := d.JournalLetters(t.Context())
	approved, err2 := d.LetterApprovals(t.Context())
	if err != nil || err2 != nil || len(told) != 1 || len(approved.Letters) != 1 || len(approved.Setups) != 1 {
		t.Errorf("left are %+v and %+v: %v, %v", told, approved, err, err2)
	}
}

func TestForgettingAPayerErasesWhatLettersSayOfIt(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := waitingPayer(t)
	l := d.draft(0, "to "+canaryName)
	l.Recipient = d.RecipientHash("ada@old.example")
	address, earlier, others := d.RecipientHash("ada@bakery.example"), l.Recipient, d.RecipientHash("bob@bakery.example")
	d.do(func(tx *Tx) error {
		return errors.Join(tx.FreezeLetter(l), tx.NoteLetterAddress(l.RecordID, address),
			tx.ApproveLetters("s", "b", true, []ApprovedLetter{{MandateID: "m1", Recipient: address}}, Entry{Actor: "ada"}),
			tx.AddLetterStop(LetterStop{Scope: StopPayer, RecordID: l.RecordID, Why: StopPerson, Note: "about " + canaryName,
				Actor: "ada"}),
			tx.AddLetterStop(LetterStop{Scope: StopAddress, Recipient: address, Why: StopOptedOut, Note: "about " + canaryName,
				Actor: "payer"}),
			tx.AddLetterStop(LetterStop{Scope: StopAddress, Recipient: earlier, Why: StopBounced, Note: "about " + canaryName,
				Actor: "ada"}),
			tx.AddLetterStop(LetterStop{Scope: StopAddress, Recipient: others, Why: StopBounced, Note: "of another",
				Actor: "ada"}),
			tx.SaveJournalLetter(JournalLetter{l.MessageID, earlier, tx.now}), tx.SaveJournalLetter(JournalLetter{"unknown", address, tx.now}),
			tx.SaveJournalLetter(JournalLetter{"another", others, tx.now}))
	})
	boxes := d.sealedOf(l.MessageID)
	if len(boxes) == 0 {
		t.Fatal("nothing of the letter is sealed")
	}
	d.over()
	d.forget("c1")
	d.expectNowhere(boxes)
	got := d.letters()[0]
	if got.State != MessageVoid || got.Recipient == address || got.MandateID != "m1" {
		t.Errorf("the letter is %+v", got)
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM letter_approved": 0, "SELECT count(*) FROM letter_addresses": 0,
		"SELECT count(*) FROM letter_stops WHERE note <> ''": 1,
		// the addresses stay unwritten to
		"SELECT count(*) FROM letter_stops WHERE why = 'opted_out' OR why = 'bounced'":                  3,
		"SELECT count(*) FROM letter_journal WHERE recipient = 'forgotten'":                             2,
		"SELECT count(*) FROM letter_journal WHERE message_id = 'another' AND recipient <> 'forgotten'": 1,
	} {
		if n := one[int](t, d.Ledger, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}
