package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// TwoWay is the known evidence of the billing service's own accounting connection to a connection's
// books.
type TwoWay struct {
	Connection string
	Found      time.Time // when it was found; zero for never
	Customers  int       // with a foreign pair of the accounting system's kind at that time
	Matching   int       // of them, those with the id of a record of the connection
	Example    string    // one of them
	Echoes     int       // records whose changes were on their customers before payersync sent them; 0 if pairs proved it
	LinkOnly   bool      // the newest plan linked only
	Since      time.Time // since when it does, or does not
}

// ForeignPair is a foreign pair of externalData that names a record of the connection.
type ForeignPair struct {
	BillingID string
	Matching  bool // it names a record of the connection
}

// maxForeign is the number of foreign pairs to look at: only their existence counts.
const maxForeign = 1000

// ForeignPairs returns the index's customers with a foreign pair called name. Customers with the id of a
// record of the connection come first. Ours holds the values certainly ours: the payer's key on a linked
// customer or in a sent request, and values applied beside the key. Every pair with a scope is ours too,
// because only payersync writes scopes.
func (tx *Tx) ForeignPairs(connection, name string) (out []ForeignPair, err error) {
	all, err := tx.pairsNamed(connection, name)
	if err != nil {
		return nil, fmt.Errorf("look for other programs' entries in externalData: %w", err)
	}
	for _, f := range all {
		p, err := tx.PayerByBillingID(f.BillingID)
		switch {
		case errors.Is(err, ErrNoPayer):
		case err != nil:
			return nil, err
		case p.Applied != nil && p.Applied.ExternalData[name] == f.value:
			continue
		}
		out = append(out, f.ForeignPair)
	}
	return out, nil
}

// namedPair is a pair of the index that may be another's.
type namedPair struct {
	ForeignPair
	value string
}

// pairsNamed reads the pairs called name that neither a payer's key nor a scope shows to be ours.
func (tx *Tx) pairsNamed(connection, name string) ([]namedPair, error) {
	return collect("", columns("",
		func(f *namedPair) []any {
			return []any{&f.BillingID, &f.value,
				&f.Matching}
		}))(tx.query(`SELECT t.billing_id, t.of, EXISTS (SELECT 1 FROM source_records r WHERE r.connection = ?1 AND r.source_id = t.of) AS matching
		FROM (SELECT billing_id, substr(value, length(?2) + 2) AS of FROM remote_traits WHERE kind = 'key' AND value > ?2 || '=' AND value < ?2 || '>') t
		WHERE instr(t.of, char(31)) = 0 AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.key_name = ?2 AND p.key_value = t.of
		  AND (p.billing_id = t.billing_id OR EXISTS (SELECT 1 FROM changes c WHERE c.connection = p.connection AND c.source_id = p.source_id
		    AND c.lane = 'customer' AND c.action <> 'adopt' AND c.state <> 'pending' AND c.frozen_at IS NOT NULL)))
		ORDER BY matching DESC, t.billing_id LIMIT ?3`, connection, name, maxForeign))
}

// WasRestored reports whether the ledger was ever restored, so that it lacks the requests since its
// copy.
func (tx *Tx) WasRestored() (bool, error) {
	return txSingle[bool](tx, "SELECT restored_at IS NOT NULL FROM ledger")
}

const twoWayColumns = "SELECT connection, found_at, customers, matching, example, echoes, in_force, since FROM two_way"

func scanTwoWay(scan func(...any) error) (t TwoWay, err error) {
	var found, since sql.NullString
	if err := scan(&t.Connection, &found, &t.Customers, &t.Matching, &t.Example, &t.Echoes, &t.LinkOnly,
		&since); err != nil {
		return t, err
	}
	return t, parseTimes(map[*time.Time]sql.NullString{&t.Found: found, &t.Since: since})
}

// TwoWay returns the known facts of a connection; without any, all but its name is zero.
func (l *Ledger) TwoWay(ctx context.Context, connection string) (TwoWay, error) {
	t, err := scanTwoWay(l.queryRow(ctx, twoWayColumns+" WHERE connection = ?", connection).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return TwoWay{Connection: connection}, nil
	}
	if err != nil {
		return t, fmt.Errorf("look for a connection of the service's own: %w", err)
	}
	return t, nil
}

// LinkOnly returns the connections whose newest plan linked only.
func (l *Ledger) LinkOnly(ctx context.Context) ([]TwoWay, error) {
	const what = "look for connections of the service's own"
	return collect(what, func(scan scanner) (TwoWay, error) {
		t, err := scanTwoWay(scan)
		return t, readError(what, err)
	})(l.query(ctx, twoWayColumns+" WHERE in_force = 1 ORDER BY connection"))
}

// FoundTwoWay notes that the service has an accounting connection of its own. It is noted
// once.
func (tx *Tx) FoundTwoWay(t TwoWay) error {
	n, err := tx.count(`INSERT INTO two_way (connection, found_at, customers, matching, example, echoes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (connection) DO UPDATE SET found_at = excluded.found_at, customers = excluded.customers, matching = excluded.matching, example = excluded.example, echoes = excluded.echoes
		WHERE two_way.found_at IS NULL`, t.Connection, stamp(tx.now), t.Customers, t.Matching, t.Example, t.Echoes)
	if err != nil || n == 0 {
		return err
	}
	why := fmt.Sprintf("%s in externalData, of the accounting system's kind, that payersync did not write",
		connector.Plural(t.Customers, "entry"))
	if t.Echoes > 0 {
		why = fmt.Sprintf("changes of %s that their customers showed before payersync had sent them",
			connector.Plural(t.Echoes, "record"))
	}
	return tx.Audit(Entry{Actor: "payersync", Action: "found a connection of the service's own", Subject: t.Connection,
		Reason: why})
}

// echoesKept is for how long it is kept that somebody else carried a change.
const echoesKept = 30 * 24 * time.Hour

// NoteEcho keeps that a customer showed a change of its record before anything of it was sent. A
// restored ledger does not know all its sent values, so nothing is kept there.
func (tx *Tx) NoteEcho(p Payer) error {
	restored, err := tx.WasRestored()
	if err != nil || restored {
		return err
	}
	return errors.Join(
		tx.exec("DELETE FROM two_way_echoes WHERE at < ?", stamp(tx.now.Add(-echoesKept))),
		tx.exec("INSERT INTO two_way_echoes (connection, source_id, at) VALUES (?, ?, ?) ON CONFLICT (connection, source_id) DO UPDATE SET at = excluded.at", p.Connection, p.SourceID, stamp(tx.now)))
}

// Echoes counts a connection's records whose changes another program carried over since then. If there are
// any, it also counts the records whose changes payersync sent.
func (tx *Tx) Echoes(connection string, since time.Time) (echoed, sent int, err error) {
	err = tx.row([]any{&echoed}, "SELECT count(*) FROM two_way_echoes WHERE connection = ? AND at >= ?", connection,
		stamp(since))
	if err == nil && echoed > 0 {
		err = tx.row([]any{&sent},
			"SELECT count(DISTINCT source_id) FROM changes WHERE connection = ? AND lane = 'customer' AND action = 'update' AND frozen_at >= ?", connection, stamp(since))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("count what others carried: %w", err)
	}
	return echoed, sent, nil
}

// SetLinkOnly notes whether the plans of a connection link only from now on. After a change, all
// waiting or withheld changes are planned again.
func (tx *Tx) SetLinkOnly(connection string, only bool, actor string) error {
	var was bool
	err := tx.row([]any{&was}, "SELECT in_force FROM two_way WHERE connection = ?", connection)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("look for a connection of the service's own: %w", err)
	}
	if was == only {
		return nil
	}
	action := "write again"
	if only {
		action = "link only"
	}
	return errors.Join(
		tx.exec(`INSERT INTO two_way (connection, in_force, since) VALUES (?1, ?2, ?3)
			ON CONFLICT (connection) DO UPDATE SET in_force = excluded.in_force, since = excluded.since`, connection, only,
			stamp(tx.now)),
		tx.exec(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND (
			source_id IN (SELECT source_id FROM changes WHERE connection = ?1 AND lane = 'customer' AND state = 'pending')
			OR source_id IN (SELECT source_id FROM attention WHERE connection = ?1 AND reason = ?2))`, connection,
			connector.ReasonTwoWay),
		tx.Audit(Entry{Actor: actor, Action: action, Subject: connection}))
}
