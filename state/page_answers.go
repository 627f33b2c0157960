package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"payersync/connector"
)

// pageAnswers are the results of the queries about a page's customers. Each answer is given once,
// because its caller may change it; writes about one customer change no other's answer.
type pageAnswers struct {
	payers  map[string]*Payer // by customer; nil for one that is nobody's
	digests map[string]string // of what the page shows
	index   map[string]indexed
}

// KnownPayer is what the ledger knows of a payer whose customer stands on a page of a list. It is as
// before the page: only one customer on the page has the payer's key.
type KnownPayer struct {
	Payer

	Same      bool // the index holds what the list shows, from an older read, and no profile
	Late      bool // it matters when the customer was seen last
	Confirmed bool // a read has shown our values since the last answer, and since a restore
	Alone     bool // the customer, and no other, carries the key
	Shared    bool // another payer has the key; asked of payers without a read only
	Open      bool // a change of the customer is open; asked of payers without a read only
	Told      bool // something is told of the customer or its mandate

	Status      connector.MandateStatus // of the current mandate; "" for none
	ServiceTime string                  // the service's time of it
	LinkApart   bool                    // the mandate is another customer's, or another of the customer's has a signing link
	Financial   string                  // financial status; "" for none
}

// knownPayers are the payers of the customers that stand as keys in ?1, with their index entries for a read with the
// ticket ?2, and the other columns of KnownPayer.
var knownPayers = "SELECT " + payerColumns + ", " + entryColumns("p.answered_at >= c.ticket", "1 = 1") + `,
	p.confirmed_at > p.answered_at AND p.confirmed_at > (SELECT doubt FROM ledger),
	(SELECT count(*) = 1 AND min(t.billing_id) = p.billing_id FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value),
	CASE WHEN p.seen_at = 0 THEN (SELECT count(*) > 1 FROM payers o WHERE o.key_name = p.key_name AND o.key_value = p.key_value) ELSE 0 = 1 END,
	CASE WHEN p.seen_at = 0 THEN (SELECT count(*) > 0 FROM changes WHERE connection = p.connection AND source_id = p.source_id AND lane = 'customer' AND ` + openStates + `) ELSE 0 = 1 END,
	(SELECT count(*) > 0 FROM attention a WHERE a.connection = p.connection AND a.source_id = p.source_id AND a.topic <> 'record'),
	coalesce(m.status, ''), coalesce(m.service_time, ''),
	m.mandate_id IS NOT NULL AND (m.billing_id <> p.billing_id OR (SELECT count(*) > 0 FROM mandates n WHERE n.billing_id = p.billing_id AND n.link IS NOT NULL AND n.mandate_id <> m.mandate_id)),
	fs.status
	FROM json_each(?1) j CROSS JOIN payers p ON p.billing_id = j.key` + entryTables + `
	LEFT JOIN mandates m ON m.mandate_id = p.mandate_id LEFT JOIN financial_statuses fs ON fs.billing_id = p.billing_id`

// AskOfPage queries once, for this write, the owner and the index entry of every customer in a
// list, instead of one query for each. It returns the payers by their customers, without those that
// the page shows twice, or whose key it shows on several customers.
func (tx *Tx) AskOfPage(s *Listing, page []connector.RemoteCustomer) (map[string]*KnownPayer, error) {
	a := pageAnswers{payers: make(map[string]*Payer, len(page)), digests: make(map[string]string, len(page))}
	twice, carriers := map[string]bool{}, make(map[string]int, len(page))
	for _, c := range page {
		_, traits, digest, err := tx.l.indexed(c)
		if err != nil {
			return nil, err
		}
		id := connector.Clean(c.ID)
		if _, again := a.digests[id]; again || id != c.ID {
			twice[id] = true
		}
		a.payers[id], a.digests[id] = nil, digest
		for _, t := range traits {
			if t.kind == "key" {
				carriers[t.value]++
			}
		}
	}
	for id := range twice { // an answer from before the first of them is no answer about the second
		delete(a.payers, id)
		delete(a.digests, id)
	}
	known, err := tx.knownPayers(&a, s.Ticket)
	if err != nil {
		return nil, err
	}
	for id, k := range known {
		if carriers[keyTrait(k.Key)] > 1 {
			delete(known, id)
		}
	}
	tx.ofPage = a
	return known, nil
}

// knownPayers returns the payers of a page's customers, and completes the answers.
func (tx *Tx) knownPayers(a *pageAnswers, ticket int64) (map[string]*KnownPayer, error) {
	ids, err := json.Marshal(a.digests)
	if err != nil {
		return nil, err
	}
	known, others := make(map[string]*KnownPayer, len(a.digests)), maps.Clone(a.digests)
	a.index = make(map[string]indexed, len(a.digests))
	if err := tx.each(knownPayers, []any{string(ids), ticket}, func(scan func(...any) error) error {
		k, entry, err := tx.l.knownPayer(scan)
		if err != nil {
			return err
		}
		id := k.BillingID
		k.Same, k.Late = entry.shows(a.digests[id], ticket) && entry.profile == "", entry.matters
		a.payers[id], a.index[id], known[id] = &k.Payer, entry, k
		delete(others, id)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("look for the payers of a page: %w", err)
	}
	if len(others) == 0 {
		return known, nil
	}
	rest, err := tx.allInIndex(others, ticket)
	maps.Copy(a.index, rest)
	return known, err
}

// knownPayer reads a row of knownPayers, and the index entry.
func (l *Ledger) knownPayer(scan func(...any) error) (k *KnownPayer, entry indexed, err error) {
	var r payerRow
	var financial []byte
	k = new(KnownPayer)
	if err := scan(slices.Concat(r.dest(), entry.entry(),
		[]any{&k.Confirmed, &k.Alone, &k.Shared, &k.Open, &k.Told, &k.Status, &k.ServiceTime, &k.LinkApart, &financial})...); err != nil {
		return k, entry, err
	}
	status, err := l.seal.open(financial, placeOfFinancial(r.billingID.String))
	if err != nil {
		return k, entry, fmt.Errorf("the financial status of customer %s: %w", r.billingID.String, err)
	}
	k.Financial = string(status)
	k.Payer, err = l.payer(r)
	return k, entry, err
}

// Agreed is a payer whose customer a list shows as the ledger knows it, with the key and our values.
type Agreed struct {
	*KnownPayer
	MandateShown string // the mandate, if the list shows it as it is known; otherwise ""
	StatusShown  bool   // the list shows the financial status as it is known
}

// SaveAgreed confirms the links of these payers that no read has shown before, and stores when their
// customers were last seen, if a decision needs it. It writes nothing about customers seen before.
func (tx *Tx) SaveAgreed(s *Listing, agreed []Agreed) error {
	var late, unconfirmed []string
	for _, k := range agreed {
		delete(tx.ofPage.payers, k.BillingID)
		delete(tx.ofPage.index, k.BillingID)
		s.Add(k.BillingID)
		if k.MandateShown != "" {
			s.mandates.Add(k.MandateShown)
		}
		if k.StatusShown {
			s.statuses.Add(k.BillingID)
		}
		if k.Late {
			late = append(late, k.BillingID)
		}
		if !k.Seen || !k.Confirmed && k.Applied != nil {
			unconfirmed = append(unconfirmed, k.BillingID)
		}
	}
	now := stamp(tx.now)
	return connector.Wrap(errors.Join(
		tx.execOf("UPDATE remote_customers SET listed_at = ?2, ticket = ?3 WHERE billing_id IN (SELECT value FROM json_each(?1))", late, now, s.Ticket),
		tx.execOf(confirmed, unconfirmed, now)), "save what a list shows as it is known")
}

// confirmed confirms the links of the customers in ?1 that no read has shown, and our values on all of them.
const confirmed = `UPDATE payers SET link_state = CASE seen_at WHEN 0 THEN 'linked' ELSE link_state END, updated_at = CASE seen_at WHEN 0 THEN ?2 ELSE updated_at END,
	  seen_at = CASE seen_at WHEN 0 THEN (SELECT max(ticket, 1) FROM ledger) ELSE seen_at END,
	  shown_at = CASE WHEN ` + isDated + ` THEN (SELECT ticket FROM ledger) ELSE shown_at END,
	  confirmed_at = CASE WHEN ` + isDated + ` THEN (SELECT ticket FROM ledger) ELSE confirmed_at END
	WHERE billing_id IN (SELECT value FROM json_each(?1))`

// isDated is the condition that what a read showed of our values counts no more: they were changed, or a restore forgot
// it.
const isDated = "(confirmed_at <= answered_at OR confirmed_at <= (SELECT doubt FROM ledger))"

// execOf executes a statement for ids as its first argument; for none it does nothing.
func (tx *Tx) execOf(query string, ids []string, args ...any) error {
	if len(ids) == 0 {
		return nil
	}
	page, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return tx.exec(query, append([]any{string(page)}, args...)...)
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
