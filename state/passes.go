package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// BeginPass opens a list pass over the service's customers.
func (tx *Tx) BeginPass() (*Listing, error) {
	ticket, err := tx.Ticket()
	if err != nil {
		return nil, err
	}
	var pass int64
	if err := tx.row([]any{&pass}, "INSERT INTO passes (started_at, ticket) VALUES (?, ?) RETURNING pass_id",
		stamp(tx.now), ticket); err != nil {
		return nil, fmt.Errorf("open a list pass: %w", err)
	}
	return newListing(pass, ticket), nil
}

// FinishPass records a pass without errors, and marks the rows that it did not show as known, as
// Compare found. Whether it proves anything is for JudgePass to say. If it saw the same customers
// as the complete pass before it, customers missing from both leave the index.
func (tx *Tx) FinishPass(s *Listing) error {
	if err := tx.mark(s); err != nil { // before this is the pass that ended last
		return err
	}
	hash := s.sum.String()
	if err := tx.exec("UPDATE passes SET finished_at = ?, ids = ?, ids_hash = ? WHERE pass_id = ?", stamp(tx.now), s.Len(),
		hash, s.Pass); err != nil {
		return fmt.Errorf("finish a list pass: %w", err)
	}
	return connector.Wrap(tx.dropGone(s, hash), "drop the places of customers that are gone")
}

// JudgePass stores the open doubts of a complete pass: the number of known customers missing from it and not
// confirmed gone by a read, and the number of listed customers without externalData not read since. With 0
// and 0 it is proof.
func (tx *Tx) JudgePass(pass int64, lacking, unread int) error {
	return tx.exec("UPDATE passes SET lacking = ?, unread = ? WHERE pass_id = ? AND finished_at IS NOT NULL", lacking,
		unread, pass)
}

// Index says how far the index of the service's customers can be believed. A pass
// that left something in doubt counts for nothing here.
type Index struct {
	// start of the older of the newest two complete passes, one after the other, that saw the same customers; zero for
	// none
	Believed  time.Time
	Since     int64     // ticket of that pass; 0 for none
	Customers int       // seen by that pass
	Restored  time.Time // when the ledger was restored from a backup; zero for never
	ClockBack time.Time // when its times were last found to lie in the future; zero for never
}

// Doubted returns when the ledger's notes of what was sent last turned out to be
// no guide: it was restored, or its clock had been ahead. Zero for never.
func (x Index) Doubted() time.Time {
	if x.ClockBack.After(x.Restored) {
		return x.ClockBack
	}
	return x.Restored
}

// proof is the condition that a pass left nothing in doubt.
const proof = "finished_at IS NOT NULL AND lacking = 0 AND unread = 0"

// Index returns how far the index can be believed. Passes that began before a restore, or before
// the end of a fast clock, plus quarantine do not count.
func (l *Ledger) Index(ctx context.Context, quarantine time.Duration) (Index, error) {
	var x Index
	var restored, clock sql.NullString
	if err := l.queryRow(ctx, "SELECT restored_at, clock_back_at FROM ledger").Scan(&restored, &clock); err != nil {
		return x, fmt.Errorf("read the index of customers: %w", err)
	}
	var err, clockErr error
	x.Restored, err = parseTime(restored)
	x.ClockBack, clockErr = parseTime(clock)
	if err := errors.Join(err, clockErr); err != nil {
		return x, err
	}
	floor := ""
	if !x.Doubted().IsZero() {
		floor = x.Doubted().Add(quarantine).UTC().Format(layout)
	}
	var believed sql.NullString
	if err := l.queryRow(ctx, `SELECT s.started_at, coalesce(s.ticket, 0),
		coalesce((SELECT ids FROM passes WHERE `+proof+` AND started_at >= ?1 AND ticket > `+doubtSince+` ORDER BY pass_id DESC LIMIT 1), 0)
		FROM ledger LEFT JOIN passes s ON s.pass_id = (SELECT a.pass_id FROM passes a JOIN passes b
		   ON b.pass_id = (SELECT min(n.pass_id) FROM passes n WHERE n.started_at >= a.finished_at AND n.pass_id > a.pass_id AND n.finished_at IS NOT NULL)
		 WHERE a.`+strings.ReplaceAll(proof, "AND ", "AND a.")+` AND b.`+strings.ReplaceAll(proof, "AND ", "AND b.")+`
		   AND a.ids_hash = b.ids_hash AND a.started_at >= ?1 AND a.ticket > `+doubtSince+` ORDER BY a.pass_id DESC LIMIT 1)`,
		floor).
		Scan(&believed, &x.Since, &x.Customers); err != nil {
		return x, fmt.Errorf("read the index of customers: %w", err)
	}
	x.Believed, err = parseTime(believed)
	return x, err
}

// NoteClock finds times in the future: the clock was fast when they were stored, so their age is
// unknown. They count as noted just now, and nothing is concluded from lists, or sent again unseen,
// before a request sent at this moment must have arrived. It reports whether it found any.
func (tx *Tx) NoteClock() (found bool, err error) {
	now, ahead := stamp(tx.now), stamp(tx.now.Add(clockSlack))
	for _, query := range []string{
		"UPDATE passes SET started_at = ?1, finished_at = CASE WHEN finished_at IS NULL THEN NULL ELSE ?1 END, lacking = NULL WHERE started_at > ?2 OR finished_at > ?2",
		"UPDATE changes SET updated_at = ?1 WHERE updated_at > ?2",
		"UPDATE attempts SET sent_at = ?1 WHERE sent_at > ?2",
		"UPDATE remote_customers SET read_at = '' WHERE read_at > ?2 AND ?1 <> ''",
		"UPDATE ledger SET restored_at = ?1 WHERE restored_at > ?2",
		"UPDATE ledger SET clock_back_at = ?1 WHERE clock_back_at > ?2",
	} {
		n, err := tx.count(query, now, ahead)
		if err != nil {
			return found, fmt.Errorf("look for times in the future: %w", err)
		}
		found = found || n > 0
	}
	if !found {
		return false, nil
	}
	return true, tx.exec("UPDATE ledger SET clock_back_at = ?", now)
}

// MarkRestored notes that the ledger was restored from a backup: passes before now no longer make
// the index trustworthy, and creates wait (fault F64). A later time, from a fast clock, counts as
// now.
func (tx *Tx) MarkRestored() error {
	return tx.exec("UPDATE ledger SET restored_at = ?", stamp(tx.now))
}

// DoubledKeys returns the linked payers with their key on more than one customer. It omits payers without
// their own customer, because that is another finding. Every plan looks up the carriers of an unlinked
// payer's key.
func (tx *Tx) DoubledKeys() ([]Payer, error) {
	return collect("", columns("",
		func(p *Payer) []any { return []any{&p.Connection, &p.SourceID, &p.Key.Name, &p.LinkState} }))(
		tx.query(`SELECT p.connection, p.source_id, p.key_name, p.link_state FROM payers p
		WHERE p.billing_id IS NOT NULL AND p.key_name || '=' || p.key_value IN (
		  SELECT t.value FROM remote_traits t WHERE t.kind = 'key' GROUP BY t.value HAVING count(*) > 1) AND NOT ` +
			isMissing))
}

// LackingLately returns how many known customers the newest two complete passes did not find in
// place.
func (l *Ledger) LackingLately(ctx context.Context) (newest, before int, err error) {
	rows, err := list(ctx, l,
		"SELECT coalesce(lacking, 0) FROM passes WHERE finished_at IS NOT NULL ORDER BY pass_id DESC LIMIT 2", nil,
		func(n *int) []any { return []any{n} })
	if err != nil {
		return 0, 0, fmt.Errorf("look what the last sweeps did not find: %w", err)
	}
	rows = append(rows, 0, 0)
	return rows[0], rows[1], nil
}
