package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
)

// These columns give factRow the other facts for a decision on record r and its payer p. They cover
// the customer in the newest read, the carriers of the key, and the result of the payer's last
// change. They also cover the mandate, the last request for its link, since when the ledger knows
// the sent requests, and another record with the payer's key. It counts rows even if one is enough,
// because PostgreSQL first lists all possible hits of EXISTS, for each page anew.
var (
	factColumns = `p.shows, p.shown_at, p.confirmed_at, p.answered_at, rc.ticket, rc.digest, rc.key_values,
	(SELECT count(*) > 0 FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value AND t.billing_id = p.billing_id),
	(SELECT count(*) FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value),
	(SELECT count(*) > 0 FROM attempts a WHERE a.billing_id = p.billing_id AND a.ended = '' AND a.action <> 'create'),
	` + lastCustomer + `, r.retried_at, m.status, m.link IS NOT NULL, coalesce(m.link_refused, 0), ` + lastLink + `,
	EXISTS (SELECT 1 FROM changes o WHERE o.connection = r.connection AND o.source_id = r.source_id AND o.lane = 'mandate' AND o.state <> 'pending' AND (o.state = 'pending' OR o.state = 'frozen' OR o.state = 'unknown')),
	p.stays_at, p.stays_with, r.given_up, r.asking_word, coalesce(p.let_be, 0), ` + letBe + `,
	` + doubtSince + `,
	` + doubtOver + `,
	(SELECT min(o.source_id) FROM payers o JOIN source_records s ON s.connection = o.connection AND s.source_id = o.source_id AND ` + rivals + `)`

	lastCustomer, lastLink = lastOf(LaneCustomer), lastOf(LaneMandate)

	factFrom = ` LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
	LEFT JOIN remote_customers rc ON rc.billing_id = p.billing_id
	LEFT JOIN mandates m ON m.mandate_id = p.mandate_id `
)

// lastOf describes in one text the last finished change of a lane and its end; NULL for none. It is
// no join: under policies PostgreSQL can use a subquery's result only by reading the whole table.
func lastOf(lane string) string {
	return `(SELECT n.action || ' ' || n.state || ' ' || n.ended_at || ' ' || n.wanted_hash || ' ' || n.reason FROM changes n
		WHERE n.connection = r.connection AND n.source_id = r.source_id AND n.lane = '` + lane +
		`' AND (n.state = 'done' OR n.state = 'failed' OR n.state = 'held') AND n.change_id > coalesce(p.parted, 0)
		ORDER BY n.change_id DESC LIMIT 1)`
}

// lastChange is the result of lastOf; the zero value is none.
type lastChange struct {
	action connector.Action
	state  connector.ChangeState
	ended  int64
	wanted string // hash
	reason connector.Reason
}

// Scan reads the text of lastOf.
func (c *lastChange) Scan(from any) error {
	*c = lastChange{}
	var text sql.NullString
	if err := text.Scan(from); err != nil || !text.Valid {
		return err
	}
	parts := strings.SplitN(text.String, " ", 5)
	if len(parts) < 5 {
		return fmt.Errorf("the last change reads %d words", len(parts))
	}
	var err error
	c.action, c.state, c.wanted, c.reason = connector.Action(parts[0]), connector.ChangeState(parts[1]), parts[3],
		connector.Reason(parts[4])
	c.ended, err = strconv.ParseInt(parts[2], 10, 64)
	return err
}

// Conditions on payer p, over what reads have shown.
const (
	// isMissing: the newest read said that the customer does not exist. The index is named,
	// because SQLite would rather search through all customers.
	isMissing = "EXISTS (SELECT 1 FROM remote_customers g INDEXED BY remote_customers_missing WHERE g.billing_id = p.billing_id AND g.digest = '')"
	// isUnconfirmed: no read has told yet whether the customer is there with its key.
	isUnconfirmed = "(p.billing_id IS NOT NULL AND p.seen_at = 0)"
	// inOrder: reads have shown the customer with its key, and nobody else with it.
	inOrder = `(p.seen_at > 0 AND (SELECT count(*) = 1 AND min(t.billing_id) = p.billing_id FROM remote_traits t
		WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value))`
	// isSent: a create, or the update of an adoption, was sent, or may have been, and has no
	// answer.
	isSent = `EXISTS (SELECT 1 FROM changes u WHERE u.connection = p.connection AND u.source_id = p.source_id
		AND u.lane = 'customer' AND (u.action = 'create' OR u.action = 'adopt') AND (u.state = 'frozen' OR u.state = 'unknown'))`
)

// stands describes in one text the customer of a record's payer as reads have shown it, and the
// decisions of people. A decision based on another text is not stored. factRow.stands describes a
// row in the same way.
const stands = `(SELECT r.retried_at || ' ' || r.given_up || ' ' || r.asking_word || ' ' || coalesce(p.billing_id || ' ' || p.shows || ' ' || p.shown_at || ' ' || p.confirmed_at || ' ' || p.answered_at
	|| ' ' || p.stays_at || ' ' || p.let_be || ' ' || p.unlink_at || ' ' || coalesce((SELECT h.mandate_id || ' ' || h.status || CASE WHEN h.link IS NULL THEN ' 0 ' ELSE ' 1 ' END || h.link_refused
		FROM mandates h WHERE h.mandate_id = p.mandate_id), '-')
	|| ' ' || coalesce((SELECT g.digest FROM remote_customers g WHERE g.billing_id = p.billing_id), '-')
	|| ' ' || (SELECT count(*) FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value), ''))`

func (r *factRow) stands(p payerRow) string {
	if !p.billingID.Valid {
		return fmt.Sprintf("%d %d %d ", r.retried, r.givenUp, r.askingWord)
	}
	digest := "-"
	if r.digest.Valid {
		digest = r.digest.String
	}
	mandate := "-"
	if r.mandate.Valid {
		link := 0
		if r.hasLink {
			link = 1
		}
		mandate = fmt.Sprintf("%s %s %d %d", p.mandateID.String, r.mandate.String, link, r.linkRefused)
	}
	return fmt.Sprintf("%d %d %d %s %s %d %d %d %d %d %d %s %s %d", r.retried, r.givenUp, r.askingWord, p.billingID.String,
		r.shows.String, r.shown.Int64, r.confirmed.Int64, r.answered.Int64,
		r.staysAt.Int64, r.letBe, p.unlinkAt.Int64, mandate, digest, r.holders)
}

// factRow is a row of factColumns.
type factRow struct {
	shows, digest, pairs                      sql.NullString
	rival                                     sql.NullString
	mandate, staysWith                        sql.NullString
	last, asked                               lastChange
	staysAt                                   sql.NullInt64
	hasLink, asking                           bool
	shown, confirmed, answered, ticket        sql.NullInt64
	carries, open                             bool
	holders                                   int
	retried, doubt, doubtOver, givenUp, letBe int64
	linkRefused, askingWord                   int64
	isLetBe                                   bool
}

func (r *factRow) dest() []any {
	return []any{&r.shows, &r.shown, &r.confirmed, &r.answered, &r.ticket, &r.digest, &r.pairs, &r.carries, &r.holders,
		&r.open,
		&r.last, &r.retried, &r.mandate, &r.hasLink, &r.linkRefused, &r.asked, &r.asking, &r.staysAt, &r.staysWith,
		&r.givenUp, &r.askingWord, &r.letBe, &r.isLetBe, &r.doubt, &r.doubtOver, &r.rival}
}

// facts returns the facts about a payer's link, its customer and its last change.
func (r *factRow) facts(p Payer) (protocol.Facts, error) {
	f := protocol.Facts{
		Key:   p.Key.ID(),
		Doubt: protocol.Doubt{Since: r.doubt, Over: r.doubtOver},
		Words: protocol.Words{Retry: r.retried},
	}
	switch reason := r.last.reason; reason {
	case connector.ReasonRejected, connector.ReasonAnswerMismatch:
		f.Refusal = protocol.Refusal{Reason: reason, Hash: r.last.wanted, Seq: max(r.last.ended, 1)}
	case connector.ReasonNoAnswer:
		f.Worn = max(r.last.ended, 1)
	}
	if p.BillingID == "" {
		return f, nil
	}
	f.Words.Unlink = p.Unlink.At
	if r.staysWith.String == p.MandateID {
		f.Words.Leave = r.staysAt.Int64
	}
	if r.isLetBe {
		f.Words.LetBe = r.letBe
	}
	f.Link = protocol.Link{Customer: p.BillingID, AnsweredAt: r.answered.Int64}
	if r.confirmed.Int64 > r.answered.Int64 { // what was answered since may be there instead
		f.Link.Confirmed, f.Link.ConfirmedAt = p.AppliedHash, r.confirmed.Int64
	}
	f.Look = protocol.Look{Seq: r.ticket.Int64, Since: r.shown.Int64, Holds: r.shows.String}
	var err error
	if f.Look.Shows, err = r.look(p); err != nil {
		return f, fmt.Errorf("read what customer %s carries: %w", p.BillingID, err)
	}
	switch {
	case r.holders > 1:
		f.Holders = protocol.Several
	case r.carries:
		f.Holders, f.Holder = protocol.Own, p.BillingID
	}
	f.Mandate = protocol.Mandate{Status: connector.MandateStatus(r.mandate.String), Link: r.hasLink}
	if r.asked.state != "" {
		f.Mandate.Asked = max(r.asked.ended, 1)
	}
	f.Mandate.Refused = r.linkRefused
	f.Mandate.Rest = r.asking // the run that takes the request up again knows its pause
	switch r.asked.state {
	case connector.ChangeFailed:
		f.Mandate.Refused = max(f.Mandate.Asked, r.linkRefused)
	case connector.ChangeDone:
		if f.Mandate.Status == "" { // the answer gave a link, and no mandate to keep it under
			f.Mandate.Status, f.Mandate.Link = connector.MandateCreated, true
		}
	}
	overwritten := r.last.reason == connector.ReasonForeignChange && r.last.state == connector.ChangeFailed
	if made := r.last.action == connector.ActionCreate && r.last.state == connector.ChangeDone; made || overwritten {
		f.Link.Answered = r.last.wanted
	}
	return f, nil
}

// look returns the newest read's result about the customer's key. A new customer that shows nothing at all
// may come to show it.
func (r *factRow) look(p Payer) (protocol.Shows, error) {
	switch {
	case !r.ticket.Valid:
		return protocol.Unseen, nil
	case r.digest.String == "":
		return protocol.Missing, nil
	case r.carries:
		return protocol.Ours, nil
	}
	var pairs map[string]string
	if err := json.Unmarshal([]byte(r.pairs.String), &pairs); err != nil {
		return protocol.Unseen, err
	}
	_, has := pairs[p.Key.Name]
	switch {
	case has:
		return protocol.OtherKey, nil
	case !p.Seen && len(pairs) == 0:
		return protocol.NotYet, nil
	}
	return protocol.NoKey, nil
}

// updatesUnderWay returns the requests to a customer, but for its create, whose end is not known.
func (l *Ledger) updatesUnderWay(ctx context.Context, billingID string) ([]protocol.Attempt, error) {
	return collect("read the open requests", scanAttempt)(l.query(ctx, attemptsAt, billingID))
}

// attemptsAt is updatesUnderWay within a write.
func (tx *Tx) attemptsAt(billingID string) ([]protocol.Attempt, error) {
	return collect("read the open requests", scanAttempt)(tx.query(attemptsAt, billingID))
}

const attemptsAt = `SELECT a.ticket, a.over, CASE a.action WHEN 'adopt' THEN 'update' ELSE a.action END, a.billing_id, coalesce(c.wanted_hash, '')
		FROM attempts a LEFT JOIN changes c ON c.change_id = a.change_id WHERE a.billing_id = ? AND a.ended = '' AND a.action <> 'create' ORDER BY a.attempt_id`

func scanAttempt(scan scanner) (a protocol.Attempt, err error) {
	err = scan(&a.Seq, &a.Over, &a.Action, &a.Customer, &a.Hash)
	return a, err
}
