package state

import (
	"slices"
	"testing"
	"time"

	"payersync/connector"
)

func TestWhatIsPutOffIsToldWhenItsTimeHasComeOrTheReasonReturns(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(4)
	who := RecordID{acme, one[string](t, d.Ledger, "SELECT min(source_id) FROM source_records")}
	told := func() {
		d.do(func(tx *Tx) error {
			return tx.tell(who.Connection, who.SourceID, TopicRecord, connector.ReasonRejected, "")
		})
	}
	put := func() (news bool) {
		d.do(func(tx *Tx) (err error) {
			news, err = tx.PutOff(who, connector.ReasonRejected, d.Now().Add(time.Hour),
				Entry{Actor: "ada", Action: "put off", Reason: "she calls on Friday"})
			return err
		})
		return news
	}
	expect := func(when string, now, later int) {
		t.Helper()
		for which, want := range map[string]int{NotPutOff: now, OnlyPutOff: later, "": now + later} {
			f := Filter{State: string(connector.ReasonRejected), PutOff: which, Limit: 9}
			rows, err := d.Attention(t.Context(), f)
			page, pageErr := d.AttentionPage(t.Context(), f, AttentionRow{})
			if err != nil || pageErr != nil || len(rows) != want || len(page) != want {
				t.Errorf("%s, %q: %d rows and %d of a page, want %d (%v, %v)", when, which, len(rows), len(page), want, err,
					pageErr)
			}
		}
		counts, err := d.ReasonCounts(t.Context())
		for _, c := range counts {
			if c.Reason == connector.ReasonRejected && (c.Count != now || c.PutOff != later) {
				t.Errorf("%s: counted %+v, %v", when, c, err)
			}
		}
	}
	if put() {
		t.Error("what is not told was put off")
	}
	told()
	expect("before", 1, 0)
	d.clock.move(time.Minute)
	if !put() {
		t.Error("it was not put off")
	}
	expect("put off", 0, 1)
	rows, err := d.AttentionOf(t.Context(), who.Connection, who.SourceID)
	rows = slices.DeleteFunc(rows, func(r AttentionRow) bool { return r.Reason != string(connector.ReasonRejected) })
	if err != nil || len(rows) != 1 || rows[0].PutOff == nil || rows[0].PutOff.By != "ada" ||
		rows[0].PutOff.Note != "she calls on Friday" {
		t.Errorf("of the record it is told %+v, %v", rows, err)
	}
	told()
	expect("told once more of the same", 0, 1)
	d.clock.move(time.Minute)
	d.do(func(tx *Tx) error { return tx.tell(who.Connection, who.SourceID, TopicRecord, "", "") })
	told()
	expect("gone and back", 1, 0)
	d.clock.move(time.Minute)
	put()
	d.clock.move(time.Hour)
	expect("its time has come", 1, 0)
	put()
	d.do(func(tx *Tx) error {
		news, err := tx.RevokePutOff(who, connector.ReasonRejected, Entry{Actor: "ada", Action: "tell now"})
		if !news {
			t.Error("it was not put off")
		}
		return err
	})
	expect("taken back", 1, 0)
}

func TestAPageHasWhatIsToldTwiceOfOneRecordInOneRow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(4)
	ids, err := list(t.Context(), d.Ledger, "SELECT source_id FROM source_records ORDER BY source_id LIMIT 2", nil,
		func(s *string) []any { return []any{s} })
	if err != nil {
		t.Fatal(err)
	}
	d.do(func(tx *Tx) error {
		for _, id := range ids {
			for topic, detail := range map[Topic]string{TopicRecord: "first", TopicLink: "second"} {
				if err := tx.tell(acme, id, topic, connector.ReasonRejected, detail); err != nil {
					return err
				}
			}
		}
		return nil
	})
	after, f := AttentionRow{}, Filter{State: string(connector.ReasonRejected), Limit: 1}
	for _, id := range ids {
		rows, err := d.AttentionPage(t.Context(), f, after)
		if err != nil || len(rows) != 1 || rows[0].SourceID != id || rows[0].Detail != "first second" {
			t.Fatalf("%+v, %v", rows, err)
		}
		after = rows[0]
	}
	if rows, err := d.AttentionPage(t.Context(), f, after); err != nil || len(rows) != 0 {
		t.Errorf("after the last row: %+v, %v", rows, err)
	}
}

// Every count of what needs a person leaves out what somebody put off, and the payers that are told
// with their new records; both are counted apart.
func TestEveryCountOfWhatNeedsAPersonAgreesWithItsList(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(5)
	ids, err := list(t.Context(), d.Ledger, "SELECT connection, source_id FROM source_records ORDER BY source_id", nil,
		func(id *RecordID) []any { return []any{&id.Connection, &id.SourceID} })
	if err != nil {
		t.Fatal(err)
	}
	reason := connector.ReasonRejected
	d.do(func(tx *Tx) error {
		for _, id := range ids[:4] {
			if err := tx.tell(id.Connection, id.SourceID, TopicRecord, reason, ""); err != nil {
				return err
			}
		}
		return nil
	})
	expect := func(when string, now, off int) {
		t.Helper()
		counts, err := d.ReasonCounts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(counts, func(c ReasonCount) bool { return c.Reason == reason })
		if c := counts[at]; c.Count != now || c.PutOff != off || c.Paired != 0 {
			t.Errorf("%s: counted %+v, want %d, and %d put off", when, c, now, off)
		}
		funnel, err := d.Funnel(t.Context())
		if err != nil || funnel.Attention[string(reason)] != now || funnel.PutOff[string(reason)] != off {
			t.Errorf("%s: the funnel counts %v and %v put off, want %d and %d (%v)", when, funnel.Attention, funnel.PutOff, now,
				off, err)
		}
		numbers, err := d.NewCounter().Count(t.Context())
		got := AttentionCount{}
		for _, a := range numbers.Attention {
			if a.Reason == string(reason) {
				got.N, got.PutOff = got.N+a.N, got.PutOff+a.PutOff
			}
		}
		if err != nil || got.N != now || got.PutOff != off {
			t.Errorf("%s: the metrics count %+v, want %d and %d (%v)", when, got, now, off, err)
		}
		if n, err := d.CountRecords(t.Context(), RecordFilter{Reason: string(reason)}); err != nil || n != now {
			t.Errorf("%s: %d records are listed, want %d (%v)", when, n, now, err)
		}
		told := map[RecordID]bool{}
		if err := d.EachAttention(t.Context(), Filter{PutOff: NotPutOff, Alone: true},
			func(r AttentionRow) error { told[RecordID{r.Connection, r.SourceID}] = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if n, err := d.CountRecords(t.Context(), RecordFilter{Told: true}); err != nil || n != len(told) {
			t.Errorf("%s: %d records are listed that need a person, want %d (%v)", when, n, len(told), err)
		}
	}
	expect("at first", 4, 0)
	d.clock.move(time.Minute)
	d.do(func(tx *Tx) error {
		_, err := tx.PutOff(ids[0], reason, d.Now().Add(time.Hour), Entry{Actor: "ada", Action: "put off"})
		return err
	})
	expect("one put off", 3, 1)
	d.clock.move(2 * time.Hour)
	expect("its time has come", 4, 0)
	counts, err := d.ReasonCounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if until := d.Now().Add(-time.Hour); c.Reason == reason && !c.Newest.Equal(until) {
			t.Errorf("the newest of them is told since %v, want since its time has come, %v", c.Newest, until)
		}
	}
}
