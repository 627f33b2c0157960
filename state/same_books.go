package state

import "fmt"

// Books is a connection with its records.
type Books struct {
	Connection string
	Kind       string // of its source
	Tenant     string // id of its organisation; "" for none
}

// OtherBooks is another connection of the ledger with payers similar to some records.
type OtherBooks struct {
	Books
	Records int // records without a customer that look like its payers
}

// OtherBooks returns the other connections whose linked payers look like unlinked records of a connection:
// the name and an e-mail address, a phone or a postcode are equal. Traits of many payers prove nothing. It
// omits connections with a decision about this one. records is the connection's number of payers.
func (tx *Tx) OtherBooks(connection string) (others []OtherBooks, records int, err error) {
	if err := tx.row([]any{&records},
		`SELECT count(*) FROM payers n JOIN source_records r ON r.connection = n.connection AND r.source_id = n.source_id
		WHERE n.connection = ?1 AND NOT `+hasLeft, connection); err != nil {
		return nil, 0, fmt.Errorf("count the records of %s: %w", connection, err)
	}
	many, err := tx.createsMany(connection)
	if err != nil {
		return nil, 0, err
	}
	from := `payers n CROSS JOIN json_each(nullif(n.likeness, '')) j
		CROSS JOIN likenesses o ON o.hash = ` + traitHash + ` AND o.hash & 7 >= 2 AND o.payer_id <> n.payer_id
		  AND (SELECT count(*) FROM (SELECT 1 FROM likenesses f WHERE f.hash = o.hash LIMIT ?2 + 2) few) <= ?2 + 1`
	if many {
		from = sharedTraits("?2") +
			` CROSS JOIN likenesses m ON m.hash = s.hash CROSS JOIN payers n ON n.payer_id = m.payer_id
		CROSS JOIN likenesses o ON o.hash = s.hash AND o.payer_id <> n.payer_id`
	}
	err = tx.each(`SELECT p.connection, k.source_kind, k.tenant_id, count(DISTINCT n.source_id) FROM `+from+`
		CROSS JOIN payers p ON p.payer_id = o.payer_id AND p.connection <> n.connection
		CROSS JOIN connections k ON k.name = p.connection
		CROSS JOIN source_records r ON r.connection = n.connection AND r.source_id = n.source_id AND r.decision <> 'excluded' AND r.state = 'active' AND r.unseen = 0
		WHERE n.connection = ?1 AND n.billing_id IS NULL AND `+mayHave+`
		  AND NOT EXISTS (SELECT 1 FROM connection_decisions d WHERE d.old_connection = p.connection AND d.new_connection = ?1 OR d.old_connection = ?1 AND d.new_connection = p.connection)
		GROUP BY p.connection, k.source_kind, k.tenant_id ORDER BY p.connection`, []any{connection, mostSimilar},
		func(scan func(...any) error) error {
			var o OtherBooks
			err := scan(&o.Connection, &o.Kind, &o.Tenant, &o.Records)
			others = append(others, o)
			return err
		})
	if err != nil {
		return nil, 0, fmt.Errorf("compare the records of %s with payers of other connections: %w", connection, err)
	}
	return others, records, nil
}

// booksDecided stands as the reason of a plan that waited for a decision about two connections, until the next run
// looks at its limits.
const booksDecided = "It is decided how the two connections belong together. The next run decides on the new customers, within the limits."

// endSameBooks ends the stop of each of two connections that waits for a decision about them.
func (tx *Tx) endSameBooks(one, other, actor string) error {
	for _, of := range [][2]string{{one, other}, {other, one}} {
		stops, err := tx.createStops(of[0])
		if err != nil {
			return err
		}
		for _, s := range stops {
			if s.Cause != CauseSameBooks || s.Other != of[1] {
				continue
			}
			if err := tx.exec("UPDATE create_stops SET finished_at = ?, finished_by = ? WHERE connection = ? AND cause = ? AND other = ?", stamp(tx.now), actor, s.Connection, s.Cause, s.Other); err != nil {
				return err
			}
			if err := tx.replaceLimits(s.Connection, s.Text(), booksDecided); err != nil {
				return err
			}
		}
	}
	return nil
}

// reopenSameBooks lets the creates of two connections wait again for a decision about them, where they did before
// there was one.
func (tx *Tx) reopenSameBooks(one, other string) error {
	return tx.exec(`UPDATE create_stops SET finished_at = NULL, finished_by = '', since = ? WHERE cause = 'same_books' AND finished_at IS NOT NULL
		AND (connection = ? AND other = ? OR connection = ? AND other = ?)`, stamp(tx.now), one, other, other, one)
}
