package syncer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// create freezes and sends a create. A frozen create is sent again with the same bytes
// (connector/RULES.md#freeze-then-send).
func (r *run) create(ctx context.Context, c state.Change) error {
	if c.State != connector.ChangePending {
		return r.replay(ctx, c)
	}
	if r.probe {
		if found, err := r.search(ctx, c); err != nil || found {
			return err
		}
	}
	body, err := r.Billing.CreateBody(c.Wanted)
	if err != nil {
		return r.unwritable(ctx, c)
	}
	var left state.Attempt
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		left, err = tx.FreezeCreate(r.id, c, body, r.trustedSince.Load())
		return err
	}); err != nil {
		return r.notFrozen(ctx, c, err)
	}
	r.noteMade(c)
	return r.send(ctx, c, attempt{left, body, true})
}

// unwritable closes a create that has no form in the billing service.
func (r *run) unwritable(ctx context.Context, c state.Change) error {
	return r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonRejected,
		"The customer cannot be written in the billing service's form.")
}

// notFrozen handles a create that may not be sent. If the facts have changed since its plan, it is planned again.
func (r *run) notFrozen(ctx context.Context, c state.Change, err error) error {
	switch {
	case errors.Is(err, state.ErrKeyFound), errors.Is(err, state.ErrKeyTaken), errors.Is(err, state.ErrKeyUnderWay),
		errors.Is(err, state.ErrAccepted):
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case errors.Is(err, state.ErrCreatesWait): // a person has said so since this run began to send
		return nil
	}
	return err
}

// noteMade remembers the payers with a customer created in this run: they cannot have an earlier mandate.
func (r *run) noteMade(c state.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made.Add(c.Payer.SourceID)
}

func (r *run) madeHere(c state.Change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made.Has(c.Payer.SourceID)
}

// search searches for a customer by name and e-mail once more before a create. It voids the change if a customer
// carries the key or may be the record's customer.
func (r *run) search(ctx context.Context, c state.Change) (found bool, err error) {
	texts := []string{c.Wanted.Name}
	for _, p := range c.Wanted.People {
		if p.Email != "" {
			texts = append(texts, p.Email)
		}
	}
	for _, text := range texts {
		ticket, err := r.Ledger.Ticket(ctx)
		if err != nil {
			return false, err
		}
		hits, err := r.Billing.SearchCustomers(ctx, text)
		if err != nil {
			return false, fmt.Errorf("search for record %s: %w", c.Payer.SourceID, err)
		}
		for _, hit := range hits {
			if len(hit.ExternalData) == 0 { // a list may leave it out, and so may a search
				hit, ticket, err = r.fetch(ctx, hit.ID)
				if connector.FaultOf(err) == connector.FaultNotFound {
					continue
				}
				if err != nil {
					return false, err
				}
			}
			if !c.Payer.Key.MayBe(connector.KeyIn(hit.ExternalData, c.Payer.Key.Name)) {
				alike, err := r.foundBySearch(ctx, c, hit)
				if err != nil {
					return false, err
				}
				if !alike {
					continue
				}
			}
			return true, r.Ledger.Do(ctx, func(tx *state.Tx) error {
				if _, err := reconcile.Observe(tx, reconcile.OfCustomer(hit, ticket, connector.CauseAdopt, r.cause())); err != nil {
					return err
				}
				return tx.CloseWith(r.id, c, connector.ChangeVoid, "", "")
			})
		}
	}
	return false, nil
}

// replay continues a create without an answer. It gathers the facts about the key and asks package protocol for the
// next step, even if the record has changed since. A customer in the list is the answer; otherwise the same bytes are
// sent again. After the deadline, two lists started later must first prove its absence.
func (r *run) replay(ctx context.Context, c state.Change) error {
	if !r.looked {
		return nil
	}
	for looked := false; ; looked = true {
		k, err := r.gatherCreate(ctx, c)
		if err != nil {
			return err
		}
		switch step := protocol.Decide(k.facts).Customer; {
		case step.Do == protocol.ReadList && looked, k.facts.Holders == protocol.Own:
			return nil
		case step.Do == protocol.ReadList, step.Do == protocol.Create && !looked: // as before any other create, the lists must not be too old
			if proof, err := r.trustIndexAfter(ctx, k.over); err != nil || !proof {
				return err
			}
		case step.Do == protocol.Replay, step.Do == protocol.Create:
			return r.sendAgain(ctx, c, !k.open)
		case step.Do == protocol.Adopt, step.Do == protocol.ReadCustomer:
			return r.takeFound(ctx, c, step.Customer, k.facts.Doubt == protocol.Doubt{})
		case !k.open && step.Reason == connector.ReasonNoAnswer:
			return r.giveUp(ctx, c)
		case !k.open && !k.facts.Wanted(): // nobody asks for it any more, and it did not arrive
			return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
		default: // its bytes are kept for when it may be sent again
			return r.reportWaiting(ctx, c, step.Reason, k)
		}
	}
}

// gatherCreate gathers the facts about a payer with an unanswered create.
func (r *run) gatherCreate(ctx context.Context, c state.Change) (keyKnown, error) {
	stored, err := r.Ledger.StoredRecord(ctx, r.conn.Name, c.Payer.SourceID, r.conn.Mapping.Version())
	if err != nil {
		return keyKnown{}, err
	}
	m, err := r.render(stored.Candidate)
	if err != nil {
		return keyKnown{}, err
	}
	k, err := r.gatherKey(ctx, c.Payer.SourceID, c.Payer.Key, m.Record, protocol.Facts{Words: stored.Facts.Words},
		c.Wanted)
	if err != nil {
		return k, err
	}
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err != nil {
		return k, err
	}
	f := &k.facts
	f.Alike, f.AlikeLeft, f.AlikeTwice = false, false, false // matches were checked before it was first sent
	for i, a := range f.Attempts {
		f.Attempts[i].Rest = c.Attempts >= quickReplays
		// it may have been sent since, or longer ago than it says
		if a.Seq <= stored.Facts.Doubt.Since || !x.ClockBack.Before(c.UpdatedAt) {
			f.Doubt = protocol.Doubt{Since: a.Seq, Over: a.Over}
		}
	}
	if c.Attempts >= maxReplays {
		f.Worn = k.sent
	}
	return k, nil
}

// sendAgain sends the frozen bytes of a create again. looked means no earlier request can arrive any more and no
// customer has the key.
func (r *run) sendAgain(ctx context.Context, c state.Change, looked bool) error {
	var left state.Attempt
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if looked {
			if err := tx.LookedFor(c); err != nil {
				return err
			}
		}
		left, err = tx.Attempt(r.id, c)
		return err
	}); err != nil {
		return err
	}
	return r.send(ctx, c, attempt{left, c.Body, looked})
}

// giveUp leaves a create to a person after too many requests without arrival.
func (r *run) giveUp(ctx context.Context, c state.Change) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(tx.LookedFor(c), tx.CloseWith(r.id, c, connector.ChangeHeld, connector.ReasonNoAnswer,
			fmt.Sprintf("The customer was sent %s and never answered for; the billing service does not have it. Try again when it works.", connector.Plural(c.Attempts, "time"))))
	})
}

// reportWaiting reports the reason for the wait of a create possibly still to arrive. Without it, a create
// interrupted by process crashes would never be reported.
func (r *run) reportWaiting(ctx context.Context, c state.Change, reason connector.Reason, k keyKnown) error {
	r.waitsUntil(k.until)
	if reason == "" {
		return nil
	}
	detail := k.because(reason)
	if reason == connector.ReasonOutcomeUnknown {
		detail = fmt.Sprintf("The customer was sent %s and never answered for. It is sent again when all that was sent must have arrived.", connector.Plural(c.Attempts, "time"))
	}
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		tx.Explain(c.Payer, state.Topic(protocol.LaneOf(reason)), reason, detail)
		return nil
	})
}

// takeFound links a payer to the customer with the key of its unanswered create. If certain, the sent values count as
// confirmed, as after an answer: a later edit by a colleague is reported and not overwritten. After a restore it is not
// certain, because requests unknown to the ledger may have changed the customer. An index entry is not a read of the
// customer, so verify confirms it.
func (r *run) takeFound(ctx context.Context, c state.Change, id string, certain bool) error {
	return r.record(ctx, c, func(tx *state.Tx) error {
		if certain {
			return tx.Created(r.id, c, id)
		}
		if err := tx.LinkPayer(c.Payer, id, false); err != nil {
			return err
		}
		if _, err := tx.ReplanRecord(c.Payer.Connection, c.Payer.SourceID); err != nil {
			return err
		}
		return tx.CloseWith(r.id, c, connector.ChangeDone, "", "")
	})
}

// attempt is one sending of a create.
type attempt struct {
	state.Attempt
	body  []byte
	alone bool // no earlier attempt can have made the customer, or still make it
}

// send posts the frozen bytes and stores the answer.
func (r *run) send(ctx context.Context, c state.Change, a attempt) error {
	made, err := r.post(ctx, c, a)
	if err != nil || made == nil {
		return err
	}
	return r.saveMade(ctx, c, a.Attempt, *made)
}

// post posts the frozen bytes and returns the customer in the answer. It returns nil if there is none, or if the answer
// names another key, with the change closed.
func (r *run) post(ctx context.Context, c state.Change, a attempt) (*connector.RemoteCustomer, error) {
	made, err := r.Billing.CreateCustomer(ctx, a.body)
	switch {
	case errors.Is(err, errLate) && errors.Is(err, connector.ErrNeverTried): // see inTime
		return nil, err
	case errors.Is(err, connector.ErrNeverTried): // nobody waits for it
		return nil, errors.Join(err, r.thaw(ctx, []state.Sent{{Change: c, Attempt: a.Attempt}}))
	case err != nil:
		return nil, errors.Join(r.createFailed(ctx, c, a, err), r.end(ctx, c, a.Attempt, err))
	}
	key := c.Payer.Key
	if carried := connector.KeyIn(made.ExternalData, key.Name); carried.Value != "" && !key.MayBe(carried) {
		return nil, errors.Join(r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonAnswerMismatch, ""),
			r.end(ctx, c, a.Attempt, nil))
	}
	if connector.KeyIn(made.ExternalData, key.Name) != key {
		made.ExternalData = c.Wanted.ExternalData // the answer need not repeat the request
	}
	return &made, nil
}

// saveMade stores the customer in the answer to a create.
func (r *run) saveMade(ctx context.Context, c state.Change, a state.Attempt, made connector.RemoteCustomer) error {
	return r.record(ctx, c, func(tx *state.Tx) error {
		if err := tx.Created(r.id, c, made.ID); err != nil {
			return err
		}
		if err := tx.EndAttempt(a, state.AttemptAnswered); err != nil {
			return err
		}
		if err := dropUnasked(tx, c.Payer, made.Mandate); err != nil {
			return err
		}
		_, err := reconcile.Observe(tx, reconcile.OfCustomer(made, a.Ticket, connector.CauseCreate, r.cause()))
		return err
	})
}

// dropUnasked removes the signing link from a new customer's mandate, unless a plan has approved a link request for
// this payer. Payers without such a plan receive no mail.
func dropUnasked(tx *state.Tx, p state.Payer, m *connector.Mandate) error {
	if m == nil || m.URL == "" {
		return nil
	}
	asked, err := tx.LinkReleased(p)
	if err != nil || asked {
		return err
	}
	m.URL = ""
	return nil
}

// end notes the end of an attempt: answered if err is nil, otherwise failed with err. It notes nothing for an attempt
// without an answer.
func (r *run) end(ctx context.Context, c state.Change, a state.Attempt, err error) error {
	how, known := endOf(err)
	if !known {
		return nil
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if err := tx.EndAttempt(a, how); err != nil || how != state.AttemptAnswered || c.Payer.BillingID == "" {
			return err
		}
		return tx.Answered(c.Payer)
	})
}

// endOf returns the end of an attempt: answered if err is nil, otherwise failed with err. known is false if it is
// unknown.
func endOf(err error) (how state.AttemptEnd, known bool) {
	if err == nil {
		return state.AttemptAnswered, true
	}
	switch connector.FaultOf(err) {
	case "", connector.FaultUnknown:
		return "", false
	case connector.FaultUnavailable:
		return state.AttemptUnsent, true
	}
	return state.AttemptRefused, true
}

// createFailed records a failed create. A refusal concerns this attempt alone: while an earlier attempt may have
// created the customer, the outcome stays unknown. A missing endpoint is not the fault of the record.
func (r *run) createFailed(ctx context.Context, c state.Change, a attempt, err error) error {
	var remote *connector.RemoteError
	switch {
	case errors.As(err, &remote) && (remote.Status == http.StatusNotFound || remote.Status == http.StatusMethodNotAllowed):
		return fmt.Errorf("the billing service takes no customers at this address: %w", err)
	case connector.FaultOf(err) == connector.FaultRejected && !a.alone:
		return r.leaveUnknown(ctx, c, "")
	}
	return r.requestFailed(ctx, c, err)
}

// record writes a definite answer. It holds the change for a person if the answer names another payer's customer, or
// the payer has another customer by now (fault F07).
func (r *run) record(ctx context.Context, c state.Change, write func(*state.Tx) error) error {
	err := r.Ledger.Do(context.WithoutCancel(ctx), write)
	switch {
	case errors.Is(err, state.ErrCustomerTaken):
		return r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonAnswerMismatch, "")
	case errors.Is(err, state.ErrLinkedAlready):
		return r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonKeyDoubled,
			"The request that makes the customer was answered when the record had another one already. Decide which one is right.")
	}
	return err
}
