package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
)

// Likeness holds a record's traits for recognising another payer of ours, each text in its form for
// comparison. The ledger keeps keyed hashes of it, also after the record was removed.
type Likeness struct {
	Name                      string
	Emails, Phones, Postcodes []string

	hashes likeness // of the traits; nil until Hashed
}

// Hashed returns the likeness with its hashes. Callers that use it several times compute them once.
func (l *Ledger) Hashed(k Likeness) Likeness {
	k.hashes = l.likeness(k)
	return k
}

// traitKind is the kind of a trait, in the low bits of its hash. Traits with a name indicate that two records may
// be one payer; a name or an e-mail address alone is shown beside a create.
type traitKind int64

const (
	likeName traitKind = iota
	likeEmail
	likeNameEmail
	likeNamePhone
	likeNamePostcode

	kindBits = 7
)

// String returns the kind as it begins the text of a hash.
func (k traitKind) String() string {
	return [...]string{"name", "email", "name email", "name phone", "name postcode"}[k]
}

// hash is a trait as the ledger keeps it: 61 bits of a keyed hash of its kind and its texts, and the kind in the low
// bits. Among the 4 million traits of a million payers, one new record meets an equal hash of another text with a
// probability of 1 in 10^11. Nobody can choose texts with equal hashes, because the hash has a key. An equal hash
// never links, sends or drops anything: it holds a record until a person has compared the values, or shows a match.
type hash int64

func (h hash) kind() traitKind { return traitKind(h & kindBits) }

// tells reports whether the trait shows that two payers may be one; a name or an address alone does not.
func (h hash) tells() bool { return h.kind() >= likeNameEmail }

// mostSimilar is the largest number of records with the same name and another trait that still count as one
// payer. More than that are a customer with many accounts.
const mostSimilar = 5

// likeness returns the traits as keyed hashes, in order.
func (l *Ledger) likeness(k Likeness) likeness {
	if k.hashes != nil {
		return k.hashes
	}
	out := likeness{}
	add := func(kind traitKind, texts ...string) {
		out = append(out, hash(l.seal.likeness64(kind.String()+"\x00"+strings.Join(texts, "\x00"))&^kindBits|int64(kind)))
	}
	for _, email := range k.Emails {
		add(likeEmail, email)
	}
	if k.Name != "" {
		add(likeName, k.Name)
		for _, with := range []struct {
			kind  traitKind
			texts []string
		}{{likeNameEmail, k.Emails}, {likeNamePhone, k.Phones}, {likeNamePostcode, k.Postcodes}} {
			for _, text := range with.texts {
				add(with.kind, k.Name, text)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// likeness holds the hashes of a payer's traits, in order. The payer keeps them as a JSON array, and the table
// likenesses is the index of them. "" stands for traits that are not known.
type likeness []hash

// text returns the likeness as the payer keeps it.
func (k likeness) text() string {
	out := []byte("[")
	for i, h := range k {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(h), 10)
	}
	return string(append(out, ']'))
}

// Scan reads what text returned.
func (k *likeness) Scan(from any) error {
	var text sql.NullString
	if err := text.Scan(from); err != nil {
		return err
	}
	*k = nil
	for digits := range strings.FieldsFuncSeq(text.String, func(r rune) bool { return r != '-' && (r < '0' || r > '9') }) {
		h, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return err
		}
		*k = append(*k, hash(h))
	}
	return nil
}

// SaveLikeness replaces the stored traits of a payer.
func (tx *Tx) SaveLikeness(connection, sourceID string, k Likeness) error {
	like := tx.l.likeness(k).text()
	var known string
	err := tx.row([]any{&known}, "SELECT likeness FROM payers WHERE connection = ? AND source_id = ?", connection,
		sourceID)
	if errors.Is(err, sql.ErrNoRows) || err == nil && known == like {
		return nil
	}
	if err != nil {
		return err
	}
	return tx.renewTraits(connection, sourceID, like)
}

// renewTraits replaces a payer's traits. Those of a payer that is not in the index yet follow with it.
func (tx *Tx) renewTraits(connection, sourceID, like string) error {
	return errors.Join(
		tx.dropTraits("p.connection = ? AND p.source_id = ?", connection, sourceID),
		tx.exec("UPDATE payers SET likeness = ? WHERE connection = ? AND source_id = ?", like, connection, sourceID),
		tx.exec("INSERT INTO likenesses (hash, payer_id) SELECT "+traitHash+`, p.payer_id FROM`+traitsOf("p")+`
			WHERE p.connection = ? AND p.source_id = ? AND p.payer_id <= (SELECT indexed_to FROM ledger) ON CONFLICT DO NOTHING`,
			connection, sourceID))
}

// dropTraits removes payers from the index; the condition picks the payers p. It comes before the write that changes
// their likeness, by which their rows are found.
func (tx *Tx) dropTraits(which string, args ...any) error {
	return tx.exec("DELETE FROM likenesses WHERE (hash, payer_id) IN (SELECT "+traitHash+", p.payer_id FROM"+traitsOf("p")+" WHERE "+which+")", args...)
}

// traitHash is a hash of the likeness that traitsOf joins.
const traitHash = "CAST(j.value AS BIGINT)"

// traitsOf joins a payer with each of its hashes: see traitHash.
func traitsOf(payer string) string {
	return fmt.Sprintf(" payers %[1]s CROSS JOIN json_each(nullif(%[1]s.likeness, '')) j ", payer)
}

// nextPayer returns the id of the next inserted payer. An id that was in the index is never given again.
func (tx *Tx) nextPayer() (int64, error) {
	if tx.payer == 0 {
		if err := tx.row([]any{&tx.payer},
			"SELECT max(indexed_to, coalesce((SELECT max(payer_id) FROM payers), 0)) FROM ledger"); err != nil {
			return 0, err
		}
	}
	tx.payer++
	return tx.payer, nil
}

// mostIndexed is how many payers one write adds to the index. Each write visits almost every page of a large index,
// so few large ones write less; a larger one would keep other writers waiting.
const mostIndexed = 50_000

// IndexLikenesses adds the traits of new payers to the index, in the order of the hashes. A plan saves its payers
// first, and adds them when all are saved: added page by page, they would cost ten times as much. Until then nobody
// finds them by a trait, and ReplanSimilar looks again at the payers that they are like.
func (l *Ledger) IndexLikenesses(ctx context.Context) error {
	for {
		var last, to int64
		if err := l.queryRow(ctx, "SELECT indexed_to, coalesce((SELECT max(payer_id) FROM payers), 0) FROM ledger").Scan(&to,
			&last); err != nil {
			return fmt.Errorf("look for payers without an index of their traits: %w", err)
		}
		if last <= to {
			return nil
		}
		if err := l.DoAlone(ctx, (*Tx).indexLikenesses); err != nil {
			return fmt.Errorf("index the traits of payers: %w", err)
		}
	}
}

// indexLikenesses is one write of IndexLikenesses.
func (tx *Tx) indexLikenesses() error {
	var from, last int64
	if err := tx.row([]any{&from, &last},
		"SELECT indexed_to, coalesce((SELECT max(payer_id) FROM payers), 0) FROM ledger"); err != nil || last <= from {
		return err
	}
	to := min(last, from+mostIndexed)
	type trait struct {
		of    hash
		payer int64
	}
	var traits []trait
	if err := tx.each("SELECT payer_id, likeness FROM payers WHERE payer_id > ? AND payer_id <= ?", []any{from, to},
		func(scan func(...any) error) error {
			var payer int64
			var has likeness
			err := scan(&payer, &has)
			for _, h := range has {
				traits = append(traits, trait{h, payer})
			}
			return err
		}); err != nil {
		return err
	}
	slices.SortFunc(traits, func(a, b trait) int { return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.payer, b.payer)) })
	for some := range slices.Chunk(traits, someRows) {
		var rows []any
		for _, t := range some {
			rows = append(rows, int64(t.of), t.payer)
		}
		if err := tx.insertRows("INSERT INTO likenesses (hash, payer_id) VALUES ", "(?, ?)", rows,
			" ON CONFLICT DO NOTHING"); err != nil {
			return err
		}
	}
	return tx.exec("UPDATE ledger SET indexed_to = ?", to)
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
	likeOf = ` likenesses o CROSS JOIN payers p ON p.payer_id = o.payer_id
		CROSS JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id `
)

// SimilarPayer is another payer of ours that a record may be.
type SimilarPayer struct {
	Connection string
	SourceID   string
	BillingID  string // its customer; "" while it has none
}

// SimilarPayers are the payers of ours that a record without a customer may be.
type SimilarPayers struct {
	// have the name and an e-mail address, a phone or a postcode in common; their records have left the books, and they
	// have customers
	Left  []SimilarPayer
	Twice []SimilarPayer // have the name and an e-mail address in common and no two postcodes; their records are in the same books
}

// SimilarPayers returns the payers a record may be, except those rejected by a person. Traits of many payers prove
// nothing.
func (l *Ledger) SimilarPayers(ctx context.Context, connection, sourceID string, k Likeness) (SimilarPayers, error) {
	var out SimilarPayers
	own := l.likeness(k)
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
				out.Left = append(out.Left, f.SimilarPayer)
			case !f.left && t.kind() == likeNameEmail && f.Connection == connection:
				elsewhere, err := l.otherPostcodes(ctx, own, f.SimilarPayer)
				if err != nil {
					return out, err
				}
				if !elsewhere {
					out.Twice = append(out.Twice, f.SimilarPayer)
				}
			}
		}
	}
	for _, list := range []*[]SimilarPayer{&out.Left, &out.Twice} {
		slices.SortFunc(*list, func(a, b SimilarPayer) int {
			return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.SourceID, b.SourceID))
		})
		*list = slices.Compact(*list)
	}
	return out, nil
}

type sharer struct {
	SimilarPayer
	left, mayHave, apart bool
}

// sharing returns the other payers with a trait of a record, and none if there are too many.
func (l *Ledger) sharing(ctx context.Context, connection, sourceID string, t hash) ([]sharer, error) {
	found, err := list(ctx, l,
		`SELECT p.connection, p.source_id, coalesce(p.billing_id, ''), `+hasLeft+`, `+mayHave+`, `+toldApart+` FROM `+likeOf+`
		WHERE o.hash = ?3 AND (p.connection <> ?1 OR p.source_id <> ?2)`+limitTo,
		[]any{connection, sourceID, int64(t), mostSimilar + 1},
		func(s *sharer) []any {
			return []any{&s.Connection, &s.SourceID, &s.BillingID, &s.left, &s.mayHave, &s.apart}
		})
	if len(found) > mostSimilar {
		return nil, err
	}
	return found, err
}

// otherPostcodes reports whether a payer of the same name has other postcodes than these traits.
func (l *Ledger) otherPostcodes(ctx context.Context, own likeness, t SimilarPayer) (bool, error) {
	var theirs likeness
	if err := l.queryRow(ctx, "SELECT likeness FROM payers WHERE connection = ? AND source_id = ?", t.Connection,
		t.SourceID).Scan(&theirs); err != nil {
		return false, fmt.Errorf("read the traits of record %s: %w", t.SourceID, err)
	}
	own, theirs = own.postcodes(), theirs.postcodes()
	return len(own) > 0 && len(theirs) > 0 &&
		!slices.ContainsFunc(own, func(h hash) bool { return slices.Contains(theirs, h) }), nil
}

func (k likeness) postcodes() likeness {
	return slices.DeleteFunc(slices.Clone(k), func(h hash) bool { return h.kind() != likeNamePostcode })
}

// ReplanSimilar makes the present plan look again at two kinds of records, and returns their number. The first
// kind would get a new customer, and shares a name and another trait with a payer decided later or departed
// since. The second kind is on hold for such a payer, because the payer may be back.
func (tx *Tx) ReplanSimilar(connection string, there bool) (int64, error) {
	many, err := tx.createsMany(connection)
	if err != nil {
		return 0, err
	}
	alike := `SELECT c.source_id FROM changes c CROSS JOIN` + traitsOf("p") + `
		WHERE ` + plansCreate + ` AND p.connection = c.connection AND p.source_id = c.source_id AND ` + traitHash + ` & 7 >= 2
		  AND (SELECT count(*) FROM (SELECT 1 FROM likenesses o WHERE o.hash = ` + traitHash +
		` LIMIT ?3 + 2) few) BETWEEN 2 AND ?3 + 1`
	if many {
		alike = `SELECT c.source_id FROM ` + sharedTraits("?3") + `
			CROSS JOIN likenesses o ON o.hash = s.hash CROSS JOIN payers p ON p.payer_id = o.payer_id
			CROSS JOIN changes c ON c.connection = p.connection AND c.source_id = p.source_id WHERE ` + plansCreate
	}
	n, err := tx.count(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND (unseen = 0 OR ?2 = 0) AND replan = 0 AND source_id IN (
		`+alike+`
		UNION SELECT a.source_id FROM attention a WHERE a.connection = ?1 AND (a.reason = 'renumbered' OR a.reason = 'entered_twice'))`, connection, there, mostSimilar)
	return n, connector.Wrap(err, "look for matching payers")
}

// plansCreate is the condition that change c is a planned create of connection ?1.
const plansCreate = "c.connection = ?1 AND c.lane = 'customer' AND c.action = 'create' AND c.state = 'pending'"

// sharedTraits are the traits s that at least two payers have, and not too many: mostSimilar is a placeholder's value.
func sharedTraits(mostTwins string) string {
	return "(SELECT hash FROM likenesses WHERE hash & 7 >= 2 GROUP BY hash HAVING count(*) BETWEEN 2 AND " + mostTwins +
		" + 1) s"
}

// createsMany reports whether a plan makes customers for a large part of the payers. Then one pass over the index, in
// its order, finds those that share a trait sooner than a search for each.
func (tx *Tx) createsMany(connection string) (many bool, err error) {
	return many, tx.row([]any{&many},
		"SELECT "+largePart+"*(SELECT count(*) FROM changes c WHERE "+plansCreate+") > (SELECT count(*) FROM payers)",
		connection)
}

// largePart is the part of the payers for createsMany: one in so many.
const largePart = "16"

// ErrSameRecord means that a record was told apart from itself.
var ErrSameRecord = errors.New("the two are one record")

// KeepApart notes a person's decision that two records of a connection are two payers. It reports
// false for a repeated decision. The next plan looks at both. It fails with ErrNoRecord or
// ErrSameRecord.
func (tx *Tx) KeepApart(connection, sourceID, otherID string) (news bool, err error) {
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
const isLookalike = `(p.connection <> ?1 OR p.source_id <> ?2) AND NOT ` + toldApart + ` AND (NOT ` + hasLeft + ` OR ` +
	mayHave + `)`

// Lookalikes returns our payers with a record's name or one of its e-mail addresses. Payers with
// both come first, then those whose records have left. For traits of very many payers, it returns
// only some.
func (l *Ledger) Lookalikes(ctx context.Context, connection, sourceID string) ([]Lookalike, error) {
	known := map[RecordID]*Lookalike{}
	for _, kind := range []traitKind{likeNameEmail, likeName, likeEmail} {
		if err := each(ctx, l, `SELECT p.connection, p.source_id, coalesce(p.billing_id, ''), `+hasLeft+`
			FROM`+traitsOf("m")+`CROSS JOIN`+likeOf+`WHERE m.connection = ?1 AND m.source_id = ?2 AND o.hash = `+traitHash+` AND o.hash & 7 = ?3 AND `+isLookalike+limitTo,
			[]any{connection, sourceID, int64(kind), mostLookalikes}, func(k *Lookalike) []any {
				return []any{&k.Connection, &k.SourceID, &k.BillingID, &k.Left}
			}, func(k Lookalike) error {
				id := RecordID{k.Connection, k.SourceID}
				if known[id] == nil {
					known[id] = &k
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
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Connection, b.Connection),
			cmp.Compare(a.SourceID, b.SourceID))
	})
	return out, nil
}

// isAlike is the condition that change c creates a customer similar to another payer of ours.
var isAlike = `c.action = 'create' AND EXISTS (
	SELECT 1 FROM` + traitsOf("m") + `CROSS JOIN` + likeOf +
	`WHERE m.connection = c.connection AND m.source_id = c.source_id
	  AND o.hash = ` + traitHash + ` AND o.hash & 7 <= 1 AND ` +
	strings.NewReplacer("?1", "c.connection", "?2", "c.source_id").Replace(isLookalike) + `)`

// countAlike counts the customers in a connection's plan that would be new and look like another
// payer of ours.
func (tx *Tx) countAlike(connection string) (n int, err error) {
	many, err := tx.createsMany(connection)
	if err != nil {
		return 0, err
	}
	creates := "changes c WHERE " + plansCreate
	if many {
		creates = `(SELECT DISTINCT p.connection, p.source_id FROM (SELECT hash FROM likenesses WHERE hash & 7 <= 1 GROUP BY hash HAVING count(*) > 1) s
			CROSS JOIN likenesses o ON o.hash = s.hash CROSS JOIN payers p ON p.payer_id = o.payer_id) s
			CROSS JOIN changes c ON c.connection = s.connection AND c.source_id = s.source_id WHERE ` + plansCreate
	}
	return n, tx.row([]any{&n}, "SELECT count(*) FROM "+creates+" AND "+isAlike, connection)
}
