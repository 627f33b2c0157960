// Package xerotest is a stateful model of Xero's Accounting API for tests: the
// contact list with paging, order, filters and times of edit in whole seconds,
// the list of connections and the organisation, tokens, limits and failures. It
// refuses what Xero refuses and has Xero's traps: XML unless JSON is asked for,
// archived contacts only on request, a customer flag that changes without a time
// of edit. What a source makes of it is left to the source's own tests.
package xerotest

import (
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// Contact is a contact as Xero holds it. Xero sends its JSON, and a source passes all
// of it on.
type Contact struct {
	ContactID         string
	ContactStatus     string
	MergedToContactID string `json:",omitempty"`
	Name              string
	ContactNumber     string
	AccountNumber     string
	FirstName         string
	LastName          string
	EmailAddress      *string // nil is sent as null
	TaxNumber         string
	DefaultCurrency   string `json:",omitempty"`
	IsCustomer        bool
	IsSupplier        bool
	Addresses         []Address
	Phones            []Phone
	ContactPersons    []Person
	ContactGroups     []Group

	Updated time.Time `json:"-"`
	Spoilt  bool      `json:"-"` // its e-mail address is sent as an object
}

// Address is one address of a contact; unset ones are sent with blank fields.
type Address struct {
	AddressType                       string
	AddressLine1, AddressLine2        string `json:",omitempty"`
	City, Region, PostalCode, Country string
}

// Phone is one phone number of a contact.
type Phone struct{ PhoneType, PhoneNumber, PhoneAreaCode, PhoneCountryCode string }

// Person is a further person of a contact.
type Person struct {
	FirstName, LastName, EmailAddress string
	IncludeInEmails                   bool
}

// Group is a group that a contact is in.
type Group struct{ ContactGroupID, Name string }

// Tenant is an organisation that the consent covers.
type Tenant struct{ ID, Name, Type string }

// AnswerFault affects every answer until it is removed.
type AnswerFault string

// The faults.
const (
	Healthy     AnswerFault = ""
	Down        AnswerFault = "500"
	Overloaded  AnswerFault = "503"
	WebPage     AnswerFault = "200 with a web page"
	XML         AnswerFault = "200 with XML"
	Cut         AnswerFault = "200 with JSON that is cut off"
	NoList      AnswerFault = "200 with JSON that has no contacts"
	WrongPage   AnswerFault = "200 with the first page, whichever was asked for"
	MinuteLimit AnswerFault = "429 minute"
	DayLimit    AnswerFault = "429 day"
	Withdrawn   AnswerFault = "403 consent withdrawn"
	NoScope     AnswerFault = "401 insufficient scope"
	Expired     AnswerFault = "401 whatever the token"
)

// Server is the model. It is an http.Handler and, without sockets, an
// http.RoundTripper. It may be used by several goroutines at once.
type Server struct {
	Now     func() time.Time // Xero's clock
	Tenants []Tenant         // set before the first request
	Custom  bool             // the app is a Custom Connection: tokens are good for the organisation alone

	mu       sync.Mutex
	contacts []*Contact // in the order they were added
	added    int
	byID     map[string]*Contact // the same
	tokens   map[string]bool     // live access tokens
	issued   int
	fault    AnswerFault
	from     int // requests for contacts answered before the fault begins
	wait     int // seconds of Retry-After
	hook     func()
	requests []*http.Request
	groups   []Group
	emptied  bool // all contacts were taken out of a group at once
}

// New returns a model with one organisation and no contacts.
func New(now func() time.Time) *Server {
	return &Server{
		Now: now, byID: map[string]*Contact{}, tokens: map[string]bool{},
		Tenants: []Tenant{{"7d0c2f6e-51c5-4c7b-9a35-0f3f0c8a1b2d", "Northwind Holdings", "ORGANISATION"}},
	}
}

func (s *Server) lock() func() {
	s.mu.Lock()
	return s.mu.Unlock
}

// Add adds n active customers and returns their ids, which have no order.
func (s *Server) Add(n int) []string {
	defer s.lock()()
	ids := make([]string, n)
	for i := range ids {
		s.added++
		n := s.added
		c := newContact(guid(n), n, s.Now())
		s.contacts, s.byID[c.ContactID], ids[i] = append(s.contacts, c), c, c.ContactID
	}
	return ids
}

func guid(n int) string {
	sum := sha1.Sum([]byte(strconv.Itoa(n)))
	digits := fmt.Sprintf("%x", sum)
	return digits[:8] + "-" + digits[8:12] + "-4" + digits[13:16] + "-a" + digits[17:20] + "-" + digits[20:32]
}

func newContact(id string, n int, now time.Time) *Contact {
	email := fmt.Sprintf("accounts%d@customer.example", n)
	return &Contact{
		ContactID: id, ContactStatus: "ACTIVE", Name: fmt.Sprintf("Customer %d Ltd", n),
		AccountNumber: fmt.Sprintf("C%05d", n),
		FirstName:     "Ann", LastName: "Baker", EmailAddress: &email, DefaultCurrency: "GBP", IsCustomer: true,
		Addresses: []Address{
			{AddressType: "STREET"},
			{AddressType: "POBOX", AddressLine1: fmt.Sprintf("%d Quay St", n), City: "Leeds", PostalCode: "LS1 4AP",
				Country: "United Kingdom"},
		},
		Phones: []Phone{
			{"DDI", "", "", ""}, {"DEFAULT", "2000111", "113", "44"}, {"FAX", "", "", ""}, {"MOBILE", "", "", ""},
		},
		ContactPersons: []Person{}, ContactGroups: []Group{}, Updated: now,
	}
}

// Edit changes a contact and its time of last edit.
func (s *Server) Edit(id string, change func(*Contact)) {
	defer s.lock()()
	c := s.find(id)
	change(c)
	c.Updated = s.Now()
}

// Change changes a contact and leaves its time of last edit: as Xero does with
// IsCustomer.
func (s *Server) Change(id string, change func(*Contact)) {
	defer s.lock()()
	change(s.find(id))
}

func (s *Server) find(id string) *Contact {
	c, ok := s.byID[id]
	if !ok {
		panic("xerotest: there is no contact " + id)
	}
	return c
}

// Archive archives a contact.
func (s *Server) Archive(id string) { s.Edit(id, func(c *Contact) { c.ContactStatus = "ARCHIVED" }) }

// Merge merges a contact into another one, which archives it.
func (s *Server) Merge(loser, survivor string) {
	s.Edit(loser, func(c *Contact) { c.ContactStatus, c.MergedToContactID = "ARCHIVED", survivor })
	s.Edit(survivor, func(*Contact) {})
}

// Erase has the effect of a person's request to be forgotten.
func (s *Server) Erase(id string) {
	s.Edit(id, func(c *Contact) {
		*c = Contact{ContactID: c.ContactID, ContactStatus: "GDPRREQUEST", Name: "Erased", EmailAddress: new(string),
			Addresses: []Address{}, Phones: []Phone{}, ContactPersons: []Person{}, ContactGroups: []Group{}}
	})
}

// Remove removes a contact without a trace, as Xero does not and a permission that was narrowed would.
func (s *Server) Remove(id string) {
	defer s.lock()()
	delete(s.byID, id)
	s.contacts = slices.DeleteFunc(s.contacts, func(c *Contact) bool { return c.ContactID == id })
}

// Tie gives contacts one and the same time of last edit, as a bulk import does.
func (s *Server) Tie(at time.Time, ids ...string) {
	defer s.lock()()
	for _, id := range ids {
		s.find(id).Updated = at
	}
}

// Contacts returns copies of all contacts, in the order they were added.
func (s *Server) Contacts() []Contact {
	defer s.lock()()
	out := make([]Contact, len(s.contacts))
	for i, c := range s.contacts {
		out[i] = *c
	}
	return out
}

// AfterPage has hook called behind every page of contacts, before it is sent;
// nil for no more.
func (s *Server) AfterPage(hook func()) {
	defer s.lock()()
	s.hook = hook
}

// Suffer lets a fault begin after so many more requests for contacts; wait is
// the Retry-After of limits and overload, in seconds.
func (s *Server) Suffer(f AnswerFault, after, wait int) {
	defer s.lock()()
	s.fault, s.from, s.wait = f, after, wait
}

// Mend ends the fault.
func (s *Server) Mend() { s.Suffer(Healthy, 0, 0) }

// Token issues a new access token with each call, as oauth2.TokenSource.
func (s *Server) Token() (*oauth2.Token, error) {
	defer s.lock()()
	s.issued++
	token := fmt.Sprintf("token-%d", s.issued)
	s.tokens[token] = true
	return &oauth2.Token{AccessToken: token}, nil
}

// ExpireTokens ends the life of all access tokens issued so far.
func (s *Server) ExpireTokens() {
	defer s.lock()()
	clear(s.tokens)
}

// Reach makes the token reach these organisations from now on, in this order.
func (s *Server) Reach(tenants ...Tenant) {
	defer s.lock()()
	s.Tenants = tenants
}

// Requests returns every request so far, as it came and without body.
func (s *Server) Requests() []*http.Request {
	defer s.lock()()
	return slices.Clone(s.requests)
}

// RoundTrip answers a request in process.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, hook := s.answer(r)
	if hook != nil {
		hook()
	}
	h := w.Header()
	maps.Copy(h, a.header)
	h.Set("Date", s.Now().UTC().Format(http.TimeFormat))
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a closed client does not matter here
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *Server) answer(r *http.Request) (answer, func()) {
	defer s.lock()()
	s.requests = append(s.requests, r)
	isList := r.URL.Path == "/api.xro/2.0/Contacts"
	if refusal, ok := s.refuse(r); !ok {
		return refusal, nil
	}
	isGroup := strings.HasPrefix(r.URL.Path, groupsPath)
	if (isList || isGroup) && s.fault != Healthy {
		if s.from--; s.from < 0 {
			if a, ok := s.suffer(r); ok {
				return a, nil
			}
		}
	}
	switch {
	case isGroup:
		return s.group(r), nil
	case r.Method != http.MethodGet:
		return text(http.StatusMethodNotAllowed, "application/json", `{}`), nil
	case isList:
		return s.list(r), s.hook
	case r.URL.Path == "/api.xro/2.0/Organisation":
		return s.organisation(r), nil
	case r.URL.Path == "/connections":
		return s.connections(), nil
	}
	return text(http.StatusNotFound, "text/html",
		"<html><body>The resource you're looking for cannot be found</body></html>"), nil
}

// refuse checks token and tenant.
func (s *Server) refuse(r *http.Request) (answer, bool) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	tenant := r.Header.Get("Xero-Tenant-Id")
	known := slices.ContainsFunc(s.Tenants, func(t Tenant) bool { return t.ID == tenant })
	inOrganisation := strings.HasPrefix(r.URL.Path, "/api.xro/")
	switch {
	case token == "":
		return problem(http.StatusUnauthorized, "Unauthorized", "AuthenticationUnsuccessful"), false
	case !s.tokens[token]:
		return problem(http.StatusUnauthorized, "Unauthorized", "TokenExpired: token expired at 11/20/2026 10:00:00"), false
	case s.Custom && !inOrganisation:
		return problem(http.StatusForbidden, "Forbidden", "AuthenticationUnsuccessful"), false
	case inOrganisation && !s.Custom && !known:
		return problem(http.StatusForbidden, "Forbidden", "AuthenticationUnsuccessful"), false
	}
	return answer{}, true
}

// suffer returns the answer of the present fault; false when it lets the request
// through in another form.
func (s *Server) suffer(r *http.Request) (answer, bool) {
	limited := func(which string) answer {
		a := text(http.StatusTooManyRequests, "text/html", "")
		a.header.Set("X-Rate-Limit-Problem", which)
		a.header.Set("Retry-After", strconv.Itoa(s.wait))
		return a
	}
	switch s.fault {
	case Down:
		return text(http.StatusInternalServerError, "text/html", "<html><body>An error occurred</body></html>"), true
	case Overloaded:
		a := text(http.StatusServiceUnavailable, "text/html", "<html><body>Rate limit exceeded</body></html>")
		a.header.Set("Retry-After", strconv.Itoa(s.wait))
		return a, true
	case WebPage:
		return text(http.StatusOK, "text/html", "<!DOCTYPE html>\n<html><body>Xero is being improved</body></html>"), true
	case XML:
		return text(http.StatusOK, "text/xml", `<Response><Contacts><Contact/></Contacts></Response>`), true
	case Cut:
		a := s.list(r)
		return text(http.StatusOK, "application/json", string(a.body[:len(a.body)/2])), true
	case NoList:
		return text(http.StatusOK, "application/json", `{"Status":"OK"}`), true
	case WrongPage:
		again := r.Clone(r.Context())
		q := again.URL.Query()
		q.Set("page", "1")
		again.URL.RawQuery = q.Encode()
		return s.list(again), true
	case MinuteLimit:
		return limited("minute"), true
	case DayLimit:
		return limited("day"), true
	case Withdrawn:
		return problem(http.StatusForbidden, "Forbidden", "AuthenticationUnsuccessful"), true
	case NoScope:
		return problem(http.StatusUnauthorized, "Unauthorized", "AuthorizationUnsuccessful"), true
	case Expired:
		return problem(http.StatusUnauthorized, "Unauthorized", "TokenExpired: token expired at 11/20/2026 10:00:00"), true
	}
	return answer{}, false
}

func (s *Server) connections() answer {
	out := []map[string]string{}
	for i, t := range s.Tenants {
		out = append(out, map[string]string{
			"id": guid(-i), "authEventId": guid(-100), "tenantId": t.ID, "tenantType": t.Type, "tenantName": t.Name,
			"createdDateUtc": "2026-01-02T09:11:12.4567890", "updatedDateUtc": "2026-01-02T09:11:12.4567890",
		})
	}
	return ok(out)
}

func (s *Server) organisation(r *http.Request) answer {
	i := slices.IndexFunc(s.Tenants, func(t Tenant) bool { return t.ID == r.Header.Get("Xero-Tenant-Id") })
	if s.Custom {
		i = 0
	}
	o := map[string]any{"OrganisationID": s.Tenants[i].ID, "Name": s.Tenants[i].Name, "BaseCurrency": "GBP",
		"CountryCode": "GB"}
	return ok(map[string]any{"Status": "OK", "Organisations": []any{o}})
}

func ok(v any) answer {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("xerotest: " + err.Error()) // of values made here
	}
	a := text(http.StatusOK, "application/json; charset=utf-8", out.String())
	a.header.Set("X-DayLimit-Remaining", "4987")
	a.header.Set("X-MinLimit-Remaining", "59")
	a.header.Set("X-AppMinLimit-Remaining", "9999")
	return a
}

func text(status int, contentType, body string) answer {
	return answer{status, http.Header{"Content-Type": {contentType}}, []byte(body)}
}

func problem(status int, title, detail string) answer {
	body := fmt.Sprintf(`{"Type":null,"Title":%q,"Status":%d,"Detail":%q,"Instance":"8b5c0d0e-0000-4000-a000-000000000000","Extensions":{}}`, title, status, detail)
	return text(status, "application/json", body)
}
