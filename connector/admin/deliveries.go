package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// Deliveries holds people's acts on deliveries of webhooks: look into one, have it read again, or give it up.
type Deliveries struct {
	Ledger *state.Ledger
	// parses a kept delivery, like server.RereadEvents with the present configuration
	Read func(typeHeader, eventType string, body []byte) []state.Delivery
	// sends a signed test delivery through the public address; nil without a configured webhook
	Try func(context.Context) (Tested, error)

	// Subscribe subscribes to webhooks at the billing service for a person, and describes the result. It is nil if no
	// webhook is configured.
	Subscribe func(ctx context.Context, by string) (string, error)
}

// Tested is the result of a signed test delivery.
type Tested struct {
	OK     bool
	Detail string // the answer
	Next   string // the next step if it did not arrive
}

// SendTest sends a signed test delivery through the public address. The audit log has it before
// it leaves.
func (d *Deliveries) SendTest(ctx context.Context, by string) (Tested, error) {
	if err := d.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by, Action: "send test delivery", Subject: "webhook"})
	}); err != nil {
		return Tested{}, err
	}
	return d.Try(ctx)
}

// The errors of actions on deliveries.
var (
	// ErrNoDelivery means no delivery has a key, or several start with it.
	ErrNoDelivery = errors.New("no delivery has this key, or several begin with it")
	// ErrAboutNobody means a delivery names neither a customer nor a mandate.
	ErrAboutNobody = errors.New("it names neither a customer nor a mandate, so there is nothing to read")
)

// NotUnderstoodError means a delivery is still not understood.
type NotUnderstoodError struct{ Detail string }

// Error says why.
func (e NotUnderstoodError) Error() string { return e.Detail }

// NotWaitingError means a delivery does not wait for a person.
type NotWaitingError struct{ State string }

// Error says why.
func (e NotWaitingError) Error() string {
	return fmt.Sprintf("it is %s, and only quarantined and parked deliveries wait to be closed", e.State)
}

// Named returns the delivery with a key, and its body: nil if no longer stored. The key's final hash may be omitted. It
// fails with ErrNoDelivery.
func (d *Deliveries) Named(ctx context.Context, name string) (state.StoredDelivery, []byte, error) {
	found, err := d.Ledger.DeliveryNamed(ctx, name)
	if err != nil {
		return state.StoredDelivery{}, nil, err
	}
	if found == nil {
		return state.StoredDelivery{}, nil, ErrNoDelivery
	}
	body, err := d.Ledger.DeliveryBody(ctx, found.DeliveryKey)
	if errors.Is(err, state.ErrBodyErased) {
		err = nil // its subject is known all the same
	}
	return *found, body, err
}

// NoteShown notes in the audit log a person's access to a delivery's body.
func (d *Deliveries) NoteShown(ctx context.Context, key, by string) error {
	return d.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by, Action: "show delivery body", Subject: key})
	})
}

// proposeReplay returns a delivery to the inbox, so its customer is read once more. A delivery not understood is parsed
// again first. It fails with ErrNoDelivery, ErrAboutNobody or a NotUnderstoodError.
func (a *Attention) proposeReplay(_ context.Context, p *Proposal) error {
	name := p.Delivery
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Deliveries.replay(ctx, name, by) })
	return nil
}

func (a *Attention) proposeCloseDelivery(_ context.Context, p *Proposal) error {
	name := p.Delivery
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		before := false
		out.Key, before, err = a.Deliveries.close(ctx, name, by)
		out.News = !before
		return err
	}
	return nil
}

// ErrNoWebhook means no webhook is configured.
var ErrNoWebhook = errors.New("no webhook is configured, so there is no address to subscribe")

func (a *Attention) proposeSubscribe(_ context.Context, p *Proposal) error {
	if a.Deliveries.Subscribe == nil {
		return ErrNoWebhook
	}
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		out.Says, err = a.Deliveries.Subscribe(ctx, by.Name)
		return err
	}
	return nil
}

func (d *Deliveries) replay(ctx context.Context, name string, by syncer.Operator) error {
	found, body, err := d.Named(ctx, name)
	if err != nil {
		return err
	}
	quarantined := found.State == string(connector.InboxQuarantined)
	if !quarantined && found.BillingID == "" && found.MandateID == "" {
		return ErrAboutNobody
	}
	anew := d.Read(found.TypeHeader, found.EventType, body)
	if quarantined && !Understood(anew) {
		return NotUnderstoodError{anew[0].Detail}
	}
	return d.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if quarantined {
			_, err = putBack(tx, found.DeliveryKey, anew)
		} else {
			_, err = tx.ReplayDelivery(found.DeliveryKey)
		}
		if err != nil {
			return err
		}
		return tx.Audit(state.Entry{Actor: by.Name, Action: "replay delivery", Subject: found.DeliveryKey, Reason: by.Reason})
	})
}

// Understood reports whether a newly parsed delivery names a known subject.
func Understood(anew []state.Delivery) bool {
	return slices.ContainsFunc(anew, func(d state.Delivery) bool { return d.State != connector.InboxQuarantined })
}

// putBack returns a quarantined delivery to the inbox as newly parsed: as one event, or as its several events. It
// reports false if somebody else has closed or replayed it.
func putBack(tx *state.Tx, key string, anew []state.Delivery) (bool, error) {
	if anew[0].Key != "" {
		return tx.SplitDelivery(key, anew)
	}
	one := anew[0]
	one.Key = key
	if still, err := tx.RereadDelivery(one); err != nil || !still {
		return false, err
	}
	_, err := tx.ReplayDelivery(key)
	return true, err
}

// PutBackAll returns quarantined deliveries to the inbox as newly parsed, by their keys, with one entry in the audit
// log. It returns how many went back.
func PutBackAll(ctx context.Context, ledger *state.Ledger, anew map[string][]state.Delivery, by string) (n int, err error) {
	err = ledger.Do(ctx, func(tx *state.Tx) error {
		n = 0
		for _, key := range slices.Sorted(maps.Keys(anew)) {
			still, err := putBack(tx, key, anew[key])
			if err != nil {
				return err
			}
			if still {
				n++
			}
		}
		if n == 0 {
			return nil
		}
		return tx.Audit(state.Entry{Actor: by, Action: "replay deliveries", Subject: "quarantined",
			Reason: connector.Plural(n, "delivery") + " understood anew"})
	})
	return n, err
}

// closedByPerson is the detail of a delivery closed by a person.
const closedByPerson = "It was closed by a person; the audit log has the reason."

// close closes a delivery not understood or without a known customer, and reports whether this was done before. It
// fails with ErrNoDelivery or a NotWaitingError.
func (d *Deliveries) close(ctx context.Context, name string, by syncer.Operator) (key string, before bool, err error) {
	found, _, err := d.Named(ctx, name)
	if err != nil {
		return "", false, err
	}
	if found.State == string(connector.InboxIgnored) && found.Detail == closedByPerson {
		return found.DeliveryKey, true, nil
	}
	closed := false
	err = d.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if closed, err = tx.DismissDelivery(found.DeliveryKey, closedByPerson); err != nil || !closed {
			return err
		}
		return tx.Audit(state.Entry{Actor: by.Name, Action: "close delivery", Subject: found.DeliveryKey, Reason: by.Reason})
	})
	if err == nil && !closed {
		err = NotWaitingError{found.State}
	}
	return found.DeliveryKey, false, err
}
