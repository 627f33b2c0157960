package state

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// firstPages returns records of every kind with the decisions of a first plan.
func firstPages() (out []FirstRecord) {
	add := func(id string, decide func(*Decision)) {
		r := record(id, "Ada "+id)
		d := Decision{SourceID: id, ContentHash: r.Hash(), Verdict: Included, Key: key(id), LinkState: connector.LinkNew,
			Topic:    TopicRecord,
			Likeness: &Likeness{Name: "ada", Emails: []string{id + "@example.com"}},
			Label:    &NewLabel{SourceID: id, Label: connector.Label{Name: "Ada " + id}},
			Customer: &NewChange{Action: connector.ActionCreate, Wanted: customer(id, "Ada")}}
		decide(&d)
		out = append(out, FirstRecord{Record: r, Decision: d})
	}
	for i := range 40 {
		add(fmt.Sprintf("c%02d", i), func(*Decision) {})
	}
	add("linked", func(d *Decision) { d.Link = true })
	add("not asked", func(d *Decision) { d.Unasked = Unasked{Why: connector.UnaskedRule, Line: 7, Condition: 2} })
	add("held", func(d *Decision) {
		d.Verdict, d.Customer, d.Likeness = Held, nil, nil
		*d = d.Because(connector.ReasonNameMissing, "It has no name.")
	})
	add("unreadable", func(d *Decision) {
		*d = Decision{SourceID: d.SourceID, ContentHash: d.ContentHash, Verdict: Held, Topic: TopicRecord, Label: d.Label}
		*d = d.Because(connector.ReasonRecordUnreadable, "")
	})
	add("left out", func(d *Decision) {
		*d = Decision{SourceID: d.SourceID, ContentHash: d.ContentHash, Verdict: Excluded, Label: d.Label}
	})
	return out
}

// saveFirst stores new records with their decisions.
func (d *desk) saveFirst(run int64, page []FirstRecord) {
	d.t.Helper()
	sealed := make([]FirstRecord, len(page))
	for i, f := range page {
		one, err := d.NewFirst(acme, f.Record, f.Decision)
		if err != nil {
			d.t.Fatal(err)
		}
		sealed[i] = *one
	}
	d.do(func(tx *Tx) error { return tx.SaveFirst(run, acme, mapping, sealed) })
}

// A record stored with its decision is as one that was stored, read back and decided on.
func TestAFirstRecordIsStoredAsIfItHadBeenPlannedLater(t *testing.T) {
	t.Parallel()
	first := firstPages()
	once, twice := newDesk(t), newDesk(t)
	run, other := once.run(acme), twice.run(acme)
	once.saveFirst(run, first)
	for _, f := range first {
		twice.save(other, acme, f.Record)
		twice.decide(other, acme, f.Decision)
	}
	for _, query := range []string{
		`SELECT source_id || ' ' || content_hash || ' ' || state || ' ' || unreadable || ' ' || origin || ' ' || planned_hash || ' ' || planned_mapping || ' ' || decision
			|| ' ' || replan || ' ' || rests || ' ' || contested || ' ' || class || ' ' || not_asked || ' ' || not_asked_line || ' ' || not_asked_condition || ' ' || missed || unseen
			FROM source_records ORDER BY source_id`,
		"SELECT number || ' ' || source_id || ' ' || mapping FROM labels ORDER BY number",
		"SELECT source_id || ' ' || key_name || ' ' || key_value || ' ' || link_state || ' ' || (likeness = '') FROM payers ORDER BY source_id",
		"SELECT source_id || ' ' || topic || ' ' || reason || ' ' || detail FROM attention ORDER BY source_id, topic",
		`SELECT change_id || ' ' || source_id || ' ' || lane || ' ' || action || ' ' || change_hash || ' ' || wanted_hash || ' ' || state || ' ' || run_id
			FROM changes ORDER BY change_id`,
	} {
		want, got := column(t, twice.Ledger, query), column(t, once.Ledger, query)
		if diff := cmp.Diff(want, got); diff != "" || got == "" {
			t.Errorf("%.40s… (-want +got):\n%s", query, diff)
		}
	}
	if found := once.candidates(acme, mapping); len(found) > 0 {
		t.Errorf("the plan would look at %v again", ids(found))
	}
	if a, b := once.finishPlan(run), twice.finishPlan(other); a.Hash != b.Hash || a.Creates != b.Creates ||
		a.Links != b.Links || a.Holds != b.Holds {
		t.Errorf("the plans are %+v and %+v", a, b)
	}
	for _, f := range first {
		r, err := once.StoredRecord(t.Context(), acme, f.Record.SourceID, mapping)
		if err != nil || !cmp.Equal(r.Record, f.Record) {
			t.Errorf("record %s reads %+v, %v", f.Record.SourceID, r.Record, err)
		}
	}
}

// A record that another stored meanwhile is left to the plan.
func TestAFirstRecordThatIsStoredByNowIsPlannedLater(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run, first := d.run(acme), firstPages()[:3]
	d.do(func(tx *Tx) error { return tx.Bar(acme, "c01", ForgottenPayer) })
	d.saveFirst(run, first)
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes"); n != 2 {
		t.Errorf("%d changes are planned, want 2", n)
	}
	if kept := one[string](t, d.Ledger,
		"SELECT forgotten FROM source_records WHERE source_id = 'c01'"); kept != string(ForgottenPayer) {
		t.Errorf("the forgotten record is %q", kept)
	}
}

// News tells the records that the ledger has never held.
func TestNewsNamesTheRecordsThatAreNew(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("same", "Ada"), record("edited", "Ada"))
	blank := record("blank", "")
	blank.Data = nil
	news, err := d.PageChanges(t.Context(), acme, mapping,
		[]connector.Record{record("same", "Ada"), record("edited", "Eve"), record("new", "Ada"), record("new", "Ada"),
			record("twice", "Ada"), record("twice", "Eve"), blank, record("other", "Ada")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"new", "other"}, ids(news.First)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	d.save(run, acme, record("new", "Ada"))
	stored := d.candidates(acme, mapping)
	at := func(list []Candidate) Candidate {
		for _, c := range list {
			if c.Record.SourceID == "new" {
				return c
			}
		}
		return Candidate{}
	}
	if diff := cmp.Diff(at(stored), at(news.First), cmp.AllowUnexported(Candidate{})); diff != "" {
		t.Errorf("a new record is a candidate as if it were stored (-want +got):\n%s", diff)
	}
}
