package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"payersync/connector"
)

// LinkAnswer is the mandate in the answer to a request for a signing link, prepared for the ledger.
type LinkAnswer struct {
	Sent
	Mandate connector.Mandate

	link []byte // sealed
}

// PrepareLink prepares the mandate in the answer to a request for a signing link for SaveLinked. It takes no turn of
// the writer.
func (l *Ledger) PrepareLink(sent Sent, m connector.Mandate) LinkAnswer {
	m.CustomerID = sent.Change.Payer.BillingID
	return LinkAnswer{sent, m, l.boxLink(m)}
}

// SaveLinked stores the answers to requests of one connection for the signing links of customers without a mandate.
// The rest is left to the caller: it shows no link, or the ledger knows more of the payer than that it waits for one.
// SaveLinked fails, and keeps nothing, if one of them needs a decision of its own: then each is to be saved alone.
func (tx *Tx) SaveLinked(run int64, causeID string, group []LinkAnswer) (rest []LinkAnswer, err error) {
	if group, rest, err = tx.firstMandates(group); err != nil || len(group) == 0 {
		return rest, err
	}
	payers, err := sourceIDs(group, func(a LinkAnswer) Change { return a.Change })
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		tx.insertLinked(causeID, group),
		tx.moveAll(run, connector.Map(group, func(a LinkAnswer) Change { return a.Change }), doneTogether, openStates),
		tx.answeredAll(connector.Map(group, func(a LinkAnswer) Sent { return a.Sent })),
		tx.eachWithFinding(group[0].Change.Payer.Connection, payers, tx.Touch),
	)
	return rest, connector.Wrap(err, "save the answers to requests for signing links")
}

// firstMandates splits answers into those with the first mandate of a payer in order, and the rest.
func (tx *Tx) firstMandates(group []LinkAnswer) (first, rest []LinkAnswer, err error) {
	type row struct {
		Source, Customer, Mandate string
		Ticket                    int64
	}
	asked, err := json.Marshal(connector.Map(group, func(a LinkAnswer) row {
		p, clean := a.Change.Payer, connector.Clean
		return row{clean(p.SourceID), clean(p.BillingID), clean(a.Mandate.ID), a.Attempt.Ticket}
	}))
	if err != nil {
		return nil, nil, err
	}
	first, rest = make([]LinkAnswer, 0, len(group)), nil
	may := make(map[int]bool, len(group))
	err = tx.each(`SELECT j.key FROM json_each(?1) j
		CROSS JOIN payers p ON p.connection = ?2 AND p.source_id = j.value ->> 'Source'
		JOIN remote_customers c ON c.billing_id = p.billing_id
		JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
		WHERE p.billing_id = j.value ->> 'Customer' AND p.mandate_id IS NULL AND c.ticket <= CAST(j.value ->> 'Ticket' AS BIGINT) AND r.forgotten = '' AND NOT `+hasLeft+`
		  AND NOT EXISTS (SELECT 1 FROM mandates m WHERE m.mandate_id = j.value ->> 'Mandate') AND NOT EXISTS (SELECT 1 FROM mandates m WHERE m.billing_id = p.billing_id)
		  AND NOT EXISTS (SELECT 1 FROM letters t WHERE t.connection = p.connection AND t.source_id = p.source_id)`,
		[]any{string(asked), group[0].Change.Payer.Connection}, func(scan func(...any) error) error {
			var at int
			err := scan(&at)
			may[at] = true
			return err
		})
	if err != nil {
		return nil, nil, fmt.Errorf("look for mandates of payers: %w", err)
	}
	taken := make(map[string]bool, 2*len(group)) // by an answer of the group
	for i, a := range group {
		m := a.Mandate
		customer, mandate := "c"+connector.Clean(m.CustomerID), "m"+connector.Clean(m.ID)
		plain := m.ID != "" && m.URL != "" && m.Status == connector.MandateCreated && m.FailureReason.IsZero()
		if plain && may[i] && !taken[customer] && !taken[mandate] {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
		taken[customer], taken[mandate] = true, true
	}
	return first, rest, nil
}

// insertLinked stores the first mandates of payers with their signing links, and their first lines of history.
func (tx *Tx) insertLinked(causeID string, group []LinkAnswer) error {
	var mandates, tickets, owners []any
	now := stamp(tx.now)
	history := make([]transition, len(group))
	for i, a := range group {
		m := a.Mandate
		mandates = append(mandates, m.ID, m.CustomerID, m.Status, now, m.ServiceTime, now, now, a.link, now)
		tickets = append(tickets, m.CustomerID, a.Attempt.Ticket)
		owners = append(owners, a.Change.Payer.SourceID, m.ID)
		history[i] = transition{mandate: m.ID, customer: m.CustomerID, serviceTime: m.ServiceTime, to: m.Status,
			cause: connector.CauseLink, causeID: causeID}
	}
	if err := tx.insertRows("INSERT INTO mandates (mandate_id, billing_id, status, status_since, service_time, first_seen_at, last_seen_at, link, link_at) VALUES ", "(?, ?, ?, ?, ?, ?, ?, ?, ?)", mandates, ""); err != nil {
		return err
	}
	return errors.Join(
		tx.appendHistory(history...),
		tx.updateRows(errNotTogether, "UPDATE remote_customers SET ticket = g.column2", "(?, CAST(? AS BIGINT))",
			"remote_customers.billing_id = g.column1 AND remote_customers.ticket <= g.column2", nil, tickets),
		tx.updateRows(errNotTogether, "UPDATE payers SET mandate_id = g.column2, updated_at = ?2", "(?, ?)",
			"payers.connection = ?1 AND payers.source_id = g.column1 AND payers.mandate_id IS NULL",
			[]any{group[0].Change.Payer.Connection, now}, owners))
}
