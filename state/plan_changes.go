package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"payersync/connector"
)

// ChangeOutcome is the result of a change in a plan's list.
type ChangeOutcome string

// The outcomes. A change is put off when a later plan lists it, or when a run held it back for a reason.
const (
	OutcomeWaiting   ChangeOutcome = "waiting"   // the plan still lists it, and nothing was sent
	OutcomeSent      ChangeOutcome = "sent"      // the billing service took it
	OutcomeUnchanged ChangeOutcome = "unchanged" // the customer held everything already, so nothing was sent
	OutcomeNoAnswer  ChangeOutcome = "no_answer" // it was sent, and no answer is known yet
	OutcomeRefused   ChangeOutcome = "refused"   // the billing service refused it
	OutcomeFailed    ChangeOutcome = "failed"    // it was sent, and ended otherwise than it should
	OutcomePutOff    ChangeOutcome = "put_off"
	OutcomeReplaced  ChangeOutcome = "replaced" // something else was planned in its place, or nothing is to be done any more
)

// Outcomes are all outcomes of finished changes, in the order for review by a person.
var Outcomes = []ChangeOutcome{OutcomeRefused, OutcomeFailed, OutcomeNoAnswer, OutcomePutOff, OutcomeReplaced,
	OutcomeUnchanged, OutcomeSent}

// fate holds the facts for the outcome of a listed change.
type fate struct {
	state   connector.ChangeState
	reason  connector.Reason
	later   bool // a later plan lists it by now
	attempt bool // it was sent once, or about to be
}

func (f fate) outcome() ChangeOutcome {
	switch f.state {
	case connector.ChangePending:
		if f.later {
			return OutcomePutOff
		}
		return OutcomeWaiting
	case connector.ChangeFrozen, connector.ChangeUnknown:
		return OutcomeNoAnswer
	case connector.ChangeDone:
		if f.attempt {
			return OutcomeSent
		}
		return OutcomeUnchanged
	case connector.ChangeVoid:
		return OutcomeReplaced
	case connector.ChangeHeld:
		if !f.attempt {
			return OutcomePutOff
		}
	case connector.ChangeFailed:
		if f.reason == connector.ReasonRejected || f.reason == connector.ReasonLinkRefused {
			return OutcomeRefused
		}
	}
	return OutcomeFailed
}

// ListedChange is a change in a plan's list, with its outcome.
type ListedChange struct {
	PastChange
	Outcome    ChangeOutcome
	Connection string
	SourceID   string
	Key        connector.Key // zero when its record is no payer any more
	BillingID  string        // the customer to adopt or update; "" for a create
	LeftOut    bool
}

// Place returns the position of the change in the list of a plan.
func (c ListedChange) Place() PlanPlace { return PlanPlace{c.Plan, c.ID} }

// PlanPlace is a place in the list of a plan's changes; the zero value is before the first.
type PlanPlace struct{ Plan, Change int64 }

// listedBy is the condition that plan ?1 of connection ?2 listed change c without sending it itself. The
// index over plan_id answers it: it skips changes of later plans without reading their rows. It avoids OR,
// because SQLite would then read all changes of the connection.
const listedBy = `c.plan_id >= ?1 AND CASE WHEN c.plan_id = ?1 THEN c.state <> 'pending' ELSE c.first_plan <= ?1 AND c.connection = ?2 END`

var listedQuery = "SELECT " + pastColumns +
	`, c.connection, c.source_id, coalesce(c.billing_id, ''), c.left_out, p.key_name, p.key_value
	FROM changes c LEFT JOIN payers p ON p.connection = c.connection AND p.source_id = c.source_id
	WHERE ` + listedBy + " AND (c.plan_id, c.change_id) > (?3, ?4) ORDER BY c.plan_id, c.change_id LIMIT ?5"

// ListedChanges returns up to limit changes that a plan listed and does not send itself, after a place in its
// list. Changes listed again by a later plan come last.
func (l *Ledger) ListedChanges(ctx context.Context, p Plan, after PlanPlace, limit int) (out []ListedChange,
	err error) {
	type row struct {
		pastRow
		listed            ListedChange
		keyName, keyValue sql.NullString
	}
	err = each(ctx, l, listedQuery, []any{p.ID, p.Connection, after.Plan, after.Change, limit},
		func(r *row) []any {
			return append(r.dest(), &r.listed.Connection, &r.listed.SourceID, &r.listed.BillingID, &r.listed.LeftOut, &r.keyName,
				&r.keyValue)
		},
		func(r row) (err error) {
			c := r.listed
			c.PastChange, err = l.pastChange(r.pastRow)
			c.Outcome = fate{c.State, c.Reason, c.Plan > p.ID, c.Attempts > 0}.outcome()
			if r.keyValue.Valid {
				c.Key = connector.ParseKey(r.keyName.String, r.keyValue.String)
			}
			out = append(out, c)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read what became of the changes of plan %d: %w", p.ID, err)
	}
	return out, nil
}

// OutcomeCounts returns the number of a plan's listed changes by outcome. It omits changes still to be sent
// by it.
func (l *Ledger) OutcomeCounts(ctx context.Context, p Plan) (map[ChangeOutcome]int, error) {
	type row struct {
		fate
		n int
	}
	out := map[ChangeOutcome]int{}
	err := each(ctx, l, `SELECT state, reason, later, attempted, count(*) FROM (
		SELECT c.state, CASE WHEN c.state = 'failed' THEN c.reason ELSE '' END AS reason, c.plan_id > ?1 AS later, c.attempts > 0 AS attempted FROM changes c WHERE `+listedBy+`) AS listed
		GROUP BY state, reason, later, attempted`, []any{p.ID, p.Connection},
		func(r *row) []any { return []any{&r.state, &r.reason, &r.later, &r.attempt, &r.n} },
		func(r row) error { out[r.outcome()] += r.n; return nil })
	if err != nil {
		return nil, fmt.Errorf("count what became of the changes of plan %d: %w", p.ID, err)
	}
	return out, nil
}

// sentBy is the expression for the runs that sent changes of a plan, as a JSON list.
const sentBy = "(SELECT json_group_array(r.run_id) FROM runs r WHERE r.sent_plan = plans.plan_id)"

// openRuns returns the runs of a list that sentBy gives, in order.
func openRuns(list string) (runs []int64, err error) {
	if list == "[]" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(list), &runs)
	slices.Sort(runs)
	return runs, err
}

// noteSentPlan stores the plan of the changes sent by a run, once the run is over. Changes continued from an
// earlier run do not count.
func (tx *Tx) noteSentPlan(run int64) error {
	return tx.exec(`UPDATE runs SET sent_plan = (SELECT c.plan_id FROM changes c WHERE c.run_id = runs.run_id AND c.attempts > 0
		AND EXISTS (SELECT 1 FROM attempts a WHERE a.change_id = c.change_id AND a.sent_at >= runs.started_at) ORDER BY c.change_id DESC LIMIT 1) WHERE run_id = ?`, run)
}
