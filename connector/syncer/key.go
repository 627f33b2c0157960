package syncer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/mapping"
	"payersync/state"
)

// keyKnown is what is known of the key of a payer that has no customer yet: the facts
// to decide by, and the names to tell a person.
type keyKnown struct {
	facts   protocol.Facts
	key     connector.Key
	rival   string    // record that has the same key
	holders []string  // customers that carry the key
	other   string    // record that the customer with the key, or one that had it, is linked to
	sender  string    // record whose create with the key may still arrive
	arrived time.Time // when that must have arrived
	alike   []string  // customers that look like the record
}

// believed stands for the ticket of the index that this run goes by: settleIndex has
// seen to it, or nothing new is planned.
const believed = 1

// gatherKey gathers what is known of the key of a record without a customer. A create of
// the payer's own that is open is taken up before any plan is made.
func (r *run) gatherKey(ctx context.Context, d state.Decision, res mapping.Result) (keyKnown, error) {
	k := keyKnown{key: res.Key, facts: protocol.Facts{
		Key:    res.Key.String(),
		Record: protocol.Record{Standing: protocol.Included, Key: res.Key.String(), Hash: res.Customer.Hash(), Mandate: res.RequestMandate},
		Index:  protocol.Index{Since: believed, Now: true},
	}}
	for _, gather := range []func(context.Context, state.Decision, mapping.Result, *keyKnown) error{r.gatherRival, r.gatherHolders, r.gatherSenders, r.gatherAlike} {
		if err := gather(ctx, d, res, &k); err != nil {
			return k, err
		}
	}
	// What the plan would let go, so that the step says what that is.
	k.facts.Approved = protocol.Intent{Action: connector.ActionCreate, Hash: k.facts.Record.Hash}
	if k.facts.Holders == protocol.Free {
		k.facts.Approved.Action, k.facts.Approved.Customer = connector.ActionAdopt, k.facts.Holder
	}
	return k, nil
}

func (r *run) gatherRival(ctx context.Context, d state.Decision, res mapping.Result, k *keyKnown) (err error) {
	if k.rival, err = r.rival(ctx, res.Key, d.SourceID); k.rival != "" {
		k.facts.Rival = protocol.RivalRecord
	}
	return err
}

// rival returns another record that has the key, "" for none. A forecast goes by the keys
// as they would be.
func (r *run) rival(ctx context.Context, key connector.Key, sourceID string) (string, error) {
	switch {
	case r.claims == nil:
		return r.Ledger.KeyRival(ctx, key, r.conn.Name, sourceID)
	case r.claims[key] > 1:
		return "another", nil
	}
	return "", nil
}

func (r *run) gatherHolders(ctx context.Context, d state.Decision, res mapping.Result, k *keyKnown) (err error) {
	if k.holders, err = r.Ledger.KeyHolders(ctx, res.Key); err != nil {
		return err
	}
	if k.other, err = r.Ledger.KeyLinkedTo(ctx, res.Key, r.conn.Name, d.SourceID); err != nil {
		return err
	}
	if k.other != "" && k.rival == "" {
		k.facts.Rival = protocol.RivalLink
	}
	switch len(k.holders) {
	case 0:
		return nil
	case 1:
		k.facts.Holders, k.facts.Holder = protocol.Free, k.holders[0]
	default:
		k.facts.Holders = protocol.Several
		return nil
	}
	linked, err := r.Ledger.LinkedTo(ctx, k.holders[0])
	if err == nil && linked != "" {
		k.facts.Holders, k.other = protocol.Another, linked
	}
	return err
}

func (r *run) gatherSenders(ctx context.Context, d state.Decision, res mapping.Result, k *keyKnown) error {
	creates, err := r.Ledger.CreatesUnderWay(ctx, res.Key, r.arrived)
	if err != nil {
		return err
	}
	for _, c := range creates {
		if c.Connection == r.conn.Name && c.SourceID == d.SourceID {
			continue
		}
		a := protocol.Attempt{Seq: c.Ticket, Action: connector.ActionCreate}
		at := c.SentAt.Add(r.Settings.ResendWithin)
		if !r.Ledger.Now().Before(at) {
			a.Over = believed // it can arrive no more, and the index is from before
		}
		k.facts.Others = append(k.facts.Others, a)
		if k.arrived.Before(at) {
			k.sender, k.arrived = c.SourceID, at
		}
	}
	return nil
}

func (r *run) gatherAlike(ctx context.Context, _ state.Decision, res mapping.Result, k *keyKnown) (err error) {
	if r.Settings.Adopt == AdoptExact || len(k.holders) > 0 {
		return nil
	}
	k.alike, err = r.Ledger.Alike(ctx, res.Customer, res.Key.Name)
	k.facts.Alike = len(k.alike) > 0
	return err
}

// because says a reason with the names that it is about; "" for its own sentence.
func (k keyKnown) because(reason connector.Reason) string {
	switch {
	case reason == connector.ReasonKeyShared && k.rival != "":
		return fmt.Sprintf("The key %s is also used by record %s. Neither is sent.", k.key.Name, k.rival)
	case reason == connector.ReasonKeyDoubled:
		return fmt.Sprintf("The customers %s in the billing service carry the same key. Nothing is sent for this record.", strings.Join(k.holders, " and "))
	case reason == connector.ReasonOtherKey && k.facts.Holder != "":
		return fmt.Sprintf("The customer %s with this key is linked to record %s.", k.facts.Holder, k.other)
	case reason == connector.ReasonOtherKey:
		return fmt.Sprintf("Record %s is linked to a customer that had this key.", k.other)
	case reason == connector.ReasonKeyUnderWay:
		return fmt.Sprintf("A request for record %s with the same key may still arrive. Nothing is sent before that is over.", k.sender)
	case reason == connector.ReasonLikeness:
		return fmt.Sprintf("The customer %s in the billing service has the same name or e-mail address and no key of ours. Nothing is sent before you decide.", strings.Join(k.alike, ", "))
	}
	return ""
}
