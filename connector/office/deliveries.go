package office

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// Deliveries is what people do about deliveries of webhooks: look into one, have it read
// again, or give it up.
type Deliveries struct {
	Ledger *state.Ledger
	Read   func(typeHeader, eventType string, body []byte) []state.Delivery // what a kept delivery says, as server.RereadEvents does by the present configuration
	Try    func(context.Context) (Tested, error)                            // sends a signed test delivery through the public address; nil where no webhook is configured

	// Subscribe asks the billing service to send webhooks, for a person, and says what was done.
	// It is nil where no webhook is configured.
	Subscribe func(ctx context.Context, by string) (string, error)
}

// Tested is what a signed test delivery showed of the way that deliveries come.
type Tested struct {
	OK     bool
	Detail string // what came back
	Next   string // what to do where it did not arrive
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

// What cannot be done with a delivery.
var (
	// ErrNoDelivery means that no delivery has a key, or that several begin with it.
	ErrNoDelivery = errors.New("no delivery has this key, or several begin with it")
	// ErrAboutNobody means that a delivery names neither a customer nor a mandate.
	ErrAboutNobody = errors.New("it names neither a customer nor a mandate, so there is nothing to read")
)

// NotUnderstoodError means that a delivery is still not understood.
type NotUnderstoodError struct{ Detail string }

// Error says why.
func (e NotUnderstoodError) Error() string { return e.Detail }

// NotWaitingError means that a delivery does not wait for a person.
type NotWaitingError struct{ State string }

// Error says how it stands.
func (e NotWaitingError) Error() string {
	return fmt.Sprintf("it is %s, and only quarantined and parked deliveries wait to be closed", e.State)
}

// Named returns the delivery that a person means by its key, of which the hash at the end may
// be left out, with its body: none where that is not kept any more. It fails with
// ErrNoDelivery.
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
		err = nil // what it is about is known all the same
	}
	return *found, body, err
}

// NoteShown writes into the audit log that somebody is about to see a delivery's body.
func (d *Deliveries) NoteShown(ctx context.Context, key, by string) error {
	return d.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by, Action: "show delivery body", Subject: key})
	})
}

// Replay puts a delivery back into the inbox, so that its customer is read once more; one that
// was not understood is read anew before. It fails with ErrNoDelivery, ErrAboutNobody or a
// NotUnderstoodError.
func (d *Deliveries) Replay(ctx context.Context, name, by string) error {
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
			_, err = PutBack(tx, found.DeliveryKey, anew)
		} else {
			_, err = tx.ReplayDelivery(found.DeliveryKey)
		}
		if err != nil {
			return err
		}
		return tx.Audit(state.Entry{Actor: by, Action: "replay delivery", Subject: found.DeliveryKey})
	})
}

// Understood reports whether what was read anew tells of anybody or anything that is known.
func Understood(anew []state.Delivery) bool {
	return slices.ContainsFunc(anew, func(d state.Delivery) bool { return d.State != connector.InboxQuarantined })
}

// PutBack puts a quarantined delivery back into the inbox as it was read anew: as one, or as the
// events that it carries. It reports false where somebody else has closed or replayed it.
func PutBack(tx *state.Tx, key string, anew []state.Delivery) (bool, error) {
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

// closedByPerson is what is said of a delivery that a person gave up.
const closedByPerson = "It was closed by a person; the audit log has the reason."

// Close gives a delivery up that was not understood, or whose customer nobody knows, and
// reports whether that was done before. It fails with ErrNoDelivery or a NotWaitingError.
func (d *Deliveries) Close(ctx context.Context, name string, by syncer.Operator) (key string, before bool, err error) {
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
