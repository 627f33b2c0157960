package state

import (
	"encoding/json"

	"payersync/connector"
)

// pageAnswers are the results of the queries about a page's customers. Each answer is given once,
// because its caller may change it; writes about one customer change no other's answer.
type pageAnswers struct {
	payers  map[string]*Payer // by customer; nil for one that is nobody's
	digests map[string]string // of what the page shows
	index   map[string]indexed
}

// AskOfPage queries once, for this write, the owner and the index entry of every customer in a
// list, instead of one query for each.
func (tx *Tx) AskOfPage(s *Listing, page []connector.RemoteCustomer) error {
	a := pageAnswers{payers: make(map[string]*Payer, len(page)), digests: make(map[string]string, len(page))}
	for _, c := range page {
		_, _, digest, err := tx.l.indexed(c)
		if err != nil {
			return err
		}
		id := connector.Clean(c.ID)
		a.payers[id], a.digests[id] = nil, digest
	}
	ids, err := json.Marshal(a.digests)
	if err != nil {
		return err
	}
	if err := tx.each("SELECT "+payerColumns+" FROM json_each(?1) j CROSS JOIN payers p ON p.billing_id = j.key", []any{string(ids)}, func(scan func(...any) error) error {
		var r payerRow
		if err := scan(r.dest()...); err != nil {
			return err
		}
		p, err := tx.l.payer(r)
		a.payers[p.BillingID] = &p
		return err
	}); err != nil {
		return err
	}
	if a.index, err = tx.allInIndex(a.digests, s.Ticket); err != nil {
		return err
	}
	tx.ofPage = a
	return nil
}

// payer returns the payer of a customer, nil for none, and whether it was asked for.
func (a pageAnswers) payer(billingID string) (p *Payer, asked bool) {
	id := connector.Clean(billingID)
	p, asked = a.payers[id]
	delete(a.payers, id)
	return p, asked
}

// indexed returns the index's data of a customer, and whether the query covered its present
// content.
func (a pageAnswers) indexed(billingID, digest string) (i indexed, asked bool) {
	id := connector.Clean(billingID)
	if a.digests[id] != digest {
		return i, false
	}
	i, asked = a.index[id]
	delete(a.index, id)
	return i, asked
}
