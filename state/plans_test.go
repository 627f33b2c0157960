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
		Name: name, People: []connector.Person{{Name: name, Email: id + "@example.com"}},
		ExternalData: map[string]string{"acct": id},
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
		decisions = append(decisions,
			included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(r.SourceID, "Ada")}))
	}
	d.save(run, acme, records...)
	d.decide(run, acme, decisions...)
	d.planCreate(d.run("beta"), "beta", "c1") // another's
	plan := d.finishPlan(run)
	if plan.Creates != many {
		t.Fatalf("the plan creates %d, want %d", plan.Creates, many)
	}
	count := func(which string) int { return one[int](t, d.Ledger, "SELECT count(*) FROM changes c WHERE "+which) }
	if of, none := count(fmt.Sprint("plan_id = ", plan.ID)),
		count("plan_id IN (SELECT plan_id FROM plans WHERE hash = '')"); of != many || none != 1 {
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
		held, err = tx.HoldMissing(third, acme, mapping, 1, "Too many are missing.")
		return err
	})
	d.closeRun(third, connector.RunIncomplete)
	unseen("c3")
	last := d.finishPlan(d.run(acme))
	if last.ID <= held.ID || last.Creates != 3 {
		t.Errorf("%+v, want a plan of 3 creates newer than %d", last, held.ID)
	}
	if n := one[int](t, d.Ledger,
		"SELECT count(*) FROM changes WHERE source_id = 'c3' AND plan_id = ?1 AND first_plan = ?1", last.ID); n != 1 {
		t.Error("another plan than the last one lists a change of an unfinished plan")
	}
	if n := one[int](t, d.Ledger,
		"SELECT count(*) FROM changes WHERE source_id <> 'c3' AND plan_id = ?1 AND first_plan = ?2", last.ID,
		plan.ID); n != 2 {
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
	d.decide(run, acme, included(record("c1", "c1"),
		&NewChange{Action: connector.ActionUpdate, Wanted: c.Wanted, BillingID: "b1"}))
	if p := d.finishPlan(run); p.Updates != 1 || p.Open.Changes != 1 {
		t.Errorf("%d updates, %d of them for the limits; want 1 and 1", p.Updates, p.Open.Changes)
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

	d.decide(run, acme, included(edited,
		&NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "Someone else")}))
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
	for _, state := range []connector.ChangeState{connector.ChangePending, connector.ChangeFrozen,
		connector.ChangeUnknown} {
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
				return errors.Join(tx.newChange(run, acme, "c1", LaneCustomer, "other", &NewChange{Action: connector.ActionCreate},
					&new), tx.add(run, acme, new))
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
	d.decide(run, acme, Decision{SourceID: "c5", ContentHash: record("c5", "c5").Hash(), Verdict: Excluded,
		Key: key("c3")})
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
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.Approve(first.ID, "ada") }); !errors.Is(err,
		ErrPlanNotWaiting) {
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
	d.decide(run, acme, included(record("c1", "c1"),
		&NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "Other")}))
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
	d.decide(run, acme, included(r,
		&NewChange{Action: connector.ActionUpdate, Wanted: want, Diff: connector.Diff(have, want), BillingID: "b3"}))
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

// The count from indexes equals a look at every payer, for each state of the link, with and without a customer.
func TestLinkedPayersAreCountedAsALookAtEachFindsThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	for i, link := range []connector.LinkState{connector.LinkNew, connector.LinkCreating, connector.LinkLinked,
		connector.LinkMissing, connector.LinkConflict, connector.LinkHeld} {
		for _, has := range []string{"customer", "missing", "none"} {
			if has == "none" && link == connector.LinkLinked {
				continue
			}
			id := fmt.Sprint(has, i)
			d.planLinked(run, id, "b-"+id, connector.ActionUpdate)
			d.do(func(tx *Tx) error {
				if has == "missing" {
					if _, err := tx.ForgetRemote("b-"+id, 1<<40); err != nil {
						return err
					}
				}
				return tx.exec("UPDATE payers SET link_state = ?, billing_id = CASE ? WHEN 'none' THEN NULL ELSE billing_id END WHERE source_id = ?",
					link, has, id)
			})
		}
	}
	each := one[int](t, d.Ledger, "SELECT count(*) FROM payers p WHERE p.billing_id IS NOT NULL AND NOT "+isMissing)
	n, err := d.LinkedCount(t.Context(), acme)
	if n != 6 || n != each || err != nil {
		t.Errorf("%d payers are linked, %v; want 6, and a look at each finds %d", n, err, each)
	}
	if n, err := d.LinkedCount(t.Context(), "other"); n != 0 || err != nil {
		t.Errorf("%d payers of another connection are linked, %v", n, err)
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
