package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
)

// PlannedCreate is a planned create and the exact bytes of its request.
type PlannedCreate struct {
	Change Change
	Body   []byte
}

// Frozen is what FreezeCreates or FreezeLinks did with one change: its coming request, or why it may not be sent.
type Frozen struct {
	Attempt Attempt
	Err     error
}

// FreezeCreate is FreezeCreates for one create.
func (tx *Tx) FreezeCreate(run int64, c Change, body []byte, since int64) (Attempt, error) {
	frozen, err := tx.FreezeCreates(run, []PlannedCreate{{c, body}}, since)
	if err != nil {
		return Attempt{}, err
	}
	return frozen[0].Attempt, frozen[0].Err
}

// FreezeCreates commits the exact bytes of creates of one connection, and the coming requests, before
// they are sent. The result has the order of the group. One create fails with ErrKeyFound or ErrKeyTaken
// when its key has turned up since the plan. It fails with ErrKeyUnderWay while another create with the key
// may still take effect, judged by the index since a trusted ticket. It fails with ErrAccepted for a record
// with an accepted match, with ErrCreatesWait while the connection's creates are stopped, and with
// ErrNotOpen if it is planned no more. The others of its group are frozen all the same.
func (tx *Tx) FreezeCreates(run int64, group []PlannedCreate, since int64) ([]Frozen, error) {
	tx.leads = true
	if err := tx.holds(run); err != nil {
		return nil, err
	}
	out, err := tx.mayCreate(group, since)
	if err != nil {
		return nil, err
	}
	var may []PlannedCreate
	for i, c := range group {
		if out[i].Err == nil {
			may = append(may, c)
		}
	}
	if len(may) == 0 {
		return out, nil
	}
	attempts, err := tx.freezeAll(run, may)
	for i := range out {
		if err == nil && out[i].Err == nil {
			out[i].Attempt, attempts = attempts[0], attempts[1:]
		}
	}
	return out, err
}

// createFacts are the stored facts about a create that is about to be sent.
type createFacts struct {
	open     bool // it is still planned
	stopped  bool // the connection creates no customers yet
	taken    bool // another payer has the key
	found    bool // a customer carries the key
	underWay bool // a create of another change with the key may still take effect
	accepted bool // a person has said that the record already is a customer, available or not
}

// err says why the create may not be sent, or nil.
func (f createFacts) err(change int64) error {
	err := errors.Join(when(f.taken, ErrKeyTaken), when(f.found, ErrKeyFound), when(f.underWay, ErrKeyUnderWay),
		when(f.accepted, ErrAccepted), when(f.stopped, ErrCreatesWait))
	if err == nil && !f.open {
		return notOpen(change)
	}
	return err
}

// mayCreate finds out which creates may be sent, with one query. Of several with one key, only the first may.
func (tx *Tx) mayCreate(group []PlannedCreate, since int64) ([]Frozen, error) {
	facts, err := tx.createFacts(group, since)
	if err != nil {
		return nil, fmt.Errorf("look the keys up: %w", err)
	}
	out, sent := make([]Frozen, len(group)), make(map[connector.Key]bool, len(group))
	for i, c := range group {
		key, f := c.Change.Payer.Key, facts[c.Change.ID]
		if sent[key] {
			f.taken, f.underWay = true, true
		}
		out[i].Err = f.err(c.Change.ID)
		sent[key] = sent[key] || out[i].Err == nil
	}
	return out, nil
}

func (tx *Tx) createFacts(group []PlannedCreate, since int64) (map[int64]createFacts, error) {
	type row struct {
		ID                  int64
		Source, Name, Value string
	}
	rows := make([]row, len(group))
	for i, g := range group {
		p, clean := g.Change.Payer, connector.Clean
		rows[i] = row{g.Change.ID, clean(p.SourceID), clean(p.Key.Name), clean(p.Key.ScopedValue())}
	}
	asked, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]createFacts, len(group))
	return out, tx.each(`WITH k AS MATERIALIZED (SELECT CAST(value ->> 'ID' AS BIGINT) AS change_id, value ->> 'Source' AS source_id,
		  value ->> 'Name' AS key_name, value ->> 'Value' AS key_value, CAST(?3 AS TEXT) AS connection FROM json_each(?1))
		SELECT k.change_id, EXISTS (SELECT 1 FROM changes c WHERE c.change_id = k.change_id AND c.state = 'pending'), `+fmt.Sprintf(isStopped, "?3")+", "+isTaken+`,
		  EXISTS (SELECT 1 FROM remote_traits WHERE kind = 'key' AND value = k.key_name || '=' || k.key_value),
		  EXISTS (SELECT 1 FROM attempts a WHERE a.key_name = k.key_name AND a.key_value = k.key_value AND a.action = 'create' AND a.ended = '' AND (a.over = 0 OR a.over >= ?2) AND a.change_id <> k.change_id),
		  EXISTS (SELECT 1 FROM words w WHERE w.connection = k.connection AND w.source_id = k.source_id AND w.word <> 'reject')
		FROM k`, []any{string(asked), since, group[0].Change.Payer.Connection}, func(scan func(...any) error) error {
		var id int64
		var f createFacts
		err := scan(&id, &f.open, &f.stopped, &f.taken, &f.found, &f.underWay, &f.accepted)
		out[id] = f
		return err
	})
}

// freezeAll freezes creates that may be sent, and returns their attempts in the order of the group.
func (tx *Tx) freezeAll(run int64, group []PlannedCreate) ([]Attempt, error) {
	var ours, others []any // rows of changes that this run touched last, and of the rest: see touch
	for _, c := range group {
		id := c.Change.ID
		row := []any{id, tx.l.seal.box(c.Body, changePlace("body", id)), sha(c.Body)}
		if c.Change.Run == run {
			ours = append(ours, row...)
		} else {
			others = append(others, row...)
		}
	}
	const set = "UPDATE changes SET state = 'frozen', body = g.column2, body_sha256 = g.column3, attempts = attempts + 1, frozen_at = ?1, updated_at = ?1"
	if err := errors.Join(
		tx.updateRows(errNotTogether, set, frozenRow, "change_id = g.column1 AND state = 'pending'", []any{stamp(tx.now)},
			ours),
		tx.updateRows(errNotTogether, set+", run_id = ?2", frozenRow, "change_id = g.column1 AND state = 'pending'",
			[]any{stamp(tx.now), run}, others),
	); err != nil {
		return nil, fmt.Errorf("freeze creates: %w", err)
	}
	payers, err := sourceIDs(group, func(c PlannedCreate) Change { return c.Change })
	if err != nil {
		return nil, err
	}
	if err := tx.exec("UPDATE payers SET link_state = 'creating', updated_at = ? WHERE connection = ? AND link_state <> 'creating' AND source_id IN (SELECT value FROM json_each(?))",
		stamp(tx.now), group[0].Change.Payer.Connection, payers); err != nil {
		return nil, fmt.Errorf("freeze creates: %w", err)
	}
	return tx.beginAttempts(connector.Map(group, func(c PlannedCreate) Change { return c.Change }))
}

// frozenRow is a row of values about a frozen change: its id, body and checksum.
const frozenRow = "(CAST(? AS BIGINT), coalesce(?, x''), ?)"

// Sent is a change and its request that is about to leave.
type Sent struct {
	Change  Change
	Attempt Attempt
}

// Thaw takes the first freeze of creates and link requests of one connection back, if they certainly never
// left: they are planned again, and nobody has to wait for them. One that another process has continued stays.
func (tx *Tx) Thaw(group []Sent) error {
	if len(group) == 0 {
		return nil
	}
	attempts, err := json.Marshal(connector.Map(group, func(s Sent) int64 { return s.Attempt.ID }))
	if err != nil {
		return err
	}
	payers, err := sourceIDs(group, func(s Sent) Change { return s.Change })
	if err != nil {
		return err
	}
	const ofGroup = "attempt_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) AND ended = ''"
	now := stamp(tx.now)
	return connector.Wrap(errors.Join(
		tx.exec(`UPDATE changes SET state = 'pending', body = NULL, body_sha256 = '', frozen_at = NULL, attempts = 0, updated_at = ?
			WHERE state = 'frozen' AND (action = 'create' OR action = 'link') AND attempts = 1 AND change_id IN (SELECT change_id FROM attempts WHERE `+ofGroup+`)`, now, string(attempts)),
		tx.exec("UPDATE attempts SET ended = 'unsent', end_ticket = (SELECT ticket FROM ledger) WHERE "+ofGroup,
			string(attempts)),
		tx.exec(`UPDATE payers AS p SET link_state = 'new', updated_at = ? WHERE p.connection = ? AND p.billing_id IS NULL AND p.link_state = 'creating'
			AND p.source_id IN (SELECT value FROM json_each(?)) AND NOT `+isSent, now, group[0].Change.Payer.Connection, payers),
	), "take back the freeze of requests")
}

// sourceIDs returns the source ids of changes, as a statement takes them.
func sourceIDs[E any](group []E, change func(E) Change) (string, error) {
	ids, err := json.Marshal(connector.Map(group, func(e E) string { return connector.Clean(change(e).Payer.SourceID) }))
	return string(ids), err
}

// ErrLookFirst means that a request for a signing link needs a look at its record or its customer before.
var ErrLookFirst = errors.New("the ledger alone does not decide on the request")

// FreezeLinks commits that planned requests for signing links of one connection are about to be sent. The
// result has the order of the group. One that is planned no more fails with ErrNotOpen. One fails with
// ErrLookFirst if next, by the facts of the ledger, does not say to send it, or if its record has changed
// since the plan. The others of the group are frozen all the same.
func (tx *Tx) FreezeLinks(run int64, group []Change, next func(protocol.Facts) protocol.Do) ([]Frozen, error) {
	tx.leads = true
	if err := tx.holds(run); err != nil {
		return nil, err
	}
	open, err := tx.pendingOf(group)
	if err != nil {
		return nil, fmt.Errorf("freeze requests for signing links: %w", err)
	}
	sends, err := tx.decideLinks(group, next)
	if err != nil {
		return nil, fmt.Errorf("decide on requests for signing links: %w", err)
	}
	var may []Change
	out := make([]Frozen, len(group))
	for i, c := range group {
		switch {
		case !open[c.ID]:
			out[i].Err = notOpen(c.ID)
		case !sends[RecordID{c.Payer.Connection, c.Payer.SourceID}]:
			out[i].Err = ErrLookFirst
		default:
			may = append(may, c)
		}
	}
	if len(may) == 0 {
		return out, nil
	}
	if err := tx.moveAll(run, may, "state = 'frozen', attempts = attempts + 1", "state = 'pending'"); err != nil {
		return nil, fmt.Errorf("freeze requests for signing links: %w", err)
	}
	attempts, err := tx.beginAttempts(may)
	for i := range out {
		if err == nil && out[i].Err == nil {
			out[i].Attempt, attempts = attempts[0], attempts[1:]
		}
	}
	return out, err
}

// decideLinks returns the payers of requests that are to be sent by the facts of the ledger.
func (tx *Tx) decideLinks(group []Change, next func(protocol.Facts) protocol.Do) (map[RecordID]bool, error) {
	all, err := tx.facts(connector.Map(group,
		func(c Change) RecordID { return RecordID{c.Payer.Connection, c.Payer.SourceID} }))
	out := make(map[RecordID]bool, len(all))
	for _, known := range all {
		out[known.id] = known.shown && !known.waits && next(known.facts) == protocol.AskLink
	}
	return out, err
}

// pendingOf returns which changes are planned and not sent.
func (tx *Tx) pendingOf(group []Change) (map[int64]bool, error) {
	ids, err := json.Marshal(connector.Map(group, func(c Change) int64 { return c.ID }))
	if err != nil {
		return nil, err
	}
	out := map[int64]bool{}
	return out, tx.each("SELECT c.change_id FROM json_each(?) j CROSS JOIN changes c ON c.change_id = CAST(j.value AS BIGINT) WHERE c.state = 'pending'", []any{string(ids)}, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		out[id] = true
		return err
	})
}

// moveAll is touch for several changes with the same values. It fails with errNotTogether if one does not meet the
// condition.
func (tx *Tx) moveAll(run int64, group []Change, set, where string) error {
	ours, others := []int64{}, []int64{} // that this run touched last, and the rest
	for _, c := range group {
		if c.Run == run {
			ours = append(ours, c.ID)
		} else {
			others = append(others, c.ID)
		}
	}
	for _, part := range []struct {
		ids  []int64
		set  string
		more []any
	}{{ours, set, nil}, {others, set + ", run_id = ?3", []any{run}}} {
		if len(part.ids) == 0 {
			continue
		}
		ids, err := json.Marshal(part.ids)
		if err != nil {
			return err
		}
		query := "UPDATE changes SET " + part.set +
			", updated_at = ?1 WHERE change_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?2)) AND " + where
		if err := tx.mustAll(len(part.ids), errNotTogether, query,
			append([]any{stamp(tx.now), string(ids)}, part.more...)...); err != nil {
			return err
		}
	}
	return nil
}
