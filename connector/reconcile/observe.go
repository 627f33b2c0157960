// Package reconcile brings the billing service's data on customers and mandates into the ledger. All news, from an
// answer to a create, a webhook's GET or a sweep's list, passes through one function, Observe.
//
//	webhook ─▶ inbox ─▶ Drain ─┐
//	list ─────────────▶ Sweep ─┼─▶ Observe ─▶ mandates, history, links, index
//	create, update, link ──────┘
//
// Webhooks are hints; only a GET is trusted. A read takes a ticket from the ledger before it starts, and never
// overwrites a read with a newer ticket (connector/RULES.md#tickets). Package syncer sends the requests; package worker
// decides when to drain and sweep.
package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// Observation is the result of one read, or one answer, about a customer.
type Observation struct {
	CustomerID string
	Customer   *connector.RemoteCustomer // the customer whole; nil when only a mandate was shown
	Mandate    *connector.Mandate        // the latest mandate; nil when none was shown
	Ticket     int64                     // taken before the read
	List       *state.Listing            // the list pass it belongs to; nil for a single read
	Cause      connector.Cause
	CauseID    string // run, delivery or pass
}

// OfCustomer makes an observation of a whole customer.
func OfCustomer(c connector.RemoteCustomer, ticket int64, cause connector.Cause, causeID string) Observation {
	return Observation{CustomerID: c.ID, Customer: &c, Mandate: c.Mandate, Ticket: ticket, Cause: cause, CauseID: causeID}
}

// Seen holds the changes of an observation.
type Seen struct {
	Stale   bool // a later read was, or may have been, applied already; nothing was written
	Ours    bool // the customer is linked to a payer
	Moved   bool // a mandate's status changed
	Drifted bool // something of ours was changed in the billing service

	Otherwise bool // a list shows it otherwise than it is known; nothing was written
	Overtaken bool // it is stale because a list pass has begun since, and is to be read again
}

// Observe writes one observation to the ledger: the index of customers, the payer's link, the mandate with its history,
// and the findings. It writes all news of existing customers; Missing is its counterpart.
func Observe(tx *state.Tx, o Observation) (Seen, error) {
	payer, err := tx.PayerByBillingID(o.CustomerID)
	if err != nil && !errors.Is(err, state.ErrNoPayer) {
		return Seen{}, err
	}
	seen := Seen{Ours: err == nil}
	defer tx.ShownBy(o.List)()
	if seen.Ours && o.List != nil {
		if seen.Otherwise, err = otherwise(tx, payer, o); err != nil || seen.Otherwise {
			o.List.Add(o.CustomerID)
			return seen, err
		}
	}
	seen.Drifted = seen.Ours && o.Customer != nil && drifted(payer, *o.Customer)
	var fresh bool
	if o.Customer != nil {
		fresh, err = tx.SaveRemote(*o.Customer, o.Ticket)
	} else {
		fresh, err = tx.TouchRemote(o.CustomerID, o.Ticket)
	}
	if seen.Overtaken = errors.Is(err, state.ErrOvertaken); err != nil && !seen.Overtaken {
		return Seen{}, fmt.Errorf("observe customer %s: %w", o.CustomerID, err)
	}
	if !fresh {
		return Seen{Stale: true, Overtaken: seen.Overtaken}, saveOvertakenLink(tx, payer, o)
	}
	if !seen.Ours {
		if o.Customer == nil {
			return seen, nil
		}
		return seen, tx.LookNextAt(o.Customer.ExternalData)
	}
	if o.Customer != nil {
		if err := observeLink(tx, payer, o); err != nil {
			return seen, fmt.Errorf("observe the signing link of customer %s: %w", o.CustomerID, err)
		}
		if err := observeHeld(tx, payer, o); err != nil {
			return seen, fmt.Errorf("observe what customer %s holds: %w", o.CustomerID, err)
		}
		if err := observeFinancial(tx, o); err != nil {
			return seen, fmt.Errorf("observe the financial status of customer %s: %w", o.CustomerID, err)
		}
	}
	if seen.Moved, err = observeMandate(tx, payer, o); err != nil {
		return seen, fmt.Errorf("observe the mandate of customer %s: %w", o.CustomerID, err)
	}
	return seen, noteNews(tx, payer, o, seen)
}

// noteNews notes news from a list about a customer of ours, so no older read can override it.
func noteNews(tx *state.Tx, p state.Payer, o Observation, seen Seen) error {
	if o.List == nil || !seen.Moved && p.Seen && p.LinkState == connector.LinkLinked && p.Shows == p.AppliedHash && (o.Mandate == nil || o.Mandate.ID == p.MandateID) {
		return nil
	}
	return tx.RaiseRemote(o.CustomerID, o.Ticket)
}

// otherwise reports whether a list shows a customer of ours in another state than the ledger: its key, the values
// applied, or its mandate, except normal progress. A newly created customer has no other state yet.
func otherwise(tx *state.Tx, p state.Payer, o Observation) (bool, error) {
	carried := o.Customer.ExternalData
	if !p.Seen {
		return false, nil
	}
	ordered, err := tx.InOrder(p)
	switch {
	case err != nil:
		return false, err
	case !ordered, len(carried) > 0 && connector.KeyIn(carried, p.Key.Name) != p.Key, drifted(p, *o.Customer):
		return true, nil
	case o.Mandate == nil || p.MandateID == "":
		return false, nil
	case o.Mandate.ID != p.MandateID:
		return true, nil
	}
	known, err := tx.MandateStatus(p.MandateID)
	return !known.LeadsTo(o.Mandate.Status), err
}

// saveOvertakenLink keeps the signing link of an answer overtaken by a newer read, because it is the only copy. It ends
// the findings about a lost or refused link.
func saveOvertakenLink(tx *state.Tx, p state.Payer, o Observation) error {
	if o.Mandate == nil {
		return nil
	}
	m := *o.Mandate
	m.CustomerID = o.CustomerID
	kept, err := tx.SaveLink(m)
	if kept {
		tx.Touch(p)
	}
	return err
}

// observeLink updates the payer's link state from the customer's key.
func observeLink(tx *state.Tx, p state.Payer, o Observation) error {
	carried := connector.KeyIn(o.Customer.ExternalData, p.Key.Name)
	if carried != p.Key {
		var err error
		if p, err = moved(tx, p, o.Customer.ExternalData); err != nil {
			return err
		}
		carried = connector.KeyIn(o.Customer.ExternalData, p.Key.Name)
	}
	young := false
	if !p.Seen && len(o.Customer.ExternalData) == 0 {
		var err error
		if young, err = tx.MadeWithin(p, state.Arrival); err != nil {
			return err
		}
	}
	switch {
	case p.Unlink.At != 0 && carried != p.Key: // a person unlinked it
		return nil
	case carried == p.Key:
		return confirmLink(tx, p, o.Cause)
	case young:
		// The service may fill it in later: not confirmed, not refuted.
		return tx.SetAttention(p.Connection, p.SourceID, state.TopicLink, connector.ReasonOutcomeUnknown,
			"The new customer exists but does not show this record's key yet. It is looked at again.")
	case o.List != nil && len(o.Customer.ExternalData) == 0:
		return nil // a list may leave it out; only a read of the customer itself refutes a link
	case carried.Value != "":
		return conflict(tx, p, connector.ReasonOtherKey)
	default:
		return conflict(tx, p, connector.ReasonKeyRemoved)
	}
}

// moved returns the payer with the customer's key, if this was the payer's future key and an update of ours wrote it.
func moved(tx *state.Tx, p state.Payer, shown map[string]string) (state.Payer, error) {
	for _, name := range []string{p.Key.Name, p.Moves.Name} {
		key := connector.KeyIn(shown, name)
		if !p.MovesTo(key) {
			continue
		}
		if wrote, err := tx.Wrote(p.BillingID, key); err != nil || !wrote {
			return p, err
		}
		err := tx.Move(p, key)
		p.Key, p.Moves = key, connector.Key{}
		return p, err
	}
	return p, nil
}

// confirmLink links a payer after a read of the customer with its key. The answer to a create is not such a read: the
// service may answer from memory with a long deleted customer (fault F08).
func confirmLink(tx *state.Tx, p state.Payer, cause connector.Cause) error {
	if cause == connector.CauseCreate || p.Seen && p.LinkState == connector.LinkLinked { // it was said before
		return nil
	}
	may, err := tx.Confirmable(p)
	if err != nil || may.Holders > 1 {
		return err
	}
	if p.Moves.Value != "" { // the plan's finding about its new key stays
		if holders, err := tx.KeyCount(p.Moves); err != nil || holders > 0 {
			return err
		}
	}
	if may.Taken {
		return conflict(tx, p, connector.ReasonOtherKey)
	}
	return tx.SetConfirmed(p)
}

// observeHeld notes our values on a customer: those applied last, those of another update with an unknown time of
// effect, or neither. The answer to a create is not a read, and a list may be incomplete.
func observeHeld(tx *state.Tx, p state.Payer, o Observation) error {
	values, applied := p.Applied, p.Applied != nil && holds(p.Applied, *o.Customer)
	if o.Cause == connector.CauseCreate || o.List != nil && !applied {
		return nil
	}
	held := state.HeldValues{Applied: applied}
	if o.List == nil {
		held.Ticket = o.Ticket
	}
	if values != nil && !applied {
		sent, err := tx.UpdatesUnderWay(p.BillingID)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(sent, func(c connector.Customer) bool { return holds(&c, *o.Customer) }); i >= 0 {
			values, held.Instead = &sent[i], true
		}
	}
	if values != nil {
		shown := values.WithIDs(o.Customer.People)
		held.Differs, held.Values = differences(values, *o.Customer), &shown
	}
	return tx.SaveHeld(p, held)
}

// observeFinancial keeps the financial status for display. It ignores answers to a create, because they may be from
// memory, and answers without a status.
func observeFinancial(tx *state.Tx, o Observation) error {
	if o.Customer.Financial == "" || o.Cause == connector.CauseCreate {
		return nil
	}
	return tx.SaveFinancial(o.CustomerID, o.Customer.Financial)
}

func conflict(tx *state.Tx, p state.Payer, reason connector.Reason) error {
	err := tx.Hold(p, reason)
	tx.HoldLink(p, connector.LinkConflict, reason)
	return err
}

// observeMandate writes the mandate and reports whether its status moved. A
// summary without an id could speak of any mandate and is not written.
func observeMandate(tx *state.Tx, p state.Payer, o Observation) (moved bool, err error) {
	if o.Mandate == nil {
		return false, nil
	}
	m := *o.Mandate
	m.CustomerID = o.CustomerID
	if m.Status == "" {
		return false, nil
	}
	if m.ID == "" { // nothing to keep it under, but a person should know
		return false, explainMandate(tx, p, m, false)
	}
	before, err := tx.SaveMandate(m, o.Cause, o.CauseID)
	if err != nil {
		return false, err
	}
	if err := tx.SetMandate(p.Connection, p.SourceID, m.ID); err != nil {
		return false, err
	}
	changed := before != m.Status || p.MandateID != m.ID
	if changed {
		if err := tx.VoidLetters(p.Connection, p.SourceID); err != nil { // before anything else is known of it
			return false, err
		}
	}
	if before == "" && m.Status == connector.MandateCreated && m.URL == "" { // somebody has its link, or nobody: the next plan tells
		if err := tx.LookNext(p); err != nil {
			return true, err
		}
	}
	if !changed && m.URL == "" && o.Cause != connector.CauseLink {
		return false, nil
	}
	return before != m.Status, explainMandate(tx, p, m, changed)
}

// explainMandate makes the write decide again on the payer's mandate. If the mandate changed, the next plan checks a
// removed record, to report a live mandate or one waiting for its signature. A cancelled one ends the report of a live
// one.
func explainMandate(tx *state.Tx, p state.Payer, m connector.Mandate, changed bool) error {
	if tx.Touch(p); m.ID == "" {
		tx.ShowMandate(p, m.Status)
	}
	cancelled := m.Status == connector.MandateCancelled
	if !changed && !cancelled {
		return nil
	}
	left, err := tx.HasLeft(p)
	if err == nil && left && changed {
		err = tx.LookNext(p)
	}
	if err == nil && left && cancelled {
		err = tx.ClearAttention(p.Connection, p.SourceID, state.TopicRecord, connector.ReasonLeftWithMandate)
	}
	return err
}

// drifted reports whether a value applied by us is gone from the customer.
func drifted(p state.Payer, c connector.RemoteCustomer) bool {
	return p.Applied != nil && !holds(p.Applied, c)
}

// holds reports whether a customer shows all our values, in any form of the service. It ignores names of contacts,
// because the service may split them.
func holds(ours *connector.Customer, c connector.RemoteCustomer) bool {
	for _, person := range ours.People {
		if !shows(c.Emails, person.Email, strings.EqualFold) || !shows(c.Phones, person.Phone, connector.SameForm) {
			return false
		}
	}
	if !flagged(ours.People, c.People) {
		return false
	}
	for _, address := range ours.Addresses {
		if !slices.ContainsFunc(c.Addresses, func(a connector.Address) bool { return sameAddress(address, a) }) {
			return false
		}
	}
	for name, value := range ours.ExternalData {
		if len(c.ExternalData) > 0 && c.ExternalData[name] != value { // a list may leave them out
			return false
		}
	}
	return ours.Name == "" || connector.SameForm(ours.Name, c.Name) // blank: linked by a mapping without a rule for it
}

// flagged reports whether the contacts have our flags. It matches contacts by e-mail address. A flag not shown counts
// as equal.
func flagged(ours, shown []connector.Person) bool {
	differs := func(ours, shown string) bool { return ours != "" && shown != "" && ours != shown }
	for _, p := range ours {
		if p.Email != "" && slices.ContainsFunc(shown, func(s connector.Person) bool { return strings.EqualFold(s.Email, p.Email) }) &&
			!slices.ContainsFunc(shown, func(s connector.Person) bool {
				return strings.EqualFold(s.Email, p.Email) && !differs(p.Primary, s.Primary) && !differs(p.Communication, s.Communication)
			}) {
			return false
		}
	}
	return true
}

// sameAddress compares the contents of both spellings of an address; one has no country.
func sameAddress(ours, theirs connector.Address) bool {
	return connector.SameForm(ours.Line1, theirs.Line1) && connector.SameForm(ours.City, theirs.City) && connector.SameForm(ours.PostCode, theirs.PostCode)
}

func shows(list []string, text string, same func(a, b string) bool) bool {
	return text == "" || slices.ContainsFunc(list, func(shown string) bool { return same(shown, text) })
}

// readLag is the time after a create's answer during which reads may still miss its customer, because of replica lag.
// This is minutes at most, and the measuring clock may be corrected by minutes meanwhile.
const readLag = state.Arrival

// ErrNotYet means a newly created customer appears nonexistent: a read may lag behind, and a later one decides.
var ErrNotYet = errors.New("the customer was made a moment ago and cannot be read yet")

// notYetIf also marks an error as ErrNotYet if a list may have overtaken the read: it proves no absence.
func notYetIf(err error) error {
	if errors.Is(err, state.ErrOvertaken) {
		return errors.Join(err, ErrNotYet)
	}
	return err
}

// Missing notes the absence of a linked customer after a GET with this ticket, unless a newer read saw it. No
// replacement is ever created automatically (fault F43). It notes nothing and fails with ErrNotYet while the customer
// is new enough for replica lag, or if a list has started since.
func Missing(tx *state.Tx, p state.Payer, ticket int64) error {
	switch young, err := tx.MadeWithin(p, readLag); {
	case err != nil:
		return fmt.Errorf("look how old customer %s is: %w", p.BillingID, err)
	case young:
		return ErrNotYet
	}
	if fresh, err := tx.ForgetRemote(p.BillingID, ticket); err != nil || !fresh {
		return notYetIf(err)
	}
	return tx.Hold(p, connector.ReasonCustomerMissing)
}
