package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// listed returns every change listed by a plan that does not wait in it, read page by page.
func (d *desk) listed(plan int64, page int) (out []ListedChange) {
	d.t.Helper()
	p, err := d.FindPlan(d.t.Context(), fmt.Sprint(plan))
	if err != nil {
		d.t.Fatal(err)
	}
	for at := (PlanPlace{}); ; {
		found, err := d.ListedChanges(d.t.Context(), p, at, page)
		if err != nil {
			d.t.Fatal(err)
		}
		if out = append(out, found...); len(found) < page {
			return out
		}
		at = found[len(found)-1].Place()
	}
}

// outcomes returns what became of the changes that a plan listed, by record and lane.
func (d *desk) outcomes(plan int64) map[string]ChangeOutcome {
	d.t.Helper()
	out := map[string]ChangeOutcome{}
	for _, c := range d.listed(plan, 2) {
		out[c.SourceID+" "+string(c.Action)] = c.Outcome
	}
	counts, byCount := map[ChangeOutcome]int{}, map[ChangeOutcome]int{}
	for _, o := range out {
		byCount[o]++
	}
	p, err := d.FindPlan(d.t.Context(), fmt.Sprint(plan))
	if err == nil {
		counts, err = d.OutcomeCounts(d.t.Context(), p)
	}
	if diff := cmp.Diff(byCount, counts); err != nil || diff != "" {
		d.t.Errorf("the counts differ from the list (-list +counts, %v):\n%s", err, diff)
	}
	return out
}

// planSome decides on records of these ids, each a customer to be made with this name.
func (d *desk) planSome(run int64, name string, ids ...string) {
	d.t.Helper()
	for _, id := range ids {
		r, want := personalRecord(id), personalCustomer(id)
		r.Data, want.Name = []byte(fmt.Sprintf(`{"name":%q}`, name)), name
		d.save(run, acme, r)
		d.decide(run, acme, included(r,
			&NewChange{Action: connector.ActionCreate, Wanted: want, Diff: connector.Diff(connector.Customer{}, want)}))
	}
}

// send sends a record's create, and closes it as this with a reason.
func (d *desk) send(run int64, id string, to connector.ChangeState, reason connector.Reason) {
	d.t.Helper()
	c := d.open(acme, id, LaneCustomer)
	d.do(func(tx *Tx) error {
		a, err := tx.FreezeCreate(run, c, []byte("{}"), 0)
		switch {
		case err != nil:
			return err
		case to == connector.ChangeUnknown:
			return tx.LeaveUnknown(run, c, "no answer")
		case to == connector.ChangeDone:
			return errors.Join(tx.EndAttempt(a, AttemptAnswered), tx.Created(run, c, "b-"+id))
		}
		return errors.Join(tx.EndAttempt(a, AttemptRefused), tx.CloseWith(run, c, to, reason, ""))
	})
}

func TestAPlanListsWhatBecameOfEachOfItsChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planSome(run, canaryName, "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
	first := d.finishPlan(run)
	if got := d.outcomes(first.ID); len(got) != 0 {
		t.Errorf("while all of it waits it lists %v", got)
	}
	d.send(run, "c1", connector.ChangeDone, "")
	d.send(run, "c2", connector.ChangeFailed, connector.ReasonRejected)
	d.send(run, "c3", connector.ChangeHeld, connector.ReasonAnswerMismatch)
	d.send(run, "c4", connector.ChangeUnknown, "")
	d.do(func(tx *Tx) error {
		return tx.CloseWith(run, d.open(acme, "c5", LaneCustomer), connector.ChangeHeld, connector.ReasonOtherKey, "")
	})
	d.closeRun(run, connector.RunIncomplete)

	second := d.run(acme)
	d.planSome(second, "Another Name", "c6")
	d.do(func(tx *Tx) error { return tx.dropPlanned(acme, "c8", LaneCustomer) })
	later := d.finishPlan(second)
	want := map[string]ChangeOutcome{
		"c1 create": OutcomeSent, "c2 create": OutcomeRefused, "c3 create": OutcomeFailed, "c4 create": OutcomeNoAnswer,
		"c5 create": OutcomePutOff, "c6 create": OutcomeReplaced, "c7 create": OutcomePutOff, "c8 create": OutcomeReplaced,
	}
	if diff := cmp.Diff(want, d.outcomes(first.ID)); diff != "" {
		t.Errorf("the superseded plan lists (-want +got):\n%s", diff)
	}
	d.send(second, "c7", connector.ChangeDone, "")
	d.send(second, "c6", connector.ChangeDone, "")
	d.closeRun(second, connector.RunComplete)
	if want["c7 create"] = OutcomeSent; !cmp.Equal(want, d.outcomes(first.ID)) {
		t.Errorf("once the later plan was sent, the superseded one lists %v", d.outcomes(first.ID))
	}
	if diff := cmp.Diff(map[string]ChangeOutcome{"c6 create": OutcomeSent, "c7 create": OutcomeSent},
		d.outcomes(later.ID)); diff != "" {
		t.Errorf("the later plan lists (-want +got):\n%s", diff)
	}
	for _, c := range d.listed(first.ID, 3) {
		wantPlan := first.ID
		if c.SourceID == "c7" {
			wantPlan = later.ID
		}
		if c.Plan != wantPlan || c.Erased != "" || len(c.Diff) == 0 || c.Diff[0].To == "" || c.Key.Value != c.SourceID {
			t.Errorf("it lists %+v", c)
		}
	}
}

func TestAPlanNamesTheRunsThatSentIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	planned := d.run(acme)
	d.planSome(planned, canaryName, "c1", "c2")
	plan := d.finishPlan(planned)
	d.do(func(tx *Tx) error { return tx.SetPlanState(plan.ID, PlanApproved, "") })
	d.closeRun(planned, connector.RunAwaitingApproval)
	d.clock.move(day)

	sent := d.run(acme)
	if again := d.finishPlan(sent); again.ID != plan.ID {
		t.Fatalf("the second run made plan %d", again.ID)
	}
	d.send(sent, "c1", connector.ChangeDone, "")
	d.clock.move(2 * Lease) // it died; another takes over
	last := d.run(acme)
	rest := d.finishPlan(last)
	d.send(last, "c2", connector.ChangeDone, "")
	d.closeRun(last, connector.RunComplete)

	for id, want := range map[int64][]int64{plan.ID: {sent}, rest.ID: {last}} {
		p, err := d.FindPlan(t.Context(), fmt.Sprint(id))
		if diff := cmp.Diff(want, p.SentBy); err != nil || diff != "" {
			t.Errorf("plan %d was sent by (-want +got, %v):\n%s", id, err, diff)
		}
		r, err := d.Run(t.Context(), want[0])
		if err != nil || r.SentPlan != id {
			t.Errorf("run %d sent plan %d, %v; want %d", want[0], r.SentPlan, err, id)
		}
	}
	if r, err := d.Run(t.Context(), planned); err != nil || r.SentPlan != 0 || r.Plan != plan.ID {
		t.Errorf("the run that only planned made %d and sent %d, %v", r.Plan, r.SentPlan, err)
	}
}

func TestTheValuesOfAPlanAreKeptAsLongAsTheAuditLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.past("c1", 3)
	d.do(func(tx *Tx) error { return tx.exec("UPDATE changes SET plan_id = NULL") })
	d.clock.move(5000 * day)
	done, err := d.Retain(t.Context(), Retention{Bodies: day, Details: day})
	if err != nil || done.Details != 3 {
		t.Fatalf("it did %+v, %v", done, err)
	}
	past, err := d.ChangesOf(t.Context(), acme, "c1")
	if err != nil || len(past) != 4 {
		t.Fatalf("%d changes, %v", len(past), err)
	}
	for _, c := range past {
		if len(c.Diff) == 0 || c.Erased != "" {
			t.Errorf("change %d has lost its values: %q", c.ID, c.Erased)
		}
	}
	d.do(func(tx *Tx) error { return tx.exec("UPDATE changes SET diff = NULL WHERE change_id = 1") })
	if past, err = d.ChangesOf(t.Context(), acme, "c1"); err != nil || past[0].Erased != ErasedOld {
		t.Errorf("of a change that an older version aged out: %q, %v", past[0].Erased, err)
	}
}

func TestForgettingAPayerErasesItsValuesFromThePlans(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planSome(run, canaryName, "c1", "c2")
	plan := d.finishPlan(run)
	d.send(run, "c1", connector.ChangeDone, "")
	d.send(run, "c2", connector.ChangeDone, "")
	d.closeRun(run, connector.RunComplete)
	d.over()
	d.forget("c1")
	for _, c := range d.listed(plan.ID, 10) {
		if erased := c.SourceID == "c1"; erased != (c.Erased == ErasedForgotten) || erased != (len(c.Diff) == 0) ||
			c.Outcome != OutcomeSent {
			t.Errorf("%s: %s, erased %q, %d values", c.SourceID, c.Outcome, c.Erased, len(c.Diff))
		}
	}
}

// A plan of 100,000 changes is shown page by page, so a page may neither sort all of them nor read the changes
// of other plans.
func TestAPageOfAPlanIsReadFromItsIndex(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's query plan")
	d := newDesk(t)
	steps := d.queryPlan(listedQuery, 1, acme, 1, 0, 26)
	if steps[0] != "SEARCH c USING INDEX changes_plan (plan_id>?)" ||
		slices.ContainsFunc(steps,
			func(s string) bool { return strings.HasPrefix(s, "SCAN") || strings.Contains(s, "B-TREE") }) {
		t.Errorf("SQLite reads it so: %q", steps)
	}
}

// A plan may have 200,000 changes, and its page is to come at once.
func TestTheShareOfAPlanIsReadFromAnIndexAlone(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's query plan")
	d := newDesk(t)
	steps := d.queryPlan(shareQuery, acme, 1)
	if !slices.Contains(steps, "SEARCH c USING COVERING INDEX changes_queue (connection=?)") {
		t.Errorf("SQLite reads it so: %q", steps)
	}
}

// queryPlan returns how SQLite reads a query.
func (d *desk) queryPlan(query string, args ...any) (steps []string) {
	d.t.Helper()
	rows, err := d.reader.QueryContext(d.t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		d.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			d.t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		d.t.Fatal(err)
	}
	return steps
}

// A scan of all records has the connection alone as its condition.
func TestTheEndOfARunReadsTheRecordsThatAreToldAndNoOthers(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's query plan")
	d := newDesk(t)
	for name, steps := range map[string][]string{
		"findings": d.queryPlan(findingsSince, stamp(d.Now()), acme), "classes": d.queryPlan(toldWithClass, acme),
		"few": d.queryPlan(classesOf, acme, `["a"]`), "to plan again": d.queryPlan(anyToReplan, acme),
	} {
		for _, step := range steps {
			if strings.Contains(step, "source_records") && strings.Contains(step, "(connection=?)") &&
				!strings.Contains(step, "source_records_replan") {
				t.Errorf("%s: %s", name, step)
			}
		}
	}
}
