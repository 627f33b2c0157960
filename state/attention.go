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

// topics are those of a record, in the order of their importance.
var topics = [...]Topic{TopicRecord, TopicLink, TopicMandate}

// at returns the place of a topic in topics.
func (t Topic) at() int { return slices.Index(topics[:], t) }

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
// unchanged reason the time stays, and with a blank detail also the earlier detail. Nothing is written for unchanged
// findings.
func (tx *Tx) replaceFindings(sets ...findings) error {
	for page := range slices.Chunk(sets, maxBatch) {
		var rows []any
		told, err := tx.storedFindings(page)
		if err != nil {
			return fmt.Errorf("look what people are told: %w", err)
		}
		for i, set := range page {
			for _, topic := range topics {
				next, named := set.by[topic]
				was := told[i][topic]
				switch {
				case !named, next.reason == "" && was.reason == "":
					continue
				case next.reason == "":
					if err := tx.exec("DELETE FROM attention WHERE connection = ? AND source_id = ? AND topic = ?", set.id.Connection,
						set.id.SourceID, topic); err != nil {
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
		if err := tx.insertRows("INSERT INTO attention (connection, source_id, topic, reason, detail, since) VALUES ",
			"(?, ?, ?, ?, ?, ?)", rows,
			` ON CONFLICT (connection, source_id, topic) DO UPDATE SET
			  since = CASE WHEN attention.reason = excluded.reason THEN attention.since ELSE excluded.since END,
			  detail = excluded.detail, reason = excluded.reason`); err != nil {
			return fmt.Errorf("save what people are told: %w", err)
		}
	}
	return nil
}

// storedFindings returns the findings on the records of the sets, in their order.
func (tx *Tx) storedFindings(sets []findings) ([]map[Topic]finding, error) {
	ids := make([]RecordID, len(sets))
	for i, s := range sets {
		ids[i] = RecordID{connector.Clean(s.id.Connection), connector.Clean(s.id.SourceID)}
	}
	page, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	out := make([]map[Topic]finding, len(sets))
	return out, tx.each(`SELECT j.key, a.topic, a.reason, a.detail
		FROM json_each(?1) j CROSS JOIN attention a ON a.connection = j.value ->> 'Connection' AND a.source_id = j.value ->> 'SourceID'`, []any{string(page)}, func(scan func(...any) error) error {
		var at int
		var topic Topic
		var f finding
		if err := scan(&at, &topic, &f.reason, &f.detail); err != nil {
			return err
		}
		if out[at] == nil {
			out[at] = map[Topic]finding{}
		}
		out[at][topic] = f
		return nil
	})
}
