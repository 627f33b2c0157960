package state

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"payersync/connector"
)

// hashLikenesses is migration 97. A payer's traits are found by 8 bytes of their keyed hash: 61 bits of it, and the
// kind in the low 3. The payer keeps its hashes, in order, as a JSON array, so its rows need no second index. This
// program gives the ids of payers. indexed_to is the highest id of which the traits are in the index: a plan adds
// those of many new payers at once, in the order of the hashes.
//
// It is no script, because it takes the payers part by part: SQLite keeps the earlier content of all rows of a
// statement in memory. An interrupted migration leaves the ledger as it was. Migration 98 removes the earlier table.
func (l *Ledger) hashLikenesses(ctx context.Context, tx *sql.Tx) error {
	exec := func(statement string) error {
		_, err := tx.ExecContext(ctx, statement)
		return connector.Wrap(err, "hash the traits of payers")
	}
	if err := connector.Each([]string{
		"ALTER TABLE payers ADD COLUMN payer_id INTEGER NOT NULL DEFAULT 0",
		"ALTER TABLE ledger ADD COLUMN indexed_to INTEGER NOT NULL DEFAULT 0",
		"DROP INDEX payers_unlearnt",
		"ALTER TABLE likenesses RENAME TO earlier_likenesses",
		"ALTER TABLE earlier_likenesses ADD COLUMN hash INTEGER AS (" + hashOfEarlier() + ") VIRTUAL",
	}, exec); err != nil {
		return err
	}
	const some = 10_000
	for last, found := int64(0), true; found; last += some {
		if err := exec(fmt.Sprintf(`UPDATE payers SET payer_id = rowid, likeness = CASE likeness WHEN '' THEN '' ELSE (SELECT json_group_array(hash) FROM (
			SELECT DISTINCT o.hash FROM earlier_likenesses o WHERE o.connection = payers.connection AND o.source_id = payers.source_id ORDER BY o.hash)) END
			WHERE rowid > %d AND rowid <= %d`, last, last+some)); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM payers WHERE rowid > ?)", last+some).Scan(&found); err != nil {
			return fmt.Errorf("hash the traits of payers: %w", err)
		}
	}
	if err := connector.Each([]string{
		"CREATE UNIQUE INDEX payers_id ON payers (payer_id)",
		"CREATE INDEX payers_unlearnt ON payers (connection, source_id) WHERE likeness = '' AND billing_id IS NOT NULL AND applied IS NOT NULL",
		"CREATE TABLE likenesses (hash INTEGER NOT NULL, payer_id INTEGER NOT NULL, PRIMARY KEY (hash, payer_id)) STRICT, WITHOUT ROWID",
		"UPDATE ledger SET indexed_to = (SELECT coalesce(max(payer_id), 0) FROM payers)",
	}, exec); err != nil {
		return err
	}
	for kind := likeName; kind <= likeNamePostcode; kind++ { // of a kind, the earlier rows lie in the order of the hashes
		if err := exec(`INSERT OR IGNORE INTO likenesses (hash, payer_id) SELECT o.hash, p.payer_id FROM earlier_likenesses o
			CROSS JOIN payers p ON p.connection = o.connection AND p.source_id = o.source_id WHERE o.kind = '` + kind.String() + "' AND p.likeness <> '' ORDER BY o.value"); err != nil {
			return err
		}
	}
	return nil
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
