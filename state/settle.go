package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
)

// Touch notes that a write has changed a fact about a payer. At its end, the write decides again and stores the
// findings about the mandate. The others need the mapping: a plan writes them, and the event that knows them.
func (tx *Tx) Touch(p Payer) { tx.touched(p) }

// Explain is Touch, and gives the words for a reason. They are the finding's detail if the facts give that reason.
func (tx *Tx) Explain(p Payer, reason connector.Reason, detail string) {
	tx.touched(p).details[reason] = detail
}

// ShowMandate is Touch for a mandate status of which nothing is stored, because the service gave the mandate no id.
func (tx *Tx) ShowMandate(p Payer, status connector.MandateStatus) { tx.touched(p).status = status }

// touchedPayer is what a write has said about a payer.
type touchedPayer struct {
	details map[connector.Reason]string
	status  connector.MandateStatus // see ShowMandate; "" for none
}

func (tx *Tx) touched(p Payer) *touchedPayer {
	id := RecordID{p.Connection, p.SourceID}
	t := tx.touches[id]
	if t == nil {
		t = &touchedPayer{details: map[connector.Reason]string{}}
		if tx.touches == nil {
			tx.touches = map[RecordID]*touchedPayer{}
		}
		tx.touches[id] = t
	}
	return t
}

// settle decides again on all payers that the write has touched.
func (tx *Tx) settle() error {
	touches := tx.touches
	tx.touches = nil
	if len(touches) == 0 {
		return nil
	}
	ids := slices.SortedFunc(maps.Keys(touches), func(a, b RecordID) int {
		return strings.Compare(a.Connection+"\x00"+a.SourceID, b.Connection+"\x00"+b.SourceID)
	})
	return tx.decideAgain(ids, touches)
}

// Settle decides on payers by the facts of the ledger, and stores what follows. It writes nothing where the facts
// give what is stored: after every write, that is everywhere. It skips records that have changed since the newest
// plan: the next plan decides on them. It skips customers whose key is doubled or gone: the next read does.
//
// Only tests call it: a write settles what it has touched, and the simulation proves that nothing else is left.
func (tx *Tx) Settle(ids ...RecordID) error { return tx.decideAgain(ids, nil) }

func (tx *Tx) decideAgain(ids []RecordID, touches map[RecordID]*touchedPayer) error {
	for page := range slices.Chunk(ids, maxBatch) {
		all, err := tx.facts(page)
		if err != nil {
			return fmt.Errorf("gather what is known of payers: %w", err)
		}
		var sets []findings
		for _, known := range all {
			t := touches[known.id]
			if t == nil && known.waits {
				continue
			}
			if t != nil && t.status != "" && known.facts.Mandate.Status == "" {
				known.facts.Mandate.Status = t.status
			}
			next := finding{reason: protocol.Decide(known.facts).About(protocol.LaneMandate)}
			detail, explained := t.says(next.reason)
			if onlyRunsKnow(next.reason) && !explained {
				if known.told == "" || onlyRunsKnow(known.told) {
					continue
				}
				next.reason = "" // what is told, for example of a former mandate, follows from no fact any more
			}
			if next.reason == known.told && detail == "" {
				continue
			}
			next.detail = detail
			sets = append(sets, findings{known.id, map[Topic]finding{TopicMandate: next}})
		}
		if err := tx.replaceFindings(sets...); err != nil {
			return err
		}
	}
	return nil
}

// onlyRunsKnow reports whether the ledger lacks a fact for a finding, so only an event or a plan gives it. A request
// of this moment has no answer yet, and is no finding before its run says so. A lost link may be asked for again by a
// setting of the run (Settings.SameMandate of package syncer).
func onlyRunsKnow(r connector.Reason) bool {
	return r == connector.ReasonOutcomeUnknown || r == connector.ReasonLinkLost
}

// says returns the words for a reason, and whether the write gave that reason.
func (t *touchedPayer) says(r connector.Reason) (detail string, explained bool) {
	if t != nil {
		detail, explained = t.details[r]
	}
	return detail, explained
}

// payerFacts are the facts about a payer, as its newest plan and all events since have left them.
type payerFacts struct {
	id    RecordID
	facts protocol.Facts
	told  connector.Reason // about the mandate
	waits bool             // for a plan, as the record has changed since the newest one; or for the look at a key that is doubled or gone
}

// facts returns the facts about the payers with these records, as a plan takes them.
func (tx *Tx) facts(ids []RecordID) ([]payerFacts, error) {
	asked := make([]RecordID, len(ids))
	for i, id := range ids {
		asked[i] = RecordID{connector.Clean(id.Connection), connector.Clean(id.SourceID)}
	}
	page, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	var out []payerFacts
	var open []int
	err = tx.each(`SELECT j.key, r.decision, `+hasLeft+`, r.planned_hash <> r.content_hash OR r.replan = 1 OR r.unseen = 1, r.not_asked, coalesce(h.reason, ''), `+payerColumns+", "+factColumns+`
		FROM json_each(?1) j CROSS JOIN source_records r ON r.connection = j.value ->> 'Connection' AND r.source_id = j.value ->> 'SourceID'`+factFrom+`
		LEFT JOIN attention h ON h.connection = r.connection AND h.source_id = r.source_id AND h.topic = 'mandate'`, []any{string(page)}, func(scan func(...any) error) error {
		var at int
		var verdict Verdict
		var left bool
		var notAsked connector.WhyUnasked
		var known payerFacts
		var p payerRow
		var f factRow
		if err := scan(slices.Concat([]any{&at, &verdict, &left, &known.waits, &notAsked, &known.told}, p.dest(), f.dest())...); err != nil || !p.connection.Valid {
			return err
		}
		p.applied, p.accepted = nil, nil // no fact is in them
		payer, err := tx.l.payer(p)
		if err != nil {
			return err
		}
		known.id = ids[at]
		if known.facts, err = f.facts(payer); err != nil {
			return err
		}
		known.waits = known.waits || f.holders != 1
		known.facts.Record = verdict.record(known.facts.Key, left, notAsked)
		known.facts.AsRead()
		if out = append(out, known); f.open {
			open = append(open, len(out)-1)
		}
		return nil
	})
	for _, i := range open {
		if err == nil {
			out[i].facts.Attempts, err = tx.attemptsAt(out[i].facts.Link.Customer)
		}
	}
	return out, err
}

// record returns what the newest plan made of a record, for the mandate of its payer.
func (v Verdict) record(key string, left bool, notAsked connector.WhyUnasked) protocol.Record {
	switch {
	case left:
		return protocol.Record{Standing: protocol.NotShown}
	case v == Included:
		return protocol.Record{Standing: protocol.Included, Key: key, Mandate: notAsked == ""}
	}
	return protocol.Record{Standing: protocol.Unfit}
}
