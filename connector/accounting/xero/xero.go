// Package xero reads contacts from Xero's Accounting API. It knows the API's requests, limits, errors and
// traps, which README.md lists. Its callers provide the access token, share the budget of requests, and use
// the contacts.
//
// Every contact is read, not only customers: Xero makes a contact a customer without changing its time of
// last edit, so a filter on the incremental read would never see it. The mapping decides by IsCustomer, and
// the weekly full read finds new customers.
//
// # One read
//
//	whose token is this? ──▶ GET Contacts, page 1 … pageCount, ordered by ContactID ──▶ as many as itemCount?
//	   │                        If-Modified-Since: the same for all pages                 │ yes: complete
//	   └ not the pinned         includeArchived=true                                      └ no: another pass
//	     organisation: end
//
// # State of a contact
//
//	MergedToContactID names another contact ──▶ merged into it
//	ContactStatus ACTIVE                    ──▶ active
//	ContactStatus ARCHIVED                  ──▶ archived
//	ContactStatus GDPRREQUEST               ──▶ deleted: its person asked to be erased
//	anything else                           ──▶ unknown, which is never active
package xero

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// Config names the organisation and the way of reading. Its zero value is an app of the authorization code
// kind with one organisation.
type Config struct {
	// Tenant is the id of the organisation, a GUID. It is needed when the consent
	// covers several; once connected, the ledger pins it anyway.
	Tenant string `yaml:"tenant,omitempty" jsonschema_description:"The organisation's id, where the consent covers several."`

	// CustomConnection marks the app as a Custom Connection: its token comes from client credentials, for one
	// organisation.
	CustomConnection bool `yaml:"custom_connection,omitempty" jsonschema_description:"The app is a Custom Connection (client credentials, one organisation)."`

	// OnlyCustomers limits full reads to customers. It is for contact lists too long for Xero to return
	// whole. Other contacts are then seen only when they change.
	OnlyCustomers bool `yaml:"only_customers,omitempty" jsonschema_description:"Full reads ask for customers alone: for very long contact lists."`

	// PageSize is contacts per request, 1 to 1000; 0 is 500.
	PageSize int `yaml:"page_size,omitempty" jsonschema:"minimum=1,maximum=1000" jsonschema_description:"Contacts per request. Default 500."`

	// PerMinute, PerDay and Concurrent are Xero's limits of one app at one
	// organisation; 0 is Xero's own number: 60, 5000 and 5.
	PerMinute  int `yaml:"per_minute,omitempty" jsonschema:"minimum=1" jsonschema_description:"Requests per minute. Default 60."`
	PerDay     int `yaml:"per_day,omitempty" jsonschema:"minimum=1" jsonschema_description:"Requests per day. Default 5000; the Starter tier has 1000."`
	Concurrent int `yaml:"concurrent,omitempty" jsonschema:"minimum=1" jsonschema_description:"Requests at a time. Default 5."`

	// Writes adds the scope for changing a contact group.
	Writes bool `yaml:"-" json:"-"`

	// BaseURL is the API's address; "" is Xero itself.
	BaseURL string `yaml:"base_url,omitempty" jsonschema_description:"Where the API is. Default https://api.xero.com."`
}

// Limits returns the request budget by c.
func (c Config) Limits() connector.Limits {
	return connector.Limits{
		PerMinute: cmp.Or(c.PerMinute, 60), PerDay: cmp.Or(c.PerDay, 5000), Concurrent: cmp.Or(c.Concurrent, 5),
	}
}

// How long a refresh token of Xero works: unused, and after it was replaced.
const (
	IdleLife = 60 * 24 * time.Hour
	Grace    = 30 * time.Minute
)

// Endpoint returns the addresses for consent and tokens of Xero.
func Endpoint() oauth2.Endpoint {
	return oauth2.Endpoint{
		AuthURL:   "https://login.xero.com/identity/connect/authorize",
		TokenURL:  "https://identity.xero.com/connect/token",
		AuthStyle: oauth2.AuthStyleInHeader,
	}
}

// Scopes returns the necessary scopes: reading contacts, or writing them too. A Custom Connection also needs
// the settings, because only they name its token's organisation.
func (c Config) Scopes() []string {
	contacts := "accounting.contacts.read"
	if c.Writes {
		contacts = "accounting.contacts"
	}
	if c.CustomConnection {
		return []string{contacts, "accounting.settings.read"}
	}
	return []string{"offline_access", contacts}
}

// Deps are the dependencies of a Source. All are needed.
type Deps struct {
	HTTP    *transport.Client
	Token   oauth2.TokenSource
	Limiter accounting.Limiter
	Proof   accounting.Proof // of the organisation; nil to ask each time
	Now     func() time.Time
}

// Source is one Xero organisation as an accounting source. It may be used by
// several goroutines at once.
type Source struct {
	config Config
	base   *url.URL
	caller accounting.Caller
	prover accounting.Prover // for the source's organisation
	writes accounting.Caller // of a GroupWriter: it repeats nothing
	now    func() time.Time
	fields []connector.Field
}

// New returns the source of the configuration c. It sends nothing. Its errors name the wrong key of c.
func New(c Config, d Deps) (*Source, error) {
	base, err := url.Parse(cmp.Or(c.BaseURL, "https://api.xero.com"))
	if err != nil || base.Host == "" || base.RawQuery != "" {
		return nil, errors.New("xero source: base_url is no address; omit it, or write https:// and a host")
	}
	c.Tenant = strings.ToLower(strings.TrimSpace(c.Tenant))
	if c.PageSize = cmp.Or(c.PageSize, 500); c.PageSize < 1 || c.PageSize > 1000 {
		return nil, fmt.Errorf("xero source: page_size %d is out of range; use 1 to 1000", c.PageSize)
	}
	if c.PerMinute < 0 || c.PerDay < 0 || c.Concurrent < 0 {
		return nil, errors.New("xero source: per_minute, per_day and concurrent are whole numbers above 0; omit them for Xero's own limits")
	}
	send := func(r *http.Request) (*http.Response, error) { return d.HTTP.Do(r, transport.Always) }
	caller := accounting.Caller{System: "Xero", Send: send, Token: d.Token, Limiter: d.Limiter}
	s := &Source{config: c, base: base, caller: caller, now: d.Now, fields: Fields()}
	s.prover = accounting.Prover{Proof: d.Proof, ID: c.Tenant, Ask: s.organisation}
	if c.CustomConnection {
		// Its requests name no organisation. So only an answer to the question shows the organisation, in each run.
		s.prover.Proof = &recently{now: d.Now}
	}
	return s, nil
}

// Describe names the token's organisation and the fields of a contact. It asks Xero for the organisation: the
// error is an *accounting.Disconnected when it is not the configured one. Facts known without an answer are
// returned beside an error.
func (s *Source) Describe(ctx context.Context) (connector.SourceInfo, error) {
	info := connector.SourceInfo{Kind: "xero", Tenant: s.config.Tenant, Partial: s.config.OnlyCustomers, Fields: s.fields}
	ask := s.prover.Organisation
	if s.config.CustomConnection {
		ask = s.prover.Anew
	}
	who, err := ask(ctx)
	if err != nil {
		return info, err
	}
	info.Tenant, info.TenantName = who.ID, who.Name
	return info, nil
}

// Customers yields the contacts edited at or after since, archived and merged ones included, and all contacts
// for the zero time. It first checks the organisation (fault F28). Errors are an *accounting.Parked when the
// request limit is used up, an *accounting.Disconnected when Xero refuses access (fault F29), and else a
// *connector.RemoteError.
func (s *Source) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		who, err := s.prover.Organisation(ctx)
		if err != nil {
			yield(connector.Page{}, err)
			return
		}
		l := &listing{source: s, tenant: who.ID, since: since}
		walk := accounting.WalkCounted(ctx, accounting.Pager{Fetch: l.fetch},
			accounting.Census{Total: l.total, Began: l.began})
		for page, err := range walk {
			if !yield(page, s.prover.Doubt(ctx, err)) {
				return
			}
		}
	}
}

// listing is one read of the contact list.
type listing struct {
	source *Source
	tenant string
	since  time.Time
	first  time.Time // Xero's time at the first page
	items  int       // how many contacts the list holds, as the last page said
}

// fetch reads page n, counted from 0.
func (l *listing) fetch(ctx context.Context, n int) (accounting.Sheet, error) {
	a, err := l.source.get(ctx,
		ask{op: "read contacts", path: "/api.xro/2.0/Contacts", query: l.query(n + 1), tenant: l.tenant, since: l.since})
	if err != nil {
		return accounting.Sheet{}, err
	}
	if l.first.IsZero() {
		l.first = a.Date()
	}
	page, err := parsePage(a.Body, n+1)
	if err != nil {
		return accounting.Sheet{}, a.unusable(err)
	}
	sheet := accounting.Sheet{Records: make([]connector.Record, len(page.Contacts)), Last: page.last()}
	for i, raw := range page.Contacts {
		sheet.Records[i] = l.source.record(raw)
	}
	l.items = page.Pagination.ItemCount
	return sheet, nil
}

func (l *listing) query(page int) url.Values {
	q := url.Values{
		"page":            {strconv.Itoa(page)},
		"pageSize":        {strconv.Itoa(l.source.config.PageSize)},
		"includeArchived": {"true"},
		"order":           {"ContactID ASC"}, // a key unaffected by edits
	}
	if l.source.config.OnlyCustomers && l.since.IsZero() {
		q.Set("where", "IsCustomer==true")
	}
	return q
}

func (l *listing) total(context.Context) (int, error) { return l.items, nil }

func (l *listing) began() time.Time { return l.first }
