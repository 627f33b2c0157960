package xero_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/transport"
)

// drain reads a sequence to its end.
func drain(pages iter.Seq2[connector.Page, error]) (records []connector.Record, proof connector.Proof, err error) {
	for page, err := range pages {
		if err != nil {
			return records, proof, err
		}
		records, proof = append(records, page.Records...), proof.Plus(page.Proof)
	}
	return records, proof, nil
}

// lists returns the requests for contacts.
func lists(b *books) (out []*http.Request) {
	for _, r := range b.Requests() {
		if strings.HasSuffix(r.URL.Path, "/Contacts") {
			out = append(out, r)
		}
	}
	return out
}

func TestReadAsksForWhatSourcesSays(t *testing.T) {
	t.Parallel()
	b := open(t, 25, xero.Config{PageSize: 10})
	since := time.Date(2026, 11, 20, 9, 59, 59, 999e6, time.FixedZone("", 3600))
	if _, _, err := drain(b.source.Customers(t.Context(), since)); err != nil {
		t.Fatal(err)
	}
	asked := lists(b)
	if len(asked) != 6 {
		t.Fatalf("%d list requests, want three pages and once more the same, which confirms them", len(asked))
	}
	for i, r := range asked {
		want := fmt.Sprintf("includeArchived=true&order=ContactID+ASC&page=%d&pageSize=10", i%3+1)
		got := []string{r.URL.RawQuery, r.Header.Get("If-Modified-Since"), r.Header.Get("Accept"),
			r.Header.Get("Xero-Tenant-Id")}
		if diff := cmp.Diff([]string{want, "2026-11-20T08:59:59Z", "application/json", b.Tenants[0].ID}, got); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i+1, diff)
		}
	}
}

func TestFullReadHasNoLowerBoundAndMayAskForCustomersAlone(t *testing.T) {
	t.Parallel()
	b := open(t, 12, xero.Config{OnlyCustomers: true})
	if info, err := b.source.Describe(t.Context()); err != nil || !info.Partial {
		t.Errorf("the description does not say that full reads leave contacts out: %+v, %v", info.Partial, err)
	}
	supplier := b.Contacts()[3].ContactID
	b.Edit(supplier, func(c *xerotest.Contact) { c.IsCustomer = false })
	records, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
	if err != nil || len(records) != 11 {
		t.Errorf("full read gave %d records, error %v; want 11", len(records), err)
	}
	if r := lists(b)[0]; r.Header.Get("If-Modified-Since") != "" {
		t.Errorf("a full read has the lower bound %q", r.Header.Get("If-Modified-Since"))
	}
	records, _, err = drain(b.source.Customers(t.Context(), b.now().Add(-time.Minute)))
	if err != nil || len(records) != 1 || records[0].SourceID != supplier {
		t.Errorf("the incremental read must not filter: %d records, error %v", len(records), err)
	}
}

func TestCustomerFlagIsSeenByTheFullReadAlone(t *testing.T) {
	t.Parallel()
	b := open(t, 3, xero.Config{})
	id := b.Contacts()[1].ContactID
	b.Edit(id, func(c *xerotest.Contact) { c.IsCustomer = false })
	b.pass(time.Hour)
	b.Change(id, func(c *xerotest.Contact) { c.IsCustomer = true }) // its first sales invoice
	changed, _, err := drain(b.source.Customers(t.Context(), b.now().Add(-time.Minute)))
	if err != nil || len(changed) != 0 {
		t.Fatalf("the incremental read gave %d records, error %v: the model has lost the trap", len(changed), err)
	}
	all, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.SourceID == id && !strings.Contains(string(r.Data), `"IsCustomer":true`) {
			t.Errorf("the full read shows %s", r.Data)
		}
	}
}

// shifting is a system that does not keep to the order it is asked for.
type shifting struct{ *xerotest.Server }

func (s shifting) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Has("order") {
		q.Set("order", "UpdatedDateUTC ASC")
		r.URL.RawQuery = q.Encode()
	}
	return s.Server.RoundTrip(r)
}

// covers F46
func TestOrderThatIsNotKeptCostsFurtherPassesAndNoContact(t *testing.T) {
	t.Parallel()
	b := open(t, 30, xero.Config{})
	before := b.Contacts()
	pages := 0
	b.AfterPage(func() {
		if pages++; pages == 1 {
			b.edit(before[0].ContactID) // it moves to the end, and another takes its place on page 1
		}
	})
	s, err := xero.New(xero.Config{PageSize: 10}, xero.Deps{
		HTTP: transport.New(transport.Options{Base: shifting{b.Server}}), Token: b.Server, Limiter: &b.limiter, Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	records, proof, err := drain(s.Customers(t.Context(), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range records {
		seen[r.SourceID] = true
	}
	if len(seen) != 30 || proof.Passes != 3 || proof.Pages != 9 {
		t.Errorf("%d of 30 contacts, proof %+v; want all in 3 passes of 3 pages: the one that came short, the one that mends it, and the one that confirms it", len(seen), proof)
	}
	if len(records) != 31 {
		t.Errorf("%d records were given, want each contact once and the edited one twice", len(records))
	}
}

// covers F28
func TestOrganisationIsChosenByIDAndNeverByPlace(t *testing.T) {
	t.Parallel()
	ours := xerotest.Tenant{ID: "aaaaaaaa-0000-4000-a000-000000000001", Name: "Acme Ltd", Type: "ORGANISATION"}
	other := xerotest.Tenant{ID: "bbbbbbbb-0000-4000-a000-000000000002", Name: "Acme Ltd", Type: "ORGANISATION"}
	practice := xerotest.Tenant{ID: "cccccccc-0000-4000-a000-000000000003", Name: "Books & Co", Type: "PRACTICEMANAGER"}
	tests := []struct {
		name      string
		tenant    string
		connected []xerotest.Tenant
		want      string // id, or
		problem   string // part of the error
	}{
		{"the only one", "", []xerotest.Tenant{practice, ours}, ours.ID, ""},
		{"the configured one", ours.ID, []xerotest.Tenant{other, ours}, ours.ID, ""},
		{"in another order", ours.ID, []xerotest.Tenant{ours, other}, ours.ID, ""},
		{"in capitals", strings.ToUpper(ours.ID), []xerotest.Tenant{other, ours}, ours.ID, ""},
		{"several and no choice", "", []xerotest.Tenant{other, ours}, "", "set tenant to one of Acme Ltd = " + other.ID},
		{"another one", ours.ID, []xerotest.Tenant{other}, "", "does not cover organisation " + ours.ID},
		{"no organisation", ours.ID, []xerotest.Tenant{practice}, "", "no Xero organisation is connected"},
		{"none", "", nil, "", "no Xero organisation is connected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, 1, xero.Config{Tenant: tt.tenant})
			b.Tenants = tt.connected
			info, err := b.source.Describe(t.Context())
			if err == nil && info.Tenant != tt.want || (tt.problem == "") != (err == nil) || err != nil &&
				!strings.Contains(err.Error(), tt.problem) {
				t.Errorf("tenant %q, error %v; want %q, %q", info.Tenant, err, tt.want, tt.problem)
			}
			if _, _, err := drain(b.source.Customers(t.Context(), time.Time{})); (err == nil) != (tt.problem == "") {
				t.Errorf("reading contacts: %v", err)
			}
			if tt.problem != "" && len(lists(b)) > 0 {
				t.Error("contacts were read although the organisation is not the right one")
			}
		})
	}
}

// covers F28
func TestCustomConnectionAsksTheOrganisationItself(t *testing.T) {
	t.Parallel()
	b := open(t, 3, xero.Config{CustomConnection: true})
	b.Custom = true
	info, err := b.source.Describe(t.Context())
	if err != nil || info.Tenant != b.Tenants[0].ID || info.TenantName != b.Tenants[0].Name {
		t.Fatalf("described as %q %q, error %v", info.Tenant, info.TenantName, err)
	}
	if records, _, err := drain(b.source.Customers(t.Context(), time.Time{})); err != nil || len(records) != 3 {
		t.Errorf("%d records, error %v", len(records), err)
	}
	asked := 0
	for _, r := range b.Requests() {
		if r.URL.Path == "/api.xro/2.0/Organisation" {
			asked++
		}
		if r.Header.Get("Xero-Tenant-Id") != "" || r.URL.Path == "/connections" {
			t.Errorf("a Custom Connection asked %s with tenant %q", r.URL.Path, r.Header.Get("Xero-Tenant-Id"))
		}
	}
	if asked != 1 {
		t.Errorf("a run asked for the organisation %d times, want once", asked)
	}
	if _, err := b.source.Describe(t.Context()); err != nil || len(b.Requests()) == 0 ||
		!strings.HasSuffix(b.Requests()[len(b.Requests())-1].URL.Path, "/Organisation") {
		t.Errorf("the next run does not ask again: %v", err)
	}
	b.Tenants[0].ID = "dddddddd-0000-4000-a000-000000000004"
	pinned := b.connect(t, xero.Config{CustomConnection: true, Tenant: info.Tenant}, b.Server)
	var gone *accounting.Disconnected
	if _, err := pinned.Describe(t.Context()); !errors.As(err, &gone) {
		t.Errorf("another organisation behind the same app: %v", err)
	}
}

// covers F13
func TestDailyLimitParksAndAsksNothingMore(t *testing.T) {
	t.Parallel()
	b := open(t, 5, xero.Config{})
	b.Suffer(xerotest.DayLimit, 0, 66975)
	_, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
	want := b.now().Add(66975 * time.Second)
	var parked *accounting.Parked
	if !errors.As(err, &parked) || !parked.Until.Equal(want) || !connector.RetryAt(err).Equal(want) {
		t.Fatalf("error %v, want parked until %v", err, want)
	}
	if got := b.limiter.Parked(); !got.Equal(want) {
		t.Errorf("the organisation is parked until %v, want %v", got, want)
	}
	asked := len(b.Requests())
	if _, _, err := drain(b.source.Customers(t.Context(), time.Time{})); !errors.As(err, &parked) {
		t.Errorf("while parked: %v", err)
	}
	if n := len(b.Requests()); n != asked {
		t.Errorf("%d requests were made while parked", n-asked)
	}
}

func TestLimitWithoutRetryAfterParksForAWhile(t *testing.T) {
	t.Parallel()
	for fault, want := range map[xerotest.AnswerFault]time.Duration{xerotest.MinuteLimit: time.Minute,
		xerotest.DayLimit: time.Hour} {
		b := open(t, 5, xero.Config{})
		b.Suffer(fault, 0, -1) // a header that makes no sense is none
		_, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
		if got := connector.RetryAt(err).Sub(b.now()); got != want {
			t.Errorf("%s: parked for %v, want %v", fault, got, want)
		}
	}
}

// covers F13
func TestMinuteLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := xerotest.New(time.Now)
		x.Add(3)
		var limiter accountingtest.Limiter
		s, err := xero.New(xero.Config{},
			xero.Deps{HTTP: transport.New(transport.Options{Base: x}), Token: x, Limiter: &limiter, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		x.Suffer(xerotest.MinuteLimit, 0, 37)
		began := time.Now()
		time.AfterFunc(36*time.Second, x.Mend)
		records, _, err := drain(s.Customers(t.Context(), time.Time{}))
		if err != nil || len(records) != 3 {
			t.Fatalf("%d records, error %v", len(records), err)
		}
		if waited := time.Since(began); waited < 37*time.Second || !limiter.Parked().IsZero() {
			t.Errorf("waited %v, parked until %v; want 37 s and not parked", waited, limiter.Parked())
		}
	})
}

// stuck is a token source without another token.
type stuck struct{ token string }

func (s stuck) Token() (*oauth2.Token, error) { return &oauth2.Token{AccessToken: s.token}, nil }

// refusing is a token endpoint that gives nothing.
type refusing struct{ err error }

func (r refusing) Token() (*oauth2.Token, error) { return nil, r.err }

// covers F21, F26, F29
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	b := open(t, 3, xero.Config{})
	endpoint := func(status int, code string) error {
		return &oauth2.RetrieveError{Response: &http.Response{StatusCode: status}, ErrorCode: code,
			Body: []byte("client_secret=hush")}
	}
	tests := []struct {
		name         string
		tokens       oauth2.TokenSource
		disconnected bool
		says         string
	}{
		{"the same refused token again", stuck{"old"}, true, "calls the access token expired"},
		{"consent withdrawn", refusing{endpoint(400, "invalid_grant")}, true, "invalid_grant"},
		{"wrong client", refusing{endpoint(401, "invalid_client")}, true, "invalid_client"},
		{"endpoint down", refusing{endpoint(503, "")}, false, "gave no access token"},
		{"no network", refusing{errors.New("no route")}, false, "no route"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := drain(b.connect(t, xero.Config{}, tt.tokens).Customers(t.Context(), time.Time{}))
			var gone *accounting.Disconnected
			if err == nil || errors.As(err, &gone) != tt.disconnected || !strings.Contains(err.Error(), tt.says) ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("error %v; want %q, disconnected %t", err, tt.says, tt.disconnected)
			}
		})
	}
}

func TestErrorsSayWhatCameAndShowNothingOfIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault  xerotest.AnswerFault
		says   string
		status int
	}{
		{xerotest.Down, "Xero has a failure", 500},
		{xerotest.Overloaded, "Xero has a failure", 503},
		{xerotest.WebPage, "a web page came instead of JSON", 200},
		{xerotest.XML, "XML came instead of JSON", 200},
		{xerotest.Cut, "JSON that is cut off came instead of JSON", 200},
		{xerotest.NoList, "holds no list of contacts", 200},
		{xerotest.Withdrawn, "the consent for this organisation was withdrawn", 0},
		{xerotest.NoScope, "scope accounting.contacts.read is missing", 0},
		{xerotest.Expired, "check this machine's clock", 0},
	}
	for _, tt := range tests {
		b := open(t, 3, xero.Config{})
		b.Suffer(tt.fault, 0, 0)
		_, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
		var remote *connector.RemoteError
		if err == nil || !strings.Contains(err.Error(), tt.says) || errors.As(err, &remote) && remote.Status != tt.status {
			t.Errorf("%s: error %v; want %q with status %d", tt.fault, err, tt.says, tt.status)
		}
		for _, secret := range []string{"token-", "Customer", "@", "<", "page="} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows %q: %v", tt.fault, secret, err)
			}
		}
		if n := b.limiter.Open(); n != 0 {
			t.Errorf("%s: %d turns were not given back", tt.fault, n)
		}
	}
}

// told is a token source that gives the refused token until it is told.
type told struct {
	*xerotest.Server
	kept string
}

func (s *told) Token() (*oauth2.Token, error) {
	if s.kept != "" {
		return &oauth2.Token{AccessToken: s.kept}, nil
	}
	return s.Server.Token()
}

func (s *told) Refused(access string) {
	if s.kept == access {
		s.kept = ""
	}
}

// covers F21
func TestTokenSourceIsToldOfARefusedToken(t *testing.T) {
	t.Parallel()
	b := open(t, 3, xero.Config{})
	s := b.connect(t, xero.Config{}, &told{b.Server, "revoked before its time"})
	if records, _, err := drain(s.Customers(t.Context(), time.Time{})); err != nil || len(records) != 3 {
		t.Errorf("%d records, error %v", len(records), err)
	}
}

func TestCancelledReadAsksForNoToken(t *testing.T) {
	t.Parallel()
	b := open(t, 3, xero.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := drain(b.source.Customers(ctx, time.Time{}))
	if !errors.Is(err, context.Canceled) || len(b.Requests()) > 0 {
		t.Errorf("error %v after %d requests", err, len(b.Requests()))
	}
}

func TestNewNamesTheWrongKey(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]xero.Config{
		"page_size": {PageSize: 1001}, "base_url": {BaseURL: "api.xero.com"}, "per_minute": {PerMinute: -1},
	} {
		if _, err := xero.New(c, xero.Deps{}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

func TestLimitsDefaultToXerosOwn(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(connector.Limits{PerMinute: 60, PerDay: 5000, Concurrent: 5}, xero.Config{}.Limits()); diff != "" {
		t.Errorf("default (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(connector.Limits{PerMinute: 30, PerDay: 1000, Concurrent: 1},
		xero.Config{PerMinute: 30, PerDay: 1000, Concurrent: 1}.Limits()); diff != "" {
		t.Errorf("configured (-want +got):\n%s", diff)
	}
}
