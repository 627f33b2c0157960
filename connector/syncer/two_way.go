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

// TwoWay says what is sent where the billing service may have an accounting connection of its
// own to the books: then two write one record, each after the other, and a customer that one
// makes the other makes once more.
type TwoWay string

// The choices. TwoWayAuto links only once it was found that the service has such a connection.
const (
	TwoWayAuto     TwoWay = "auto"
	TwoWayLinkOnly TwoWay = "link_only"
	TwoWayWrite    TwoWay = "write"
)

// strays is how many customers with a pair of the books' kind may be a mistake, or another
// organisation's, while none of them names a record of ours. A customer that does is none.
const strays = 1

// Somebody who enters a change on both sides does so now and then; a connection of the service's
// own, always and soon. So many records within so long are no accident, where payersync itself
// came first for fewer.
const (
	echoesTell   = 5
	echoesWithin = 14 * 24 * time.Hour
)

// WayOutOfTwoWay says what a person can do about a connection that links only.
const WayOutOfTwoWay = "Say what you want in connections[].two_way: link_only keeps it so, write lets payersync write as well."

// linksOnly reports whether a connection links only, for what is known of it.
func (c Connection) linksOnly(known state.TwoWay) bool {
	switch c.TwoWay {
	case TwoWayLinkOnly:
		return true
	case TwoWayWrite:
		return false
	}
	return !known.Found.IsZero()
}

// lookForTwoWay looks whether the billing service has an accounting connection of its own to
// these books, in what lists and reads have shown, and notes it. It asks nobody anything.
//
// A customer with a pair of the books' kind that we did not write shows it: one that names a
// record of ours at once, and others when there are several. So do changes of the books that
// customers show before we have sent them. A ledger that was put back does
// not know all that it wrote, so that pairs of our key's own name show nothing then.
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
			r.tell(saysLinkOnly(known))
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

// echoes returns the records whose changes somebody else carries, where they are no accident.
func (r *run) echoes(tx *state.Tx) (state.TwoWay, error) {
	found := state.TwoWay{Connection: r.conn.Name}
	echoed, sent, err := tx.Echoes(r.conn.Name, tx.Now().Add(-echoesWithin))
	if echoed >= echoesTell && echoed > sent {
		found.Echoes = echoed
	}
	return found, err
}

// isEcho reports whether a customer shows what an update wants although nothing of it was sent,
// and did not when payersync last wrote it. holds is the hash of what of ours the read shows.
func (r *run) isEcho(c state.Change, fetched connector.RemoteCustomer, base *connector.Customer, holds string) bool {
	if c.Attempts > 0 || c.Payer.AppliedHash == "" || holds == c.Payer.AppliedHash {
		return false
	}
	_, changed, err := r.Billing.MergeCustomer(fetched, base, c.Wanted, r.conn.Mapping.Own())
	return err == nil && !changed
}

// Evidence says what shows that the service has a connection of its own to some books.
func Evidence(known state.TwoWay) string {
	if known.Echoes > 0 {
		return fmt.Sprintf("changes of %s were on their customers before payersync had sent them", connector.Plural(known.Echoes, "record"))
	}
	return fmt.Sprintf("%s a pair of the books' kind that payersync did not write", connector.Plural(known.Customers, "customer")+map[bool]string{true: " carries", false: " carry"}[known.Customers == 1])
}

// saysLinkOnly says that a connection links only, why, and the way out.
func saysLinkOnly(known state.TwoWay) string {
	const does = "Customers that exist are linked and asked for mandates; none is created or changed. "
	if known.Found.IsZero() {
		return does + "That is so by connections[].two_way: link_only."
	}
	return fmt.Sprintf("The billing service has a connection to these books of its own: %s. %s"+WayOutOfTwoWay, Evidence(known), does)
}

// withheld returns a decision without the change of the customer, which a connection that
// links only does not make, and says so.
func (r *run) withheld(d state.Decision, does, next string) state.Decision {
	d.Customer = nil
	return d.Because(connector.ReasonTwoWay, strings.TrimSpace(fmt.Sprintf("%s is withheld, because this connection links only. %s", does, next)))
}

// linkNew is what a connection that links only makes of a plan for a new payer: a customer that
// carries its key is linked as it is, and everything else is withheld.
func (r *run) linkNew(d state.Decision, k keyKnown) state.Decision {
	if !r.linkOnly || d.Customer == nil {
		return d
	}
	if d.Customer.Action == connector.ActionAdopt && !k.byWord && !k.unscoped {
		d.Customer.Diff, d.Customer.Seen = nil, true
		return d
	}
	d.Verdict, d.Topic, d.LinkState, d.Link = state.Held, state.TopicRecord, "", false
	if d.Customer.Action == connector.ActionAdopt {
		return r.withheld(d, "Writing the key on customer "+d.Customer.BillingID, "")
	}
	next := ""
	if r.conn.Native != "" && k.key.Name != r.conn.Native {
		next = fmt.Sprintf("If the service has made the customer itself, a mapping whose key is called %s finds it.", r.conn.Native)
	}
	return r.withheld(d, "Creating the customer", next)
}

// linkAlone ends the adoption of a customer by a connection that links only: nothing is written.
func (r *run) linkAlone(ctx context.Context, c state.Change) error {
	return r.closeWith(ctx, c, connector.ChangeDone, "", "")
}
