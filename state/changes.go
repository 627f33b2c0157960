package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// Lanes of a payer's changes: at most one change is open in each.
const (
	LaneCustomer = "customer"
	LaneMandate  = "mandate"
)

// Change is a planned change with the payer it is for.
type Change struct {
	ID        int64
	Run       int64 // the last run with it
	Lane      string
	Action    connector.Action
	Wanted    connector.Customer // zero for a link
	Diff      []connector.FieldChange
	BillingID string // the customer to adopt or update
	Body      []byte // the frozen bytes; nil before the freeze
	PreImage  []byte // the customer as fetched before an update
	State     connector.ChangeState
	Attempts  int
	UpdatedAt time.Time // of the last attempt, for an open change
	Approved  bool      // the limits, or a person, let it go
	LeftOut   bool      // it waits for a person's word, whatever the limits are
	Unlinks   bool      // an update that takes the key off the customer and lets it go; Wanted is blank
	Payer     Payer
}

// OnBare reports whether the change adopts a customer without a read that showed the whole key. A
// person has assigned it, or the scope is missing.
func (c Change) OnBare() bool { return c.Action == connector.ActionAdopt && !c.Payer.Seen }

// Does is the effect of the change, for people: it says if an update unlinks its customer.
func (c Change) Does() connector.Action {
	if c.Unlinks {
		return connector.ActionUnlink
	}
	return c.Action
}

var changeColumns = `c.change_id, c.run_id, c.lane, c.action, c.wanted, c.diff, c.billing_id, c.body, c.body_sha256, c.pre_image, c.state, c.attempts, c.updated_at, ` + approvedAs("c") + `, c.left_out, c.unlinks, ` + payerColumns

// openStates is the condition of the indexes over open changes. Queries that repeat it verbatim, or
// ask for one of its states, use the index; all others scan every change ever made.
const openStates = "(state = 'pending' OR state = 'frozen' OR state = 'unknown')"

// Changes returns up to limit changes of a connection's lane in one of the open states. Pending
// changes come after change id after. Frozen or unknown ones come with the longest untried first,
// so that a few unanswered changes never block the others.
func (l *Ledger) Changes(ctx context.Context, connection, lane string, pending bool, after int64, limit int) ([]Change,
	error) {
	states, order := "IN ('frozen', 'unknown')", "c.updated_at, c.change_id"
	if pending {
		states, order = "= 'pending'", "c.change_id"
	}
	return l.changes(ctx, "c.lane = ? AND c.state "+states+" AND c.change_id > ? ORDER BY "+order+limitTo, connection,
		lane, after, limit)
}

// Released returns up to limit unsent changes of a connection's lane, approved by the limits or by
// a person, after change id after, in order. It does not list the fields of a create.
func (l *Ledger) Released(ctx context.Context, connection, lane string, after int64, limit int) ([]Change, error) {
	return l.changesToSend(ctx,
		"c.lane = ? AND c.state = 'pending' AND "+isApproved+" AND NOT "+waitsForPerson+" AND c.change_id > ? ORDER BY c.change_id"+limitTo, connection, lane, after, limit)
}

// LinkReleased reports whether a plan has released an unsent request for the payer's signing link.
func (tx *Tx) LinkReleased(p Payer) (bool, error) {
	return txSingle[bool](tx,
		"SELECT EXISTS (SELECT 1 FROM changes c WHERE c.connection = ? AND c.source_id = ? AND c.lane = 'mandate' AND c.state = 'pending' AND "+isApproved+")", p.Connection, p.SourceID)
}

// ReleasedCount returns how many changes Released would go through.
func (l *Ledger) ReleasedCount(ctx context.Context, connection, lane string) (int, error) {
	return single[int](l.queryRow(ctx,
		"SELECT count(*) FROM changes c WHERE c.connection = ? AND c.lane = ? AND c.state = 'pending' AND "+isApproved+" AND NOT "+waitsForPerson, connection, lane))
}

// PlanChanges returns up to limit unsent changes of a plan's lane, after change id after, in order.
func (l *Ledger) PlanChanges(ctx context.Context, p Plan, lane string, after int64, limit int) ([]Change, error) {
	return l.changes(ctx, "c.lane = ? AND c.state = 'pending' AND c.plan_id = ? AND c.change_id > ? ORDER BY c.change_id"+limitTo, p.Connection, lane, p.ID, after, limit)
}

// PlanGroup is a kind of change by which people look through a plan. Every change of a plan
// is in one group.
type PlanGroup string

// The groups, in the order in which a person should look at them.
const (
	// it empties a field, changes a name or an e-mail address, lets a customer go, or makes one like another payer's
	GroupWatch  PlanGroup = "watch"
	GroupAdopt  PlanGroup = "adopt"  // other take-overs
	GroupUpdate PlanGroup = "update" // other updates
	GroupCreate PlanGroup = "create" // other new customers
	GroupLink   PlanGroup = "link"   // signing links
)

// PlanGroups are all groups, in that order.
var PlanGroups = []PlanGroup{GroupWatch, GroupAdopt, GroupUpdate, GroupCreate, GroupLink}

// groupIn returns the expression for the group of change c of a plan. It checks the likeness of a
// new customer only if the plan found one.
func groupIn(p Plan) string {
	watched := "c.blanks > 0 OR c.identity = 1 OR c.scopes = 1 OR c.unlinks = 1"
	if p.Alike > 0 {
		watched += " OR " + isAlike
	}
	return "CASE WHEN " + watched + " THEN 'watch' ELSE c.action END"
}

// inChanges returns the expression for the plan of change c in a query of pending changes. Few changes of a sent plan
// are pending, so the index over open changes finds them, and not the one over plans.
func (p Plan) inChanges() string {
	if p.State == PlanApplied || p.State == PlanSuperseded {
		return "+c.plan_id"
	}
	return "c.plan_id"
}

// PlanGroupCounts returns how many changes of a plan that were not sent yet are in each group.
func (l *Ledger) PlanGroupCounts(ctx context.Context, p Plan) (map[PlanGroup]int, error) {
	type row struct {
		group PlanGroup
		n     int
	}
	rows, err := list(ctx, l,
		"SELECT "+groupIn(p)+" AS grouped, count(*) FROM changes c WHERE c.connection = ? AND "+p.inChanges()+" = ? AND c.state = 'pending' GROUP BY grouped",
		[]any{p.Connection, p.ID}, func(r *row) []any { return []any{&r.group, &r.n} })
	out := map[PlanGroup]int{}
	for _, r := range rows {
		out[r.group] = r.n
	}
	return out, err
}

// PlanGroupChanges returns up to limit unsent changes of a group of a plan, after change id after,
// in order.
func (l *Ledger) PlanGroupChanges(ctx context.Context, p Plan, g PlanGroup, after int64, limit int) ([]Change, error) {
	which := p.inChanges() + " = ?"
	switch g { // the index over open changes has each lane in order
	case GroupLink:
		which = "c.lane = 'mandate' AND +c.plan_id = ?"
	case GroupCreate, GroupAdopt, GroupUpdate:
		which = "c.lane = 'customer' AND +c.plan_id = ?"
	}
	return l.changes(ctx, "c.state = 'pending' AND "+which+" AND "+groupIn(p)+" = ? AND c.change_id > ? ORDER BY c.change_id"+limitTo, p.Connection, p.ID, g, after, limit)
}

// changes is changesToSend, with the fields of creates, which are not stored.
func (l *Ledger) changes(ctx context.Context, which, connection string, args ...any) ([]Change, error) {
	out, err := l.changesToSend(ctx, which, connection, args...)
	for i, c := range out {
		if c.Action == connector.ActionCreate && c.Diff == nil {
			out[i].Diff = connector.Diff(connector.Customer{}, c.Wanted)
		}
	}
	return out, err
}

// changesToSend returns the open changes of a connection that a condition picks, in its order.
func (l *Ledger) changesToSend(ctx context.Context, which, connection string, args ...any) ([]Change, error) {
	return collect("read the changes", l.scanChange)(l.query(ctx, `SELECT `+changeColumns+`
		FROM changes c JOIN payers p ON p.connection = c.connection AND p.source_id = c.source_id
		WHERE c.connection = ? AND `+openStates+` AND `+which, append([]any{connection}, args...)...))
}

// PendingCount returns how many changes of the connection are planned and not sent yet.
func (l *Ledger) PendingCount(ctx context.Context, connection, lane string) (int, error) {
	return single[int](l.queryRow(ctx,
		"SELECT count(*) FROM changes WHERE connection = ? AND lane = ? AND state = 'pending'", connection, lane))
}

// UnfinishedCount returns how many of the pending changes no finished plan of the connection has listed.
func (l *Ledger) UnfinishedCount(ctx context.Context, connection string) (int, error) {
	return single[int](l.queryRow(ctx, `SELECT count(*) FROM plans p CROSS JOIN changes c ON c.plan_id = p.plan_id
		WHERE p.connection = ? AND p.hash = '' AND c.state = 'pending'`, connection))
}

// UnansweredCount returns how many changes of the connection were sent, or may have been,
// and have no definite answer.
func (l *Ledger) UnansweredCount(ctx context.Context, connection, lane string) (int, error) {
	return single[int](l.queryRow(ctx,
		"SELECT count(*) FROM changes WHERE connection = ? AND lane = ? AND state <> 'pending' AND "+openStates, connection,
		lane))
}

// OpenCreates returns how many creates of the connection were sent, or may have
// been, and have no definite answer.
func (l *Ledger) OpenCreates(ctx context.Context, connection string) (int, error) {
	return single[int](l.queryRow(ctx, `SELECT count(*) FROM changes
		WHERE connection = ? AND lane = 'customer' AND action = 'create' AND state <> 'pending' AND `+openStates, connection))
}

func (l *Ledger) scanChange(scan scanner) (Change, error) {
	var c Change
	var wanted, diff, body, pre []byte
	var billingID, updated sql.NullString
	var sum string
	var p payerRow
	if err := scan(append([]any{&c.ID, &c.Run, &c.Lane, &c.Action, &wanted, &diff, &billingID, &body, &sum, &pre, &c.State,
		&c.Attempts, &updated, &c.Approved, &c.LeftOut, &c.Unlinks}, p.dest()...)...); err != nil {
		return c, fmt.Errorf("read a change: %w", err)
	}
	c.BillingID = billingID.String
	err := errors.Join(
		l.openJSON(wanted, changePlace("wanted", c.ID), &c.Wanted),
		l.openJSON(diff, changePlace("diff", c.ID), &c.Diff))
	if err != nil {
		return c, fmt.Errorf("change %d: %w", c.ID, err)
	}
	if c.Body, err = l.seal.open(body, changePlace("body", c.ID)); err != nil {
		return c, fmt.Errorf("change %d: %w", c.ID, err)
	}
	if (c.Body != nil || sum != "") && sha(c.Body) != sum {
		return c, fmt.Errorf("change %d: the frozen bytes do not match their checksum", c.ID)
	}
	if c.PreImage, err = l.seal.open(pre, changePlace("pre_image", c.ID)); err != nil {
		return c, fmt.Errorf("change %d: %w", c.ID, err)
	}
	if c.UpdatedAt, err = parseTime(updated); err != nil {
		return c, err
	}
	c.Payer, err = l.payer(p)
	return c, err
}

func (l *Ledger) openJSON(box, place []byte, into any) error {
	plain, err := l.seal.open(box, place)
	if err != nil || plain == nil {
		return err
	}
	return json.Unmarshal(plain, into)
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ErrKeyFound means that a key about to be created exists in the service already.
var ErrKeyFound = errors.New("the key exists in the billing service")

// ErrKeyDoubled means that the index shows the payer's key on several customers.
var ErrKeyDoubled = errors.New("several customers carry the key")

// ErrKeyTaken means that another payer was created or linked with the same key.
var ErrKeyTaken = errors.New("another payer has the same key")

// touch updates a change for a run under a condition, or fails with ErrNotOpen; args are those of
// set. It writes the run only if another run touched the row last, because the column is in three
// indexes.
func (tx *Tx) touch(run int64, c Change, set, where string, args ...any) error {
	if c.Run != run {
		set, args = set+", run_id = ?", append(args, run)
	}
	return tx.must(notOpen(c.ID), "UPDATE changes SET "+set+", updated_at = ? WHERE change_id = ? AND "+where,
		append(args, stamp(tx.now), c.ID)...)
}

// ErrNotOpen means that a change must not be sent any more: a person has decided otherwise since
// its plan, or it was carried out.
var ErrNotOpen = errors.New("it is not open any more")

func notOpen(id int64) error { return fmt.Errorf("change %d: %w", id, ErrNotOpen) }

func when(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// keyIsFree fails when another payer has the key of p, or a customer carries it.
func (tx *Tx) keyIsFree(p Payer) error {
	var taken, found bool
	if err := tx.row([]any{&taken, &found},
		`WITH k AS (SELECT ?1 AS key_name, ?2 AS key_value, ?3 AS connection, ?4 AS source_id, ?5 AS trait, ?6 AS billing_id)
		SELECT `+isTaken+", "+isFound+" FROM k",
		p.Key.Name, p.Key.ScopedValue(), p.Connection, p.SourceID, keyTrait(p.Key), p.BillingID); err != nil {
		return fmt.Errorf("look the key up: %w", err)
	}
	return errors.Join(when(taken, ErrKeyTaken), when(found, ErrKeyFound))
}

// Conditions on a payer k with its key. Column trait is the key in the index.
const (
	// isTaken is the condition that another payer is being created with the key. It also holds if
	// another payer was linked under the key to a customer not known to be gone, whether or not the
	// customer carries the key now.
	isTaken = `EXISTS (SELECT 1 FROM payers p WHERE p.key_name = k.key_name AND p.key_value = k.key_value
		AND (p.billing_id IS NOT NULL AND NOT ` + isMissing + ` OR ` + isSent +
		`) AND (p.connection <> k.connection OR p.source_id <> k.source_id))`
	// isFound: any customer but its own carries it.
	isFound = "EXISTS (SELECT 1 FROM remote_traits WHERE kind = 'key' AND value = k.trait AND billing_id <> k.billing_id)"
)

// FreezeUpdate commits the exact bytes of an update, the customer as fetched before, and the
// intention to send. An update may be frozen anew after another read; the bytes of a create never
// change. It fails with ErrKeyDoubled when the key has turned up twice. If the update writes the
// payer's key on its customer, one other customer with the key is enough, as for FreezeCreate. One
// that takes the key off asks neither.
func (tx *Tx) FreezeUpdate(run int64, c Change, body, preImage []byte) (Attempt, error) {
	tx.leads = true
	if err := tx.holds(run); err != nil {
		return Attempt{}, err
	}
	if err := tx.mayWrite(c); err != nil {
		return Attempt{}, err
	}
	if err := tx.touch(run, c,
		"state = 'frozen', body = ?, body_sha256 = ?, pre_image = ?, frozen_at = ?, attempts = attempts + 1",
		"action IN ('adopt', 'update') AND "+openStates,
		tx.l.seal.box(body, changePlace("body", c.ID)), sha(body), tx.l.seal.box(preImage, changePlace("pre_image", c.ID)),
		stamp(tx.now)); err != nil {
		return Attempt{}, err
	}
	return tx.beginAttempt(c)
}

// mayWrite returns why an update may not be sent, by the carriers of its key, or nil.
func (tx *Tx) mayWrite(c Change) error {
	if c.Unlinks {
		return nil
	}
	holders, err := tx.KeyCount(c.Payer.Key)
	if err != nil {
		return fmt.Errorf("look the key up: %w", err)
	}
	if holders > 1 {
		return ErrKeyDoubled
	}
	become := c.Payer
	if become.Key = c.Payer.comesTo(c.Wanted); c.OnBare() || become.Key != c.Payer.Key {
		return tx.keyIsFree(become)
	}
	return nil
}

// Attempt commits that a change is about to be sent (again).
func (tx *Tx) Attempt(run int64, c Change) (Attempt, error) {
	tx.leads = true
	if err := tx.holds(run); err != nil {
		return Attempt{}, err
	}
	if err := tx.touch(run, c, "state = 'frozen', attempts = attempts + 1", openStates); err != nil {
		return Attempt{}, err
	}
	return tx.beginAttempt(c)
}
