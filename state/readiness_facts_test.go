package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// standings returns where each record stands, in order.
func standings(t *testing.T, l *Ledger, connection string) (out []ReadinessFacts) {
	t.Helper()
	if err := l.EachReadiness(t.Context(), connection,
		func(s ReadinessFacts) error { out = append(out, s); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEachRecordStandsSomewhereOnce(t *testing.T) {
	t.Parallel()
	d := library(t)
	for _, connection := range []string{"", acme, "beta"} {
		var got []RecordID
		for _, s := range standings(t, d.Ledger, connection) {
			got = append(got, s.RecordID)
			one, err := d.ReadinessOf(t.Context(), s.RecordID)
			if err != nil || one == nil {
				t.Fatalf("%v alone: %v", s.RecordID, err)
			}
			if diff := cmp.Diff(s, *one); diff != "" {
				t.Errorf("%v among all and alone:\n%s", s.RecordID, diff)
			}
		}
		var want []RecordID
		for _, r := range d.records(RecordFilter{Connection: connection}) {
			want = append(want, r.ID())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of connection %q (-want +got):\n%s", connection, diff)
		}
		var among []ReadinessFacts
		if err := d.EachReadinessOf(t.Context(), want,
			func(s ReadinessFacts) error { among = append(among, s); return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(standings(t, d.Ledger, connection), among); diff != "" {
			t.Errorf("of connection %q, all and those that are named (-all +named):\n%s", connection, diff)
		}
	}
	if none, err := d.ReadinessOf(t.Context(), RecordID{acme, "nobody"}); none != nil || err != nil {
		t.Errorf("of a record that is not there: %+v, %v", none, err)
	}
}

// Letters for an earlier mandate, and ended stops, do not count.
func TestAStandingHoldsWhatWasSentForItsMandateAndTheStopsThatHold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planLinked(run, "c1", "b1", connector.ActionUpdate)
	list := d.beginPass()
	d.saveListed(connector.RemoteCustomer{ID: "b1", ExternalData: map[string]string{"acct": "c1"}}, list)
	label := connector.Label{Number: "c1", Name: "Ada", Email: "Ada@Example.com"}
	d.label(acme, mapping, NewLabel{SourceID: "c1", Label: label})
	for i, id := range []string{"m0", "m1"} {
		d.clock.move(time.Hour)
		d.mandate(connector.Mandate{ID: id, Status: connector.MandateCreated, URL: "https://pay.example/" + id},
			connector.CauseLink)
		d.do(func(tx *Tx) error { return tx.SetMandate(acme, "c1", id) })
		for step := range 2 + i {
			d.wasSent(id, step, "sent")
			d.do(func(tx *Tx) error {
				return tx.exec("INSERT INTO handovers (mandate_id, sent_on, noted_at, actor) VALUES (?, ?, ?, 'ada')", id,
					fmt.Sprintf("2026-03-0%d", 3+step+i), stamp(tx.now))
			})
		}
		d.wasSent(id, 3, "unclear")
		d.wasSent(id, 4, "refused")
	}
	recipient := d.RecipientHash(label.Email)
	ada := RecordID{acme, "c1"}
	d.do(func(tx *Tx) error {
		for _, stop := range []LetterStop{
			{Scope: StopPayer, RecordID: ada, Why: StopPerson, UntilOn: "2026-03-02"}, // it held till yesterday
			{Scope: StopPayer, RecordID: RecordID{acme, "c2"}, Why: StopPerson},
			{Scope: StopPayer, RecordID: ada, Why: StopPerson, UntilOn: "2026-04-01", Note: "asked by telephone"},
			{Scope: StopAddress, Recipient: recipient, Why: StopBounced},
			{Scope: StopAddress, Recipient: recipient, Why: StopOptedOut},
			{Scope: StopConnection, RecordID: RecordID{Connection: acme}, Why: StopPause},
			{Scope: StopPayer, RecordID: ada, Why: StopOptedOut},
		} {
			if err := tx.AddLetterStop(stop); err != nil {
				return err
			}
		}
		return tx.EndLetterStop(7)
	})
	got := standings(t, d.Ledger, acme)[0]
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	now := d.Now()
	if diff := cmp.Diff(SentLetters{Sent: 3, First: now, Last: now, Unclear: 1}, got.Letters); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Handed{Times: 3, First: day(4), Last: day(6)}, got.Handed); diff != "" {
		t.Errorf("handed over (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ReadinessMandate{ID: "m1", Status: connector.MandateCreated, Since: now, FirstSeen: now,
		LastSeen: now, HasLink: true, LinkAt: now}, got.Mandate); diff != "" {
		t.Errorf("mandate (-want +got):\n%s", diff)
	}
	if got.Label == nil || got.Label.Name != "Ada" || !got.InOrder || got.LinkState != connector.LinkLinked ||
		got.Key != key("c1") {
		t.Errorf("the payer: %+v", got)
	}
	if got.Stop == nil || got.Stop.UntilOn != "2026-04-01" || got.Stop.Note != "asked by telephone" {
		t.Errorf("the payer's stop: %+v", got.Stop)
	}
	if got.Barred == nil || got.Barred.Why != StopBounced {
		t.Errorf("the address's stop: %+v", got.Barred)
	}
	alone, err := d.ReadinessOf(t.Context(), ada)
	if diff := cmp.Diff(&got, alone); diff != "" || err != nil {
		t.Errorf("among all and alone (-all +alone):\n%s%v", diff, err)
	}
	if err := d.EachReadinessOf(t.Context(), []RecordID{ada}, func(named ReadinessFacts) error {
		if diff := cmp.Diff(got, named); diff != "" {
			t.Errorf("among all and named (-all +named):\n%s", diff)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestRecordsThatAreNamedComeInTheirOrderAndAsTheyStandThen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const many = standingsAtOnce + 2
	run := d.run(acme)
	var records []connector.Record
	var named []RecordID
	for n := range many {
		id := fmt.Sprintf("c%04d", n)
		records, named = append(records, record(id, "Ada")), append(named, RecordID{acme, id})
	}
	d.save(run, acme, records...)
	slices.Reverse(named)
	named = append([]RecordID{{acme, "nobody"}}, named...)
	var got []RecordID
	if err := d.EachReadinessOf(t.Context(), named, func(s ReadinessFacts) error {
		if got = append(got, s.RecordID); len(got) == 1 {
			first := records[0] // which comes last
			first.State = connector.RecordArchived
			d.save(run, acme, first)
		}
		if archived := s.State == connector.RecordArchived; archived != (s.SourceID == "c0000") {
			t.Errorf("%s is %s", s.SourceID, s.State)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(named[1:], got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wasSent keeps a letter of payer c1 in a state, as its sending leaves it.
func (d *desk) wasSent(mandate string, step int, in string) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		if err := tx.FreezeLetter(Letter{MandateID: mandate, Step: step, Kind: "invitation", RecordID: RecordID{acme, "c1"},
			Recipient: "r", Setup: "s",
			Language: "en", MessageID: fmt.Sprintf("%s-%d", mandate, step), Body: []byte("…"), LookedAt: tx.now,
			FrozenAt: tx.now}); err != nil {
			return err
		}
		return tx.exec("UPDATE letters SET state = ?, sending_at = ?2, ended_at = ?2 WHERE mandate_id = ?3 AND step = ?4", in,
			stamp(tx.now), mandate, step)
	})
}

func TestWhoCancelledIsKnownOfOurOwnActsAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinked(d.run(acme), "c1", "b1", connector.ActionUpdate)
	d.do(func(tx *Tx) error { return tx.SetMandate(acme, "c1", "m1") })
	d.mandate(connector.Mandate{Status: connector.MandateActive}, connector.CauseSweep)
	for _, why := range []string{"a mistake", "moved away"} {
		d.do(func(tx *Tx) error {
			return tx.Audit(Entry{Actor: "ada", Action: "cancel mandate", Subject: "m1", Reason: why})
		})
	}
	d.mandate(connector.Mandate{Status: connector.MandateCancelled}, connector.CauseCancel)
	if got, want := standings(t, d.Ledger, "")[0].Mandate.Ended,
		(Ended{connector.CauseCancel, "ada", "moved away"}); got != want {
		t.Errorf("cancelled by us: %+v, want %+v", got, want)
	}
	if alone, err := d.ReadinessOf(t.Context(), RecordID{acme, "c1"}); err != nil ||
		alone.Mandate.Ended.Why != "moved away" {
		t.Errorf("cancelled by us, asked alone: %+v, %v", alone, err)
	}
	d.mandate(connector.Mandate{Status: connector.MandateActive}, connector.CauseSweep)
	if got := standings(t, d.Ledger, "")[0].Mandate.Ended; got != (Ended{}) {
		t.Errorf("of one that lives: %+v", got)
	}
	d.mandate(connector.Mandate{Status: connector.MandateCancelled}, connector.CauseWebhook)
	if got, want := standings(t, d.Ledger, "")[0].Mandate.Ended, (Ended{Cause: connector.CauseWebhook}); got != want {
		t.Errorf("cancelled by others: %+v, want %+v", got, want)
	}
}

func TestARecipientIsKnownByAKeyedHashWhateverItsCase(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one, same, other := d.RecipientHash("ada@example.com"), d.RecipientHash(" Ada@EXAMPLE.com\n"),
		d.RecipientHash("bob@example.com")
	if one != same || one == other || len(one) != 32 {
		t.Errorf("%q, %q, %q", one, same, other)
	}
	if elsewhere := newDesk(t); elsewhere.seal.id != d.seal.id && elsewhere.RecipientHash("ada@example.com") == one {
		t.Error("another key gives the same hash")
	}
}

func TestWhatIsHeldAboutAPayerNamesItsLetters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinked(d.run(acme), "c1", "b1", connector.ActionUpdate)
	d.do(func(tx *Tx) error { return tx.SetMandate(acme, "c1", "m1") })
	d.mandate(connector.Mandate{Status: connector.MandateCreated}, connector.CauseLink)
	d.wasSent("m1", 0, "sent")
	stop := LetterStop{Scope: StopPayer, RecordID: RecordID{acme, "c1"}, Why: StopPerson, Note: "asked by telephone",
		Actor: "ada"}
	d.do(func(tx *Tx) error {
		if err := tx.AddLetterStop(stop); err != nil {
			return err
		}
		_, err := tx.NoteHandover("m1", d.Now().AddDate(0, 0, 1), "ada")
		return err
	})
	held, err := d.SubjectData(t.Context(), RecordID{acme, "c1"})
	if err != nil {
		t.Fatal(err)
	}
	now := stamp(d.Now()).(string)
	want := []SubjectLetter{{"m1", "invitation", "en", "sent", now, ""},
		{"m1", "handed over", "", "sent", d.Now().AddDate(0, 0, 1).Format(time.DateOnly), "ada"}}
	if diff := cmp.Diff(want, held.Letters); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]SubjectLetterStop{{StopPerson, "asked by telephone", "ada", now, ""}}, held.Stops); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
}
