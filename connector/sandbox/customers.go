package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// timezone of every customer; the service owns the field.
const timezone = "Europe/London"

// customer is a customer as the service keeps it.
type customer struct {
	id               string
	number           int    // of those ever made
	fields           []byte // the sent members in the service's spelling, joined by commas
	name             string
	emails           []string
	financial        string
	created, updated time.Time
	mandates         []*Mandate // oldest first
	noLinks          bool       // link calls are refused
}

func (c *customer) latest() *Mandate {
	if len(c.mandates) == 0 {
		return nil
	}
	return c.mandates[len(c.mandates)-1]
}

// creation remembers a create body by its hash.
type creation struct {
	id string
	at time.Time
}

// owned are the members that only the service writes; sent ones are dropped.
func (s *Sandbox) owned() []string {
	names := []string{"id", "directDebitMandate", "timezone", "financialDetails"}
	if s.opt.Switches.CustomerTimes {
		names = append(names, "creationTime", "lastUpdatedTime")
	}
	return names
}

// write replaces everything in c that clients own.
func (s *Sandbox) write(c *customer, fields object) {
	s.changing(c.id)
	fields = fields.without(s.owned()...)
	c.fields = bytes.Clone(fields.inner())
	c.name, _ = fields.text("name")
	c.emails = emails(fields)
	c.updated = s.opt.Now()
}

func (s *Sandbox) insert(id string, fields object) *customer {
	s.made++
	c := &customer{id: id, number: s.made, financial: "NO_INVOICES", created: s.opt.Now()}
	s.write(c, fields)
	s.customers[id] = c
	s.order = append(s.order, c)
	return c
}

func (s *Sandbox) remove(c *customer) {
	s.changing(c.id)
	delete(s.customers, c.id)
	s.order = slices.DeleteFunc(s.order, func(other *customer) bool { return other == c })
	s.emit(event{category: "customer", verb: "DELETED", customer: c.id})
}

// json returns the customer as an answer states it.
func (s *Sandbox) json(c *customer, more ...member) json.RawMessage {
	sw := &s.opt.Switches
	out := object{field("id", quote(c.id))}
	if len(c.fields) > 0 {
		out = append(out, member{text: c.fields})
	}
	out = append(out, sw.mandateSummary(c.latest())...)
	out = append(out, field("timezone", quote(timezone)))
	if sw.CustomerTimes {
		out = append(out, field("creationTime", quote(sw.time(c.created))),
			field("lastUpdatedTime", quote(sw.time(c.updated))))
	}
	return append(out, more...).json()
}

// problem is one broken rule of a body, without the value.
type problem struct {
	Field string `json:"field"`
	Code  string `json:"code"`
}

// problems applies the rules for a customer (billing/README.md#customers).
func problems(fields object) []problem {
	var out []problem
	if name, ok := fields.text("name"); !ok || strings.TrimSpace(name) == "" {
		out = append(out, problem{"name", "MISSING"})
	}
	people, ok := elements(fields, "people")
	if !ok {
		out = append(out, problem{"people", "NOT_A_LIST"})
	}
	for i, p := range people {
		if !rightEmail(p) {
			out = append(out, problem{fmt.Sprintf("people[%d].email", i), "MALFORMED_EMAIL"})
		}
	}
	switch addresses, ok := elements(fields, "addresses"); {
	case !ok:
		out = append(out, problem{"addresses", "NOT_A_LIST"})
	case len(addresses) > connector.MaxAddresses:
		out = append(out, problem{"addresses", "TOO_MANY"})
	}
	return out
}

// elements returns the objects of a list field, none when it is absent or
// null, and false when it is no list of objects.
func elements(fields object, name string) ([]object, bool) {
	raw := fields.get(name)
	if raw == nil || isNull(raw) {
		return nil, true
	}
	raws, ok := list(raw)
	if !ok {
		return nil, false
	}
	out := make([]object, len(raws))
	for i, r := range raws {
		o, err := parseObject(r)
		if err != nil {
			return nil, false
		}
		out[i] = o
	}
	return out, true
}

// rightEmail accepts an absent, null or blank address, and a well-formed one.
func rightEmail(person object) bool {
	raw := person.get("email")
	if raw == nil || isNull(raw) {
		return true
	}
	email, ok := person.text("email")
	return ok && (email == "" || connector.ValidEmail(email))
}

func emails(fields object) []string {
	people, _ := elements(fields, "people")
	var out []string
	for _, p := range people {
		if email, ok := p.text("email"); ok && email != "" {
			out = append(out, email)
		}
	}
	return out
}

// accept returns the valid customer in the body, and false when it refused it.
func (s *Sandbox) accept(c *call, r *http.Request) (object, bool) {
	fields, ok := c.object(r)
	if !ok {
		return nil, false
	}
	if wrong := problems(fields); len(wrong) > 0 {
		s.refuseInvalid(c, wrong...)
		return nil, false
	}
	return fields, true
}

func (s *Sandbox) refuseInvalid(c *call, wrong ...problem) {
	body, _ := json.Marshal(map[string]any{"code": "VALIDATION_FAILED", "message": "The request is not valid.",
		"errors": wrong})
	c.reply(s.opt.Switches.ValidationStatus, body)
}

func (c *call) refuseUnknown() {
	c.refuse(http.StatusNotFound, "NOT_FOUND", "There is no such object.")
}

// createCustomer is POST /customers: validated first, then idempotent by the
// hash of the body's bytes.
func (s *Sandbox) createCustomer(c *call, r *http.Request) {
	fields, ok := s.accept(c, r)
	if !ok {
		return
	}
	hash := sha256.Sum256(c.request)
	if id, known := s.remembered(hash); known {
		s.replyCreated(c, id, fields)
		return
	}
	made := s.insert(newUUID(s.ids), s.opt.Switches.respell(fields))
	s.created[hash] = creation{made.id, s.opt.Now()}
	if s.opt.Switches.CreateLink == "mandate" {
		s.openMandate(made, connector.MandateCreated, s.opt.PublicURL)
	}
	s.emit(event{category: "customer", verb: "CREATED", customer: made.id})
	s.replyCreated(c, made.id, fields)
}

// remembered returns the customer that the same bytes made before, as far as
// the switches let the service remember it.
func (s *Sandbox) remembered(hash [sha256.Size]byte) (id string, known bool) {
	sw := &s.opt.Switches
	before, known := s.created[hash]
	if !known || sw.HashMemory < 0 || sw.HashMemory > 0 && s.opt.Now().Sub(before.at) >= sw.HashMemory {
		return "", false
	}
	if s.customers[before.id] == nil && !sw.HashOutlivesDelete {
		return "", false
	}
	return before.id, true
}

// replyCreated answers a create; sent is told again when the customer has been
// deleted since.
func (s *Sandbox) replyCreated(c *call, id string, sent object) {
	sw := &s.opt.Switches
	shown, living := s.customers[id]
	if !living {
		shown = &customer{id: id, fields: sw.respell(sent.without(s.owned()...)).inner(), created: s.opt.Now(),
			updated: s.opt.Now()}
	}
	var more []member
	if sw.CreateLink != "none" {
		more = []member{field("url", quote(s.startURL(shown))), field("redirectUrl", quote(s.opt.PublicURL))}
	}
	answer := s.json(shown, more...)
	if sw.CreateHidesExternalData {
		o, _ := parseObject(answer) // built above
		answer = o.without("externalData").json()
	}
	c.reply(http.StatusOK, answer)
}

// getCustomer is GET /customers/{id}. The interface does not show the shape of the
// financial details; the one given here is the sandbox's own.
func (s *Sandbox) getCustomer(c *call, r *http.Request) {
	found := s.readable(r.PathValue("id"))
	if found == nil {
		c.refuseUnknown()
		return
	}
	var more []member
	if r.URL.Query().Get("includeCustomerFinancialDetails") == "true" {
		details := object{field("financialStatus", quote(found.financial)), field("balance", quote("0.00")),
			field("ageing", []byte("[]"))}
		more = append(more, field("financialDetails", details.json()))
	}
	c.reply(http.StatusOK, s.json(found, more...))
}

// updateByBody is PUT /customers with the id in the body.
func (s *Sandbox) updateByBody(c *call, r *http.Request) {
	if s.opt.Switches.Update == "path_id" {
		s.refuseMethod(c)
		return
	}
	fields, ok := s.accept(c, r)
	if !ok {
		return
	}
	id, ok := fields.text("id")
	if !ok {
		s.refuseInvalid(c, problem{"id", "MISSING"})
		return
	}
	s.update(c, id, fields)
}

// updateByPath is PUT /customers/{id}; an id in the body must be the same one.
func (s *Sandbox) updateByPath(c *call, r *http.Request) {
	if s.opt.Switches.Update == "body_id" {
		s.refuseMethod(c)
		return
	}
	fields, ok := s.accept(c, r)
	if !ok {
		return
	}
	if id, given := fields.text("id"); given && id != r.PathValue("id") {
		s.refuseInvalid(c, problem{"id", "IMMUTABLE"})
		return
	}
	s.update(c, r.PathValue("id"), fields)
}

// update replaces the customer wholesale: fields that are not sent are gone.
func (s *Sandbox) update(c *call, id string, fields object) {
	found, ok := s.customers[id]
	if !ok {
		c.refuseUnknown()
		return
	}
	s.write(found, s.opt.Switches.respell(fields))
	s.emit(event{category: "customer", verb: "UPDATED", customer: id})
	s.replyWritten(c, s.json(found))
}

// replyWritten answers an update or a cancel.
func (s *Sandbox) replyWritten(c *call, body []byte) {
	if s.opt.Switches.WriteAnswer == "empty" {
		body = nil
	}
	c.reply(http.StatusOK, body)
}

func (s *Sandbox) refuseMethod(c *call) {
	c.refuse(s.opt.Switches.RefusedMethodStatus, "METHOD_NOT_ALLOWED", "This method is not allowed here.")
}

// deleteCustomer is DELETE /customers/{id}, a hard removal. The connector never
// sends it; people and other programs do.
func (s *Sandbox) deleteCustomer(c *call, r *http.Request) {
	found, ok := s.customers[r.PathValue("id")]
	if !ok {
		c.refuseUnknown()
		return
	}
	s.remove(found)
	c.reply(http.StatusNoContent, nil)
}
