package sandbox

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

const (
	sender          = "Sandbox platform"
	redactionMarker = "********"
)

// Mandate is the true state of a direct debit mandate.
type Mandate struct {
	ID            string                  `json:"id"`
	CustomerID    string                  `json:"customerId"`
	Status        connector.MandateStatus `json:"status"`
	URL           string                  `json:"url"` // its newest link
	LinkedAt      time.Time               `json:"linkedAt"`
	RedirectURL   string                  `json:"redirectUrl,omitempty"`
	FailureReason string                  `json:"failureReason,omitempty"`
	CreatedAt     time.Time               `json:"createdAt"`
	History       []StatusChange          `json:"history"` // every status it ever had, oldest first
}

// StatusChange is a status that a mandate took, and when.
type StatusChange struct {
	Status connector.MandateStatus `json:"status"`
	At     time.Time               `json:"at"`
}

func (m *Mandate) changedAt() time.Time { return m.History[len(m.History)-1].At }

// copy returns m for a caller to keep.
func (m *Mandate) copy() Mandate {
	out := *m
	out.History = slices.Clone(m.History)
	return out
}

// mandateSummary returns the member directDebitMandate of a customer, none where
// it is absent.
func (sw *Switches) mandateSummary(m *Mandate) []member {
	const name = "directDebitMandate"
	switch {
	case m == nil && sw.EmptyMandate == "absent":
		return nil
	case m == nil && sw.EmptyMandate == "null":
		return []member{field(name, []byte("null"))}
	case m == nil:
		return []member{field(name, []byte("{}"))}
	}
	summary := object{field("id", quote(m.ID)), field("status", quote(string(m.Status)))}
	switch sw.MandateTimes {
	case "exact":
		summary = append(summary, field("lastUpdatedTime", quote(sw.time(m.changedAt()))))
	case "coarse":
		summary = append(summary, field("lastUpdatedTime", quote(sw.time(m.changedAt().Truncate(time.Minute)))))
	}
	if m.FailureReason != "" && sw.FailureReason == "summary" {
		summary = append(summary, field("failureReason", quote(m.FailureReason)))
	}
	return []member{field(name, summary.json())}
}

// mandateJSON returns the full mandate, whose embedded customer has the long
// spelling.
func (s *Sandbox) mandateJSON(m *Mandate) json.RawMessage {
	sw := &s.opt.Switches
	out := object{
		field("id", quote(m.ID)),
		field("creationTime", quote(sw.time(m.CreatedAt))),
		field("status", quote(string(m.Status))),
	}
	if owner, living := s.customers[m.CustomerID]; living {
		out = append(out, field("customer", s.embedded(owner, m)))
	}
	out = append(out,
		field("url", quote(m.URL)),
		field("redirectUrl", quote(m.RedirectURL)),
		field("sender", object{field("name", quote(sender))}.json()),
		field("bankAccountNumber", quote(redactionMarker)))
	if m.FailureReason != "" {
		out = append(out, field("failureReason", quote(m.FailureReason)))
	}
	return out.json()
}

func (s *Sandbox) embedded(c *customer, m *Mandate) json.RawMessage {
	stored, _ := parseObject(object{member{text: c.fields}}.json()) // parsed before it was stored
	long := Switches{PersonFields: "long", AddressFields: "long", ExternalData: s.opt.Switches.ExternalData}
	out := append(object{field("id", quote(c.id))}, long.respell(stored)...)
	return append(out,
		field("directDebitMandate", object{field("status", quote(string(m.Status)))}.json()),
		field("timezone", quote(timezone))).json()
}

func (s *Sandbox) signingURL(id string) string { return s.opt.PublicURL + "/sign/" + id }

// startURL is a payer's first address: the page of the latest mandate, or one to make the first.
func (s *Sandbox) startURL(c *customer) string {
	if m := c.latest(); m != nil {
		return m.URL
	}
	return s.signingURL(c.id)
}

// openMandate makes a mandate, in CREATED unless it comes from elsewhere.
func (s *Sandbox) openMandate(c *customer, status connector.MandateStatus, redirectURL string) *Mandate {
	s.changing(c.id)
	now := s.opt.Now()
	id := newToken(s.ids, 18)
	m := &Mandate{
		ID: id, CustomerID: c.id, Status: status, URL: s.signingURL(id), LinkedAt: now, RedirectURL: redirectURL,
		CreatedAt: now, History: []StatusChange{{status, now}},
	}
	s.mandates[id] = m
	c.mandates = append(c.mandates, m)
	s.emit(event{category: "dd-mandate", verb: "INITIATED", customer: c.id, mandate: m})
	return m
}

// move gives m a status and queues a delivery.
func (s *Sandbox) move(m *Mandate, to connector.MandateStatus) {
	s.changing(m.CustomerID)
	m.Status = to
	m.History = append(m.History, StatusChange{to, s.opt.Now()})
	s.emit(event{category: "dd-mandate", verb: "UPDATED", customer: m.CustomerID, mandate: m})
}

// link is mandate creation (billing/README.md#mandates).
func (s *Sandbox) link(c *customer, redirectURL string) *Mandate {
	sw, m := &s.opt.Switches, c.latest()
	switch {
	case m == nil, m.Status == connector.MandateCancelled:
		return s.openMandate(c, connector.MandateCreated, redirectURL)
	case m.Status != connector.MandateCreated:
		return m
	case sw.LinkWhenCreated == "new":
		return s.replace(c, m, redirectURL)
	case sw.LinkWhenCreated == "renewed", s.expired(m):
		s.renew(m)
	}
	if redirectURL != "" {
		m.RedirectURL = redirectURL
	}
	return m
}

// replace opens a mandate in the place of one that waits for its signature.
func (s *Sandbox) replace(c *customer, old *Mandate, redirectURL string) *Mandate {
	m := s.openMandate(c, connector.MandateCreated, redirectURL)
	if s.opt.Switches.ReplacedMandate == "cancelled" {
		s.move(old, connector.MandateCancelled)
	}
	return m
}

// renew gives a mandate another link; the earlier one cannot be opened any more.
func (s *Sandbox) renew(m *Mandate) {
	s.changing(m.CustomerID)
	token := newToken(s.ids, 18)
	s.renewed[token] = m
	m.URL, m.LinkedAt = s.signingURL(token), s.opt.Now()
}

// expired reports whether the newest link of m cannot be opened any more.
func (s *Sandbox) expired(m *Mandate) bool {
	life := s.opt.Switches.LinkLife
	return life > 0 && s.opt.Now().Sub(m.LinkedAt) >= life
}

// linked returns a link's mandate, nil for none, and whether the link still works: the newest, and in time.
func (s *Sandbox) linked(token string) (m *Mandate, open bool) {
	m = s.mandates[token]
	if m == nil {
		m = s.renewed[token]
	}
	if m == nil || s.customers[m.CustomerID] == nil {
		return nil, false
	}
	return m, m.URL == s.signingURL(token) && !s.expired(m)
}

// getLink is GET /customers/{id}/directdebitmandates with a body.
func (s *Sandbox) getLink(c *call, r *http.Request) {
	switch s.opt.Switches.MandateLink {
	case "put":
		s.refuseMethod(c)
	case "put_list":
		s.listMandates(c, r.PathValue("id"))
	default:
		s.replyLink(c, r, r.PathValue("id"))
	}
}

func (s *Sandbox) listMandates(c *call, id string) {
	found, ok := s.customers[id]
	if !ok {
		c.refuseUnknown()
		return
	}
	all := []json.RawMessage{}
	for _, m := range found.mandates {
		all = append(all, s.mandateJSON(m))
	}
	body, _ := json.Marshal(map[string]any{"mandates": all}) // JSON already
	c.reply(http.StatusOK, body)
}

// putMandate is the link call by PUT, or a call that acts on a mandate.
func (s *Sandbox) putMandate(c *call, r *http.Request) {
	first, second := r.PathValue("first"), r.PathValue("second")
	switch {
	case first == "directdebitmandates":
		s.actByID(c, r, second)
	case second != "directdebitmandates":
		c.refuseUnknown()
	case s.opt.Switches.MandateLink == "get":
		s.refuseMethod(c)
	default:
		s.replyLink(c, r, first)
	}
}

func (s *Sandbox) replyLink(c *call, r *http.Request, id string) {
	redirectURL, ok := s.redirectURL(c, r)
	if !ok {
		return
	}
	found, ok := s.customers[id]
	if !ok {
		c.refuseUnknown()
		return
	}
	if m := found.latest(); found.noLinks || m != nil && slices.Contains(s.opt.Switches.LinkRefused, m.Status) {
		c.refuse(http.StatusBadRequest, "NOT_LINKABLE", "No signing link can be given for this customer.")
		return
	}
	c.reply(http.StatusOK, s.mandateJSON(s.link(found, redirectURL)))
}

// redirectURL reads the return address of a link call, which may be left out,
// and reports false when it refused the request.
func (s *Sandbox) redirectURL(c *call, r *http.Request) (string, bool) {
	if len(c.request) == 0 {
		return "", true
	}
	fields, ok := c.object(r)
	if !ok || !fields.has("redirectUrl") {
		return "", ok
	}
	text, _ := fields.text("redirectUrl")
	if !absoluteURL(text) {
		s.refuseInvalid(c, problem{"redirectUrl", "NOT_A_URL"})
		return "", false
	}
	return text, true
}

func absoluteURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// actByID is PUT /customers/directdebitmandates/{id} where the action is in the
// path's last segment, the query or the body. A colon must stand in the path as
// itself, not escaped.
func (s *Sandbox) actByID(c *call, r *http.Request, segment string) {
	if id, action, found := strings.Cut(segment, ":"); found {
		s.actIf(c, id, action, "colon", strings.HasSuffix(r.URL.EscapedPath(), ":"+action))
		return
	}
	if action := r.URL.Query().Get("action"); action != "" {
		s.actIf(c, segment, action, "query", true)
		return
	}
	if s.opt.Switches.Cancel != "body" && s.opt.Switches.Reinstate != "body" {
		c.refuseUnknown()
		return
	}
	if fields, ok := c.object(r); ok {
		action, _ := fields.text("action")
		s.actIf(c, segment, action, "body", true)
	}
}

func (s *Sandbox) actBySlash(c *call, r *http.Request) {
	s.actIf(c, r.PathValue("id"), r.PathValue("action"), "slash", true)
}

// actIf cancels or reinstates the mandate when the call was spelt as the action's
// switch wants it.
func (s *Sandbox) actIf(c *call, id, action, spelling string, asItself bool) {
	m, known := s.mandates[id]
	wanted := map[string]string{"cancel": s.opt.Switches.Cancel, "reinstate": s.opt.Switches.Reinstate}[action]
	if wanted != spelling || !asItself || !known || s.customers[m.CustomerID] == nil {
		c.refuseUnknown()
		return
	}
	switch {
	case action == "cancel" && s.opt.Switches.refusesCancel(m.Status):
		c.refuse(http.StatusBadRequest, "NOT_CANCELLABLE", "The mandate cannot be cancelled in this status.")
		return
	case action == "reinstate" && m.Status != connector.MandateCancelled:
		c.refuse(http.StatusBadRequest, "NOT_REINSTATABLE", "Only a cancelled mandate can be reinstated.")
		return
	case action == "reinstate":
		m.FailureReason = ""
		s.move(m, connector.MandateActive)
	case m.Status != connector.MandateCancelled:
		s.move(m, connector.MandateCancelled)
	}
	s.replyWritten(c, s.mandateJSON(m))
}
