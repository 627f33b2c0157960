package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// The reasons why the differences between a record and its customer are unknown.
var (
	// ErrNothingToCompare means the record is not sent, or none of our values was ever seen on its customer.
	ErrNothingToCompare = errors.New("the record is not sent as it is, or nothing of it was ever seen on a customer")
	// ErrCustomerGone means the service reports the customer as nonexistent.
	ErrCustomerGone = errors.New("its customer does not exist any more")
	// ErrNoSuchField means a named field does not differ.
	ErrNoSuchField = errors.New("this field does not differ")
	// ErrNothingDiffers means none of our fields differs.
	ErrNothingDiffers = errors.New("nothing of ours differs on its customer")
	// ErrReadMeanwhile means the customer or the payer has changed since the read.
	ErrReadMeanwhile = errors.New("the customer has moved meanwhile; look at it again")
)

// Drift holds the differences between a payer's record and its customer, by a read of the customer has just
// shown it.
type Drift struct {
	Payer  state.Payer
	Fields []connector.FieldChange // From is the customer's value, To is ours

	places map[string]string  // of the wanted fields, without accepted removals
	mapped connector.Customer // the mapped customer of the record
	own    []string           // parts with a mapping rule
	seen   customerRead
}

// DriftOf reads the customer of a linked record and compares the two. Nothing is noted.
func (s *Syncer) DriftOf(ctx context.Context, conn Connection, p state.Payer) (Drift, error) {
	d := Drift{Payer: p, own: conn.Mapping.Own(), places: map[string]string{}}
	stored, err := s.Ledger.StoredRecord(ctx, p.Connection, p.SourceID, conn.Mapping.Version())
	if err != nil {
		return d, err
	}
	r := &run{Syncer: s, conn: conn}
	m, err := r.render(stored.Candidate)
	switch {
	case err != nil:
		return d, err
	case stored.InFlight:
		return d, state.ErrUnderWay
	case m.Usability != protocol.Included || stored.Payer == nil || stored.Payer.BillingID == "" ||
		stored.Payer.Applied == nil:
		return d, ErrNothingToCompare
	}
	d.Payer = *stored.Payer
	d.mapped = conn.Mapping.Owned(m.Customer, *d.Payer.Applied)
	if d.seen, err = r.readCustomer(ctx, d.Payer.BillingID); err != nil {
		return d, err
	}
	if d.seen.missing {
		return d, ErrCustomerGone
	}
	d.Fields, err = s.differing(&d, d.seen.customer, d.Payer.Applied)
	return d, err
}

// differing lists the differences between a record and the given version of its customer.
func (s *Syncer) differing(d *Drift, customer connector.RemoteCustomer,
	last *connector.Customer) (out []connector.FieldChange, err error) {
	fields, err := s.Billing.Drift(customer, last, d.mapped.With(d.Payer.Accepted), d.own)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		if d.isOfKey(f.Path) {
			continue // another key, or none, has a finding of its own
		}
		place := f.Path
		f.Path = d.mapped.PathBefore(place, d.Payer.Accepted)
		f.To, d.places[f.Path] = d.mapped.At(f.Path), place
		out = append(out, f)
	}
	return out, nil
}

// isOfKey reports whether a path belongs to the customer's present or future key. Nobody can accept another value for
// it.
func (d Drift) isOfKey(path string) bool {
	return slices.ContainsFunc([]connector.Key{d.Payer.Key, d.Payer.Moves}, func(key connector.Key) bool {
		return path == "externalData."+key.Name || path == "externalData."+connector.ScopeName(key.Name)
	})
}

// TakeTheirs notes an operator's acceptance of the customer's values in some fields; no paths means all differing
// fields. The values count as confirmed. They are overwritten only when our record changes.
func (s *Syncer) TakeTheirs(ctx context.Context, d Drift, paths []string, by Operator) error {
	switch {
	case len(d.Fields) == 0 && len(d.Payer.Accepted) > 0: // it was said before
		return nil
	case len(d.Fields) == 0:
		return ErrNothingDiffers
	}
	for _, path := range paths {
		if !slices.ContainsFunc(d.Fields, func(f connector.FieldChange) bool { return f.Path == path }) {
			return fmt.Errorf("%s: %w", path, ErrNoSuchField)
		}
	}
	return s.accept(ctx, d, d.taken(paths), by, "take theirs")
}

// taken returns the accepted values for the given paths; no paths means all differing fields.
func (d Drift) taken(paths []string) []connector.Accepted {
	var taken []connector.Accepted
	for _, f := range d.Fields {
		if len(paths) > 0 && !slices.Contains(paths, f.Path) {
			continue
		}
		a := connector.Accepted{Path: f.Path, Ours: f.To, Theirs: f.From}
		if whole := d.takenAway(f.Path); whole != "" {
			d.places[whole], _, _ = strings.Cut(d.places[f.Path], ".")
			a = connector.Accepted{Path: whole, Ours: d.mapped.At(whole)}
		}
		if !slices.Contains(taken, a) {
			taken = append(taken, a)
		}
	}
	return taken
}

// takenAway returns the contact or address of a field if the customer no longer shows any of it; "" otherwise.
func (d Drift) takenAway(path string) string {
	whole, _, element := strings.Cut(path, "].")
	if !element {
		return ""
	}
	whole += "]"
	for _, ours := range connector.Diff(connector.Customer{}, d.mapped) {
		if strings.HasPrefix(ours.Path, whole+".") &&
			!slices.ContainsFunc(d.Fields, func(f connector.FieldChange) bool { return f.Path == ours.Path && f.From == "" }) {
			return ""
		}
	}
	return whole
}

// IgnoreParts notes an operator's decision to leave parts of the customer (name, people, addresses) to the billing
// service from now on, independent of the record.
func (s *Syncer) IgnoreParts(ctx context.Context, d Drift, parts []string, by Operator) error {
	var ignored []connector.Accepted
	for _, part := range parts {
		if !slices.Contains(d.own, part) {
			return fmt.Errorf("%s: the mapping owns %s", part, strings.Join(d.own, ", "))
		}
		// else it was said before
		if a := (connector.Accepted{Path: part, Ignored: true}); !slices.Contains(d.Payer.Accepted, a) {
			ignored = append(ignored, a)
		}
	}
	if len(ignored) == 0 {
		return nil
	}
	return s.accept(ctx, d, ignored, by, "ignore drift")
}

// beside returns what is accepted from now on: more, beside what was accepted before and
// still stands. More of a whole contact or address replaces what was accepted of its fields.
func (d Drift) beside(more []connector.Accepted) []connector.Accepted {
	for _, a := range d.Payer.Accepted {
		if a.Holds(d.mapped) && !slices.ContainsFunc(more,
			func(m connector.Accepted) bool { return m.Path == a.Path || strings.HasPrefix(a.Path, m.Path+".") }) {
			more = append(slices.Clip(more), a)
		}
	}
	return more
}

// accept adds an operator's new acceptances to the earlier ones still in force. The customer's accepted values count as
// applied. The read tells how many of them the customer shows.
func (s *Syncer) accept(ctx context.Context, d Drift, more []connector.Accepted, by Operator, action string) error {
	if by.Reason == "" {
		return fmt.Errorf("%s: %w", action, ErrReasonNeeded)
	}
	accepted, before := d.beside(more), make([]connector.Accepted, len(more))
	for i, a := range more {
		a.Path = cmp.Or(d.places[a.Path], a.Path)
		a.Ours = d.Payer.Applied.At(a.Path)
		before[i] = a
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		p, err := tx.PayerByBillingID(d.Payer.BillingID)
		if err != nil {
			return err
		}
		if p.AppliedHash != d.Payer.AppliedHash || !slices.Equal(p.Accepted, d.Payer.Accepted) {
			return ErrReadMeanwhile
		}
		if err := errors.Join(tx.Accept(p, accepted), tx.SetApplied(p, p.Applied.With(before))); err != nil {
			return err
		}
		seen, err := reconcile.Observe(tx,
			reconcile.OfCustomer(d.seen.customer, d.seen.ticket, connector.CauseUpdate, "operator "+by.Name))
		switch {
		case err != nil:
			return err
		case seen.Stale:
			return ErrReadMeanwhile
		case !seen.Drifted:
			tx.Explain(p, state.TopicLink, "", "")
		}
		return errors.Join(err, tx.Audit(state.Entry{Actor: by.Name, Action: action, Subject: p.SourceID + " " + p.BillingID +
			" " + pathsOf(more), Reason: by.Reason}))
	})
}

// pathsOf returns the paths of the accepted fields. Their values do not reach the audit log.
func pathsOf(accepted []connector.Accepted) string {
	paths := connector.Map(accepted, func(a connector.Accepted) string { return a.Path })
	return strings.Join(paths, ",")
}

// SendOurs notes an operator's decision to send the record as it is and to drop earlier acceptances. The next plan
// shows it as an update, within the limits.
func (s *Syncer) SendOurs(ctx context.Context, d Drift, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("send ours: %w", ErrReasonNeeded)
	}
	if len(d.Fields) == 0 && len(d.Payer.Accepted) == 0 {
		return ErrNothingDiffers
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		p, err := tx.PayerByBillingID(d.Payer.BillingID)
		if err != nil {
			return err
		}
		if before, err := tx.IsRetried(p.Connection, p.SourceID); err != nil || before && len(p.Accepted) == 0 {
			return err
		}
		if err := tx.Accept(p, nil); err != nil {
			return err
		}
		_, err = tx.RetryRecord(p.Connection, p.SourceID)
		return errors.Join(err, tx.Audit(state.Entry{Actor: by.Name, Action: "send ours", Subject: p.SourceID + " " +
			p.BillingID, Reason: by.Reason}))
	})
}
