package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
)

// Touch notes that a write has changed a fact about a payer. At its end, the write decides again and stores what
// follows: the class of its record, the state of its link, and the findings.
func (tx *Tx) Touch(p Payer) { tx.touched(RecordID{p.Connection, p.SourceID}) }

// Explain is Touch for an event with a finding about a topic. A blank reason ends the finding. The detail is stored
// if the facts give the same reason. See payerFacts.finding for facts that the ledger lacks.
func (tx *Tx) Explain(p Payer, topic Topic, reason connector.Reason, detail string) {
	tx.touched(RecordID{p.Connection, p.SourceID}).said[topic] = finding{reason, detail}
}

// HoldLink is Touch for an event that has found a problem with a payer's customer. The ledger may not show that
// problem, because the customer may not be linked. The event gives the state of the link and the reason.
func (tx *Tx) HoldLink(p Payer, to connector.LinkState, reason connector.Reason) {
	t := tx.touched(RecordID{p.Connection, p.SourceID})
	t.link, t.ended = to, reason
}

// ShowMandate is Touch for a mandate status of which nothing is stored, because the service gave the mandate no id.
func (tx *Tx) ShowMandate(p Payer, status connector.MandateStatus) {
	tx.touched(RecordID{p.Connection, p.SourceID}).status = status
}

// touchedPayer is what a write has said about a payer.
type touchedPayer struct {
	said   map[Topic]finding       // see Explain
	status connector.MandateStatus // see ShowMandate; "" for none
	ended  connector.Reason        // why a change of the customer has ended
	shown  connector.Reason        // see Hold; "" for none
	link   connector.LinkState     // see HoldLink and Hold; "" for none
}

func (tx *Tx) touched(id RecordID) *touchedPayer {
	t := tx.touches[id]
	if t == nil {
		t = &touchedPayer{said: map[Topic]finding{}}
		if tx.touches == nil {
			tx.touches = map[RecordID]*touchedPayer{}
		}
		tx.touches[id] = t
	}
	return t
}

// decideTouched decides again on all payers that the write has touched.
func (tx *Tx) decideTouched() error {
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

// Settle decides on all records by the facts of the ledger, stores what follows, and returns the differences in words.
// There should be none after a write. It skips records that wait for a plan: see payerFacts.waits.
//
// Only tests call it: a write settles what it has touched, and the simulation proves that nothing else is left.
func (tx *Tx) Settle() (differences []string, err error) {
	ids, err := collect("list the records", func(scan scanner) (id RecordID, err error) {
		err = scan(&id.Connection, &id.SourceID)
		return id, err
	})(tx.query("SELECT connection, source_id FROM source_records ORDER BY connection, source_id"))
	if err == nil {
		err = tx.decideAgain(ids, nil)
	}
	differences, tx.differences = tx.differences, nil
	return differences, err
}

func (tx *Tx) decideAgain(ids []RecordID, touches map[RecordID]*touchedPayer) error {
	for page := range slices.Chunk(ids, maxBatch) {
		all, err := tx.facts(page)
		if err != nil {
			return fmt.Errorf("gather what is known of payers: %w", err)
		}
		var sets []findings
		var classes, links []any
		var mended []payerFacts
		for _, known := range all {
			t := touches[known.id]
			if t == nil && known.waits {
				continue
			}
			if t != nil && t.status != "" && known.facts.Mandate.Status == "" {
				known.facts.Mandate.Status = t.status
			}
			next := protocol.Decide(known.facts)
			if class := known.progress(next, t); class != known.class {
				classes = append(classes, known.id.Connection, known.id.SourceID, class)
				tx.differ(t, "%s is %q, and not %q: %s", known.id.SourceID, class, known.class, next.Customer.Line)
			}
			if link := known.linkBy(next, t); link != known.link {
				links = append(links, known.id.Connection, known.id.SourceID, link)
				switch {
				case link == connector.LinkLinked && (t == nil || t.ended == ""):
					mended = append(mended, known)
				case link == connector.LinkConflict && t != nil: // the next plan tells
					if err := tx.LookNext(Payer{Connection: known.id.Connection, SourceID: known.id.SourceID}); err != nil {
						return err
					}
				}
				tx.differ(t, "the payer of %s is %q, and not %q: %s", known.id.SourceID, link, known.link, next.Customer.Line)
			}
			if set, changed := known.findings(next, t); len(set.by) > 0 {
				sets = append(sets, set)
				for _, topic := range changed {
					tx.differ(t, "%s has the finding %q about the %s, and not %q: %s", known.id.SourceID, set.by[topic].reason, topic,
						known.told[topic.at()], next.Customer.Line)
				}
			}
		}
		if err := errors.Join(tx.setClasses(classes), tx.setLinks(links), connector.Each(mended, tx.replanHeld),
			tx.replaceFindings(sets...)); err != nil {
			return err
		}
	}
	return nil
}

// differ notes a difference for Settle.
func (tx *Tx) differ(t *touchedPayer, format string, args ...any) {
	if t == nil {
		tx.differences = append(tx.differences, fmt.Sprintf(format, args...))
	}
}

// setClasses stores the classes of records: their connection, source id and class.
func (tx *Tx) setClasses(rows []any) error {
	return connector.Wrap(tx.updateRows(nil, "UPDATE source_records SET class = g.column3", "(?, ?, ?)",
		"source_records.connection = g.column1 AND source_records.source_id = g.column2", nil, rows),
		"store how records stand")
}

// setLinks stores how payers relate to their customers: their connection, source id and link state.
func (tx *Tx) setLinks(rows []any) error {
	return connector.Wrap(tx.updateRows(nil, "UPDATE payers SET link_state = g.column3, updated_at = ?1", "(?, ?, ?)",
		"payers.connection = g.column1 AND payers.source_id = g.column2", []any{stamp(tx.now)}, rows),
		"store how payers are linked")
}

// linkBy returns the state of the payer's link. A link that no read has confirmed counts as being created.
func (k payerFacts) linkBy(next protocol.Outcome, t *touchedPayer) connector.LinkState {
	switch {
	case k.link == "": // the record has no payer
		return ""
	case t != nil && t.link != "" && (k.beyond || t.ended != "" && next.Customer.Reason == ""):
		return t.link
	case k.beyond && k.link == connector.LinkCreating && len(k.facts.Attempts) == 0:
		return connector.LinkNew
	case k.beyond:
		return k.link
	case k.unconfirmed && next.Link == connector.LinkLinked:
		return connector.LinkCreating
	}
	return next.Link
}

// progress returns the class of the record. If the facts give no finding, the reason of a change that has just ended
// counts, and then a request whose outcome is not known. The run may have read a customer that is not linked, and then
// knows more than the ledger.
func (k payerFacts) progress(next protocol.Outcome, t *touchedPayer) protocol.Status {
	class := next.Progress()
	claims := k.facts.Record.Usability == protocol.Included || k.facts.Record.Usability == protocol.Unfit
	switch {
	case claims && k.replan:
		return protocol.Working
	case claims && t != nil && t.ended != "" && (k.beyond || next.Customer.Reason == ""):
		return protocol.ClassOf(false, false, t.ended)
	case claims && t != nil && t.shown != "" && k.beyond:
		return protocol.ClassOf(false, false, t.shown)
	case k.beyond:
		return k.class
	case claims && k.unanswered && next.Customer.Reason == "":
		return protocol.ClassOf(false, false, connector.ReasonOutcomeUnknown)
	case k.plan.flags.has(flagWithheld) && class == protocol.Working:
		return protocol.ClassOf(false, false, connector.ReasonTwoWay)
	}
	return class
}

// findings returns the findings to store about the payer: those with another reason than the stored one, or with a
// detail. It also returns the topics with another reason.
func (k payerFacts) findings(next protocol.Outcome, t *touchedPayer) (set findings, changed []Topic) {
	set = findings{k.id, map[Topic]finding{}}
	for i, topic := range topics {
		f := k.finding(topic, k.gives(topic, next), t)
		if f.reason != k.told[i] {
			changed = append(changed, topic)
		}
		if f.reason != k.told[i] || f.detail != "" {
			set.by[topic] = f
		}
	}
	return set, changed
}

// gives returns the reason of a finding by the facts. A change without a known outcome is one of them.
func (k payerFacts) gives(topic Topic, next protocol.Outcome) connector.Reason {
	given := next.About(protocol.Lane(topic))
	if given == "" && topic == TopicLink && k.unanswered {
		return connector.ReasonOutcomeUnknown
	}
	return given
}

// finding returns the finding about one topic. given is the reason by the facts. It counts if the ledger has all
// facts, as it has about mandates. A run or a person may know more about a record and its customer. Then the event's
// finding counts; without one, the stored finding stays.
func (k payerFacts) finding(topic Topic, given connector.Reason, t *touchedPayer) finding {
	told := finding{reason: k.told[topic.at()]}
	said, explained := t.says(topic)
	beyond := topic != TopicMandate && k.beyond
	switch {
	case explained && (said.reason == given || beyond || topic != TopicMandate &&
		(given == "" || said.reason == "" && k.replan)):
		return said
	case beyond, given == "" && k.keeps(told.reason), onlyRunsKnow(given) &&
		(told.reason == "" || onlyRunsKnow(told.reason) || topic == TopicLink && k.creating):
		return told
	case given == connector.ReasonLinkLost:
		return finding{}
	}
	return finding{reason: given}
}

// onlyRunsKnow reports whether a run says when a reason by the facts becomes a finding. A request of this moment has no
// answer yet, and a run knows best why an unanswered create waits. A run may also ask again for a lost link, by its
// setting SameMandate (package syncer).
func onlyRunsKnow(r connector.Reason) bool {
	return r == connector.ReasonOutcomeUnknown || r == connector.ReasonLinkLost
}

// keeps reports whether a finding stays though no fact gives it: others changed the customer during an update, the
// connection only links, the new customer could not be read back, or the record was unlinked and cannot be sent now.
func (k payerFacts) keeps(told connector.Reason) bool {
	return told == connector.ReasonForeignChange || told == connector.ReasonTwoWay ||
		told == connector.ReasonOutcomeUnknown && k.unconfirmed ||
		told == connector.ReasonUnlinked && k.facts.Link.Customer == ""
}

// says returns what the write has explained about a topic, and whether it has.
func (t *touchedPayer) says(topic Topic) (f finding, explained bool) {
	if t != nil {
		f, explained = t.said[topic]
	}
	return f, explained
}

// payerFacts are the facts about a record and its payer, as its newest plan and all events since have left them.
type payerFacts struct {
	id    RecordID
	facts protocol.Facts
	plan  PlanFacts

	told        [len(topics)]connector.Reason
	class       protocol.Status
	link        connector.LinkState // "" for a record without a payer
	replan      bool                // the next plan decides on the record
	beyond      bool                // the facts about customers that are not linked are with a run
	unconfirmed bool                // no read has shown the linked customer yet
	creating    bool                // a create was sent, and has no answer
	unanswered  bool                // the outcome of the customer's open change is unknown
	// for a plan: the record or its surroundings have changed since the newest one, a request is under way, or the
	// ledger was restored
	waits bool
	shown bool // the index knows the customer, and no other one with its key
}

// settleColumns give what a decision needs beyond factColumns: the facts of the newest plan, the state of a create, and
// the stored conclusions.
const settleColumns = `r.decision, r.unfit, CASE r.wanted_hash WHEN '' THEN coalesce(` + newestWanted +
	`, '') ELSE r.wanted_hash END, r.plan_flags,
	r.state <> 'active' OR r.same_as <> '', r.unseen = 1, r.forgotten <> '', r.not_asked, r.replan = 1,
	NOT ` + isPlanned + ` OR r.replan = 1, r.contested = 1,
	(SELECT coalesce(max(u.action || ' ' || u.state), '') FROM changes u WHERE u.connection = r.connection AND u.source_id = r.source_id AND u.lane = 'customer' AND (u.state = 'frozen' OR u.state = 'unknown')),
	CASE WHEN p.billing_id IS NULL THEN (SELECT count(*) > 0 FROM words w WHERE w.connection = r.connection AND w.source_id = r.source_id AND w.word <> 'reject') ELSE false END,
	CASE WHEN p.billing_id IS NULL THEN (SELECT count(*) > 0 FROM attempts a WHERE a.key_name = p.key_name AND a.key_value = p.key_value AND a.action = 'create' AND a.ended = ''
		AND (a.connection <> p.connection OR a.source_id <> p.source_id)) ELSE false END,
	CASE WHEN p.billing_id IS NULL THEN (SELECT count(*) > 0 FROM payers q WHERE q.key_name = p.key_name AND q.key_value = p.key_value AND q.billing_id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM remote_customers g WHERE g.billing_id = q.billing_id AND g.digest = '')) ELSE false END,
	r.class, coalesce(hr.reason, ''), coalesce(hl.reason, ''), coalesce(hm.reason, '')`

// newestWanted is the hash of the wanted customer of the newest change of record r.
const newestWanted = `(SELECT n.wanted_hash FROM changes n WHERE n.connection = r.connection AND n.source_id = r.source_id AND n.lane = 'customer'
	AND n.change_id > coalesce(p.parted, 0) ORDER BY n.change_id DESC LIMIT 1)`

// settleRow is a row of settleColumns.
type settleRow struct {
	decision                    Verdict
	notAsked                    connector.WhyUnasked
	gone, unseen, forgotten     bool
	stale, contested            bool
	sent                        string // the action and the state of the customer's open change that was sent; "" for none
	accepted, underWay, another bool
}

// facts returns the facts about records and their payers, as a plan takes them.
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
	err = tx.each(`SELECT j.key, `+settleColumns+`, `+payerColumns+", "+factColumns+`
		FROM json_each(?1) j CROSS JOIN source_records r ON r.connection = j.value ->> 'Connection' AND r.source_id = j.value ->> 'SourceID'`+factFrom+`
		LEFT JOIN attention hr ON hr.connection = r.connection AND hr.source_id = r.source_id AND hr.topic = 'record'
		LEFT JOIN attention hl ON hl.connection = r.connection AND hl.source_id = r.source_id AND hl.topic = 'link'
		LEFT JOIN attention hm ON hm.connection = r.connection AND hm.source_id = r.source_id AND hm.topic = 'mandate'`,
		[]any{string(page)}, func(scan func(...any) error) error {
			var at int
			var known payerFacts
			var s settleRow
			var p payerRow
			var f factRow
			own := []any{&at, &s.decision, &known.plan.unfit, &known.plan.hash, &known.plan.flags, &s.gone, &s.unseen,
				&s.forgotten, &s.notAsked, &known.replan, &s.stale, &s.contested,
				&s.sent, &s.accepted, &s.underWay, &s.another, &known.class, &known.told[0], &known.told[1], &known.told[2]}
			if err := scan(slices.Concat(own, p.dest(), f.dest())...); err != nil {
				return err
			}
			known.id = ids[at]
			if err := tx.decided(&known, s, p, f); err != nil {
				return err
			}
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

// decided puts the facts of a row together.
func (tx *Tx) decided(known *payerFacts, s settleRow, p payerRow, f factRow) error {
	if p.connection.Valid {
		p.applied, p.accepted = nil, nil // no fact is in them
		payer, err := tx.l.payer(p)
		if err != nil {
			return err
		}
		if known.facts, err = f.facts(payer); err != nil {
			return err
		}
		known.link, known.unconfirmed = payer.LinkState, payer.BillingID != "" && !payer.Seen
	}
	known.unanswered = s.sent != ""
	known.shown = f.ticket.Valid && f.holders == 1
	facts := &known.facts
	if f.rival.Valid {
		facts.Rival = protocol.RivalRecord
	}
	linked := facts.Link.Customer != ""
	known.plan.addTo(facts, s.usability(known.plan), s.notAsked == "")
	facts.Index = protocol.Index{Since: math.MaxInt64, Now: true}
	known.creating = strings.HasPrefix(s.sent, string(connector.ActionCreate))
	if known.creating {
		facts.Attempts = []protocol.Attempt{{Action: connector.ActionCreate}}
	}
	if s.another && facts.Rival == protocol.NoRival {
		facts.Rival = protocol.RivalLink
	}
	facts.AsPlanned()
	facts.AsRead()
	keyMatters := !linked && (facts.Record.Usability == protocol.Included || known.creating)
	known.beyond = known.plan.flags == noPlan && s.decision == Held || s.forgotten ||
		keyMatters && (f.holders > 0 || s.accepted || s.underWay || known.plan.flags.has(flagHolders))
	known.waits = s.stale || s.unseen || known.beyond || s.contested != (facts.Rival == protocol.RivalRecord) ||
		f.last.state == connector.ChangeHeld || facts.Doubt.Since != 0 && facts.Doubt.Over == 0 || !linked && f.holders > 0 ||
		f.open
	return nil
}

// standing returns the standing of a record by its newest plan and its state.
func (s settleRow) usability(p PlanFacts) protocol.Usability {
	switch {
	case s.unseen:
		return protocol.NotShown
	case s.decision == Excluded && s.gone:
		return protocol.Gone
	case s.decision == Excluded, s.decision == "none":
		return protocol.Excluded
	case p.unfit != "":
		return protocol.Unfit
	case s.gone:
		return protocol.Gone
	}
	return protocol.Included
}
