package reconcile

import (
	"fmt"
	"iter"

	"payersync/connector"
	"payersync/state"
)

// atOnce is how many customers of a list one write observes, if the pages are smaller.
const atOnce = 500

// inBlocks joins the pages of a list to blocks of atOnce customers and more.
func inBlocks(pages iter.Seq2[[]connector.RemoteCustomer, error]) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		var block []connector.RemoteCustomer
		for page, err := range pages {
			if err == nil {
				if block = append(block, page...); len(block) < atOnce {
					continue
				}
			}
			if len(block) > 0 && !yield(block, nil) || err != nil && !yield(nil, err) {
				return
			}
			block = nil
		}
		if len(block) > 0 {
			yield(block, nil)
		}
	}
}

// observed is the result of a page of a list.
type observed struct {
	repaired  int      // mandates with another status
	otherwise []string // our customers with other values than in the ledger
}

// observeListed observes the customers of a page. Nearly all of them are as the ledger knows them, and are written
// together. The others go through Observe one by one, after them: a list has no order of its own.
func observeListed(tx *state.Tx, list *state.Listing, page []connector.RemoteCustomer) (res observed, err error) {
	known, err := tx.AskOfPage(list, page)
	if err != nil {
		return res, err
	}
	var agreed []state.Agreed
	var rest []Observation
	for _, c := range page {
		o := OfCustomer(c, list.Ticket, connector.CauseSweep, fmt.Sprint(list.Pass))
		o.List = list
		if k := known[c.ID]; k != nil && agrees(k, c) {
			if err := observeValues(tx, k, o); err != nil {
				return res, err
			}
			agreed = append(agreed, agreement(k, c))
			continue
		}
		rest = append(rest, o)
	}
	if err := tx.SaveAgreed(list, agreed); err != nil {
		return res, err
	}
	for _, o := range rest {
		seen, err := Observe(tx, o)
		if err != nil {
			return res, err
		}
		res.repaired += count(seen.Moved)
		if seen.Otherwise {
			res.otherwise = append(res.otherwise, o.CustomerID)
		}
	}
	return res, nil
}

// agrees reports whether Observe would find nothing new of a payer's customer on a list: it would at most confirm the
// link for the first time, and note the sighting. TestAPageIsObservedAsItsCustomersOneByOne compares the two.
func agrees(k *state.KnownPayer, c connector.RemoteCustomer) bool {
	return k.Same && k.Alone && !k.Told && k.Unlink.At == 0 && k.Moves == (connector.Key{}) &&
		connector.KeyIn(c.ExternalData, k.Key.Name) == k.Key && linkAgrees(k) && valuesAgree(k, c) && mandateAgrees(k, c.Mandate)
}

// linkAgrees reports whether the link was confirmed before, or was made by a create and can be confirmed now.
func linkAgrees(k *state.KnownPayer) bool {
	if k.Seen {
		return k.LinkState == connector.LinkLinked
	}
	return k.LinkState == connector.LinkCreating && k.Late && !k.Shared && !k.Open
}

// valuesAgree reports whether the customer holds our values, as the read before it did.
func valuesAgree(k *state.KnownPayer, c connector.RemoteCustomer) bool {
	if k.Shows != k.AppliedHash {
		return false
	}
	return k.Applied == nil && k.Seen || k.Applied != nil && holds(k.Applied, c)
}

// mandateAgrees reports whether the list shows no mandate, or the payer's current mandate with the status in the ledger.
func mandateAgrees(k *state.KnownPayer, m *connector.Mandate) bool {
	if m == nil {
		return true
	}
	return m.ID != "" && m.ID == k.MandateID && m.Status == k.Status && m.Status.Known() && m.Status != connector.MandateCancelled &&
		m.URL == "" && m.FailureReason.IsZero() && (m.ServiceTime == "" || m.ServiceTime == k.ServiceTime) && !k.LinkApart
}

// observeValues keeps the other values of a customer that agrees: those in another form than sent, and its financial
// status.
func observeValues(tx *state.Tx, k *state.KnownPayer, o Observation) error {
	if k.Applied != nil {
		if err := tx.SetRead(k.Payer, differences(k.Applied, *o.Customer)); err != nil {
			return err
		}
	}
	if o.Customer.Financial == k.Financial {
		return nil
	}
	defer tx.ShownBy(o.List)()
	return observeFinancial(tx, o)
}

// agreement is what a list shows of a customer that agrees.
func agreement(k *state.KnownPayer, c connector.RemoteCustomer) state.Agreed {
	a := state.Agreed{KnownPayer: k, StatusShown: c.Financial != "" && c.Financial == k.Financial}
	if c.Mandate != nil {
		a.MandateShown = c.Mandate.ID
	}
	return a
}
