package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// planColumns are those of a plan. A rejected plan stored as waiting waits for nobody.
const planColumns = `plan_id, connection, run_id, hash, mapping_version, CASE WHEN state = 'waiting' AND rejected_at IS NOT NULL THEN 'rejected' ELSE state END,
	created_at, creates, adopts, updates, links, holds, alike, missing, lost, limits, profile, approved_by, approved_at, rejected_by, rejected_at, rejected_why, ` + sentBy

const finishedPlans = " FROM (SELECT * FROM plans WHERE " + isFinished + ") AS plans "

// WaitingPlans returns the plans that wait for approval, oldest first.
func (l *Ledger) WaitingPlans(ctx context.Context) ([]Plan, error) {
	return l.plans(ctx, "WHERE state = 'waiting' AND rejected_at IS NULL ORDER BY plan_id")
}

// RejectedPlans returns the plans that were rejected and still say what would be done,
// oldest first.
func (l *Ledger) RejectedPlans(ctx context.Context) ([]Plan, error) {
	return l.plans(ctx, "WHERE state = 'waiting' AND rejected_at IS NOT NULL ORDER BY plan_id")
}

// StoredPlans returns every plan that was ever made, of one connection or of all, oldest
// first.
func (l *Ledger) StoredPlans(ctx context.Context, connection string) ([]Plan, error) {
	return l.plans(ctx, "WHERE connection = ?1 OR ?1 = '' ORDER BY plan_id", connection)
}

// PlanPage returns decided plans, the newest first, older than the plan before; 0 starts with the newest. It
// omits plans without changes.
func (l *Ledger) PlanPage(ctx context.Context, before int64, limit int) ([]Plan, error) {
	return l.plans(ctx, `WHERE (state <> 'waiting' OR rejected_at IS NOT NULL) AND creates + adopts + updates + links + missing + lost > 0
		AND (?1 = 0 OR plan_id < ?1) ORDER BY plan_id DESC LIMIT ?2`, before, limit)
}

// FindPlan returns the plan with the number id, or with a hash that begins with id. Such a beginning has at least
// 8 characters. Without such a plan, it fails with ErrPlanNotWaiting.
func (l *Ledger) FindPlan(ctx context.Context, id string) (Plan, error) {
	found, err := l.plans(ctx,
		"WHERE cast(plan_id AS TEXT) = ?1 OR (length(?1) >= 8 AND substr(hash, 1, length(?1)) = ?1) ORDER BY plan_id DESC LIMIT 1", id)
	if err != nil {
		return Plan{}, err
	}
	if len(found) == 0 {
		return Plan{}, ErrPlanNotWaiting
	}
	return found[0], nil
}

// queryPlan returns one plan; the zero plan when there is none.
func (tx *Tx) queryPlan(where string, args ...any) (Plan, error) {
	rows, err := tx.query("SELECT "+planColumns+finishedPlans+where, args...)
	if err != nil {
		return Plan{}, err
	}
	found, err := scanPlans(rows)
	if err != nil || len(found) == 0 {
		return Plan{}, err
	}
	return found[0], nil
}

// Share is how much of a plan is still to be done, as the ledger has it now.
type Share struct {
	Pending  int    `json:"pending"`  // changes that were not sent
	Approved int    `json:"approved"` // of those: the next run sends them
	LeftOut  int    `json:"left_out"` // of those: left out of an approval, or rejected
	Reads    string `json:"-"`        // hash of what the plan says by now: see Tx.StillReads
	Newest   int64  `json:"-"`        // the change that was planned last; 0 for none
}

// ShareOf returns how much of a plan is still to be done.
func (l *Ledger) ShareOf(ctx context.Context, p Plan) (Share, error) {
	return shareOf(p, func(query string, args []any, read func(scanner) error) error {
		_, err := collect("", func(s scanner) (struct{}, error) { return struct{}{}, read(s) })(l.query(ctx, query, args...))
		return err
	})
}

// StillReads fails with ErrPlanChanged unless a plan is the same as when its Share was taken. It
// has the same state and the same waiting changes, and nobody has decided otherwise about one of
// them. Only changes seen by a person are approved.
func (tx *Tx) StillReads(plan int64, reads string) error {
	p, err := tx.queryPlan("WHERE plan_id = ?", plan)
	if err != nil {
		return err
	}
	now, err := shareOf(p, tx.each)
	if err == nil && now.Reads != reads {
		err = ErrPlanChanged
	}
	return err
}

// pendingHere selects the waiting changes of plan ?2 of connection ?1. The index over open changes holds all of it.
const pendingHere = " FROM changes c WHERE c.connection = ?1 AND +c.plan_id = ?2 AND c.state = 'pending'"

// approvedHere is isApproved for changes of one plan, so that its release is looked up once.
var approvedHere = strings.ReplaceAll(isApproved, "= c.plan_id", "= ?2")

var shareQuery = "SELECT count(*), coalesce(min(c.change_id), 0), coalesce(max(c.change_id), 0), " +
	"count(*) FILTER (WHERE " + approvedHere + "), count(*) FILTER (WHERE c.left_out = 1), " +
	"count(*) FILTER (WHERE c.left_out = 1 AND NOT " + approvedHere + ")" + pendingHere

// shareOf counts the waiting changes. Their content never changes, and another plan has another hash: so their ids
// tell what the plan says by now. Ids in a row without a gap count as one, by the first and the last.
func shareOf(p Plan, each func(string, []any, func(scanner) error) error) (s Share, err error) {
	args := []any{p.Connection, p.ID}
	var first int64
	var leftOut int // approved or not
	if err = each(shareQuery, args, func(scan scanner) error {
		return scan(&s.Pending, &first, &s.Newest, &s.Approved, &leftOut, &s.LeftOut)
	}); err != nil {
		return s, fmt.Errorf("read the changes of plan %d: %w", p.ID, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s\n", p.ID, p.Hash, p.State)
	for _, part := range []struct {
		n, of int
		which string
	}{{s.Pending, int(s.Newest - first + 1), ""}, {s.Approved, s.Pending, " AND " + approvedHere},
		{leftOut, s.Pending, " AND c.left_out = 1"}} {
		fmt.Fprintf(h, "%d of %d from %d\n", part.n, part.of, first)
		if part.n == 0 || part.n == part.of {
			continue
		}
		if err = each("SELECT c.change_id"+pendingHere+part.which+" ORDER BY c.lane, c.change_id", args,
			func(scan scanner) error {
				var id int64
				err := scan(&id)
				fmt.Fprintln(h, id)
				return err
			}); err != nil {
			return s, fmt.Errorf("read the changes of plan %d: %w", p.ID, err)
		}
	}
	s.Reads = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

func (l *Ledger) plans(ctx context.Context, where string, args ...any) ([]Plan, error) {
	rows, err := l.query(ctx, "SELECT "+planColumns+finishedPlans+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read the plans: %w", err)
	}
	plans, err := scanPlans(rows)
	if err != nil || !slices.ContainsFunc(plans, Plan.isStopped) {
		return plans, err
	}
	stops, err := l.CreateStops(ctx, "")
	for i, p := range plans {
		for _, s := range stops {
			if p.isStopped() && s.Connection == p.Connection {
				plans[i].Stops = append(plans[i].Stops, s)
			}
		}
	}
	return plans, err
}

// isStopped reports whether creates of the plan may wait for a person's decision.
func (p Plan) isStopped() bool { return p.State == PlanWaiting && p.Creates > 0 }

func scanPlans(rows *sql.Rows) ([]Plan, error) {
	defer rows.Close()
	out := []Plan{}
	for rows.Next() {
		var p Plan
		var at, approved, rejected sql.NullString
		var sent string
		if err := rows.Scan(&p.ID, &p.Connection, &p.RunID, &p.Hash, &p.Mapping, &p.State, &at, &p.Creates, &p.Adopts,
			&p.Updates, &p.Links, &p.Holds, &p.Alike, &p.Missing, &p.Lost, &p.Limits, &p.Profile,
			&p.ApprovedBy, &approved, &p.RejectedBy, &rejected, &p.Rejection, &sent); err != nil {
			return nil, fmt.Errorf("read the plans: %w", err)
		}
		var made, yes, no, runs error
		p.CreatedAt, made = parseTime(at)
		p.ApprovedAt, yes = parseTime(approved)
		p.RejectedAt, no = parseTime(rejected)
		p.SentBy, runs = openRuns(sent)
		if err := errors.Join(made, yes, no, runs); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// LinkedCount returns how many payers of the connection are linked: the base of the percentage guards. It counts the
// payers with a customer less those with a missing customer. Most have the state linked, which implies a customer, so
// indexes have nearly all of the answer.
func (l *Ledger) LinkedCount(ctx context.Context, connection string) (int, error) {
	return single[int](l.queryRow(ctx, `SELECT
		(SELECT count(*) FROM payers p WHERE p.connection = ?1 AND p.link_state = 'linked') +
		(SELECT count(*) FROM payers p WHERE p.connection = ?1 AND p.billing_id IS NOT NULL
			AND p.link_state IN ('new', 'creating', 'missing', 'conflict', 'held')) -
		(SELECT count(*) FROM remote_customers g INDEXED BY remote_customers_missing CROSS JOIN payers p ON p.billing_id = g.billing_id
			WHERE g.digest = '' AND p.connection = ?1)`, connection))
}
