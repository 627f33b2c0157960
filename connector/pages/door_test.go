package pages

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"payersync/internal/longtest"
	"payersync/state"
	"payersync/state/statetest"
)

func TestCountersStayBoundedWhateverNamesAndAddressesCome(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	ledger, err := state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	d := NewDoor(ledger)
	now := time.Now()
	for i := range 60_000 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		a, _, err := d.enter(context.Background(), fmt.Sprintf("name %d", i), fmt.Sprintf("2001:db8:%x:%x::/64", i/100, i),
			device{}, at)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 { // turned away because too many wait
			if err := d.unchecked(context.Background(), a); err != nil {
				t.Fatal(err)
			}
		} else if _, err := d.save(context.Background(), at, saveEvery); err != nil {
			t.Fatal(err)
		}
		d.countRefusal(fmt.Sprintf("name %d", i), at)
	}
	if len(d.tries) > remembered || len(d.changed) > 2*remembered || len(d.told) > remembered {
		t.Errorf("%d counters, %d unsaved and %d refusals are in memory", len(d.tries), len(d.changed), len(d.told))
	}
	d.Close()
	if rows, err := ledger.SignInAttempts(context.Background(), now, 1_000_000); len(rows) > remembered || err != nil {
		t.Errorf("the ledger has %d counters, %v", len(rows), err)
	}
}
