package state

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"payersync/connector"
)

// twoBooks is a ledger with linked payers c0 and on of acme, and records n0 and on of beta.
func twoBooks(t *testing.T, n int) *desk {
	t.Helper()
	d := newDesk(t)
	for i := range n {
		d.planLinkedPayer(fmt.Sprintf("c%d", i), fmt.Sprintf("b%d", i))
	}
	run := d.run("beta")
	for i := range n {
		d.save(run, "beta", record(fmt.Sprintf("n%d", i), "x"))
	}
	d.do(func(tx *Tx) error {
		_, _, err := tx.CloseRun(run, "beta", connector.RunComplete, "", d.metBy(run))
		return err
	})
	return d
}

// pairs returns the pairs of the payers and records of twoBooks.
func pairsOf(n int) (out []MovePair) {
	for i := range n {
		out = append(out, MovePair{
			Old: RecordID{acme, fmt.Sprintf("c%d", i)}, New: RecordID{"beta", fmt.Sprintf("n%d", i)},
			BillingID: fmt.Sprintf("b%d", i),
			Key:       connector.Key{Name: "id", Value: fmt.Sprintf("n%d", i)},
		})
	}
	return out
}

var toBeta = ConnectionDecision{Old: acme, New: "beta", Actor: "ann", Reason: "new books"}

func (d *desk) moveBooks(pairs []MovePair) []MoveLeft {
	d.t.Helper()
	left, err := d.MoveBooks(context.Background(), toBeta, pairs)
	if err != nil {
		d.t.Fatal(err)
	}
	return left
}

// rowsOf counts the rows of a table that belong to a record.
func (d *desk) rowsOf(table string, id RecordID) int {
	d.t.Helper()
	return one[int](d.t, d.Ledger, "SELECT count(*) FROM "+table+" WHERE connection = ? AND source_id = ?", id.Connection,
		id.SourceID)
}

// covers F231
func TestAMoveTakesLettersAndDecisionsAlongAndTheUndoBringsThemBack(t *testing.T) {
	t.Parallel()
	d := twoBooks(t, 1)
	from, to, at := RecordID{acme, "c0"}, RecordID{"beta", "n0"}, "2026-03-02T09:00:00.000Z"
	d.do(func(tx *Tx) error {
		return errors.Join(
			tx.exec("INSERT INTO mandates (mandate_id, billing_id, status, status_since, first_seen_at, last_seen_at) VALUES ('m0', 'b0', 'CREATED', ?1, ?1, ?1)", at),
			tx.exec(`INSERT INTO letters (mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, digest, looked_at, frozen_at, sending_at, ended_at, attempts, state)
				VALUES ('m0', 0, 'invitation', 'acme', 'c0', 'h', 's', 'de', 'l1', 'h', ?1, ?1, ?1, ?1, 1, 'sent')`, at),
			tx.exec("INSERT INTO letter_stops (scope, connection, source_id, why, actor, since) VALUES ('payer', 'acme', 'c0', 'opted_out', 'ann', ?)", at),
			tx.exec("INSERT INTO letter_addresses (connection, source_id, recipient) VALUES ('acme', 'c0', 'h')"),
			tx.exec("INSERT INTO put_off (connection, source_id, reason, at, until, word) VALUES ('acme', 'c0', 'r', ?1, ?1, 1)",
				at),
			tx.exec("INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES ('acme', 'c0', 'b9', 'reject', 1, ?)", at),
			tx.exec("UPDATE payers SET let_be = 1, let_be_of = 'w' WHERE connection = 'acme' AND source_id = 'c0'"))
	})
	tables := []string{"letters", "letter_stops", "letter_addresses", "put_off", "words", "changes"}
	was := map[string]int{}
	for _, table := range tables {
		if was[table] = d.rowsOf(table, from); was[table] == 0 {
			t.Fatalf("%s has nothing of the payer", table)
		}
	}
	expect := func(has, lacks RecordID) {
		t.Helper()
		for _, table := range tables {
			if n, left := d.rowsOf(table, has), d.rowsOf(table, lacks); n != was[table] || left != 0 {
				t.Errorf("%s has %d rows of %s, want %d, and %d of %s", table, n, has.SourceID, was[table], left, lacks.SourceID)
			}
		}
		if said := one[int](t, d.Ledger, "SELECT let_be FROM payers WHERE connection = ? AND source_id = ?", has.Connection,
			has.SourceID); said != 1 {
			t.Error("that nothing is to be done about the mandate is said no more")
		}
	}
	if left := d.moveBooks(pairsOf(1)); len(left) > 0 {
		t.Fatalf("left are %v", left)
	}
	expect(to, from)
	if left, err := d.TakePairsBack(t.Context(), toBeta, pairsOf(1)); err != nil || len(left) > 0 {
		t.Fatalf("left are %v, %v", left, err)
	}
	expect(from, to)
	if err := d.ReopenBooks(t.Context(), toBeta); err != nil {
		t.Error(err)
	}
}

// covers F232
func TestAMoveThatEndsInTheMiddleGoesOn(t *testing.T) {
	t.Parallel()
	const n = 3 * movesAtOnce / 2
	d := twoBooks(t, n)
	pairs, left := pairsOf(n), []MoveLeft(nil)
	ctx, stop := context.WithCancel(t.Context())
	done := 0
	d.moveBooks(nil) // closes the old books
	err := d.eachPair(ctx, pairs, func(*Tx) error { return nil }, &left, func(tx *Tx, p MovePair) error {
		if done++; done > movesAtOnce {
			stop()
			return ctx.Err()
		}
		return tx.linkSuccessor(toBeta, p)
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if moved, err := d.MovePairs(t.Context(), acme, "beta"); err != nil || len(moved) != movesAtOnce {
		t.Fatalf("%d pairs are moved, %v", len(moved), err)
	}
	if err := d.ReopenBooks(t.Context(), toBeta); !errors.Is(err, ErrPairsLeft) {
		t.Errorf("the old books open with pairs left: %v", err)
	}
	if left := d.moveBooks(pairs); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if linked, err := d.LinkedPayers(t.Context(), "beta"); err != nil || len(linked) != n {
		t.Errorf("%d customers are moved, %v", len(linked), err)
	}
	if linked, err := d.LinkedPayers(t.Context(), acme); err != nil || len(linked) != 0 {
		t.Errorf("%d customers are left, %v", len(linked), err)
	}
}

// covers F231
func TestAPairWithARequestUnderWayIsLeftAndTheOthersMove(t *testing.T) {
	t.Parallel()
	d := twoBooks(t, 2)
	d.moveBooks(nil)
	d.do(func(tx *Tx) error {
		return tx.exec("UPDATE changes SET state = 'unknown' WHERE connection = 'acme' AND source_id = 'c0'")
	})
	left := d.moveBooks(pairsOf(2))
	if len(left) != 1 || left[0].Old.SourceID != "c0" || !errors.Is(left[0].Why, ErrUnderWay) {
		t.Errorf("left are %v", left)
	}
}

// covers F231
func TestBooksDoNotMoveWhileARequestOrARunIsUnderWay(t *testing.T) {
	t.Parallel()
	d := twoBooks(t, 1)
	d.do(func(tx *Tx) error { return tx.exec("UPDATE changes SET state = 'unknown' WHERE connection = 'acme'") })
	if _, err := d.MoveBooks(t.Context(), toBeta, pairsOf(1)); !errors.Is(err, ErrUnderWay) {
		t.Errorf("with a request under way: %v", err)
	}
	if moved, err := d.MovedTo(t.Context(), acme); err != nil || moved != nil {
		t.Errorf("it is noted all the same: %+v, %v", moved, err)
	}
	d.do(func(tx *Tx) error { return tx.exec("UPDATE changes SET state = 'done' WHERE connection = 'acme'") })
	lock, err := d.TryLock("beta")
	if err != nil {
		t.Fatal(err)
	}
	run := d.run("beta")
	if _, err := d.MoveBooks(t.Context(), toBeta, pairsOf(1)); !errors.Is(err, ErrRunning) {
		t.Errorf("beside a run: %v", err)
	}
	d.do(func(tx *Tx) error {
		_, _, err := tx.CloseRun(run, "beta", connector.RunComplete, "", d.metBy(run))
		return err
	})
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if left := d.moveBooks(pairsOf(1)); len(left) > 0 {
		t.Errorf("left after the run are %v", left)
	}
}

// covers F233
func TestAForgottenPayerOfTheOldBooksIsHeldInTheNewOnes(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"that were read before the move": true, "that are read after it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := twoBooks(t, 1)
			label := connector.Label{Number: "4711", Name: "Ada", Email: ""}
			d.label(acme, mapping, NewLabel{SourceID: "c0", Label: label})
			if _, err := d.Forget(t.Context(), RecordID{acme, "c0"},
				Entry{Actor: "ann", Action: "forget", Subject: "acme/c0"}); err != nil {
				t.Fatal(err)
			}
			if before {
				d.label("beta", mapping, NewLabel{SourceID: "n0", Label: label})
			}
			d.moveBooks(nil)
			if before {
				if how, err := d.ForgottenAs(t.Context(), RecordID{"beta", "n0"}); err != nil || how != ForgottenAlike {
					t.Errorf("the record is kept: %q, %v", how, err)
				}
				return
			}
			barred, err := d.Barred(t.Context(), "beta", []connector.Record{record("n9", "x")},
				func(connector.Record) connector.Label { return label })
			if err != nil || barred["n9"] != ForgottenAlike {
				t.Errorf("the record is kept: %v, %v", barred, err)
			}
		})
	}
}
