package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrPlanNotWaiting means that the plan to approve is not waiting any more.
var ErrPlanNotWaiting = errors.New("no such plan is waiting for approval")

// ErrPlanChanged means that a plan holds other changes by now than somebody chose from.
var ErrPlanChanged = errors.New("the plan has changed meanwhile")

// unrejected takes a person's no to a plan back.
const unrejected = "rejected_by = '', rejected_at = NULL, rejected_why = ''"

// Approve lets exactly the pending changes of a waiting or rejected plan pass the guards, and
// releases the payers that it would lose. Additions of a later plan must pass the guards again.
func (tx *Tx) Approve(plan int64, actor string) error {
	n, err := tx.count("UPDATE plans SET state = 'approved', approved_by = ?, approved_at = ?, "+unrejected+" WHERE plan_id = ? AND state IN ('waiting', 'draft')",
		actor, stamp(tx.now), plan)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrPlanNotWaiting
	}
	freed, err := tx.approve(plan, "NOT "+waitsForPerson)
	if err != nil {
		return err
	}
	if err := tx.keepCreates(plan, freed); err != nil {
		return err
	}
	if err := errors.Join(tx.dropLost(plan), tx.acceptProfile(plan, actor)); err != nil {
		return err
	}
	return tx.auditPlan(plan, Entry{Actor: actor, Action: "approve plan"}, "")
}

// keepCreates leaves a plan waiting if its only unapproved changes are creates that need a person's decision.
// It fails with *CreatesWaitError if the plan had no others.
func (tx *Tx) keepCreates(plan, freed int64) error {
	p, err := tx.queryPlan("WHERE plan_id = ?", plan)
	if err != nil || p.Missing > 0 {
		return err
	}
	kept, err := tx.stoppedCreates(p.Connection)
	if err != nil || kept == 0 {
		return err
	}
	stops, err := tx.createStops(p.Connection)
	if err != nil {
		return err
	}
	if freed == 0 && p.Lost == 0 && p.Profile == "" {
		return &CreatesWaitError{stops}
	}
	return errors.Join(tx.SetPlanState(plan, PlanWaiting, StopsText(stops)),
		tx.exec("UPDATE plans SET lost = 0 WHERE plan_id = ?", plan))
}

// ApproveOpen approves the pending changes of a plan. Changes left out by a person keep the plan waiting, for
// the reason in limits. It releases the payers lost by the plan, so the standstill ends.
func (tx *Tx) ApproveOpen(plan int64, actor, limits string) error {
	return errors.Join(tx.ApproveWithinLimits(plan), tx.SetPlanState(plan, PlanWaiting, limits),
		tx.dropLost(plan), tx.acceptProfile(plan, actor), tx.exec("UPDATE plans SET lost = 0 WHERE plan_id = ?", plan),
		tx.auditPlan(plan, Entry{Actor: actor, Action: "approve part of plan"}, "all but the changes left out before"))
}

// ApproveSome lets some pending changes of a plan, by their ids, pass the guards. which describes
// them in words. The others wait for a word of their own, and the plan with them.
func (tx *Tx) ApproveSome(plan int64, changes []int64, actor, which string) error {
	n, err := tx.count("UPDATE plans SET state = 'waiting', approved_by = ?, approved_at = ?, "+unrejected+" WHERE plan_id = ? AND missing + lost = 0 AND state IN ('waiting', 'draft')",
		actor, stamp(tx.now), plan)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrPlanNotWaiting
	}
	ids, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	const chosen = "c.change_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?1))"
	if err := tx.noneWaits(plan, chosen, string(ids)); err != nil {
		return err
	}
	n, err = tx.changePlan(plan, "approved = 1", chosen, string(ids))
	if err != nil {
		return err
	}
	if n != int64(len(changes)) {
		return ErrPlanChanged
	}
	if n, err = tx.changePlan(plan, "left_out = 1", "NOT "+isApproved+" AND NOT "+waitsForPerson); err != nil {
		return err
	}
	if err := tx.leaveWaiting(plan, LeftOut(int(n))); err != nil {
		return err
	}
	return tx.auditPlan(plan, Entry{Actor: actor, Action: "approve part of plan"}, which)
}

// noneWaits fails with *CreatesWaitError if a matching change of a plan waits for a person's
// decision on all creates.
func (tx *Tx) noneWaits(plan int64, which string, ids string) error {
	var connection string
	var waits bool
	if err := tx.row([]any{&connection, &waits},
		"SELECT p.connection, EXISTS (SELECT 1 FROM changes c WHERE c.plan_id = p.plan_id AND c.state = 'pending' AND "+which+" AND "+waitsForPerson+") FROM plans p WHERE p.plan_id = ?2",
		ids, plan); err != nil || !waits {
		return err
	}
	stops, err := tx.createStops(connection)
	if err != nil {
		return err
	}
	return &CreatesWaitError{stops}
}

// leaveWaiting stores why a partly approved plan waits; a plan that does not wait keeps no reason.
func (tx *Tx) leaveWaiting(plan int64, leftOut string) error {
	p, err := tx.queryPlan("WHERE plan_id = ?", plan)
	if err != nil {
		return err
	}
	why := leftOut
	kept, err := tx.stoppedCreates(p.Connection)
	if err != nil {
		return err
	}
	if kept > 0 {
		stops, err := tx.createStops(p.Connection)
		if err != nil {
			return err
		}
		why = strings.TrimSpace(why + " " + StopsText(stops))
	}
	to := PlanWaiting
	if why == "" { // it was the whole plan
		to = PlanApproved
	}
	return tx.SetPlanState(plan, to, why)
}

// LeftOut describes the changes that wait for a decision of their own; "" for none.
func LeftOut(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 change was left out of an approval or rejected, and waits to be approved by itself."
	}
	return fmt.Sprintf("%d changes were left out of an approval or rejected, and wait to be approved by themselves.", n)
}

// Reject ends a waiting plan. None of it is sent, including its approved changes, and an identical
// plan asks no approval again. It fails with ErrRunOpen while a run of its connection may be
// sending it.
func (tx *Tx) Reject(plan int64, actor, why string) error {
	var connection string
	err := tx.row([]any{&connection}, "SELECT connection FROM plans WHERE plan_id = ?", plan)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrPlanNotWaiting
	}
	if err != nil {
		return err
	}
	var sending bool
	if err := tx.row([]any{&sending},
		"SELECT EXISTS (SELECT 1 FROM runs WHERE connection = ? AND finished_at IS NULL AND lease_until > ?)", connection,
		stamp(tx.now)); err != nil {
		return err
	}
	if sending {
		return &ErrRunOpen{Connection: connection}
	}
	n, err := tx.count(`UPDATE plans SET state = 'waiting', rejected_by = ?, rejected_at = ?, rejected_why = ?
		WHERE plan_id = ? AND missing = 0 AND (lost = 0 OR state = 'approved') AND rejected_at IS NULL AND state IN ('waiting', 'draft', 'approved')`, actor, stamp(tx.now), why, plan)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrPlanNotWaiting
	}
	if err := tx.approveEach(plan); err != nil {
		return err
	}
	if _, err := tx.changePending(connection, "approved = 0, left_out = 1", "c.plan_id = ?1", plan); err != nil {
		return err
	}
	return tx.auditPlan(plan, Entry{Actor: actor, Action: "reject plan"}, why)
}

// auditPlan records a person's act on a plan: its hash, and the words for it.
func (tx *Tx) auditPlan(plan int64, e Entry, words string) error {
	if err := tx.row([]any{&e.Reason}, "SELECT hash FROM plans WHERE plan_id = ?", plan); err != nil {
		return err
	}
	if e.Subject = fmt.Sprint(plan); words != "" {
		e.Reason += ": " + words
	}
	return tx.Audit(e)
}
