package syncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// Errors of the steps requested by an operator.
var (
	// ErrNotLinked means the payer has no customer confirmed by a read.
	ErrNotLinked = errors.New("the record is not linked to a customer of the billing service")
	// ErrHasMandate means the payer has a signed mandate.
	ErrHasMandate = errors.New("the payer has signed a mandate already")
	// ErrOtherMandate means the payer's mandate is no longer the one shown to the operator: another request was made at
	// the same moment, or a read has just found a new mandate.
	ErrOtherMandate = errors.New("the payer has another mandate by now; look at it, and ask again if it is still right")
	// ErrAsking means another person's request for a signing link is still running after the maximum wait.
	ErrAsking = errors.New("somebody else asks for a signing link just now; try again in a minute")
	// ErrReasonNeeded means a step needs a reason for the audit log.
	ErrReasonNeeded = errors.New("a reason is needed")
	// ErrNotCancelled means the payer's mandate, as just read, is not the cancelled mandate to reinstate.
	ErrNotCancelled = errors.New("the payer's mandate is not a cancelled one")
)

// Operator is a person requesting one step by hand.
type Operator struct {
	Name   string
	Reason string // in the person's words; kept in the audit log
}

// RequestLink requests a signing link for one payer on an operator's order, and returns the mandate with the link. It
// reads the customer first. After a cancellation, or under an undocumented status, the order needs a reason: a
// cancelled mandate is replaced only with the payer's new authority (RULES.md#the-payers-word). The intent is in the
// audit log before the request. Requests of people take turns: a request about a mandate replaced meanwhile sends
// nothing and fails with ErrOtherMandate.
func (s *Syncer) RequestLink(ctx context.Context, p state.Payer, by Operator) (connector.Mandate, error) {
	if p.BillingID == "" || !p.Seen {
		return connector.Mandate{}, ErrNotLinked
	}
	turn, err := s.turnToAsk(ctx)
	if err != nil {
		return connector.Mandate{}, err
	}
	m, err := s.requestLink(ctx, p, by)
	return m, errors.Join(err, turn.Release())
}

// asksAtMost is how long somebody waits for another's request.
const asksAtMost = 30 * time.Second

func (s *Syncer) turnToAsk(ctx context.Context) (*state.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, asksAtMost)
	defer cancel()
	turn, err := s.Ledger.LockRequests(ctx)
	if err == nil && turn == nil {
		err = ErrAsking
	}
	return turn, err
}

func (s *Syncer) requestLink(ctx context.Context, p state.Payer, by Operator) (connector.Mandate, error) {
	status, err := s.statusNow(ctx, p)
	if err != nil {
		return connector.Mandate{}, err
	}
	now, err := s.Ledger.Payer(ctx, p.Connection, p.SourceID)
	switch {
	case err != nil:
		return connector.Mandate{}, err
	case status.Underway(), status == connector.MandateActive:
		return connector.Mandate{}, ErrHasMandate
	case now.MandateID != p.MandateID:
		return connector.Mandate{}, ErrOtherMandate
	case status != "" && status != connector.MandateCreated && by.Reason == "":
		return connector.Mandate{}, fmt.Errorf("replace a mandate that is %s: %w", status.Label(), ErrReasonNeeded)
	}
	var left state.Attempt
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if err := tx.Audit(state.Entry{Actor: by.Name, Action: "request signing link", Subject: p.BillingID,
			Reason: by.Reason}); err != nil {
			return err
		}
		left, err = tx.BeginRequest(p)
		return err
	}); err != nil {
		return connector.Mandate{}, err
	}
	m, err := s.Billing.RequestMandateLink(ctx, p.BillingID)
	end, known := endOf(err)
	return m, errors.Join(s.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if !known {
			return nil // a read ends it
		}
		if err := errors.Join(tx.EndAttempt(left, end), refuseLink(tx, p, err)); err != nil || end != state.AttemptAnswered {
			return err
		}
		_, err := reconcile.Observe(tx, reconcile.Observation{
			CustomerID: p.BillingID, Mandate: &m, Ticket: left.Ticket, Cause: connector.CauseLink, CauseID: "operator " +
				by.Name,
		})
		return err
	}), s.rereadCustomer(ctx, p, err, connector.CauseLink))
}

// refuseLink notes a refused link request for an open mandate, if the answer is about this customer.
func refuseLink(tx *state.Tx, p state.Payer, err error) error {
	fault := connector.FaultOf(err)
	if errors.Is(err, connector.ErrWrongWay) || fault != connector.FaultRejected && fault != connector.FaultNotFound ||
		refusedAlike(state.Change{Payer: p}, err) != nil {
		return nil
	}
	now, err := tx.PayerByBillingID(p.BillingID) // the look before may have shown another mandate
	if err != nil {
		return err
	}
	return tx.RefuseLink(now)
}

// statusNow reads the customer and returns the status of its latest mandate; ""
// when it has none.
func (s *Syncer) statusNow(ctx context.Context, p state.Payer) (connector.MandateStatus, error) {
	ticket, err := s.Ledger.Ticket(ctx)
	if err != nil {
		return "", err
	}
	c, err := s.Billing.Customer(ctx, p.BillingID)
	if err != nil {
		return "", fmt.Errorf("read customer %s: %w", p.BillingID, err)
	}
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		_, err := reconcile.Observe(tx, reconcile.OfCustomer(c, ticket, connector.CauseLink, "operator"))
		return err
	}); err != nil || c.Mandate == nil {
		return "", err
	}
	return c.Mandate.Status, nil
}

// Canceller is the part of the billing service reserved for operators.
type Canceller interface {
	CancelMandate(ctx context.Context, mandateID, reason string) error
	ReinstateMandate(ctx context.Context, mandateID, reason string) error
}

// CancelMandate cancels a payer's current mandate because an operator said so,
// and reads the customer back. It always needs a reason.
func (s *Syncer) CancelMandate(ctx context.Context, billing Canceller, p state.Payer, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("cancel a mandate: %w", ErrReasonNeeded)
	}
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by.Name, Action: "cancel mandate", Subject: p.MandateID, Reason: by.Reason})
	}); err != nil {
		return err
	}
	if err := billing.CancelMandate(ctx, p.MandateID, by.Reason); err != nil {
		return s.rereadCustomer(ctx, p, err, connector.CauseCancel)
	}
	_, err := s.Reconciler.Check(ctx, p.BillingID, connector.CauseCancel, "operator "+by.Name)
	return err
}

// ReinstateMandate reinstates a payer's cancelled mandate on an operator's order, and reads the customer back. It
// always needs a reason. It reads the customer first: if another mandate has replaced the cancelled one, the new
// mandate stays.
func (s *Syncer) ReinstateMandate(ctx context.Context, billing Canceller, p state.Payer, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("reinstate a mandate: %w", ErrReasonNeeded)
	}
	if p.BillingID == "" || !p.Seen {
		return ErrNotLinked
	}
	status, err := s.statusNow(ctx, p)
	if err != nil {
		return err
	}
	now, err := s.Ledger.Payer(ctx, p.Connection, p.SourceID)
	if err != nil {
		return err
	}
	if status != connector.MandateCancelled || now.MandateID != p.MandateID || p.MandateID == "" {
		return ErrNotCancelled
	}
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by.Name, Action: "reinstate mandate", Subject: p.MandateID, Reason: by.Reason})
	}); err != nil {
		return err
	}
	if err := billing.ReinstateMandate(ctx, p.MandateID, by.Reason); err != nil {
		return s.rereadCustomer(ctx, p, err, connector.CauseSweep)
	}
	_, err = s.Reconciler.Check(ctx, p.BillingID, connector.CauseSweep, "operator "+by.Name)
	return err
}

// rereadCustomer reads the customer after a call with an unknown outcome, so the ledger shows its effect. It always
// returns the error of the call.
func (s *Syncer) rereadCustomer(ctx context.Context, p state.Payer, err error, cause connector.Cause) error {
	if err == nil || connector.FaultOf(err) != connector.FaultUnknown {
		return err
	}
	_, again := s.Reconciler.Check(ctx, p.BillingID, cause, "operator")
	return errors.Join(err, again)
}

// ErrNoHolder means the record needs no decision about a customer: it has one, it cannot be sent, or the number of free
// customers with its key is not one.
var ErrNoHolder = errors.New("no single customer that is nobody's carries the record's key")

// Holder is an unlinked customer, together with the record it may belong to.
type Holder struct {
	Payer    state.Payer
	Customer string                   // its id
	Against  []string                 // the differences that speak against the match
	Diff     []connector.FieldChange  // the changes of a link
	Have     connector.RemoteCustomer // as it was read
}

// HolderOf reads the customer with a record's key, for a person to compare the two. It writes nothing.
func (s *Syncer) HolderOf(ctx context.Context, conn Connection, p state.Payer) (Holder, error) {
	h := Holder{Payer: p}
	stored, err := s.Ledger.StoredRecord(ctx, p.Connection, p.SourceID, conn.Mapping.Version())
	if err != nil {
		return h, err
	}
	r := &run{Syncer: s, conn: conn}
	m, err := r.render(stored.Candidate)
	if err != nil || m.Usability != protocol.Included || p.BillingID != "" || m.Record.Key != p.Key.ID() {
		return h, errors.Join(err, ErrNoHolder)
	}
	k, err := r.gatherKey(ctx, p.SourceID, p.Key, m.Record, stored.Facts, m.Customer)
	if err != nil || k.facts.Holders != protocol.Free && !k.rejected {
		return h, errors.Join(err, ErrNoHolder)
	}
	seen, err := r.readCustomer(ctx, k.facts.Holder)
	if err != nil {
		return h, err
	}
	owned := conn.Mapping.Owned(m.Customer, connector.Customer{})
	if k.judge(seen, owned); k.facts.Look.Shows != protocol.Ours {
		return h, ErrNoHolder
	}
	base, err := r.baseOfNew(ctx, stored.Candidate, k.facts.Holder)
	if err != nil {
		return h, err
	}
	h.Customer, h.Against = k.facts.Holder, k.against
	h.Diff, err = s.Billing.MergeDiff(seen.customer, base, owned, conn.Mapping.Own())
	return h, err
}

// Why a customer cannot be a record's.
var (
	// ErrNoCustomer means the billing service has no such customer.
	ErrNoCustomer = errors.New("the billing service has no such customer")
	// ErrCarriesAnother means the customer carries the key of another record.
	ErrCarriesAnother = errors.New("the customer carries another record's key")
)

// PairOf reads a customer, for a person to compare with a record without a customer. It writes nothing.
func (s *Syncer) PairOf(ctx context.Context, conn Connection, sourceID, customer string) (Holder, error) {
	h := Holder{Payer: state.Payer{Connection: conn.Name, SourceID: sourceID}, Customer: customer}
	stored, err := s.Ledger.StoredRecord(ctx, conn.Name, sourceID, conn.Mapping.Version())
	if err != nil {
		return h, err
	}
	r := &run{Syncer: s, conn: conn}
	m, err := r.render(stored.Candidate)
	switch {
	case err != nil:
		return h, err
	case stored.Payer != nil && stored.Payer.BillingID != "":
		return h, state.ErrLinkedAlready
	case m.Usability != protocol.Included:
		return h, ErrNotSent
	}
	seen, err := r.readCustomer(ctx, customer)
	if err == nil && seen.missing {
		err = ErrNoCustomer
	}
	if err != nil {
		return h, err
	}
	if carried := connector.KeyIn(seen.customer.ExternalData, m.Result.Key.Name); carried.Value != "" &&
		!m.Result.Key.MayBe(carried) {
		unclaimed, err := s.Ledger.UnclaimedKeyOf(ctx, conn.Name, carried.Name, customer)
		if err != nil {
			return h, err
		}
		if carried.Indexed() != unclaimed {
			return h, ErrCarriesAnother
		}
	}
	owned := conn.Mapping.Owned(m.Customer, connector.Customer{})
	h.Have, h.Against = seen.customer, match.Against(owned, seen.customer)
	base, err := r.baseOfNew(ctx, stored.Candidate, customer)
	if err != nil {
		return h, err
	}
	h.Diff, err = s.Billing.MergeDiff(seen.customer, base, owned, conn.Mapping.Own())
	return h, err
}

// Accept notes an operator's decision to link the record to the customer, despite all objections. It concerns this
// customer alone. The next plan adopts the customer, within the limits.
func (s *Syncer) Accept(ctx context.Context, h Holder, by Operator) error {
	return s.sayAccepted(ctx, h, by, func(*state.Tx) error { return nil })
}

// AcceptUndecided is Accept for an operator to whom the pair was shown as undecided. It fails with
// state.ErrDecidedMeanwhile if another person has decided since.
func (s *Syncer) AcceptUndecided(ctx context.Context, h Holder, by Operator) error {
	return s.sayAccepted(ctx, h, by, func(tx *state.Tx) error {
		return tx.CheckPairDecision(h.Payer.Connection, h.Payer.SourceID, h.Customer, state.WordAccept)
	})
}

func (s *Syncer) sayAccepted(ctx context.Context, h Holder, by Operator, may func(*state.Tx) error) error {
	if by.Reason == "" {
		return fmt.Errorf("link a customer: %w", ErrReasonNeeded)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := may(tx); err != nil {
			return err
		}
		return SayPair(tx, state.RecordID{Connection: h.Payer.Connection, SourceID: h.Payer.SourceID}, h.Customer,
			state.WordAccept, by)
	})
}

// SayPair notes an operator's decision on a record and a customer, with an entry in the audit log, unless it was
// noted before. After an acceptance, requests that were refused before may be sent again. It fails as
// state.Tx.SavePairDecision does.
func SayPair(tx *state.Tx, id state.RecordID, customer string, says state.PairVerdict, by Operator) error {
	news, err := tx.SavePairDecision(id.Connection, id.SourceID, customer, says)
	if err == nil && news && says == state.WordAccept {
		_, err = tx.RetryRecord(id.Connection, id.SourceID)
	}
	if err != nil || !news {
		return err
	}
	return tx.Audit(state.Entry{Actor: by.Name, Action: string(says) + " match", Subject: id.Connection + "/" +
		id.SourceID + " = " + customer, Reason: by.Reason})
}
