package syncer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// personName returns one of 40 names.
func personName(n int) string {
	given := []string{"Anna", "Bernd", "Clara", "Dieter", "Eva", "Frank", "Greta", "Hans"}
	family := []string{"Hoffmann", "Lindqvist", "Petersen", "Schneider", "Thompson"}
	return given[n%len(given)] + " " + family[n/len(given)]
}

// second makes a customer of nobody with the e-mail address of a record, under a name.
func (w *world) second(n int, name string, mandate connector.MandateStatus) string {
	w.t.Helper()
	id, err := w.service.Begin(fmt.Appendf(nil,
		`{"name":%q,"people":[{"name":"Ann","email":"payer%d@example.com"}],"addresses":[{"line1":"1 Quay St","postCode":"LS1 4AP"}]}`, name, n), mandate)
	w.does(err)
	return id
}

// nightly sweeps twice, so that the list is believed, and looks for duplicates.
func (w *world) nightly() syncer.Duplicates {
	w.t.Helper()
	for range 2 {
		w.clock.advance(time.Hour)
		if _, err := w.syncer.Reconciler.Sweep(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	found, err := w.syncer.FindDuplicates(w.t.Context())
	if err != nil || found.Skipped {
		w.t.Fatalf("%+v: %v", found, err)
	}
	return found
}

// finds fails the test unless a run ends with so many findings.
func (w *world) finds(want int) {
	w.t.Helper()
	w.clock.advance(time.Minute)
	res := w.complete(w.run())
	if res.Attention != want || res.Counts.Held != want || res.Counts.Created != 0 {
		w.t.Errorf("a run finds %d and holds %d, want %d: %+v", res.Attention, res.Counts.Held, want, res.Counts)
	}
	told := w.attention()
	n := 0
	for _, reason := range told {
		if reason == string(connector.ReasonDuplicateCustomer) {
			n++
		}
	}
	if n != want || len(told) != want {
		w.t.Errorf("%v is told, want %d second customers", told, want)
	}
}

// A company backfilled against a service that had some of its customers already.
func TestSecondCustomersAreToldEveryNightUntilEachIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mapping = strings.Replace(w.mapping, `customer.people[0].email != ""`, "false", 1)
	const records = 40
	for i := range records {
		w.books.put(fmt.Sprintf("C%04d", i), personName(i), fmt.Sprintf("payer%d@example.com", i))
	}
	w.complete(w.run())
	if n := len(w.service.Customers()); n != records {
		t.Fatalf("%d customers", n)
	}
	exact := w.add(fmt.Sprintf(`{"name":%q,"people":[{"name":"Ann","email":"payer1@example.com"}]}`, personName(1)))
	typo := w.second(2, personName(2)[1:], connector.MandateCreated)
	active := w.second(3, personName(3), connector.MandateActive)
	if found := w.nightly(); found.Records != 3 {
		t.Fatalf("the nightly job finds %d: %v", found.Records, w.attention())
	}
	for range 3 {
		w.finds(3)
	}
	told, err := w.ledger.AttentionOf(t.Context(), "acme", "C0003")
	if err != nil || len(told) != 1 ||
		!strings.Contains(told[0].Detail, w.payer("C0003").BillingID+" (no mandate known)") ||
		!strings.Contains(told[0].Detail, active+" (mandate ACTIVE)") {
		t.Errorf("C0003 is told %+v: %v", told, err)
	}

	w.does(w.ledger.Do(t.Context(), func(tx *state.Tx) error {
		_, err := tx.SavePairDecision("acme", "C0002", typo, state.WordReject)
		return err
	}))
	w.finds(2)

	u, err := w.syncer.UnlinkOf(t.Context(), w.payer("C0003"), 0)
	w.does(err)
	w.does(w.syncer.SayUnlink(t.Context(), u, syncer.Operator{Name: "ada", Reason: "the other has the mandate"}))
	w.complete(w.run())
	h, err := w.syncer.PairOf(t.Context(), w.connection(), "C0003", active)
	w.does(err)
	w.does(w.syncer.Accept(t.Context(), h, syncer.Operator{Name: "ada", Reason: "the other has the mandate"}))
	w.complete(w.run())
	if got := w.payer("C0003").BillingID; got != active {
		t.Errorf("C0003 is linked to %q, want %q", got, active)
	}
	w.finds(1)

	w.does(w.service.Delete(exact))
	if found := w.nightly(); found.Records != 0 {
		t.Errorf("the nightly job still finds %d: %v", found.Records, w.attention())
	}
	w.finds(0)
}

func TestAFamilyAtOneAddressIsNoDuplicate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("C1", "Anna Meyer", "meyer@example.com")
	w.complete(w.run())
	w.add(`{"name":"Bernd Meyer","people":[{"name":"Bernd Meyer","email":"meyer@example.com"}],"addresses":[{"line1":"1 Quay St","postCode":"LS1 4AP"}]}`)
	if found := w.nightly(); found.Records != 0 {
		t.Errorf("%v", w.attention())
	}
}

func TestWithoutABelievedListNothingIsCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	found, err := w.syncer.FindDuplicates(t.Context())
	if err != nil || !found.Skipped {
		t.Errorf("%+v: %v", found, err)
	}
}

// Both are in the same books, so their addresses there say whether they are meant to be two.
func TestTwoRecordsOfOnePayerAreToldBoth(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		postcode string
		others   int
		want     int
	}{
		"one address":                    {"LS1 4AP", 1, 2},
		"two addresses":                  {"M1 1AE", 1, 0},
		"more records than one is twice": {"LS1 4AP", 7, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.syncer.Settings.Adopt = syncer.AdoptExact // an earlier version looked at keys alone
			w.books.put("C0", "Petersen Transport Ltd", "desk@petersen.example")
			for i := range test.others {
				no := fmt.Sprintf("C%d", i+1)
				w.books.putAs(no, map[string]string{"No": no, "Name": "Petersen Transport Ltd", "Email": "desk@petersen.example",
					"Postcode": test.postcode, "Group": "payer"})
			}
			w.complete(w.run())
			if found := w.nightly(); found.Records != test.want {
				t.Errorf("%d are told, want %d: %v", found.Records, test.want, w.attention())
			}
		})
	}
}

// A payer may be a customer of two companies that share an account of the billing service, and have a mandate for each.
func TestCustomersOfTwoCompaniesAreNoDuplicates(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		configured map[string]string
		separate   bool // a person said so
		want       int
	}{
		"one company with two connections": {map[string]string{"acme": "Acme", next: "Acme"}, false, 2},
		"a connection that is no more":     {map[string]string{next: "Acme"}, false, 2},
		"two companies":                    {map[string]string{"acme": "Acme", next: "Other"}, false, 0},
		"two by a person's word":           {map[string]string{"acme": "", next: ""}, true, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.syncer.Settings.Configured = c.configured
			w.syncer.Settings.Adopt = syncer.AdoptExact // an earlier version looked at keys alone
			w.books.put("C1", "Petersen Transport Ltd", "desk@petersen.example")
			w.complete(w.run())
			b := newNewBooks()
			b.put("K7", "Petersen Transport Ltd", "desk@petersen.example")
			w.complete(w.runNew(b, connector.RunSync))
			if c.separate {
				w.does(w.ledger.Do(t.Context(), func(tx *state.Tx) error {
					_, err := tx.DecideConnections(state.ConnectionDecision{Old: "acme", New: next, Decision: state.BooksSeparate,
						Actor: "ada", Reason: "two companies"})
					return err
				}))
			}
			if found := w.nightly(); found.Records != c.want {
				t.Errorf("%d are told, want %d: %v", found.Records, c.want, w.attention())
			}
		})
	}
}

func TestACustomerWithAKeyOfAnotherCompanyIsNoDuplicate(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]int{"": 1, "another-company": 0} {
		w := newWorld(t)
		w.mapping = scopedMapping
		w.books.put("C1", "Petersen Transport Ltd", "desk@petersen.example")
		w.complete(w.syncs(w.as("acme", "acme", w.books), true))
		external := ""
		if scope != "" {
			external = fmt.Sprintf(`,"externalData":{"customerNo":"77","customerNoScope":%q}`, scope)
		}
		w.add(`{"name":"Petersen Transport Ltd","people":[{"name":"Desk","email":"desk@petersen.example"}]` + external + `}`)
		if found := w.nightly(); found.Records != want {
			t.Errorf("scope %q: %d are told, want %d: %v", scope, found.Records, want, w.attention())
		}
	}
}
