package quickbooks_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/quickbooks/quickbookstest"
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

// asked returns the last part of every request's path with its parameters, but
// for the version.
func (b *books) asked() (out []string) {
	for _, r := range b.Requests() {
		q := r.URL.Query()
		q.Del("minorversion")
		words := []string{r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]}
		for _, name := range []string{"query", "entities", "changedSince"} {
			if q.Has(name) {
				words = append(words, q.Get(name))
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// sinceEdit is a reading position before the books' latest edits.
func (b *books) sinceEdit() time.Time { return b.now().Add(-5 * time.Minute) }

func TestFullReadAsksForInactiveCustomersInAStableOrder(t *testing.T) {
	t.Parallel()
	b := open(t, 25, quickbooks.Config{PageSize: 10})
	if _, _, err := drain(b.source.Customers(t.Context(), time.Time{})); err != nil {
		t.Fatal(err)
	}
	const statement = "query SELECT * FROM Customer WHERE Active IN (true,false) ORDERBY Id STARTPOSITION "
	want := []string{quickbookstest.Realm, statement + "1 MAXRESULTS 10", statement + "10 MAXRESULTS 10", statement +
		"19 MAXRESULTS 10", statement + "25 MAXRESULTS 10"}
	if diff := cmp.Diff(want, b.asked()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	for _, r := range b.Requests() {
		if r.URL.Query().Get("minorversion") != "75" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("request %s has version %q and accepts %q", r.URL.Path, r.URL.Query().Get("minorversion"),
				r.Header.Get("Accept"))
		}
	}
}

func TestIncrementalReadTakesTheCheapestSafeWay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		customers int
		config    quickbooks.Config
		age       time.Duration // of the reading position
		want      []string      // what is asked for, in order
	}{
		{"change data capture", 5, quickbooks.Config{}, 90 * time.Minute, []string{"cdc"}},
		{"up to its cap", 999, quickbooks.Config{}, 90 * time.Minute, []string{"cdc"}},
		{"the query from its cap on", 1000, quickbooks.Config{}, 90 * time.Minute, []string{"cdc", "query", "query"}},
		{"the query above its cap", 1500, quickbooks.Config{}, 90 * time.Minute, []string{"cdc", "query", "query", "query"}},
		{"the query beyond its window", 5, quickbooks.Config{}, 30 * 24 * time.Hour, []string{"query", "query"}},
		{"the query when told", 5, quickbooks.Config{QueryOnly: true}, 90 * time.Minute, []string{"query", "query"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, tt.customers, tt.config)
			records, _, err := drain(b.source.Customers(t.Context(), b.now().Add(-tt.age)))
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, r := range records {
				seen[r.SourceID] = true
			}
			if len(seen) != tt.customers {
				t.Errorf("%d of %d customers", len(seen), tt.customers)
			}
			var got []string
			for _, text := range b.asked()[1:] {
				kind, _, _ := strings.Cut(text, " ")
				got = append(got, kind)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLowerBoundIsAnInstantInUTC(t *testing.T) {
	t.Parallel()
	b := open(t, 2, quickbooks.Config{QueryOnly: true})
	since := time.Date(2026, 11, 20, 2, 30, 0, 999, time.FixedZone("", -8*60*60))
	records, _, err := drain(b.source.Customers(t.Context(), since))
	if err != nil || len(records) != 0 {
		t.Errorf("%d records, error %v; the customers were made half an hour before", len(records), err)
	}
	if text := b.asked()[1]; !strings.Contains(text, "MetaData.LastUpdatedTime >= '2026-11-20T10:30:00Z'") {
		t.Errorf("asked %s", text)
	}
}

// covers F44
func TestMergedCustomerIsReportedAsDeletedAndOnlyWhenItIsGone(t *testing.T) {
	t.Parallel()
	b := open(t, 5, quickbooks.Config{})
	b.Merge("2", "4")
	b.edit("3")
	b.CallDeleted("3") // change data capture is known to say that of customers that were edited
	records, _, err := drain(b.source.Customers(t.Context(), b.sinceEdit()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]connector.RecordState{}
	for _, r := range records {
		got[r.SourceID] = r.State
	}
	want := map[string]connector.RecordState{"2": connector.RecordDeleted, "3": connector.RecordActive,
		"4": connector.RecordActive}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func TestSparseRowIsReadAgainByItsID(t *testing.T) {
	t.Parallel()
	b := open(t, 4, quickbooks.Config{PageSize: 2})
	b.Edit("3", func(c *quickbookstest.StoredCustomer) { c.Sparse = true })
	records, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.SourceID == "3" && !strings.Contains(string(r.Data), "accounts3@customer.example") {
			t.Errorf("the sparse customer came as %s", r.Data)
		}
	}
}

func TestJobsAndProjectsAreLeftOutUnlessWanted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		config        quickbooks.Config
		customer, job connector.RecordState
		project       connector.RecordState
	}{
		{"neither", quickbooks.Config{}, connector.RecordActive, connector.RecordArchived, connector.RecordArchived},
		{"jobs", quickbooks.Config{Jobs: true}, connector.RecordActive, connector.RecordActive, connector.RecordArchived},
		{"projects", quickbooks.Config{Projects: true}, connector.RecordActive, connector.RecordArchived,
			connector.RecordActive},
		{"both", quickbooks.Config{Jobs: true, Projects: true}, connector.RecordActive, connector.RecordActive,
			connector.RecordActive},
	}
	for _, tt := range tests {
		b := open(t, 3, tt.config)
		b.Edit("2", func(c *quickbookstest.StoredCustomer) { c.Job, c.ParentRef = true, &quickbookstest.Ref{Value: "1"} })
		b.Edit("3", func(c *quickbookstest.StoredCustomer) { c.Job, c.IsProject = true, true }) // projects are jobs as well
		records, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]connector.RecordState{}
		for _, r := range records {
			got[r.SourceID] = r.State
		}
		want := map[string]connector.RecordState{"1": tt.customer, "2": tt.job, "3": tt.project}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// covers F28
func TestAnotherCompanysTokenReadsNothing(t *testing.T) {
	t.Parallel()
	b := open(t, 3, quickbooks.Config{})
	s := b.connect(t, quickbooks.Config{Company: "4620816365000000000"}, b.Server)
	var gone *accounting.Disconnected
	for _, read := range []func() error{
		func() error { _, err := s.Describe(t.Context()); return err },
		func() error { _, _, err := drain(s.Customers(t.Context(), time.Time{})); return err },
		func() error { _, _, err := drain(s.Customers(t.Context(), b.sinceEdit())); return err },
	} {
		if err := read(); !errors.As(err, &gone) || !strings.Contains(err.Error(), "another company") {
			t.Errorf("error %v", err)
		}
	}
	for _, text := range b.asked() {
		if !strings.HasPrefix(text, "4620816365000000000") {
			t.Errorf("it asked %s", text)
		}
	}
	info, err := b.source.Describe(t.Context())
	if err != nil || info.Tenant != quickbookstest.Realm || info.TenantName != "Northwind Holdings" {
		t.Errorf("our own company is described as %q %q, error %v", info.Tenant, info.TenantName, err)
	}
}

// covers F13
func TestThrottleParksForAMinuteInEveryFormItComesIn(t *testing.T) {
	t.Parallel()
	for _, fault := range []quickbookstest.AnswerFault{quickbookstest.Throttled, quickbookstest.ThrottledXML} {
		b := open(t, 5, quickbooks.Config{})
		b.Suffer(fault, 0)
		_, _, err := drain(b.source.Customers(t.Context(), time.Time{}))
		want := b.now().Add(time.Minute)
		var parked *accounting.Parked
		if !errors.As(err, &parked) || !parked.Until.Equal(want) || !b.limiter.Parked().Equal(want) {
			t.Errorf("%s: error %v, parked until %v; want %v", fault, err, b.limiter.Parked(), want)
		}
		asked := len(b.Requests())
		if _, _, err := drain(b.source.Customers(t.Context(), time.Time{})); !errors.As(err, &parked) ||
			len(b.Requests()) > asked {
			t.Errorf("%s: while parked %d requests were made, error %v", fault, len(b.Requests())-asked, err)
		}
	}
}

func TestErrorsSayWhatCameAndShowNothingOfIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault        quickbookstest.AnswerFault
		disconnected bool
		says         string
	}{
		{quickbookstest.Down, false, `QuickBooks has a failure (error "6000", "SystemFault"), intuit_tid 1-673e0000`},
		{quickbookstest.WebPage, false, "a web page came instead of JSON"},
		{quickbookstest.PlainText, false, "other text came instead of JSON"},
		{quickbookstest.Cut, false, "JSON that is cut off came instead of JSON"},
		{quickbookstest.NoEnvelope, false, "it holds no query response"},
		{quickbookstest.FaultIn200, false, `did not accept the request (error "4000", "ValidationFault")`},
		{quickbookstest.Withdrawn, true, "the consent was withdrawn"},
		{quickbookstest.OtherCompany, true, "another company"},
		{quickbookstest.Expired, true, "refuses the access token"},
	}
	for _, tt := range tests {
		b := open(t, 3, quickbooks.Config{})
		b.Suffer(tt.fault, 0)
		for _, since := range []time.Time{{}, b.now().Add(-2 * time.Hour)} {
			_, _, err := drain(b.source.Customers(t.Context(), since))
			says := tt.says
			if tt.fault == quickbookstest.NoEnvelope && !since.IsZero() {
				says = "it holds no change data"
			}
			var gone *accounting.Disconnected
			if err == nil || !strings.Contains(err.Error(), says) || errors.As(err, &gone) != tt.disconnected ||
				(connector.FaultOf(err) == connector.FaultUnauthorized) != tt.disconnected {
				t.Fatalf("%s: error %v; want %q, disconnected %t", tt.fault, err, says, tt.disconnected)
			}
			for _, secret := range []string{"token-", "private", "Customer", "@", "<", "SELECT"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the error shows %q: %v", tt.fault, secret, err)
				}
			}
		}
		if n := b.limiter.Open(); n != 0 {
			t.Errorf("%s: %d turns were not given back", tt.fault, n)
		}
	}
}

// refusing is a token endpoint that gives nothing.
type refusing struct{ code string }

func (r refusing) Token() (*oauth2.Token, error) {
	return nil, &oauth2.RetrieveError{Response: &http.Response{StatusCode: http.StatusBadRequest}, ErrorCode: r.code,
		Body: []byte("client_secret=hush")}
}

// covers F26, F29
func TestOnlyADefiniteRefusalOfTheTokenDisconnects(t *testing.T) {
	t.Parallel()
	b := open(t, 3, quickbooks.Config{})
	for code, disconnected := range map[string]bool{"invalid_grant": true, "invalid_client": true, "": false,
		"temporarily_unavailable": false} {
		_, _, err := drain(b.connect(t, quickbooks.Config{}, refusing{code}).Customers(t.Context(), time.Time{}))
		var gone *accounting.Disconnected
		if err == nil || errors.As(err, &gone) != disconnected || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: error %v, want disconnected %t", code, err, disconnected)
		}
	}
}

func TestCancelledReadAsksNothing(t *testing.T) {
	t.Parallel()
	b := open(t, 3, quickbooks.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := drain(b.source.Customers(ctx, time.Time{})); !errors.Is(err, context.Canceled) ||
		len(b.Requests()) > 0 {
		t.Errorf("error %v after %d requests", err, len(b.Requests()))
	}
}

func TestNewNamesTheWrongKey(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]quickbooks.Config{
		"company": {Company: "Acme Ltd"}, "company is": {}, "page_size": {Company: "1", PageSize: 1},
		"base_url": {Company: "1", BaseURL: "quickbooks"}, "per_minute": {Company: "1", PerDay: -1},
	} {
		if _, err := quickbooks.New(c, quickbooks.Deps{}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

func TestSandboxCompaniesHaveAnAddressOfTheirOwn(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]quickbooks.Config{
		"quickbooks.api.intuit.com": {}, "sandbox-quickbooks.api.intuit.com": {Sandbox: true},
		"127.0.0.1": {BaseURL: "http://127.0.0.1/"},
	} {
		b := open(t, 1, c)
		if _, err := b.source.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.Requests()[0].URL.Host; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

func TestLimitsDefaultToIntuitsOwn(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(connector.Limits{PerMinute: 500, PerDay: 15000, Concurrent: 10},
		quickbooks.Config{}.Limits()); diff != "" {
		t.Errorf("default (-want +got):\n%s", diff)
	}
}
