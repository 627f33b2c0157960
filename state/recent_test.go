package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestRecentCountsWhatHappenedSinceATime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	status := func(id string, s connector.MandateStatus) {
		t.Helper()
		d.do(func(tx *Tx) error {
			_, err := tx.SaveMandate(connector.Mandate{ID: id, CustomerID: "b-" + id, Status: s}, connector.CauseSweep, "1")
			return err
		})
	}
	recent := func() Recent {
		t.Helper()
		r, err := d.Recent(t.Context(), d.clock.now().Add(-24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	from := func() string { return d.clock.now().Add(-24 * time.Hour).UTC().Format(layout) }
	if diff := cmp.Diff(Recent{Since: from()}, recent()); diff != "" {
		t.Errorf("of a new ledger (-want +got):\n%s", diff)
	}
	run := func(created, updated int) {
		t.Helper()
		id := d.run(acme)
		d.closeRun(id, connector.RunComplete)
		d.do(func(tx *Tx) error {
			return tx.exec("UPDATE runs SET created = ?, updated = ? WHERE run_id = ?", created, updated, id)
		})
	}
	run(9, 0)
	status("m1", connector.MandateActive)
	status("m2", connector.MandatePending)
	d.clock.move(25 * time.Hour)
	run(2, 3)
	d.run(acme) // in progress
	status("m2", connector.MandateActive)
	now := d.clock.now().UTC().Format(layout)
	want := Recent{Since: from(), Runs: 1, Created: 2, Updated: 3,
		Mandates: []RecentStatus{{connector.MandateActive, 1, now, nil}}}
	if diff := cmp.Diff(want, recent()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := d.LimitedTo([]string{"beta"}).Recent(t.Context(), time.Time{}); err != nil || got.Runs+len(got.Mandates) > 0 {
		t.Errorf("a user limited to another connection sees %+v, %v", got, err)
	}
}
