package pages

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// addLosses adds the payers lost if a stopped plan goes ahead.
func (v *visit) addLosses(page *planPage) error {
	if page.Lost == 0 || page.State != state.PlanWaiting {
		return nil
	}
	var lost []state.LostPayer
	if err := admin.EachLost(v.Context(), v.ledger(), page.PlanProgress.Plan, rowsShown, func(l state.LostPayer) error {
		lost = append(lost, l)
		return nil
	}); err != nil {
		return err
	}
	ids := make([]state.RecordID, len(lost))
	for i, l := range lost {
		ids[i] = state.RecordID{Connection: page.Connection, SourceID: l.SourceID}
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	for i, l := range lost {
		page.Losses = append(page.Losses,
			lostRow{payerName{page.Connection, l.SourceID, labels[ids[i]].Name}, admin.WhyLost(l)})
	}
	page.LostMore = page.Lost - len(lost)
	return err
}

// judge approves a plan, a part of it, or rejects it, exactly as it was shown.
func (v *visit) judge() error {
	if !v.User.Role.May(v.pages.cfg.Approvers) {
		return forbidden(v.pages.cfg.Approvers)
	}
	p, err := v.planAsked()
	if err != nil {
		return err
	}
	if v.filled("do") == "ask" {
		return v.askApproval(p)
	}
	p.Reads = v.filled("reads")
	note := ""
	switch do := v.filled("do"); do {
	case "all":
		note = fmt.Sprintf("Plan %d is approved, with %s. Nothing was sent yet: the next run sends it.", p.ID,
			connector.Plural(p.Pending, "change"))
		switch {
		case p.Standstill():
			note = fmt.Sprintf("Plan %d is approved. The next run goes on without these records.", p.ID)
		case p.Profile != "":
			note = fmt.Sprintf("Plan %d and the edited profile are approved. Scheduled runs go on, and the next run sends the plan.",
				p.ID)
		}
		err = admin.Approve(v.Context(), v.ledger(), p, v.approver())
	case "some":
		note, err = v.approveTicked(p)
	case "reject":
		why, wrong := v.why()
		if wrong != nil {
			return wrong
		}
		if why == "" {
			return problem{Status: http.StatusUnprocessableEntity, Title: "Say why",
				Sentence: "To reject a plan you must give a reason. Nothing was changed.",
				Next:     "Go back, and write the reason into the field beside the button."}
		}
		note = fmt.Sprintf("Plan %d is rejected. payersync sends none of its changes.", p.ID)
		err = admin.Reject(v.Context(), v.ledger(), p, v.User.Name, why)
	default:
		return problem{Status: http.StatusBadRequest, Title: "Nothing was changed",
			Sentence: "The form did not say what to do with the plan.", Next: "Open the plan, and use one of its buttons."}
	}
	if errors.Is(err, state.ErrPlanChanged) || errors.Is(err, state.ErrPlanNotWaiting) {
		return v.judgedMeanwhile(err)
	}
	var open *state.ErrRunOpen
	var wait *state.CreatesWaitError
	switch {
	case errors.As(err, &wait):
		return problem{Status: http.StatusConflict, Title: "New customers wait", Sentence: "Nothing was approved. " +
			wait.Stops[0].Sentence(), Next: "Decide on that first.", Path: "/matches"}
	case errors.Is(err, admin.ErrSameEyes):
		return problem{Status: http.StatusForbidden, Title: "Somebody else approves this",
			Sentence: "You saved the mapping version of this plan. Nothing was approved.",
			Next:     "Ask somebody else who may approve to look at it."}
	case errors.Is(err, admin.ErrTogether):
		return problem{Status: http.StatusConflict, Title: "Nothing was approved",
			Sentence: "The removals of this plan need one approval.",
			Next:     "Approve the whole plan, or correct the accounting system or the mapping."}
	case errors.As(err, &open):
		return problem{Status: http.StatusConflict, Title: "A run is in progress",
			Sentence: "It may be sending approved changes of this plan. Nothing was changed.",
			Next:     "Wait until it has ended, and look at the plan again."}
	case err != nil:
		return err
	}
	return v.done(note, fmt.Sprintf("/plans/%d", p.ID))
}

// Asks reports whether a large plan is approved on a page of its own, with its counts.
func (p planPage) Asks() bool { return p.Pending >= foldedFrom && !p.Whole() }

// askApproval shows the counts of a plan before a person approves all of it. It is shown again if it changed.
func (v *visit) askApproval(p admin.PlanProgress) error {
	if p.Reads != v.filled("reads") || !p.Approvable() {
		return v.judgedMeanwhile(state.ErrPlanChanged)
	}
	counts, err := admin.GroupCounts(v.Context(), v.ledger(), p)
	if err != nil {
		return err
	}
	page := struct {
		admin.PlanProgress
		Takes  time.Duration
		Counts []string
	}{PlanProgress: p, Takes: p.Takes(v.pages.cfg.Rate)}
	for _, kind := range state.PlanGroups {
		if n := counts[kind]; n > 0 {
			page.Counts = append(page.Counts, connector.Plural(n, groupCounts[kind][0])+groupCounts[kind][1])
		}
	}
	return v.showAs(http.StatusOK, "approve", fmt.Sprintf("Approve plan %d", p.ID), page)
}

// groupCounts are a change of a group, and what follows its plural.
var groupCounts = map[state.PlanGroup][2]string{
	state.GroupWatch: {"change", " to look at first"}, state.GroupAdopt: {"customer", " linked"},
	state.GroupUpdate: {"customer", " updated"},
	state.GroupCreate: {"new customer", ""}, state.GroupLink: {"signing link", " requested"},
}

// approver is the person approving.
func (v *visit) approver() admin.Approver {
	return admin.Approver{Name: v.User.Name, FourEyes: v.pages.cfg.FourEyes}
}

// approveTicked approves the ticked changes.
func (v *visit) approveTicked(p admin.PlanProgress) (note string, err error) {
	var ids []int64
	for _, text := range v.Form["change"] {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", problem{Status: http.StatusUnprocessableEntity, Title: "Nothing is selected",
			Sentence: "Nothing was approved.", Next: "Go back, and select the changes to approve."}
	}
	words := strings.Trim(fmt.Sprint(ids), "[]")
	err = admin.ApproveSome(v.Context(), v.ledger(), p, ids, v.approver(),
		connector.Plural(len(ids), "selected change")+": "+words)
	return fmt.Sprintf("%s of plan %d approved. Nothing was sent yet: the next run sends exactly these. The others wait.",
		connector.Plural(len(ids), "change"), p.ID), err
}

// judgedMeanwhile answers a visitor whose decision on a plan came too late. It names the faster person, or shows the
// plan as it is now.
func (v *visit) judgedMeanwhile(err error) error {
	now, wrong := v.planAsked()
	if wrong != nil {
		return wrong
	}
	is := problem{Status: http.StatusConflict, Title: "The plan does not wait",
		Next: "You need not do anything. The list of plans shows the waiting ones.", Path: "/plans"}
	switch {
	case now.State == state.PlanApproved:
		is.Sentence = fmt.Sprintf("Plan %d was approved by %s on %s. Nothing else was changed.", now.ID, now.ApprovedBy,
			now.ApprovedAt.UTC().Format("2 Jan 2006 at 15:04 UTC"))
		return is
	case now.State == state.PlanRejected:
		is.Sentence = fmt.Sprintf("Plan %d was rejected by %s on %s. Nothing else was changed.", now.ID, now.RejectedBy,
			now.RejectedAt.UTC().Format("2 Jan 2006 at 15:04 UTC"))
		return is
	case errors.Is(err, state.ErrPlanChanged):
		return v.stalePlan(now)
	}
	is.Sentence = fmt.Sprintf("Plan %d is %s. Nothing was changed.", now.ID, now.State)
	return is
}

// stalePlan answers a visitor with an outdated plan. It shows the current content, or the plan's successor.
func (v *visit) stalePlan(p admin.PlanProgress) error {
	if p.State == state.PlanSuperseded || p.State == state.PlanApplied {
		waiting, err := v.ledger().WaitingPlans(v.Context())
		if err != nil {
			return err
		}
		for _, w := range waiting {
			if w.Connection == p.Connection {
				if p, err = admin.PlanOf(v.Context(), v.ledger(), w); err != nil {
					return err
				}
			}
		}
	}
	seen, _ := strconv.ParseInt(v.filled("seen"), 10, 64)
	page, err := v.planPage(p, seen)
	if err != nil {
		return err
	}
	page.Stale = true
	return v.showAs(http.StatusConflict, "plan", "The plan changed", page)
}

// planChip returns the chip of a plan.
func planChip(p state.Plan) chip {
	switch p.State {
	case state.PlanWaiting:
		return chip{"◷", "Waits for approval", waits}
	case state.PlanApproved:
		return chip{"✓", "Approved, not sent yet", bank}
	case state.PlanRejected:
		return chip{"✕", "Rejected", stopped}
	case state.PlanApplied:
		return chip{"✓", "Sent", good}
	case state.PlanSuperseded:
		return chip{"–", "Replaced by a newer plan", none}
	}
	return chip{"–", "Within the limits", none}
}
