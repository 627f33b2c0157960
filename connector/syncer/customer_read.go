package syncer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/protocol"
	"payersync/state"
)

// customerRead is one read of a customer before its adoption or update, for plans and for comparison by a person. Its
// values do not enter the ledger; only the read right before sending does.
type customerRead struct {
	ticket   int64
	customer connector.RemoteCustomer
	missing  bool // the read says it does not exist
}

// readCustomer reads a customer.
func (r *run) readCustomer(ctx context.Context, id string) (customerRead, error) {
	fetched, ticket, err := r.fetch(ctx, id)
	if connector.FaultOf(err) == connector.FaultNotFound {
		return customerRead{ticket: ticket, missing: true}, nil
	}
	return customerRead{ticket: ticket, customer: fetched}, err
}

// judge adds to the facts about a key the result of reading the customer with this key. Plans and sending both use it,
// so both follow the same rules.
func (k *keyKnown) judge(s customerRead, want connector.Customer) {
	k.facts.Look = protocol.Look{Seq: s.ticket, Shows: protocol.NoKey, Now: true}
	carried := connector.KeyIn(s.customer.ExternalData, k.key.Name)
	switch {
	case s.missing:
		k.facts.Look.Shows = protocol.Missing
	case carried == k.key, k.unscoped && carried == k.key.Unscoped():
		k.facts.Look.Shows = protocol.Ours
		k.against = match.Against(want, s.customer)
		k.facts.Look.Disputed = len(k.against) > 0 || k.unscoped && carried != k.key && !match.Agree(want, s.customer)
	case k.byWord && k.mayReplace(carried):
		k.facts.Look.Shows = protocol.Ours // the person's word stands for the key
	}
}

// judgeByIndex is judge for a forecast. A forecast reads no customers and uses the values in the index. A customer
// already read and adopted by a plan needs no check.
func (r *run) judgeByIndex(ctx context.Context, k *keyKnown, want connector.Customer) error {
	agree, against, err := r.Ledger.ShownOf(ctx, k.facts.Holder, want)
	if err != nil || agree {
		return err
	}
	k.against = against
	k.facts.Look = protocol.Look{Seq: k.facts.Index.Since, Shows: protocol.Ours, Now: true, Disputed: len(against) > 0 ||
		k.unscoped}
	return nil
}

// acceptedGone returns the reason against adopting the customer chosen by a person, according to a read; "" if there is
// none, or no customer was chosen.
func (k *keyKnown) acceptedGone(s customerRead) connector.Reason {
	carried := connector.KeyIn(s.customer.ExternalData, k.key.Name)
	switch {
	case !k.byWord || k.word.Why() != "":
		return ""
	case s.missing:
		return connector.ReasonCustomerMissing
	case !k.mayReplace(carried):
		return connector.ReasonOtherKey
	}
	return ""
}

// mayReplace reports whether the key may replace the present value of its name on the chosen customer: no value, the
// key without its scope, or a key without a record.
func (k *keyKnown) mayReplace(carried connector.Key) bool {
	return carried.Value == "" || k.key.MayBe(carried) || k.word.Replaces == carried.Indexed()
}

// readCustomers reads the customers to adopt or update with contents unknown to the ledger, several at a time. It omits
// unreadable customers. If none can be read, it returns an error.
func (r *run) readCustomers(ctx context.Context, page []subject, decisions []state.Decision) (map[string]customerRead, error) {
	var mu sync.Mutex
	seen, silent := map[string]customerRead{}, 0
	var group errgroup.Group
	group.SetLimit(max(r.Settings.Workers, 1))
	for i, d := range decisions {
		id := mustRead(page[i].Candidate, d)
		if id == "" {
			continue
		}
		group.Go(func() error {
			mu.Lock()
			gaveUp := silent >= maxSilence
			mu.Unlock()
			if gaveUp {
				return nil
			}
			var s customerRead
			err := connector.Guard(func() (err error) {
				s, err = r.readCustomer(ctx, id)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if connector.FaultOf(err) == connector.FaultUnavailable {
				if silent++; silent < maxSilence {
					return nil
				}
				return fmt.Errorf("gave up after %d reads without an answer: %w", silent, err)
			}
			if err != nil {
				return err
			}
			seen[d.SourceID], silent = s, 0
			return nil
		})
	}
	return seen, group.Wait()
}

// mustRead returns the customer of a decision if its values change and the ledger does not know them; "" otherwise.
func mustRead(c state.Candidate, d state.Decision) string {
	switch {
	case d.Customer == nil:
	case d.Customer.Action == connector.ActionAdopt, d.Customer.Unlinks:
		return d.Customer.BillingID
	case d.Customer.Action == connector.ActionUpdate && (c.Payer.Applied == nil || c.Payer.Shows != c.Payer.AppliedHash):
		return d.Customer.BillingID
	}
	return ""
}

// asShown reports whether a change about to be sent has exactly the effect shown in its plan. base is our part of the
// customer. unmoved means the newest read still shows it; a plan without a read relies on this.
func (r *run) asShown(c state.Change, fetched connector.RemoteCustomer, base *connector.Customer, unmoved bool) (bool,
	error) {
	if base != nil && unmoved && slices.Equal(connector.Diff(*base, c.Wanted), c.Diff) {
		return true, nil
	}
	diff, err := r.Billing.MergeDiff(fetched, base, c.Wanted, r.conn.Mapping.Own())
	return err == nil && slices.Equal(diff, c.Diff), err
}

// inWords joins a few words: name, phone and postcode.
func inWords(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
