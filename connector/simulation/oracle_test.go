package simulation

import (
	"context"
	"net/http"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

// covers S18
func TestNoProcessSendsMoreThanItMay(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	each(t, longtest.Number(3, 16/scale), func(t *testing.T, i int) bool {
		p := draw(uint64(i) + 1)
		p.rate = float64(2 + i)
		if o := play(t, p, tmpl, randomStory); o.failed() {
			t.Error(o.report(60))
		}
		return true
	})
}

// The rules that no weaker variant breaks are shown to catch made-up events.
func TestTheOracleCatchesWhatNoVariantDoes(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	for _, tt := range []struct {
		name, invariant string
		breaks          func(w *world)
	}{
		{"a second customer for a key", "S1", func(w *world) {
			made := sandbox.Customer{ID: "c2", ExternalData: map[string]string{keyName: "R1"}}
			w.oracle.born(call{op: "create", id: "R1"}, made,
				watched{[]sandbox.Customer{{ID: "c1", ExternalData: made.ExternalData}}})
		}},
		{"a link to a customer that never carried the key", "S2", func(w *world) {
			w.payers(2)
			w.syncs()
			for id := range w.oracle.keys {
				w.oracle.keys[id] = map[string]bool{"another": true}
			}
			w.oracle.check(w.procs[0])
		}},
		{"an update that changes nothing of ours", "S6", func(w *world) {
			body := []byte(`{"id":"c1","name":"Ann"}`)
			put(w.oracle.gets, w.procs[0], "c1", reading{body})
			w.oracle.judgeUpdate(call{p: w.procs[0], op: "update", id: "c1", body: body})
		}},
		{"a DELETE", "S7", func(w *world) { w.oracle.before(call{op: "delete"}) }},
		{"a cancellation by itself", "S7", func(w *world) { w.oracle.before(call{op: "cancel"}) }},
		{"a link that replaces a cancelled mandate", "V-cancelled", func(w *world) {
			w.payers(1)
			w.syncs()
			c := w.service.Customers()[0]
			_ = w.service.PayerCancel(c.Mandates[0].ID)
			w.do(w.wait(time.Second))
			w.oracle.before(call{p: w.procs[0], op: "get", id: c.ID, at: w.now()})
			w.oracle.before(call{p: w.procs[0], op: "link", id: c.ID, at: w.now()})
		}},
		{"a link that replaces a cancelled mandate, without a look", "V-cancelled", func(w *world) {
			w.payers(1)
			w.syncs()
			c := w.service.Customers()[0]
			w.oracle.before(call{p: w.procs[0], op: "get", id: c.ID, at: w.now()})
			w.do(w.wait(time.Second))
			w.oracle.before(call{p: w.procs[0], op: "link", id: c.ID, at: w.now()})
			_ = w.service.PayerCancel(c.Mandates[0].ID)
			w.do(w.wait(time.Second))
			w.oracle.before(call{p: w.procs[0], op: "link", id: c.ID, at: w.now()})
		}},
		{"a customer that never was", "S8", func(w *world) {
			w.payers(1)
			w.syncs()
			clear(w.oracle.keys)
			w.oracle.check(w.procs[0])
		}},
		{"a finding that no fact gives", "V6", func(w *world) {
			w.payers(1)
			w.syncs()
			p := w.procs[0]
			w.do(p.ledger.Do(context.Background(), func(tx *state.Tx) error {
				tx.Explain(state.Payer{Connection: w.books.connection, SourceID: w.books.records[0].SourceID}, state.TopicRecord,
					connector.ReasonMandateCancelled, "")
				return nil
			}))
			w.oracle.check(p)
		}},
		{"an acknowledged webhook that is lost", "S10",
			func(w *world) { w.oracle.acknowledged("e1"); w.oracle.check(w.procs[0]) }},
		{"more creates than were approved", "S13", func(w *world) {
			r := w.oracle.runBegins(w.procs[0], w.books)
			r.creates["R1"], r.creates["R2"] = true, true
			w.oracle.runEnded(w.procs[0], r, connector.RunSync, syncer.Result{Plan: &state.Plan{Creates: 1}})
		}},
		{"a run that never ends", "L4", func(w *world) {
			w.payers(1)
			w.requests.Store(maxRequests)
			w.syncs()
		}},
		{"a secret in a log line", "S15", func(w *world) { w.logger.Info("https://localhost/sign/abc") }},
		{"a personal value in attention", "S15", func(w *world) { w.oracle.told("attention", "r1@payer.test is wrong") }},
		{"a run that reads the list again and again", "L4", func(w *world) {
			w.plan.strict = true
			run := w.oracle.runBegins(w.procs[0], w.books)
			for pass := range mostPasses + 1 {
				w.oracle.listed(call{p: w.procs[0], op: "list", pass: pass, run: run}, true, []byte("[]"))
			}
		}},
		{"a create beside a list that lacks whom the ledger knows", "S17", func(w *world) {
			w.plan.strict = true
			w.payers(1)
			w.syncs()
			w.do(w.wait(time.Second))
			run := w.oracle.runBegins(w.procs[0], w.books)
			for pass := range 2 {
				w.oracle.listed(call{p: w.procs[0], op: "list", pass: 100 + pass, run: run, at: time.Now()}, true, []byte("[]"))
			}
			w.oracle.judgeLook(call{p: w.procs[0], op: "create", id: "R2", run: run}, time.Now().Add(-time.Millisecond))
		}},
		{"other bytes for a key that was passed on too soon", "S3", func(w *world) {
			first := call{p: w.procs[0], op: "create", id: "R1", body: []byte(`{"name":"Ann"}`)}
			w.oracle.sent(first)
			w.oracle.taint("R1", "rekeyed")
			w.do(w.wait(time.Minute))
			w.oracle.judgeCreate(call{p: w.procs[0], op: "create", id: "R1", body: []byte(`{"name":"Bob"}`)})
		}},
		{"other bytes for a record that was back before its create left", "S3", func(w *world) {
			w.oracle.left["R1"] = time.Now()
			w.do(w.wait(time.Minute))
			create := call{p: w.procs[0], op: "create", id: "R1", body: []byte(`{"name":"Ann"}`),
				run: w.oracle.runBegins(w.procs[0], w.books)}
			w.oracle.sent(create)
			w.do(w.wait(time.Hour))
			create.body = []byte(`{"name":"Bob"}`)
			w.oracle.judgeCreate(create)
		}},
		{"a create without an answer, sent again after a token was refused and without new lists", "S4", func(w *world) {
			w.plan.strict = true
			w.do(w.wait(time.Second))
			run := w.oracle.runBegins(w.procs[0], w.books)
			for pass := range 2 {
				w.oracle.listed(call{p: w.procs[0], op: "list", pass: pass, run: run, at: time.Now()}, true, []byte("[]"))
			}
			w.do(w.wait(time.Second))
			create := call{p: w.procs[0], op: "create", id: "R1", body: []byte(`{"name":"Ann"}`), run: run}
			w.oracle.judgeCreate(create) // nobody answers
			w.do(w.wait(time.Minute))
			create.at = time.Now()
			w.oracle.judgeCreate(create)
			w.oracle.answered(create, faultNone, http.StatusUnauthorized, nil, true)
			w.do(w.wait(time.Hour))
			w.oracle.judgeCreate(create)
		}},
		{"an update for a payer that was given up", "S19", func(w *world) {
			w.payers(2)
			w.syncs()
			payer, err := w.procs[0].ledger.Payer(context.Background(), w.books.connection, w.books.records[0].SourceID)
			w.do(err)
			w.oracle.givenUp[state.RecordID{Connection: payer.Connection, SourceID: payer.SourceID}] = wordSaid{time.Now(),
				payer.BillingID, payer.Key.Value}
			w.oracle.judgeGivenUp(call{p: w.procs[0], op: "update", id: payer.BillingID, at: time.Now()})
		}},
		{"too many requests in a second", "S18", func(w *world) {
			w.plan.rate = 5
			for range 5 + jitter + 1 {
				w.oracle.departs(w.procs[0])
				time.Sleep(time.Millisecond)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := play(t, calm(), tmpl, func(w *world) error { tt.breaks(w); return nil })
			if o.signature() != tt.invariant || o.err != nil {
				t.Errorf("the oracle says %q, not %s (%v %v)", o.signature(), tt.invariant, o.bad, o.err)
			}
		})
	}
}
