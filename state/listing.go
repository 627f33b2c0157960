package state

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	mathbits "math/bits"
	"slices"

	"payersync/connector"
)

// Listing holds the customers shown by one list pass so far. It is kept only in memory. A pass that is cut
// off proves nothing, and the next one begins anew. An unchanged customer in a list writes nothing. A
// finished pass is one fact, with the missing rows as exceptions: see FinishPass.
type Listing struct {
	Pass   int64 // its number
	Ticket int64 // the read ticket of its pages

	shown    *connector.IDs // customers
	sum      sumOfIDs       // of them
	bare     *connector.IDs // those shown without externalData, or without some that is known
	mandates *connector.IDs // shown as they are known
	statuses *connector.IDs // customers whose financial status was shown as it is known
	changed  map[string]listedRows
	finished int // passes that had ended when the rows were compared
}

// listedRows are rows of one table whose mark the end of a pass changes.
type listedRows struct{ appeared, vanished idPages }

// idPages are ids as JSON lists, of which one statement takes one.
type idPages struct {
	pages []string
	last  []string // ids of the page that is not full
}

// idsAtOnce is how many ids one statement takes.
const idsAtOnce = 5000

func (p *idPages) add(id string) error {
	if p.last = append(p.last, id); len(p.last) < idsAtOnce {
		return nil
	}
	return p.end()
}

// end ends the last page.
func (p *idPages) end() error {
	page, err := json.Marshal(p.last)
	if len(p.last) > 0 {
		p.pages, p.last = append(p.pages, string(page)), p.last[:0]
	}
	return err
}

func newListing(pass, ticket int64) *Listing {
	return &Listing{Pass: pass, Ticket: ticket, shown: connector.NewIDs(), bare: connector.NewIDs(),
		mandates: connector.NewIDs(), statuses: connector.NewIDs()}
}

// Add records that the list showed a customer, without its values.
func (s *Listing) Add(billingID string) { s.add(billingID, false) }

func (s *Listing) add(billingID string, bare bool) {
	if s.shown.Add(billingID) {
		s.sum.add(billingID)
	}
	if bare {
		s.bare.Add(billingID)
	}
}

// Has reports whether the list showed a customer.
func (s *Listing) Has(billingID string) bool { return s.shown.Has(billingID) }

// Len returns how many customers the list showed.
func (s *Listing) Len() int { return s.shown.Len() }

// sumOfIDs is the sum of hashes of ids, modulo 2^256: equal sets have equal sums in any order.
type sumOfIDs [4]uint64

func (s *sumOfIDs) add(id string) {
	h, over := sha256.Sum256([]byte(id)), uint64(0)
	for i := range s {
		s[i], over = mathbits.Add64(s[i], binary.LittleEndian.Uint64(h[8*i:]), over)
	}
}

func (s sumOfIDs) String() string { return fmt.Sprintf("%016x%016x%016x%016x", s[3], s[2], s[1], s[0]) }

// lastSeenOf returns, as SQL, when a row of a table with a mark listed was last shown unchanged. It
// was shown by itself or as news, by its column at, or by the last finished list pass.
func lastSeenOf(table, at string) string {
	return fmt.Sprintf(`CASE %[1]s.listed WHEN 1 THEN max(%[1]s.%[2]s, coalesce((SELECT q.started_at FROM passes q
		WHERE q.finished_at IS NOT NULL ORDER BY q.finished_at DESC, q.started_at LIMIT 1), '')) ELSE %[1]s.%[2]s END`, table,
		at)
}

// listedTables are the tables whose rows store their last sighting and the last finished list pass
// with them.
var listedTables = []struct{ name, id, at string }{{"mandates", "mandate_id", "last_seen_at"},
	{"financial_statuses", "billing_id", "seen_at"}}

func (s *Listing) met(table string) *connector.IDs {
	if table == "mandates" {
		return s.mandates
	}
	return s.statuses
}

// Compare finds out which rows FinishPass has to mark. It reads them all, so it runs outside a
// transaction and blocks no writer.
func (l *Ledger) Compare(ctx context.Context, s *Listing) error {
	if err := l.queryRow(ctx, finishedPasses).Scan(&s.finished); err != nil {
		return fmt.Errorf("compare a list with what is known: %w", err)
	}
	s.changed = map[string]listedRows{}
	for _, table := range listedTables {
		type row struct {
			id     string
			listed bool
		}
		var rows listedRows
		if err := each(ctx, l, "SELECT "+table.id+", listed <> 0 FROM "+table.name, nil,
			func(r *row) []any { return []any{&r.id, &r.listed} }, func(r row) error {
				switch met := s.met(table.name).Has(r.id); {
				case met && !r.listed:
					return rows.appeared.add(r.id)
				case !met && r.listed:
					return rows.vanished.add(r.id)
				}
				return nil
			}); err != nil {
			return fmt.Errorf("compare a list with what is known: %w", err)
		}
		if err := errors.Join(rows.appeared.end(), rows.vanished.end()); err != nil {
			return err
		}
		s.changed[table.name] = rows
	}
	return nil
}

const finishedPasses = "SELECT count(*) FROM passes WHERE finished_at IS NOT NULL"

// mark notes on the rows which of them the pass has shown as they are. When another has
// ended since they were compared, or nobody has compared them, all count as not shown.
func (tx *Tx) mark(s *Listing) error {
	var finished int
	if err := tx.row([]any{&finished}, finishedPasses); err != nil {
		return err
	}
	for _, table := range listedTables {
		vanish := "UPDATE " + table.name + " SET " + table.at + " = " + lastSeenOf(table.name, table.at) +
			", listed = 0 WHERE listed = 1"
		appear := "UPDATE " + table.name + " SET listed = 1 WHERE listed = 0"
		among := " AND " + table.id + " IN (SELECT value FROM json_each(?1))"
		rows, compared := s.changed[table.name]
		var err error
		if compared && finished == s.finished {
			err = errors.Join(tx.execPages(vanish+among, rows.vanished), tx.execPages(appear+among, rows.appeared))
		} else {
			err = tx.exec(vanish)
		}
		if err != nil {
			return fmt.Errorf("note what a list has shown: %w", err)
		}
	}
	return nil
}

// execPages executes a statement with each page of ids.
func (tx *Tx) execPages(query string, ids idPages) error {
	return connector.Each(ids.pages, func(page string) error { return tx.exec(query, page) })
}

// dropGone drops unlinked customers that are gone and missing from the pass, when the pass saw the
// same customers as the last complete one.
func (tx *Tx) dropGone(s *Listing, hash string) error {
	gone, err := collect("", columns("",
		func(id *string) []any { return []any{id} }))(tx.query(`SELECT billing_id FROM remote_customers WHERE digest = ''
		AND EXISTS (SELECT 1 FROM passes a WHERE a.pass_id = (SELECT max(b.pass_id) FROM passes b WHERE b.finished_at IS NOT NULL AND b.pass_id < ?1) AND a.ids_hash = ?2
		            AND remote_customers.known_pass < a.pass_id)
		AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = remote_customers.billing_id)`, s.Pass, hash))
	if gone = slices.DeleteFunc(gone, s.Has); err != nil || len(gone) == 0 {
		return err
	}
	page, err := json.Marshal(slices.Sorted(slices.Values(gone)))
	if err != nil {
		return err
	}
	return tx.exec("DELETE FROM remote_customers WHERE digest = '' AND billing_id IN (SELECT value FROM json_each(?1))",
		string(page))
}
