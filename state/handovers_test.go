package state

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestAHandoverIsNotedOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.mandate(connector.Mandate{Status: connector.MandateCreated}, connector.CauseLink)
	day := d.Now()
	for i, want := range []bool{true, false, true} {
		d.do(func(tx *Tx) error {
			news, err := tx.NoteHandover("m1", day.AddDate(0, 0, i/2), "ada")
			if news != want {
				t.Errorf("note %d: news %v, want %v", i, news, want)
			}
			return err
		})
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM handovers"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// Days count as they were observed. A letter sent after the signature did not cause it.
func TestASigningBeginsAndEndsAsItWasObserved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinked(d.run(acme), "c1", "b1", connector.ActionUpdate)
	d.label(acme, mapping, NewLabel{SourceID: "c1", Label: connector.Label{Name: "Ada", Language: "de"}})
	start := d.Now()
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	move := func(id string, to connector.MandateStatus) {
		d.mandate(connector.Mandate{ID: id, Status: to}, connector.CauseSweep)
	}
	move("m1", connector.MandateCreated)
	move("m2", connector.MandateCreated)
	move("m3", connector.MandateActive) // it was signed when it was first seen
	d.clock.move(time.Hour)
	d.wasSent("m1", 0, "sent")
	d.clock.move(24 * time.Hour)
	move("m1", connector.MandatePending)
	d.clock.move(time.Hour)
	move("m1", connector.MandateActive)
	d.wasSent("m1", 1, "sent")
	d.wasSent("m2", 0, "refused")
	d.do(func(tx *Tx) error { _, err := tx.NoteHandover("m2", start.AddDate(0, 0, 1), "ada"); return err })

	signings := func(connection string) (out []Signing) { // in some order
		if err := d.EachSigning(t.Context(), connection,
			func(s Signing) error { out = append(out, s); return nil }); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(out, func(a,
			b Signing) int {
			return cmp.Or(a.Created.Compare(b.Created), b.Signed.Compare(a.Signed))
		})
		return out
	}
	want := []Signing{
		{Connection: acme, Language: "en", Created: start, Signed: at(25), Sent: at(1), Times: 1},
		{Connection: acme, Language: "de", Created: start, Sent: start.Truncate(24*time.Hour).AddDate(0, 0, 1), Times: 1},
	}
	if diff := gocmp.Diff(want, signings(acme)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if others := signings("beta"); len(others) > 0 {
		t.Errorf("of other books: %+v", others)
	}

	d.do(func(tx *Tx) error { // of a customer that is nobody's
		_, err := tx.SaveMandate(connector.Mandate{ID: "m4", CustomerID: "b9", Status: connector.MandateCreated},
			connector.CauseSweep, "1")
		return err
	})
	if diff := gocmp.Diff(append(want, Signing{Created: d.Now()}), signings("")); diff != "" {
		t.Errorf("of all (-want +got):\n%s", diff)
	}
}
