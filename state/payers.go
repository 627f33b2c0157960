package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// Payer is one included source record and how it relates to the billing service.
type Payer struct {
	Connection  string
	SourceID    string
	Key         connector.Key
	BillingID   string               // "" while there is none
	LinkState   connector.LinkState  // for people: how the payer relates to its customer
	Seen        bool                 // a read has told whether the customer is there with its key
	AppliedHash string               // hash of Applied; "" for nil
	Accepted    []connector.Accepted // differences from the record that a person has accepted
	ReadDigest  string               // of what a read showed otherwise than Applied, keyed; "" for nothing
	Applied     *connector.Customer  // our last known values on the customer; nil for none
	Shows       string               // hash of what of ours the newest read showed; "" for anything else
	MandateID   string               // the current mandate; "" when there is none
	Unlink      Unlink               // what a person has said of the customer's not being the payer's
	Moves       connector.Key        // the key that a person has said its customer comes to carry; zero for none
}

// MovesTo reports whether the payer's customer will get the key of its record. The key only gains
// its scope, or a person has named it.
func (p Payer) MovesTo(key connector.Key) bool {
	return p.BillingID != "" && (p.Key.Gains(key) || key.Value != "" && p.Moves == key && p.Key != key)
}

// comesTo returns the key of the payer's customer in its wanted state.
func (p Payer) comesTo(wanted connector.Customer) connector.Key {
	for _, name := range []string{p.Key.Name, p.Moves.Name} {
		if key := connector.KeyIn(wanted.ExternalData, name); p.MovesTo(key) {
			return key
		}
	}
	return p.Key
}

const payerColumns = "p.connection, p.source_id, p.key_name, p.key_value, p.billing_id, p.link_state, p.applied_hash, p.applied, p.accepted, p.shows, p.seen_at, p.mandate_id, p.moves_name, p.moves_value, p.unlink_at, p.unlink_from, p.read_digest"

// payerRow is a payer as scanned, absent when the row came from an outer join.
type payerRow struct {
	connection, sourceID, keyName, keyValue, billingID, linkState, appliedHash, shows, mandateID, movesName, movesValue,
	readDigest sql.NullString
	seen, unlinkAt, unlinkFrom sql.NullInt64
	applied, accepted          []byte
}

func (r *payerRow) dest() []any {
	return []any{&r.connection, &r.sourceID, &r.keyName, &r.keyValue, &r.billingID, &r.linkState, &r.appliedHash,
		&r.applied, &r.accepted, &r.shows, &r.seen, &r.mandateID, &r.movesName, &r.movesValue, &r.unlinkAt, &r.unlinkFrom,
		&r.readDigest}
}

func (l *Ledger) payer(r payerRow) (Payer, error) {
	p := Payer{
		Connection: r.connection.String, SourceID: r.sourceID.String,
		Key:       connector.ParseKey(r.keyName.String, r.keyValue.String),
		BillingID: r.billingID.String, LinkState: connector.LinkState(r.linkState.String),
		AppliedHash: r.appliedHash.String, Shows: r.shows.String, Seen: r.seen.Int64 > 0, MandateID: r.mandateID.String,
		ReadDigest: r.readDigest.String,
		Moves:      connector.ParseKey(r.movesName.String, r.movesValue.String),
		Unlink:     Unlink{At: r.unlinkAt.Int64, From: r.unlinkFrom.Int64},
	}
	if err := l.openJSON(r.accepted, place("payers", "accepted", p.Connection, p.SourceID), &p.Accepted); err != nil {
		return p, fmt.Errorf("payer %s: %w", p.SourceID, err)
	}
	plain, err := l.seal.open(r.applied, place("payers", "applied", p.Connection, p.SourceID))
	if err != nil {
		return p, fmt.Errorf("payer %s: %w", p.SourceID, err)
	}
	if plain != nil {
		p.Applied = new(connector.Customer)
		if err := json.Unmarshal(plain, p.Applied); err != nil {
			return p, fmt.Errorf("payer %s: %w", p.SourceID, err)
		}
	}
	return p, nil
}

// ErrNoPayer means that the ledger has no such payer.
var ErrNoPayer = errors.New("the ledger has no such payer")

// Payer returns one payer; ErrNoPayer when there is none.
func (l *Ledger) Payer(ctx context.Context, connection, sourceID string) (Payer, error) {
	var r payerRow
	err := l.queryRow(ctx, "SELECT "+payerColumns+" FROM payers p WHERE p.connection = ? AND p.source_id = ?",
		connection, sourceID).Scan(r.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return Payer{}, ErrNoPayer
	}
	if err != nil {
		return Payer{}, fmt.Errorf("read payer %s: %w", sourceID, err)
	}
	return l.payer(r)
}

// FindPayers returns the payers with exactly this source id, key value, billing id or mandate id.
func (l *Ledger) FindPayers(ctx context.Context, id string) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+` FROM payers p
		WHERE p.source_id = ?1 OR `+withValue+` OR p.billing_id = ?1
		   OR p.billing_id IN (SELECT billing_id FROM mandates WHERE mandate_id = ?1)
		ORDER BY p.connection, p.source_id`, id)
}

// Unverified returns up to limit payers with an answered create and no read that confirms the
// customer.
func (l *Ledger) Unverified(ctx context.Context, connection string, limit int) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+` FROM payers p
		WHERE p.connection = ? AND `+isUnconfirmed+` ORDER BY p.source_id`+limitTo, connection, limit)
}

// UnverifiedCount returns how many payers Unverified would give without a limit.
func (l *Ledger) UnverifiedCount(ctx context.Context, connection string) (int, error) {
	return single[int](l.queryRow(ctx,
		"SELECT count(*) FROM payers p WHERE p.connection = ? AND "+isUnconfirmed, connection))
}

func (l *Ledger) payers(ctx context.Context, query string, args ...any) ([]Payer, error) {
	return collect("read payers", func(scan scanner) (Payer, error) {
		var r payerRow
		if err := scan(r.dest()...); err != nil {
			return Payer{}, fmt.Errorf("read payers: %w", err)
		}
		return l.payer(r)
	})(l.query(ctx, query, args...))
}

// Missing returns up to limit payers of a connection whose customer does not exist by a read, the
// longest unread first.
func (l *Ledger) Missing(ctx context.Context, connection string, limit int) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+` FROM remote_customers c INDEXED BY remote_customers_missing CROSS JOIN payers p ON p.billing_id = c.billing_id
		WHERE p.connection = ? AND c.digest = '' ORDER BY c.ticket, p.source_id`+limitTo, connection, limit)
}

// Outlived returns up to limit payers of a connection with an unanswered request that can no longer
// arrive and has no read of its effect.
func (l *Ledger) Outlived(ctx context.Context, connection string, limit int) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+` FROM (
		SELECT DISTINCT a.billing_id FROM attempts a WHERE a.ended = '' AND a.action <> 'create' AND a.over > 0) o CROSS JOIN payers p ON p.billing_id = o.billing_id
		WHERE p.connection = ? AND NOT `+isMissing+` ORDER BY p.source_id`+limitTo, connection, limit)
}

// LinkedCustomers returns how many customers are linked to a payer of any
// connection and not known to be gone.
func (l *Ledger) LinkedCustomers(ctx context.Context) (int, error) {
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM payers p WHERE p.billing_id IS NOT NULL AND NOT "+isMissing))
}

// MadeWithin reports whether a create answered within the time before now made the payer's
// customer.
func (tx *Tx) MadeWithin(p Payer, within time.Duration) (bool, error) {
	return txSingle[bool](tx, `SELECT EXISTS (SELECT 1 FROM changes
		WHERE connection = ? AND source_id = ? AND lane = 'customer' AND action = 'create' AND state = 'done' AND updated_at >= ?)`,
		p.Connection, p.SourceID, stamp(tx.now.Add(-within)))
}

// PayerByBillingID returns the payer linked to a customer; ErrNoPayer when there
// is none.
func (tx *Tx) PayerByBillingID(billingID string) (Payer, error) {
	var r payerRow
	err := tx.row(r.dest(), "SELECT "+payerColumns+" FROM payers p WHERE p.billing_id = ?", billingID)
	if errors.Is(err, sql.ErrNoRows) {
		return Payer{}, ErrNoPayer
	}
	if err != nil {
		return Payer{}, fmt.Errorf("read the payer of customer %s: %w", billingID, err)
	}
	return tx.l.payer(r)
}

// withValue is the condition that the key of payer p has the value ?1 in any scope. key_value holds
// both (connector.Key.ScopedValue).
const withValue = "(p.key_value = ?1 OR p.key_value > ?1 || char(31) AND p.key_value < ?1 || char(32))"

// Move changes the payer's key to a new one, after our newest update wrote it on the customer and a
// read showed it there.
func (tx *Tx) Move(p Payer, to connector.Key) error {
	return tx.exec(`UPDATE payers SET key_name = ?, key_value = ?, moves_name = '', moves_value = '', updated_at = ?
		WHERE connection = ? AND source_id = ? AND key_name = ? AND key_value = ?`,
		to.Name, to.ScopedValue(), stamp(tx.now), p.Connection, p.SourceID, p.Key.Name, p.Key.ScopedValue())
}

// savePayer creates or updates the payer of a decided record: its key, its relation to its customer
// and its traits, as far as the decision has them. A person's permission to stay without a record
// lapses once the record is there. The key of a payer that has a customer never changes here. An
// unsendable key of a held record equals no other. A payer already in this state stays, and a
// linked one has its customer.
func (tx *Tx) savePayer(connection string, d Decision, known before, new *additions) error {
	key, like := d.Key.Indexed(), ""
	if d.Likeness != nil {
		like = tx.l.likeness(*d.Likeness).text()
	}
	switch {
	case !known.payer && key.Value == "":
		return nil
	case !known.payer:
		state := d.LinkState
		if state == "" || state == connector.LinkLinked {
			state = connector.LinkNew
		}
		id, err := tx.nextPayer()
		new.payers = append(new.payers, id, d.SourceID, key.Name, key.ScopedValue(), string(state), like)
		return err
	}
	const keyIsFree = "?7 <> '' AND p.billing_id IS NULL"
	if err := tx.exec(`UPDATE payers AS p SET link_state = coalesce(nullif(?3, ''), p.link_state),
		  updated_at = CASE WHEN ?3 = '' OR p.link_state = ?3 THEN p.updated_at ELSE ?4 END,
		  stays_at = CASE WHEN ?5 = 1 THEN p.stays_at ELSE 0 END,
		  stays_with = CASE WHEN ?5 = 1 THEN p.stays_with ELSE '' END,
		  stays_word = CASE WHEN ?5 = 1 THEN p.stays_word ELSE 0 END,
		  key_name = CASE WHEN `+keyIsFree+` AND NOT `+isSent+` THEN ?6 ELSE p.key_name END,
		  key_value = CASE WHEN `+keyIsFree+` AND NOT `+isSent+` THEN ?7 ELSE p.key_value END
		WHERE p.connection = ?1 AND p.source_id = ?2 AND (?3 <> '' AND p.link_state <> ?3 OR ?5 = 0 AND p.stays_at <> 0
		  OR `+keyIsFree+` AND (p.key_name <> ?6 OR p.key_value <> ?7))`,
		connection, d.SourceID, d.LinkState, stamp(tx.now), d.Left, key.Name, key.ScopedValue()); err != nil || like == "" ||
		like == known.like {
		return err
	}
	return tx.renewTraits(connection, d.SourceID, like)
}

// SetConfirmed records that a read has shown the payer's customer with its key. The end of the write settles the link.
func (tx *Tx) SetConfirmed(p Payer) error {
	tx.Touch(p)
	return tx.setSeen(p)
}

// replanHeld makes the next plan look at the held changes of a payer, because by the facts it is linked now.
func (tx *Tx) replanHeld(k payerFacts) error {
	switch k.told[TopicLink.at()] {
	case connector.ReasonKeyRemoved, connector.ReasonOtherKey, connector.ReasonKeyDoubled, connector.ReasonCustomerMissing:
	default:
		if k.link == connector.LinkCreating {
			return nil
		}
	}
	_, err := tx.ReplanRecord(k.id.Connection, k.id.SourceID)
	return err
}

// setSeen records a read of the payer's customer.
func (tx *Tx) setSeen(p Payer) error {
	return tx.exec("UPDATE payers SET seen_at = (SELECT max(ticket, 1) FROM ledger) WHERE connection = ? AND source_id = ? AND seen_at = 0 AND billing_id IS NOT NULL",
		p.Connection, p.SourceID)
}

// SetMandate makes id the payer's current mandate.
func (tx *Tx) SetMandate(connection, sourceID, id string) error {
	return tx.exec("UPDATE payers SET mandate_id = ?, updated_at = ? WHERE connection = ? AND source_id = ? AND mandate_id IS DISTINCT FROM ?",
		id, stamp(tx.now), connection, sourceID, id)
}

// isForgotten is the condition that nothing but the id is kept of a row of payers.
const isForgotten = "EXISTS (SELECT 1 FROM source_records f WHERE f.connection = payers.connection AND f.source_id = payers.source_id AND f.forgotten <> '')"

// asApplied sets our values on a customer from three arguments: the sealed values, their hash, and
// the time of the evidence.
func asApplied(sealed, hash, at string) string {
	return "applied = " + sealed + ", applied_hash = " + hash + ", read_values = NULL, read_digest = '', shows = " + hash +
		", updated_at = " + at +
		", shown_at = (SELECT ticket FROM ledger), confirmed_at = (SELECT ticket FROM ledger)"
}

func (l *Ledger) boxApplied(p Payer, applied connector.Customer) ([]byte, error) {
	plain, err := json.Marshal(applied)
	if err != nil {
		return nil, err
	}
	return l.seal.box(plain, place("payers", "applied", p.Connection, p.SourceID)), nil
}

// SetApplied records our values on the customer, as a read has shown them. It keeps nothing of a forgotten payer.
func (tx *Tx) SetApplied(p Payer, applied connector.Customer) error {
	box, err := tx.l.boxApplied(p, applied)
	if err != nil {
		return err
	}
	tx.Touch(p)
	return tx.exec("UPDATE payers SET "+asApplied("?3", "?4",
		"?5")+" WHERE connection = ?1 AND source_id = ?2 AND NOT "+isForgotten,
		p.Connection, p.SourceID, box, applied.Hash(), stamp(tx.now))
}

// SetShown records whether a read showed the values applied last. When it is news, the next plan looks at the record.
func (tx *Tx) SetShown(p Payer, applied bool) error {
	shows := ""
	if applied {
		shows = p.AppliedHash
	}
	if shows == "" && p.Shows == "" {
		return nil
	}
	n, err := tx.count(`UPDATE payers SET shows = ?1, shown_at = (SELECT ticket FROM ledger), confirmed_at = CASE ?1 WHEN '' THEN confirmed_at ELSE (SELECT ticket FROM ledger) END
		WHERE connection = ?2 AND source_id = ?3 AND (shows <> ?1 OR `+isDated+`)`, shows, p.Connection, p.SourceID)
	if n > 0 {
		tx.Touch(p)
	}
	if err != nil || shows == p.Shows {
		return err
	}
	return tx.lookAgain(p)
}

// lookAgain makes the next plan look at the record of a payer whose customer differs from the expectation. It
// omits payers with an open change, because the change checks by itself.
func (tx *Tx) lookAgain(p Payer) error {
	return tx.exec(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND source_id = ?2 AND NOT EXISTS (
		SELECT 1 FROM changes WHERE connection = ?1 AND source_id = ?2 AND lane = 'customer' AND `+openStates+`)`,
		p.Connection, p.SourceID)
}

// Answered notes an answer to a request that changed the customer. Earlier reads no longer show the
// customer, and reads from now on have later tickets.
func (tx *Tx) Answered(p Payer) error {
	return tx.exec("UPDATE payers SET answered_at = (SELECT ticket FROM ledger) WHERE connection = ? AND source_id = ?",
		p.Connection, p.SourceID)
}

// Accept stores the differences from its record that a person has accepted on the payer's customer,
// in place of earlier ones. The payer's plans are dropped, and the next plan looks at the record.
func (tx *Tx) Accept(p Payer, accepted []connector.Accepted) error {
	var box []byte
	if len(accepted) > 0 {
		plain, err := json.Marshal(accepted)
		if err != nil {
			return err
		}
		box = tx.l.seal.box(plain, place("payers", "accepted", p.Connection, p.SourceID))
	}
	if err := tx.exec("UPDATE payers SET accepted = ?, updated_at = ? WHERE connection = ? AND source_id = ? AND NOT "+isForgotten, box, stamp(tx.now), p.Connection, p.SourceID); err != nil {
		return fmt.Errorf("keep what was accepted of payer %s: %w", p.SourceID, err)
	}
	if err := tx.dropPlanned(p.Connection, p.SourceID, LaneCustomer); err != nil {
		return err
	}
	_, err := tx.ReplanRecord(p.Connection, p.SourceID)
	return err
}
