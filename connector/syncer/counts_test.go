package syncer_test

import (
	"net/http"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// A finding counts in every run, and is news in the first one. It counts no more once it is settled.
//
// covers F241
func TestAFindingCountsInEveryRunUntilItIsSettled(t *testing.T) {
	t.Parallel()
	refuse := func(method, path string) sandbox.Fault {
		return sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: method, Path: path,
			Count: 1}
	}
	letBe := func(w *world) error {
		_, err := w.syncer.Close(w.t.Context(), w.payer("A1"), syncer.Operator{Name: "Ann", Reason: "it pays by card"})
		return err
	}
	retried := func(w *world) error { w.retry("A1"); return nil }
	for _, tt := range []struct {
		name         string
		before, then func(*world) error // the first run
		settle       func(*world) error
		held, failed int
	}{
		{name: "a refused create",
			before: func(w *world) error { w.service.Inject(refuse(http.MethodPost, "/api/customers")); return nil },
			settle: retried, failed: 1},
		{name: "a refused signing link",
			before: func(w *world) error { w.service.Inject(refuse(http.MethodPut, linkPath)); return nil }, settle: retried,
			failed: 1},
		{name: "a lost signing link", before: func(w *world) error {
			w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkPath, Count: 1})
			return nil
		}, settle: letBe, held: 1},
		{name: "a cancelled mandate", then: func(w *world) error { w.sign(connector.MandateCancelled); return nil },
			settle: letBe, held: 1},
		{name: "a customer that is gone", then: func(w *world) error {
			w.clock.advance(time.Hour) // it is no customer that was made just before
			err := w.service.Delete(w.payer("A1").BillingID)
			w.sweep()
			w.sweep()
			return err
		}, settle: func(w *world) error {
			_, err := w.syncer.GiveUp(w.t.Context(), w.connection(), state.RecordID{Connection: "acme", SourceID: "A1"},
				syncer.Operator{Name: "Ann", Reason: "it moved away"})
			return err
		}, held: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(3)
			w.complete(w.run())
			if tt.before != nil {
				if err := tt.before(w); err != nil {
					t.Fatal(err)
				}
			}
			w.books.put("A1", "Northwind", "a@example.com")
			res := w.complete(w.run())
			if tt.then != nil {
				w.clock.advance(time.Second)
				if err := tt.then(w); err != nil {
					t.Fatal(err)
				}
				res = w.complete(w.run())
			}
			if res.Attention != 1 || !res.News && tt.then == nil {
				t.Errorf("in the first run %d records need a person, news %t; want 1 and news", res.Attention, res.News)
			}
			for range 3 {
				w.clock.advance(time.Minute)
				res := w.complete(w.run())
				if res.Counts.Held != tt.held || res.Counts.Failed != tt.failed || res.Attention != 1 || res.News {
					t.Errorf("a later run counts %+v, %d for a person, news %t; want %d held and %d failed, 1 and no news", res.Counts,
						res.Attention, res.News, tt.held, tt.failed)
				}
				if res.Counts.Pulled != 4 {
					t.Errorf("%d records were read, want 4", res.Counts.Pulled)
				}
			}
			if err := tt.settle(w); err != nil {
				t.Fatal(err)
			}
			w.run()
			if res := w.complete(w.run()); res.Counts.Held+res.Counts.Failed+res.Attention != 0 || res.News {
				t.Errorf("after it was settled a run counts %+v, %d for a person, news %t", res.Counts, res.Attention, res.News)
			}
		})
	}
}

// covers F241
func TestACustomerWhoseCreateLostItsAnswerCountsAsCreated(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*world){
		"the answer is lost": func(w *world) {
			w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers",
				Count: 2})
		},
		"the process is killed": func(w *world) { meddle(w).onMade = func() { panic(errKilled) } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(2)
			begin(w)
			first := w.run()
			w.restart()
			second := w.run()
			if first.Counts.Created+second.Counts.Created != 2 || first.Counts.Updated+second.Counts.Updated != 0 {
				t.Errorf("two runs count %+v and %+v; want two created and none updated", first.Counts, second.Counts)
			}
		})
	}
}

// covers F241
func TestAWaitingPlanIsNewsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(40)
	plan := func() syncer.Result { return w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}) }
	if res := plan(); !res.AwaitsApproval() || !res.News {
		t.Errorf("a plan above the limits is %s, waits %t, news %t", res.Outcome, res.AwaitsApproval(), res.News)
	}
	if res := plan(); !res.AwaitsApproval() || res.News {
		t.Errorf("the same plan once more waits %t, news %t; want no news", res.AwaitsApproval(), res.News)
	}
	w.fill(41)
	if res := plan(); !res.AwaitsApproval() || !res.News {
		t.Errorf("another plan waits %t, news %t; want news", res.AwaitsApproval(), res.News)
	}
}
