package state

import (
	"testing"
	"time"
)

// The newest word counts and its time moves; nothing else of the customer, its payer or its plan
// does, and of customers that are nobody's none is kept.
func TestAFinancialStatusIsKeptOfCustomersOfOursAndMovesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(2)
	rest := "SELECT group_concat(p.source_id || p.updated_at || p.shown_at || r.replan || c.digest || c.ticket) FROM payers p JOIN source_records r USING (source_id) JOIN remote_customers c USING (billing_id)"
	before := one[*string](t, d.Ledger, rest)
	for _, s := range []struct{ id, status string }{{"b000", "OVERDUE"}, {"b000", "SOMETHING_NEW"},
		{"b000", "SOMETHING_NEW"}, {"stranger", "OVERDUE"}} {
		d.clock.move(time.Hour)
		d.do(func(tx *Tx) error { return tx.SaveFinancial(s.id, s.status) })
	}
	got, err := d.Financial(t.Context(), "b000")
	if err != nil || got.Status != "SOMETHING_NEW" || !got.SeenAt.Equal(d.clock.now().Add(-time.Hour)) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := d.Financial(t.Context(), "stranger"); err != nil || got != (Financial{}) {
		t.Errorf("of a stranger: %+v, %v", got, err)
	}
	if after := one[*string](t, d.Ledger, rest); before != after && (before == nil || after == nil || *before != *after) {
		t.Errorf("something else moved: %v, then %v", before, after)
	}
	for _, sorted := range []RecordSort{"", ByKey} {
		rows, err := d.Records(t.Context(), RecordFilter{Sort: sorted, Limit: 1})
		if err != nil || len(rows) != 1 || rows[0].Financial != got {
			t.Errorf("in a list by %q: %+v, %v", sorted, rows, err)
		}
	}
	standing, err := d.ReadinessOf(t.Context(), RecordID{acme, "c000"})
	if err != nil || standing.Financial != got {
		t.Errorf("where it stands: %+v, %v", standing.Financial, err)
	}
}
