package syncer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/reconcile"
)

// linkedAndListed is a world with 40 linked payers and 20 more customers at the service with keys of ours,
// listed a day ago.
func linkedAndListed(t *testing.T) (*world, *meddler) {
	t.Helper()
	w := newWorld(t)
	w.fill(40)
	w.complete(w.run())
	for i := range 20 {
		w.add(fmt.Sprintf(`{"name":"PAYER %d","externalData":{"customerNo":"C%04d"}}`, 40+i, 40+i))
	}
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(25 * time.Hour)
	w.fill(60)
	return w, meddle(w)
}

// covers F97, S1, S17
func TestAListThatLacksWhatExistsMakesNobodyTwice(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]func([]connector.RemoteCustomer) []connector.RemoteCustomer{
		"empty": func([]connector.RemoteCustomer) []connector.RemoteCustomer { return nil },
		"5 of 60": func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
			return page[:min(5, len(page))]
		},
		"one of ours less": func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
			return page[min(1, len(page)):]
		},
		"one by hand less": func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
			return page[:max(0, len(page)-1)]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := linkedAndListed(t)
			m.onPage = page
			w.service.ResetRequests()
			for range 3 {
				res := w.run()
				if res.Outcome == connector.RunComplete {
					t.Errorf("the run is complete although the list lacks customers that exist")
				}
				var short *reconcile.ShortListError
				if !errors.As(res.Err, &short) {
					t.Errorf("the run ended with %v, want a *reconcile.ShortListError", res.Err)
				}
			}
			if n := len(w.bodies(http.MethodPost, "/api/customers")); n != 0 {
				t.Errorf("%d customers were created over a list that lacks what exists", n)
			}
			for id, reason := range w.attention() {
				if reason == string(connector.ReasonCustomerMissing) {
					t.Errorf("record %s counts as missing although its customer exists", id)
				}
			}
			m.onPage = nil // the list is whole again
			w.complete(w.run())
			if got := len(w.byKey()); got != 60 {
				t.Errorf("%d customers with keys of ours, want 60", got)
			}
		})
	}
}

// covers F98, S1, S17
func TestAListWithoutKeysMakesNobodyTwice(t *testing.T) {
	t.Parallel()
	w, m := linkedAndListed(t)
	m.onPage = withoutPairs
	w.complete(w.run()) // every customer is read by itself instead
	if got := len(w.byKey()); got != 60 {
		t.Errorf("%d customers with keys of ours, want 60", got)
	}
	if n := w.adoptedBy(); n != 20 {
		t.Errorf("%d customers were adopted, want the 20 that were there", n)
	}
}

// covers F98, S1, S17
// The same, met by a ledger that has never seen a key.
func TestAListWithoutKeysMakesNobodyTwiceForANewLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 30 {
		w.add(fmt.Sprintf(`{"name":"By hand %d","externalData":{"customerNo":"C%04d"}}`, i, i))
	}
	m := meddle(w)
	m.onPage = withoutPairs
	w.fill(30)
	w.complete(w.run())
	if got, n := len(w.byKey()), len(w.service.Customers()); got != 30 || n != 30 {
		t.Errorf("%d customers with %d keys of ours, want 30 and 30", n, got)
	}
}

// covers F98, S1, S17
// An individual read an hour ago is as old as a list an hour ago: a customer given a key by hand since is
// found.
func TestAListWithoutKeysIsReadAnewByEachRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Somebody","externalData":{"note":"old"}}`)
	m := meddle(w)
	m.onPage = withoutPairs
	w.fill(1)
	w.complete(w.run())
	w.clock.advance(time.Hour)
	if err := w.service.Edit(id,
		json.RawMessage(`{"name":"Somebody","externalData":{"customerNo":"C0001"}}`)); err != nil {
		t.Fatal(err)
	}
	w.fill(2)
	w.complete(w.run())
	if got, n := len(w.byKey()), len(w.service.Customers()); got != 2 || n != 2 {
		t.Errorf("%d customers with %d keys of ours, want 2 and 2", n, got)
	}
}

// covers F98, S17
// In a large service a few new payers are searched for instead; a search may leave
// the keys out too.
func TestASearchWithoutKeysIsFollowedByARead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(`{"name":"Somebody"}`) // a list without anybody has no page
	m := meddle(w)
	m.onPage = func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
		for i := range 10_001 {
			page = append(page, connector.RemoteCustomer{ID: fmt.Sprintf("x%05d", i), Name: fmt.Sprintf("Other %d", i),
				ExternalData: map[string]string{"n": fmt.Sprint(i)}})
		}
		return page
	}
	w.fill(1)
	w.complete(w.run())
	w.clock.advance(time.Hour)
	m.onSearch = withoutPairs
	w.fill(2)
	w.add(`{"name":"Payer 1","externalData":{"customerNo":"C0001"}}`)
	w.run()             // finds it
	w.complete(w.run()) // and takes it
	if n := len(w.service.Customers()); n != 3 {
		t.Errorf("%d customers, want 3", n)
	}
}

// covers F98, S17
// Half of the list shows its keys.
func TestAListThatLeavesSomeKeysOutMakesNobodyTwice(t *testing.T) {
	t.Parallel()
	w, m := linkedAndListed(t)
	m.onPage = func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
		return append(page[:len(page)/2:len(page)/2], withoutPairs(page[len(page)/2:])...)
	}
	w.complete(w.run())
	if got := len(w.byKey()); got != 60 {
		t.Errorf("%d customers with keys of ours, want 60", got)
	}
}

func withoutPairs(page []connector.RemoteCustomer) []connector.RemoteCustomer {
	out := make([]connector.RemoteCustomer, len(page))
	for i, c := range page {
		c.ExternalData = nil
		out[i] = c
	}
	return out
}

// adoptedBy counts the customers of the service that were entered by hand and
// belong to a payer now.
func (w *world) adoptedBy() (n int) {
	for _, c := range w.service.Customers() {
		if _, other, err := w.ledger.LinkedTo(w.t.Context(), c.ID); err == nil && other >= "C0040" {
			n++
		}
	}
	return n
}

// covers F97
// A token that may see nobody any more says 404 to every read too.
func TestMoreOfOursMissingThanTheGuardAllowsAreNotTakenForDeleted(t *testing.T) {
	t.Parallel()
	w, m := linkedAndListed(t)
	w.syncer.Reconciler.Lookup.MaxMissing = func(linked int) int { return max(10, linked/20) }
	m.onPage = func([]connector.RemoteCustomer) []connector.RemoteCustomer { return nil }
	m.onRead = func(string, connector.RemoteCustomer, error) (connector.RemoteCustomer, error) {
		return connector.RemoteCustomer{},
			&connector.RemoteError{Op: "get customer", Fault: connector.FaultNotFound, Status: 404, Detail: "no such customer"}
	}
	res := w.run()
	var short *reconcile.ShortListError
	if !errors.As(res.Err, &short) || short.Lacking != 40 || short.Limit != 10 {
		t.Fatalf("the run ended with %v", res.Err)
	}
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); !errors.As(err, &short) {
		t.Errorf("the sweep ended with %v", err)
	}
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n != 40 {
		t.Errorf("%d creates in all, want the first 40", n)
	}
	for id, reason := range w.attention() {
		if reason == string(connector.ReasonCustomerMissing) {
			t.Errorf("record %s counts as missing", id)
		}
	}
	w.syncer.Reconciler.Lookup.MaxMissing = func(int) int { return 40 } // a person says that they were deleted
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.attention()); got != 40 {
		t.Errorf("%d records need attention, want the 40 whose customers are gone", got)
	}
}

// Everybody who has a customer is served while nobody new may be created.
func TestAShortListStopsCreatesAndNothingElse(t *testing.T) {
	t.Parallel()
	w, m := linkedAndListed(t)
	m.onPage = func([]connector.RemoteCustomer) []connector.RemoteCustomer { return nil }
	w.books.put("C0003", "Payer 3", "changed@example.com")
	res := w.run()
	if res.Outcome != connector.RunIncomplete || res.Counts.Updated != 1 || res.Counts.Waiting != 20 {
		t.Errorf("the run ended %s with %+v, want one update and 20 that wait", res.Outcome, res.Counts)
	}
}

// covers S1
// A pass that another process made minutes ago shows nothing of what
// came since.
func TestACustomerMadeByHandMinutesAgoIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.complete(w.run())
	w.clock.advance(10 * time.Minute)
	w.add(`{"name":"Another name","people":[{"email":"other@example.com"}],"externalData":{"customerNo":"C0003"}}`)
	w.fill(4)
	w.complete(w.run())
	if got, n := len(w.byKey()), len(w.service.Customers()); got != 4 || n != 4 {
		t.Errorf("%d customers with %d keys, want 4 and 4", n, got)
	}
}

// covers F104
// The process died while its clock was a day ahead.
func TestAClockThatWasAheadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(40)
	m := meddle(w)
	m.onCreate = func(body []byte) error {
		_, err := m.Client.CreateCustomer(t.Context(), body)
		return errors.Join(err, unanswered("create customer"))
	}
	w.clock.advance(24 * time.Hour)
	w.run()
	m.onCreate = nil
	w.restart()
	w.clock.advance(-24 * time.Hour)
	w.service.ResetRequests()
	res := w.run()
	lists := 0
	for _, r := range w.service.Requests() {
		if r.Method == http.MethodGet && r.Path == "/api/customers" {
			lists++
		}
	}
	if lists > 24 {
		t.Errorf("%d requests for pages of the list in one run of 40 payers", lists)
	}
	if res.Outcome != connector.RunComplete {
		w.clock.advance(20 * time.Minute)
		res = w.run()
	}
	w.complete(res)
	if got := len(w.byKey()); got != 40 {
		t.Errorf("%d customers with keys of ours, want 40", got)
	}
}

// covers F105
func TestAReadThatLagsBehindMakesNobodyMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	made := map[string]time.Time{}
	m.onRead = func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if _, met := made[id]; !met {
			made[id] = w.clock.now()
		}
		if w.clock.now().Sub(made[id]) < 1500*time.Millisecond {
			return connector.RemoteCustomer{},
				&connector.RemoteError{Op: "get customer", Fault: connector.FaultNotFound, Status: 404, Detail: "no such customer"}
		}
		return c, err
	}
	w.fill(12)
	if res := w.run(); res.Outcome != connector.RunIncomplete || res.Err != nil {
		t.Errorf("the first run ended %s: %v; want it to ask for another", res.Outcome, res.Err)
	}
	for id, reason := range w.attention() {
		if reason != string(connector.ReasonOutcomeUnknown) {
			t.Errorf("record %s needs attention as %s while its customer cannot be read yet", id, reason)
		}
	}
	w.clock.advance(2 * time.Second)
	res := w.complete(w.run())
	if len(w.attention()) != 0 || w.linkRequests() != 12 {
		t.Errorf("after the second run %d records need attention and %d links were asked for: %+v", len(w.attention()),
			w.linkRequests(), res.Counts)
	}
}

// covers F105, F43
// Told so before this version, or by a read that lagged longer.
func TestARunLooksAgainAtWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.fill(2)
	w.complete(w.run())
	w.clock.advance(time.Hour)
	m.onRead = func(string, connector.RemoteCustomer, error) (connector.RemoteCustomer, error) {
		return connector.RemoteCustomer{},
			&connector.RemoteError{Op: "get customer", Fault: connector.FaultNotFound, Status: 404, Detail: "no such customer"}
	}
	if exists, err := w.syncer.Reconciler.Check(t.Context(), w.payer("C0000").BillingID, connector.CauseSweep,
		"test"); exists || err != nil {
		t.Fatal(exists, err)
	}
	if got := w.payer("C0000").LinkState; got != connector.LinkMissing {
		t.Fatalf("the payer is %s, want missing", got)
	}
	m.onRead = nil
	w.complete(w.run())
	if got := w.payer("C0000").LinkState; got != connector.LinkLinked || len(w.attention()) != 0 {
		t.Errorf("the payer is %s with %v, want it linked", got, w.attention())
	}
}

// covers F02, F05
// What our create was frozen with is ours when its answer was
// lost and its customer is found by the key.
func TestAnAddressThatChangesAfterALostAnswerTakesTheOldOnesPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	m.onCreate = func(body []byte) error {
		_, err := m.Client.CreateCustomer(t.Context(), body)
		return errors.Join(err, unanswered("create customer"))
	}
	w.books.put("A1", "Northwind", "old@example.com")
	w.run()
	m.onCreate = nil
	w.restart()
	w.books.put("A1", "Northwind", "new@example.com")
	w.run()
	w.complete(w.run())
	c, err := w.billing.Customer(t.Context(), w.payer("A1").BillingID)
	if err != nil || len(c.Emails) != 1 || c.Emails[0] != "new@example.com" {
		t.Errorf("the customer has the e-mail addresses %v, %v; want the new one alone", c.Emails, err)
	}
}
