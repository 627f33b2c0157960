package syncer

import (
	"context"
	"slices"

	"payersync/connector"
	"payersync/state"
)

// noteUnclaimed notes the customers with a key of the connection's company but without a record there. Such a
// customer may belong to any record, because the records may have new numbers. Unreadable records, and those
// on hold or excluded, still own their keys. If the last reading ended early, no customers are added.
func (s *Syncer) noteUnclaimed(ctx context.Context, conn Connection, whole bool) error {
	found, err := s.Ledger.KeysWithoutPayer(ctx, conn.Name, conn.Mapping.KeyName())
	if err != nil {
		return err
	}
	if len(found) > 0 {
		if found, err = s.withoutRecord(ctx, conn, found); err != nil {
			return err
		}
	}
	if !whole { // for a connection never read whole, only possibly free customers are counted
		last, err := s.Ledger.LastFullRead(ctx, conn.Name)
		if err != nil {
			return err
		}
		whole = last.IsZero()
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SaveUnclaimedKeys(conn.Name, found, whole) })
}

// withoutRecord removes the keys of stored records and of other companies. A key without a scope may be another
// company's: its customer stays with the record it names.
func (s *Syncer) withoutRecord(ctx context.Context, conn Connection, carried []state.CarriedKey) ([]state.CarriedKey,
	error) {
	claimed, scopes, unread := map[connector.Key]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range carried {
		claimed[c.Key] = false
	}
	claim := func(key connector.Key) {
		if _, asked := claimed[key]; asked {
			claimed[key] = true
		}
	}
	err := s.EachStored(ctx, conn, func(page []state.StoredRecord) error {
		for _, r := range page {
			if r.Record.State != connector.RecordActive {
				continue
			}
			key, err := conn.Mapping.KeyOf(r.Record)
			switch {
			case err != nil && r.Payer != nil: // its key was read before
				key = r.Payer.Key
			case err != nil: // its number may be its id
				unread[r.Record.SourceID] = true
				continue
			}
			scopes[key.Scope] = true
			claim(key)
		}
		return nil
	})
	return slices.DeleteFunc(carried, func(c state.CarriedKey) bool {
		return claimed[c.Key] || unread[c.Key.Value] || c.Key.Scope == "" || !scopes[c.Key.Scope]
	}), err
}
