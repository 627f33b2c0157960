package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// covers S16
func TestAlteredChainsAreFound(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, statement, want string }{
		{"audit, actor", "UPDATE audit SET actor = 'eve' WHERE seq = 2", "audit log was altered at entry 2"},
		{"audit, reason of the last", "UPDATE audit SET reason = 'none' WHERE seq = (SELECT max(seq) FROM audit)",
			"audit log was altered"},
		{"audit, own hash", "UPDATE audit SET hash = 'x' WHERE seq = 1", "audit log was altered at entry 1"},
		{"audit, removed entry", "DELETE FROM audit WHERE seq = 2", "audit log was altered at entry 3"},
		{"audit, removed head", "DELETE FROM audit WHERE seq = 1", "audit log was altered at entry 2"},
		{"audit, inserted entry",
			"INSERT INTO audit (seq, at, actor, action, subject, reason, prev_hash, hash) VALUES (-1, 'a', 'b', 'c', 'd', 'e', '', 'f')", "audit log was altered"},
		{"audit, swapped entries", "UPDATE audit SET seq = -seq WHERE seq < 3", "audit log was altered"},
		{"history, status", "UPDATE mandate_history SET to_status = 'CANCELLED' WHERE seq = 1",
			"mandate history was altered at entry 1"},
		{"history, shifted text",
			"UPDATE mandate_history SET from_status = from_status || 'A', to_status = substr(to_status, 2) WHERE seq = 2",
			"mandate history was altered at entry 2"},
		{"history, removed last", "DELETE FROM mandate_history WHERE seq = (SELECT max(seq) FROM mandate_history)",
			"not the last one of its history"},
		{"mandate, status", "UPDATE mandates SET status = 'ACTIWE' WHERE mandate_id = 'm000'", "m000 is not the last one"},
		{"a row whose other half is gone", "DELETE FROM mapping_versions",
			"refers to a row of mapping_versions that is gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.fill(8)
			if err := d.Integrity(t.Context()); err != nil {
				t.Fatalf("untouched: %v", err)
			}
			if strings.HasPrefix(tt.want, "refers to") {
				onlyOnSQLite(t, "a reference always holds elsewhere")
			}
			raw(t, d.opts.Path, append(lawless(), tt.statement)...)
			if err := d.Integrity(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// lawless takes the laws away by which logs stay as they are.
func lawless() (statements []string) {
	for _, table := range []string{"audit", "mandate_history"} {
		for _, law := range []string{"keeps", "stays"} {
			statement := "DROP TRIGGER " + table + "_" + law
			if dbtest.OnPostgres() {
				statement += " ON " + table
			}
			statements = append(statements, statement)
		}
	}
	if dbtest.OnPostgres() {
		statements = append(statements, "ALTER TABLE failure_reasons DROP CONSTRAINT failure_reasons_account_seq_fkey")
	}
	return statements
}

// Typed text is stored like in every database, and the chain covers the stored form.
func TestTheLogsHoldTogetherWhateverTheyTell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, text := range []string{"a\x00b", "K\xf6ln", "\xff\x00", "Zoë\ufffd", "\u2028\x1f<&>"} {
		d.do(func(tx *Tx) error { return tx.Audit(Entry{Actor: text, Action: "note", Subject: text, Reason: text}) })
		d.mandate(connector.Mandate{ID: "m" + text, CustomerID: "b" + text, Status: connector.MandateStatus("S" + text),
			ServiceTime: text}, connector.CauseSweep)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
	if got := one[int](t, d.Ledger,
		"SELECT (SELECT count(*) FROM audit WHERE instr(reason, char(0)) = 0) + (SELECT count(*) FROM mandate_history WHERE instr(mandate_id || service_time, char(0)) = 0)"); got != 10 {
		t.Errorf("%d lines are kept as every database keeps them, want 10", got)
	}
}

func TestTheLogsRefuseUpdateAndDelete(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(4)
	db := rawDB(t, d.opts.Path)
	for _, table := range []string{"audit", "mandate_history"} {
		for _, statement := range []string{"UPDATE %s SET hash = 'x'", "UPDATE %s SET seq = seq", "DELETE FROM %s",
			"DELETE FROM %s WHERE seq = 1"} {
			_, err := db.ExecContext(t.Context(), fmt.Sprintf(statement, table))
			if err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: got %v, want a refusal", fmt.Sprintf(statement, table), err)
			}
		}
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

var statuses = []connector.MandateStatus{
	connector.MandateCreated, connector.MandatePending, connector.MandateActive, connector.MandateCancelled, "ODD",
	"odd \"quoted\"\u2028",
}

// history is what the ledger must say of one customer's mandates, beside the
// ledger. Each try of a property has a customer of its own in a shared ledger.
type history struct {
	*desk
	customer string
	last     map[string]connector.MandateStatus
	rows     int
}

// observe saves a status from a read, alone or in a write that fails after it.
func (h *history) observe(t *rapid.T) {
	id := h.customer + rapid.SampledFrom([]string{"-m1", "-m2", "-m3"}).Draw(t, "mandate")
	status := rapid.SampledFrom(statuses).Draw(t, "status")
	cause, fails := rapid.String().Draw(t, "cause"), rapid.Bool().Draw(t, "fails")
	err := h.Do(context.Background(), func(tx *Tx) error {
		before, err := tx.SaveMandate(connector.Mandate{ID: id, CustomerID: h.customer, Status: status}, connector.CauseSweep,
			cause)
		if err == nil && before != h.last[id] {
			err = fmt.Errorf("the status before was %q, want %q", before, h.last[id])
		}
		if err == nil && fails {
			err = errRefused
		}
		return err
	})
	switch {
	case fails && errors.Is(err, errRefused):
		return
	case err != nil:
		t.Fatal(err)
	case h.last[id] != status:
		h.rows++
	}
	h.last[id] = status
}

func (h *history) audit(t *rapid.T) {
	e := Entry{
		Actor: rapid.String().Draw(t, "actor"), Action: rapid.String().Draw(t, "action"),
		Subject: rapid.String().Draw(t, "subject"), Reason: rapid.String().Draw(t, "reason"),
	}
	if err := h.Do(context.Background(), func(tx *Tx) error { return tx.Audit(e) }); err != nil {
		t.Fatal(err)
	}
}

// check compares the chains with the model.
func (h *history) check(t *rapid.T) {
	if err := h.Integrity(context.Background()); err != nil {
		t.Fatal(err)
	}
	rows, err := h.History(context.Background(), h.customer)
	if err != nil || len(rows) != h.rows {
		t.Fatalf("%d lines of history, %v; want %d", len(rows), err, h.rows)
	}
	at := map[string]string{}
	for _, r := range rows {
		if r.FromStatus != at[r.MandateID] || r.FromStatus == r.ToStatus {
			t.Fatalf("line %d moves %s from %q to %q, it stood at %q", r.Seq, r.MandateID, r.FromStatus, r.ToStatus,
				at[r.MandateID])
		}
		at[r.MandateID] = r.ToStatus
	}
	for id, want := range h.last {
		if at[id] != string(want) {
			t.Fatalf("%s ends at %q, want %q", id, at[id], want)
		}
	}
}

// covers S8, S16
func TestChainsVerifyAfterAnyHistory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tries := 0
	rapid.Check(t, func(t *rapid.T) {
		tries++
		h := &history{desk: d, customer: fmt.Sprint("b", tries), last: map[string]connector.MandateStatus{}}
		for _, act := range rapid.SliceOfN(rapid.SampledFrom([]func(*rapid.T){h.observe, h.observe, h.audit}), 1, 12).Draw(t,
			"acts") {
			act(t)
		}
		h.check(t)
	})
}

// covers S9
func TestTicketsIncreaseStrictlyOverSeveralLedgers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ledgers := []*Ledger{d.Ledger, d.another(), d.another()}
	last := int64(0)
	take := func(t *rapid.T, ticket func(*Tx) (int64, error)) {
		l, refuse, got := rapid.SampledFrom(ledgers).Draw(t, "ledger"), rapid.Bool().Draw(t, "refuse"), int64(0)
		err := l.Do(context.Background(), func(tx *Tx) (err error) {
			if got, err = ticket(tx); err == nil && refuse {
				err = errRefused
			}
			return err
		})
		switch {
		case refuse && errors.Is(err, errRefused):
			return // never handed out
		case err != nil || got <= last:
			t.Fatalf("ticket %d after %d, %v", got, last, err)
		}
		last = got
	}
	rapid.Check(t, func(t *rapid.T) {
		kinds := []func(*Tx) (int64, error){(*Tx).Ticket, func(tx *Tx) (int64, error) {
			s, err := tx.BeginPass()
			if err != nil {
				return 0, err
			}
			return s.Ticket, nil
		}}
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 8).Draw(t, "tickets") {
			take(t, kind)
		}
	})
}
