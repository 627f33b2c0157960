package syncer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// before is what an installation of the version before left behind when it was
// stopped, made by that version: its ledger with its key, the records of its books, and
// the requests that had reached the service, in their order, by which a sandbox with the
// same seed has the same customers. Two changes of each kind were without an answer, one
// that never arrived and one that did since; a create was frozen and told to wait; one
// had its key doubled before it was answered; and a plan waited for approval.
const before = "testdata/before"

// theVersionBefore returns a world that goes on where the version before was stopped.
func theVersionBefore(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w.path = filepath.Join(t.TempDir(), "payersync.db")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(before, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	unzip, err := gzip.NewReader(bytes.NewReader(read("payersync.db.gz")))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{w.path: ledger, w.path + ".key": read("ledger-key.txt")} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var requests []sandbox.Request
	if err := json.Unmarshal(read("requests.json"), &requests); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(read("records.json"), &w.books.records); err != nil {
		t.Fatal(err)
	}
	w.replay(requests)
	w.clock.advance(time.Hour)
	w.open()
	return w
}

// replay sends requests that once reached the service to it again.
func (w *world) replay(requests []sandbox.Request) {
	w.t.Helper()
	token := w.service.IssueToken(sandbox.ClientCredentials, time.Hour)
	for _, r := range requests {
		if r.Method == "ADD" { // by hand, at the service's console
			w.add(string(r.Body))
			continue
		}
		req, err := http.NewRequestWithContext(w.t.Context(), r.Method, "http://localhost"+r.Path, bytes.NewReader(r.Body))
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := w.service.RoundTripper().RoundTrip(req)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			w.t.Fatalf("%s %s is answered with %d", r.Method, r.Path, resp.StatusCode)
		}
	}
	w.service.ResetRequests()
}

// covers F05, F70, S1, S3
func TestALedgerOfTheVersionBeforeGoesOnInTheMiddleOfEveryKindOfChange(t *testing.T) {
	t.Parallel()
	w := theVersionBefore(t)
	keep := func(state.Plan) (bool, error) { return true, nil }
	for range 3 {
		w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync, Approve: keep})
	}
	told := w.attention()
	if got := told["C3"]; got != string(connector.ReasonKeyDoubled) {
		t.Errorf("C3 needs a person for %q, want key_doubled", got)
	}
	if got := told["L1"]; got != string(connector.ReasonLinkLost) {
		t.Errorf("L1 needs a person for %q, want link_lost", got)
	}
	for _, c := range w.service.Customers() { // a person decides: neither
		if c.ExternalData["customerNo"] == "C3" {
			if err := w.service.Delete(c.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.clock.advance(time.Hour)
	w.sweep()
	for range 3 {
		w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync, Approve: keep})
	}
	w.complete(w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync, Approve: keep}))

	customers := w.byKey()
	for _, r := range w.books.records {
		var fields struct{ No, Name string }
		if err := json.Unmarshal(r.Data, &fields); err != nil {
			t.Fatal(err)
		}
		c, p := customers[fields.No], w.payer(r.SourceID)
		if c.Name != fields.Name || p.BillingID != c.ID || p.LinkState != connector.LinkLinked {
			t.Errorf("record %s (%s) is %s to %q; the service has %q called %q", r.SourceID, fields.Name, p.LinkState, p.BillingID, c.ID, c.Name)
		}
		if len(c.Mandates) != 1 {
			t.Errorf("the customer of %s has %d mandates, want one", r.SourceID, len(c.Mandates))
		}
	}
	if got, want := len(w.service.Customers()), len(w.books.records); got != want {
		t.Errorf("%d customers for %d records", got, want)
	}
	for key, bodies := range w.createsByKey() {
		if len(bodies) > 1 {
			t.Errorf("the creates of %s had %d different bodies", key, len(bodies))
		}
	}
}

// createsByKey returns the different bodies that creates had, by key.
func (w *world) createsByKey() map[string]map[string]bool {
	w.t.Helper()
	out := map[string]map[string]bool{}
	for _, b := range w.bodies(http.MethodPost, "/api/customers") {
		var c struct{ ExternalData map[string]string }
		if err := json.Unmarshal(b, &c); err != nil {
			w.t.Fatal(err)
		}
		key := c.ExternalData["customerNo"]
		if out[key] == nil {
			out[key] = map[string]bool{}
		}
		out[key][string(b)] = true
	}
	return out
}
