package state

import (
	"errors"
	"fmt"
)

// ErrMerged means that a person merged the record into another one, so nothing of it is sent.
var ErrMerged = errors.New("a person said that the record is the same payer as another one")

// ErrNotMerged means that nobody merged the record into another one.
var ErrNotMerged = errors.New("nobody said that the record is the same payer as another one")

// Merge stores a person's decision that two records of a connection are one payer. The first is excluded from
// now on, like a record merged in its own system. It fails with ErrSameRecord, ErrNoRecord, ErrMerged or
// ErrUnderWay.
func (tx *Tx) Merge(connection, sourceID, otherID string) error {
	var known, other, merged, leads bool
	if err := tx.row([]any{&known, &other, &merged, &leads}, `SELECT
		EXISTS (SELECT 1 FROM source_records WHERE connection = ?1 AND source_id = ?2),
		EXISTS (SELECT 1 FROM source_records WHERE connection = ?1 AND source_id = ?3),
		EXISTS (SELECT 1 FROM source_records WHERE connection = ?1 AND source_id IN (?2, ?3) AND same_as <> ''),
		EXISTS (SELECT 1 FROM source_records WHERE connection = ?1 AND same_as = ?2)`, connection, sourceID,
		otherID); err != nil {
		return fmt.Errorf("look for the records %s and %s: %w", sourceID, otherID, err)
	}
	switch {
	case sourceID == otherID:
		return ErrSameRecord
	case !known:
		return fmt.Errorf("%s: %w", sourceID, ErrNoRecord)
	case !other:
		return fmt.Errorf("%s: %w", otherID, ErrNoRecord)
	case merged, leads:
		return ErrMerged
	}
	return tx.setSameAs(connection, sourceID, otherID)
}

// Unmerge reverts Merge. It fails with ErrNotMerged or ErrUnderWay.
func (tx *Tx) Unmerge(connection, sourceID string) error {
	var merged bool
	if err := tx.row([]any{&merged},
		"SELECT EXISTS (SELECT 1 FROM source_records WHERE connection = ? AND source_id = ? AND same_as <> '')", connection,
		sourceID); err != nil {
		return fmt.Errorf("look for record %s: %w", sourceID, err)
	}
	if !merged {
		return ErrNotMerged
	}
	return tx.setSameAs(connection, sourceID, "")
}

func (tx *Tx) setSameAs(connection, sourceID, otherID string) error {
	if err := tx.nothingUnderWay(connection, sourceID); err != nil {
		return err
	}
	if err := tx.exec("UPDATE source_records SET same_as = ? WHERE connection = ? AND source_id = ?", otherID, connection,
		sourceID); err != nil {
		return err
	}
	_, err := tx.ReplanRecord(connection, sourceID)
	return err
}
