package pages_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/health"
	"payersync/connector/pages"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

// sample is the connection of the shipped sample books.
const sample = "quickstart"

// house is an installation with pages: the sample books, a model of the billing service, a
// ledger that real runs fill, and a server on this machine.
type house struct {
	t       testing.TB
	ledger  *state.Ledger
	box     *sandbox.Sandbox
	service *billing.Client
	syncer  *syncer.Syncer
	file    string // of the books
	conn    syncer.Connection
	pages   *pages.Pages
	reader  *reconcile.Reconciler
	acts    *admin.Mandates
	letters *admin.Letters // nil for none
	matcher *admin.Matches
	field   *field // of the books, for the status of a mandate; nil for none

	mappings *admin.Mappings

	tested admin.Tested // what a test delivery shows

	standings *admin.ReadinessCounts
	fetcher   *admin.Fetcher
	server    *httptest.Server

	mu     sync.Mutex
	events []pages.Event
}

// newHouse returns an installation that has read nothing yet.
func newHouse(t testing.TB) *house {
	t.Helper()
	return newHouseIn(t, t.TempDir())
}

// newHouseIn returns one whose ledger lies in a folder.
func newHouseIn(t testing.TB, folder string) *house {
	t.Helper()
	return newHouseOf(t, folder, nil, nil)
}

// newHouseOf returns a house with a clock of its own (nil: the machine's) and letters (nil: none).
func newHouseOf(t testing.TB, folder string, now func() time.Time, letters func(*house) *admin.Letters) *house {
	t.Helper()
	path := filepath.Join(folder, "payersync.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		statetest.New(t, path)
	}
	h := &house{t: t, tested: admin.Tested{OK: true, Detail: "a signed test delivery came"}, file: path + ".csv",
		box: sandbox.New(sandbox.Options{ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"),
			TokenLife: 24 * time.Hour, Now: now})}
	h.ledger = must(state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key", Now: now}))(t)
	t.Cleanup(func() { _ = h.ledger.Close() })
	h.service = must(billing.New(billing.Config{
		BaseURL: "http://localhost/api", ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"),
		RedirectURL: "https://app.example.com/signed",
		Dialect:     billing.Standard(),
		HTTP:        transport.New(transport.Options{Base: h.box.RoundTripper(), Retries: -1, Now: now}), Now: now,
	}))(t)
	h.reader = &reconcile.Reconciler{Ledger: h.ledger, Billing: billing.Watcher{Client: h.service},
		Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: 15 * time.Minute}}
	h.syncer = &syncer.Syncer{Ledger: h.ledger, Billing: h.service, Reconciler: h.reader,
		Settings: syncer.Settings{Workers: 1, Adopt: syncer.AdoptPropose}}
	h.books(must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(t))
	h.acts = &admin.Mandates{Ledger: h.ledger, Syncer: h.syncer, Billing: h.service, WhenCreated: "same"}
	h.standings, h.fetcher = &admin.ReadinessCounts{Ledger: h.ledger, Wait: time.Minute}, &admin.Fetcher{}
	lists, writebacks := &admin.Lists{Ledger: h.ledger}, &admin.Writebacks{Ledger: h.ledger, Open: h.writer}
	t.Cleanup(func() { h.fetcher.Close(); h.standings.Close(); lists.Close(); writebacks.Close() })
	if letters != nil {
		h.letters = letters(h)
		t.Cleanup(h.letters.Close)
		h.letters.Renew() // the first look is waited for
	}
	h.pages = must(pages.New(pages.Config{
		Letters: h.letters, Guides: guidesOfTests, Systems: systemsOfTests, Design: true,
		Standings: h.standings, Fetcher: h.fetcher,
		Ledger: h.ledger, Lists: lists, Connections: []string{sample},
		Expected: func() health.Expected { return health.Expected{Webhooks: true, Command: written} }, Report: h.report,
		Mandates: h.acts,
		Attention: &admin.Attention{Ledger: h.ledger, Syncer: h.syncer,
			Stored: func(context.Context, string) (syncer.Connection, error) { return h.conn, nil }},
		Matches: h.matches(), Writebacks: writebacks,
		Moves: &admin.Moves{Ledger: h.ledger, Syncer: h.syncer,
			Stored: func(context.Context, string) (syncer.Connection, error) { return h.conn, nil }},
		Explain: func(context.Context, string) (admin.Explainer, error) {
			return admin.Explainer{Mapping: h.conn.Mapping, NotSent: billing.Standard().NotCarried}, nil
		},
		Starter: h.starter(), Rate: 5, Mappings: h.newMappings(),
		Deliveries: &admin.Deliveries{Ledger: h.ledger, Read: func(string, string, []byte) []state.Delivery {
			return []state.Delivery{{State: connector.InboxQuarantined, Detail: "Nothing says how it is read."}}
		}, Try: func(context.Context) (admin.Tested, error) { return h.tested, nil }},
	}))(t)
	h.server = httptest.NewServer(h.pages)
	t.Cleanup(h.server.Close)
	return h
}

// must returns what gives a value, or ends the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// books makes these the books of the connection.
func (h *house) books(csv []byte) {
	h.t.Helper()
	if err := os.WriteFile(h.file, csv, 0o600); err != nil {
		h.t.Fatal(err)
	}
	source := must(csvfile.New(csvfile.Config{Path: h.file, ID: []string{"AccountNumber"}}))(h.t)
	info := must(source.Describe(context.Background()))(h.t)
	info.Organisation = "harbour-books"
	text := must(fs.ReadFile(configs.FS, "quickstart/mapping.yaml"))(h.t)
	h.conn = syncer.Connection{Name: sample, Source: source, Info: info,
		Mapping: must(mapping.Load("mapping.yaml", text, info))(h.t)}
}

// run makes a run, and approves its plan if it may.
func (h *house) run(approve bool) syncer.Result {
	h.t.Helper()
	defer h.letters.Renew()
	return must(h.syncer.Run(context.Background(), h.conn, syncer.RunOptions{
		Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
		Approve: func(state.Plan) (bool, error) { return approve, nil },
	}))(h.t)
}

func (h *house) report(e pages.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// visitor is a browser without script: it keeps cookies and follows redirects.
type visitor struct {
	t    testing.TB
	base string
	http *http.Client
}

// stranger returns a visitor who is not signed in.
func (h *house) stranger() *visitor {
	return &visitor{t: h.t, base: h.server.URL, http: &http.Client{Jar: must(cookiejar.New(nil))(h.t)}}
}

// enter returns a visitor who is signed in with a role.
func (h *house) enter(name string, role pages.Role) *visitor {
	h.t.Helper()
	link := h.link(name, role)
	v := h.stranger()
	v.get(link, http.StatusOK)
	v.send(http.MethodPost, link, nil)
	return v
}

// link returns the path of a link that signs somebody in.
func (h *house) link(name string, role pages.Role) string {
	h.t.Helper()
	return must(pages.NewLink(context.Background(), h.ledger, pages.User{Name: name, Role: role}, "tester"))(h.t)
}

// get returns the page at a path.
func (v *visitor) get(path string, want int) string {
	v.t.Helper()
	status, body := v.send(http.MethodGet, path, nil)
	for range 100 { // a busy machine has not counted yet
		if !strings.Contains(body, `<div id="counting"`) {
			break
		}
		time.Sleep(50 * time.Millisecond)
		status, body = v.send(http.MethodGet, path, nil)
	}
	if status != want {
		v.t.Fatalf("GET %s was answered %d, want %d:\n%s", path, status, want, body)
	}
	return body
}

// post sends a form, and returns the page that it led to.
func (v *visitor) post(path string, want int, form ...string) string {
	v.t.Helper()
	fields := url.Values{}
	for i := 0; i+1 < len(form); i += 2 {
		fields.Add(form[i], form[i+1])
	}
	status, body := v.send(http.MethodPost, path, fields)
	if status != want {
		v.t.Fatalf("POST %s was answered %d, want %d:\n%s", path, status, want, body)
	}
	return body
}

// send sends a request as a page of ours would, and returns the status and body of the last answer.
func (v *visitor) send(method, path string, form url.Values) (status int, body string) {
	v.t.Helper()
	r := must(http.NewRequestWithContext(context.Background(), method, v.base+path, strings.NewReader(form.Encode())))(v.t)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp := must(v.http.Do(r))(v.t)
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, string(must(io.ReadAll(resp.Body))(v.t))
}

// holds fails unless a page holds all of these.
func holds(t testing.TB, page string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}

// written writes a step as the command line does.
func written(s connector.Step) string {
	return strings.TrimSpace("payersync " + map[connector.Do]string{
		connector.DoCheck: "check", connector.DoInit: "init FOLDER", connector.DoOpenPages: "pages link",
		connector.DoPlan: "plan", connector.DoSend: "backfill", connector.DoSubscribe: "webhooks subscribe",
	}[s.Do] + " " + s.Connection)
}
