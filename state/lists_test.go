package state

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// library is a ledger with records of two connections that stand everywhere; equal ids are
// in both.
func library(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.fill(16)
	d.do(func(tx *Tx) error {
		_, err := tx.SaveMandate(connector.Mandate{ID: "m000", CustomerID: "b000", Status: connector.MandateCancelled},
			connector.CauseWebhook, "evt")
		return err
	})
	other := d.run("beta")
	for i := range 6 {
		id := fmt.Sprintf("c%03d", i)
		d.clock.move(time.Minute)
		r := record(id, "Beta")
		if i == 1 {
			r.State = connector.RecordArchived
		}
		d.save(other, "beta", r)
		if i < 4 {
			d.label("beta", "m1", called(id, "Beta"))
		}
		switch i {
		case 0:
			v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(id, "Beta")})
			v.Key.Scope = "beta" // the key of another payer, in another organisation
			d.decide(other, "beta", v)
		case 1, 2:
			d.decide(other, "beta", Decision{SourceID: id, ContentHash: r.Hash(), Verdict: Excluded})
		case 3:
			d.decide(other, "beta", Decision{SourceID: id, ContentHash: r.Hash(), Verdict: Held, Topic: TopicRecord,
				Reason: connector.ReasonNameMissing})
		}
	}
	return d
}

func (d *desk) records(f RecordFilter) []RecordRow {
	d.t.Helper()
	found, err := d.Records(d.t.Context(), f)
	if err != nil {
		d.t.Fatalf("%+v: %v", f, err)
	}
	return found
}

// Displayed lists are complete.
func TestAListOfRecordsHoldsEachRecordOnceInEveryOrder(t *testing.T) {
	t.Parallel()
	d := library(t)
	whole := d.records(RecordFilter{})
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM source_records"); len(whole) != n {
		t.Fatalf("%d rows of %d records", len(whole), n)
	}
	for _, sort := range []RecordSort{"", ByRecord, ByKey, ByLink, ByMandate, BySince, ByChanged} {
		want := d.records(RecordFilter{Sort: sort})
		for _, limit := range []int{1, 2, 5, 22, 100} {
			var got []RecordRow
			f := RecordFilter{Sort: sort, Limit: limit}
			for {
				page := d.records(f)
				got = append(got, page...)
				if len(page) < limit {
					break
				}
				f.After = &page[len(page)-1]
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("sorted by %q in pages of %d (-whole +pages):\n%s", sort, limit, diff)
			}
		}
		if !slices.IsSortedFunc(want, sort.Compare) {
			t.Errorf("sorted by %q, the rows compare otherwise", sort)
		}
		inOrder, err := d.RecordIDs(t.Context(), RecordFilter{Sort: sort})
		if err != nil || !slices.EqualFunc(inOrder, want, func(id RecordID, r RecordRow) bool { return id == r.ID() }) {
			t.Errorf("sorted by %q, the ids alone are %v, %v", sort, inOrder, err)
		}
		ids := make([]RecordID, len(whole))
		for i, r := range whole {
			ids[i] = r.ID()
		}
		// another query, the same order
		if diff := gocmp.Diff(want, d.records(RecordFilter{Sort: sort, Among: ids})); diff != "" {
			t.Errorf("sorted by %q (-all +among all):\n%s", sort, diff)
		}
		slices.SortFunc(want, func(a, b RecordRow) int {
			return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.SourceID, b.SourceID))
		})
		if diff := gocmp.Diff(whole, want); diff != "" {
			t.Errorf("sorted by %q (-whole +got):\n%s", sort, diff)
		}
	}
}

func TestAListOfRecordsIsNarrowedByWhatItShows(t *testing.T) {
	t.Parallel()
	d := library(t)
	whole := d.records(RecordFilter{})
	at := func(r RecordRow) time.Time {
		changed, err := time.Parse(time.RFC3339, r.ChangedAt)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	middle := at(whole[len(whole)-3])
	payer := func(r RecordRow) bool { return r.KeyName != "" }
	for name, c := range map[string]struct {
		f    RecordFilter
		want func(RecordRow) bool
	}{
		"connection": {RecordFilter{Connection: "beta"}, func(r RecordRow) bool { return r.Connection == "beta" }},
		"payers":     {RecordFilter{Payers: true}, func(r RecordRow) bool { return payer(r) || !r.Left }},
		"others":     {RecordFilter{Others: true}, func(r RecordRow) bool { return !payer(r) && r.Left }},
		"bare":       {RecordFilter{Bare: true}, func(r RecordRow) bool { return r.Label == nil }},
		"link":       {RecordFilter{Link: "linked"}, func(r RecordRow) bool { return r.LinkState == "linked" }},
		"mandate": {RecordFilter{Mandate: "CANCELLED"},
			func(r RecordRow) bool { return orBlank(r.MandateStatus) == "CANCELLED" }},
		"no mandate": {RecordFilter{Mandate: NoMandate},
			func(r RecordRow) bool { return payer(r) && r.MandateStatus == nil }},
		"reason": {RecordFilter{Reason: "name_missing"},
			func(r RecordRow) bool { return orBlank(r.AttentionReason) == "name_missing" }},
		"since": {RecordFilter{Since: middle}, func(r RecordRow) bool { return !at(r).Before(middle) }},
		"until": {RecordFilter{Until: middle}, func(r RecordRow) bool { return at(r).Before(middle) }},
		"among": {RecordFilter{Among: []RecordID{{"beta", "c001"}, {acme, "c002"}, {acme, "none"}}},
			func(r RecordRow) bool { return r.ID() == RecordID{"beta", "c001"} || r.ID() == RecordID{acme, "c002"} }},
		"nobody": {RecordFilter{Among: []RecordID{}}, func(RecordRow) bool { return false }},
		"together": {RecordFilter{Connection: acme, Payers: true, Reason: "link_lost", Mandate: "CANCELLED",
			Since: time.Unix(0, 0)}, func(r RecordRow) bool { return orBlank(r.MandateStatus) == "CANCELLED" }},
	} {
		want := []RecordRow{}
		for _, r := range whole {
			if c.want(r) {
				want = append(want, r)
			}
		}
		if name != "nobody" && (len(want) == 0 || len(want) == len(whole)) {
			t.Errorf("%s: the ledger tells nothing, %d of %d rows are meant", name, len(want), len(whole))
		}
		if diff := gocmp.Diff(want, d.records(c.f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n, err := d.CountRecords(t.Context(), c.f); n != len(want) || err != nil {
			t.Errorf("%s: counted %d, %v; want %d", name, n, err, len(want))
		}
	}
}

func TestARecordWithoutALabelHasNone(t *testing.T) {
	t.Parallel()
	d := library(t)
	for _, r := range d.records(RecordFilter{Connection: "beta"}) {
		if (r.Label == nil) != (r.SourceID > "c003") {
			t.Errorf("the label of %s is %v", r.SourceID, r.Label)
		}
	}
	if rows := d.records(RecordFilter{Connection: acme, Limit: 1}); rows[0].Label == nil ||
		rows[0].Label.Name != canaryName {
		t.Errorf("the label of %s is %v", rows[0].SourceID, rows[0].Label)
	}
}
