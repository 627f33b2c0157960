package xero_test

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
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
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
			"requests left today: 4987"},
		{"no organisation", func(b *books) { b.Tenants = nil }, []string{"+credentials", "-tenant"}, "no Xero organisation"},
		{"no permission", func(b *books) { b.Suffer(xerotest.NoScope, 0, 0) },
			[]string{"+credentials", "+tenant", "-permissions"}, "scope accounting.contacts.read is missing"},
		{"a page without contacts", func(b *books) { b.Suffer(xerotest.NoList, 0, 0) },
			[]string{"+credentials", "+tenant", "+permissions", "+clock", "-one page"}, "no list of contacts"},
		{"a clock that is wrong", func(b *books) {
			theirs := b.now().Add(-time.Hour)
			b.Server.Now = func() time.Time { return theirs }
		}, []string{"+credentials", "+tenant", "+permissions", "-clock", "+one page"}, "differs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, 4, xero.Config{})
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

// canned answers requests for contacts with one answer, and all others as the
// model does.
type canned struct {
	*xerotest.Server
	status int
	body   string
	err    error
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/Contacts") {
		return c.Server.RoundTrip(r)
	}
	return &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))},
		c.err
}

func TestAnswersOutOfTheOrdinaryAreToldApart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		with  canned
		fault connector.Fault
		says  string
	}{
		{"too many contacts", canned{status: 400,
			body: `{"ErrorNumber":51,"Type":"HighVolumeException","Message":"private"}`},
			connector.FaultRejected, `Xero did not accept the request (its error 51, "HighVolumeException"); the organisation has too many contacts to be read whole, so set only_customers: true in the xero block of its connection (HTTP 400)`},
		{"a request that is wrong",
			canned{status: 400, body: `{"ErrorNumber":16,"Type":"QueryParseException","Message":"private"}`},
			connector.FaultRejected, `Xero did not accept the request (its error 16, "QueryParseException") (HTTP 400)`},
		{"a refusal without words", canned{status: 412}, connector.FaultRejected,
			"Xero did not accept the request (HTTP 412)"},
		{"an address that is not there", canned{status: 404, body: "<html>private</html>"}, connector.FaultNotFound,
			"Xero did not accept the request (HTTP 404)"},
		{"a redirect", canned{status: 302}, connector.FaultRejected, "HTTP 302"},
		{"a broken connection", canned{err: errors.New("reset by private peer")}, connector.FaultUnavailable,
			"Xero gave no answer: the connection broke"},
		{"a plan that ended", canned{status: 403, body: `{"Detail":"private"}`}, "", "the organisation's plan ended"},
		{"a token without words", canned{status: 401}, "", "Xero refuses the access token"},
		{"a page of another shape", canned{status: 200, body: `{"Contacts":{}}`}, connector.FaultUnavailable,
			"it is not the JSON of a contact list"},
		{"a page that does not say which", canned{status: 200, body: `{"Contacts":[{"ContactID":"c1"}]}`},
			connector.FaultUnavailable, "does not say that it is page 1"},
		{"no pages at all", canned{status: 200, body: `{"Contacts":null,"pagination":{"page":1}}`},
			connector.FaultUnavailable, "it holds no list of contacts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, 1, xero.Config{})
			tt.with.Server = b.Server
			s, err := xero.New(xero.Config{}, xero.Deps{
				HTTP: transport.New(transport.Options{Base: tt.with, Retries: -1}), Token: b.Server, Limiter: &b.limiter,
				Now: b.now,
			})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = drain(s.Customers(t.Context(), time.Time{}))
			if err == nil || connector.FaultOf(err) != tt.fault || !strings.Contains(err.Error(), tt.says) ||
				strings.Contains(err.Error(), "private") {
				t.Errorf("error %v, fault %q; want %q, %q", err, connector.FaultOf(err), tt.says, tt.fault)
			}
		})
	}
}

// emptied is a system whose second page comes without its contacts.
type emptied struct {
	*xerotest.Server
	body string
}

func (e emptied) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("page") == "2" {
		return everywhere(e.body).RoundTrip(r)
	}
	return e.Server.RoundTrip(r)
}

// covers F45
func TestPageThatLostItsContactsIsNoEndOfTheList(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"Contacts":[]}`,
		`{"Contacts":[],"pagination":{"page":2,"pageSize":10,"pageCount":3,"itemCount":25}}`,
		`{"Contacts":[{"ContactID":"c1"}],"pagination":{"page":2}}`,
	} {
		b := open(t, 25, xero.Config{})
		s, err := xero.New(xero.Config{PageSize: 10}, xero.Deps{
			HTTP: transport.New(transport.Options{Base: emptied{b.Server, body}}), Token: b.Server, Limiter: &b.limiter,
			Now: b.now,
		})
		if err != nil {
			t.Fatal(err)
		}
		if records, _, err := drain(s.Customers(t.Context(),
			time.Time{})); connector.FaultOf(err) != connector.FaultUnavailable {
			t.Errorf("%s: the read ended with %d of 25 contacts, error %v", body, len(records), err)
		}
	}
}

func TestOrganisationOfAnotherShapeIsNone(t *testing.T) {
	t.Parallel()
	for _, custom := range []bool{true, false} {
		b := open(t, 1, xero.Config{})
		s, err := xero.New(xero.Config{CustomConnection: custom}, xero.Deps{
			HTTP: transport.New(transport.Options{Base: everywhere(`{"Organisations":[]}`)}), Token: b.Server,
			Limiter: &b.limiter, Now: b.now,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Describe(t.Context()); connector.FaultOf(err) != connector.FaultUnavailable ||
			!strings.Contains(err.Error(), "it is not the JSON of") {
			t.Errorf("custom %t: error %v", custom, err)
		}
	}
}

// everywhere is the one answer that it gives.
type everywhere string

func (e everywhere) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(string(e)))}, nil
}

func TestConsentAsksForNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	for custom, want := range map[bool]string{
		false: "offline_access accounting.contacts.read", true: "accounting.contacts.read accounting.settings.read",
	} {
		if got := strings.Join(xero.Config{CustomConnection: custom}.Scopes(), " "); got != want {
			t.Errorf("custom %t: %s, want %s", custom, got, want)
		}
	}
	if e := xero.Endpoint(); e.AuthStyle != oauth2.AuthStyleInHeader ||
		!strings.HasPrefix(e.TokenURL, "https://identity.xero.com/") ||
		!strings.HasPrefix(e.AuthURL, "https://login.xero.com/") {
		t.Errorf("endpoint %+v", e)
	}
}
