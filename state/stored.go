package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// StoredRecord is a record of the ledger with all that a plan would look at.
type StoredRecord struct {
	Candidate
	Verdict  Verdict // of the last plan; "" when there was none
	Counts   bool    // it is a payer of the plans before: losing it is a loss
	UpToDate bool    // planned with the asked-for mapping, and nothing may have changed since
	InFlight bool    // its customer's last request has no definite answer; it is planned after that

	connection     string
	customer, link openChange
	made           bool         // nothing counts as applied to its customer, which a create of ours made
	unasked        UnaskedCount // why the newest plan does not ask its payer
}

// openChange is a change without an end; the zero value is none.
type openChange struct {
	id       int64 // 0 where it is only looked at
	state    connector.ChangeState
	approved bool
	leftOut  bool
	hash     string
}

// weight is the count of a change with a person's decision.
func (c openChange) weight() Weight {
	if c.leftOut && !c.approved {
		return Weight{LeftOut: 1}
	}
	return Weight{}
}

// openRow is a change without an end as scanned.
type openRow struct {
	state, hash       sql.NullString
	approved, leftOut sql.NullBool
}

func (r *openRow) dest() []any { return []any{&r.state, &r.approved, &r.leftOut, &r.hash} }

func (r *openRow) change() openChange {
	return openChange{state: connector.ChangeState(r.state.String), approved: r.approved.Bool, leftOut: r.leftOut.Bool,
		hash: r.hash.String}
}

func openColumns(as string) string {
	return fmt.Sprintf("%[1]s.state, %[2]s, %[1]s.left_out, %[1]s.change_hash", as, approvedAs(as))
}

// openChangeOf joins the open change of a record's lane; there is at most one.
func openChangeOf(as, lane string) string {
	return fmt.Sprintf(" LEFT JOIN changes %[1]s ON %[1]s.connection = r.connection AND %[1]s.source_id = r.source_id AND %[1]s.lane = '%[2]s' AND %[3]s ",
		as, lane, strings.ReplaceAll(openStates, "state =", as+".state ="))
}

// storedFrom and storedColumns are what scanStored reads; ?1 is the connection, ?2 the mapping.
var (
	storedFrom = " FROM source_records r " + factFrom + openChangeOf("oc", LaneCustomer) + openChangeOf("om", LaneMandate)

	storedColumns = recordColumns + ", " + payerColumns + ", " + factColumns + `, r.decision, ` + counts + `,
	` + isPlanned + ` AND ` + plannedWith("?2") + ` AND r.replan = 0 AND r.rests = 0,
	` + openColumns("oc") + ", " + openColumns("om") + `,
	CASE WHEN oc.action = 'adopt' AND oc.state = 'pending' THEN oc.billing_id ELSE '' END, p.applied IS NULL AND (SELECT count(*) > 0 FROM changes m
	  WHERE m.connection = r.connection AND m.source_id = r.source_id AND m.action = 'create' AND m.state = 'done' AND m.change_id > p.parted), ` + unaskedColumns + ", " + unaskedMapping
)

// StoredRecords returns up to limit records of a connection after source id after, in order, as a plan with
// this mapping version would see them. there excludes records missing from the last complete reading of a
// snapshot.
func (l *Ledger) StoredRecords(ctx context.Context, connection, mapping string, there bool, after string,
	limit int) ([]StoredRecord, error) {
	return l.stored(ctx, connection, "SELECT "+storedColumns+storedFrom+
		"WHERE r.connection = ?1 AND r.source_id > ?3 AND (r.unseen = 0 OR ?4 = 0) ORDER BY r.source_id"+limitTo,
		connection, mapping, after, there, limit)
}

// newestChanges is how many of the newest changes of all connections NewestRecords looks through.
const newestChanges = 2000

// NewestRecords returns up to limit stored records of a connection: those with the newest changes first, and then
// others in order. there is as for StoredRecords.
func (l *Ledger) NewestRecords(ctx context.Context, connection string, there bool, limit int) ([]StoredRecord, error) {
	out, err := l.stored(ctx, connection, "SELECT "+storedColumns+storedFrom+`
		WHERE r.connection = ?1 AND (r.unseen = 0 OR ?3 = 0) AND r.source_id IN (
			SELECT n.source_id FROM (SELECT c.connection, c.source_id, c.change_id FROM changes c ORDER BY c.change_id DESC LIMIT ?5) AS n
			WHERE n.connection = ?1 GROUP BY n.source_id ORDER BY max(n.change_id) DESC LIMIT ?4)
		ORDER BY (SELECT max(c.change_id) FROM changes c WHERE c.connection = r.connection AND c.source_id = r.source_id) DESC`,
		connection, "", there, limit, newestChanges)
	if err != nil || len(out) == limit {
		return out, err
	}
	others, err := l.StoredRecords(ctx, connection, "", there, "", limit)
	for _, r := range others {
		if len(out) < limit && !slices.ContainsFunc(out,
			func(o StoredRecord) bool { return o.Record.SourceID == r.Record.SourceID }) {
			out = append(out, r)
		}
	}
	return out, err
}

// StoredUnlinked is StoredRecords for the records that have no customer.
func (l *Ledger) StoredUnlinked(ctx context.Context, connection, mapping string, there bool, after string,
	limit int) ([]StoredRecord, error) {
	return l.stored(ctx, connection, "SELECT "+storedColumns+storedFrom+
		"WHERE r.connection = ?1 AND r.source_id > ?3 AND (r.unseen = 0 OR ?4 = 0) AND p.billing_id IS NULL ORDER BY r.source_id"+limitTo,
		connection, mapping, after, there, limit)
}

// ErrNoRecord means that the ledger has no such record.
var ErrNoRecord = errors.New("the ledger has no such record")

// StoredRecord returns one record; ErrNoRecord when there is none.
func (l *Ledger) StoredRecord(ctx context.Context, connection, sourceID, mapping string) (StoredRecord, error) {
	found, err := l.stored(ctx, connection,
		"SELECT "+storedColumns+storedFrom+"WHERE r.connection = ?1 AND r.source_id = ?3",
		connection, mapping, sourceID)
	if err == nil && len(found) == 0 {
		return StoredRecord{}, ErrNoRecord
	}
	if err != nil {
		return StoredRecord{}, err
	}
	return found[0], nil
}

func (l *Ledger) stored(ctx context.Context, connection, query string, args ...any) ([]StoredRecord, error) {
	out, err := collect("read the stored records",
		func(scan scanner) (StoredRecord, error) { return l.scanStored(scan, connection) })(l.query(ctx, query, args...))
	if err != nil {
		return nil, err
	}
	for i := range out {
		if err := l.addUnderWay(ctx, &out[i].Candidate); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *Ledger) scanStored(scan scanner, connection string) (StoredRecord, error) {
	r := StoredRecord{connection: connection}
	var verdict string
	var err error
	var customer, link openRow
	var adopting string
	if r.Candidate, err = l.scanCandidate(scan, connection,
		slices.Concat([]any{&verdict, &r.Counts, &r.UpToDate}, customer.dest(), link.dest(),
			[]any{&adopting, &r.made, &r.unasked.Why, &r.unasked.Line, &r.unasked.Condition,
				&r.unasked.Mapping})...); err != nil {
		return r, err
	}
	r.customer, r.link = customer.change(), link.change()
	r.Adopting = adopting
	if verdict != "none" {
		r.Verdict = Verdict(verdict)
	}
	r.InFlight = r.customer.state != "" && r.customer.state != connector.ChangePending
	r.UpToDate = r.UpToDate && r.customer.state == "" && r.link.state == ""
	return r, nil
}

// Weigh returns a decision's part of a plan's open weight: the count of FinishPlan after saving it.
func (r StoredRecord) Weigh(d Decision) Weight {
	w := r.weighLink(d)
	c := d.Customer
	if c == nil || r.InFlight {
		return w
	}
	if said := r.customer; (said.approved || said.leftOut) && said.hash == c.hash(r.connection, d.SourceID) {
		return w.Plus(said.weight())
	}
	w = w.Plus(c.weigh())
	switch {
	case c.Action == connector.ActionCreate:
		w.Creates = 1
	case c.Action == connector.ActionAdopt, !r.made:
		w.Changes++
	}
	return w
}

func (r StoredRecord) weighLink(d Decision) Weight {
	if !r.AsksForLink(d) {
		return Weight{}
	}
	if r.link.approved || r.link.leftOut || r.Payer == nil || r.Payer.BillingID == "" {
		return r.link.weight()
	}
	return Weight{Changes: 1}
}

// AsksForLink reports whether a plan with this decision holds a request for a signing link. A sent
// one keeps its place outside of plans, and one with its customer in flight keeps waiting.
func (r StoredRecord) AsksForLink(d Decision) bool {
	if r.link.state != "" && r.link.state != connector.ChangePending {
		return false
	}
	return d.Link || r.InFlight && r.link.state == connector.ChangePending
}

// UnaskedBy returns why a plan with this decision of a mapping version does not ask the record's payer for a mandate;
// the zero value if it does, or if the payer has a mandate or a request under way. A plan leaves a record with a
// request in flight as it is. UnaskedCounts counts the same after the plan.
func (r StoredRecord) UnaskedBy(d Decision, version string) UnaskedCount {
	why := UnaskedCount{Mapping: version, Unasked: d.Unasked}
	if r.InFlight {
		why = r.unasked
	}
	switch {
	case d.Verdict != Included || r.Payer != nil && r.Payer.MandateID != "" || r.link.state != "" &&
		r.link.state != connector.ChangePending:
		return UnaskedCount{}
	case why.Why != connector.UnaskedRule:
		return UnaskedCount{Unasked: Unasked{Why: why.Why}}
	}
	return why
}

// Plus returns the sum of two weights.
func (w Weight) Plus(o Weight) Weight {
	return Weight{w.Creates + o.Creates, w.Changes + o.Changes, w.Blanks + o.Blanks, w.Identity + o.Identity, w.LeftOut +
		o.LeftOut, w.Scopes + o.Scopes}
}

// KeysElsewhere adds further payers to the key counts of a page. The rule against shared keys
// covers them, but StoredRecords does not return them: payers of other connections, and rows that
// are gone from a snapshot.
func (l *Ledger) KeysElsewhere(ctx context.Context, connection string, there bool, counts map[connector.Key]int) error {
	byName := map[string][]string{}
	for key := range counts {
		byName[key.Name] = append(byName[key.Name], connector.Clean(key.ScopedValue()))
	}
	type row struct {
		value string
		n     int
	}
	for name, values := range byName {
		page, err := json.Marshal(values)
		if err != nil {
			return err
		}
		if err := each(ctx, l, `SELECT o.key_value, count(*) FROM json_each(?4) j CROSS JOIN payers o ON o.key_name = ?3 AND o.key_value = j.value
			CROSS JOIN source_records s ON s.connection = o.connection AND s.source_id = o.source_id AND (s.decision = 'included' OR s.decision = 'held')
			WHERE o.connection <> ?1 OR ?2 = 1 AND s.unseen = 1 GROUP BY o.key_value`,
			[]any{connection, there, name, string(page)},
			func(r *row) []any { return []any{&r.value, &r.n} }, func(r row) error {
				counts[connector.ParseKey(name, r.value)] += r.n
				return nil
			}); err != nil {
			return fmt.Errorf("look who else has a key: %w", err)
		}
	}
	return nil
}

// FindRecords returns the records that id names: by source id, or as FindPayers finds their payers.
// It is part of every search: the bounds of the key's value let the query use an index, unlike
// withValue alone.
func (l *Ledger) FindRecords(ctx context.Context, id string) ([]RecordID, error) {
	return list(ctx, l, `WITH RECURSIVE names (name) AS (SELECT min(key_name) FROM payers
		  UNION ALL SELECT (SELECT min(key_name) FROM payers WHERE key_name > name) FROM names WHERE name IS NOT NULL)
		SELECT r.connection, r.source_id FROM connections c CROSS JOIN source_records r ON r.connection = c.name AND r.source_id = ?1
		UNION SELECT p.connection, p.source_id FROM names CROSS JOIN payers p ON p.key_name = name AND p.key_value >= ?1 AND p.key_value < ?1 || char(32) AND `+withValue+`
		UNION SELECT p.connection, p.source_id FROM payers p WHERE p.billing_id = ?1 OR p.billing_id IN (SELECT billing_id FROM mandates WHERE mandate_id = ?1)
		ORDER BY 1, 2`, []any{id}, func(r *RecordID) []any { return []any{&r.Connection, &r.SourceID} })
}
