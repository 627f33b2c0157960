package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Sizes of the steps of migration 97. A step takes about a second, for which other processes wait.
const (
	likenessPayers = 10_000
	likenessTraits = 20_000
)

// likenessMigration is migration 97. A payer's traits are found by 8 bytes of their keyed hash: 61 bits of it, and the
// kind in the low 3. The payer keeps its hashes, in order, as a JSON array, so its rows need no second index. This
// program gives the ids of payers. indexed_to is the highest id of which the traits are in the index: a plan adds
// those of many new payers at once, in the order of the hashes. Migration 98 removes the earlier table. A step takes so
// many payers or traits.
func likenessMigration(payers, traits int) *longMigration {
	m := &longMigration{
		version: 97,
		begin: []string{
			"ALTER TABLE payers ADD COLUMN payer_id INTEGER NOT NULL DEFAULT 0",
			"ALTER TABLE ledger ADD COLUMN indexed_to INTEGER NOT NULL DEFAULT 0",
			"DROP INDEX payers_unlearnt",
			"ALTER TABLE likenesses RENAME TO earlier_likenesses",
			"ALTER TABLE earlier_likenesses ADD COLUMN hash INTEGER AS (" + hashOfEarlier() + ") VIRTUAL",
			"CREATE TABLE likenesses (hash INTEGER NOT NULL, payer_id INTEGER NOT NULL, PRIMARY KEY (hash, payer_id)) STRICT, WITHOUT ROWID",
		},
		end: []string{
			"CREATE UNIQUE INDEX payers_id ON payers (payer_id)",
			"CREATE INDEX payers_unlearnt ON payers (connection, source_id) WHERE likeness = '' AND billing_id IS NOT NULL AND applied IS NOT NULL",
			"UPDATE ledger SET indexed_to = (SELECT coalesce(max(payer_id), 0) FROM payers)",
		},
		parts: []migrationPart{{func(ctx context.Context, tx *sql.Tx, position string) (string, float64, error) {
			return hashTraitsOfPayers(ctx, tx, payers, position)
		}}},
	}
	for kind := likeName; kind <= likeNamePostcode; kind++ {
		m.parts = append(m.parts,
			migrationPart{func(ctx context.Context, tx *sql.Tx, position string) (string, float64, error) {
				return indexEarlierTraits(ctx, tx, kind, traits, position)
			}})
	}
	return m
}

// hashTraitsOfPayers gives some payers their ids and their hashes, in the order of their rows.
func hashTraitsOfPayers(ctx context.Context, tx *sql.Tx, some int, position string) (next string, done float64,
	err error) {
	last, _ := strconv.ParseInt(position, 10, 64) // the first position is ""
	if _, err := tx.ExecContext(ctx,
		`UPDATE payers SET payer_id = rowid, likeness = CASE likeness WHEN '' THEN '' ELSE (SELECT json_group_array(hash) FROM (
		SELECT DISTINCT o.hash FROM earlier_likenesses o WHERE o.connection = payers.connection AND o.source_id = payers.source_id ORDER BY o.hash)) END
		WHERE rowid > ? AND rowid <= ?`, last, last+int64(some)); err != nil {
		return "", 0, err
	}
	last += int64(some)
	var highest int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(rowid), 0) FROM payers").Scan(&highest); err != nil {
		return "", 0, err
	}
	return strconv.FormatInt(last, 10), min(1, float64(last)/float64(max(highest, 1))), nil
}

// indexEarlierTraits adds some earlier traits of a kind to the index. They lie in the order of the hashes.
func indexEarlierTraits(ctx context.Context, tx *sql.Tx, kind traitKind, some int, position string) (next string,
	done float64, err error) {
	err = tx.QueryRowContext(ctx,
		"SELECT value FROM earlier_likenesses WHERE kind = ? AND value > ? ORDER BY value LIMIT 1 OFFSET ?", kind.String(),
		position, some-1).Scan(&next)
	if errors.Is(err, sql.ErrNoRows) { // these are the last
		next, done, err = "g", 1, nil // behind all hexadecimal digits
	}
	if err != nil {
		return "", 0, err
	}
	if _, err := tx.ExecContext(ctx,
		`INSERT OR IGNORE INTO likenesses (hash, payer_id) SELECT o.hash, p.payer_id FROM earlier_likenesses o
		CROSS JOIN payers p ON p.connection = o.connection AND p.source_id = o.source_id
		WHERE o.kind = ? AND o.value > ? AND o.value <= ? AND p.likeness <> '' ORDER BY o.value`, kind.String(), position,
		next); err != nil {
		return "", 0, err
	}
	if done < 1 { // hashes are spread evenly
		first, err := strconv.ParseUint(next[:min(4, len(next))], 16, 32)
		if err != nil {
			return "", 0, fmt.Errorf("read a hash: %w", err)
		}
		done = float64(first) / (1<<16 + 1)
	}
	return next, done, nil
}

// hashOfEarlier is the expression for the hash of an earlier row, from the first 16 of its hexadecimal digits.
func hashOfEarlier() string {
	var terms []string
	for i := range 16 {
		digit := fmt.Sprintf("(instr('0123456789abcdef', substr(value, %d, 1)) - 1)", i+1)
		if i < 15 {
			terms = append(terms, fmt.Sprintf("(%s << %d)", digit, 60-4*i))
			continue
		}
		terms = append(terms, "("+digit+" & 8)")
	}
	kinds := "CASE kind"
	for kind := likeName; kind <= likeNamePostcode; kind++ {
		kinds += fmt.Sprintf(" WHEN '%s' THEN %d", kind, kind)
	}
	return strings.Join(append(terms, kinds+" END"), " | ")
}
