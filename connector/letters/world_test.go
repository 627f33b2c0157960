package letters_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/letters"
	post "payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

// world is a connector with a desk for letters, over a sandbox and a mail server.
type world struct {
	t       testing.TB
	mu      sync.Mutex
	now     time.Time
	service *sandbox.Sandbox
	books   *books
	mapping string
	billing *billing.Client
	box     *mailtest.Box
	path    string
	ledger  *state.Ledger
	syncer  *syncer.Syncer
	desk    *letters.Desk
	events  []letters.LetterEvent
	commit  func(done bool) error
}

// books is an accounting system in memory.
type books struct{ records []connector.Record }

func (b *books) info() connector.SourceInfo {
	text := func(name string) connector.Field { return connector.Field{Name: name, Type: connector.TypeText} }
	return connector.SourceInfo{Kind: "books", Snapshot: true,
		Fields: []connector.Field{text("No"), text("Name"), text("Email")}}
}

func (b *books) Customers(context.Context, time.Time) iter.Seq2[connector.Page, error] {
	records := slices.Clone(b.records)
	return func(yield func(connector.Page, error) bool) { yield(connector.Page{Records: records}, nil) }
}

func (b *books) put(no, name, email string) {
	data, _ := json.Marshal(map[string]string{"No": no, "Name": name, "Email": email})
	r := connector.Record{SourceID: no, State: connector.RecordActive, Data: data}
	if i := slices.IndexFunc(b.records, func(have connector.Record) bool { return have.SourceID == no }); i >= 0 {
		b.records[i] = r
		return
	}
	b.records = append(b.records, r)
}

// plain are templates that say little.
type plain struct{ version string }

func (p plain) Version() string { return p.version }

func (plain) Write(d letters.Draft) ([]byte, error) {
	return fmt.Appendf(nil, "From: accounts@harbour.io\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: <%s>\r\nDate: %s\r\n\r\n%s, %d days, %s\r\n",
		d.To, d.Kind, d.MessageID, d.Date.Format(time.RFC1123Z), d.Name, d.Days, d.Link), nil
}

// monday is the morning on which stories begin.
var monday = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, func(path string) { statetest.New(t, path) })
}

// newWorldOn is a world whose ledger is made by a function.
func newWorldOn(t testing.TB, ledger func(path string)) *world {
	t.Helper()
	w := &world{t: t, now: monday, books: &books{}, box: mailtest.New(t, post.NoTLS),
		path: filepath.Join(t.TempDir(), "payersync.db"), mapping: `version: 1
source: books
key: {customerNo: No}
customer:
  name: trim(Name)
  people:
    - {name: trim(Name), email: lower(trim(Email))}
mandate:
  request: "true"
`}
	w.service = sandbox.New(sandbox.Options{Now: w.clock, Seed: 1, PublicURL: "http://localhost",
		Switches: sandbox.Switches{Migrating: true}})
	client := transport.New(transport.Options{Base: w.service.RoundTripper(), Retries: -1, MaxInFlight: 8, Now: w.clock})
	t.Cleanup(client.Close)
	var err error
	if w.billing, err = billing.New(billing.Config{
		BaseURL: "http://localhost/api", AuthURL: "/oauth2/token", ClientID: "sandbox",
		ClientSecret: connector.NewSecret("sandbox-secret"),
		RedirectURL:  "https://app.example.com/signed", Dialect: billing.Standard(), HTTP: client, Now: w.clock,
	}); err != nil {
		t.Fatal(err)
	}
	ledger(w.path)
	w.open()
	t.Cleanup(func() { _ = w.ledger.Close() })
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// open opens the ledger and a desk over it, as a new process does.
func (w *world) open() {
	w.t.Helper()
	var err error
	if w.ledger, err = state.Open(context.Background(),
		state.Options{Path: w.path, KeyFile: w.path + ".key", Now: w.clock, Commit: func(done bool) error {
			if w.commit == nil {
				return nil
			}
			return w.commit(done)
		}}); err != nil {
		w.t.Fatal(err)
	}
	rec := &reconcile.Reconciler{Ledger: w.ledger, Billing: w.billing,
		Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: 15 * time.Minute}}
	w.syncer = &syncer.Syncer{Ledger: w.ledger, Billing: w.billing, Reconciler: rec, Settings: syncer.Settings{
		Workers: 4, ProbeAfter: 15 * time.Minute, Overlap: 5 * time.Minute, Grace: 20 * time.Second,
		Guards: syncer.Guards{MaxChanges: syncer.Limit{Percent: 100}, MaxChangesFloor: 10000, MaxCreates: 10000,
			MaxIdentity: syncer.Limit{Percent: 100}, MaxMissing: syncer.Limit{Percent: 100},
			MaxHolds: syncer.Limit{Percent: 100}},
	}}
	server := w.box.Server(post.NoTLS)
	settings := letterSettings(w.path, &server)
	if w.desk != nil {
		settings = w.desk.Settings
	}
	w.desk = &letters.Desk{Ledger: w.ledger, Reader: rec, Settings: settings,
		Wait:   func(_ context.Context, d time.Duration) error { w.advance(d); return nil },
		Report: func(e letters.LetterEvent) { w.events = append(w.events, e) }}
}

// letterSettings are what letters go by in tests.
func letterSettings(path string, server *post.Server) letters.Settings {
	window, err := letters.ParseWindow("Mon-Fri 08:30-17:00")
	if err != nil {
		panic(err)
	}
	return letters.Settings{
		Sender: letters.SenderPayersync, From: "Harbour Bakery <accounts@harbour.io>", Address: "accounts@harbour.io",
		LinkHosts: []string{"localhost"}, Languages: []string{"en", "de"},
		Steps: []int{0, 3, 7, 14, 30}, Window: window, PerMinute: 20, PerDay: 500, Own: []string{"harbour.io"},
		Journal: path + ".letters", Templates: plain{"1"}, Post: server,
	}
}

// restart opens the ledger anew, as after a crash.
func (w *world) restart() {
	w.t.Helper()
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// sync reads the books and the service, and approves whatever is planned.
func (w *world) sync() {
	w.t.Helper()
	m, err := mapping.Load("mapping.yaml", []byte(w.mapping), w.books.info())
	if err != nil {
		w.t.Fatal(err)
	}
	for range 2 { // what was created is confirmed by the next
		res, err := w.syncer.Run(context.Background(),
			syncer.Connection{Name: "acme", Source: w.books, Info: w.books.info(), Mapping: m}, syncer.RunOptions{
				Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
				Approve: func(state.Plan) (bool, error) { return true, nil },
			})
		if err != nil || res.Err != nil {
			w.t.Fatalf("sync: %v, %v", err, res.Err)
		}
	}
	if _, err := w.syncer.Reconciler.Sweep(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// payers puts so many payers into the books and has their mandates asked for.
func (w *world) payers(n int) {
	w.t.Helper()
	for i := range n {
		w.books.put(fmt.Sprintf("c%03d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("payer%d@bakery%d.io", i, i))
	}
	w.sync()
}

func (w *world) look() *letters.Plan {
	w.t.Helper()
	p, err := w.desk.Plan(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) send() letters.Counts {
	w.t.Helper()
	res, err := w.desk.Run(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

var byAda = state.Entry{Actor: "ada", Action: "approve letters", Reason: "read them"}

// approve approves what waits, as somebody who has seen it.
func (w *world) approve() int {
	w.t.Helper()
	n, err := w.desk.Approve(context.Background(), w.look().Batch.Hash, byAda)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// goesOn lets a person continue the letters, and read the next ones.
func (w *world) goesOn() {
	w.t.Helper()
	if _, err := w.desk.Continue(context.Background(), byAda); err != nil {
		w.t.Fatal(err)
	}
}

// begun is a world of so many payers whose first letters were approved and sent.
func begun(t testing.TB, n int) *world {
	t.Helper()
	w := newWorld(t)
	w.payers(n)
	w.send()
	if got := w.approve(); got != n {
		t.Fatalf("%d letters waited, want %d", got, n)
	}
	for len(w.box.Received()) < n {
		if res := w.send(); res.Sent == 0 {
			t.Fatalf("nothing was sent: %+v, %+v", res, w.events)
		}
	}
	return w
}

// days lets days go by: on each the books are read in the morning, and letters are looked for.
func (w *world) days(n int) {
	w.t.Helper()
	for range n {
		w.advance(24*time.Hour - w.clock().Sub(w.clock().Truncate(24*time.Hour)) + 9*time.Hour)
		w.sync()
		w.send()
	}
}

// got returns what came, as "2026-11-23 to kind".
func (w *world) got() (out []string) {
	w.t.Helper()
	for _, m := range w.box.Received() {
		parsed, err := mail.ReadMessage(strings.NewReader(m.Raw))
		if err != nil {
			w.t.Fatal(err)
		}
		date, err := parsed.Header.Date()
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %s %s", date.Format("01-02"), strings.Join(m.To, " "),
			parsed.Header.Get("Subject")))
	}
	return out
}

func (w *world) wantGot(want ...string) {
	w.t.Helper()
	if got := w.got(); !slices.Equal(got, want) {
		w.t.Errorf("came:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// mandate returns the mandate of a payer, as the service has it.
func (w *world) mandate(no string) string {
	w.t.Helper()
	for _, c := range w.service.Customers() {
		if c.ExternalData["customerNo"] == no {
			return c.Mandates[len(c.Mandates)-1].ID
		}
	}
	w.t.Fatalf("no customer of %s", no)
	return ""
}

func (w *world) letter(no string) []state.Letter {
	w.t.Helper()
	out, err := w.ledger.LettersOf(context.Background(), state.RecordID{Connection: "acme", SourceID: no})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// wantHeld fails unless nothing leaves because of this.
func (w *world) wantHeld(code letters.HoldCode) {
	w.t.Helper()
	before := len(w.box.Received())
	res := w.send()
	if !slices.ContainsFunc(res.Holds, func(h letters.Hold) bool { return h.Code == code }) {
		w.t.Errorf("nothing is held because of %s: %+v", code, res.Holds)
	}
	if now := len(w.box.Received()); now != before {
		w.t.Errorf("%d letters left all the same", now-before)
	}
}

// backup returns the ledger as a backup has it.
func (w *world) backup() []byte {
	w.t.Helper()
	var b bytes.Buffer
	s, err := w.ledger.Snapshot(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(s.WriteTo(context.Background(), &b, nil), s.Close()); err != nil {
		w.t.Fatal(err)
	}
	return b.Bytes()
}

// putBack puts an older ledger in the place of the one that there is, without telling anybody.
func (w *world) putBack(old []byte, mark bool) {
	w.t.Helper()
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	for _, ending := range []string{"-wal", "-shm"} {
		if err := os.Remove(w.path + ending); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
	}
	if !mark {
		if err := os.Remove(w.path + ".mark"); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.path, old, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func remove(path string) error { return os.Remove(path) }

func write(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(text)
}
