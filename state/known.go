package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// Observation is the result of one read, or one answer, about a customer.
type Observation struct {
	CustomerID string
	Customer   *connector.RemoteCustomer // the customer whole; nil when only a mandate was shown
	Mandate    *connector.Mandate        // the latest mandate; nil when none was shown
	Ticket     int64                     // taken before the read
	List       *Listing                  // the list pass it belongs to; nil for a single read
	Cause      connector.Cause
	CauseID    string // run, delivery or pass
}

// Known is an observation, and what the ledger knows of its customer and of the customer's payer.
type Known struct {
	Observation
	Payer      // zero for a customer without a payer
	Ours  bool // the customer is linked to the payer

	Stale     bool // a later read was, or may have been, applied already
	Overtaken bool // it is stale because a list pass has begun since
	Same      bool // the index holds what was shown, from an older read, and no profile
	Late      bool // it matters when the customer was seen last

	Confirmed bool // a read has shown our values since the last answer, and since a restore
	Alone     bool // the customer, and no other, carries the key
	Told      bool // something is told of the customer or its mandate
	UnderWay  bool // a request to the customer, but for its create, has no known end; asked for a single read only

	// These are numbers, and asked of payers whose link no read has confirmed, or that are in conflict.
	Others int // other customers that carry the key
	Taken  int // other payers that are being created with the key, or have an unconfirmed customer
	Next   int // other customers that carry the key that this one will get
	Young  int // creates that made the customer within Arrival
	Open   int // open changes of the customer

	// the key that the customer shows and our newest update wrote, if the payer moves to it; then Others and Taken are
	// about it
	Moved connector.Key
	Sent  []connector.Customer // wanted by updates that may have taken effect at an unknown time, the newest first

	Status      connector.MandateStatus // of the mandate shown; "" for a new one
	ServiceTime string                  // the service's time of it
	// the mandate is another customer's, or another of the customer's has a signing link
	LinkApart bool
	Financial string // financial status; "" for none

	entry indexEntry        // of what is shown, with what a list may have left out
	pairs map[string]string // the externalData in it
	bare  bool              // a list shows the customer without externalData, or without some that is known
	index indexed           // as it was before
}

// known are the columns of Known for the customers that stand as keys in ?1 with the mandates that they show. ?2 is the
// ticket of the read, ?3 the beginning of Arrival, and ?4 is 1 for single reads.
var known = "SELECT j.key, " + payerColumns + ", " + entryColumns + `,
	coalesce(p.confirmed_at > p.answered_at AND p.confirmed_at > (SELECT doubt FROM ledger), false),
	(SELECT count(*) FILTER (WHERE t.billing_id = p.billing_id) || ' ' || count(*) FILTER (WHERE t.billing_id <> p.billing_id) FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value),
	(SELECT count(*) > 0 FROM attention a WHERE a.connection = p.connection AND a.source_id = p.source_id AND a.topic <> 'record'),
	CASE WHEN ?4 = 1 THEN (SELECT count(*) > 0 FROM attempts a WHERE a.billing_id = p.billing_id AND a.ended = '' AND a.action <> 'create') ELSE false END,
	CASE WHEN p.seen_at = 0 OR p.link_state <> 'linked' THEN
	  (SELECT count(*) FROM payers o WHERE o.key_name = p.key_name AND o.key_value = p.key_value AND ` + takes +
	`) || ' ' ||
	  CASE p.moves_value WHEN '' THEN 0 ELSE (SELECT count(*) FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.moves_name || '=' || p.moves_value AND t.billing_id <> p.billing_id) END || ' ' ||
	  (SELECT count(*) FILTER (WHERE action = 'create' AND state = 'done' AND updated_at >= ?3) || ' ' || count(*) FILTER (WHERE ` + openStates + `)
	    FROM changes WHERE connection = p.connection AND source_id = p.source_id AND lane = 'customer') END,
	coalesce(m.status, ''), coalesce(m.service_time, ''),
	CASE WHEN m.mandate_id IS NULL THEN false
	  ELSE coalesce(m.billing_id <> p.billing_id OR (SELECT count(*) > 0 FROM mandates n WHERE n.billing_id = p.billing_id AND n.link IS NOT NULL AND n.mandate_id <> m.mandate_id), false) END,
	fs.status
	FROM json_each(?1) j LEFT JOIN payers p ON p.billing_id = j.key` + entryTables + `
	LEFT JOIN mandates m ON m.mandate_id = j.value LEFT JOIN financial_statuses fs ON fs.billing_id = p.billing_id`

// takes is the condition that payer o, and not p, is being created, or has an unconfirmed customer.
var takes = "(" + strings.ReplaceAll(isUnconfirmed+" OR "+isSent, "p.", "o.") +
	") AND (o.connection <> p.connection OR o.source_id <> p.source_id)"

// Known returns what the ledger knows of observed customers, with one query. They belong to one list pass, or to single
// reads with the same ticket. It returns nil for each of several that is to be asked for alone, because writing one of
// the others may change the answer: a customer that is there twice, or a payer whose key others have or will have.
func (tx *Tx) Known(observed ...Observation) ([]*Known, error) {
	if len(observed) == 0 {
		return nil, nil
	}
	out, several := make([]*Known, len(observed)), len(observed) > 1
	at, asked, carriers := make(map[string]int, len(observed)), make(map[string]string, len(observed)), map[string]int{}
	for i, o := range observed {
		k, id := &Known{Observation: o}, connector.Clean(o.CustomerID)
		if o.Customer != nil {
			var err error
			if k.entry, err = tx.l.entryOf(*o.Customer); err != nil {
				return nil, err
			}
		}
		for _, key := range k.entry.keys {
			carriers[key.ID()]++
		}
		if first, again := at[id]; again {
			out[first] = nil
			continue
		}
		if at[id], asked[id] = i, ""; o.Mandate != nil {
			asked[id] = connector.Clean(o.Mandate.ID)
		}
		if !several || id == o.CustomerID {
			out[i] = k
		}
	}
	page, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	var id, carried string
	var row Known
	var r payerRow
	var unsettled sql.NullString
	var financial []byte
	dest := slices.Concat([]any{&id}, r.dest(), row.index.entry(),
		[]any{&row.Confirmed, &carried, &row.Told, &row.UnderWay, &unsettled, &row.Status, &row.ServiceTime, &row.LinkApart,
			&financial})
	err = tx.each(known, []any{string(page), observed[0].Ticket, stamp(tx.now.Add(-Arrival)), observed[0].List == nil},
		func(scan func(...any) error) error {
			if err := scan(dest...); err != nil {
				return err
			}
			k := out[at[id]]
			if k == nil {
				return nil
			}
			row.Observation, row.entry, row.Alone = k.Observation, k.entry, carried == "1 0"
			if *k = row; unsettled.Valid {
				if _, err := fmt.Sscan(carried[1:]+" "+unsettled.String, &k.Others, &k.Taken, &k.Next, &k.Young,
					&k.Open); err != nil {
					return err
				}
			}
			return tx.l.completeKnown(k, r, financial)
		})
	for i, k := range out {
		if err == nil && k != nil {
			err = errors.Join(tx.knowIndex(k), tx.knowSent(k))
		}
		if k != nil && k.Ours && several &&
			(carriers[keyTrait(k.Key)] > 1 || k.Others+k.Taken > 0 || k.Moves.Value != "" || k.Moved.Value != "") {
			out[i] = nil
		}
	}
	return out, connector.Wrap(err, "look what is known of a customer")
}

// completeKnown completes what a row of known says.
func (l *Ledger) completeKnown(k *Known, r payerRow, financial []byte) (err error) {
	k.Overtaken = k.index.overtaken && k.List == nil && k.Customer != nil
	k.Stale = k.Overtaken || k.index.ticket > k.Ticket || k.Customer == nil && k.index.ticket < 0
	if k.Late, k.Ours = k.index.matters, r.billingID.Valid; !k.Ours {
		return nil
	}
	if k.Payer, err = l.payer(r); err != nil {
		return err
	}
	status, err := l.seal.open(financial, placeOfFinancial(k.BillingID))
	k.Financial = string(status)
	return connector.Wrap(err, "the financial status of customer %s", k.BillingID)
}

// knowIndex compares what is shown with the index. A list may leave externalData out, or be an old one, so it takes no
// key away: see Unshown.
func (tx *Tx) knowIndex(k *Known) error {
	if k.Customer == nil {
		return nil
	}
	k.pairs, k.bare = k.Customer.ExternalData, len(k.Customer.ExternalData) == 0
	if k.index.shows(k.entry.digest, k.Ticket) {
		k.Same = k.index.profile == ""
		return nil
	}
	var text string
	if k.index.ticket >= 0 {
		if err := tx.row([]any{&text}, "SELECT key_values FROM remote_customers WHERE billing_id = ?",
			k.CustomerID); err != nil {
			return err
		}
	}
	known, err := parsePairs(text)
	if err != nil {
		return err
	}
	if k.index.keys = keysIn(known); k.List == nil || !hidden(known, k.pairs) {
		return nil
	}
	k.pairs, k.bare = merged(known, k.pairs), true
	c := *k.Customer
	c.ExternalData = k.pairs
	k.entry, err = tx.l.entryOf(c)
	return err
}

// knowSent adds the updates of the customer that matter: those with an unknown end, and the newest one if the customer
// shows a key to which its payer may move.
func (tx *Tx) knowSent(k *Known) error {
	key := k.coming()
	if !k.UnderWay && key.Value == "" {
		return nil
	}
	first := true
	if err := tx.each(sentUpdates, []any{k.BillingID}, func(scan func(...any) error) error {
		var id int64
		var box []byte
		var open bool
		var wanted connector.Customer
		if err := scan(&id, &box, &open); err != nil {
			return err
		}
		if err := tx.l.openJSON(box, changePlace("wanted", id), &wanted); err != nil {
			return readError(fmt.Sprintf("change %d", id), err)
		}
		if first && key.Value != "" && connector.KeyIn(wanted.ExternalData, key.Name) == key {
			k.Moved = key
		}
		if first = false; open {
			k.Sent = append(k.Sent, wanted)
		}
		return nil
	}); err != nil || k.Moved.Value == "" {
		return err
	}
	return tx.row([]any{&k.Others, &k.Taken},
		`SELECT (SELECT count(*) FROM remote_traits WHERE kind = 'key' AND value = ?1 AND billing_id <> p.billing_id),
		(SELECT count(*) FROM payers o WHERE o.key_name = ?2 AND o.key_value = ?3 AND `+takes+`) FROM payers p WHERE p.billing_id = ?4`,
		keyTrait(key), key.Name, key.ScopedValue(), k.BillingID)
}

// coming returns the key that the customer shows in place of its payer's, if the payer may move to it.
func (k *Known) coming() connector.Key {
	if k.Customer == nil || connector.KeyIn(k.Customer.ExternalData, k.Key.Name) == k.Key {
		return connector.Key{}
	}
	for _, name := range []string{k.Key.Name, k.Moves.Name} {
		if key := connector.KeyIn(k.Customer.ExternalData, name); k.MovesTo(key) {
			return key
		}
	}
	return connector.Key{}
}

// sentUpdates are the sent updates of a customer, the newest first, and whether their end is unknown.
const sentUpdates = `SELECT c.change_id, c.wanted, (SELECT count(*) > 0 FROM attempts e WHERE e.change_id = c.change_id AND e.billing_id = ?1 AND e.action <> 'create' AND e.ended = '')
	FROM changes c WHERE c.lane = 'customer' AND c.change_id IN (SELECT a.change_id FROM attempts a WHERE a.billing_id = ?1 AND a.action <> 'create') ORDER BY c.change_id DESC`

// Agreed is a customer of ours that a list shows as the ledger knows it, with the key and our values.
type Agreed struct {
	*Known
	News Reflection
}

// SaveAgreed confirms the links of these payers that no read has shown before, and stores when their
// customers were last seen, if a decision needs it. It writes nothing about customers seen before, except values in
// another form than sent, and a new financial status.
func (tx *Tx) SaveAgreed(agreed []Agreed) error {
	if len(agreed) == 0 {
		return nil
	}
	var late, unconfirmed []string
	for _, k := range agreed {
		k.List.Add(k.BillingID)
		if k.News.Mandate != nil {
			k.List.mandates.Add(k.News.Mandate.ID)
		}
		if err := tx.saveFinancial(k.Known, k.News); err != nil {
			return err
		}
		if k.Applied != nil {
			if err := tx.SetRead(k.Payer, k.News.Held.Differs); err != nil {
				return err
			}
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
		tx.execOf("UPDATE remote_customers SET listed_at = ?2, ticket = ?3 WHERE billing_id IN (SELECT value FROM json_each(?1))", late, now, agreed[0].Ticket),
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
