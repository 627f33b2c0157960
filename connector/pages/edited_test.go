package pages_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/syncer"
)

// profile is a profile that fits itself.
type profile string

func (p profile) Meaning() string                  { return string(p) }
func (p profile) FitsItself(context.Context) error { return nil }

func TestAnEditedProfileIsAcceptedByItsPlanAlsoWithoutAChange(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	plan := func(by profile) int64 {
		t.Helper()
		conn := h.conn
		conn.Profile = by
		return must(h.syncer.Run(t.Context(), conn,
			syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"}))(t).Plan.ID
	}
	plan("first")
	page := fmt.Sprintf("/plans/%d", plan("second"))
	v := h.enter("olga", pages.Operator)
	holds(t, v.get("/", http.StatusOK), "A source&#39;s profile was edited")
	shown := v.get(page, http.StatusOK)
	holds(t, shown, "The profile of the accounting system was edited", "before somebody approves it")
	v.post(page, http.StatusOK, "do", "all", "reads", fields(shown, "reads")[0])
	if stopped, err := h.ledger.EditedProfiles(t.Context()); err != nil || len(stopped) > 0 {
		t.Errorf("after the approval %v are stopped, %v", stopped, err)
	}
}
