package state

import (
	"context"
	"fmt"
	"math"

	"payersync/connector"
)

// CarriedKey is a key of ours with the customer of the index that carries it.
type CarriedKey struct {
	BillingID string
	Key       connector.Key
}

// isUnclaimed is the condition that key trait %[1]s of a customer is stored as unclaimed by
// connection %[2]s.
const isUnclaimed = "EXISTS (SELECT 1 FROM unclaimed_keys u WHERE u.connection = %[2]s AND u.billing_id = %[1]s.billing_id AND u.key = %[1]s.value)"

// isReadWhole is the condition that connection %[2]s had a full reading. Before that, the record with an
// unclaimed key may not have been read yet. So its customer counts for first matching, but is no match.
const isReadWhole = "EXISTS (SELECT 1 FROM runs f WHERE f.connection = %[2]s AND f.read_kind = 'full')"

// isClaimed is the condition that payer p with record r has its key. It has a customer, may have one, or was
// forgotten. It ignores the own keys of connection ?3's records. A payer of another connection has its key
// while its record is there.
const isClaimed = `(p.billing_id IS NOT NULL OR ` + isSent + ` OR r.forgotten <> ''
	OR p.connection <> ?3 AND r.state = 'active' AND r.unseen = 0 AND r.same_as = '')`

// KeysWithoutPayer returns the keys of a name on unlinked customers without a known payer. It does not check
// the connection's unlinked records: their keys exist there.
func (l *Ledger) KeysWithoutPayer(ctx context.Context, connection, keyName string) ([]CarriedKey, error) {
	var out []CarriedKey
	type row struct{ id, value string }
	err := each(ctx, l, `SELECT t.billing_id, substr(t.value, length(?1) + 1) FROM remote_traits t JOIN remote_customers c ON c.billing_id = t.billing_id
		WHERE t.kind = 'key' AND substr(t.value, 1, length(?1)) = ?1 AND c.digest <> ''
		  AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = t.billing_id)
		  AND NOT EXISTS (SELECT 1 FROM payers p JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
		    WHERE p.key_name = ?2 AND p.key_value = substr(t.value, length(?1) + 1) AND `+isClaimed+`)
		ORDER BY t.billing_id`, []any{keysNamed(keyName), keyName, connection},
		func(r *row) []any { return []any{&r.id, &r.value} },
		func(r row) error {
			out = append(out, CarriedKey{r.id, connector.ParseKey(keyName, r.value)})
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("look for keys that no payer has: %w", err)
	}
	return out, nil
}

// SaveUnclaimedKeys replaces the stored keys on customers without a record of a connection. Where the
// connection was not read whole, it adds none to them.
func (tx *Tx) SaveUnclaimedKeys(connection string, found []CarriedKey, whole bool) error {
	known := map[string]string{}
	if err := tx.each("SELECT billing_id, key FROM unclaimed_keys WHERE connection = ?", []any{connection},
		func(scan func(...any) error) error {
			var id, key string
			err := scan(&id, &key)
			known[id] = key
			return err
		}); err != nil {
		return fmt.Errorf("read the keys that no record has: %w", err)
	}
	var rows []any
	for _, c := range found {
		key := keyTrait(c.Key)
		switch {
		case known[c.BillingID] == key:
			delete(known, c.BillingID)
		case whole:
			delete(known, c.BillingID)
			rows = append(rows, connection, c.BillingID, key)
		}
	}
	for id := range known {
		if err := tx.exec("DELETE FROM unclaimed_keys WHERE connection = ? AND billing_id = ?", connection, id); err != nil {
			return fmt.Errorf("note the keys that no record has: %w", err)
		}
	}
	return connector.Wrap(tx.insertRows("INSERT INTO unclaimed_keys (connection, billing_id, key, ticket) VALUES ",
		"(?, ?, ?, (SELECT max(ticket, 1) FROM ledger))", rows,
		" ON CONFLICT (connection, billing_id) DO UPDATE SET key = excluded.key, ticket = excluded.ticket"),
		"note the keys that no record has")
}

// UnclaimedKeys returns the customers' keys of a name without a record in any connection, by customer. There
// are none before the connection was read whole.
func (l *Ledger) UnclaimedKeys(ctx context.Context, connection, keyName string) (map[string]connector.Key, error) {
	return l.unclaimedKeys(ctx, connection, keyName, "", math.MaxInt64)
}

// UnclaimedKeyOf returns a customer's key of a name without a record in any connection; its value
// is blank if there is none.
func (l *Ledger) UnclaimedKeyOf(ctx context.Context, connection, keyName, billingID string) (connector.Key, error) {
	return l.unclaimedAt(ctx, connection, keyName, billingID, math.MaxInt64)
}

// unclaimedAt is UnclaimedKeyOf for a key that was noted by a ticket.
func (l *Ledger) unclaimedAt(ctx context.Context, connection, keyName, billingID string, ticket int64) (connector.Key,
	error) {
	found, err := l.unclaimedKeys(ctx, connection, keyName, billingID, ticket)
	return found[billingID], err
}

func (l *Ledger) unclaimedKeys(ctx context.Context, connection, keyName, billingID string,
	ticket int64) (map[string]connector.Key, error) {
	out := map[string]connector.Key{}
	type row struct{ id, value string }
	err := each(ctx, l, `SELECT u.billing_id, substr(u.key, length(?2) + 1) FROM unclaimed_keys u
		WHERE u.connection = ?1 AND substr(u.key, 1, length(?2)) = ?2 AND (?3 = '' OR u.billing_id = ?3) AND u.ticket <= ?4 AND `+fmt.Sprintf(isReadWhole, "", "?1")+`
		  AND EXISTS (SELECT 1 FROM remote_traits t WHERE t.kind = 'key' AND t.value = u.key AND t.billing_id = u.billing_id)`,
		[]any{connection, keysNamed(keyName), billingID, ticket}, func(r *row) []any { return []any{&r.id, &r.value} },
		func(r row) error {
			out[r.id] = connector.ParseKey(keyName, r.value)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the keys that no record has: %w", err)
	}
	return out, nil
}
