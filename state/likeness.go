package state

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// Likeness holds a record's traits for recognising another payer of ours, each text in its form for
// comparison. The ledger keeps keyed hashes of it, also after the record was removed.
type Likeness struct {
	Name                      string
	Emails, Phones, Postcodes []string
}

// Kinds of likenesses. Traits with a name indicate that two records may be one payer; a name or an
// e-mail address alone is shown beside a create.
const (
	likeName         = "name"
	likeEmail        = "email"
	likeNameEmail    = "name email"
	likeNamePhone    = "name phone"
	likeNamePostcode = "name postcode"
)

// mostTwins is the largest number of records with the same name and another trait that still count as one
// payer. More than that are a customer with many accounts.
const mostTwins = 5

// traits returns the likeness as keyed hashes, in order.
func (l *Ledger) traits(k Likeness) []trait {
	var out []trait
	add := func(kind string, texts ...string) {
		out = append(out, trait{kind, l.seal.likeness(kind + "\x00" + strings.Join(texts, "\x00"))})
	}
	for _, email := range k.Emails {
		add(likeEmail, email)
	}
	if k.Name != "" {
		add(likeName, k.Name)
		for _, with := range []struct {
			kind  string
			texts []string
		}{{likeNameEmail, k.Emails}, {likeNamePhone, k.Phones}, {likeNamePostcode, k.Postcodes}} {
			for _, text := range with.texts {
				add(with.kind, k.Name, text)
			}
		}
	}
	slices.SortFunc(out, func(a, b trait) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.value, b.value)) })
	return slices.Compact(out)
}

// likeness is a Likeness in the ledger's form.
type likeness struct {
	traits []trait
	digest string
}

func (l *Ledger) likenessOf(k Likeness) likeness {
	traits := l.traits(k)
	h := sha256.New()
	for _, t := range traits {
		fmt.Fprintf(h, "%s\x00%s\x00", t.kind, t.value)
	}
	return likeness{traits, hex.EncodeToString(h.Sum(nil)[:8])}
}

// SaveLikeness replaces the stored traits of a payer.
func (tx *Tx) SaveLikeness(connection, sourceID string, k Likeness) error {
	like := tx.l.likenessOf(k)
	var known string
	err := tx.row([]any{&known}, "SELECT likeness FROM payers WHERE connection = ? AND source_id = ?", connection, sourceID)
	if errors.Is(err, sql.ErrNoRows) || err == nil && known == like.digest {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tx.exec("UPDATE payers SET likeness = ? WHERE connection = ? AND source_id = ?", like.digest, connection, sourceID); err != nil {
		return err
	}
	return tx.renewTraits(connection, sourceID, known != "", like)
}

// renewTraits stores a payer's traits; known tells whether there were any before.
func (tx *Tx) renewTraits(connection, sourceID string, known bool, like likeness) error {
	if known {
		if err := tx.exec("DELETE FROM likenesses WHERE connection = ? AND source_id = ?", connection, sourceID); err != nil {
			return err
		}
	}
	return tx.insertLikenesses(like.rows(connection, sourceID))
}

// rows returns the likeness as the rows of a payer that insertLikenesses inserts.
func (k likeness) rows(connection, sourceID string) (args []any) {
	for _, t := range k.traits {
		args = append(args, connection, sourceID, t.kind, t.value)
	}
	return args
}

// insertLikenesses inserts the traits of payers, from likeness.rows.
func (tx *Tx) insertLikenesses(rows []any) error {
	return tx.insertRows("INSERT INTO likenesses (connection, source_id, kind, value) VALUES ", "(?, ?, ?, ?)", rows, "")
}

// Unlearnt returns up to limit linked payers without stored traits, because an earlier version
// linked them.
func (l *Ledger) Unlearnt(ctx context.Context, limit int) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+` FROM payers p INDEXED BY payers_unlearnt
		WHERE p.likeness = '' AND p.billing_id IS NOT NULL AND p.applied IS NOT NULL ORDER BY p.connection, p.source_id`+limitTo, limit)
}

const (
	// mayHave is the condition that payer p has a customer, or may have one.
	mayHave = `(p.billing_id IS NOT NULL AND NOT ` + isMissing + ` OR ` + isSent + `)`

	// toldApart is the condition that a person has declared record ?1, ?2 and payer p to be two.
	toldApart = `(p.connection = ?1 AND EXISTS (SELECT 1 FROM apart a WHERE a.connection = ?1 AND a.source_id = min(?2, p.source_id) AND a.other_id = max(?2, p.source_id))
		OR EXISTS (SELECT 1 FROM words w WHERE w.connection = ?1 AND w.source_id = ?2 AND w.billing_id = p.billing_id AND w.word = 'reject'))`

	// likeOf joins likeness o with its payer and its record.
	likeOf = ` likenesses o CROSS JOIN payers p ON p.connection = o.connection AND p.source_id = o.source_id
		CROSS JOIN source_records r ON r.connection = o.connection AND r.source_id = o.source_id `
)

// Twin is another payer of ours that a record may be.
type Twin struct {
	Connection string
	SourceID   string
	BillingID  string // its customer; "" while it has none
}

// Twins are the payers of ours that a record without a customer may be.
type Twins struct {
	Left  []Twin // have the name and an e-mail address, a phone or a postcode in common; their records have left the books, and they have customers
	Twice []Twin // have the name and an e-mail address in common and no two postcodes; their records are in the same books
}

// Twins returns the payers a record may be, except those rejected by a person. Traits of many payers prove
// nothing.
func (l *Ledger) Twins(ctx context.Context, connection, sourceID string, k Likeness) (Twins, error) {
	var out Twins
	own := l.traits(k)
	for _, t := range own {
		if !t.tells() {
			continue
		}
		found, err := l.sharing(ctx, connection, sourceID, t)
		if err != nil {
			return out, err
		}
		for _, f := range found {
			switch {
			case f.apart:
			case f.left && f.mayHave:
				out.Left = append(out.Left, f.Twin)
			case !f.left && t.kind == likeNameEmail && f.Connection == connection:
				elsewhere, err := l.elsewhere(ctx, own, f.Twin)
				if err != nil {
					return out, err
				}
				if !elsewhere {
					out.Twice = append(out.Twice, f.Twin)
				}
			}
		}
	}
	for _, list := range []*[]Twin{&out.Left, &out.Twice} {
		slices.SortFunc(*list, func(a, b Twin) int {
			return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.SourceID, b.SourceID))
		})
		*list = slices.Compact(*list)
	}
	return out, nil
}

// tells reports whether the trait shows that two payers may be one; a name or an address alone does
// not.
func (t trait) tells() bool { return t.kind != likeName && t.kind != likeEmail }

type sharer struct {
	Twin
	left, mayHave, apart bool
}

// sharing returns the other payers with a trait of a record, and none if there are too many.
func (l *Ledger) sharing(ctx context.Context, connection, sourceID string, t trait) ([]sharer, error) {
	found, err := list(ctx, l, `SELECT p.connection, p.source_id, coalesce(p.billing_id, ''), `+hasLeft+`, `+mayHave+`, `+toldApart+` FROM `+likeOf+`
		WHERE o.kind = ?3 AND o.value = ?4 AND (o.connection <> ?1 OR o.source_id <> ?2)`+limitTo, []any{connection, sourceID, t.kind, t.value, mostTwins + 1},
		func(s *sharer) []any {
			return []any{&s.Connection, &s.SourceID, &s.BillingID, &s.left, &s.mayHave, &s.apart}
		})
	if len(found) > mostTwins {
		return nil, err
	}
	return found, err
}

// elsewhere reports whether a payer of the same name has other postcodes than these traits.
func (l *Ledger) elsewhere(ctx context.Context, own []trait, t Twin) (bool, error) {
	theirs, err := l.ids(ctx, "SELECT value FROM likenesses WHERE connection = ? AND source_id = ? AND kind = 'name postcode'", t.Connection, t.SourceID)
	if err != nil || len(theirs) == 0 {
		return false, err
	}
	known := false
	for _, o := range own {
		if o.kind == likeNamePostcode {
			if slices.Contains(theirs, o.value) {
				return false, nil
			}
			known = true
		}
	}
	return known, nil
}

// WakeTwins makes the present plan look again at two kinds of records, and returns their number. The first
// kind would get a new customer, and shares a name and another trait with a payer decided later or departed
// since. The second kind is on hold for such a payer, because the payer may be back.
func (tx *Tx) WakeTwins(connection string, there bool) (int64, error) {
	n, err := tx.count(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND (unseen = 0 OR ?2 = 0) AND replan = 0 AND source_id IN (
		SELECT c.source_id FROM changes c JOIN likenesses m ON m.connection = c.connection AND m.source_id = c.source_id AND m.kind IN ('name email', 'name phone', 'name postcode')
		WHERE c.connection = ?1 AND c.lane = 'customer' AND c.action = 'create' AND c.state = 'pending'
		  AND (SELECT count(*) FROM (SELECT 1 FROM likenesses o WHERE o.kind = m.kind AND o.value = m.value LIMIT ?3 + 2) few) BETWEEN 2 AND ?3 + 1
		UNION SELECT a.source_id FROM attention a WHERE a.connection = ?1 AND (a.reason = 'renumbered' OR a.reason = 'entered_twice'))`, connection, there, mostTwins)
	return n, connector.Wrap(err, "look for matching payers")
}

// ErrSameRecord means that a record was told apart from itself.
var ErrSameRecord = errors.New("the two are one record")

// TellApart notes a person's decision that two records of a connection are two payers. It reports
// false for a repeated decision. The next plan looks at both. It fails with ErrNoRecord or
// ErrSameRecord.
func (tx *Tx) TellApart(connection, sourceID, otherID string) (news bool, err error) {
	if sourceID == otherID {
		return false, ErrSameRecord
	}
	for _, id := range []string{sourceID, otherID} {
		known, err := tx.ReplanRecord(connection, id)
		if err != nil {
			return false, err
		}
		if !known {
			return false, fmt.Errorf("%s: %w", id, ErrNoRecord)
		}
	}
	n, err := tx.count("INSERT INTO apart (connection, source_id, other_id, said_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		connection, min(sourceID, otherID), max(sourceID, otherID), stamp(tx.now))
	return n > 0, err
}

// Lookalike is another payer of ours, similar to a record that is about to get a customer.
type Lookalike struct {
	Connection string `json:"connection"`
	SourceID   string `json:"source_id"`
	BillingID  string `json:"billing_id,omitempty"` // its customer; "" while it has none
	Name       bool   `json:"name"`                 // the names are equal
	Email      bool   `json:"email"`                // an e-mail address is
	Left       bool   `json:"left"`                 // its record has left the books
}

// mostLookalikes is how many look-alikes of a record are counted, and as many of each kind.
const mostLookalikes = 100

// isLookalike is the condition that payer p is shown as a look-alike of record ?1, ?2.
const isLookalike = `(p.connection <> ?1 OR p.source_id <> ?2) AND NOT ` + toldApart + ` AND (NOT ` + hasLeft + ` OR ` + mayHave + `)`

// Lookalikes returns our payers with a record's name or one of its e-mail addresses. Payers with
// both come first, then those whose records have left. For traits of very many payers, it returns
// only some.
func (l *Ledger) Lookalikes(ctx context.Context, connection, sourceID string) ([]Lookalike, error) {
	type row struct {
		Lookalike
		kind string
	}
	known := map[RecordID]*Lookalike{}
	for _, kind := range []string{likeNameEmail, likeName, likeEmail} {
		if err := each(ctx, l, `SELECT o.kind, p.connection, p.source_id, coalesce(p.billing_id, ''), `+hasLeft+`
			FROM likenesses m CROSS JOIN`+likeOf+`WHERE m.connection = ?1 AND m.source_id = ?2 AND m.kind = ?3 AND o.kind = ?3 AND o.value = m.value AND `+isLookalike+limitTo,
			[]any{connection, sourceID, kind, mostLookalikes}, func(r *row) []any {
				return []any{&r.kind, &r.Connection, &r.SourceID, &r.BillingID, &r.Left}
			}, func(r row) error {
				id := RecordID{r.Connection, r.SourceID}
				if known[id] == nil {
					known[id] = &r.Lookalike
				}
				known[id].Name = known[id].Name || kind != likeEmail
				known[id].Email = known[id].Email || kind != likeName
				return nil
			}); err != nil {
			return nil, err
		}
	}
	out := make([]Lookalike, 0, len(known))
	for _, k := range known {
		out = append(out, *k)
	}
	rank := func(k Lookalike) (n int) {
		if !k.Name || !k.Email {
			n += 2
		}
		if !k.Left {
			n++
		}
		return n
	}
	slices.SortFunc(out, func(a, b Lookalike) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.SourceID, b.SourceID))
	})
	return out, nil
}

// isAlike is the condition that change c creates a customer similar to another payer of ours.
var isAlike = `c.action = 'create' AND EXISTS (
	SELECT 1 FROM likenesses m CROSS JOIN` + likeOf + `WHERE m.connection = c.connection AND m.source_id = c.source_id AND (m.kind = 'name' OR m.kind = 'email')
	  AND o.kind = m.kind AND o.value = m.value AND ` + strings.NewReplacer("?1", "c.connection", "?2", "c.source_id").Replace(isLookalike) + `)`

// countAlike counts the customers in a connection's plan that would be new and look like another
// payer of ours.
func (tx *Tx) countAlike(connection string) (n int, err error) {
	return n, tx.row([]any{&n}, "SELECT count(*) FROM changes c WHERE c.connection = ? AND c.lane = 'customer' AND c.state = 'pending' AND "+isAlike, connection)
}
