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
			return tx.SetAttention(who.Connection, who.SourceID, TopicRecord, connector.ReasonRejected, "")
		})
	}
	put := func() (news bool) {
		d.do(func(tx *Tx) (err error) {
			news, err = tx.PutOff(who, connector.ReasonRejected, d.Now().Add(time.Hour), Entry{Actor: "ada", Action: "put off", Reason: "she calls on Friday"})
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
				t.Errorf("%s, %q: %d rows and %d of a page, want %d (%v, %v)", when, which, len(rows), len(page), want, err, pageErr)
			}
		}
		counts, err := d.ReasonCounts(t.Context())
		for _, c := range counts {
			if c.Reason == connector.ReasonRejected && (c.Count != now+later || c.PutOff != later) {
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
	if err != nil || len(rows) != 1 || rows[0].PutOff == nil || rows[0].PutOff.By != "ada" || rows[0].PutOff.Note != "she calls on Friday" {
		t.Errorf("of the record it is told %+v, %v", rows, err)
	}
	told()
	expect("told once more of the same", 0, 1)
	d.clock.move(time.Minute)
	d.do(func(tx *Tx) error { return tx.ClearAttention(who.Connection, who.SourceID, TopicRecord) })
	told()
	expect("gone and back", 1, 0)
	d.clock.move(time.Minute)
	put()
	d.clock.move(time.Hour)
	expect("its time has come", 1, 0)
	put()
	d.do(func(tx *Tx) error {
		news, err := tx.TellNow(who, connector.ReasonRejected, Entry{Actor: "ada", Action: "tell now"})
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
	ids, err := list(t.Context(), d.Ledger, "SELECT source_id FROM source_records ORDER BY source_id LIMIT 2", nil, func(s *string) []any { return []any{s} })
	if err != nil {
		t.Fatal(err)
	}
	d.do(func(tx *Tx) error {
		for _, id := range ids {
			for topic, detail := range map[Topic]string{TopicRecord: "first", TopicLink: "second"} {
				if err := tx.SetAttention(acme, id, topic, connector.ReasonRejected, detail); err != nil {
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
