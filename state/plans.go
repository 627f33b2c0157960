package state

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
)

// PlanState is the state of a plan.
type PlanState string

// The plan states. A draft is within the limits and not applied yet. A rejected one is not sent, and needs no
// decision. A superseded one was replaced by a plan over newer facts.
const (
	PlanDraft      PlanState = "draft"
	PlanWaiting    PlanState = "waiting"
	PlanApproved   PlanState = "approved"
	PlanRejected   PlanState = "rejected"
	PlanApplied    PlanState = "applied"
	PlanSuperseded PlanState = "superseded"
)

// Plan is a run's intended work, in numbers. The numbers count every pending change; the Open
// numbers only those nobody has approved yet.
type Plan struct {
	ID         int64     `json:"id"`
	Connection string    `json:"connection"`
	RunID      int64     `json:"run_id"`
	Hash       string    `json:"hash"`
	Known      bool      `json:"-"` // an earlier run made the very same plan
	Mapping    string    `json:"-"` // version of the mapping that made it
	State      PlanState `json:"state"`
	CreatedAt  time.Time `json:"created_at"`
	Creates    int       `json:"creates"`
	Adopts     int       `json:"adopts"`
	Updates    int       `json:"updates"`
	Links      int       `json:"links"`
	Holds      int       `json:"holds"`
	Alike      int       `json:"alike"` // of the creates: they look like another payer of ours
	// records that approval lets go as gone from the source; such a plan changes nothing
	Missing int `json:"missing,omitempty"`
	// payers dropped by an approval, as on hold or excluded; 0 if too few for a standstill
	Lost int `json:"lost,omitempty"`
	// why it waits, in words: the limits it exceeds, or what its creates wait for; "" for nothing
	Limits string       `json:"limits"`
	Stops  []CreateStop `json:"create_stops,omitempty"` // why creates of it wait until a person has decided
	Open   Weight       `json:"-"`
	Losses Losses       `json:"-"`

	// the edited profile of the source that made it, as a hash; its approval accepts the profile; "" for none
	Profile string `json:"-"`

	ApprovedBy string    `json:"-"` // who approved it last, or a part of it
	ApprovedAt time.Time `json:"-"`

	SentBy []int64 `json:"sent_by,omitempty"` // the runs that sent changes of it, in order

	RejectedBy string    `json:"rejected_by,omitempty"` // who rejected it last, also before it was superseded
	RejectedAt time.Time `json:"rejected_at,omitzero"`
	Rejection  string    `json:"rejection,omitempty"` // why, in that person's words
}

// Weight is the basis of the guards: the part of a plan without approval.
type Weight struct {
	Creates  int // new customers
	Changes  int // customers that exist and would be touched: adopted, updated, or asked for a mandate
	Blanks   int // emptied fields
	Identity int // customers with a changed name or e-mail address
	LeftOut  int // changes that wait for a word of their own, and count as nothing else
	Scopes   int // customers with a key without its organisation; the plan would add it
}

// WaitsForDecision reports whether nothing but a person's decision on all creates keeps the plan waiting: approving
// it sends none of them.
func (p Plan) WaitsForDecision() bool { return len(p.Stops) > 0 && p.Limits == StopsText(p.Stops) }

// Standstill reports whether nothing is concluded or sent before a person looks: the plan is
// made from far less than is known.
func (p Plan) Standstill() bool { return p.Missing > 0 || p.Lost > 0 }

// Empty reports whether the plan has nothing to do.
func (p Plan) Empty() bool { return p.Creates+p.Adopts+p.Updates+p.Links == 0 }

// isFinished is the condition that a plan was finished. Nobody sees an unfinished one: it has the number for the
// changes of a plan that is being made, so that FinishPlan need not write each of them again.
const isFinished = "hash <> ''"

// unfinishedPlan returns the number of a connection's unfinished plan, which is higher than those of its other plans.
func (tx *Tx) unfinishedPlan(run int64, connection string) (plan int64, err error) {
	if plan, err = tx.keptPlan(connection); plan > 0 || err != nil {
		return plan, err
	}
	p := Plan{Connection: connection, RunID: run, CreatedAt: tx.now}
	return p.ID, connector.Wrap(tx.insertPlan(&p, PlanDraft), "begin a plan")
}

// keptPlan is unfinishedPlan without beginning one; 0 for none.
func (tx *Tx) keptPlan(connection string) (plan int64, err error) {
	err = tx.row([]any{&plan},
		"SELECT coalesce((SELECT CASE hash WHEN '' THEN plan_id ELSE 0 END FROM plans WHERE connection = ? ORDER BY plan_id DESC LIMIT 1), 0)", connection)
	return plan, err
}

// FinishPlan gathers the pending changes of a connection, those left by earlier runs included, into
// one plan of this run. An identical plan reuses the waiting or approved one. tooMany reports
// whether the plan stands still because of the payers it would lose.
func (tx *Tx) FinishPlan(run int64, connection, mapping string, tooMany func(Losses) bool) (Plan, error) {
	p := Plan{Connection: connection, RunID: run, Mapping: mapping, State: PlanDraft, CreatedAt: tx.now}
	err := tx.holds(run)
	if err != nil {
		return p, err
	}
	if err := tx.weighPlan(&p); err != nil {
		return p, fmt.Errorf("count the plan: %w", err)
	}
	if p.Hash, err = tx.hashPlan(p); err != nil {
		return p, fmt.Errorf("hash the plan: %w", err)
	}
	if p.Profile, err = tx.editedProfile(connection); err != nil {
		return p, err
	}
	if p.Profile != "" {
		p.Hash = hashEdited(p.Profile, p.Hash)
	}
	if p.Losses, err = tx.losses(connection); err != nil {
		return p, err
	}
	if tooMany(p.Losses) {
		p.Lost = p.Losses.Lost()
		p.Hash, err = tx.hashLost(connection, p.Hash)
	} else {
		err = tx.acceptDecisions(connection)
	}
	if err != nil {
		return p, err
	}
	was, err := tx.queryPlan("WHERE connection = ? AND hash = ? AND missing = 0 AND state IN ('waiting', 'approved') ORDER BY plan_id DESC LIMIT 1", connection, p.Hash)
	p.Known = was.ID != 0
	if p.ID, p.State = was.ID, cmp.Or(was.State, p.State); was.State == PlanRejected {
		p.RejectedBy, p.RejectedAt, p.Rejection = was.RejectedBy, was.RejectedAt, was.Rejection
	}
	if err == nil {
		err = tx.listChanges(&p)
	}
	if err != nil {
		return p, fmt.Errorf("save the plan: %w", err)
	}
	if p.Lost > 0 {
		if err := tx.noteLost(connection, p.ID); err != nil {
			return p, err
		}
	}
	return p, tx.exec(`UPDATE plans SET state = 'superseded' WHERE connection = ? AND plan_id <> ? AND missing = 0 AND state IN ('draft', 'waiting', 'approved')`,
		connection, p.ID)
}

// listChanges saves a plan that is not stored yet, and has it list all pending changes of its connection.
func (tx *Tx) listChanges(p *Plan) error {
	kept, err := tx.keptPlan(p.Connection)
	switch {
	case err != nil:
		return err
	case p.ID == 0 && kept > 0:
		p.ID = kept
		err = tx.exec("UPDATE plans SET run_id = ?, hash = ?, mapping_version = ?, created_at = ?, state = 'draft', creates = ?, adopts = ?, updates = ?, links = ?, holds = ?, alike = ?, lost = ?, profile = ? WHERE plan_id = ?",
			p.RunID, p.Hash, p.Mapping, stamp(p.CreatedAt), p.Creates, p.Adopts, p.Updates, p.Links, p.Holds, p.Alike, p.Lost,
			p.Profile, p.ID)
	case p.ID == 0:
		err = tx.insertPlan(p, PlanDraft)
	}
	if err != nil {
		return err
	}
	var moves bool
	if err := tx.row([]any{&moves},
		"SELECT EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND state = 'pending' AND plan_id IS DISTINCT FROM ?2)",
		p.Connection, p.ID); err != nil || !moves {
		return err
	}
	if err := tx.approveEach(p.ID); err != nil {
		return err
	}
	_, err = tx.changePending(p.Connection,
		"approved = "+approvedAs("c")+", plan_id = ?1, first_plan = CASE WHEN (SELECT q.hash FROM plans q WHERE q.plan_id = c.plan_id) = '' THEN ?1 ELSE coalesce(c.first_plan, c.plan_id, ?1) END",
		"c.plan_id IS DISTINCT FROM ?1", p.ID)
	return err
}

// PlansNothing reports whether a plan of a connection would be empty and change no open question.
// No change waits, no earlier plan waits or is approved, and no payer is lost or back since.
func (l *Ledger) PlansNothing(ctx context.Context, connection string) (nothing bool, err error) {
	if err := l.queryRow(ctx,
		`SELECT NOT EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND lane IN ('customer', 'mandate') AND state = 'pending')
		AND NOT EXISTS (SELECT 1 FROM plans WHERE connection = ?1 AND missing = 0 AND state IN ('waiting', 'approved'))
		AND NOT EXISTS (SELECT 1 FROM source_records r WHERE r.connection = ?1 AND r.replan = 0 AND `+turned+`)`,
		connection).Scan(&nothing); err != nil {
		return false, fmt.Errorf("look whether there is anything to plan: %w", err)
	}
	return nothing, nil
}

// SaveEmptyPlan saves a plan without changes, confirmed by PlansNothing. Later changes are not part of it. It
// fails with ErrLeaseLost when the plan's run no longer holds its connection.
func (tx *Tx) SaveEmptyPlan(p *Plan, as PlanState) error {
	err := tx.holds(p.RunID)
	if err != nil {
		return err
	}
	p.Hash = hashOf(p.Mapping, nil)
	if err := tx.countHolds(p); err != nil {
		return err
	}
	if err := tx.insertPlan(p, as); err != nil {
		return fmt.Errorf("save the plan: %w", err)
	}
	return tx.exec("UPDATE plans SET state = 'superseded' WHERE connection = ? AND plan_id <> ? AND missing = 0 AND state = 'draft'", p.Connection, p.ID)
}

// insertPlan saves a plan, and numbers it.
func (tx *Tx) insertPlan(p *Plan, as PlanState) error {
	return tx.row([]any{&p.ID},
		`INSERT INTO plans (connection, run_id, hash, mapping_version, created_at, state, creates, adopts, updates, links, holds, alike, lost, profile)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING plan_id`,
		p.Connection, p.RunID, p.Hash, p.Mapping, stamp(p.CreatedAt), as, p.Creates, p.Adopts, p.Updates, p.Links, p.Holds,
		p.Alike, p.Lost, p.Profile)
}

// countHolds counts the records that wait for a person.
func (tx *Tx) countHolds(p *Plan) error {
	return connector.Wrap(tx.row([]any{&p.Holds},
		"SELECT count(DISTINCT h.source_id) FROM attention h WHERE h.connection = ? AND "+keepsOnHold, p.Connection),
		"count the records that wait for a person")
}

// partOfPlan is the largest number of changes per statement, because SQLite keeps their old content
// in memory until the statement ends.
const partOfPlan = 4096

// changePending updates the pending changes of a connection under a condition, and returns their
// number. The change is c in both, and the placeholders of args have their numbers.
func (tx *Tx) changePending(connection, set, which string, args ...any) (changed int64, err error) {
	for _, lane := range []string{LaneCustomer, LaneMandate} {
		for last, n := int64(0), partOfPlan; n == partOfPlan; {
			after := last
			if err := tx.row([]any{&n, &last}, `SELECT count(*), coalesce(max(change_id), 0) FROM (
				SELECT change_id FROM changes WHERE connection = ? AND lane = ? AND state = 'pending' AND change_id > ? ORDER BY change_id LIMIT ?) AS part`,
				connection, lane, after, partOfPlan); err != nil {
				return 0, err
			}
			if n == 0 {
				break
			}
			some, err := tx.count("UPDATE changes AS c SET "+set+" WHERE "+which+" AND c.connection = ? AND c.lane = ? AND c.state = 'pending' AND c.change_id > ? AND c.change_id <= ?",
				append(slices.Clone(args), connection, lane, after, last)...)
			if err != nil {
				return 0, err
			}
			changed += some
		}
	}
	return changed, nil
}

// changePlan is changePending for the changes of a plan, which is the last of args.
func (tx *Tx) changePlan(plan int64, set, which string, args ...any) (changed int64, err error) {
	var connection string
	err = tx.row([]any{&connection}, "SELECT connection FROM plans WHERE plan_id = ?", plan)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return tx.changePending(connection, set, fmt.Sprintf("c.plan_id = ?%d AND %s", len(args)+1, which),
		append(args, plan)...)
}

// hashPlan hashes the counted pending changes of a plan in a fixed order, together with their
// mapping.
func (tx *Tx) hashPlan(p Plan) (string, error) {
	// Sorted here: SQLite would sort them in memory, too, and as texts.
	hashes := make([][sha256.Size]byte, 0, p.Creates+p.Adopts+p.Updates+p.Links)
	if err := tx.each("SELECT change_hash FROM changes WHERE connection = ? AND state = 'pending'", []any{p.Connection},
		func(scan func(...any) error) error {
			var text sql.RawBytes
			var hash [sha256.Size]byte
			err := scan(&text)
			if err != nil || len(text) == 0 { // its record is being forgotten
				return err
			}
			if len(text) != hex.EncodedLen(len(hash)) {
				return fmt.Errorf("the hash of a change has %d digits", len(text))
			}
			_, err = hex.Decode(hash[:], text)
			hashes = append(hashes, hash)
			return err
		}); err != nil {
		return "", err
	}
	slices.SortFunc(hashes, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	return hashOf(p.Mapping, hashes), nil
}

// hashOf returns the hash of a plan of these changes, in order, that a mapping made.
func hashOf(mapping string, changes [][sha256.Size]byte) string {
	h := sha256.New()
	h.Write([]byte(mapping))
	for _, hash := range changes {
		h.Write(hex.AppendEncode(nil, hash[:]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// isOpen is the condition that a pending change has no decision of a person and does not wait for
// one on all creates: the limits decide on it.
const isOpen = "NOT " + isApproved + " AND c.left_out = 0 AND NOT " + waitsForPerson

// touches is the condition that change c affects an existing customer. A link for a payer that this
// plan creates belongs to the create. So does the first update of a customer from an unanswered
// create.
const touches = `(c.action = 'adopt' OR EXISTS (
	SELECT 1 FROM payers p WHERE p.connection = c.connection AND p.source_id = c.source_id
	AND (c.action = 'link' AND p.billing_id IS NOT NULL OR c.action = 'update' AND NOT (p.applied IS NULL AND EXISTS (
	  SELECT 1 FROM changes m WHERE m.connection = c.connection AND m.source_id = c.source_id AND m.action = 'create' AND m.state = 'done' AND m.change_id > p.parted)))))`

func (tx *Tx) weighPlan(p *Plan) error {
	if err := tx.row([]any{&p.Creates, &p.Adopts, &p.Updates, &p.Links, &p.Open.Creates, &p.Open.Changes, &p.Open.Blanks,
		&p.Open.Identity, &p.Open.Scopes, &p.Open.LeftOut}, `
		SELECT count(*) FILTER (WHERE action = 'create'), count(*) FILTER (WHERE action = 'adopt'),
		       count(*) FILTER (WHERE action = 'update'), count(*) FILTER (WHERE action = 'link'),
		       count(*) FILTER (WHERE `+isOpen+` AND action = 'create'),
		       count(*) FILTER (WHERE `+isOpen+` AND `+touches+`),
		       coalesce(sum(CASE WHEN `+isOpen+` THEN blanks ELSE 0 END), 0),
		       count(*) FILTER (WHERE `+isOpen+` AND identity = 1), count(*) FILTER (WHERE `+isOpen+` AND scopes = 1),
		       count(*) FILTER (WHERE left_out = 1 AND NOT `+isApproved+`)
		FROM changes c WHERE connection = ? AND state = 'pending'`, p.Connection); err != nil {
		return err
	}
	var err error
	if p.Alike, err = tx.countAlike(p.Connection); err != nil {
		return err
	}
	return tx.countHolds(p)
}

// ApproveWithinLimits notes that a plan is within the limits. A later run sends its remaining
// changes without approval. Changes left out by a person keep waiting.
func (tx *Tx) ApproveWithinLimits(plan int64) error {
	_, err := tx.approve(plan, "c.left_out = 0 AND NOT "+waitsForPerson)
	return err
}

// Over says which limits a plan is above.
type Over struct{ Creates, Changes, Blanks, Identity, Scopes bool }

// within is the condition that pending change c counts towards no exceeded limit of its plan. ?1 to
// ?5 tell whether each kind is within its limit.
const within = isOpen + " AND NOT (CASE WHEN " + touches + ` THEN ?2 = 1 ELSE ?1 = 1 END)
	AND NOT (?3 = 1 AND c.blanks > 0) AND NOT (?4 = 1 AND c.identity = 1) AND NOT (?5 = 1 AND c.scopes = 1)`

func (o Over) args() []any {
	return []any{o.Creates, o.Changes, o.Blanks, o.Identity, o.Scopes}
}

// WithinCount returns how many changes of a plan that is above limits count to none of these.
func (tx *Tx) WithinCount(plan int64, o Over) (n int, err error) {
	return n, tx.row([]any{&n}, "SELECT count(*) FROM changes c WHERE c.plan_id = ?6 AND c.state = 'pending' AND "+within,
		append(o.args(), plan)...)
}

// ApproveWithin lets the changes go that WithinCount counts. The others wait for a person, or
// until they are within the limits.
func (tx *Tx) ApproveWithin(plan int64, o Over) error {
	_, err := tx.changePlan(plan, "approved = 1", within, o.args()...)
	return err
}

// Within explains why changes of a plan above the limits are still sent; "" for none.
func Within(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 change of a kind that is within its own limits is not on hold."
	}
	return fmt.Sprintf("%d changes of kinds that are within their own limits are not on hold.", n)
}

// SetPlanState moves a plan and records the limits it exceeds, in words.
func (tx *Tx) SetPlanState(plan int64, to PlanState, limits string) error {
	return tx.exec("UPDATE plans SET state = ?, limits = ? WHERE plan_id = ?", to, limits, plan)
}
