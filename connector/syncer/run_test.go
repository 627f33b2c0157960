package syncer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// covers F12, S1, S6, L1
func TestABackfillMakesOneCustomerPerRecordAndASecondRunSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(150)
	res := w.complete(w.run())
	if res.Counts.Pulled != 150 || res.Counts.Created != 150 || res.Counts.LinksRequested != 150 {
		t.Errorf("counts = %+v, want 150 pulled, created and links", res.Counts)
	}
	if got := len(w.byKey()); got != 150 {
		t.Errorf("%d customers, want 150", got)
	}
	for id, c := range w.byKey() {
		p := w.payer(id)
		if p.LinkState != connector.LinkLinked || p.BillingID != c.ID {
			t.Errorf("payer %s is %s with %q, want linked with %q", id, p.LinkState, p.BillingID, c.ID)
		}
	}
	w.service.ResetRequests()
	again := w.complete(w.run())
	if again.Counts.Unchanged != 150 || again.Counts.Pulled != 150 {
		t.Errorf("second run counts = %+v, want 150 unchanged", again.Counts)
	}
	if n := len(w.service.Requests()); n != 0 {
		t.Errorf("second run sent %d requests, want none", n)
	}
}

// covers F53, F54, L5
func TestBadRecordsAreHeldWithASentenceAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.books.put("B1", " ", "a@example.com")
	w.books.put("B2", "Bad E-mail", "not an address")
	w.books.set(connector.Record{SourceID: "line 9", State: connector.RecordActive, Data: json.RawMessage(`{}`),
		Problem: "Line 9 has too many columns."})
	w.books.putAs("X1", map[string]string{"No": "X1", "Name": "Excluded", "Group": "supplier"})
	res := w.complete(w.run())
	want := state.Counts{Pulled: 7, Created: 3, Held: 3, Excluded: 1, LinksRequested: 3}
	if res.Counts != want {
		t.Errorf("counts = %+v, want %+v", res.Counts, want)
	}
	reasons := w.attention()
	for id, reason := range map[string]connector.Reason{
		"B1": connector.ReasonNameMissing, "B2": connector.ReasonEmailMalformed, "line 9": connector.ReasonRecordUnreadable,
	} {
		if reasons[id] != string(reason) {
			t.Errorf("attention of %s = %q, want %q", id, reasons[id], reason)
		}
	}
	w.books.put("B1", "Named Now", "a@example.com")
	if res := w.complete(w.run()); res.Counts.Created != 1 || res.Counts.Held != 2 {
		t.Errorf("after a correction: %+v, want 1 created and 2 held", res.Counts)
	}
}

// covers F02, F03, S3
func TestALostAnswerIsReplayedWithTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, kind := range []sandbox.FaultKind{sandbox.LostResponse, sandbox.LostRequest, sandbox.ErrorAfter,
		sandbox.ErrorBefore, sandbox.Truncated, sandbox.EmptyBody, sandbox.WrongType, sandbox.HTML} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.books.put("A1", "Northwind", "a@example.com")
			w.service.Inject(sandbox.Fault{Kind: kind, Method: http.MethodPost, Path: "/api/customers", Count: 3})
			for range 4 {
				w.books.put("A1", "Northwind edited", "a@example.com")
				w.run()
				w.restart()
			}
			w.complete(w.run())
			bodies := w.bodies(http.MethodPost, "/api/customers")
			for _, b := range bodies {
				if !bytes.Equal(b, bodies[0]) {
					t.Errorf("a replay sent other bytes:\n%s\n%s", bodies[0], b)
				}
			}
			if c := w.byKey(); len(c) != 1 || c["A1"].Name != "Northwind edited" {
				t.Errorf("customers = %+v, want one, with the newest name", c)
			}
		})
	}
}

// covers F06, F08
func TestAnOldUnansweredCreateIsLookedUpBeforeItIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *sandbox.Options, _ *billing.Dialect) { o.Switches.HashMemory = time.Minute })
	w.books.put("A1", "Northwind", "a@example.com")
	w.dying(w.connection(), http.MethodPost)
	w.clock.advance(3 * time.Hour)
	w.complete(w.run())
	if n := len(w.byKey()); n != 1 {
		t.Errorf("%d customers, want 1", n)
	}
	if p := w.payer("A1"); p.LinkState != connector.LinkLinked {
		t.Errorf("payer is %s, want linked", p.LinkState)
	}
}

// covers F05, F10, F73
func TestAnUpdateWhoseAnswerWasLostIsNotSentAgainWhenItTookEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: "/api/customers", Count: 1})
	w.service.ResetRequests()
	w.run()
	w.restart()
	w.complete(w.run())
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 1 {
		t.Errorf("%d updates were sent, want 1", n)
	}
	if got := w.byKey()["A1"].Name; got != "Northwind Ltd" {
		t.Errorf("name = %q", got)
	}
}

// covers F76, F49, F47
func TestExistingCustomersAreAdoptedByExactKeyAndNeverByLikeness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	add := func(raw string) string {
		id, err := w.service.Add(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	exact := add(`{"name":"NORTHWIND LTD","externalData":{"customerNo":"A1","crm":"77"},"custom":12345678901234567890}`)
	add(`{"name":"Twin","externalData":{"customerNo":"A2"}}`)
	add(`{"name":"Twin","externalData":{"customerNo":"A2"},"n":2}`)
	alike := add(`{"name":"Handmade","people":[{"name":"H","email":"hand@example.com"}]}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.books.put("A2", "Twin", "t@example.com")
	w.books.put("A3", "Somebody", "hand@example.com")
	w.books.put("A4", "Fresh", "f@example.com")
	res := w.complete(w.run())
	want := state.Counts{Pulled: 4, Adopted: 1, Created: 1, Held: 2, LinksRequested: 2}
	if res.Counts != want {
		t.Errorf("counts = %+v, want %+v", res.Counts, want)
	}
	if p := w.payer("A1"); p.BillingID != exact || p.LinkState != connector.LinkLinked {
		t.Errorf("A1 = %+v, want linked to %s", p, exact)
	}
	c, _ := w.service.Customer(exact)
	if c.Name != "Northwind" || !strings.Contains(string(c.Raw), "12345678901234567890") || c.ExternalData["crm"] != "77" {
		t.Errorf("the adopted customer is %s", c.Raw)
	}
	if got := w.attention(); got["A2"] != string(connector.ReasonKeyDoubled) ||
		got["A3"] != string(connector.ReasonLikeness) {
		t.Errorf("attention = %v", got)
	}
	if c, _ := w.service.Customer(alike); c.Name != "Handmade" {
		t.Errorf("the look-alike was changed: %s", c.Raw)
	}
}

// covers F48
func TestTwoRecordsWithOneKeyAreBothHeldUntilTheyDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("C1", "Clear", "c@example.com")
	w.books.putAs("R1", map[string]string{"No": "SAME", "Name": "First", "Group": "payer"})
	w.books.putAs("R2", map[string]string{"No": "SAME", "Name": "Second", "Group": "payer"})
	res := w.complete(w.run())
	if res.Counts.Created != 1 || res.Counts.Held != 2 {
		t.Errorf("counts = %+v, want 1 created and 2 held", res.Counts)
	}
	w.books.putAs("R2", map[string]string{"No": "OTHER", "Name": "Second", "Group": "payer"})
	if res := w.complete(w.run()); res.Counts.Created != 2 || res.Counts.Held != 0 {
		t.Errorf("after the keys differ: %+v, want 2 created", res.Counts)
	}
}

// covers F74, S13
func TestAPlanAboveTheLimitsWaitsAndApprovalLetsExactlyThatPlanGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(25)
	ctx := context.Background()
	res := w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync})
	if res.Outcome != connector.RunAwaitingApproval || w.service.Writes() != 0 {
		t.Fatalf("outcome %s with %d writes, want awaiting approval and none", res.Outcome, w.service.Writes())
	}
	again := w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync})
	if again.Plan.ID != res.Plan.ID {
		t.Errorf("the same plan got number %d, then %d", res.Plan.ID, again.Plan.ID)
	}
	if err := w.ledger.Do(ctx, func(tx *state.Tx) error { return tx.Approve(res.Plan.ID, "tester") }); err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // facts that nobody approved
		w.books.put("N"+string(rune('A'+i)), "New", "n@example.com")
	}
	drift := w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync})
	if drift.Outcome != connector.RunAwaitingApproval || drift.Counts.Created != 25 {
		t.Errorf("outcome %s with %+v after the plan drifted, want awaiting approval and the 25 approved creates",
			drift.Outcome, drift.Counts)
	}
	w.books.mu.Lock()
	w.books.records = w.books.records[:25]
	w.books.mu.Unlock()
	for i := range 30 {
		w.books.putAs("N"+string(rune('A'+i)), map[string]string{"No": "x", "Name": "y", "Group": "supplier"})
	}
	if done := w.complete(w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync})); done.Counts.Created != 0 {
		t.Errorf("counts = %+v, want nothing that nobody approved", done.Counts)
	}
}

// covers F43, F44
func TestACustomerThatIsGoneIsShownAndNeverMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.books.put("A2", "Southwind", "b@example.com")
	w.complete(w.run())
	if err := w.service.Delete(w.payer("A1").BillingID); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(20 * time.Minute) // nobody takes it for a read that lags behind
	sweep, err := w.syncer.Reconciler.Sweep(context.Background())
	if err != nil || sweep.Missing != 1 {
		t.Fatalf("sweep = %+v, %v; want 1 missing", sweep, err)
	}
	w.books.put("A1", "Northwind edited", "a@example.com")
	w.books.set(connector.Record{SourceID: "A2", State: connector.RecordArchived, Data: json.RawMessage(`{"No":"A2"}`)})
	before := w.service.Writes()
	w.complete(w.run())
	if n := w.service.Writes() - before; n != 0 {
		t.Errorf("%d writes, want none", n)
	}
	if got := w.attention(); got["A1"] != string(connector.ReasonCustomerMissing) ||
		got["A2"] != string(connector.ReasonLeftWithMandate) {
		t.Errorf("attention = %v", got)
	}
}

// Somebody who changes in the billing service what comes from the books is told of, and
// neither overwritten nor left unsaid.
//
// covers F11
func TestWhatSomebodyElseChangedIsToldUntilItIsBackOrAPersonSaysOtherwise(t *testing.T) {
	t.Parallel()
	t.Run("as ever", func(t *testing.T) { testWhatSomebodyElseChanged(t, false) })
	t.Run("after a restore", func(t *testing.T) { testWhatSomebodyElseChanged(t, true) })
}

func testWhatSomebodyElseChanged(t *testing.T, restored bool) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then func(w *world, id string, before json.RawMessage)
		want string // the customer's name
	}{
		"it is put back": {func(w *world, id string, before json.RawMessage) {
			if err := w.service.Edit(id, before); err != nil {
				w.t.Fatal(err)
			}
		}, "Northwind"},
		"a person says to send the record again": {func(w *world, _ string, _ json.RawMessage) { w.retry("A1") },
			"Northwind"},
		"the record changes": {func(w *world, _ string,
			_ json.RawMessage) {
			w.books.put("A1", "Southwind", "a@example.com")
		}, "Southwind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.books.put("A1", "Northwind", "a@example.com")
			w.complete(w.run())
			if restored {
				if err := w.ledger.Do(t.Context(), (*state.Tx).MarkRestored); err != nil {
					t.Fatal(err)
				}
				w.clock.advance(time.Hour)
				w.sweep()
				w.complete(w.run())
			}
			id := w.payer("A1").BillingID
			c, _ := w.service.Customer(id)
			if err := w.service.Edit(id,
				json.RawMessage(strings.Replace(string(c.Raw), "Northwind", "Eastwind", 1))); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				before := w.service.Writes()
				w.complete(w.run())
				if got := w.attention(); w.service.Writes() != before || got["A1"] != string(connector.ReasonForeignChange) {
					t.Fatalf("%d writes, attention = %v; want it told and nothing sent", w.service.Writes()-before, got)
				}
			}
			tt.then(w, id, c.Raw)
			if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.complete(w.run())
			if got := w.byKey()["A1"].Name; got != tt.want || len(w.attention()) != 0 {
				t.Errorf("name = %q, attention = %v; want %q and none", got, w.attention(), tt.want)
			}
		})
	}
}

// Fields without a mapping rule are set once, when the customer is created (mapping/README.md). If a plan
// counted them, limits would stop it for nothing, and unsent values would count as applied.
func TestWhatAMappingDoesNotOwnIsLeftAloneUntilItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())

	w.edit("mandate:", "own: [name]\nmandate:")
	w.edit("postCode: Postcode", "postCode: upper(No)")
	if p := w.preview(syncer.PreviewOptions{}); p.Updates != 0 || p.Unchanged != 1 {
		t.Errorf("without owning addresses the preview tells of %d updates, want none", p.Updates)
	}
	if res := w.complete(w.run()); res.Counts.Updated != 0 || res.Counts.Unchanged != 1 {
		t.Errorf("without owning addresses the run counts %+v", res.Counts)
	}

	w.edit("own: [name]", "own: [name, addresses]")
	if p := w.preview(syncer.PreviewOptions{}); p.Updates != 1 {
		t.Errorf("owning addresses the preview tells of %d updates, want 1", p.Updates)
	}
	w.complete(w.run())
	if got := string(w.byKey()["A1"].Raw); !strings.Contains(got, `"postCode":"A1"`) {
		t.Errorf("owning addresses the customer is %s", got)
	}
}

func TestWhatAMappingDoesNotOwnIsNotTakenForAppliedByAnAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.edit("mandate:", "own: [people]\nmandate:")
	w.complete(w.run())
	if got := string(w.byKey()["A1"].Raw); !strings.Contains(got, `"name":"Northwind",`) ||
		!strings.Contains(got, "a@example.com") || strings.Contains(got, "LS1 4AP") {
		t.Errorf("the adopted customer is %s, want its contact and nothing else changed", got)
	}
	if res := w.complete(w.run()); res.Counts.Unchanged != 1 {
		t.Errorf("the second run counts %+v", res.Counts)
	}

	w.edit("own: [people]\n", "")
	w.complete(w.run())
	if got := string(w.byKey()["A1"].Raw); !strings.Contains(got, `"name":"Northwind Ltd",`) ||
		!strings.Contains(got, "LS1 4AP") {
		t.Errorf("once everything is owned the customer is %s", got)
	}
}
