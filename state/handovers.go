package state

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"hash/maphash"
	"time"

	"payersync/connector"
)

// NoteHandover stores that somebody sent a mandate's signing link by hand on a day. It reports false when
// that was stored before.
func (tx *Tx) NoteHandover(mandateID string, day time.Time, actor string) (news bool, err error) {
	n, err := tx.count("INSERT INTO handovers (mandate_id, sent_on, noted_at, actor) VALUES (?, ?, ?, ?) ON CONFLICT (mandate_id, sent_on) DO NOTHING",
		mandateID, day.Format(time.DateOnly), stamp(tx.now), actor)
	if err != nil {
		return false, fmt.Errorf("note that the signing link of mandate %s was sent: %w", mandateID, err)
	}
	return n > 0, nil
}

// Signing is how a mandate came from its link to a signature, as far as it has.
type Signing struct {
	Connection string    // "" where no payer has it
	Language   string    // of the first letter, else of the payer's label; "" where none is known
	Created    time.Time // when it was first observed
	Signed     time.Time // when it was first observed to be signed; zero for not yet
	Sent       time.Time // when its link was first sent; zero where nobody did
	Times      int       // how often it was sent before it was signed
}

// awaited holds a mandate's facts while signings are counted.
type awaited struct {
	created, signed, sent millis
	times                 int32
	other                 int32  // the place of another mandate of its customer, counted from 1
	step                  int32  // of the first letter; -1 for none
	language              string // of that letter
}

// hashes shortens ids to 64 bits while signings are counted. Among a million ids, two get the same hash in
// one reading of 30 million.
type hashes struct{ seed maphash.Seed }

func (h hashes) of(id string) uint64 { return maphash.String(h.seed, id) }

func (h hashes) record(id RecordID) uint64 { return maphash.Comparable(h.seed, id) }

// EachSigning passes on, in no order, every mandate first observed while unsigned, of one
// connection or of all for "". It reads each table once, in file order, and joins them in memory.
// With many rows that takes a fifth of the time.
func (l *Ledger) EachSigning(ctx context.Context, connection string, do func(Signing) error) error {
	return l.atOneSnapshot(ctx, func(m readSnapshot) error {
		hash := hashes{maphash.MakeSeed()}
		signings, of, err := m.signings(ctx, hash)
		if err != nil {
			return err
		}
		languages, names := map[uint64]string{}, interned{} // of records
		if err := m.labels(ctx, connection, func(id RecordID, label *connector.Label) {
			if label.Language != "" {
				languages[hash.record(id)] = names.of(label.Language)
			}
		}); err != nil {
			return err
		}
		// give passes on the mandates of a customer, which are then unassigned.
		give := func(customer uint64, connection, language string) error {
			at := of[customer]
			delete(of, customer)
			for at > 0 {
				s := signings[at-1]
				if err := do(Signing{Connection: connection, Language: cmp.Or(s.language, language), Created: s.created.time(),
					Signed: s.signed.time(), Sent: s.sent.time(), Times: int(s.times)}); err != nil {
					return err
				}
				at = s.other
			}
			return nil
		}
		var customer string
		var id RecordID
		// The appended text keeps SQLite from scanning the index of customers, and from there each
		// row.
		err = m.rows(ctx, "SELECT billing_id, connection, source_id FROM payers WHERE billing_id || '' IS NOT NULL AND (connection = ?1 OR ?1 = '')", []any{connection},
			[]any{&customer, &id.Connection, &id.SourceID},
			func() error { return give(hash.of(customer), id.Connection, languages[hash.record(id)]) })
		if err != nil || connection != "" {
			return err
		}
		for customer := range of {
			if err := give(customer, "", ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// signings returns the mandates first observed while unsigned, and the place of each customer's
// first, counted from 1, by the hash of its id.
func (m readSnapshot) signings(ctx context.Context, hash hashes) (all []awaited, of map[uint64]int32, err error) {
	of = map[uint64]int32{}
	places := map[uint64]int32{} // in all, counted from 1; 0 for a mandate that was first observed otherwise
	var id, customer string
	var to string
	var at sql.NullString
	err = m.rows(ctx, "SELECT mandate_id, billing_id, to_status, observed_at FROM mandate_history ORDER BY seq", nil,
		[]any{&id, &customer, &to, &at}, func() error {
			mandate := hash.of(id)
			place, met := places[mandate]
			waits := to == string(connector.MandateCreated)
			if met && (place == 0 || waits) {
				return nil
			}
			observed, err := millisOf(at)
			if err != nil {
				return err
			}
			switch {
			case met && (to == string(connector.MandatePending) || to == string(connector.MandateActive)):
				if s := &all[place-1]; s.signed == 0 || observed < s.signed {
					s.signed = observed
				}
			case met:
			case waits:
				owner := hash.of(customer)
				all = append(all, awaited{created: observed, other: of[owner], step: -1})
				places[mandate], of[owner] = int32(len(all)), int32(len(all)) //nolint:gosec // there are not that many
			default:
				places[mandate] = 0
			}
			return nil
		})
	if err != nil {
		return nil, nil, err
	}
	// sent notes that a link was sent.
	sent := func() (*awaited, error) {
		place := places[hash.of(id)]
		if place == 0 {
			return nil, nil
		}
		s := &all[place-1]
		when, err := millisOf(at)
		if when != 0 && (s.sent == 0 || when < s.sent) {
			s.sent = when
		}
		if s.signed == 0 || when != 0 && when <= s.signed {
			s.times++
		}
		return s, err
	}
	var language string
	var step int32
	err = m.rows(ctx, "SELECT mandate_id, ended_at, language, step FROM letters WHERE state = 'sent'", nil,
		[]any{&id, &at, &language, &step}, func() error {
			s, err := sent()
			if s != nil && (s.step < 0 || step < s.step) {
				s.language, s.step = language, step
			}
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	return all, of, m.rows(ctx, "SELECT mandate_id, sent_on || 'T00:00:00.000Z' FROM handovers", nil, []any{&id, &at},
		func() error { _, err := sent(); return err })
}

// Replacing returns the mandates that payers have now in the place of earlier ones.
func (l *Ledger) Replacing(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	err := each(ctx, l, `SELECT p.mandate_id FROM payers p
		WHERE p.mandate_id IS NOT NULL AND p.billing_id IN (SELECT billing_id FROM mandates GROUP BY billing_id HAVING count(*) > 1) AND EXISTS (SELECT 1 FROM mandates o WHERE o.billing_id = p.billing_id AND o.mandate_id <> p.mandate_id)`, nil,
		func(id *string) []any { return []any{id} }, func(id string) error { out[id] = true; return nil })
	return out, err
}
