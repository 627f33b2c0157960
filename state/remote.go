package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// ErrOvertaken means that a list pass began after the read. The pass may have shown the customer unchanged,
// which writes nothing, and is then the newer evidence. Nothing of the read was stored. The caller must read
// again.
var ErrOvertaken = errors.New("a reading of the whole list began after this read of the customer")

// saveShown keeps what an observation showed of a customer in the index: its key values, and keyed hashes of its
// names and e-mail addresses. A list that shows the customer unchanged writes nothing, unless the time of the
// sighting matters.
func (tx *Tx) saveShown(k *Known) error {
	readAt := ""
	switch {
	case k.Customer == nil:
		return tx.exec(touched, k.Ticket, k.CustomerID, k.Ticket)
	case k.List == nil:
		readAt = tx.now.UTC().Format(layout)
	default:
		k.List.add(k.CustomerID, k.bare)
	}
	if k.Stale {
		return nil
	}
	same := k.index.shows(k.entry.digest, k.Ticket)
	if !same {
		if err := errors.Join(tx.touchKeys(k.index.keys, k.entry.keys),
			tx.exec(`INSERT INTO remote_customers (billing_id, key_values, digest, known_pass, listed_at, ticket, read_at)
			VALUES (?1, ?2, ?3, (SELECT coalesce(max(pass_id), 0) FROM passes), ?4, ?5, ?6)
			ON CONFLICT (billing_id) DO UPDATE SET key_values = excluded.key_values, digest = excluded.digest,
			  known_pass = CASE remote_customers.digest WHEN '' THEN excluded.known_pass ELSE remote_customers.known_pass END,
			  listed_at = excluded.listed_at, ticket = excluded.ticket, read_at = max(remote_customers.read_at, excluded.read_at)`,
				k.CustomerID, k.entry.values, k.entry.digest, stamp(tx.now), k.Ticket, readAt)); err != nil {
			return fmt.Errorf("save a customer to the index: %w", err)
		}
	} else if k.List == nil || k.index.matters {
		if err := tx.exec("UPDATE remote_customers SET listed_at = ?1, ticket = ?2, read_at = max(read_at, ?3) WHERE billing_id = ?4", stamp(tx.now), k.Ticket, readAt, k.CustomerID); err != nil {
			return err
		}
	}
	if !same || !k.Ours && k.index.profile == "" { // or it was linked until now, and only its keys were kept
		if err := tx.saveTraits(k); err != nil {
			return err
		}
	}
	return tx.saveProfile(k)
}

// saveTraits replaces the traits of a customer. The index keeps only the keys of a linked customer: no new payer is
// compared with it, and its other traits would be most of the rows of a backfill.
func (tx *Tx) saveTraits(k *Known) error {
	if k.index.digest != "" {
		if err := tx.exec("DELETE FROM remote_traits WHERE billing_id = ?", k.CustomerID); err != nil {
			return err
		}
	}
	shown, err := json.Marshal(k.entry.traits)
	if err != nil || len(k.entry.traits) == 0 {
		return err
	}
	return tx.exec(`INSERT INTO remote_traits (kind, value, billing_id) SELECT j.value ->> 'Kind', j.value ->> 'Value', ?2 FROM json_each(?1) j
		WHERE j.value ->> 'Kind' = 'key' OR ?3 = 0 AND NOT `+ofForgottenKey, string(shown), k.CustomerID, k.Ours)
}

// isOvertaken is the condition that a later list pass may have shown the customer of c unchanged
// since a single read with the ticket ?2.
const isOvertaken = "c.digest <> '' AND c.ticket <= ?2 AND ?2 < (SELECT ticket FROM passes ORDER BY pass_id DESC LIMIT 1)"

// indexed is a customer's entry in the index; zero for none.
type indexed struct {
	ticket    int64 // -1 for no entry
	digest    string
	keys      []connector.Key // in it, if the customer is shown otherwise
	overtaken bool            // see isOvertaken
	// it matters when it was seen last: after a restore, an answer of ours, or a request whose end is not known
	matters bool
	profile string // digest of its profile; "" for none
	mandate string // status that stands with the profile; "" for none
}

// shows reports whether a read with a ticket equals the index's entry of a customer.
func (i indexed) shows(digest string, ticket int64) bool {
	return i.digest == digest && i.ticket <= ticket
}

// entryColumns are the columns of the index entry of customer j.key, of payer p if any, for a read with the ticket ?2.
const entryColumns = "coalesce(c.ticket, -1), coalesce(c.digest, ''), coalesce(" + isOvertaken + `, false),
	coalesce(c.ticket <= ` + doubtSince + ` OR c.ticket <= ` + doubtOver + ` OR p.answered_at >= c.ticket
	  OR EXISTS (SELECT 1 FROM attempts a WHERE a.billing_id = j.key AND a.ended = '' AND a.action <> 'create'), false),
	coalesce(f.digest, ''), coalesce(f.mandate_status, '')`

const entryTables = " LEFT JOIN remote_customers c ON c.billing_id = j.key LEFT JOIN remote_profiles f ON f.billing_id = j.key"

// entry is where the columns of entryColumns go.
func (i *indexed) entry() []any {
	return []any{&i.ticket, &i.digest, &i.overtaken, &i.matters, &i.profile, &i.mandate}
}

// touchKeys is Touch for the linked payers with one of the keys, in their indexed form.
func (tx *Tx) touchKeys(keys ...[]connector.Key) error {
	type key struct{ Name, Value string }
	var asked []key
	for _, k := range slices.Concat(keys...) {
		asked = append(asked, key{k.Name, k.ScopedValue()})
	}
	if len(asked) == 0 {
		return nil
	}
	page, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	return tx.each(`SELECT p.connection, p.source_id FROM json_each(?1) j CROSS JOIN payers p
		ON p.key_name = j.value ->> 'Name' AND p.key_value = j.value ->> 'Value' WHERE p.billing_id IS NOT NULL`,
		[]any{string(page)}, func(scan func(...any) error) error {
			var id RecordID
			err := scan(&id.Connection, &id.SourceID)
			tx.touched(id)
			return err
		})
}

// The reference for read tickets after a restore: see protocol.Doubt.
const (
	doubtSince = "(SELECT CASE WHEN restored_at IS DISTINCT FROM doubt_of THEN ticket ELSE doubt END FROM ledger)"
	doubtOver  = "(SELECT CASE WHEN restored_at IS DISTINCT FROM doubt_of THEN 0 ELSE doubt_over END FROM ledger)"
)

// hidden reports whether some of the known pairs are not shown as they were.
func hidden(known, shown map[string]string) bool {
	for name, value := range known {
		if shown[name] != value {
			return true
		}
	}
	return false
}

// merged returns the shown pairs, with the known ones not shown.
func merged(known, shown map[string]string) map[string]string {
	out := maps.Clone(known)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, shown)
	maps.Copy(out, known)
	return out
}

// Pairs returns the externalData that the index holds of a customer.
func (l *Ledger) Pairs(ctx context.Context, billingID string) (map[string]string, error) {
	var known string
	err := l.queryRow(ctx, "SELECT key_values FROM remote_customers WHERE billing_id = ?", billingID).Scan(&known)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("look a customer up in the index: %w", err)
	}
	return parsePairs(known)
}

func parsePairs(known string) (pairs map[string]string, err error) {
	if known != "" {
		err = json.Unmarshal([]byte(known), &pairs)
	}
	return pairs, err
}

type trait struct{ Kind, Value string }

// keyTrait returns a key as the index holds it: of what strangers put into externalData, however
// long it is.
func keyTrait(key connector.Key) string { return key.Indexed().ID() }

// keysNamed returns the prefix of every key of a name in the index.
func keysNamed(name string) string { return keyTrait(connector.Key{Name: name}) }

// keysIn returns the keys among externalData, in their indexed form.
func keysIn(pairs map[string]string) []connector.Key {
	return connector.Map(connector.KeysIn(pairs), connector.Key.Indexed)
}

// indexEntry is what the index holds of a customer.
type indexEntry struct {
	values, digest string
	keys           []connector.Key
	traits         []trait // with the keys
}

// entryOf returns the index's entry of a customer, with a digest of it.
func (l *Ledger) entryOf(c connector.RemoteCustomer) (indexEntry, error) {
	e := indexEntry{keys: keysIn(c.ExternalData)}
	for _, key := range e.keys {
		e.traits = append(e.traits, trait{"key", key.ID()})
	}
	if c.Name != "" {
		e.traits = append(e.traits, trait{"name", l.seal.likeness(c.Name)})
	}
	for _, email := range c.Emails {
		if email != "" {
			e.traits = append(e.traits, trait{"email", l.seal.likeness(email)})
		}
	}
	slices.SortFunc(e.traits, func(a, b trait) int {
		return strings.Compare(a.Kind+"\x00"+a.Value, b.Kind+"\x00"+b.Value)
	})
	e.traits = slices.Compact(e.traits)
	h := sha256.New()
	for _, t := range e.traits {
		fmt.Fprintf(h, "%s\x00%s\x00", t.Kind, t.Value)
	}
	b, err := json.Marshal(c.ExternalData)
	e.values, e.digest = string(b), hex.EncodeToString(h.Sum(nil))
	return e, err
}

// touched notes that a read has shown a part of a customer.
const touched = "UPDATE remote_customers SET ticket = ? WHERE billing_id = ? AND ticket <= ?"

// KeyCount returns how many customers of the index carry the key.
func (tx *Tx) KeyCount(key connector.Key) (int, error) {
	return txSingle[int](tx, "SELECT count(*) FROM remote_traits WHERE kind = 'key' AND value = ?", keyTrait(key))
}

// ForgetRemote clears a customer in the index after a read with this ticket said it does not exist. It
// returns false when a later read was already applied, and ErrOvertaken when that is possible. The place
// itself stays, so an older list cannot bring the customer back.
func (tx *Tx) ForgetRemote(billingID string, ticket int64) (bool, error) {
	var overtaken bool
	var known string
	err := tx.row([]any{&known, &overtaken},
		"SELECT c.key_values, coalesce("+isOvertaken+", false) FROM remote_customers c WHERE c.billing_id = ?1", billingID,
		ticket)
	if err != nil && !errors.Is(err, sql.ErrNoRows) || overtaken {
		return false, errors.Join(err, when(overtaken, ErrOvertaken))
	}
	pairs, err := parsePairs(known)
	if err != nil {
		return false, err
	}
	n, err := tx.count(`INSERT INTO remote_customers (billing_id, key_values, digest, listed_at, ticket) VALUES (?, '{}', '', ?, ?)
		ON CONFLICT (billing_id) DO UPDATE SET key_values = '{}', digest = '', ticket = excluded.ticket
		WHERE remote_customers.ticket <= excluded.ticket`, billingID, stamp(tx.now), ticket)
	if err != nil || n == 0 {
		return false, err
	}
	return true, errors.Join(tx.touchKeys(keysIn(pairs)),
		tx.exec("DELETE FROM remote_traits WHERE billing_id = ?", billingID),
		tx.exec("DELETE FROM remote_profiles WHERE billing_id = ?", billingID))
}

// Lacking is a customer of the index, known at the start of a complete pass and missing from its
// list.
type Lacking struct {
	BillingID string
	Ours      bool // linked to a payer
}

// Lacking returns the index's customers, known when the pass began, that are missing from its list and not
// confirmed gone by a read. Ours come first, then the longest unread. A customer listed by a concurrent later
// pass proves nothing about this one.
func (l *Ledger) Lacking(ctx context.Context, s *Listing) ([]Lacking, error) {
	lacking := []string{}
	if err := each(ctx, l, "SELECT billing_id FROM remote_customers WHERE known_pass < ? AND digest <> ''", []any{s.Pass},
		func(id *string) []any { return []any{id} }, func(id string) error {
			if !s.Has(id) {
				lacking = append(lacking, id)
			}
			return nil
		}); err != nil || len(lacking) == 0 {
		return nil, err
	}
	page, err := json.Marshal(lacking)
	if err != nil {
		return nil, err
	}
	return list(ctx, l, `SELECT c.billing_id, EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = c.billing_id) AS ours
		FROM json_each(?1) j CROSS JOIN remote_customers c ON c.billing_id = j.value WHERE c.digest <> '' ORDER BY ours DESC, c.read_at, c.billing_id`, []any{string(page)},
		func(r *Lacking) []any { return []any{&r.BillingID, &r.Ours} })
}

// Unshown is a customer in a list without externalData, or without some of its earlier
// externalData.
type Unshown struct {
	BillingID string
	Doubtful  bool // linked to a payer, or it has shown externalData before
	Unread    bool // no read of it by itself since, in a later instant

	known string // externalData as the index holds it
}

// Hidden reports whether a read of the customer by itself shows what the list did
// not.
func (u Unshown) Hidden(read map[string]string) bool {
	var known map[string]string
	if err := json.Unmarshal([]byte(u.known), &known); err != nil {
		return true
	}
	return len(read) > 0 && !hidden(known, read)
}

// Unshown returns the customers with incomplete externalData in the pass, the longest unread first.
func (l *Ledger) Unshown(ctx context.Context, s *Listing, since time.Time) ([]Unshown, error) {
	if s.bare.Len() == 0 {
		return nil, nil
	}
	var bare []string
	if err := each(ctx, l, "SELECT billing_id FROM remote_customers WHERE digest <> ''", nil,
		func(id *string) []any { return []any{id} }, func(id string) error {
			if s.bare.Has(id) {
				bare = append(bare, id)
			}
			return nil
		}); err != nil || len(bare) == 0 {
		return nil, err
	}
	page, err := json.Marshal(bare)
	if err != nil {
		return nil, err
	}
	return list(ctx, l, `SELECT c.billing_id,
		c.key_values NOT IN ('{}', 'null') OR EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = c.billing_id), c.read_at <= ?2, c.key_values
		FROM json_each(?1) j CROSS JOIN remote_customers c ON c.billing_id = j.value WHERE c.digest <> '' ORDER BY c.read_at, c.billing_id`, []any{string(page), stamp(since)},
		func(r *Unshown) []any { return []any{&r.BillingID, &r.Doubtful, &r.Unread, &r.known} })
}

// KeyHolders returns the ids of the customers that carry the key, exact to the
// byte, oldest id first.
func (l *Ledger) KeyHolders(ctx context.Context, key connector.Key) ([]string, error) {
	return l.ids(ctx, "SELECT billing_id FROM remote_traits WHERE kind = 'key' AND value = ? ORDER BY billing_id",
		keyTrait(key))
}

// UnscopedHolders returns the ids of unlinked customers with the key but without its scope. They may be the
// payer's from before the key had a scope. It omits customers rejected for the record. A key without a scope
// has none.
func (l *Ledger) UnscopedHolders(ctx context.Context, key connector.Key, connection, sourceID string) ([]string,
	error) {
	if key.Scope == "" {
		return nil, nil
	}
	return l.ids(ctx, `SELECT t.billing_id FROM remote_traits t WHERE t.kind = 'key' AND t.value = ?1
		AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = t.billing_id)
		AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = ?2 AND w.source_id = ?3 AND w.billing_id = t.billing_id AND w.word = 'reject')
		ORDER BY t.billing_id`, keyTrait(key.Unscoped()), connection, sourceID)
}

// LinkedTo returns the connection and the source id of a customer's linked payer, "" for none.
func (l *Ledger) LinkedTo(ctx context.Context, billingID string) (connection, sourceID string, err error) {
	err = l.queryRow(ctx, "SELECT connection, source_id FROM payers WHERE billing_id = ?", billingID).Scan(&connection,
		&sourceID)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return connection, sourceID, err
}

// KeyLinkedTo returns the source id of another payer linked under the key to a customer that is not
// known to be gone, or "". The customer need not carry the key now.
func (l *Ledger) KeyLinkedTo(ctx context.Context, key connector.Key, connection, sourceID string) (string, error) {
	found, err := l.ids(ctx, `SELECT p.source_id FROM payers p WHERE p.key_name = ? AND p.key_value = ? AND coalesce(p.billing_id, '') <> '' AND NOT `+isMissing+`
		AND (p.connection <> ? OR p.source_id <> ?) ORDER BY p.source_id LIMIT 1`, key.Name, key.ScopedValue(), connection,
		sourceID)
	return strings.Join(found, ""), err
}

// Alike returns the ids of unlinked customers with the same name or e-mail address as c, and without a
// record's key under c's key name. They may be the same person, entered by hand or under another number. It
// omits customers rejected for the record.
func (l *Ledger) Alike(ctx context.Context, c connector.Customer, keyName, connection, sourceID string) ([]string,
	error) {
	return l.AllAlike(ctx, c, keyName, connection, sourceID, 5)
}

// AllAlike is Alike for more than a few of them; a limit below 0 means all.
func (l *Ledger) AllAlike(ctx context.Context, c connector.Customer, keyName, connection, sourceID string,
	limit int) ([]string, error) {
	some := limit
	if limit < 0 { // all of them
		some = math.MaxInt32
	}
	unclaimed := fmt.Sprintf(isUnclaimed+" AND "+isReadWhole, "k", "?4")
	var out []string
	for _, t := range l.shared(c) {
		found, err := l.ids(ctx, `SELECT t.billing_id FROM remote_traits t WHERE t.kind = ? AND t.value = ?
			AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = t.billing_id)
			AND NOT EXISTS (SELECT 1 FROM remote_traits k WHERE k.billing_id = t.billing_id AND k.kind = 'key'
			                AND substr(k.value, 1, length(?3)) = ?3 AND NOT (`+unclaimed+`))
			AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = ?4 AND w.source_id = ?5 AND w.billing_id = t.billing_id AND w.word = 'reject')
			ORDER BY t.billing_id`+limitTo, t.Kind, t.Value, keysNamed(keyName), connection, sourceID, some)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if limit > 0 {
		out = out[:min(limit, len(out))]
	}
	return out, nil
}

// shared returns the values that a customer of the index may have in common with c.
func (l *Ledger) shared(c connector.Customer) []trait {
	traits := []trait{{"name", l.seal.likeness(c.Name)}}
	for _, p := range c.People {
		if p.Email != "" {
			traits = append(traits, trait{"email", l.seal.likeness(p.Email)})
		}
	}
	return traits
}

// ShownOf compares the index's customer with the wanted one. agree tells whether its name or an
// e-mail address is the same; otherwise the result names the differences. Traits missing on either
// side prove nothing. The index keeps hashes: a similar name is a different one, and there are no
// phones and postcodes.
func (l *Ledger) ShownOf(ctx context.Context, billingID string, c connector.Customer) (agree bool, against []string,
	err error) {
	emails := map[string]bool{}
	for _, p := range c.People {
		if p.Email != "" {
			emails[l.seal.likeness(p.Email)] = true
		}
	}
	names := map[string]bool{}
	if c.Name != "" {
		names[l.seal.likeness(c.Name)] = true
	}
	for _, matter := range []struct {
		kind, words string
		wanted      map[string]bool
	}{{"name", "name", names}, {"email", "e-mail address", emails}} {
		shown, err := l.ids(ctx, "SELECT value FROM remote_traits WHERE billing_id = ? AND kind = ?", billingID, matter.kind)
		switch {
		case err != nil:
			return false, nil, err
		case slices.ContainsFunc(shown, func(v string) bool { return matter.wanted[v] }):
			return true, nil, nil
		case len(shown) > 0 && len(matter.wanted) > 0:
			against = append(against, matter.words)
		}
	}
	return false, against, nil
}

func (l *Ledger) ids(ctx context.Context, query string, args ...any) ([]string, error) {
	const what = "read the index of customers"
	return collect(what, columns(what, func(id *string) []any { return []any{id} }))(l.query(ctx, query, args...))
}
