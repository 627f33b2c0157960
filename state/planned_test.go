package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// Earlier versions kept the whole hashes of a record's content and mapping where a mark and a begin do.
func TestARecordPlannedByAnEarlierVersionIsNotPlannedAgain(t *testing.T) {
	t.Parallel()
	const version = "efcd906d6a95d3e6c7306f1dfa8666dac5d5963326ed7ec8d09aef444cbd1b3f"
	d := newDesk(t)
	run := d.run(acme)
	r := record("c1", "Ada")
	save := func(r connector.Record) { d.save(run, acme, r) }
	expect := func(when string, mapping string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, ids(d.candidates(acme, mapping))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	news := func() bool {
		found, err := d.PageChanges(t.Context(), acme, version, []connector.Record{r}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(found.Records)+len(found.Unlabelled) > 0
	}
	decision := Decision{SourceID: "c1", ContentHash: r.Hash(), Verdict: Excluded,
		Label: &NewLabel{SourceID: "c1", Label: connector.Label{Name: "Ada"}}}
	save(r)
	d.do(func(tx *Tx) error { return tx.SaveDecisions(run, acme, version, decision) })
	expect("as this version keeps it", version)
	expect("with another mapping", "0"+version[1:], "c1")
	if news() {
		t.Error("a record that is held counts as new")
	}
	d.do(func(tx *Tx) error {
		if err := tx.exec("UPDATE labels SET mapping = ?", labelForm+version); err != nil {
			return err
		}
		return tx.exec("UPDATE source_records SET planned_hash = content_hash, planned_mapping = ?", version)
	})
	expect("as an earlier version kept it", version)
	if news() {
		t.Error("a record held by an earlier version counts as new")
	}
	d.do(func(tx *Tx) error { return tx.SaveDecisions(run, acme, version, decision) })
	save(record("c1", "Eve"))
	expect("with other content", version, "c1")
	save(r)
	expect("with the content that was planned", version)
}
