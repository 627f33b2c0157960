package state

import (
	"encoding/json"
	"fmt"
	"slices"

	"payersync/connector"
)

// Topic says which side of a payer needs attention. Each has one row at most.
type Topic string

// The topics.
const (
	TopicRecord  Topic = "record"  // the source record or what the mapping made of it
	TopicLink    Topic = "link"    // the customer in the billing service
	TopicMandate Topic = "mandate" // the mandate or its signing link
)

// finding is what people are told about one topic of a record; the zero value is nothing.
type finding struct {
	reason connector.Reason
	detail string // blank for the detail so far, or the reason's own sentence
}

// findings are those about one record, as a set. A topic that the set does not name keeps its finding.
type findings struct {
	id RecordID
	by map[Topic]finding
}

// replaceFindings makes each set the findings about its record, and is the only writer of new ones. For an
// unchanged reason the time stays, and with a blank detail also the earlier detail. While the payer's customer
// is gone, its other problems are not reported. Nothing is written for unchanged findings.
func (tx *Tx) replaceFindings(sets ...findings) error {
	for page := range slices.Chunk(sets, maxBatch) {
		var rows []any
		told, err := tx.told(page)
		if err != nil {
			return fmt.Errorf("look what people are told: %w", err)
		}
		for i, set := range page {
			for _, topic := range [...]Topic{TopicRecord, TopicLink, TopicMandate} {
				next, named := set.by[topic]
				was := told[i].by[topic]
				switch {
				case !named, next.reason == "" && was.reason == "", topic == TopicLink && told[i].silenced(next.reason):
					continue
				case next.reason == "":
					if err := tx.ClearAttention(set.id.Connection, set.id.SourceID, topic); err != nil {
						return err
					}
					continue
				case next.detail == "" && next.reason == was.reason:
					next.detail = was.detail
				case next.detail == "":
					next.detail = next.reason.Sentence()
				}
				if next != was {
					rows = append(rows, set.id.Connection, set.id.SourceID, topic, next.reason, next.detail, stamp(tx.now))
				}
			}
		}
		if err := tx.insertRows("INSERT INTO attention (connection, source_id, topic, reason, detail, since) VALUES ", "(?, ?, ?, ?, ?, ?)", rows,
			` ON CONFLICT (connection, source_id, topic) DO UPDATE SET
			  since = CASE WHEN attention.reason = excluded.reason THEN attention.since ELSE excluded.since END,
			  detail = excluded.detail, reason = excluded.reason`); err != nil {
			return fmt.Errorf("save what people are told: %w", err)
		}
	}
	return nil
}

// toldOf is what people are told about a record now.
type toldOf struct {
	by      map[Topic]finding
	missing bool // the customer of its payer is gone
}

// silenced reports whether a finding about the customer is not reported, because the customer is gone.
func (t toldOf) silenced(r connector.Reason) bool {
	return t.missing && r != "" && r != connector.ReasonCustomerMissing
}

// told returns what people are told about the records of the sets, in their order.
func (tx *Tx) told(sets []findings) ([]toldOf, error) {
	ids := make([]RecordID, len(sets))
	for i, s := range sets {
		ids[i] = RecordID{connector.Clean(s.id.Connection), connector.Clean(s.id.SourceID)}
	}
	page, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	out := make([]toldOf, len(sets))
	return out, tx.each(`SELECT j.key, p.billing_id IS NOT NULL AND `+isMissing+`, coalesce(a.topic, ''), coalesce(a.reason, ''), coalesce(a.detail, '')
		FROM json_each(?1) j LEFT JOIN payers p ON p.connection = j.value ->> 'Connection' AND p.source_id = j.value ->> 'SourceID'
		LEFT JOIN attention a ON a.connection = j.value ->> 'Connection' AND a.source_id = j.value ->> 'SourceID'`, []any{string(page)}, func(scan func(...any) error) error {
		var at int
		var missing bool
		var topic Topic
		var f finding
		if err := scan(&at, &missing, &topic, &f.reason, &f.detail); err != nil {
			return err
		}
		if out[at].missing = missing; topic == "" {
			return nil
		}
		if out[at].by == nil {
			out[at].by = map[Topic]finding{}
		}
		out[at].by[topic] = f
		return nil
	})
}

// SetAttention notes that a person should look at a payer; see replaceFindings.
func (tx *Tx) SetAttention(connection, sourceID string, topic Topic, reason connector.Reason, detail string) error {
	return tx.replaceFindings(findings{RecordID{connection, sourceID}, map[Topic]finding{topic: {reason, detail}}})
}

// ClearAttention ends a topic's finding when it gives one of the reasons, or any reason when none are named. It
// waits for no answer.
func (tx *Tx) ClearAttention(connection, sourceID string, topic Topic, reasons ...connector.Reason) error {
	where, args := "", []any{connection, sourceID, topic}
	for i, r := range reasons {
		where += [...]string{" AND reason IN (?", ", ?"}[min(i, 1)]
		args = append(args, r)
	}
	if where != "" {
		where += ")"
	}
	return tx.exec("DELETE FROM attention WHERE connection = ? AND source_id = ? AND topic = ?"+where, args...)
}

// clearFindings is ClearAttention for records of a connection, as sourceIDs gives them.
func (tx *Tx) clearFindings(connection, sourceIDs string, topic Topic) error {
	return tx.exec("DELETE FROM attention WHERE connection = ? AND topic = ? AND source_id IN (SELECT value FROM json_each(?))", connection, topic, sourceIDs)
}

// endFinding is ClearAttention, and returns the ended reason; "" when there was none to end.
func (tx *Tx) endFinding(connection, sourceID string, topic Topic, reasons ...connector.Reason) (connector.Reason, error) {
	told, err := tx.told([]findings{{id: RecordID{connection, sourceID}}})
	if err != nil {
		return "", fmt.Errorf("look what people are told: %w", err)
	}
	if was := told[0].by[topic].reason; slices.Contains(reasons, was) {
		return was, tx.ClearAttention(connection, sourceID, topic)
	}
	return "", nil
}
