package state

import (
	"slices"
	"testing"

	"payersync/connector"

	"github.com/google/go-cmp/cmp"
)

// covers F260
func TestARecordAndThePayerThatItMayBeAreOneRenumbering(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := Likeness{Name: "northwind", Emails: []string{"ann@x"}}
	d.known(map[string]Likeness{"k2007": ann, "k9007": ann, "c3": {Name: "northwind"}}, "k2007")
	d.do(func(tx *Tx) error {
		if err := tx.exec("UPDATE source_records SET state = 'archived' WHERE source_id = 'k2007'"); err != nil {
			return err
		}
		if err := tx.tell(acme, "k2007", TopicRecord, connector.ReasonLeftWithMandate, "It left."); err != nil {
			return err
		}
		return tx.tell(acme, "k9007", TopicRecord, connector.ReasonRenumbered, "It may be k2007.")
	})
	want := []Renumbering{{RecordID{acme, "k9007"}, RecordID{acme, "k2007"}, "bk2007"}}
	told := func(alone, paired int) {
		t.Helper()
		left := connector.ReasonLeftWithMandate
		listed, err := d.Attention(t.Context(), Filter{State: string(left), Alone: true})
		counts, countErr := d.ReasonCounts(t.Context())
		at := slices.IndexFunc(counts, func(c ReasonCount) bool { return c.Reason == left })
		if err != nil || countErr != nil || len(listed) != alone || counts[at].Count != alone || counts[at].Paired != paired {
			t.Errorf("%d are listed alone, want %d, and counted %+v, want %d with another record: %v, %v", len(listed), alone,
				counts[at], paired, err, countErr)
		}
	}
	for _, half := range []string{"k2007", "k9007"} {
		found, err := d.RenumberingsOf(t.Context(), RecordID{acme, half})
		if diff := cmp.Diff(want, found); err != nil || diff != "" {
			t.Errorf("of %s: %v\n%s", half, err, diff)
		}
	}
	if all, err := d.Renumberings(t.Context(), 5); err != nil || !cmp.Equal(want, all) {
		t.Errorf("all are %v: %v", all, err)
	}
	if none, err := d.RenumberingsOf(t.Context(), RecordID{acme, "c3"}); err != nil || len(none) > 0 {
		t.Errorf("a record that is neither half has %v: %v", none, err)
	}
	told(0, 1)
	d.do(func(tx *Tx) error { _, err := tx.SavePairDecision(acme, "k9007", "bk2007", WordReject); return err })
	if none, err := d.RenumberingsOf(t.Context(), RecordID{acme, "k2007"}); err != nil || len(none) > 0 {
		t.Errorf("two that a person told apart are %v: %v", none, err)
	}
	told(1, 0)
}
