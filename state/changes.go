package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
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
func (l *Ledger) Changes(ctx context.Context, connection, lane string, pending bool, after int64, limit int) ([]Change, error) {
	states, order := "IN ('frozen', 'unknown')", "c.updated_at, c.change_id"
	if pending {
		states, order = "= 'pending'", "c.change_id"
	}
	return l.changes(ctx, "c.lane = ? AND c.state "+states+" AND c.change_id > ? ORDER BY "+order+limitTo, connection, lane, after, limit)
}

// Released returns up to limit unsent changes of a connection's lane, approved by the limits or by
// a person, after change id after, in order. It does not list the fields of a create.
func (l *Ledger) Released(ctx context.Context, connection, lane string, after int64, limit int) ([]Change, error) {
	return l.changesToSend(ctx, "c.lane = ? AND c.state = 'pending' AND "+isApproved+" AND NOT "+waitsForPerson+" AND c.change_id > ? ORDER BY c.change_id"+limitTo, connection, lane, after, limit)
}

// LinkReleased reports whether a plan has released an unsent request for the payer's signing link.
func (tx *Tx) LinkReleased(p Payer) (bool, error) {
	return txSingle[bool](tx, "SELECT EXISTS (SELECT 1 FROM changes c WHERE c.connection = ? AND c.source_id = ? AND c.lane = 'mandate' AND c.state = 'pending' AND "+isApproved+")", p.Connection, p.SourceID)
}

// ReleasedCount returns how many changes Released would go through.
func (l *Ledger) ReleasedCount(ctx context.Context, connection, lane string) (int, error) {
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM changes c WHERE c.connection = ? AND c.lane = ? AND c.state = 'pending' AND "+isApproved+" AND NOT "+waitsForPerson, connection, lane))
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
	GroupWatch  PlanGroup = "watch"  // it empties a field, changes a name or an e-mail address, lets a customer go, or makes one like another payer's
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

// inChanges returns the expression for the plan of change c in a query of pending changes. Few changes of a sent plan are
// pending, so the index over open changes finds them, and not the one over plans.
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
	rows, err := list(ctx, l, "SELECT "+groupIn(p)+" AS grouped, count(*) FROM changes c WHERE c.connection = ? AND "+p.inChanges()+" = ? AND c.state = 'pending' GROUP BY grouped",
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
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM changes WHERE connection = ? AND lane = ? AND state = 'pending'", connection, lane))
}

// UnfinishedCount returns how many of the pending changes no finished plan of the connection has listed.
func (l *Ledger) UnfinishedCount(ctx context.Context, connection string) (int, error) {
	return single[int](l.queryRow(ctx, `SELECT count(*) FROM plans p CROSS JOIN changes c ON c.plan_id = p.plan_id
		WHERE p.connection = ? AND p.hash = '' AND c.state = 'pending'`, connection))
}

// UnansweredCount returns how many changes of the connection were sent, or may have been,
// and have no definite answer.
func (l *Ledger) UnansweredCount(ctx context.Context, connection, lane string) (int, error) {
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM changes WHERE connection = ? AND lane = ? AND state <> 'pending' AND "+openStates, connection, lane))
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
	if err := scan(append([]any{&c.ID, &c.Run, &c.Lane, &c.Action, &wanted, &diff, &billingID, &body, &sum, &pre, &c.State, &c.Attempts, &updated, &c.Approved, &c.LeftOut, &c.Unlinks}, p.dest()...)...); err != nil {
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
	return tx.must(notOpen(c.ID), "UPDATE changes SET "+set+", updated_at = ? WHERE change_id = ? AND "+where, append(args, stamp(tx.now), c.ID)...)
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
	if err := tx.row([]any{&taken, &found}, `WITH k AS (SELECT ?1 AS key_name, ?2 AS key_value, ?3 AS connection, ?4 AS source_id, ?5 AS trait, ?6 AS billing_id)
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
		AND (p.billing_id IS NOT NULL AND NOT ` + isMissing + ` OR ` + isSent + `) AND (p.connection <> k.connection OR p.source_id <> k.source_id))`
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
	if err := tx.touch(run, c, "state = 'frozen', body = ?, body_sha256 = ?, pre_image = ?, frozen_at = ?, attempts = attempts + 1", "action IN ('adopt', 'update') AND "+openStates,
		tx.l.seal.box(body, changePlace("body", c.ID)), sha(body), tx.l.seal.box(preImage, changePlace("pre_image", c.ID)), stamp(tx.now)); err != nil {
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

// ErrCustomerTaken means that a customer is linked to another payer already.
var ErrCustomerTaken = errors.New("the customer is linked to another payer")

// ErrLinkedAlready means that a payer is linked to another customer by now.
var ErrLinkedAlready = errors.New("the payer is linked to another customer")

// LinkPayer links a payer to a customer. With seen, a read has just shown the customer with its
// key; otherwise a read must confirm it after an answered create. It fails with ErrLinkedAlready
// for a payer with another customer: a late answer moves no link.
func (tx *Tx) LinkPayer(p Payer, billingID string, seen bool) error {
	to := connector.LinkCreating
	if seen {
		to = connector.LinkLinked
	}
	return tx.link(p, billingID, "link_state = ?4, updated_at = ?5, seen_at = CASE WHEN ?6 = 1 THEN (SELECT max(ticket, 1) FROM ledger) ELSE 0 END",
		mayLink, to, stamp(tx.now), seen)
}

// isFreeFor is the condition that a row of payers may have a customer.
func isFreeFor(billingID string) string {
	return strings.ReplaceAll(`(payers.billing_id IS NULL OR payers.billing_id = $) AND NOT EXISTS (
		SELECT 1 FROM payers other WHERE other.billing_id = $ AND (other.connection <> payers.connection OR other.source_id <> payers.source_id))`, "$", billingID)
}

// mayLink is the condition that the payer ?1, ?2 may have the customer ?3.
var mayLink = "connection = ?1 AND source_id = ?2 AND " + isFreeFor("?3")

// link links a payer to a customer under a condition, at least mayLink, and sets further columns with three
// arguments from ?4 on.
func (tx *Tx) link(p Payer, billingID string, set, where string, three ...any) error {
	key := []any{p.Connection, p.SourceID, billingID}
	if err := tx.exec("UPDATE payers SET billing_id = ?3, "+set+" WHERE "+where, append(key, three...)...); err != nil {
		return err
	}
	var told bool
	err := tx.row([]any{&told}, "SELECT EXISTS (SELECT 1 FROM words WHERE connection = ?1 AND source_id = ?2 AND word <> 'reject') FROM payers WHERE billing_id = ?3 AND "+where, key...)
	switch {
	case err == nil && told: // a word that they are the same has been carried out
		return tx.exec("DELETE FROM words WHERE connection = ? AND source_id = ? AND word <> 'reject'", p.Connection, p.SourceID)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	var linked bool
	if err := tx.row([]any{&linked}, "SELECT EXISTS (SELECT 1 FROM payers WHERE connection = ? AND source_id = ? AND billing_id <> ?)",
		p.Connection, p.SourceID, billingID); err != nil {
		return fmt.Errorf("look whom payer %s is linked to: %w", p.SourceID, err)
	}
	if linked {
		return ErrLinkedAlready
	}
	return ErrCustomerTaken
}

// Created closes a create that the service answered with a customer, and links the customer to the
// payer. The sent values count as the customer's values until a read confirms them. It fails as
// LinkPayer does.
func (tx *Tx) Created(run int64, c Change, billingID string) error {
	box, err := tx.l.boxApplied(c.Payer, c.Wanted)
	if err != nil {
		return err
	}
	err = tx.link(c.Payer, billingID, "link_state = 'creating', seen_at = 0, answered_at = (SELECT ticket FROM ledger), "+asApplied("?4", "?5", "?6"),
		mayLink+" AND NOT "+isForgotten, box, c.Wanted.Hash(), stamp(tx.now))
	if errors.Is(err, ErrCustomerTaken) { // or the payer was forgotten, of which nothing is kept but its customer
		err = tx.LinkPayer(c.Payer, billingID, false)
	}
	if err != nil {
		return err
	}
	return tx.CloseWith(run, c, connector.ChangeDone, "", "")
}

// CloseDone closes the update of a customer as done: what it wanted is now what the
// customer holds of us.
func (tx *Tx) CloseDone(run int64, c Change) error {
	closing := tx.CloseWith(run, c, connector.ChangeDone, "", "")
	return errors.Join(closing, tx.SetApplied(c.Payer, c.Wanted))
}

// CloseConfirmed closes an update after a confirming read. foreign holds the foreign fields changed
// meanwhile, without their places in lists. It reports detail to a person, unless all these fields change
// with every update.
func (tx *Tx) CloseConfirmed(run int64, c Change, foreign []string, detail string) error {
	if err := tx.CloseDone(run, c); err != nil || len(foreign) == 0 {
		return err
	}
	for _, path := range foreign {
		if err := tx.exec("INSERT INTO foreign_moves (change_id, path) VALUES (?, ?) ON CONFLICT DO NOTHING", c.ID, connector.Indexed(path)); err != nil {
			return fmt.Errorf("note what moved with change %d: %w", c.ID, err)
		}
	}
	var told bool
	if err := tx.row([]any{&told}, "SELECT EXISTS (SELECT 1 FROM foreign_moves m WHERE m.change_id = ? AND NOT "+movesAlways+")", c.ID); err != nil {
		return fmt.Errorf("look what moves with every update: %w", err)
	}
	if told {
		tx.Explain(c.Payer, TopicLink, connector.ReasonForeignChange, detail)
		return nil
	}
	// Earlier reports close now, unless the customer differs from our values.
	return tx.each(`SELECT a.connection, a.source_id FROM attention a JOIN changes c ON c.connection = a.connection AND c.source_id = a.source_id AND c.lane = 'customer'
		WHERE a.topic = 'link' AND a.reason = 'foreign_change' AND c.state = 'done'
		AND c.change_id = (SELECT max(n.change_id) FROM changes n WHERE n.connection = c.connection AND n.source_id = c.source_id AND n.lane = 'customer' AND n.body IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM foreign_moves m WHERE m.change_id = c.change_id AND NOT `+movesAlways+`)`, nil, func(scan func(...any) error) error {
		var p Payer
		err := scan(&p.Connection, &p.SourceID)
		tx.Explain(p, TopicLink, "", "")
		return err
	})
}

// movesAlways is the condition that the field of m moves with every update, such as a revision or a
// time of the last change. It moved with nine of ten updates since its first move, and with at
// least two.
const movesAlways = `(
	SELECT count(*) >= 2 AND count(*) * 10 >= 9 * (SELECT count(*) FROM changes u
		WHERE u.state = 'done' AND u.body IS NOT NULL AND u.action <> 'create'
		  AND u.updated_at >= (SELECT min(f.updated_at) FROM foreign_moves s JOIN changes f ON f.change_id = s.change_id WHERE s.path = m.path))
	FROM foreign_moves o WHERE o.path = m.path)`

// SentCreate returns the frozen customer of a payer's create whose customer was found by its key,
// or nil if there is none.
func (l *Ledger) SentCreate(ctx context.Context, p Payer) (*connector.Customer, error) {
	var id int64
	var box []byte
	err := l.queryRow(ctx, `SELECT change_id, wanted FROM changes
		WHERE connection = ?1 AND source_id = ?2 AND lane = 'customer' AND action = 'create' AND state = 'done'
		AND change_id > (SELECT parted FROM payers WHERE connection = ?1 AND source_id = ?2) ORDER BY change_id DESC LIMIT 1`,
		p.Connection, p.SourceID).Scan(&id, &box)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what payer %s was created with: %w", p.SourceID, err)
	}
	sent := new(connector.Customer)
	if err := l.openJSON(box, changePlace("wanted", id), sent); err != nil {
		return nil, fmt.Errorf("change %d: %w", id, err)
	}
	if sent.ExternalData[p.Key.Name] != p.Key.Value {
		return nil, nil
	}
	return sent, nil
}

// LeaveUnknown leaves a change open whose request got no answer, and says so on the payer.
func (tx *Tx) LeaveUnknown(run int64, c Change, detail string) error {
	const reason = connector.ReasonOutcomeUnknown
	if err := tx.moveChange(run, c, connector.ChangeUnknown, reason, detail); err != nil {
		return err
	}
	tx.Explain(c.Payer, c.topic(reason), reason, detail)
	return nil
}

// CloseWith closes a change as done, failed, held or void, and says on the payer what a person
// should know of it; "" for nothing. A create that will never be sent again drops the planned signing
// link. A void one is planned again.
func (tx *Tx) CloseWith(run int64, c Change, to connector.ChangeState, reason connector.Reason, detail string) error {
	if err := tx.moveChange(run, c, to, reason, detail); err != nil {
		return err
	}
	p := c.Payer
	if c.Action == connector.ActionCreate && to != connector.ChangeDone {
		if err := tx.dropPlanned(p.Connection, p.SourceID, LaneMandate); err != nil {
			return err
		}
	}
	if to == connector.ChangeVoid {
		_, err := tx.ReplanRecord(p.Connection, p.SourceID)
		return err
	}
	tx.Explain(p, c.topic(reason), reason, detail)
	if reason == "" {
		return nil
	}
	return tx.rest(p, reason)
}

// topic returns the topic of a reason that the change ends with, or waits for.
func (c Change) topic(reason connector.Reason) Topic {
	switch {
	case c.Lane == LaneMandate:
		return TopicMandate
	case reason == "":
		return TopicLink
	}
	return Topic(protocol.LaneOf(reason))
}

// Unsent takes back an attempt of a change that certainly never left.
func (tx *Tx) Unsent(c Change, a Attempt) error {
	if err := tx.EndAttempt(a, AttemptUnsent); err != nil {
		return err
	}
	tx.Touch(c.Payer)
	return tx.exec("UPDATE changes SET state = 'pending', attempts = attempts - 1 WHERE change_id = ? AND state = 'frozen' AND body IS NULL", c.ID)
}

// moveChange moves an open change on, and its record's class with it.
func (tx *Tx) moveChange(run int64, c Change, to connector.ChangeState, reason connector.Reason, detail string) error {
	if err := tx.touch(run, c, "state = ?, reason = ?, detail = ?, ended_at = (SELECT ticket FROM ledger)", openStates, to, reason, detail); err != nil || c.Lane == LaneMandate {
		return err
	}
	tx.touched(RecordID{c.Payer.Connection, c.Payer.SourceID}).ended = reason
	return nil
}

// Arrival is how long after a request has left it may still arrive and take effect. A request for a
// signing link does not wait, but only looks. At worst it makes a second mandate to sign, and a
// payer without a link could never sign.
const Arrival = 15 * time.Minute

// hasArrived is the condition that a request without an end can arrive no more, and that this is not stored yet. A
// request for a signing link waits for nothing. Any other one left at ?1 or before.
const hasArrived = "ended = '' AND over = 0 AND (sent_at <= ?1 OR action = 'link')"

// Ticket returns the next read ticket. A later ticket means a later read, in every process with the ledger.
// It also marks the requests that can no longer arrive, so a read with this ticket shows their result.
func (tx *Tx) Ticket() (int64, error) {
	ticket, err := tx.nextTicket()
	if err != nil {
		return 0, err
	}
	if err := tx.exec("UPDATE attempts SET over = ?2 WHERE "+hasArrived, stamp(tx.now.Add(-Arrival)), ticket-1); err != nil {
		return 0, fmt.Errorf("note which requests can arrive no more: %w", err)
	}
	return ticket, nil
}

// nextTicket issues a ticket.
func (tx *Tx) nextTicket() (int64, error) { return tx.nextTickets(1) }

// nextTickets issues several tickets in a row, and returns the last. It notes the first ticket after a
// restore, and the time by which all requests before a ticket have arrived.
func (tx *Tx) nextTickets(n int) (last int64, err error) {
	err = tx.exec(`UPDATE ledger SET ticket = ticket + ?2, doubt_of = restored_at,
		doubt = CASE WHEN restored_at IS DISTINCT FROM doubt_of THEN ticket ELSE doubt END,
		doubt_over = CASE WHEN restored_at IS DISTINCT FROM doubt_of THEN 0 WHEN doubt > 0 AND doubt_over = 0 AND restored_at <= ?1 THEN ticket ELSE doubt_over END`,
		stamp(tx.now.Add(-Arrival)), n)
	if err == nil {
		err = tx.row([]any{&last}, "SELECT ticket FROM ledger")
	}
	if err != nil {
		return 0, fmt.Errorf("take a ticket: %w", err)
	}
	return last, nil
}

// NoteArrived notes the requests that can no longer arrive, as Ticket does, if there are any. It
// takes a ticket only then, and writes nothing otherwise.
func (l *Ledger) NoteArrived(ctx context.Context) error {
	var due bool
	if err := l.queryRow(ctx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE `+hasArrived+`)
		OR restored_at IS DISTINCT FROM doubt_of OR (doubt > 0 AND doubt_over = 0 AND restored_at <= ?1) FROM ledger`, stamp(l.Now().Add(-Arrival))).Scan(&due); err != nil {
		return fmt.Errorf("look for requests that can arrive no more: %w", err)
	}
	if !due {
		return nil
	}
	_, err := l.Ticket(ctx)
	return err
}

// Ticket commits and returns the next read ticket; take it before the read.
func (l *Ledger) Ticket(ctx context.Context) (ticket int64, err error) {
	err = l.Do(ctx, func(tx *Tx) error {
		ticket, err = tx.Ticket()
		return err
	})
	return ticket, err
}
