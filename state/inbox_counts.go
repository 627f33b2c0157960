package state

import "fmt"

// recounted changes those of some deliveries that meet one more condition, and keeps the counts. The
// first condition has one argument, and the change does not touch its columns.
func (tx *Tx) recounted(some string, of any, only, set string, args ...any) (int64, error) {
	if err := tx.tally(-1, some, of); err != nil {
		return 0, err
	}
	n, err := tx.count("UPDATE inbox SET "+set+" WHERE "+some+" AND "+only, append(args, of)...)
	if err != nil {
		return 0, err
	}
	return n, tx.tally(1, some, of)
}

// tally adds the deliveries that meet a condition to the counts by type and state, or, with the sign
// -1, takes them away.
func (tx *Tx) tally(sign int, which string, of any) error {
	count := "count(*)"
	if sign < 0 {
		count = "-count(*)"
	}
	if err := tx.exec("INSERT INTO inbox_counts (event_type, state, deliveries, first_at, last_at) SELECT event_type, state, "+count+", min(received_at), max(received_at) FROM inbox WHERE "+which+
		` GROUP BY event_type, state ON CONFLICT (event_type, state) DO UPDATE SET deliveries = inbox_counts.deliveries + excluded.deliveries,
		first_at = min(inbox_counts.first_at, excluded.first_at), last_at = max(inbox_counts.last_at, excluded.last_at)`,
		of); err != nil {
		return fmt.Errorf("count webhook deliveries: %w", err)
	}
	return nil
}
