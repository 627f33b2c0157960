package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
	"slices"
)

// next is the connection that books move to in these tests.
const next = "ledger-two"

// newBooks are books of the same payers under ids and keys of their own.
type newBooks struct {
	*books
	mapping string
}

func newNewBooks() *newBooks {
	return &newBooks{&books{}, strings.Replace(standardMapping, "key: {customerNo: No}", "key: {accountId: No}", 1)}
}

func (w *world) connectionOf(b *newBooks) syncer.Connection {
	w.t.Helper()
	m, err := mapping.Load("mapping.yaml", []byte(b.mapping), b.info())
	if err != nil {
		w.t.Fatal(err)
	}
	return syncer.Connection{Name: next, Source: b, Info: b.info(), Mapping: m}
}

// runNew makes a run of the new books that approves its own plan.
func (w *world) runNew(b *newBooks, kind connector.RunKind) syncer.Result {
	w.t.Helper()
	res, err := w.syncer.Run(context.Background(), w.connectionOf(b), syncer.RunOptions{
		Kind: kind, Trigger: "manual", Actor: "tester", Holder: "test",
		Approve: func(state.Plan) (bool, error) { return true, nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// moveTo orders the move, with the pairs of records, old id before new id.
func (w *world) moveTo(b *newBooks, ids ...string) ([]state.MoveLeft, error) {
	w.t.Helper()
	return w.syncer.MoveBooks(w.t.Context(), w.connectionOf(b), "acme", w.pairs(b, ids), ann)
}

// pairs returns the pairs of ids, old before new.
func (w *world) pairs(b *newBooks, ids []string) (pairs []state.MovePair) {
	w.t.Helper()
	for i := 0; i < len(ids); i += 2 {
		u, waits, err := w.syncer.UnlinkedOne(w.t.Context(), w.connectionOf(b), ids[i+1])
		if err != nil || !waits {
			w.t.Fatalf("record %s is not free: %v", ids[i+1], err)
		}
		pairs = append(pairs, state.MovePair{
			Old: state.RecordID{Connection: "acme", SourceID: ids[i]}, New: state.RecordID{Connection: next, SourceID: ids[i+1]},
			Key: u.Key,
		})
	}
	return pairs
}

// payerIn is payer of a connection.
func (w *world) payerIn(connection, sourceID string) state.Payer {
	w.t.Helper()
	p, err := w.ledger.Payer(w.t.Context(), connection, sourceID)
	if err != nil {
		w.t.Fatalf("payer %s of %s: %v", sourceID, connection, err)
	}
	return p
}

// aMove is a world whose payers C0000 and on are also in new books, as 700 and on.
func aMove(t *testing.T, n int) (*world, *newBooks) {
	t.Helper()
	w, b := newWorld(t), newNewBooks()
	w.fill(n)
	w.complete(w.run())
	for i := range n {
		b.put(fmt.Sprint(700+i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("payer%d@example.com", i))
	}
	w.runNew(b, connector.RunPlan)
	return w, b
}

// covers F231
func TestBooksThatMovedKeepCustomersAndMandates(t *testing.T) {
	t.Parallel()
	w, b := aMove(t, 3)
	before := []state.Payer{w.payer("C0000"), w.payer("C0001"), w.payer("C0002")}
	links := len(w.bodies("POST", "/api/mandates")) + len(w.service.Customers())
	left, err := w.moveTo(b, "C0000", "700", "C0001", "701", "C0002", "702")
	if err != nil || len(left) > 0 {
		t.Fatalf("left are %v: %v", left, err)
	}
	if res := w.complete(w.runNew(b, connector.RunSync)); res.Counts.Created != 0 || res.Counts.LinksRequested != 0 ||
		res.Counts.Updated != 3 {
		t.Errorf("the run counts %+v", res.Counts)
	}
	w.complete(w.runNew(b, connector.RunSync))
	for i, was := range before {
		p := w.payerIn(next, fmt.Sprint(700+i))
		if p.BillingID != was.BillingID || p.MandateID != was.MandateID ||
			p.Key != (connector.Key{Name: "accountId", Value: fmt.Sprint(700 + i)}) || p.LinkState != connector.LinkLinked {
			t.Errorf("the payer was %+v and is %+v", was, p)
		}
		c, _ := w.service.Customer(was.BillingID)
		if diff := cmp.Diff(map[string]string{"accountId": fmt.Sprint(700 + i)}, c.ExternalData); diff != "" {
			t.Errorf("the customer carries (-want +got):\n%s", diff)
		}
		if changes, err := w.ledger.ChangesOf(t.Context(), next, fmt.Sprint(700+i)); err != nil || len(changes) < 3 {
			t.Errorf("the history of the payer is %+v, %v", changes, err)
		}
	}
	if now := len(w.bodies("POST", "/api/mandates")) + len(w.service.Customers()); now != links {
		t.Errorf("%d customers and requests for links, and %d before", now, links)
	}
	if told := w.attention(); len(told) != 0 {
		t.Errorf("people are told of %v", told)
	}
	_, err = w.syncer.Run(t.Context(), w.connection(),
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
	var moved *state.MovedError
	if !errors.As(err, &moved) || moved.New != next ||
		!slices.Equal(connector.StepsOf(err),
			[]connector.Step{{Do: connector.DoUndoMoveBooks, Connection: "acme", Of: next}}) {
		t.Errorf("a run of the old books: %v", err)
	}
}

// covers F231
func TestAMoveIsUndoneAndRepeated(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"before anything was sent": false, "after the new keys were written": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := aMove(t, 2)
			before := []state.Payer{w.payer("C0000"), w.payer("C0001")}
			for range 2 {
				if left, err := w.moveTo(b, "C0000", "700", "C0001", "701"); err != nil || len(left) > 0 {
					t.Fatalf("left are %v: %v", left, err)
				}
				if sent {
					w.complete(w.runNew(b, connector.RunSync))
				}
				if left, err := w.syncer.UndoMove(t.Context(), "acme", next, ann); err != nil || len(left) > 0 {
					t.Fatalf("left after the undo are %v: %v", left, err)
				}
				updates := len(w.bodies("PUT", "/api/customers"))
				w.complete(w.run())
				w.complete(w.run())
				for _, was := range before {
					p := w.payer(was.SourceID)
					if p.BillingID != was.BillingID || p.MandateID != was.MandateID || p.Key != was.Key ||
						p.LinkState != connector.LinkLinked {
						t.Errorf("the payer was %+v and is %+v", was, p)
					}
					c, _ := w.service.Customer(was.BillingID)
					if diff := cmp.Diff(map[string]string{"customerNo": was.SourceID}, c.ExternalData); diff != "" {
						t.Errorf("the customer carries (-want +got):\n%s", diff)
					}
				}
				if now := len(w.bodies("PUT", "/api/customers")); !sent && now != updates {
					t.Errorf("%d updates after an undo of a move of which nothing was sent", now-updates)
				}
				if told := w.attention(); len(told) != 0 {
					t.Errorf("people are told of %v", told)
				}
				w.runNew(b, connector.RunPlan)
			}
		})
	}
}

// covers F231
func TestAPayerThatNoRecordOfTheNewBooksContinuesIsTold(t *testing.T) {
	t.Parallel()
	w, b := aMove(t, 2)
	if left, err := w.moveTo(b, "C0000", "700"); err != nil || len(left) > 0 {
		t.Fatalf("left are %v: %v", left, err)
	}
	if diff := cmp.Diff(map[string]string{"C0001": string(connector.ReasonLeftWithMandate)}, w.attention()); diff != "" {
		t.Errorf("people are told (-want +got):\n%s", diff)
	}
	w.runNew(b, connector.RunSync)
	if diff := cmp.Diff(map[string]string{"C0001": string(connector.ReasonLeftWithMandate),
		"701": string(connector.ReasonRenumbered)}, w.attention()); diff != "" {
		t.Errorf("a run of the new books tells (-want +got):\n%s", diff)
	}
	if n := len(w.service.Customers()); n != 2 {
		t.Errorf("there are %d customers", n)
	}
	if left, err := w.moveTo(b, "C0001", "701"); err != nil || len(left) > 0 {
		t.Fatalf("left are %v: %v", left, err)
	}
	w.complete(w.runNew(b, connector.RunSync))
	if told := w.attention(); len(told) != 0 {
		t.Errorf("people are told of %v", told)
	}
}

// covers F232
func TestAMoveThatDiesAtAnyCommitGoesOn(t *testing.T) {
	t.Parallel()
	for at := 1; at < 12; at++ {
		w, b := aMove(t, 3)
		links := len(w.service.Customers())
		dead := errors.New("the process dies")
		if err := w.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		commits := 0
		w.openWith(func(done bool) error {
			if commits++; commits >= at {
				return dead
			}
			return nil
		})
		ids := []string{"C0000", "700", "C0001", "701", "C0002", "702"}
		died := w.tryMove(b, ids...)
		_ = w.ledger.Close()
		w.open()
		if died == nil {
			if at < 3 {
				t.Errorf("it has only %d commits: this check has lost its subject", at-1)
			}
			return // it came to its end
		}
		if _, err := w.moveTo(b, w.unmoved(ids)...); err != nil {
			t.Fatalf("after commit %d: %v", at, err)
		}
		w.complete(w.runNew(b, connector.RunSync))
		if n := len(w.service.Customers()); n != links || len(w.attention()) != 0 {
			t.Errorf("after commit %d there are %d customers, and people are told of %v", at, n, w.attention())
		}
		for i := range 3 {
			if p := w.payerIn(next, fmt.Sprint(700+i)); p.BillingID == "" || p.Key.Name != "accountId" {
				t.Errorf("after commit %d the payer is %+v", at, p)
			}
		}
	}
}

// tryMove is moveTo of a process that may die.
func (w *world) tryMove(b *newBooks, ids ...string) error {
	_, err := w.syncer.MoveBooks(w.t.Context(), w.connectionOf(b), "acme", w.pairs(b, ids), ann)
	return err
}

// unmoved returns the pairs of ids whose customers are still with the old books.
func (w *world) unmoved(ids []string) (out []string) {
	for i := 0; i < len(ids); i += 2 {
		if p, err := w.ledger.Payer(w.t.Context(), "acme", ids[i]); err == nil && p.BillingID != "" {
			out = append(out, ids[i], ids[i+1])
		}
	}
	return out
}

// covers F231
func TestAPayerThatAPersonGaveUpStaysGivenUpInTheNewBooks(t *testing.T) {
	t.Parallel()
	w, b := aMove(t, 2)
	if _, err := w.syncer.GiveUp(t.Context(), w.connection(), state.RecordID{Connection: "acme", SourceID: "C0000"},
		ann); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	before, _ := w.service.Customer(w.payer("C0000").BillingID)
	if left, err := w.moveTo(b, "C0000", "700", "C0001", "701"); err != nil || len(left) > 0 {
		t.Fatalf("left are %v: %v", left, err)
	}
	w.complete(w.runNew(b, connector.RunSync))
	if after, _ := w.service.Customer(before.ID); string(after.Raw) != string(before.Raw) {
		t.Errorf("the customer was\n%s\nand is\n%s", before.Raw, after.Raw)
	}
	if told := w.attention(); len(told) != 0 {
		t.Errorf("people are told of %v", told)
	}
}
