package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
)

// CreateAnswer is the customer in the answer to a create, prepared for the ledger.
type CreateAnswer struct {
	Sent
	Made connector.RemoteCustomer

	applied []byte // sealed
	entry   indexEntry
}

// PrepareAnswer prepares the customer in the answer to a create for SaveCreated. It takes no turn of the writer.
func (l *Ledger) PrepareAnswer(sent Sent, made connector.RemoteCustomer) (a CreateAnswer, err error) {
	a = CreateAnswer{Sent: sent, Made: made}
	if a.applied, err = l.boxApplied(sent.Change.Payer, sent.Change.Wanted); err != nil {
		return a, err
	}
	a.entry, err = l.entryOf(made)
	return a, err
}

// errNotTogether means a member of a group needs a decision of its own.
var errNotTogether = errors.New("one of a group is not in the ledger as the others are")

// SaveCreated is Created, EndAttempt and Reflect for the answers to creates of one connection that show
// their key and no mandate. The rest, which the index knows already, is left to the caller. It fails, and
// keeps nothing, if one of them needs a decision of its own: then each is to be saved alone.
func (tx *Tx) SaveCreated(run int64, group []CreateAnswer) (rest []CreateAnswer, err error) {
	if group, rest, err = tx.newToIndex(group); err != nil || len(group) == 0 {
		return rest, err
	}
	connection := group[0].Change.Payer.Connection
	payers, err := sourceIDs(group, func(a CreateAnswer) Change { return a.Change })
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		tx.linkCreated(connection, group),
		tx.moveAll(run, connector.Map(group, func(a CreateAnswer) Change { return a.Change }), doneTogether, openStates),
		tx.exec("UPDATE source_records SET class = ?1 WHERE connection = ?2 AND source_id IN (SELECT value FROM json_each(?3)) AND class <> ?1", protocol.ClassOf(false, false, ""), connection, payers),
		tx.exec("DELETE FROM words WHERE connection = ? AND source_id IN (SELECT value FROM json_each(?)) AND word <> 'reject'", connection, payers), // a word that they are the same has been carried out
		tx.answeredAll(connector.Map(group, func(a CreateAnswer) Sent { return a.Sent })),
		tx.insertMade(group),
		tx.touchDoubled(group),
		tx.eachWithFinding(connection, payers, func(p Payer) { tx.Explain(p, TopicLink, "", "") }),
	)
	return rest, connector.Wrap(err, "save the answers to creates")
}

// doneTogether closes the changes of a group as done.
const doneTogether = "state = 'done', reason = '', detail = '', ended_at = (SELECT ticket FROM ledger)"

// answeredAll notes that requests of creates or for signing links were answered.
func (tx *Tx) answeredAll(group []Sent) error {
	attempts, err := json.Marshal(connector.Map(group, func(s Sent) int64 { return s.Attempt.ID }))
	if err != nil {
		return err
	}
	return tx.exec("UPDATE attempts SET ended = 'answered', end_ticket = (SELECT ticket FROM ledger) WHERE attempt_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) AND ended = ''", string(attempts))
}

// newToIndex splits answers into those with a customer that the index does not know, and the rest.
func (tx *Tx) newToIndex(group []CreateAnswer) (fresh, rest []CreateAnswer, err error) {
	ids, err := json.Marshal(connector.Map(group, func(a CreateAnswer) string { return connector.Clean(a.Made.ID) }))
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	if err := tx.each("SELECT c.billing_id FROM json_each(?1) j CROSS JOIN remote_customers c ON c.billing_id = j.value",
		[]any{string(ids)}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			known[id] = true
			return err
		}); err != nil {
		return nil, nil, fmt.Errorf("look customers up in the index: %w", err)
	}
	for _, a := range group {
		if id := connector.Clean(a.Made.ID); known[id] {
			rest = append(rest, a)
		} else {
			known[id] = true // a second answer that names it is another matter
			fresh = append(fresh, a)
		}
	}
	return fresh, rest, nil
}

// eachWithFinding calls do for each given payer of a connection with a finding about its customer or its mandate.
// payers is a JSON list of source ids. An answer in order cannot change what is decided about the other payers, so
// the write does not decide again on them.
func (tx *Tx) eachWithFinding(connection, payers string, do func(Payer)) error {
	return tx.each("SELECT DISTINCT source_id FROM attention WHERE connection = ? AND topic <> 'record' AND source_id IN (SELECT value FROM json_each(?))", []any{connection, payers}, func(scan func(...any) error) error {
		p := Payer{Connection: connection}
		if err := scan(&p.SourceID); err != nil {
			return err
		}
		do(p)
		return nil
	})
}

// linkCreated links payers to the customers in answers, as Created does for one. Their freeze has set the states of
// their links.
func (tx *Tx) linkCreated(connection string, group []CreateAnswer) error {
	var rows []any
	for _, a := range group {
		rows = append(rows, a.Change.Payer.SourceID, a.Made.ID, a.applied, a.Change.Wanted.Hash())
	}
	return tx.updateRows(errNotTogether,
		"UPDATE payers SET billing_id = g.column2, seen_at = 0, answered_at = (SELECT ticket FROM ledger), "+asApplied("g.column3", "g.column4", "?2"),
		"(?, ?, coalesce(?, x''), ?)",
		"payers.connection = ?1 AND payers.source_id = g.column1 AND "+isFreeFor("g.column2")+" AND NOT "+isForgotten,
		[]any{connection, stamp(tx.now)}, rows)
}

// insertMade puts new customers of payers into the index.
func (tx *Tx) insertMade(group []CreateAnswer) error {
	var customers, traits []any
	for _, a := range group {
		customers = append(customers, a.Made.ID, a.entry.values, a.entry.digest, stamp(tx.now), a.Attempt.Ticket,
			stamp(tx.now))
		for _, t := range a.entry.traits {
			if t.Kind == "key" { // see saveTraits
				traits = append(traits, t.Kind, t.Value, a.Made.ID)
			}
		}
	}
	return errors.Join(
		tx.insertRows("INSERT INTO remote_customers (billing_id, key_values, digest, known_pass, listed_at, ticket, read_at) VALUES ", "(?, ?, ?, (SELECT coalesce(max(pass_id), 0) FROM passes), ?, ?, ?)", customers, ""),
		tx.insertRows("INSERT INTO remote_traits (kind, value, billing_id) VALUES ", "(?, ?, ?)", traits, ""))
}

// touchDoubled is Touch for the linked payers with the key of a new customer, if the index shows it on another one too.
func (tx *Tx) touchDoubled(group []CreateAnswer) error {
	made, err := json.Marshal(connector.Map(group, func(a CreateAnswer) string { return connector.Clean(a.Made.ID) }))
	if err != nil {
		return err
	}
	return tx.each(`SELECT q.connection, q.source_id FROM json_each(?1) j CROSS JOIN payers p ON p.billing_id = j.value
		CROSS JOIN payers q ON q.key_name = p.key_name AND q.key_value = p.key_value AND q.billing_id IS NOT NULL
		WHERE (SELECT count(*) > 1 FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value)`,
		[]any{string(made)}, func(scan func(...any) error) error {
			var id RecordID
			err := scan(&id.Connection, &id.SourceID)
			tx.touched(id)
			return err
		})
}
