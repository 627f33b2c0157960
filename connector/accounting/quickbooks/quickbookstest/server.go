// Package quickbookstest is a stateful model of QuickBooks Online's API for
// tests: customers by query, by id and by change data capture, the company,
// tokens, limits and faults. It refuses what QuickBooks refuses and has its
// traps: inactive customers only on request, pages of 100 unless asked, blank
// properties left out, times in the company's own offset, XML where a request
// was too many. What a source makes of it is left to the source's own tests.
package quickbookstest

import (
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

// StoredCustomer is a customer as QuickBooks holds it. QuickBooks sends its JSON, and
// a source passes on all of it but MetaData.
type StoredCustomer struct {
	ID               string    `json:"Id"`
	SyncToken        string    `json:"SyncToken"`
	Active           bool      `json:"Active"`
	DisplayName      string    `json:"DisplayName"`
	CompanyName      string    `json:"CompanyName,omitempty"`
	GivenName        string    `json:"GivenName,omitempty"`
	FamilyName       string    `json:"FamilyName,omitempty"`
	PrimaryEmailAddr *Email    `json:"PrimaryEmailAddr,omitempty"`
	PrimaryPhone     *Phone    `json:"PrimaryPhone,omitempty"`
	BillAddr         *Address  `json:"BillAddr,omitempty"`
	CurrencyRef      *Ref      `json:"CurrencyRef,omitempty"`
	ParentRef        *Ref      `json:"ParentRef,omitempty"`
	PaymentMethodRef *Ref      `json:"PaymentMethodRef,omitempty"`
	Job              bool      `json:"Job"`
	IsProject        bool      `json:"IsProject"`
	Balance          float64   `json:"Balance"`
	Created          time.Time `json:"-"`
	Updated          time.Time `json:"-"`
	Sparse           bool      `json:"-"` // lists give its id alone
	Spoilt           bool      `json:"-"` // its e-mail address is sent as a text
}

// Email is an e-mail address.
type Email struct{ Address string }

// Phone is a phone number.
type Phone struct{ FreeFormNumber string }

// Ref refers to another object.
type Ref struct {
	Value string `json:"value"`
	Name  string `json:"name,omitempty"`
}

// Address is an address; Country is as somebody wrote it.
type Address struct {
	Line1      string `json:",omitempty"`
	Line2      string `json:",omitempty"`
	City       string `json:",omitempty"`
	PostalCode string `json:",omitempty"`
	Country    string `json:",omitempty"`
}

// Realm is the id of the model's company, unless it is given another one.
const Realm = "9130357849923456"

// AnswerFault affects every answer about customers until it is removed.
type AnswerFault string

// The faults.
const (
	Healthy      AnswerFault = ""
	Down         AnswerFault = "500"
	Throttled    AnswerFault = "429"
	ThrottledXML AnswerFault = "403 with a throttle in XML"
	WebPage      AnswerFault = "200 with a web page"
	PlainText    AnswerFault = "200 with plain text"
	Cut          AnswerFault = "200 with JSON that is cut off"
	NoEnvelope   AnswerFault = "200 with JSON of another form"
	FaultIn200   AnswerFault = "200 with a fault"
	Withdrawn    AnswerFault = "403 consent withdrawn"
	OtherCompany AnswerFault = "403 wrong company"
	Expired      AnswerFault = "401 whatever the token"
)

// Server is the model. It is an http.Handler and, without sockets, an
// http.RoundTripper. It may be used by several goroutines at once.
type Server struct {
	Now   func() time.Time // QuickBooks' clock
	Realm string           // the company's id; set before the first request

	mu        sync.Mutex
	customers []*StoredCustomer // in the order of creation, the same as that of their ids
	byID      map[string]*StoredCustomer
	merged    map[string]time.Time // merged ids, with their times
	falsely   []string             // existing ids reported as deleted by change data capture
	made      int
	tokens    map[string]bool
	issued    int
	fault     AnswerFault
	from      int // requests about customers answered before the fault begins
	hook      func()
	requests  []*http.Request

	methods    []string // payment methods, with ids from 101 on
	posts      int
	beforePost func(*StoredCustomer)
}

// New returns a model with one company and no customers.
func New(now func() time.Time) *Server {
	return &Server{Now: now, Realm: Realm, byID: map[string]*StoredCustomer{}, merged: map[string]time.Time{},
		tokens: map[string]bool{}}
}

func (s *Server) lock() func() {
	s.mu.Lock()
	return s.mu.Unlock
}

// Add makes n active customers and returns their ids.
func (s *Server) Add(n int) []string {
	defer s.lock()()
	ids := make([]string, n)
	for i := range ids {
		s.made++
		c := newCustomer(s.made, s.Now())
		s.customers, s.byID[c.ID], ids[i] = append(s.customers, c), c, c.ID
	}
	return ids
}

func newCustomer(n int, now time.Time) *StoredCustomer {
	name := fmt.Sprintf("Customer %d Ltd", n)
	return &StoredCustomer{
		ID: strconv.Itoa(n), SyncToken: "0", Active: true, DisplayName: name, CompanyName: name, GivenName: "Ann",
		FamilyName:       "Baker",
		PrimaryEmailAddr: &Email{fmt.Sprintf("accounts%d@customer.example", n)}, PrimaryPhone: &Phone{"+44 113 496 0123"},
		BillAddr: &Address{Line1: fmt.Sprintf("%d Quay St", n), City: "Leeds", PostalCode: "LS1 4AP",
			Country: "United Kingdom"},
		CurrencyRef: &Ref{"GBP", "British Pound Sterling"}, Created: now, Updated: now,
	}
}

// Edit changes a customer and its time of last edit.
func (s *Server) Edit(id string, change func(*StoredCustomer)) {
	defer s.lock()()
	c, ok := s.byID[id]
	if !ok {
		panic("quickbookstest: there is no customer " + id)
	}
	change(c)
	edits, _ := strconv.Atoi(c.SyncToken)
	c.SyncToken, c.Updated = strconv.Itoa(edits+1), s.Now()
}

// Deactivate makes a customer inactive, which is how QuickBooks deletes.
func (s *Server) Deactivate(id string) { s.Edit(id, func(c *StoredCustomer) { c.Active = false }) }

// Merge merges a customer into another one: its id is gone.
func (s *Server) Merge(loser, survivor string) {
	s.Edit(survivor, func(*StoredCustomer) {})
	defer s.lock()()
	s.customers = slices.DeleteFunc(s.customers, func(c *StoredCustomer) bool { return c.ID == loser })
	delete(s.byID, loser)
	s.merged[loser] = s.Now()
}

// CallDeleted has change data capture report customers as deleted that are not.
func (s *Server) CallDeleted(ids ...string) {
	defer s.lock()()
	s.falsely = ids
}

// Tie gives customers one and the same time of last edit.
func (s *Server) Tie(at time.Time, ids ...string) {
	defer s.lock()()
	for _, id := range ids {
		s.byID[id].Updated = at
	}
}

// Customers returns copies of all customers, in the order of their ids.
func (s *Server) Customers() []StoredCustomer {
	defer s.lock()()
	out := make([]StoredCustomer, len(s.customers))
	for i, c := range s.customers {
		out[i] = *c
	}
	return out
}

// AfterPage has hook called behind every page of customers, before it is sent;
// nil for no more.
func (s *Server) AfterPage(hook func()) {
	defer s.lock()()
	s.hook = hook
}

// Suffer lets a fault begin after so many more requests about customers.
func (s *Server) Suffer(f AnswerFault, after int) {
	defer s.lock()()
	s.fault, s.from = f, after
}

// Mend ends the fault.
func (s *Server) Mend() { s.Suffer(Healthy, 0) }

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
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Date", s.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.Header().Set("intuit_tid", "1-673e0000-00aabbccddeeff0011223344")
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
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	path, ours := strings.CutPrefix(r.URL.Path, "/v3/company/"+s.Realm+"/")
	switch {
	case !s.tokens[token]:
		return refusal("3200", "AUTHENTICATION", http.StatusUnauthorized), nil
	case !ours:
		return refusal("3100", "AuthorizationFault", http.StatusForbidden), nil
	case r.Method != http.MethodGet && (r.Method != http.MethodPost || path != "customer"):
		return text(http.StatusMethodNotAllowed, "text/html", "<html></html>"), nil
	case path == "companyinfo/"+s.Realm:
		return ok(map[string]any{"CompanyInfo": map[string]any{"Id": "1", "CompanyName": "Northwind Holdings",
			"Country": "GB"}}), nil
	}
	if s.fault != Healthy {
		if s.from--; s.from < 0 {
			return s.suffer(path, r), nil
		}
	}
	return s.serve(path, r)
}

func (s *Server) serve(path string, r *http.Request) (answer, func()) {
	id, single := strings.CutPrefix(path, "customer/")
	switch {
	case r.Method == http.MethodPost:
		return s.post(r), nil
	case path == "query" && strings.HasPrefix(r.URL.Query().Get("query"), "SELECT * FROM PaymentMethod"):
		return s.paymentMethods(), nil
	case path == "query":
		return s.query(r.URL.Query().Get("query")), s.hook
	case path == "cdc":
		return s.capture(r.URL.Query()), s.hook
	case single:
		return s.one(id), nil
	}
	return text(http.StatusNotFound, "text/html", "<html></html>"), nil
}

// suffer returns the answer of the present fault.
func (s *Server) suffer(path string, r *http.Request) answer {
	const xml = "application/xml;charset=utf-8"
	switch s.fault {
	case Down:
		return fault("6000", "SystemFault", http.StatusInternalServerError)
	case Throttled:
		return fault("003001", "ThrottleExceeded", http.StatusTooManyRequests)
	case ThrottledXML:
		return text(http.StatusForbidden, xml, `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>`+
			`<IntuitResponse time="2026-11-20T02:00:00.000-08:00" xmlns="http://schema.intuit.com/finance/v3">`+
			`<Fault type="ThrottleExceeded"><Error code="3001"><Message>message=ThrottleExceeded</Message></Error></Fault></IntuitResponse>`)
	case WebPage:
		return text(http.StatusOK, "text/html", "<!doctype html><html><body>QuickBooks is being improved</body></html>")
	case PlainText:
		return text(http.StatusOK, "text/plain", "Invalid Company Status")
	case Cut:
		a, _ := s.serve(path, r)
		return text(http.StatusOK, "application/json", string(a.body[:len(a.body)/2]))
	case NoEnvelope:
		return text(http.StatusOK, "application/json", `{"time":"2026-11-20T02:00:00.000-08:00"}`)
	case FaultIn200:
		return fault("4000", "ValidationFault", http.StatusOK)
	case Withdrawn:
		return refusal("3202", "AuthorizationFault", http.StatusForbidden)
	case OtherCompany:
		return refusal("3100", "AuthorizationFault", http.StatusForbidden)
	}
	return refusal("3200", "AUTHENTICATION", http.StatusUnauthorized)
}

func ok(v map[string]any) answer {
	v["time"] = "2026-11-20T02:00:00.000-08:00"
	body, err := json.Marshal(v)
	if err != nil {
		panic("quickbookstest: " + err.Error()) // of values made here
	}
	return text(http.StatusOK, "application/json;charset=UTF-8", string(body))
}

// fault is how most refusals are written; refusal is the form of those about the
// token.
func fault(code, kind string, status int) answer {
	return text(status, "application/json", fmt.Sprintf(
		`{"Fault":{"Error":[{"Message":"message of %[1]s","Detail":"detail with a private value","code":%[1]q,"element":""}],"type":%[2]q},"time":"2026-11-20T02:00:00.000-08:00"}`, code, kind))
}

func refusal(code, kind string, status int) answer {
	return text(status, "application/json", fmt.Sprintf(
		`{"warnings":null,"fault":{"error":[{"message":"message of %[1]s","detail":"detail with a private value","code":%[1]q,"element":null}],"type":%[2]q},"time":1763632800123}`, code, kind))
}

func text(status int, contentType, body string) answer {
	return answer{status, http.Header{"Content-Type": {contentType}}, []byte(body)}
}
