package state

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// key is the key that tests give the payer of a record.
func key(value string) connector.Key { return connector.Key{Name: "acct", Value: value} }

// customer is what a mapping renders of a record.
func customer(id, name string) connector.Customer {
	return connector.Customer{
		Name: name, People: []connector.Person{{Name: name, Email: id + "@example.com"}}, ExternalData: map[string]string{"acct": id},
	}
}

func (d *desk) decide(run int64, connection string, decisions ...Decision) {
	d.t.Helper()
	d.do(func(tx *Tx) error { return tx.SaveDecisions(run, connection, mapping, decisions...) })
}

// included is the decision to do one thing for a record that was saved.
func included(r connector.Record, c *NewChange) Decision {
	return Decision{SourceID: r.SourceID, ContentHash: r.Hash(), Verdict: Included, Key: key(r.SourceID), Customer: c}
}

// A plan is gathered and approved some changes at a time, and as a whole all the same.
func TestAPlanOfVeryManyChangesIsGatheredAndApprovedWhole(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	const many = partOfPlan + 10
	var records []connector.Record
	var decisions []Decision
	for i := range many {
		r := record(fmt.Sprint("c", i), "Ada")
		records = append(records, r)
		decisions = append(decisions, included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(r.SourceID, "Ada")}))
	}
	d.save(run, acme, records...)
	d.decide(run, acme, decisions...)
	d.planCreate(d.run("beta"), "beta", "c1") // another's
	plan := d.finishPlan(run)
	if plan.Creates != many {
		t.Fatalf("the plan creates %d, want %d", plan.Creates, many)
	}
	count := func(which string) int { return one[int](t, d.Ledger, "SELECT count(*) FROM changes c WHERE "+which) }
	if of, none := count(fmt.Sprint("plan_id = ", plan.ID)), count("plan_id IN (SELECT plan_id FROM plans WHERE hash = '')"); of != many || none != 1 {
		t.Errorf("%d changes are of the plan and %d of none, want %d and 1", of, none, many)
	}
	d.do(func(tx *Tx) error { return tx.Approve(plan.ID, "Olive") })
	if n, of := count(isApproved), count(isApproved+fmt.Sprint(" AND plan_id = ", plan.ID)); n != many || of != many {
		t.Errorf("%d changes are approved, %d of the plan, want %d", n, of, many)
	}
}

// An unfinished plan has a number for its changes, and nobody sees it.
func TestAnUnfinishedPlanIsSeenByNobody(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	first := d.run(acme)
	d.planCreate(first, acme, "c1")
	begun := one[int64](t, d.Ledger, "SELECT plan_id FROM changes")
	unseen := func(id string) {
		t.Helper()
		changes, err := d.ChangesOf(ctx, acme, id)
		if err != nil || len(changes) != 1 || changes[0].Plan != 0 {
			t.Errorf("the changes of %s are %+v, %v; want one of no plan", id, changes, err)
		}
	}
	unseen("c1")
	if plans, err := d.StoredPlans(ctx, ""); err != nil || len(plans) > 0 {
		t.Errorf("there are %+v, %v; want no plan", plans, err)
	}
	if _, err := d.FindPlan(ctx, fmt.Sprint(begun)); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("the unfinished plan is found: %v", err)
	}
	if was, err := d.WasPlanned(ctx, acme); err != nil || was {
		t.Errorf("a connection without a finished plan was planned: %t, %v", was, err)
	}
	d.closeRun(first, connector.RunIncomplete)
	second := d.run(acme)
	d.planCreate(second, acme, "c2")
	plan := d.finishPlan(second)
	if plan.ID != begun || plan.RunID != second || plan.Creates != 2 {
		t.Errorf("%+v, want plan %d of both creates", plan, begun)
	}
	d.closeRun(second, connector.RunComplete)

	third := d.run(acme)
	d.planCreate(third, acme, "c3")
	var held Plan
	d.do(func(tx *Tx) (err error) {
		held, err = tx.HoldUnseen(third, acme, mapping, 1, "Too many are missing.")
		return err
	})
	d.closeRun(third, connector.RunIncomplete)
	unseen("c3")
	last := d.finishPlan(d.run(acme))
	if last.ID <= held.ID || last.Creates != 3 {
		t.Errorf("%+v, want a plan of 3 creates newer than %d", last, held.ID)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE source_id = 'c3' AND plan_id = ?1 AND first_plan = ?1", last.ID); n != 1 {
		t.Error("another plan than the last one lists a change of an unfinished plan")
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE source_id <> 'c3' AND plan_id = ?1 AND first_plan = ?2", last.ID, plan.ID); n != 2 {
		t.Error("the last plan does not list the changes of the plan before")
	}
	if plans, err := d.StoredPlans(ctx, ""); err != nil || len(plans) != 3 {
		t.Errorf("there are %d plans, %v; want 3", len(plans), err)
	}
}

// planCreate saves a record and plans the create of its customer.
func (d *desk) planCreate(run int64, connection, id string) Change {
	d.t.Helper()
	r := record(id, id)
	d.save(run, connection, r)
	d.decide(run, connection, included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(id, id)}))
	return d.open(connection, id, LaneCustomer)
}

// planLinked saves a record of acme, links it and plans a change of its customer.
func (d *desk) planLinked(run int64, id, billingID string, action connector.Action) Change {
	d.t.Helper()
	r := record(id, id)
	d.save(run, acme, r)
	d.decide(run, acme, included(r, &NewChange{Action: action, Wanted: customer(id, id), BillingID: billingID}))
	d.link(acme, id, billingID)
	return d.open(acme, id, LaneCustomer)
}

// planLink saves a linked record of acme and plans to ask for its signing link.
func (d *desk) planLink(run int64, id, billingID string) Change {
	d.t.Helper()
	r := record(id, id)
	d.save(run, acme, r)
	v := included(r, nil)
	v.Link = true
	v.Facts.hash = customer(id, id).Hash()
	d.decide(run, acme, v)
	d.link(acme, id, billingID)
	p := d.payerOf(acme, id)
	d.do(func(tx *Tx) error { return tx.SetApplied(p, customer(id, id)) })
	return d.open(acme, id, LaneMandate)
}

func (d *desk) link(connection, id, billingID string) {
	d.t.Helper()
	p := d.payerOf(connection, id)
	d.do(func(tx *Tx) error { return tx.LinkPayer(p, billingID, true) })
}

func (d *desk) payerOf(connection, id string) Payer {
	d.t.Helper()
	p, err := d.Payer(context.Background(), connection, id)
	if err != nil {
		d.t.Fatalf("payer %s: %v", id, err)
	}
	return p
}

// open returns the one open change of a payer's lane.
func (d *desk) open(connection, id, lane string) Change {
	d.t.Helper()
	for _, pending := range []bool{true, false} {
		all, err := d.Changes(context.Background(), connection, lane, pending, 0, 1000)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, c := range all {
			if c.Payer.SourceID == id {
				return c
			}
		}
	}
	d.t.Fatalf("%s has no open change of its %s", id, lane)
	return Change{}
}

func (d *desk) finishPlan(run int64) (p Plan) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		p, err = tx.FinishPlan(run, acme, mapping, func(l Losses) bool { return l.Lost() > 2 })
		return err
	})
	return p
}

func TestADecisionMakesPayerAttentionAndChange(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	r := record("c1", "Ada")
	d.save(run, acme, r)
	want := customer("c1", "Ada")
	v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: want, Diff: connector.Diff(connector.Customer{}, want)})
	v.Link, v.Topic = true, TopicLink
	d.decide(run, acme, v.Because(connector.ReasonLikeness, ""))

	c := d.open(acme, "c1", LaneCustomer)
	if c.Action != connector.ActionCreate || c.State != connector.ChangePending || c.Body != nil || c.BillingID != "" {
		t.Errorf("the change is %+v, want a pending create", c)
	}
	if diff := cmp.Diff(want, c.Wanted); diff != "" {
		t.Errorf("wanted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(connector.Diff(connector.Customer{}, want), c.Diff); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if p := c.Payer; p.Key != key("c1") || p.LinkState != connector.LinkNew || p.Applied != nil || p.BillingID != "" {
		t.Errorf("the payer is %+v, want a new one", p)
	}
	if l := d.open(acme, "c1", LaneMandate); l.Action != connector.ActionLink {
		t.Errorf("the mandate's change is %+v, want a link request", l)
	}
	rows, err := d.AttentionOf(t.Context(), acme, "c1")
	if err != nil || len(rows) != 1 || rows[0].Reason != "likeness" || rows[0].Detail != connector.ReasonLikeness.Sentence() {
		t.Errorf("attention is %+v, %v; want the likeness with its sentence", rows, err)
	}

	d.decide(run, acme, included(r, nil))
	if rows, err := d.AttentionOf(t.Context(), acme, "c1"); err != nil || len(rows) != 0 {
		t.Errorf("attention is %+v, %v after a decision without a reason, want none", rows, err)
	}
	if n, err := d.PendingCount(t.Context(), acme, LaneCustomer); n != 0 || err != nil {
		t.Errorf("%d changes wait, %v; want none", n, err)
	}
}

func TestAttentionKeepsItsTimeWhileTheReasonStays(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	say := func(r connector.Reason, detail string) AttentionRow {
		d.do(func(tx *Tx) error { return tx.tell(acme, "c1", TopicMandate, r, detail) })
		rows, err := d.AttentionOf(t.Context(), acme, "c1")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		return rows[0]
	}
	first := say(connector.ReasonLinkRefused, "")
	d.clock.move(Lease)
	if again := say(connector.ReasonLinkRefused, "Again."); again.Since != first.Since || again.Detail != "Again." {
		t.Errorf("got %+v, want the time of the first and the detail of the last", again)
	}
	if other := say(connector.ReasonLinkLost, ""); other.Since == first.Since {
		t.Error("another reason kept the time of the first")
	}
	d.do(func(tx *Tx) error { return tx.tell(acme, "c1", TopicLink, "", "") })
	if rows, err := d.AttentionOf(t.Context(), acme, "c1"); err != nil || len(rows) != 1 {
		t.Errorf("no finding about the link left %v, %v", rows, err)
	}
}

// covers F64, F74
func TestWhatIsBroughtInLineAfterARestoreCountsForTheLimits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c, _ := d.freeze(run, d.planCreate(run, acme, "c1"), "{}")
	d.do(func(tx *Tx) error {
		return errors.Join(tx.LinkPayer(c.Payer, "b1", true), tx.CloseDone(run, c), tx.MarkRestored())
	})
	d.do(func(tx *Tx) error { return tx.SetShown(d.payerOf(acme, "c1"), false) })
	d.decide(run, acme, included(record("c1", "c1"), &NewChange{Action: connector.ActionUpdate, Wanted: c.Wanted, BillingID: "b1"}))
	if p := d.finishPlan(run); p.Updates != 1 || p.Open.Changes != 1 {
		t.Errorf("%d updates, %d of them for the limits; want 1 and 1", p.Updates, p.Open.Changes)
	}
}

// covers F43
func TestNothingElseIsToldOfACustomerThatIsMissing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	say := func(r connector.Reason) string {
		d.do(func(tx *Tx) error {
			tx.Explain(Payer{Connection: acme, SourceID: "c1"}, TopicLink, r, "")
			return nil
		})
		rows, err := d.AttentionOf(t.Context(), acme, "c1")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		return rows[0].Reason
	}
	if got := say(connector.ReasonOutcomeUnknown); got != string(connector.ReasonOutcomeUnknown) {
		t.Errorf("attention is %s, want outcome_unknown", got)
	}
	d.do(func(tx *Tx) error { _, err := tx.ForgetRemote("b1", 5); return err })
	for _, r := range []connector.Reason{connector.ReasonCustomerMissing, connector.ReasonForeignChange} {
		if got := say(r); got != string(connector.ReasonCustomerMissing) {
			t.Errorf("after %s attention is %s, want customer_missing", r, got)
		}
	}
	d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b1", key("c1")), 6); return err })
	if got := say(connector.ReasonForeignChange); got != string(connector.ReasonForeignChange) {
		t.Errorf("once it is back, attention is %s, want foreign_change", got)
	}
}

// covers F74, S13
func TestAnIdenticalPendingChangeStaysWithItsApproval(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planCreate(run, acme, "c1")
	plan := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.SetPlanState(plan.ID, PlanWaiting, "more than 0 creates") })
	d.do(func(tx *Tx) error { return tx.Approve(plan.ID, "ada") })

	edited := record("c1", "c1")
	edited.Data = []byte(`{"Name":"c1","Note":"not mapped"}`)
	d.save(run, acme, edited)
	d.decide(run, acme, included(edited, &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "c1")}))
	if again := d.open(acme, "c1", LaneCustomer); again.ID != c.ID {
		t.Errorf("change %d became %d although it says the same", c.ID, again.ID)
	}
	if p := d.finishPlan(run); p.Creates != 1 || p.Open.Creates != 0 {
		t.Errorf("%d creates, %d of them not approved; want 1 and 0", p.Creates, p.Open.Creates)
	}

	d.decide(run, acme, included(edited, &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "Someone else")}))
	other := d.open(acme, "c1", LaneCustomer)
	if other.ID == c.ID || other.Wanted.Name != "Someone else" {
		t.Errorf("change %d wants %q, want a new change", other.ID, other.Wanted.Name)
	}
	if got := one[string](t, d.Ledger, "SELECT state FROM changes WHERE change_id = ?", c.ID); got != "void" {
		t.Errorf("the old change is %s, want void", got)
	}
	if p := d.finishPlan(run); p.Open.Creates != 1 {
		t.Errorf("%d creates are not approved, want the new one", p.Open.Creates)
	}
}

// covers S3
func TestALaneHasOneOpenChange(t *testing.T) {
	t.Parallel()
	for _, state := range []connector.ChangeState{connector.ChangePending, connector.ChangeFrozen, connector.ChangeUnknown} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			c := d.planCreate(run, acme, "c1")
			if state != connector.ChangePending {
				d.do(func(tx *Tx) error { _, err := tx.FreezeCreate(run, c, []byte("{}"), 0); return err })
			}
			if state == connector.ChangeUnknown {
				d.do(func(tx *Tx) error { return tx.LeaveUnknown(run, c, "") })
			}
			err := d.Do(t.Context(), func(tx *Tx) error {
				var new additions
				return errors.Join(tx.newChange(run, acme, "c1", LaneCustomer, "other", &NewChange{Action: connector.ActionCreate}, &new), tx.add(run, acme, new))
			})
			if err == nil {
				t.Error("a second open change was accepted")
			}
			if state == connector.ChangePending {
				return
			}
			r := record("c1", "New name")
			d.decide(run, acme, included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "New name")}))
			if got := d.open(acme, "c1", LaneCustomer); got.ID != c.ID || got.Wanted.Name != "c1" {
				t.Errorf("a decision replaced change %d, which was sent, by %+v", c.ID, got)
			}
		})
	}
}

// covers F48
func TestARecordIsLookedAtAgainWhenAnotherSharesItsKeyAndWhenNoneDoesAnyMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run, other := d.run(acme), d.run("globex")
	for _, id := range []string{"c1", "c2", "c3"} {
		d.planCreate(run, acme, id)
	}
	d.planCreate(other, "globex", "g1")
	d.planLinked(run, "c4", "b4", connector.ActionUpdate)
	decide := func(run int64, connection, id, with string, contested bool) {
		r := record(id, id)
		v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(with, id)})
		v.Key, v.Contested = key(with), contested
		d.decide(run, connection, v)
	}
	woken := func(connection string) (out []string) {
		d.do(func(tx *Tx) error {
			_, err := tx.WakeRivals(connection, false)
			return err
		})
		return ids(d.candidates(connection, mapping))
	}
	decide(run, acme, "c2", "c1", false)       // two records of one source
	decide(other, "globex", "g1", "c4", false) // one of another source, with the key of a linked payer
	d.save(run, acme, record("c5", "c5"))      // an excluded record shares nothing
	d.decide(run, acme, Decision{SourceID: "c5", ContentHash: record("c5", "c5").Hash(), Verdict: Excluded, Key: key("c3")})
	if diff := cmp.Diff([][]string{{"c1", "c2", "c4"}, {"g1"}}, [][]string{woken(acme), woken("globex")}); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	for id, want := range map[string]string{"c1": "c2", "c2": "c1", "c4": "g1", "c3": ""} {
		k := map[string]string{"c1": "c1", "c2": "c1", "c3": "c3", "c4": "c4"}[id]
		if got, err := d.KeyRival(t.Context(), key(k), acme, id); got != want || err != nil {
			t.Errorf("the rival of %s is %q, %v; want %q", id, got, err, want)
		}
	}
	decide(run, acme, "c1", "c1", true)
	decide(run, acme, "c2", "c1", true)
	d.decide(run, acme, Decision{SourceID: "c4", ContentHash: record("c4", "c4").Hash(), Verdict: Held, Contested: true})
	if got := woken(acme); got != nil {
		t.Errorf("woken although it is as it was decided: %v", got)
	}
	decide(run, acme, "c2", "c2", false) // it got a key of its own
	if diff := cmp.Diff([]string{"c1"}, woken(acme)); diff != "" {
		t.Errorf("woken when the key was free again (-want +got):\n%s", diff)
	}
}

func TestAWaitingPlanThatSaysTheSameIsTheSamePlan(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	first := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.SetPlanState(first.ID, PlanWaiting, "too many creates") })
	d.closeRun(run, connector.RunAwaitingApproval)

	second := d.run(acme)
	again := d.finishPlan(second)
	if again.ID != first.ID || again.State != PlanWaiting || again.Hash != first.Hash {
		t.Errorf("plan %d (%s) became %d (%s) although it says the same", first.ID, PlanWaiting, again.ID, again.State)
	}
	if got := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE plan_id = ?", first.ID); got != 1 {
		t.Errorf("the plan has %d changes, want the one that waits", got)
	}

	d.planCreate(second, acme, "c2")
	grown := d.finishPlan(second)
	if grown.ID == first.ID || grown.State != PlanDraft || grown.Creates != 2 {
		t.Errorf("the grown plan is %+v, want a new draft of two creates", grown)
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.Approve(first.ID, "ada") }); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("approving the superseded plan: got %v, want %v", err, ErrPlanNotWaiting)
	}
	if waiting, err := d.WaitingPlans(t.Context()); len(waiting) != 0 || err != nil {
		t.Errorf("plans %v wait, %v; want none", waiting, err)
	}
}

// covers F73
func TestAPlanHashTellsTheMappingAndTheChangesApart(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	hash := func(version string) (h string) {
		d.do(func(tx *Tx) (err error) { h, err = tx.hashPlan(Plan{Connection: acme, Mapping: version}); return err })
		return h
	}
	before := hash(mapping)
	if hash(mapping) != before {
		t.Error("the same plan has two hashes")
	}
	if hash("m2") == before {
		t.Error("another mapping has the same hash")
	}
	d.decide(run, acme, included(record("c1", "c1"), &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "Other")}))
	if hash(mapping) == before {
		t.Error("another value has the same hash")
	}
}

// covers F74
func TestAPlanWeighsWhatNobodyHasApproved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	d.planLinked(run, "c2", "b2", connector.ActionAdopt)
	d.planLink(run, "c4", "b4")
	r := record("c3", "c3")
	d.save(run, acme, r)
	have := connector.Customer{Name: "Old", People: []connector.Person{{Email: "old@example.com", Phone: "1"}}}
	want := connector.Customer{Name: "New", People: []connector.Person{{Email: "old@example.com"}}}
	d.decide(run, acme, included(r, &NewChange{Action: connector.ActionUpdate, Wanted: want, Diff: connector.Diff(have, want), BillingID: "b3"}))
	d.link(acme, "c3", "b3")
	d.save(run, acme, record("c5", "c5"))
	d.decide(run, acme, Decision{SourceID: "c5", Verdict: Held, Topic: TopicRecord, Reason: connector.ReasonKeyBlank})

	p := d.finishPlan(run)
	got := []int{p.Creates, p.Adopts, p.Updates, p.Links, p.Holds}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1}, got); diff != "" {
		t.Errorf("creates, adopts, updates, links, holds (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Weight{Creates: 1, Changes: 3, Blanks: 1, Identity: 1}, p.Open); diff != "" {
		t.Errorf("weight (-want +got):\n%s", diff)
	}
	if p.Empty() || !(Plan{Holds: 3}).Empty() {
		t.Error("a plan is empty when it has nothing to do")
	}
	d.do(func(tx *Tx) error { return tx.Approve(p.ID, "ada") })
	if p = d.finishPlan(run); p.Open != (Weight{}) || p.Creates != 1 || p.State != PlanApproved {
		t.Errorf("after approval the plan is %+v, want no open weight", p)
	}
	if n, err := d.LinkedCount(t.Context(), acme); n != 3 || err != nil {
		t.Errorf("%d payers are linked, %v; want 3", n, err)
	}
}

func TestApprovalIsWrittenToTheAuditLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	p := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.SetPlanState(p.ID, PlanWaiting, "limits") })
	found, err := d.FindPlan(t.Context(), p.Hash[:8])
	if err != nil || found.ID != p.ID || found.Limits != "limits" || found.Creates != 1 {
		t.Fatalf("found %+v, %v; want the waiting plan", found, err)
	}
	if _, err := d.FindPlan(t.Context(), p.Hash[:7]); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("seven characters: got %v, want %v", err, ErrPlanNotWaiting)
	}
	if _, err := d.FindPlan(t.Context(), "%%%%%%%%"); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("a pattern: got %v, want %v", err, ErrPlanNotWaiting)
	}
	d.do(func(tx *Tx) error { return tx.Approve(p.ID, "ada") })
	if got := one[string](t, d.Ledger, "SELECT actor || ':' || action || ':' || subject || ':' || reason FROM audit"); got != "ada:approve plan:1:"+p.Hash {
		t.Errorf("the audit log says %q", got)
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.Approve(p.ID, "ben") }); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("approving twice: got %v, want %v", err, ErrPlanNotWaiting)
	}
}

// covers F75
func TestTheKeyOfAPayerWithACustomerNeverChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "free")
	sent := d.planCreate(run, acme, "sent")
	d.do(func(tx *Tx) error { _, err := tx.FreezeCreate(run, sent, []byte("{}"), 0); return err })
	d.planLinked(run, "linked", "b1", connector.ActionUpdate)
	for id, want := range map[string]string{"free": "edited", "sent": "sent", "linked": "linked"} {
		v := included(record(id, id), nil)
		v.Key = key("edited")
		d.decide(run, acme, v)
		if got := d.payerOf(acme, id).Key.Value; got != want {
			t.Errorf("%s has key %q, want %q", id, got, want)
		}
	}
}

// A plan decides on a record. Before that is stored, another process reads its customer and finds an older
// update's values. The read's result stays: the next plan decides again. The same happens after a person's
// retry. Otherwise the decision is stored.
//
// covers F99, S6
func TestADecisionIsNotStoredOverWhatAReadHasShownSince(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*Tx, Payer) error{
		"nothing":       nil,
		"another value": func(tx *Tx, p Payer) error { return tx.SetShown(p, false) },
		"an older value": func(tx *Tx, p Payer) error {
			values := customer("c1", "Old")
			return tx.saveHeld(&Known{Payer: p}, HeldValues{Instead: true, Values: &values})
		},
		"a doubled key": func(tx *Tx, p Payer) error {
			_, err := tx.SaveRemote(connector.RemoteCustomer{ID: "b2", Name: "Other", ExternalData: map[string]string{"acct": "c1"}}, 1)
			return err
		},
		"a word to try again": func(tx *Tx, p Payer) error {
			_, err := tx.RetryRecord(acme, p.SourceID)
			return err
		},
		"nobody there": func(tx *Tx, p Payer) error {
			_, err := tx.ForgetRemote("b1", 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			r := record("c1", "c1")
			d.save(run, acme, r)
			d.decide(run, acme, included(r, nil))
			d.link(acme, "c1", "b1")
			d.do(func(tx *Tx) error {
				if err := tx.SetApplied(d.payerOf(acme, "c1"), customer("c1", "c1")); err != nil {
					return err
				}
				_, err := tx.ReplanRecord(acme, "c1")
				return err
			})
			decision := included(r, nil)
			decision.Stands = d.candidates(acme, mapping)[0].Stands
			p := d.payerOf(acme, "c1")
			if meanwhile != nil {
				d.do(func(tx *Tx) error {
					tx.Explain(p, TopicLink, connector.ReasonForeignChange, "")
					return meanwhile(tx, p)
				})
			}
			d.decide(run, acme, decision)
			again := len(d.candidates(acme, mapping)) > 0
			if again != (meanwhile != nil) {
				t.Errorf("the next plan looks again: %t", again)
			}
			if told, err := d.AttentionOf(t.Context(), acme, "c1"); err != nil || len(told) > 0 != again {
				t.Errorf("told is %v, %v", told, err)
			}
			if _, outcome := d.closeRun(run, connector.RunComplete); outcome == connector.RunComplete == again {
				t.Errorf("the run is %s", outcome)
			}
		})
	}
}

// covers F74, S13
func TestAPartOfAPlanIsApprovedAsItIsOrNotAtAll(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	first, second := d.planCreate(run, acme, "c1"), d.planCreate(run, acme, "c2")
	plan := d.finishPlan(run)
	some := func(plan int64, ids ...int64) error {
		return d.Do(t.Context(), func(tx *Tx) error { return tx.ApproveSome(plan, ids, "ada", "--record c1") })
	}
	share := func() Share {
		s, err := d.ShareOf(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		s.Reads, s.Newest = "", 0
		return s
	}
	if err := some(plan.ID, first.ID, second.ID+1); !errors.Is(err, ErrPlanChanged) {
		t.Errorf("approving a change that the plan does not have: got %v, want %v", err, ErrPlanChanged)
	}
	if share := share(); share != (Share{Pending: 2}) {
		t.Errorf("then %+v; want nothing approved or left out", share)
	}
	if err := some(plan.ID, first.ID); err != nil {
		t.Fatal(err)
	}
	if share := share(); share != (Share{Pending: 2, Approved: 1, LeftOut: 1}) {
		t.Errorf("then %+v; want one approved and one left out", share)
	}
	d.do(func(tx *Tx) error { return tx.ApproveWithinLimits(plan.ID) })
	if d.open(acme, "c2", LaneCustomer).Approved {
		t.Error("the limits let a change go that a person left out")
	}
	again := d.finishPlan(run)
	if again.ID != plan.ID || again.State != PlanWaiting || again.Open != (Weight{LeftOut: 1}) {
		t.Errorf("the plan is %+v, want the same one with a change left out", again)
	}
	if err := some(plan.ID, second.ID); err != nil {
		t.Fatal(err)
	}
	if whole := d.finishPlan(run); whole.State != PlanApproved || whole.Open != (Weight{}) {
		t.Errorf("with all of it approved the plan is %+v", whole)
	}
	if err := some(plan.ID, first.ID); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("approving a part of what is approved: got %v, want %v", err, ErrPlanNotWaiting)
	}
}

// covers F74, S13
func TestARejectedPlanIsThatPlanWhileItSaysTheSame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	plan := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.Approve(plan.ID, "ada") })
	reject := func() error {
		return d.Do(t.Context(), func(tx *Tx) error { return tx.Reject(plan.ID, "bob", "wrong export") })
	}
	var open *ErrRunOpen
	if err := reject(); !errors.As(err, &open) {
		t.Errorf("rejecting while a run may be sending it: got %v, want that a run is open", err)
	}
	d.closeRun(run, connector.RunIncomplete)
	if err := reject(); err != nil {
		t.Fatal(err)
	}
	if n, err := d.ReleasedCount(t.Context(), acme, LaneCustomer); n != 0 || err != nil {
		t.Errorf("%d changes of it may be sent, %v; want none", n, err)
	}
	second := d.run(acme)
	again := d.finishPlan(second)
	if again.ID != plan.ID || again.State != PlanRejected || again.RejectedBy != "bob" || again.Rejection != "wrong export" || again.RejectedAt.IsZero() {
		t.Errorf("the same again is %+v, want the rejected plan", again)
	}
	if rejected, err := d.RejectedPlans(t.Context()); len(rejected) != 1 || err != nil {
		t.Errorf("these are rejected: %v, %v", rejected, err)
	}
	if waiting, err := d.WaitingPlans(t.Context()); len(waiting) != 0 || err != nil {
		t.Errorf("these wait: %v, %v; want none", waiting, err)
	}
	d.planCreate(second, acme, "c2")
	if grown := d.finishPlan(second); grown.ID == plan.ID || grown.State != PlanDraft || grown.Open != (Weight{Creates: 1, LeftOut: 1}) {
		t.Errorf("the grown plan is %+v, want a new one that keeps back what was rejected", grown)
	}
	if all, err := d.StoredPlans(t.Context(), acme); err != nil || len(all) != 2 || all[0].State != PlanSuperseded || all[0].RejectedBy != "bob" {
		t.Errorf("the plans are %+v, %v", all, err)
	}
}

func TestAPlanReadsOtherwiseOnceAnythingOfItIsAnother(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(d *desk, run int64, plan Plan, first Change){
		"another change is planned": func(d *desk, run int64, _ Plan, _ Change) { d.planCreate(run, acme, "c3"); d.finishPlan(run) },
		"a part is approved": func(d *desk, _ int64, p Plan, c Change) {
			d.do(func(tx *Tx) error { return tx.ApproveSome(p.ID, []int64{c.ID}, "bob", "") })
		},
		"it is rejected": func(d *desk, run int64, p Plan, _ Change) {
			d.closeRun(run, connector.RunIncomplete)
			d.do(func(tx *Tx) error { return tx.Reject(p.ID, "bob", "no") })
		},
		"a change is taken back": func(d *desk, _ int64, _ Plan, c Change) {
			d.do(func(tx *Tx) error { return tx.dropPlanned(acme, c.Payer.SourceID, LaneCustomer) })
		},
		"one that says the same is made": func(d *desk, run int64, _ Plan, _ Change) { d.finishPlan(run) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			first := d.planCreate(run, acme, "c1")
			d.planCreate(run, acme, "c2")
			plan := d.finishPlan(run)
			d.do(func(tx *Tx) error {
				return tx.SetPlanState(plan.ID, PlanWaiting, "2 customers would be created (the limit is 1).")
			})
			was, err := d.FindPlan(t.Context(), fmt.Sprint(plan.ID))
			if err != nil {
				t.Fatal(err)
			}
			share, err := d.ShareOf(t.Context(), was)
			if err != nil {
				t.Fatal(err)
			}
			meanwhile(d, run, plan, first)
			err = d.Do(t.Context(), func(tx *Tx) error { return tx.StillReads(plan.ID, share.Reads) })
			if same := name == "one that says the same is made"; same != (err == nil) || !same && !errors.Is(err, ErrPlanChanged) {
				t.Errorf("got %v", err)
			}
		})
	}
}
