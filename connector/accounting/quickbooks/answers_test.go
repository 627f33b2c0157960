package quickbooks_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/transport"
)

func TestProbeNamesWhatIsNotWell(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*books)
		want  []string // "+" well, "-" not, then name
		says  string
	}{
		{"all is well", func(*books) {}, []string{"+credentials", "+tenant", "+permissions", "+clock", "+one page"},
			"Northwind Holdings = " + quickbookstest.Realm},
		{"no permission", func(b *books) { b.Suffer(quickbookstest.Withdrawn, 0) },
			[]string{"+credentials", "+tenant", "-permissions"}, "consent was withdrawn"},
		{"a row that cannot be read", func(b *books) { b.Edit("1", func(c *quickbookstest.StoredCustomer) { c.Spoilt = true }) },
			[]string{"+credentials", "+tenant", "+permissions", "+clock", "-one page"}, "PrimaryEmailAddr is not an object"},
		{"a clock that is wrong", func(b *books) {
			theirs := b.now().Add(-time.Hour)
			b.Server.Now = func() time.Time { return theirs }
		}, []string{"+credentials", "+tenant", "+permissions", "-clock", "+one page"}, "differs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, 4, quickbooks.Config{})
			tt.spoil(b)
			var got []string
			var details strings.Builder
			for _, p := range b.source.Probe(t.Context()) {
				got = append(got, map[bool]string{true: "+", false: "-"}[p.OK]+p.Name)
				details.WriteString(p.Detail + "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || !strings.Contains(details.String(), tt.says) {
				t.Errorf("probes (-want +got):\n%sdetails want %q:\n%s", diff, tt.says, details.String())
			}
		})
	}
}

// canned answers the requests for one path with one answer, and all others as
// the model does.
type canned struct {
	*quickbookstest.Server
	path   string // its last part
	status int
	body   string
	err    error
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, c.path) {
		return c.Server.RoundTrip(r)
	}
	return &http.Response{StatusCode: c.status, Header: http.Header{"Intuit_tid": {"not; an id"}},
		Body: io.NopCloser(strings.NewReader(c.body))}, c.err
}

func TestAnswersOutOfTheOrdinaryAreToldApart(t *testing.T) {
	t.Parallel()
	company := "/companyinfo/" + quickbookstest.Realm
	tests := []struct {
		name  string
		with  canned
		fault connector.Fault // of the error, or
		says  string          // part of the error, or of the sparse customer's problem
	}{
		{"a refusal without words", canned{path: "/query", status: 412}, connector.FaultRejected,
			"QuickBooks did not accept the request (HTTP 412)"},
		{"an address that is not there", canned{path: "/query", status: 404}, connector.FaultNotFound, "HTTP 404"},
		{"a redirect", canned{path: "/query", status: 302}, connector.FaultRejected, "HTTP 302"},
		{"a broken connection", canned{path: "/query", err: errors.New("reset by private peer")}, connector.FaultUnavailable,
			"QuickBooks gave no answer: the connection broke"},
		{"a query of another shape", canned{path: "/query", status: 200, body: `{"QueryResponse":[]}`},
			connector.FaultUnavailable, "it has another form than documented"},
		{"a throttle that says how long", canned{path: "/query", status: 429}, connector.FaultThrottled,
			"it may be asked again at"},
		{"a company of another shape", canned{path: company, status: 200, body: `{}`}, connector.FaultUnavailable,
			"it holds no company"},
		{"a company that is a list", canned{path: company, status: 200, body: `[]`}, connector.FaultUnavailable,
			"it has another form than documented"},
		{"a customer that stays sparse",
			canned{path: "/customer/1", status: 200, body: `{"Customer":{"Id":"1","sparse":true,"DisplayName":"private"}}`}, "",
			"QuickBooks gave only a part of the customer"},
		{"another customer than asked for", canned{path: "/customer/1", status: 200, body: `{"Customer":{"Id":"2"}}`},
			connector.FaultUnavailable, "not the customer that was asked for"},
		{"no customer", canned{path: "/customer/1", status: 200, body: `{}`}, connector.FaultUnavailable,
			"not the customer that was asked for"},
		{"a customer that is a list", canned{path: "/customer/1", status: 200, body: `[]`}, connector.FaultUnavailable,
			"it has another form than documented"},
		{"a customer that cannot be read", canned{path: "/customer/1", status: 500}, connector.FaultUnavailable,
			"QuickBooks has a failure"},
		{"a customer whose address is not there", canned{path: "/customer/1", status: 404, body: "<html>private</html>"},
			connector.FaultNotFound, "HTTP 404"},
		{"a customer that is deleted by then",
			canned{path: "/customer/1", status: 200, body: `{"Customer":{"Id":"1","status":"Deleted"}}`}, "", "deleted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, 1, quickbooks.Config{})
			b.Edit("1", func(c *quickbookstest.StoredCustomer) { c.Sparse = true })
			tt.with.Server = b.Server
			s, err := quickbooks.New(quickbooks.Config{Company: quickbookstest.Realm}, quickbooks.Deps{
				HTTP: transport.New(transport.Options{Base: tt.with, Retries: -1}), Token: b.Server, Limiter: &b.limiter,
				Now: b.now,
			})
			if err != nil {
				t.Fatal(err)
			}
			records, _, err := drain(s.Customers(t.Context(), time.Time{}))
			said := ""
			if err != nil {
				said = err.Error()
			} else if len(records) > 0 {
				said = string(records[0].State) + " " + records[0].Problem
			}
			if connector.FaultOf(err) != tt.fault || !strings.Contains(said, tt.says) || strings.Contains(said, "private") ||
				strings.Contains(said, "intuit_tid") {
				t.Errorf("%q, fault %q; want %q, %q", said, connector.FaultOf(err), tt.says, tt.fault)
			}
		})
	}
}

// covers F45
func TestEmptyListIsBelievedWhenTheCountIsZero(t *testing.T) {
	t.Parallel()
	for customers, want := range map[int]connector.Fault{0: "", 3: connector.FaultUnavailable} {
		b := open(t, customers, quickbooks.Config{})
		s, err := quickbooks.New(quickbooks.Config{Company: quickbookstest.Realm}, quickbooks.Deps{
			HTTP: transport.New(transport.Options{Base: emptied{b.Server}}), Token: b.Server, Limiter: &b.limiter, Now: b.now,
		})
		if err != nil {
			t.Fatal(err)
		}
		if records, _, err := drain(s.Customers(t.Context(), time.Time{})); connector.FaultOf(err) != want ||
			len(records) > 0 {
			t.Errorf("of %d customers %d came, error %v, want fault %q", customers, len(records), err, want)
		}
	}
}

// emptied is a company that lists nobody, and counts what it has.
type emptied struct{ *quickbookstest.Server }

func (e emptied) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Query().Get("query"), "SELECT *") {
		return e.Server.RoundTrip(r)
	}
	return canned{path: "/query", status: http.StatusOK, body: `{"QueryResponse":{}}`}.RoundTrip(r)
}

func TestConsentIsForAccountingAlone(t *testing.T) {
	t.Parallel()
	if got := strings.Join(quickbooks.Scopes(), " "); got != "com.intuit.quickbooks.accounting" {
		t.Errorf("scopes %s", got)
	}
	if e := quickbooks.Endpoint(); e.AuthStyle != oauth2.AuthStyleInHeader ||
		!strings.HasPrefix(e.TokenURL, "https://oauth.platform.intuit.com/") ||
		!strings.HasPrefix(e.AuthURL, "https://appcenter.intuit.com/") {
		t.Errorf("endpoint %+v", e)
	}
}
