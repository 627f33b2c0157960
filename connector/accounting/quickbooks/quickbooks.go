// Package quickbooks reads customers from QuickBooks Online. It knows the API's queries, limits, faults and
// traps, which README.md lists. Its callers provide the access token, share the budget of requests, and use
// the customers.
//
// # One read
//
//	is this the company? ──▶ changes wanted, no older than 29 days?
//	                           │ yes                          │ no, or 1000 changes and more
//	                           ▼                              ▼
//	                         change data capture            query, ORDERBY Id, in pages that
//	                           │ Deleted: read by id          begin with the last row of the
//	                           ▼ to make sure                 page before
//	                         complete                         │ the row is there ──▶ … ──▶ complete
//	                                                          └ it is not: the list moved, another pass
//
// QuickBooks omits empty properties, so a missing property is empty. A row marked as sparse is read again by
// its id.
//
// # State of a customer
//
//	Active true                       ──▶ active
//	Active false                      ──▶ archived; QuickBooks has no other way to delete
//	gone, as change data capture says ──▶ deleted: it was merged into another, which is not named
//	a job or project, left out        ──▶ archived, so that a customer who was made one is not left behind unseen
//	no Active at all                  ──▶ unknown, which is never active
package quickbooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// The addresses of the API.
const (
	live    = "https://quickbooks.api.intuit.com"
	sandbox = "https://sandbox-quickbooks.api.intuit.com"
)

// Config names the company and the way of reading. Company is needed.
type Config struct {
	// Company is the company's id, called realm by QuickBooks: digits.
	Company string `yaml:"company,omitempty" jsonschema_description:"The company's id (realm id). Connecting tells it."`

	// Sandbox means the app's keys are development keys and the company is a sandbox company.
	Sandbox bool `yaml:"sandbox,omitempty" jsonschema_description:"The company is a sandbox company."`

	// Jobs and Projects take jobs (sub-customers) and projects for customers of
	// their own. Without them they are reported as archived.
	Jobs     bool `yaml:"jobs,omitempty" jsonschema_description:"Jobs (sub-customers) are payers of their own."`
	Projects bool `yaml:"projects,omitempty" jsonschema_description:"Projects are payers of their own."`

	// QueryOnly turns change data capture off. Merged customers are then not reported.
	QueryOnly bool `yaml:"query_only,omitempty" jsonschema_description:"Do without change data capture."`

	// PageSize is customers per query, 2 to 1000; 0 is 1000.
	PageSize int `yaml:"page_size,omitempty" jsonschema:"minimum=2,maximum=1000" jsonschema_description:"Customers per request. Default 1000."`

	// PerMinute and Concurrent are Intuit's limits for a company, PerDay keeps a
	// month below what the free Builder tier reads; 0 is 500, 10 and 15000.
	PerMinute  int `yaml:"per_minute,omitempty" jsonschema:"minimum=1" jsonschema_description:"Requests per minute. Default 500."`
	PerDay     int `yaml:"per_day,omitempty" jsonschema:"minimum=1" jsonschema_description:"Requests per day. Default 15000: the free tier reads 500,000 a month."`
	Concurrent int `yaml:"concurrent,omitempty" jsonschema:"minimum=1" jsonschema_description:"Requests at a time. Default 10."`

	// BaseURL is the API's address; "" is Intuit itself.
	BaseURL string `yaml:"base_url,omitempty" jsonschema_description:"Where the API is. Default Intuit's address."`
}

// Limits returns the request budget by c.
func (c Config) Limits() connector.Limits {
	return connector.Limits{
		PerMinute: cmp.Or(c.PerMinute, 500), PerDay: cmp.Or(c.PerDay, 15_000), Concurrent: cmp.Or(c.Concurrent, 10),
	}
}

// IdleLife is how long a refresh token of Intuit works unused. Its value changes
// about daily, and the one before stops working at once.
const IdleLife = 100 * 24 * time.Hour

// Endpoint returns the addresses for consent and tokens of Intuit.
func Endpoint() oauth2.Endpoint {
	return oauth2.Endpoint{
		AuthURL:   "https://appcenter.intuit.com/connect/oauth2",
		TokenURL:  "https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer",
		AuthStyle: oauth2.AuthStyleInHeader,
	}
}

// Scopes returns the necessary scopes. The API has no narrower one.
func Scopes() []string { return []string{"com.intuit.quickbooks.accounting"} }

// Deps are the dependencies of a Source. All are needed.
type Deps struct {
	HTTP    *transport.Client
	Token   oauth2.TokenSource
	Limiter accounting.Limiter
	Proof   accounting.Proof // of the company; nil to ask each time
	Now     func() time.Time
}

// Source is one QuickBooks company as an accounting source. It may be used by
// several goroutines at once.
type Source struct {
	config Config
	base   *url.URL // of the company
	caller accounting.Caller
	prover accounting.Prover // for the source's company
	writes accounting.Caller // of a PaymentMethodWriter: it repeats nothing
	now    func() time.Time
	fields []connector.Field
}

// New returns the source of the configuration c. It sends nothing. Its errors name the wrong key of c.
func New(c Config, d Deps) (*Source, error) {
	address := live
	if c.Sandbox {
		address = sandbox
	}
	base, err := url.Parse(cmp.Or(c.BaseURL, address))
	if err != nil || base.Host == "" || base.RawQuery != "" {
		return nil, errors.New("quickbooks source: base_url is no address; omit it, or write https:// and a host")
	}
	if c.Company = strings.TrimSpace(c.Company); c.Company == "" || strings.Trim(c.Company, "0123456789") != "" {
		return nil, connector.Advise(errors.New("quickbooks source: company is the company's id and made of digits; giving the consent shows it"), connector.Step{Do: connector.DoConnect})
	}
	if c.PageSize = cmp.Or(c.PageSize, 1000); c.PageSize < 2 || c.PageSize > 1000 {
		return nil, fmt.Errorf("quickbooks source: page_size %d is out of range; use 2 to 1000", c.PageSize)
	}
	if c.PerMinute < 0 || c.PerDay < 0 || c.Concurrent < 0 {
		return nil, errors.New("quickbooks source: per_minute, per_day and concurrent are whole numbers above 0; omit them for Intuit's own limits")
	}
	send := func(r *http.Request) (*http.Response, error) { return d.HTTP.Do(r, transport.Always) }
	caller := accounting.Caller{System: "QuickBooks", Send: send, Token: d.Token, Limiter: d.Limiter}
	s := &Source{config: c, base: base.JoinPath("v3", "company", c.Company), caller: caller, now: d.Now, fields: Fields()}
	s.prover = accounting.Prover{Proof: d.Proof, ID: c.Company,
		Ask: func(ctx context.Context) (accounting.Organisation, error) {
			name, err := s.company(ctx)
			return accounting.Organisation{ID: c.Company, Name: name}, err
		}}
	return s, nil
}

// Describe names the company and the fields of a customer. It asks QuickBooks for the company's name: the
// error is an *accounting.Disconnected when the token is another company's. Facts known without an answer are
// returned beside an error.
func (s *Source) Describe(ctx context.Context) (connector.SourceInfo, error) {
	who, err := s.prover.Organisation(ctx)
	return connector.SourceInfo{Kind: "quickbooks", Tenant: s.config.Company, TenantName: who.Name, Fields: s.fields}, err
}

// Customers yields the customers edited at or after since, inactive ones included, and all of them for the
// zero time. It first checks the company (fault F28). Errors are an *accounting.Parked when the request limit
// is used up, an *accounting.Disconnected when QuickBooks refuses access (fault F29), and else a
// *connector.RemoteError.
func (s *Source) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		if _, err := s.prover.Organisation(ctx); err != nil {
			yield(connector.Page{}, err)
			return
		}
		page, whole, err := s.changes(ctx, since)
		if err != nil || whole {
			yield(page, s.prover.Doubt(ctx, err))
			return
		}
		l := &listing{source: s, since: since}
		census := accounting.Census{Total: l.total, Began: func() time.Time { return l.first }}
		for page, err := range accounting.WalkCounted(ctx, accounting.Pager{Fetch: l.fetch, Overlaps: true}, census) {
			if !yield(page, s.prover.Doubt(ctx, err)) {
				return
			}
		}
	}
}

// company asks for the name of the company. QuickBooks refuses the token of any
// other company than the one in the address, so an answer proves the id.
func (s *Source) company(ctx context.Context) (name string, err error) {
	var said struct {
		CompanyInfo *struct{ CompanyName string }
	}
	a, err := s.get(ctx, ask{op: "read the company", path: "companyinfo/" + s.config.Company})
	if err != nil {
		return "", err
	}
	if err := a.decode(&said); err != nil {
		return "", err
	}
	if said.CompanyInfo == nil {
		return "", a.unusable("it holds no company")
	}
	return said.CompanyInfo.CompanyName, nil
}
