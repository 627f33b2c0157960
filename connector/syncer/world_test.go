package syncer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

// world is a whole connector over the sandbox, in process and under a clock of
// its own.
type world struct {
	t       testing.TB
	clock   *clock
	service *sandbox.Sandbox
	books   *books
	ledger  *state.Ledger
	billing *billing.Client
	dialect billing.Dialect
	syncer  *syncer.Syncer
	mapping string
	path    string
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// books is an accounting system in memory.
type books struct {
	mu      sync.Mutex
	records []connector.Record
	broken  error // reported after the first page
	written []connector.WrittenPart
}

func (b *books) info() connector.SourceInfo {
	text := func(name string) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeText}
	}
	info := connector.SourceInfo{Kind: "books", Snapshot: true, Written: b.written, Fields: []connector.Field{
		text("No"), text("Name"), text("Email"), text("Postcode"), text("Group"),
	}}
	for _, w := range b.written {
		info.Fields = append(info.Fields, text(w.Field))
	}
	return info
}

func (b *books) put(no, name, email string) {
	b.putAs(no, map[string]string{"No": no, "Name": name, "Email": email, "Postcode": "LS1 4AP", "Group": "payer"})
}

func (b *books) putAs(id string, fields map[string]string) {
	data, _ := json.Marshal(fields)
	b.set(connector.Record{SourceID: id, State: connector.RecordActive, Data: data})
}

func (b *books) set(r connector.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.records, func(have connector.Record) bool { return have.SourceID == r.SourceID }); i >= 0 {
		b.records[i] = r
		return
	}
	b.records = append(b.records, r)
}

func (b *books) Customers(context.Context, time.Time) iter.Seq2[connector.Page, error] {
	b.mu.Lock()
	defer b.mu.Unlock()
	records, broken := slices.Clone(b.records), b.broken
	return func(yield func(connector.Page, error) bool) {
		for page := range slices.Chunk(records, 100) {
			if !yield(connector.Page{Records: page}, nil) {
				return
			}
			if broken != nil {
				yield(connector.Page{}, broken)
				return
			}
		}
	}
}

const standardMapping = `version: 1
source: books
key: {customerNo: No}
include: Group == "payer"
customer:
  name: trim(Name)
  people:
    - {name: trim(Name), email: lower(trim(Email))}
  addresses:
    - {line1: '"1 Quay St"', postCode: Postcode}
mandate:
  request: customer.people[0].email != ""
`

func newWorld(t testing.TB, options ...func(*sandbox.Options, *billing.Dialect)) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{at: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}, books: &books{},
		mapping: standardMapping}
	service, dialect := sandbox.Options{Now: w.clock.now, Seed: 1, PublicURL: "http://localhost"}, billing.Standard()
	for _, o := range options {
		o(&service, &dialect)
	}
	w.service = sandbox.New(service)
	w.path = filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, w.path)
	w.dialect = dialect
	w.connect(0)
	w.open()
	t.Cleanup(func() { _ = w.ledger.Close() })
	return w
}

// connect makes a client of the service that sends so many requests in a second; 0
// for any number.
func (w *world) connect(perSecond float64) {
	w.t.Helper()
	client := transport.New(transport.Options{Base: w.service.RoundTripper(), Retries: -1, MaxInFlight: 8,
		RatePerSecond: perSecond, Now: w.clock.now})
	w.t.Cleanup(client.Close)
	var err error
	if w.billing, err = billing.New(billing.Config{
		BaseURL: "http://localhost/api", AuthURL: "/oauth2/token", ClientID: "sandbox",
		ClientSecret: connector.NewSecret("sandbox-secret"),
		RedirectURL:  "https://app.example.com/signed", Dialect: w.dialect, HTTP: client, Now: w.clock.now,
	}); err != nil {
		w.t.Fatal(err)
	}
}

// slowly lets every request from now on wait for its turn at this rate.
func (w *world) slowly(perSecond float64) {
	w.t.Helper()
	w.connect(perSecond)
	w.syncer.Billing, w.syncer.Reconciler.Billing = w.billing, w.billing
}

// open opens the ledger and wires a syncer over it, as a new process would.
func (w *world) open() {
	w.t.Helper()
	w.openWith(nil)
}

// openWith is open for a process that dies at some commit.
func (w *world) openWith(commit func(done bool) error) {
	w.t.Helper()
	var err error
	if w.ledger, err = state.Open(context.Background(),
		state.Options{Path: w.path, KeyFile: w.path + ".key", Now: w.clock.now, Commit: commit}); err != nil {
		w.t.Fatal(err)
	}
	w.syncer = &syncer.Syncer{
		Ledger: w.ledger, Billing: w.billing,
		Reconciler: &reconcile.Reconciler{
			Ledger: w.ledger, Billing: w.billing, Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: 15 * time.Minute},
		},
		Settings: syncer.Settings{
			Workers: 8, ProbeAfter: 15 * time.Minute, Overlap: 5 * time.Minute, Grace: 20 * time.Second,
			Guards: syncer.Guards{MaxChanges: syncer.Limit{Percent: 5}, MaxChangesFloor: 10, MaxCreates: 20,
				MaxIdentity: syncer.Limit{Percent: 2}, MaxMissing: syncer.Limit{Percent: 10}, MaxHolds: syncer.Limit{Percent: 10}},
		},
	}
}

// restart closes and reopens the ledger, as after a crash.
func (w *world) restart() {
	w.t.Helper()
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func (w *world) connection() syncer.Connection {
	w.t.Helper()
	m, err := mapping.Load("mapping.yaml", []byte(w.mapping), w.books.info())
	if err != nil {
		w.t.Fatal(err)
	}
	return syncer.Connection{Name: "acme", Source: w.books, Info: w.books.info(), Mapping: m}
}

// run makes one run that approves its own plan.
func (w *world) run() syncer.Result {
	w.t.Helper()
	return w.runWith(context.Background(), syncer.RunOptions{
		Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) { return true, nil },
	})
}

func (w *world) runWith(ctx context.Context, o syncer.RunOptions) syncer.Result {
	w.t.Helper()
	o.Trigger, o.Actor, o.Holder = "manual", "tester", "test"
	res, err := w.syncer.Run(ctx, w.connection(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// complete fails the test unless the run is complete.
func (w *world) complete(res syncer.Result) syncer.Result {
	w.t.Helper()
	if res.Outcome != connector.RunComplete || res.Err != nil {
		w.t.Fatalf("run ended %s with %+v: %v", res.Outcome, res.Counts, res.Err)
	}
	return res
}

// byKey returns the live customers by our key's value, and fails the test when
// two carry the same (invariant S1).
func (w *world) byKey() map[string]sandbox.Customer {
	w.t.Helper()
	out := map[string]sandbox.Customer{}
	for _, c := range w.service.Customers() {
		key := c.ExternalData["customerNo"]
		if other, doubled := out[key]; doubled && key != "" {
			w.t.Errorf("customers %s and %s both carry %s", other.ID, c.ID, key)
		}
		out[key] = c
	}
	return out
}

func (w *world) payer(sourceID string) state.Payer {
	w.t.Helper()
	p, err := w.ledger.Payer(context.Background(), "acme", sourceID)
	if err != nil {
		w.t.Fatalf("payer %s: %v", sourceID, err)
	}
	return p
}

// attention returns reason by source id.
func (w *world) attention() map[string]string {
	w.t.Helper()
	rows, err := w.ledger.Attention(context.Background(), state.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r.SourceID] = r.Reason
	}
	return out
}

// writes returns the bodies of the requests of a method to a path.
func (w *world) bodies(method, path string) [][]byte {
	var out [][]byte
	for _, r := range w.service.Requests() {
		if r.Method == method && r.Path == path {
			out = append(out, r.Body)
		}
	}
	return out
}

func (w *world) fill(n int) {
	for i := range n {
		w.books.put(fmt.Sprintf("C%04d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("payer%d@example.com", i))
	}
}

// retry says on a person's word that a record may be tried again.
func (w *world) retry(sourceID string) {
	w.t.Helper()
	if err := w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
		_, err := tx.RetryRecord("acme", sourceID)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}
