package syncer_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// partly makes a first run whose reading ends early after 100 of 150 payers.
func partly(t *testing.T) *world {
	w := newWorld(t)
	w.fill(150)
	w.books.broken = errors.New("the connection was reset")
	if res := w.run(); res.Err == nil || res.Plan != nil || w.service.Writes() != 0 {
		t.Fatalf("a reading that ended early gave %+v, and %d writes", res, w.service.Writes())
	}
	w.books.broken = nil
	return w
}

// pending returns how many creates wait to be sent.
func (w *world) pending() int {
	w.t.Helper()
	n, err := w.ledger.PendingCount(w.t.Context(), "acme", state.LaneCustomer)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestAFirstReadingThatEndsEarlyKeepsItsDecisionsAndSendsNothing(t *testing.T) {
	t.Parallel()
	w := partly(t)
	if n := w.pending(); n != 100 {
		t.Errorf("%d creates wait for the plan, want 100", n)
	}
	decided := map[string]int{}
	w.complete(w.runWith(t.Context(), syncer.RunOptions{
		Kind: connector.RunSync, Approve: func(p state.Plan) (bool, error) { return p.Creates == 150, nil },
		Decided: func(_ int64, d state.Decision) { decided[d.SourceID]++ },
	}))
	if n := len(w.service.Customers()); n != 150 || len(decided) != 50 {
		t.Errorf("%d customers were made, and the second run decided on %d records; want 150 and 50", n, len(decided))
	}
}

// Records that only a failed reading showed are not missed by the first whole one.
func TestRecordsOfAFailedFirstReadingAreNotMissed(t *testing.T) {
	t.Parallel()
	w := partly(t)
	w.books.records = nil
	for i := range 30 {
		w.books.put(fmt.Sprintf("D%04d", i), fmt.Sprintf("Other %d", i), fmt.Sprintf("d%d@example.com", i))
	}
	w.complete(w.run())
	if n := len(w.service.Customers()); n != 30 {
		t.Errorf("%d customers were made, want the 30 of the whole reading", n)
	}
}

// The plan looks again at records whose likes came on a later page of a first reading.
func TestAFirstReadingFindsWhatItsPagesShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(250)
	row := func(no, name, email string) map[string]string {
		return map[string]string{"No": no, "Name": name, "Email": email, "Postcode": "LS1 4AP", "Group": "payer"}
	}
	w.books.putAs("Z1", row("C0001", "Shares a number", "z1@example.com"))
	w.books.putAs("Z2", row("Z2", "Twice", "twice@example.com"))
	w.books.putAs("Z3", row("Z3", "Twice", "twice@example.com"))
	w.books.records[0], w.books.records[251] = w.books.records[251], w.books.records[0] // Z2 comes first
	w.run()
	shared, twice := string(connector.ReasonKeyShared), string(connector.ReasonEnteredTwice)
	want := map[string]string{"C0001": shared, "Z1": shared, "Z2": twice, "Z3": twice}
	if diff := cmp.Diff(want, w.attention()); diff != "" {
		t.Errorf("attention (-want +got):\n%s", diff)
	}
	if n := len(w.service.Customers()); n != 249 {
		t.Errorf("%d customers were made, want 249", n)
	}
}

// Records are planned while they are read, also beside free customers of the service. Before anything is sent, all of
// them are compared with these customers, also those that an interrupted run planned.
func TestAFirstReadingIsComparedWithFreeCustomersBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		w := newWorld(t)
		id := w.add(bakery)
		w.fill(99)
		if interrupted {
			w.books.broken = errors.New("the connection was reset")
			w.run()
			w.found("C0000") // a person compares them meanwhile
		}
		w.books.put("A1", "Peterson Transport Ltd", "") // no name and no address of it is the same
		w.books.records[0], w.books.records[99] = w.books.records[99], w.books.records[0]
		if interrupted {
			if w.run(); w.pending() != 100 || w.service.Writes() != 0 {
				t.Errorf("%d creates were planned, and %d requests sent", w.pending(), w.service.Writes())
			}
			w.books.broken = nil
		}
		w.run()
		if diff := cmp.Diff(map[string]string{"A1": string(connector.ReasonLikeness)}, w.attention()); diff != "" {
			t.Errorf("interrupted %t: attention (-want +got):\n%s", interrupted, diff)
		}
		if n := len(w.service.Customers()); n != 100 {
			t.Errorf("interrupted %t: there are %d customers beside %s, want 99", interrupted, n-1, id)
		}
	}
}

// A page that repeats a record of an earlier page is saved after it.
func TestARecordThatAFirstReadingShowsTwiceIsPlannedAsShownLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(150)
	again := w.books.records[3]
	again.Data = []byte(`{"No":"` + again.SourceID +
		`","Name":"Renamed Ltd","Email":"renamed@example.com","Postcode":"LS1 4AP","Group":"payer"}`)
	w.books.records = append(w.books.records, again)
	w.complete(w.run())
	names := 0
	for _, c := range w.service.Customers() {
		if c.Name == "Renamed Ltd" {
			names++
		}
	}
	if n := len(w.service.Customers()); n != 150 || names != 1 {
		t.Errorf("%d customers were made, %d with the newer name; want 150 and 1", n, names)
	}
}
