package statetest

import (
	"path/filepath"
	"testing"

	"payersync/connector"
	"payersync/state"
)

func TestNewLedgersOpenAndShareNothing(t *testing.T) {
	t.Parallel()
	pinned := func(tenant string) error {
		path := filepath.Join(t.TempDir(), "payersync.db")
		New(t, path)
		l, err := state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"})
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Do(t.Context(), func(tx *state.Tx) error {
			return tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "csv", Tenant: tenant}})
		})
	}
	for _, tenant := range []string{"t1", "t2"} {
		if err := pinned(tenant); err != nil {
			t.Errorf("the ledger of %s: %v", tenant, err)
		}
	}
}
