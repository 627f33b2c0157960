package state

import (
	"errors"
	"strings"
	"testing"
)

// covers F220
func TestWhatPeopleSaidOfMatchingOutlivesThePlans(t *testing.T) {
	t.Parallel()
	l := newDesk(t)
	ctx := t.Context()
	do := func(f func(*Tx) error) error { return l.Do(ctx, f) }
	save := func(stops ...CreateStop) {
		t.Helper()
		if err := do(func(tx *Tx) error { _, err := tx.SaveCreateStops("acme", stops); return err }); err != nil {
			t.Fatal(err)
		}
	}
	texts := func() string {
		t.Helper()
		stops, err := l.CreateStops(ctx, "acme")
		if err != nil {
			t.Fatal(err)
		}
		return StopsText(stops)
	}
	save(CreateStop{Cause: CauseFirstMatching, Customers: 41},
		CreateStop{Cause: CauseSameBooks, Other: "before", Customers: 1})
	if got := texts(); !strings.Contains(got, "41 customers exist") ||
		!strings.Contains(got, "1 record of acme looks like payers of before") {
		t.Errorf("it says %q", got)
	}
	save(CreateStop{Cause: CauseFirstMatching, Customers: 41, Records: 5})
	if got := texts(); !strings.Contains(got,
		"that belong to no record yet, and 5 records look like one of them. No customer") {
		t.Errorf("of candidates it says %q", got)
	}
	save(CreateStop{Cause: CauseFirstMatching, Customers: 1})
	if got := texts(); !strings.Contains(got, "1 customer exists") || strings.Contains(got, "before") {
		t.Errorf("of fewer it says %q", got)
	}
	if err := do(func(tx *Tx) error { return tx.ReopenMatching("acme", "olga", "") }); !errors.Is(err, ErrMatchingOpen) {
		t.Errorf("what is open is opened with %v", err)
	}
	for _, want := range []bool{true, false} {
		if err := do(func(tx *Tx) error {
			news, err := tx.FinishMatching("acme", "olga", "compared")
			if news != want {
				t.Errorf("finishing says %t, want %t", news, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	save(CreateStop{Cause: CauseFirstMatching, Customers: 5})
	if got := texts(); got != "" {
		t.Errorf("once finished, it says %q", got)
	}
	if err := do(func(tx *Tx) error { return tx.ReopenMatching("acme", "olga", "too early") }); err != nil {
		t.Fatal(err)
	}
	if got := texts(); !strings.Contains(got, "1 customer exists") {
		t.Errorf("opened again, it says %q", got)
	}
}
