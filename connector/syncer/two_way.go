package syncer

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/state"
)

// TwoWay decides what the syncer sends if the billing service may have its own connection to the accounting
// system. In this case both systems write the same records in turn, and each creates the other's customers a
// second time.
type TwoWay string

// The choices. TwoWayAuto links only after the service's own connection has been detected.
const (
	TwoWayAuto     TwoWay = "auto"
	TwoWayLinkOnly TwoWay = "link_only"
	TwoWayWrite    TwoWay = "write"
)

// strays is the number of customers with a pair of the accounting system's kind to tolerate. Such a pair may
// be a mistake or another organisation's, unless it names a record of ours.
const strays = 1

// A person entering a change on both sides does so occasionally; the service's own connection does so always and soon.
// This many records within this time are no accident, provided payersync itself came first for fewer.
const (
	echoesTell   = 5
	echoesWithin = 14 * 24 * time.Hour
)

// WayOutOfTwoWay explains the choices to a person for a connection with links only.
const WayOutOfTwoWay = "Say what you want in connections[].two_way: link_only keeps it so, write lets payersync write as well."

// linksOnly reports whether a connection links only, by the known facts.
func (c Connection) linksOnly(known state.TwoWay) bool {
	switch c.TwoWay {
	case TwoWayLinkOnly:
		return true
	case TwoWayWrite:
		return false
	}
	return !known.Found.IsZero()
}

// lookForTwoWay checks whether the billing service has its own connection to this accounting system, and
// notes the result. It uses earlier lists and reads, and sends no requests.
//
// One customer with a foreign pair of the accounting system's kind is enough if the pair names a record of
// ours; otherwise several are needed. Changes of the accounting system found on customers before payersync
// has sent them count too. A restored ledger does not know all its writes, so pairs with our key's name then
// prove nothing.
func (r *run) lookForTwoWay(ctx context.Context) error {
	known, err := r.Ledger.TwoWay(ctx, r.conn.Name)
	if err != nil {
		return err
	}
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if known.Found.IsZero() {
			found, err := r.foreignPairs(tx)
			if err != nil {
				return err
			}
			if found.Customers <= strays && found.Matching == 0 {
				if found, err = r.echoes(tx); err != nil {
					return err
				}
			}
			if found.Customers > strays || found.Matching > 0 || found.Echoes > 0 {
				known.Found, known.Customers, known.Echoes = r.Ledger.Now(), found.Customers, found.Echoes
				if err := tx.FoundTwoWay(found); err != nil {
					return err
				}
			}
		}
		if r.linkOnly = r.conn.linksOnly(known); r.linkOnly {
			r.addNote(saysLinkOnly(known))
		}
		return tx.SetLinkOnly(r.conn.Name, r.linkOnly, cmp.Or(r.opts.Actor, "payersync"))
	})
}

func (r *run) foreignPairs(tx *state.Tx) (state.TwoWay, error) {
	found := state.TwoWay{Connection: r.conn.Name}
	if r.conn.Native == "" {
		return found, nil
	}
	pairs, err := tx.ForeignPairs(r.conn.Name, r.conn.Native)
	if err != nil || len(pairs) == 0 {
		return found, err
	}
	restored, err := tx.WasRestored()
	if err != nil || restored && r.conn.Mapping.KeyName() == r.conn.Native {
		return found, err
	}
	found.Customers, found.Example = len(pairs), pairs[0].BillingID
	for _, p := range pairs {
		if p.Matching {
			found.Matching++
		}
	}
	return found, nil
}

// echoes returns the records with changes carried over by another system, if there are too many for an accident.
func (r *run) echoes(tx *state.Tx) (state.TwoWay, error) {
	found := state.TwoWay{Connection: r.conn.Name}
	echoed, sent, err := tx.Echoes(r.conn.Name, tx.Now().Add(-echoesWithin))
	if echoed >= echoesTell && echoed > sent {
		found.Echoes = echoed
	}
	return found, err
}

// isEcho reports whether a customer shows the values of an update never sent, and did not show them after payersync's
// last write. holds is the hash of our values in the read.
func (r *run) isEcho(c state.Change, fetched connector.RemoteCustomer, base *connector.Customer, holds string) bool {
	if c.Attempts > 0 || c.Payer.AppliedHash == "" || holds == c.Payer.AppliedHash {
		return false
	}
	_, changed, err := r.Billing.MergeCustomer(fetched, base, c.Wanted, r.conn.Mapping.Own())
	return err == nil && !changed
}

// Evidence describes the evidence for the service's own connection to an accounting system.
func Evidence(known state.TwoWay) string {
	if known.Echoes > 0 {
		return fmt.Sprintf("changes of %s were on their customers before payersync had sent them",
			connector.Plural(known.Echoes, "record"))
	}
	return fmt.Sprintf("%s a key of this kind of accounting system that payersync did not write",
		connector.Plural(known.Customers, "customer")+map[bool]string{true: " carries",
			false: " carry"}[known.Customers == 1])
}

// saysLinkOnly describes a connection with links only, the reason, and the alternatives.
func saysLinkOnly(known state.TwoWay) string {
	const does = "Customers that exist are linked and asked for mandates; none is created or changed. "
	if known.Found.IsZero() {
		return does + "That is so by connections[].two_way: link_only."
	}
	return fmt.Sprintf("The billing service has its own connection to this accounting system: %s. %s"+WayOutOfTwoWay,
		Evidence(known), does)
}

// withheld returns a decision without its customer change, with the explanation, for a connection with links only.
func (r *run) withheld(d state.Decision, does, next string) state.Decision {
	d.Customer, d.Facts = nil, d.Facts.WithheldUpdates()
	return d.Because(connector.ReasonTwoWay,
		strings.TrimSpace(fmt.Sprintf("%s is withheld, because this connection links only. %s", does, next)))
}

// linkNew is the decision on a new payer for a connection with links only: it links a customer with the payer's key
// unchanged, and withholds everything else.
func (r *run) linkNew(d state.Decision, k keyKnown) state.Decision {
	if !r.linkOnly || d.Customer == nil {
		return d
	}
	if d.Customer.Action == connector.ActionAdopt && !k.byWord && !k.unscoped {
		d.Customer.Diff, d.Customer.Seen, d.Facts = nil, true, d.Facts.WithheldUpdates()
		return d
	}
	d.Verdict, d.Topic, d.Link = state.Held, state.TopicRecord, false
	if d.Customer.Action == connector.ActionAdopt {
		return r.withheld(d, "Writing the key on customer "+d.Customer.BillingID, "")
	}
	next := ""
	if r.conn.Native != "" && k.key.Name != r.conn.Native {
		next = fmt.Sprintf("If the service has made the customer itself, a mapping whose key is called %s finds it.",
			r.conn.Native)
	}
	return r.withheld(d, "Creating the customer", next)
}

// linkAlone finishes a link for a connection with links only. It writes nothing.
func (r *run) linkAlone(ctx context.Context, c state.Change) error {
	return r.closeWith(ctx, c, connector.ChangeDone, "", "")
}
