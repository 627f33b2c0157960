package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
)

// ErrUnknown means that there is no such customer or mandate.
var ErrUnknown = errors.New("not known to the sandbox")

// ErrStatus means that a mandate's status does not allow the act.
var ErrStatus = errors.New("not possible in the mandate's status")

// Customer is the true state of a living customer.
type Customer struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	ExternalData map[string]string `json:"externalData,omitempty"` // in one form for all shapes in Raw
	Raw          json.RawMessage   `json:"raw"`                    // as GET answers it
	Mandates     []Mandate         `json:"mandates"`               // oldest first
	CreatedAt    time.Time         `json:"createdAt"`
	UpdatedAt    time.Time         `json:"updatedAt"`
}

// Customers returns the living customers in the order they were created.
func (s *Sandbox) Customers() []Customer {
	defer s.lock()()
	out := make([]Customer, len(s.order))
	for i, c := range s.order {
		out[i] = s.view(c)
	}
	return out
}

// Customer returns the living customer with this id.
func (s *Sandbox) Customer(id string) (Customer, bool) {
	defer s.lock()()
	c, ok := s.customers[id]
	if !ok {
		return Customer{}, false
	}
	return s.view(c), true
}

// Mandate returns the mandate with this id; those of deleted customers are
// still there.
func (s *Sandbox) Mandate(id string) (Mandate, bool) {
	defer s.lock()()
	m, ok := s.mandates[id]
	if !ok {
		return Mandate{}, false
	}
	return m.copy(), true
}

func (s *Sandbox) view(c *customer) Customer {
	raw := s.json(c)
	fields, _ := parseObject(raw) // built by json
	out := Customer{
		ID: c.id, Name: c.name, ExternalData: externalData(fields.get("externalData")), Raw: raw,
		CreatedAt: c.created, UpdatedAt: c.updated,
	}
	for _, m := range c.mandates {
		out.Mandates = append(out.Mandates, m.copy())
	}
	return out
}

// Add makes a customer of the JSON object raw, as somebody else would at the
// service's console, and returns its id. The bytes are kept as they are: they
// are neither checked nor respelt, and nothing is remembered of their hash.
func (s *Sandbox) Add(raw json.RawMessage) (id string, err error) {
	fields, err := parseObject(raw)
	if err != nil {
		return "", fmt.Errorf("add a customer: %w", err)
	}
	defer s.lock()()
	c := s.insert(newUUID(s.ids), fields)
	s.emit(event{category: "customer", verb: "CREATED", customer: c.id})
	return c.id, nil
}

// Begin makes a customer of raw like Add, but in the spelling of the switches, and with a mandate in status
// unless status is blank: a service with existing customers.
func (s *Sandbox) Begin(raw json.RawMessage, status connector.MandateStatus) (id string, err error) {
	fields, err := parseObject(raw)
	if err != nil {
		return "", fmt.Errorf("begin with a customer: %w", err)
	}
	defer s.lock()()
	c := s.insert(newUUID(s.ids), s.opt.Switches.respell(fields))
	if status != "" {
		s.openMandate(c, status, "")
	}
	return c.id, nil
}

// Edit replaces everything in a customer that clients own by raw, as Add
// writes it.
func (s *Sandbox) Edit(id string, raw json.RawMessage) error {
	fields, err := parseObject(raw)
	if err != nil {
		return fmt.Errorf("edit customer %s: %w", id, err)
	}
	return s.withCustomer(id, func(c *customer) {
		s.write(c, fields)
		s.emit(event{category: "customer", verb: "UPDATED", customer: id})
	})
}

// Delete removes a customer for good.
func (s *Sandbox) Delete(id string) error { return s.withCustomer(id, s.remove) }

// SetFinancialStatus gives a customer a financial status, for example OVERDUE.
func (s *Sandbox) SetFinancialStatus(id, status string) error {
	return s.withCustomer(id, func(c *customer) {
		s.changing(id)
		c.financial = status
	})
}

func (s *Sandbox) withCustomer(id string, act func(*customer)) error {
	defer s.lock()()
	c, ok := s.customers[id]
	if !ok {
		return fmt.Errorf("customer %s: %w", id, ErrUnknown)
	}
	act(c)
	return nil
}

// Migrate gives a customer a mandate in MIGRATING, as one that comes from
// another provider, and returns its id. It needs Switches.Migrating.
func (s *Sandbox) Migrate(customerID string) (mandateID string, err error) {
	if !s.opt.Switches.Migrating {
		return "", fmt.Errorf("migrate a mandate: the switch migrating is off: %w", ErrStatus)
	}
	err = s.withCustomer(customerID, func(c *customer) {
		mandateID = s.openMandate(c, connector.MandateMigrating, "").ID
	})
	return mandateID, err
}

// Sign is the payer completing the form: CREATED becomes PENDING.
func (s *Sandbox) Sign(mandateID string) error {
	return s.act("sign", mandateID, connector.MandatePending, connector.MandateCreated)
}

// Approve is the bank's confirmation: PENDING becomes ACTIVE.
func (s *Sandbox) Approve(mandateID string) error {
	return s.act("approve", mandateID, connector.MandateActive, connector.MandatePending, connector.MandateMigrating)
}

// PayerCancel is the payer revoking the mandate: it becomes CANCELLED.
func (s *Sandbox) PayerCancel(mandateID string) error {
	return s.act("cancel", mandateID, connector.MandateCancelled, uncancelled...)
}

// BankCancel is the bank revoking the mandate: it becomes CANCELLED and carries
// reason as its failureReason.
func (s *Sandbox) BankCancel(mandateID, reason string) error {
	return s.withMandate(mandateID, func(m *Mandate) error {
		if err := s.step("cancel", m, connector.MandateCancelled, uncancelled...); err != nil {
			return err
		}
		m.FailureReason = reason
		return nil
	})
}

// Reinstate is the bank taking its cancellation back: CANCELLED becomes ACTIVE again,
// under the same id.
func (s *Sandbox) Reinstate(mandateID string) error {
	return s.withMandate(mandateID, func(m *Mandate) error {
		if err := s.step("reinstate", m, connector.MandateActive, connector.MandateCancelled); err != nil {
			return err
		}
		m.FailureReason = ""
		return nil
	})
}

// ChangeBank is the payer naming another bank account: from PENDING or ACTIVE it leads
// to what the switch BankChange says, without any call of the client. It returns the
// mandate that counts from then on.
func (s *Sandbox) ChangeBank(mandateID string) (latestID string, err error) {
	err = s.withMandate(mandateID, func(m *Mandate) error {
		if m.Status != connector.MandatePending && m.Status != connector.MandateActive {
			return fmt.Errorf("change the bank of mandate %s: it is %s: %w", m.ID, m.Status, ErrStatus)
		}
		latestID = s.changeBank(m).ID
		return nil
	})
	return latestID, err
}

func (s *Sandbox) changeBank(m *Mandate) *Mandate {
	status := connector.MandatePending
	switch s.opt.Switches.BankChange {
	case "same":
		s.move(m, status)
		return m
	case "sign":
		status = connector.MandateCreated
	}
	next := s.openMandate(s.customers[m.CustomerID], status, m.RedirectURL)
	s.move(m, connector.MandateCancelled)
	return next
}

// RefuseLinks makes every link call for a customer be refused with 400, or answered
// again.
func (s *Sandbox) RefuseLinks(customerID string, refused bool) error {
	return s.withCustomer(customerID, func(c *customer) { c.noLinks = refused })
}

// SetStatus gives a mandate any status, documented or not, without asking
// whether the step is possible.
func (s *Sandbox) SetStatus(mandateID string, status connector.MandateStatus) error {
	return s.withMandate(mandateID, func(m *Mandate) error {
		s.move(m, status)
		return nil
	})
}

var uncancelled = []connector.MandateStatus{
	connector.MandateCreated, connector.MandatePending, connector.MandateActive, connector.MandateMigrating,
}

func (s *Sandbox) act(verb, mandateID string, to connector.MandateStatus, from ...connector.MandateStatus) error {
	return s.withMandate(mandateID, func(m *Mandate) error { return s.step(verb, m, to, from...) })
}

func (s *Sandbox) step(verb string, m *Mandate, to connector.MandateStatus, from ...connector.MandateStatus) error {
	if !slices.Contains(from, m.Status) {
		return fmt.Errorf("%s mandate %s: it is %s: %w", verb, m.ID, m.Status, ErrStatus)
	}
	s.move(m, to)
	return nil
}

func (s *Sandbox) withMandate(id string, act func(*Mandate) error) error {
	defer s.lock()()
	m, ok := s.mandates[id]
	if !ok || s.customers[m.CustomerID] == nil {
		return fmt.Errorf("mandate %s: %w", id, ErrUnknown)
	}
	return act(m)
}
