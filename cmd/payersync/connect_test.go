package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/configs"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/credentials/credentialstest"
	"payersync/connector/syncer"
)

// books is a vendor's accounting system. Its tokens are its own.
type books interface {
	http.Handler
	Token() (*oauth2.Token, error)
	Requests() []*http.Request
}

// vendor is an accounting system with its authorisation server, on one address.
type vendor struct {
	auth  *credentialstest.Server
	books books
	xero  *xerotest.Server // the books, where they are of this kind
	http  *httptest.Server
}

func newVendor(t *testing.T, b books) *vendor {
	v := &vendor{auth: credentialstest.New(time.Now), books: b}
	v.http = httptest.NewServer(v)
	t.Cleanup(v.http.Close)
	return v
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/authorize", "/token":
		v.auth.ServeHTTP(w, r)
		return
	}
	if given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); v.auth.Accepts(given) {
		known, _ := v.books.Token()
		r.Header.Set("Authorization", "Bearer "+known.AccessToken)
	}
	v.books.ServeHTTP(w, r)
}

// asked returns how many requests the system had, its authorisation server not
// counted.
func (v *vendor) asked() int { return len(v.books.Requests()) }

// newBooksWorld is a world with a second connection, books, to a vendor.
func newBooksWorld(t *testing.T, v *vendor, kind string) *world {
	t.Helper()
	w := newWorld(t, people(3))
	w.edit("payersync.yaml", "guards:", fmt.Sprintf(`  - name: books
    source:
      kind: %s
      client_id: %s
      client_secret: env:BOOKS_SECRET
      base_url: %[3]s
      authorize_url: %[3]s/authorize
      token_url: %[3]s/token
    mapping: %[1]s.yaml
guards:`, kind, credentialstest.ClientID, v.http.URL))
	w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
	text, err := configs.FS.ReadFile("mappings/" + kind + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.write(kind+".yaml", string(text))
	return w
}

func newXeroWorld(t *testing.T, contacts int) (*world, *vendor) {
	t.Helper()
	model := xerotest.New(time.Now)
	model.Add(contacts)
	v := newVendor(t, model)
	v.xero = model
	return newBooksWorld(t, v, "xero"), v
}

var consentAddress = regexp.MustCompile(`http\S+code_challenge\S+`)

// consent waits until connect prints the consent page's address.
func (p *process) consent() string {
	p.t.Helper()
	eventually(p.t, "the address of the consent page",
		func() bool { return p.over() || consentAddress.MatchString(p.errOut.String()) })
	return consentAddress.FindString(p.errOut.String())
}

// browse opens the consent page like a browser and follows its redirects.
func browse(t testing.TB, address string) {
	t.Helper()
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("the browser shows %s: %s", resp.Status, text)
	}
}

// connect gives consent for books through a browser.
func (w *world) connect(v *vendor, args ...string) result {
	w.t.Helper()
	return w.connectTo("books", v, args...)
}

// connectTo is connect for the connection of a name.
func (w *world) connectTo(name string, v *vendor, args ...string) result {
	w.t.Helper()
	v.auth.Redirect = "http://localhost:" + strings.Split(freeAddress(w.t), ":")[1] + "/callback"
	p := w.start(append([]string{"connect", name, "--redirect", v.auth.Redirect}, args...)...)
	if at := p.consent(); at != "" {
		browse(w.t, at)
	}
	return p.wait()
}

func TestConnectedSourceIsReadAndItsTokensNeverShow(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 7)
	before := w.expect(exitFailed, "sync", "books")
	if !strings.Contains(before.errOut, "Give the consent again: payersync connect books") {
		t.Errorf("without consent, sync says: %s", before.errOut)
	}
	done := w.connect(v)
	if done.code != exitDone || !strings.Contains(done.out, "books is connected to") {
		t.Fatalf("connect ended with %d:\n%s%s", done.code, done.out, done.errOut)
	}
	synced := w.expect(exitDone, "sync", "books")
	if !strings.Contains(synced.out, "7 read") {
		t.Errorf("sync says:\n%s", synced.out)
	}
	checked := w.run("check")
	for _, want := range []string{"ok source books credentials:", "ok source books tenant:", "ok source books clock:",
		"ok consent books"} {
		if !strings.Contains(strings.Join(strings.Fields(checked.out), " "), want) {
			t.Errorf("check does not say %q:\n%s", want, checked.out)
		}
	}
	status := w.expect(exitDone, "status")
	if !strings.Contains(status.out, "unused, it lapses on "+time.Now().UTC().Add(60*24*time.Hour).Format(time.DateOnly)) {
		t.Errorf("status says:\n%s", status.out)
	}
	kept := string(w.ledgerBytes())
	for _, r := range []result{done, synced, checked, status, w.expect(exitDone, "sync", "books", "--verbose")} {
		kept += r.out + r.errOut
	}
	for _, secret := range []string{"access-1", "refresh-1", credentialstest.ClientSecret} {
		if strings.Contains(kept, secret) {
			t.Errorf("%q shows in the ledger's file or in what was printed", secret)
		}
	}
}

// Intuit names the company in the redirect.
//
// covers F28
func TestQuickBooksIsConnectedAndRead(t *testing.T) {
	t.Parallel()
	model := quickbookstest.New(time.Now)
	model.Add(7)
	v := newVendor(t, model)
	v.auth.Back = url.Values{"realmId": {quickbookstest.Realm}}
	w := newBooksWorld(t, v, "quickbooks")
	if done := w.connect(v); done.code != exitDone || !strings.Contains(done.out, quickbookstest.Realm) {
		t.Fatalf("connect ended with %d:\n%s%s", done.code, done.out, done.errOut)
	}
	checked := w.run("check")
	for _, want := range []string{"ok source books credentials:", "ok source books tenant:", "ok source books clock:",
		"ok consent books"} {
		if !strings.Contains(strings.Join(strings.Fields(checked.out), " "), want) {
			t.Errorf("check does not say %q:\n%s", want, checked.out)
		}
	}
	if synced := w.expect(exitDone, "sync", "books"); !strings.Contains(synced.out, "7 read") ||
		!strings.Contains(synced.out, "7 created") {
		t.Errorf("sync says:\n%s", synced.out)
	}
	if again := w.expect(exitDone, "sync", "books"); !strings.Contains(again.out, "0 created, 0 linked, 0 updated") ||
		len(w.box.Customers()) != 7 {
		t.Errorf("there are %d customers, and a second sync says:\n%s", len(w.box.Customers()), again.out)
	}
}

// covers F28
func TestConnectRefusesToGuessBetweenOrganisations(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 2)
	acme := xerotest.Tenant{ID: "11111111-1111-4111-8111-111111111111", Name: "Acme", Type: "ORGANISATION"}
	bolt := xerotest.Tenant{ID: "22222222-2222-4222-8222-222222222222", Name: "Bolt", Type: "ORGANISATION"}
	v.xero.Reach(acme, bolt)
	if r := w.connect(v); r.code == exitDone || !strings.Contains(r.errOut, "--tenant ID") ||
		!strings.Contains(r.errOut, "Bolt") {
		t.Errorf("connect ended with %d: %s", r.code, r.errOut)
	}
	if r := w.connect(v, "--tenant", bolt.ID); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	v.xero.Reach(bolt, acme) // their order means nothing
	w.expect(exitDone, "sync", "books")
	if r := w.connect(v, "--tenant", acme.ID); r.code != exitUsage ||
		!strings.Contains(r.errOut, "was set up for the organisation") {
		t.Errorf("connecting it to another organisation ended with %d: %s", r.code, r.errOut)
	}
	w.expect(exitDone, "sync", "books")
}

// covers F13, S18, L7
func TestSourceAtItsDailyLimitIsLeftAloneAndOthersGoOn(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 3)
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	v.xero.Suffer(xerotest.DayLimit, 0, 66975)
	until := time.Now().Add(66975 * time.Second)
	first := w.expect(exitThrottled, "sync")
	if !strings.Contains(first.out, "throttled; try again at "+until.Format(time.DateOnly)) {
		t.Errorf("the run that met the limit says:\n%s%s", first.out, first.errOut)
	}
	asked := v.asked()
	for range 2 {
		again := w.expect(exitThrottled, "sync")
		if !strings.Contains(again.out, "of acme: complete") ||
			!strings.Contains(again.out, "of books: throttled; try again at "+until.Format(time.DateOnly)) {
			t.Errorf("a parked run says:\n%s%s", again.out, again.errOut)
		}
	}
	if got := v.asked(); got != asked {
		t.Errorf("a parked source had %d requests", got-asked)
	}
	if status := w.expect(exitDone, "status"); !strings.Contains(status.out,
		"The accounting system of books has reached its request limit") {
		t.Errorf("status says:\n%s", status.out)
	}
}

// covers F29
func TestWithdrawnConsentAsksForAPersonAndConcludesNothing(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 3)
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	w.expect(exitDone, "sync", "books")
	v.auth.Withdraw()
	for range 2 {
		if r := w.expect(exitFailed, "sync", "books"); !strings.Contains(r.out, "payersync connect books") {
			t.Errorf("sync says: %s%s", r.out, r.errOut)
		}
	}
	requests := v.auth.Requests()
	w.expect(exitFailed, "sync", "books")
	if got := v.auth.Requests(); got != requests {
		t.Errorf("a consent that no longer works was tried %d times more", got-requests)
	}
	status := w.expect(exitDone, "status")
	if !strings.Contains(status.out, "refuses access to payersync") || !strings.Contains(status.out, "no longer works") ||
		strings.Contains(status.out, "Needs attention") {
		t.Errorf("status says:\n%s", status.out)
	}
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	w.expect(exitDone, "sync", "books")
}

// The configuration of a Custom Connection names no organisation, so that a
// source that lets nobody in cannot say whose it is; the ledger can.
//
// covers F28, F29
func TestTroubleOfACustomConnectionShowsInTheStatus(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 3)
	v.xero.Custom = true
	w.edit("payersync.yaml", "kind: xero\n", "kind: xero\n      custom_connection: true\n")
	w.env["BOOKS_SECRET"] = "wrong from the beginning"
	if r := w.expect(exitFailed, "sync", "books"); !strings.Contains(r.errOut, "check client_id and client_secret") {
		t.Errorf("before the first run, sync says: %s%s", r.out, r.errOut)
	}
	w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
	w.expect(exitDone, "sync", "books")
	w.env["BOOKS_SECRET"] = "of another app"
	if r := w.expect(exitFailed, "sync", "books"); !strings.Contains(r.out, "Run 2 of books: failed") ||
		!strings.Contains(r.out, "check client_id and client_secret") {
		t.Errorf("sync says: %s%s", r.out, r.errOut)
	}
	status := w.expect(exitDone, "status")
	if !strings.Contains(status.out, "The accounting system of books refuses access to payersync") ||
		strings.Contains(status.out, "payersync connect") { // it needs no consent
		t.Errorf("status says:\n%s", status.out)
	}
	w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
	v.xero.Reach(xerotest.Tenant{ID: "99999999-9999-4999-8999-999999999999", Name: "Another", Type: "ORGANISATION"})
	if r := w.expect(exitFailed, "sync", "books"); !strings.Contains(r.out, "does not cover organisation") ||
		!strings.Contains(r.out, "  0 read") {
		t.Errorf("when the app is another organisation's, sync says: %s%s", r.out, r.errOut)
	}
}

// later opens the installation as it will be some time from now.
func (w *world) later(after time.Duration) (*app, *session.Session) {
	w.t.Helper()
	a := &app{program: program{Console: &show.Console{ErrOut: io.Discard},
		getenv: func(name string) (string, bool) { v, ok := w.env[name]; return v, ok }},
		now: func() time.Time { return time.Now().Add(after) }, config: w.path("payersync.yaml")}
	return a, w.session(a)
}

// Requests count against the organisation's day, and an edit is tried many times.
func TestTheMappingCommandsAskTheAccountingSystemNothing(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 3)
	w.expect(exitDone, "mapping", "check", "books") // before anybody has given consent
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	w.run("sync", "books")
	version := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "books", "--output", "json")).FileHash
	asked := v.asked()
	p := decode[syncer.Preview](t, w.expect(exitDone, "mapping", "preview", "books", "--output", "json"))
	if p.Linked != 3 || p.Unchanged != 3 {
		t.Errorf("the preview of the mapping that was applied is %+v, want three customers and no change", p)
	}
	w.edit("xero.yaml", "{xeroTenantId: tenant}", "{organisation: tenant}")
	for _, args := range [][]string{
		{"mapping", "fields", "books"}, {"mapping", "check", "--coverage", "books"}, {"mapping", "check", "books"},
		{"mapping", "preview", "books"},
		{"mapping", "rollback", version, "books"},
	} {
		w.expect(exitDone, args...)
	}
	if n := v.asked() - asked; n != 0 {
		t.Errorf("%d requests were made of Xero, want none", n)
	}
}
