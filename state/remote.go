package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// SaveRemote keeps what a read showed of a customer in the index: its key values,
// and keyed hashes of its names and e-mail addresses. It reports false and keeps
// nothing when a read that started later was applied already. pass is the list
// pass that showed it, 0 for a single read.
func (tx *Tx) SaveRemote(c connector.RemoteCustomer, ticket, pass int64) (bool, error) {
	values, traits, digest, err := tx.l.indexed(c)
	if err != nil {
		return false, err
	}
	n, err := tx.count(`UPDATE remote_customers SET listed_at = ?1, ticket = ?2, seen_pass = CASE WHEN ?3 > seen_pass THEN ?3 ELSE seen_pass END
		WHERE billing_id = ?4 AND digest = ?5 AND ticket <= ?2`, stamp(tx.now), ticket, pass, c.ID, digest)
	if err != nil || n > 0 {
		return n > 0, err // it shows what is known, as nearly every customer of a list does
	}
	var newest int64
	var known string
	err = tx.row([]any{&newest, &known}, "SELECT ticket, digest FROM remote_customers WHERE billing_id = ?", c.ID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("look a customer up in the index: %w", err)
	}
	if newest > ticket {
		// Older news of its content, but the pass did see it.
		return false, tx.exec("UPDATE remote_customers SET seen_pass = ? WHERE billing_id = ? AND seen_pass < ?", pass, c.ID, pass)
	}
	if err := tx.exec(`INSERT INTO remote_customers (billing_id, key_values, digest, seen_pass, listed_at, ticket)
		VALUES (?, ?, ?, coalesce(nullif(?, 0), (SELECT max(pass_id) FROM passes), 0), ?, ?)
		ON CONFLICT (billing_id) DO UPDATE SET key_values = excluded.key_values, digest = excluded.digest,
		  seen_pass = CASE WHEN ?7 > remote_customers.seen_pass THEN ?7 ELSE remote_customers.seen_pass END,
		  listed_at = excluded.listed_at, ticket = excluded.ticket`,
		c.ID, values, digest, pass, stamp(tx.now), ticket, pass); err != nil {
		return false, fmt.Errorf("save a customer to the index: %w", err)
	}
	if known != "" {
		if err := tx.exec("DELETE FROM remote_traits WHERE billing_id = ?", c.ID); err != nil {
			return false, fmt.Errorf("save a customer to the index: %w", err)
		}
	}
	return true, tx.saveTraits(c.ID, traits)
}

type trait struct{ kind, value string }

// indexed returns what the index holds of a customer, and a digest of it.
func (l *Ledger) indexed(c connector.RemoteCustomer) (values string, traits []trait, digest string, err error) {
	for name, value := range c.ExternalData {
		traits = append(traits, trait{"key", connector.Key{Name: name, Value: value}.String()})
	}
	if c.Name != "" {
		traits = append(traits, trait{"name", l.seal.likeness(c.Name)})
	}
	for _, e := range c.Emails {
		if e != "" {
			traits = append(traits, trait{"email", l.seal.likeness(e)})
		}
	}
	slices.SortFunc(traits, func(a, b trait) int {
		return strings.Compare(a.kind+"\x00"+a.value, b.kind+"\x00"+b.value)
	})
	traits = slices.Compact(traits)
	h := sha256.New()
	for _, t := range traits {
		fmt.Fprintf(h, "%s\x00%s\x00", t.kind, t.value)
	}
	b, err := json.Marshal(c.ExternalData)
	return string(b), traits, hex.EncodeToString(h.Sum(nil)), err
}

// saveTraits inserts a few traits with each statement. Of a customer that is
// linked to a payer only the keys are kept: no new payer is compared with it, and
// the others would be most of the rows that a backfill writes.
func (tx *Tx) saveTraits(billingID string, traits []trait) error {
	var linked bool
	if err := tx.row([]any{&linked}, "SELECT EXISTS (SELECT 1 FROM payers WHERE billing_id = ?)", billingID); err != nil {
		return fmt.Errorf("save a customer to the index: %w", err)
	}
	if linked {
		traits = slices.DeleteFunc(traits, func(t trait) bool { return t.kind != "key" })
	}
	const few = 8
	for part := range slices.Chunk(traits, few) {
		var args []any
		for _, t := range part {
			args = append(args, t.kind, t.value, billingID)
		}
		if err := tx.exec("INSERT INTO remote_traits (kind, value, billing_id) VALUES (?, ?, ?)"+
			strings.Repeat(", (?, ?, ?)", len(part)-1), args...); err != nil {
			return fmt.Errorf("save a customer to the index: %w", err)
		}
	}
	return nil
}

// TouchRemote notes that a read showed something of a customer, though not the
// customer whole, and reports false when a read that started later was applied
// already.
func (tx *Tx) TouchRemote(billingID string, ticket int64) (bool, error) {
	n, err := tx.count("UPDATE remote_customers SET ticket = ? WHERE billing_id = ? AND ticket <= ?", ticket, billingID, ticket)
	return n > 0, err
}

// LastSeen returns when a read last showed a customer whole; the zero time when
// none did.
func (tx *Tx) LastSeen(billingID string) (time.Time, error) {
	var at sql.NullString
	err := tx.row([]any{&at}, "SELECT max(listed_at) FROM remote_customers WHERE billing_id = ?", billingID)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when customer %s was last seen: %w", billingID, err)
	}
	return parseTime(at)
}

// KeyCount returns how many customers of the index carry the key.
func (tx *Tx) KeyCount(key connector.Key) (n int, err error) {
	err = tx.row([]any{&n}, "SELECT count(*) FROM remote_traits WHERE kind = 'key' AND value = ?", key.String())
	return n, err
}

// ForgetRemote empties a customer's place in the index after a read with this
// ticket said that it does not exist, and reports false when a read that started
// later was applied already. The place itself stays, so that an older list cannot
// bring the customer back.
func (tx *Tx) ForgetRemote(billingID string, ticket int64) (bool, error) {
	n, err := tx.count(`INSERT INTO remote_customers (billing_id, key_values, digest, listed_at, ticket) VALUES (?, '{}', '', ?, ?)
		ON CONFLICT (billing_id) DO UPDATE SET key_values = '{}', digest = '', ticket = excluded.ticket
		WHERE remote_customers.ticket <= excluded.ticket`, billingID, stamp(tx.now), ticket)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.exec("DELETE FROM remote_traits WHERE billing_id = ?", billingID)
}

// StaleHolders returns the customers that carry a payer's key in the index, are
// linked to nobody and were not listed by a complete pass: each may be gone.
func (l *Ledger) StaleHolders(ctx context.Context, pass int64) ([]string, error) {
	return l.ids(ctx, `SELECT c.billing_id FROM remote_customers c JOIN remote_traits t ON t.billing_id = c.billing_id AND t.kind = 'key'
		WHERE c.seen_pass < ? AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = c.billing_id)
		  AND EXISTS (SELECT 1 FROM payers p WHERE p.key_name || '=' || p.key_value = t.value)
		ORDER BY c.billing_id`, pass)
}

// KeyHolders returns the ids of the customers that carry the key, exact to the
// byte, oldest id first.
func (l *Ledger) KeyHolders(ctx context.Context, key connector.Key) ([]string, error) {
	return l.ids(ctx, "SELECT billing_id FROM remote_traits WHERE kind = 'key' AND value = ? ORDER BY billing_id", key.String())
}

// LinkedTo returns the source id of the payer a customer is linked to, "" for none.
func (l *Ledger) LinkedTo(ctx context.Context, billingID string) (string, error) {
	found, err := l.ids(ctx, "SELECT source_id FROM payers WHERE billing_id = ?", billingID)
	return strings.Join(found, ""), err
}

// Alike returns the ids of customers that share a name or an e-mail address with
// c, carry no key of c's key name and are linked to no payer: they may be the
// same person, entered by hand.
func (l *Ledger) Alike(ctx context.Context, c connector.Customer, keyName string) ([]string, error) {
	traits := []trait{{"name", l.seal.likeness(c.Name)}}
	for _, p := range c.People {
		if p.Email != "" {
			traits = append(traits, trait{"email", l.seal.likeness(p.Email)})
		}
	}
	var out []string
	for _, t := range traits {
		found, err := l.ids(ctx, `SELECT t.billing_id FROM remote_traits t WHERE t.kind = ? AND t.value = ?
			AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = t.billing_id)
			AND NOT EXISTS (SELECT 1 FROM remote_traits k WHERE k.billing_id = t.billing_id AND k.kind = 'key'
			                AND substr(k.value, 1, length(?3)) = ?3)
			ORDER BY t.billing_id LIMIT 5`, t.kind, t.value, keyName+"=")
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(5, len(out))], nil
}

func (l *Ledger) ids(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := l.query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read the index of customers: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("read the index of customers: %w", err)
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// BeginPass opens a list pass over the service's customers and returns its
// number and the read ticket of its pages.
func (tx *Tx) BeginPass() (pass, ticket int64, err error) {
	if err := tx.row([]any{&pass}, "INSERT INTO passes (started_at) VALUES (?) RETURNING pass_id", stamp(tx.now)); err != nil {
		return 0, 0, fmt.Errorf("open a list pass: %w", err)
	}
	ticket, err = tx.Ticket()
	return pass, ticket, err
}

// FinishPass records a pass that ended without an error and listed these
// customers, each id once. When it saw the same customers as the complete pass
// before it, customers that neither saw and that nobody is linked to are dropped
// from the index.
func (tx *Tx) FinishPass(pass int64, ids []string) error {
	hash := hashIDs(ids)
	if err := tx.exec("UPDATE passes SET finished_at = ?, ids = ?, ids_hash = ? WHERE pass_id = ?", stamp(tx.now), len(ids), hash, pass); err != nil {
		return fmt.Errorf("finish a list pass: %w", err)
	}
	return tx.exec(`DELETE FROM remote_customers WHERE seen_pass < ?
		AND EXISTS (SELECT 1 FROM passes a WHERE a.pass_id = (SELECT max(b.pass_id) FROM passes b WHERE b.finished_at IS NOT NULL AND b.pass_id < ?)
		            AND a.ids_hash = ? AND remote_customers.seen_pass < a.pass_id)
		AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = remote_customers.billing_id)`, pass, pass, hash)
}

// hashIDs hashes a set of ids, whatever order they came in.
func hashIDs(ids []string) string {
	h := sha256.New()
	for _, id := range slices.Sorted(slices.Values(ids)) {
		fmt.Fprintf(h, "%d:%s", len(id), id)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Index says how far the index of the service's customers can be believed.
type Index struct {
	Settled   time.Time // start of the older of the newest two complete passes, one after the other, that saw the same customers; zero for none
	LastPass  time.Time // start of the newest complete pass; zero for none
	Customers int       // seen by the newest complete pass
	Restored  time.Time // when the ledger was restored from a backup; zero for never
}

// Index returns how far the index can be believed. Passes that began before a
// restore plus quarantine do not count.
func (l *Ledger) Index(ctx context.Context, quarantine time.Duration) (Index, error) {
	var x Index
	var restored sql.NullString
	if err := l.queryRow(ctx, "SELECT restored_at FROM ledger").Scan(&restored); err != nil {
		return x, fmt.Errorf("read the index of customers: %w", err)
	}
	var err error
	if x.Restored, err = parseTime(restored); err != nil {
		return x, err
	}
	floor := ""
	if !x.Restored.IsZero() {
		floor = x.Restored.Add(quarantine).UTC().Format(layout)
	}
	var settled, last sql.NullString
	if err := l.queryRow(ctx, `SELECT
		(SELECT a.started_at FROM passes a JOIN passes b
		   ON b.pass_id = (SELECT min(n.pass_id) FROM passes n WHERE n.started_at >= a.finished_at AND n.pass_id > a.pass_id AND n.finished_at IS NOT NULL)
		 WHERE a.finished_at IS NOT NULL AND a.ids_hash = b.ids_hash AND a.started_at >= ?1 ORDER BY a.pass_id DESC LIMIT 1),
		(SELECT started_at FROM passes WHERE finished_at IS NOT NULL AND started_at >= ?1 ORDER BY pass_id DESC LIMIT 1),
		coalesce((SELECT ids FROM passes WHERE finished_at IS NOT NULL AND started_at >= ?1 ORDER BY pass_id DESC LIMIT 1), 0)`, floor).
		Scan(&settled, &last, &x.Customers); err != nil {
		return x, fmt.Errorf("read the index of customers: %w", err)
	}
	if x.Settled, err = parseTime(settled); err != nil {
		return x, err
	}
	x.LastPass, err = parseTime(last)
	return x, err
}

// MarkRestored notes that the ledger was restored from a backup: passes before
// now no longer make the index trustworthy, and creates wait (fault F64). What bears
// a later time, of a clock that was ahead, counts as noted just now.
func (tx *Tx) MarkRestored() error {
	return tx.exec("UPDATE ledger SET restored_at = ?", stamp(tx.now))
}

// DoubledKeys returns the payers whose key more than one customer carries, but for
// those whose own customer is missing, which is told instead.
func (tx *Tx) DoubledKeys() ([]Payer, error) {
	stmt, err := tx.l.prepared(`SELECT p.connection, p.source_id, p.key_name, p.link_state FROM payers p
		WHERE p.link_state <> 'missing'
		  AND (SELECT count(*) FROM remote_traits t WHERE t.kind = 'key' AND t.value = p.key_name || '=' || p.key_value) > 1`)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(context.Background())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Payer
	for rows.Next() {
		var p Payer
		if err := rows.Scan(&p.Connection, &p.SourceID, &p.Key.Name, &p.LinkState); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}
