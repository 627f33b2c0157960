package state

import (
	"errors"
	"testing"
)

func TestAWriteThatChangesNoRowIsNotCommitted(t *testing.T) {
	t.Parallel()
	missing := errors.New("it is not there")
	noRow := func(tx *Tx) error { return tx.exec("UPDATE runs SET error = '' WHERE run_id = -1") }
	read := func(tx *Tx) error {
		var n int
		return tx.row([]any{&n}, "SELECT count(*) FROM audit")
	}
	returning := func(tx *Tx) error {
		var n int64
		return tx.row([]any{&n}, "UPDATE ledger SET ticket = ticket + 1 RETURNING ticket")
	}
	tests := []struct {
		name    string
		writes  []func(*Tx) error // of one transaction
		commits int64
		entries int
	}{
		{"one that does nothing", []func(*Tx) error{func(*Tx) error { return nil }}, 0, 0},
		{"one that reads", []func(*Tx) error{read}, 0, 0},
		{"one whose update meets no row", []func(*Tx) error{noRow}, 0, 0},
		{"three that change nothing", []func(*Tx) error{read, noRow, read}, 0, 0},
		{"one that fails", []func(*Tx) error{func(*Tx) error { return missing }}, 0, 0},
		{"one that inserts a row", []func(*Tx) error{note("kept")}, 1, 1},
		{"one that reads after it inserted a row",
			[]func(*Tx) error{func(tx *Tx) error { return errors.Join(note("kept")(tx), read(tx), noRow(tx)) }}, 1, 1},
		{"one that returns the row it changed", []func(*Tx) error{returning}, 1, 0},
		{"one that changes a row after two that do not", []func(*Tx) error{read, noRow, note("kept")}, 1, 1},
		{"one that changes a row before two that do not", []func(*Tx) error{note("kept"), read, noRow}, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			before, entriesBefore := d.commits(), entries(t, d.Ledger)
			for i, err := range d.together(tt.writes...) {
				if err != nil && !errors.Is(err, missing) {
					t.Errorf("write %d: %v", i, err)
				}
			}
			if got := d.commits() - before; got != tt.commits {
				t.Errorf("%d commits, want %d", got, tt.commits)
			}
			if got := entries(t, d.another()) - entriesBefore; tt.commits > 0 && got != tt.entries {
				t.Errorf("another process sees %d entries, want %d", got, tt.entries)
			}
		})
	}
}

func TestAPingIsCommittedThoughItChangesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before := d.commits()
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.commits() - before; got != 1 {
		t.Errorf("%d commits, want one, which a full disk refuses", got)
	}
}
