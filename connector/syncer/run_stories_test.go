package syncer_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// covers F11, S5
func TestAForeignEditDuringAnUpdateIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	c, _ := w.service.Customer(id)
	withForeign := strings.Replace(string(c.Raw), `"name"`, `"crmScore":12345678901234567890,"name"`, 1)
	if err := w.service.Edit(id, json.RawMessage(withForeign)); err != nil {
		t.Fatal(err)
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.complete(w.run())
	c, _ = w.service.Customer(id)
	if !strings.Contains(string(c.Raw), `"crmScore":12345678901234567890`) || c.Name != "Northwind Ltd" {
		t.Errorf("after the update the customer is %s", c.Raw)
	}
}

// covers F13, F14, F79, V2
func TestAnOutageLeavesTheRunIncompleteAndTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(40)
	w.service.Inject(sandbox.Fault{Kind: sandbox.Throttled, Method: http.MethodPost, Path: "/api/customers", Skip: 10,
		RetryAfter: "7200"})
	res := w.run()
	if res.Outcome != connector.RunIncomplete || connector.FaultOf(res.Err) != connector.FaultThrottled {
		t.Fatalf("outcome %s, %v; want incomplete and throttled", res.Outcome, res.Err)
	}
	if want := w.clock.now().Add(2 * time.Hour); !res.RetryAt.Equal(want) {
		t.Errorf("retry at %s, want %s", res.RetryAt, want)
	}
	w.service.ClearFaults()
	w.clock.advance(2 * time.Hour)
	w.complete(w.run())
	if n := len(w.byKey()); n != 40 {
		t.Errorf("%d customers, want 40", n)
	}
}

// covers F45, S17
func TestAnIncompleteReadOfTheSourceSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(5)
	w.books.broken = errors.New("the file ended early")
	res := w.run()
	if res.Outcome != connector.RunFailed || w.service.Writes() != 0 {
		t.Errorf("outcome %s with %d writes, want failed and none", res.Outcome, w.service.Writes())
	}
}

// covers F61
func TestASecondRunOnAConnectionIsRefusedUntilTheFirstEndsOrDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(1)
	ctx := context.Background()
	if err := w.ledger.Do(ctx, func(tx *state.Tx) error {
		m := w.connection().Mapping
		if err := tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "books"}}); err != nil {
			return err
		}
		if err := tx.SaveMapping(m.Version(), string(m.Text()), "tester"); err != nil {
			return err
		}
		_, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual",
			Mapping: m.Version(), Holder: "other"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	lock, err := w.ledger.TryLock("acme") // the other run's process lives
	if err != nil || lock == nil {
		t.Fatalf("lock = %v, %v", lock, err)
	}
	_, err = w.syncer.Run(ctx, w.connection(), syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual"})
	var open *state.ErrRunOpen
	if !errors.As(err, &open) {
		t.Fatalf("err = %v, want ErrRunOpen", err)
	}
	proves := lock.Proves()
	if err := lock.Release(); err != nil { // it dies: of a file nobody waits for its lease
		t.Fatal(err)
	}
	if !proves {
		if _, err := w.syncer.Run(ctx, w.connection(),
			syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual"}); !errors.As(err, &open) {
			t.Fatalf("err = %v, want that its lease holds on a server, which cannot know that the other is dead", err)
		}
		w.clock.advance(state.Lease)
	}
	w.complete(w.run())
}

// covers S7, F58
func TestACancelledMandateIsNeverReplacedWithoutAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	ctx := context.Background()
	p := w.payer("A1")
	if err := w.service.PayerCancel(p.MandateID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.syncer.Reconciler.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	if res := w.complete(w.run()); res.Counts.LinksRequested != 0 {
		t.Errorf("%d links were requested after a cancellation", res.Counts.LinksRequested)
	}
	if got := w.attention()["A1"]; got != string(connector.ReasonMandateCancelled) {
		t.Errorf("attention = %q", got)
	}
	if _, err := w.syncer.RequestLink(ctx, w.payer("A1"), syncer.Operator{Name: "kim"}); !errors.Is(err,
		syncer.ErrReasonNeeded) {
		t.Errorf("err = %v, want ErrReasonNeeded", err)
	}
	m, err := w.syncer.RequestLink(ctx, w.payer("A1"), syncer.Operator{Name: "kim", Reason: "new bank account"})
	if err != nil || m.ID == p.MandateID || m.URL == "" {
		t.Errorf("mandate = %+v, %v; want a new one with a link", m.ID, err)
	}
	if got := w.payer("A1").MandateID; got != m.ID {
		t.Errorf("current mandate = %s, want %s", got, m.ID)
	}
}

// covers F58
func TestASigningLinkWhoseAnswerWasLostIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut,
		Path: "/api/customers/*/directdebitmandates", Count: 1})
	w.run()
	w.run()
	c := w.byKey()["A1"]
	if len(c.Mandates) != 1 {
		t.Fatalf("%d mandates, want 1", len(c.Mandates))
	}
	if got := w.attention()["A1"]; got != string(connector.ReasonLinkLost) {
		t.Errorf("attention = %q, want %q", got, connector.ReasonLinkLost)
	}
}

// covers F67
func TestAnInterruptedRunIsTakenUpByTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(200)
	w.slowly(500) // so most requests are still to come
	ctx, cancel := context.WithCancel(context.Background())
	res := w.runWith(ctx, syncer.RunOptions{
		Kind: connector.RunBackfill, Approve: func(state.Plan) (bool, error) { return true, nil },
		Progress: func(p syncer.Progress) {
			if p.Stage == "send" && p.Done == 20 {
				cancel()
			}
		},
	})
	if res.Outcome != connector.RunIncomplete || !errors.Is(res.Err, context.Canceled) {
		t.Fatalf("outcome %s, %v; want incomplete and cancelled", res.Outcome, res.Err)
	}
	problems, err := w.ledger.RunProblems(t.Context())
	if want := "it was stopped before its end"; err != nil || len(problems) != 1 || problems[0].Problem != want ||
		problems[0].Reason != want || res.Reason != want {
		t.Errorf("the run's problem is %+v, %v, and its reason %q; want %q", problems, err, res.Reason, want)
	}
	made := w.service.Writes()
	w.slowly(0)
	w.complete(w.runWith(context.Background(), syncer.RunOptions{Kind: connector.RunSync}))
	if n := len(w.byKey()); n != 200 {
		t.Errorf("%d customers, want 200 (%d before the interruption)", n, made)
	}
	for _, r := range w.service.Requests() {
		if r.Method == http.MethodDelete {
			t.Error("a DELETE was sent")
		}
	}
}

func TestAPlanThatIsOnlyPrintedIsCompleteAndSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(5)
	res := w.complete(w.runWith(context.Background(), syncer.RunOptions{Kind: connector.RunPlan}))
	if res.Counts.Waiting != 5 || res.Plan.Creates != 5 || res.Plan.Links != 5 || w.service.Writes() != 0 {
		t.Errorf("counts = %+v, plan = %+v, %d writes; want 5 waiting and none", res.Counts, res.Plan, w.service.Writes())
	}
	if sent := w.complete(w.run()); sent.Counts.Created != 5 {
		t.Errorf("the run after it did %+v, want 5 created", sent.Counts)
	}
}

// covers F45
func TestARowThatIsGoneBeforeItWasSentIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(25) // above the limits: the plan waits
	w.books.put("B1", "Bad", "not an address")
	ctx := context.Background()
	w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync})
	w.books.mu.Lock()
	w.books.records = w.books.records[1:5]
	w.books.mu.Unlock()
	w.books.putAs("C9999", map[string]string{"No": "C0000", "Name": "Takes the key of a row that is gone",
		"Group": "payer"})
	if res := w.complete(w.run()); res.Counts.Created != 5 || res.Counts.Pulled != 5 {
		t.Errorf("counts = %+v, want the 5 rows that are there", res.Counts)
	}
	if got := w.attention(); len(got) != 0 {
		t.Errorf("attention = %v for rows that are gone", got)
	}
	w.books.mu.Lock()
	w.books.records = nil
	w.books.mu.Unlock()
	before := w.service.Writes()
	w.complete(w.run())
	if n := w.service.Writes() - before; n != 0 || len(w.byKey()) != 5 {
		t.Errorf("%d writes and %d customers after the source became empty, want 0 and 5", n, len(w.byKey()))
	}
}

// covers F50
func TestAnUpdateHeldForARemovedKeyIsSentOnceTheKeyIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	c, _ := w.service.Customer(id)
	without := strings.Replace(string(c.Raw), `"customerNo":"A1"`, `"other":"x"`, 1)
	if err := w.service.Edit(id, json.RawMessage(without)); err != nil {
		t.Fatal(err)
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	if res := w.complete(w.run()); res.Counts.Updated != 0 || w.attention()["A1"] != string(connector.ReasonKeyRemoved) {
		t.Errorf("counts = %+v, attention = %v; want the update held", res.Counts, w.attention())
	}
	if err := w.service.Edit(id, c.Raw); err != nil {
		t.Fatal(err)
	}
	if _, err := w.syncer.Reconciler.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Northwind Ltd" || len(w.attention()) != 0 {
		t.Errorf("name = %q, attention = %v", got, w.attention())
	}
}
