package syncer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

// A folder of testdata/before holds the files of a stopped installation, made by an earlier version: its
// ledger with its key, its mapping, its records by connection, and all acts on the service, in order. With
// them a sandbox with the same seed has the same customers and mandates.
//
// schema5 was stopped between two runs. Two changes of each kind had no answer: one never arrived and one did
// later. A create was frozen and throttled; one had its key doubled before its answer; and a plan waited for
// approval.
//
// schema12 was killed in the middle of two runs. Frozen creates, updates, adoptions and link requests had
// arrived, never left, or were still on their way. Others were unknown, refused, given up, overwritten by a
// colleague, or retried by a person. It has waiting, approved and draft plans, every finding about a record,
// and a restore three days before.
//
// schema12-restored is a backup restored right before the stop: the service has customers, updates and a
// cancellation unknown to it, and more on their way.
type before struct {
	*world
	books map[string]*books // by connection
}

// openBefore returns a world that continues from an earlier version's stop, some minutes later.
// Requests in lost never arrived.
func openBefore(t *testing.T, folder string, stopped, later time.Duration, lost ...string) *before {
	t.Helper()
	statetest.OnlySQLite(t, "older versions had a file only")
	w := newWorld(t)
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w.path = filepath.Join(t.TempDir(), "payersync.db")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "before", folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, b := range map[string][]byte{w.path: unzipped(t, read("payersync.db.gz")), w.path +
		".key": read("ledger-key.txt")} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.mapping = string(read("mapping.yaml"))
	var acts []act
	if err := json.Unmarshal(read("requests.json"), &acts); err != nil {
		t.Fatal(err)
	}
	b := &before{world: w, books: map[string]*books{}}
	var records map[string][]connector.Record
	if err := json.Unmarshal(read("records.json"), &records); err != nil {
		t.Fatal(err)
	}
	for name, of := range records {
		b.books[name] = &books{records: of}
	}
	w.act(slices.DeleteFunc(acts, func(a act) bool { return a.is(lost) }), stopped+later+5*time.Minute)
	w.clock.advance(stopped + later)
	w.open()
	for name := range b.books { // the process is dead, as its lock shows
		if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.EndLease(name) }); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func unzipped(t *testing.T, zipped []byte) []byte {
	t.Helper()
	unzip, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// act is a change of the service: a request, a late one (LATE), or a person's edit there.
type act struct {
	Method string `json:"method"`
	Path   string `json:"path"` // or the id of a customer or mandate
	Body   []byte `json:"body"`
}

// is reports whether the act is one of these, told by a part of its path or body.
func (a act) is(some []string) bool {
	return slices.ContainsFunc(some, func(part string) bool { return strings.Contains(a.Path+string(a.Body), part) })
}

// act repeats the acts on the service. Late requests arrive after the given time.
func (w *world) act(acts []act, late time.Duration) {
	w.t.Helper()
	token := w.service.IssueToken(sandbox.ClientCredentials, 365*24*time.Hour)
	for _, a := range acts {
		method, isLate := strings.CutPrefix(a.Method, "LATE ")
		if isLate {
			w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: late, Method: method, Path: a.Path, Count: 1})
		}
		var err error
		switch method {
		case "ADD":
			w.add(string(a.Body))
		case "EDIT":
			err = w.service.Edit(a.Path, a.Body)
		case "DELETE":
			err = w.service.Delete(a.Path)
		case "SIGN":
			err = w.service.Sign(a.Path)
		case "APPROVE":
			err = w.service.Approve(a.Path)
		case "CANCEL":
			err = w.service.PayerCancel(a.Path)
		default:
			err = w.request(method, a.Path, token, a.Body)
		}
		if (err != nil) != isLate {
			w.t.Fatalf("%s %s: %v", a.Method, a.Path, err)
		}
		w.service.ClearFaults()
	}
	w.service.ResetRequests()
}

func (w *world) request(method, path, token string, body []byte) error {
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := w.service.RoundTripper().RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it is answered with %d", resp.StatusCode)
	}
	return nil
}

// run makes so many runs of every connection. Plans of the connections in guarded wait
// when they are above the limits; all others are approved.
func (b *before) run(times int, guarded ...string) {
	b.t.Helper()
	for range times {
		for _, name := range slices.Sorted(maps.Keys(b.books)) {
			books := b.books[name]
			m, err := mapping.Load("mapping.yaml", []byte(b.mapping), books.info())
			if err != nil {
				b.t.Fatal(err)
			}
			o := syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"}
			if !slices.Contains(guarded, name) {
				o.Approve = func(state.Plan) (bool, error) { return true, nil }
			}
			if _, err := b.syncer.Run(b.t.Context(), syncer.Connection{
				Name: name, Source: books, Info: books.info(), Mapping: m,
			}, o); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// told returns what people are told, by record.
func (b *before) told() map[string]string {
	b.t.Helper()
	rows, err := b.ledger.Attention(b.t.Context(), state.Filter{})
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r.SourceID] = strings.TrimSpace(out[r.SourceID] + " " + r.Reason)
	}
	return out
}

// wantTold fails the test unless people are told this and nothing else.
func (b *before) wantTold(when string, want map[string]string) {
	b.t.Helper()
	got := b.told()
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if got[id] != want[id] {
			b.t.Errorf("%s: people are told of %s: %q, want %q", when, id, got[id], want[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if _, is := got[id]; !is {
			b.t.Errorf("%s: people are told nothing of %s, want %q", when, id, want[id])
		}
	}
}

// wantServed fails the test unless each record but those that are left out has one customer
// with its name and one mandate, and each customer is some record's.
func (b *before) wantServed(customers int, leftOut ...string) {
	b.t.Helper()
	byKey := b.byKey()
	for name, books := range b.books {
		for _, r := range books.records {
			if slices.Contains(leftOut, r.SourceID) {
				continue
			}
			var fields struct{ No, Name string }
			if err := json.Unmarshal(r.Data, &fields); err != nil {
				b.t.Fatal(err)
			}
			p, err := b.ledger.Payer(b.t.Context(), name, r.SourceID)
			if err != nil {
				b.t.Errorf("record %s: %v", r.SourceID, err)
				continue
			}
			c := byKey[fields.No]
			if c.Name != fields.Name || p.BillingID != c.ID || p.LinkState != connector.LinkLinked {
				b.t.Errorf("record %s (%s) is %s to %q; the service has %q called %q", r.SourceID, fields.Name, p.LinkState,
					p.BillingID, c.ID, c.Name)
			}
			if len(c.Mandates) != 1 {
				b.t.Errorf("the customer of %s has %d mandates, want one", r.SourceID, len(c.Mandates))
			}
		}
	}
	if got := len(b.service.Customers()); got != customers {
		b.t.Errorf("%d customers, want %d", got, customers)
	}
}

// nameOf returns what the customer of a record is called in the service.
func (b *before) nameOf(name, sourceID string) string {
	b.t.Helper()
	p, err := b.ledger.Payer(b.t.Context(), name, sourceID)
	if err != nil {
		b.t.Fatal(err)
	}
	c, _ := b.service.Customer(p.BillingID)
	return c.Name
}

// decide does by hand to the customers that carry a key what a person decides.
func (b *before) decide(key, name string, do func(id string) error) {
	b.t.Helper()
	for _, c := range b.service.Customers() {
		if c.ExternalData["customerNo"] == key && c.Name == name {
			if err := do(c.ID); err != nil {
				b.t.Fatal(err)
			}
			return
		}
	}
	b.t.Fatalf("no customer called %s carries %s", name, key)
}

// wantOnceOnly fails the test when creates of one key had different bodies, or the same
// update left more than once.
func (b *before) wantOnceOnly() {
	b.t.Helper()
	for key, bodies := range b.createsByKey() {
		if len(bodies) > 1 {
			b.t.Errorf("the creates of %s had %d different bodies", key, len(bodies))
		}
	}
	updates := map[string]int{}
	for _, body := range b.bodies(http.MethodPut, "/api/customers") {
		updates[string(body)]++
	}
	for body, n := range updates {
		if n > 1 {
			b.t.Errorf("an update left %d times: %s", n, body)
		}
	}
}

// wantNames fails the test unless the customers of records of acme are called so.
func (b *before) wantNames(want map[string]string) {
	b.t.Helper()
	for id, name := range want {
		if got := b.nameOf("acme", id); got != name {
			b.t.Errorf("the customer of %s is called %q, want %q", id, got, name)
		}
	}
}

// edit replaces the values of the customer with that name and key.
func (b *before) edit(key, name, raw string) {
	b.t.Helper()
	b.decide(key, name, func(id string) error { return b.service.Edit(id, json.RawMessage(raw)) })
}

// mandatesOf returns the mandates that the ledger has in a status.
func (b *before) mandatesOf(status connector.MandateStatus) (ids []string) {
	b.t.Helper()
	rows, err := b.ledger.Mandates(b.t.Context(), state.Filter{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Status == string(status) {
			ids = append(ids, r.MandateID)
		}
	}
	return ids
}

// writesTo counts the updates that left for the customer with a key.
func (b *before) writesTo(key string) (n int) {
	for _, body := range b.bodies(http.MethodPut, "/api/customers") {
		if bytes.Contains(body, fmt.Appendf(nil, "%q", key)) {
			n++
		}
	}
	return n
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

// A record whose customer could not be read for its plan is left to the next one, and the run
// says so, whatever the record was before.
//
// covers F13
func TestARunThatCouldNotDecideOnARecordIsNotComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Email": "a@example.com", "Group": "supplier"})
	w.complete(w.run())
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodGet, Path: "/api/customers/*", Count: 1})
	if res := w.run(); res.Outcome == connector.RunComplete {
		t.Errorf("the run ended %s with %+v, and A1 is %s", res.Outcome, res.Counts, w.payer("A1").LinkState)
	}
	if res := w.complete(w.run()); res.Counts.Adopted != 1 {
		t.Errorf("the next run ended with %+v, want A1 adopted", res.Counts)
	}
}
