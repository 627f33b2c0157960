// Package reconcile brings what the billing service says of customers and
// mandates into the ledger. Whatever is learnt, from an answer to a create, a
// webhook's GET or a sweep's list, passes through one function, Observe.
//
//	webhook ─▶ inbox ─▶ Drain ─┐
//	list ─────────────▶ Sweep ─┼─▶ Observe ─▶ mandates, history, links, index
//	create, update, link ──────┘
//
// Webhooks are hints and a GET is the truth: a read takes a ticket from the
// ledger before it starts, and a read with an older ticket never overwrites one
// with a newer (connector/RULES.md#tickets). Sending anything is left to syncer;
// deciding when to drain and sweep, to worker.
package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// Observation is what one read, or one answer, showed of a customer.
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

// Seen is what an observation changed.
type Seen struct {
	Stale   bool // a read that started later was applied before, or may have been; nothing was written
	Ours    bool // the customer is linked to a payer
	Moved   bool // a mandate's status changed
	Drifted bool // something of ours was changed in the billing service

	Otherwise bool // a list shows it otherwise than it is known; nothing was written
	Overtaken bool // it is stale because a list pass has begun since, and is to be read again
}

// Observe writes one observation to the ledger: the index of customers, the
// payer's link, the mandate with its history, and what needs attention. All news
// of a customer that exists is written by it; Missing is its counterpart.
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
	fresh, err := saveSeen(tx, o)
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
			return seen, fmt.Errorf("observe the link of customer %s: %w", o.CustomerID, err)
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

// noteNews notes on a customer of ours that a list has shown something of it that was not known:
// no older read may say otherwise from now on.
func noteNews(tx *state.Tx, p state.Payer, o Observation, seen Seen) error {
	if o.List == nil || !seen.Moved && p.Seen && p.LinkState == connector.LinkLinked && p.Shows == p.AppliedHash && (o.Mandate == nil || o.Mandate.ID == p.MandateID) {
		return nil
	}
	return tx.RaiseRemote(o.CustomerID, o.Ticket)
}

// otherwise reports whether a list shows a customer of ours in another state than
// the ledger knows: its key, what we applied, or its mandate, unless that has only
// gone on. A customer that was just made is known by nothing else yet.
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

// saveOvertakenLink keeps the signing link of an answer that a newer read has
// overtaken: nobody else was given it. That it was lost, or refused, is told no more.
func saveOvertakenLink(tx *state.Tx, p state.Payer, o Observation) error {
	if o.Mandate == nil {
		return nil
	}
	m := *o.Mandate
	m.CustomerID = o.CustomerID
	kept, err := tx.SaveLink(m)
	if err != nil || !kept {
		return err
	}
	return tx.ClearAttention(p.Connection, p.SourceID, state.TopicMandate, connector.ReasonLinkLost, connector.ReasonLinkRefused)
}

func saveSeen(tx *state.Tx, o Observation) (fresh bool, err error) {
	if o.Customer == nil {
		return tx.TouchRemote(o.CustomerID, o.Ticket)
	}
	return tx.SaveRemote(*o.Customer, o.Ticket)
}

// observeLink moves the payer's link by the key that the customer carries.
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
	case p.Unlink.At != 0 && carried != p.Key: // a person said that it is not the payer's
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

// moved returns the payer with the key that its customer shows, when it was to come to carry
// that and an update of ours wrote it.
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

// confirmLink links a payer whose customer was read and carries its key. The
// answer to a create is not such a read: the service may answer from memory
// with a customer that is long gone (fault F08).
func confirmLink(tx *state.Tx, p state.Payer, cause connector.Cause) error {
	if cause == connector.CauseCreate || p.Seen && p.LinkState == connector.LinkLinked { // it was said before
		return nil
	}
	may, err := tx.Confirmable(p)
	if err != nil || may.Holders > 1 {
		return err
	}
	if p.Moves.Value != "" { // what the plan told of the key that it is to carry stands
		if holders, err := tx.KeyCount(p.Moves); err != nil || holders > 0 {
			return err
		}
	}
	if may.Taken {
		return conflict(tx, p, connector.ReasonOtherKey)
	}
	moved, err := tx.SetConfirmed(p)
	if err != nil || !moved {
		return err
	}
	if err := tx.TakeBack(p); err != nil || !may.Open {
		return err
	}
	return tx.SetAttention(p.Connection, p.SourceID, state.TopicLink, connector.ReasonOutcomeUnknown, "") // what was told in its place is over
}

// observeHeld notes what of ours a customer holds: what was applied last, what another
// update wrote of which it is not known when it took effect, or neither. The answer to a
// create is no read, and a list may not show as much.
func observeHeld(tx *state.Tx, p state.Payer, o Observation) error {
	if o.Cause == connector.CauseCreate {
		return nil
	}
	applied := p.Applied != nil && holds(p.Applied, *o.Customer)
	switch {
	case o.List != nil && applied:
		return errors.Join(tx.SetShown(p, true), tx.SetRead(p, differences(p.Applied, *o.Customer)))
	case o.List != nil:
		return nil
	case p.Applied == nil:
		return tx.LookedAt(p, o.Ticket, false)
	case applied:
		return errors.Join(tx.SetShown(p, true), tx.SetRead(p, differences(p.Applied, *o.Customer)), tx.LookedAt(p, o.Ticket, true), tx.SetContactIDs(p, p.Applied.WithIDs(o.Customer.People)))
	}
	sent, err := tx.UpdatesUnderWay(p.BillingID)
	if err != nil {
		return err
	}
	for i := range sent {
		if holds(&sent[i], *o.Customer) {
			return errors.Join(tx.SetHeld(p, sent[i].WithIDs(o.Customer.People)), KeepRead(tx, p, sent[i], *o.Customer), tx.LookedAt(p, o.Ticket, false))
		}
	}
	return errors.Join(tx.SetShown(p, false), tx.SetRead(p, differences(p.Applied, *o.Customer)), tx.LookedAt(p, o.Ticket, false))
}

// observeFinancial keeps the financial status, for people alone. The answer to a create may be
// from memory, and one that shows none says nothing.
func observeFinancial(tx *state.Tx, o Observation) error {
	if o.Customer.Financial == "" || o.Cause == connector.CauseCreate {
		return nil
	}
	return tx.SaveFinancial(o.CustomerID, o.Customer.Financial)
}

func conflict(tx *state.Tx, p state.Payer, reason connector.Reason) error {
	err := tx.SetLinkState(p.Connection, p.SourceID, connector.LinkConflict)
	return errors.Join(err, tx.Hold(p, reason))
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
		return false, explainMandate(tx, p, m)
	}
	before, err := tx.SaveMandate(m, o.Cause, o.CauseID)
	if err != nil {
		return false, err
	}
	if err := tx.SetMandate(p.Connection, p.SourceID, m.ID); err != nil {
		return false, err
	}
	if before != m.Status || p.MandateID != m.ID {
		if err := tx.VoidLetters(p.Connection, p.SourceID); err != nil { // before anything else is known of it
			return false, err
		}
		if err := lookAtLeaver(tx, p); err != nil {
			return true, err
		}
	}
	if before == "" && m.Status == connector.MandateCreated && m.URL == "" { // somebody has its link, or nobody: the next plan tells
		if err := tx.LookNext(p); err != nil {
			return true, err
		}
	}
	return before != m.Status, explainMandate(tx, p, m)
}

// lookAtLeaver makes the next plan look at a record that has left: a mandate that lives, or
// waits for its signature, is told of.
func lookAtLeaver(tx *state.Tx, p state.Payer) error {
	left, err := tx.HasLeft(p)
	if err != nil || !left {
		return err
	}
	return tx.LookNext(p)
}

// explainMandate says on the payer what a person should know of the mandate. That the
// mandate of one whose record has left is cancelled is what is left to be wished for, and of
// one that a person lets be as it is nothing is told.
func explainMandate(tx *state.Tx, p state.Payer, m connector.Mandate) error {
	known, err := tx.IsLetBe(p)
	switch {
	case err != nil:
		return err
	case known && m.ID != "":
		return tx.ClearAttention(p.Connection, p.SourceID, state.TopicMandate)
	case m.Status == connector.MandateCancelled:
		left, err := tx.HasLeft(p)
		if err != nil {
			return err
		}
		if left {
			return errors.Join(tx.ClearAttention(p.Connection, p.SourceID, state.TopicMandate),
				tx.ClearAttention(p.Connection, p.SourceID, state.TopicRecord, connector.ReasonLeftWithMandate))
		}
		return tx.SetAttention(p.Connection, p.SourceID, state.TopicMandate, connector.ReasonMandateCancelled, "")
	case !m.Status.Known():
		return tx.SetAttention(p.Connection, p.SourceID, state.TopicMandate, connector.ReasonStatusUnknown, "")
	case m.Status == connector.MandateCreated && m.URL == "":
		return tx.ClearAttention(p.Connection, p.SourceID, state.TopicMandate, connector.ReasonMandateCancelled, connector.ReasonStatusUnknown)
	}
	return tx.ClearAttention(p.Connection, p.SourceID, state.TopicMandate)
}

// drifted reports whether something that we applied is not on the customer any more.
func drifted(p state.Payer, c connector.RemoteCustomer) bool {
	return p.Applied != nil && !holds(p.Applied, c)
}

// holds reports whether a customer shows all that we wrote; the service's own form of it
// will do. Names of contacts are left out, because the service may split them.
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
	return ours.Name == "" || connector.SameForm(ours.Name, c.Name) // blank: adopted by a mapping that does not own it
}

// flagged reports whether the contacts show the flags that we gave them. A contact is known by
// its address; a flag that is not shown says nothing.
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

// sameAddress compares what both spellings of an address say; one has no country.
func sameAddress(ours, theirs connector.Address) bool {
	return connector.SameForm(ours.Line1, theirs.Line1) && connector.SameForm(ours.City, theirs.City) && connector.SameForm(ours.PostCode, theirs.PostCode)
}

func shows(list []string, text string, same func(a, b string) bool) bool {
	return text == "" || slices.ContainsFunc(list, func(shown string) bool { return same(shown, text) })
}

// readLag is how long after a create was answered its customer may still be
// unknown to some reads: they may be answered from a copy that lags behind. That is
// minutes at most, and the clock that measures it may be put right by minutes meanwhile.
const readLag = state.Arrival

// ErrNotYet means that a customer which was made a moment ago is said not to
// exist: a read may lag behind, and a later one tells.
var ErrNotYet = errors.New("the customer was made a moment ago and cannot be read yet")

// notYetIf makes an error of a read that a list may have overtaken one that is ErrNotYet, too: it
// says of nobody that they are gone.
func notYetIf(err error) error {
	if errors.Is(err, state.ErrOvertaken) {
		return errors.Join(err, ErrNotYet)
	}
	return err
}

// Missing notes that a GET with this ticket said a linked customer does not exist,
// unless a newer read saw it. Nothing is ever created again in its place by
// itself (fault F43). It fails with ErrNotYet, and notes nothing, while the
// customer is so young that the read may lag behind, and when a list has begun since.
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
	err := tx.SetLinkState(p.Connection, p.SourceID, connector.LinkMissing)
	return errors.Join(err, tx.Hold(p, connector.ReasonCustomerMissing))
}
