package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// PastChange is one change of a payer, with any result.
type PastChange struct {
	ID        int64                   `json:"change_id"`
	RunID     int64                   `json:"run_id"`            // the last run with it
	Plan      int64                   `json:"plan_id,omitempty"` // the plan that listed it last; 0 for none
	Action    connector.Action        `json:"action"`
	State     connector.ChangeState   `json:"state"`
	Approved  bool                    `json:"approved"`
	Attempts  int                     `json:"attempts"`
	FrozenAt  time.Time               `json:"frozen_at,omitzero"` // when its bytes were fixed
	UpdatedAt time.Time               `json:"updated_at"`
	Reason    connector.Reason        `json:"reason,omitempty"`
	Detail    string                  `json:"detail,omitempty"`
	Diff      []connector.FieldChange `json:"diff,omitempty"`
	Erased    Erasure                 `json:"values_erased,omitempty"` // why Diff is not kept; "" while it is
}

// Erasure is why the values of a change are not kept.
type Erasure string

// The erasures.
const (
	ErasedForgotten Erasure = "forgotten" // the payer was forgotten
	ErasedOld       Erasure = "old"       // an older version of payersync kept values for a time only
)

// Sentence says for people why the values of a change are not shown; "" while they are kept.
func (e Erasure) Sentence() string {
	switch e {
	case "":
		return ""
	case ErasedForgotten:
		return "Its values were erased when the payer was forgotten."
	}
	return "Its values are no longer kept: they were older than the retention of that time."
}

// pastColumns are the columns for pastRow of change c, which a plan has listed.
var pastColumns = "c.change_id, c.run_id, c.plan_id, " + morePastColumns

// anyPastColumns are pastColumns for a change that perhaps no plan has listed.
var anyPastColumns = "c.change_id, c.run_id, coalesce((SELECT q.plan_id FROM plans q WHERE q.plan_id = c.plan_id AND " +
	isFinished + "), 0), " + morePastColumns

var morePastColumns = `CASE c.unlinks WHEN 1 THEN 'unlink' ELSE c.action END, c.state, ` + approvedAs("c") +
	`, c.attempts,
	c.frozen_at, c.updated_at, c.reason, c.detail, c.diff, CASE WHEN c.diff IS NULL AND c.action = 'create' THEN c.wanted END,
	CASE WHEN c.diff IS NOT NULL OR c.lane = 'mandate' OR c.action = 'create' AND c.wanted IS NOT NULL THEN '' WHEN c.change_hash = '' THEN 'forgotten' ELSE 'old' END`

// pastRow is a past change as scanned.
type pastRow struct {
	PastChange
	frozen, updated sql.NullString
	diff, wanted    []byte // wanted of a create whose field changes follow from it
}

func (r *pastRow) dest() []any {
	return []any{&r.ID, &r.RunID, &r.Plan, &r.Action, &r.State, &r.Approved, &r.Attempts, &r.frozen, &r.updated, &r.Reason,
		&r.Detail, &r.diff, &r.wanted, &r.Erased}
}

// pastChange returns a scanned change with its field changes opened.
func (l *Ledger) pastChange(r pastRow) (PastChange, error) {
	out := r.PastChange
	var frozen, updated error
	out.FrozenAt, frozen = parseTime(r.frozen)
	out.UpdatedAt, updated = parseTime(r.updated)
	var wanted connector.Customer
	if err := errors.Join(frozen, updated, l.openJSON(r.diff, changePlace("diff", r.ID), &out.Diff),
		l.openJSON(r.wanted, changePlace("wanted", r.ID), &wanted)); err != nil {
		return out, fmt.Errorf("change %d: %w", r.ID, err)
	}
	if r.wanted != nil {
		out.Diff = connector.Diff(connector.Customer{}, wanted)
	}
	return out, nil
}

// ChangesOf returns every change of a record, oldest first.
func (l *Ledger) ChangesOf(ctx context.Context, connection, sourceID string) ([]PastChange, error) {
	out := []PastChange{}
	err := each(ctx, l, "SELECT "+anyPastColumns+" FROM changes c WHERE c.connection = ? AND c.source_id = ? ORDER BY c.change_id",
		[]any{connection, sourceID}, (*pastRow).dest, func(r pastRow) error {
			c, err := l.pastChange(r)
			out = append(out, c)
			return err
		})
	if err != nil {
		return nil, err
	}
	return out, nil
}
