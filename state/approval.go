package state

import "strings"

// isApproved is the condition that change c may be sent: it was approved by itself, or the plan that lists it was
// released as a whole. Every reader of an approval uses it.
const isApproved = "(c.approved = 1 OR EXISTS (SELECT 1 FROM plans released WHERE released.plan_id = c.plan_id AND released.released = 1))"

// approvedAs is isApproved as a value of a change with another name.
func approvedAs(change string) string {
	return "CASE WHEN " + strings.ReplaceAll(isApproved, "c.", change+".") + " THEN 1 ELSE 0 END"
}

// approve approves the pending changes of a plan under a condition, and returns how many were not approved before. If
// it is all of them, one row says so, and no change is written.
func (tx *Tx) approve(plan int64, which string) (int64, error) {
	var kept, freed int64
	if err := tx.row([]any{&kept, &freed},
		`SELECT count(*) FILTER (WHERE NOT (`+which+`)), count(*) FILTER (WHERE `+which+`) FROM plans p
		CROSS JOIN changes c WHERE p.plan_id = ?1 AND c.connection = p.connection AND c.plan_id = p.plan_id AND c.state = 'pending' AND NOT `+isApproved, plan); err != nil {
		return 0, err
	}
	switch {
	case freed == 0:
		return 0, nil
	case kept == 0:
		return freed, tx.exec("UPDATE plans SET released = 1 WHERE plan_id = ?", plan)
	}
	return tx.changePlan(plan, "approved = 1", "NOT "+isApproved+" AND "+which)
}

// approveEach moves the approval of a released plan to its changes, before the plan lists other changes or a person
// takes the approval of some back.
func (tx *Tx) approveEach(plan int64) error {
	n, err := tx.count("UPDATE plans SET released = 0 WHERE plan_id = ? AND released = 1", plan)
	if err != nil || n == 0 {
		return err
	}
	for last := int64(0); n > 0; {
		after := last
		if err := tx.row([]any{&n, &last},
			"SELECT count(*), coalesce(max(change_id), 0) FROM (SELECT change_id FROM changes WHERE plan_id = ? AND change_id > ? ORDER BY change_id LIMIT ?) AS part",
			plan, after, partOfPlan); err != nil {
			return err
		}
		if err := tx.exec("UPDATE changes SET approved = 1 WHERE plan_id = ? AND change_id > ? AND change_id <= ? AND approved = 0", plan, after, last); err != nil {
			return err
		}
	}
	return nil
}
