package state

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// queryer is a pool or a transaction of it.
type queryer interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// keyOf returns an account's sealing key, and the account's number. The number is 0 with an error,
// unless only the key cannot be opened.
func (s *Server) keyOf(ctx context.Context, name string) (id int64, key []byte, err error) {
	id, key, err = s.unwrapped(ctx, s.read, name)
	return id, key, ofAccountRow(name, err)
}

// unwrapped is keyOf for who has asked for the key-encryption key.
func (s *Server) unwrapped(ctx context.Context, db queryer, name string) (id int64, key []byte, err error) {
	var kept []byte
	var of string
	if err := db.QueryRow(ctx, "SELECT account_id, wrapped_key, key_id FROM accounts WHERE name = $1", name).Scan(&id,
		&kept, &of); err != nil {
		return 0, nil, err
	}
	key, err = s.wraps.Load().unwrap(id, name, of, kept)
	return id, key, err
}

// CheckKeys returns, by number, why an account's key cannot be opened. Accounts with a good key or without
// one are omitted.
func (s *Server) CheckKeys(ctx context.Context) (map[int64]error, error) {
	rows, err := s.read.Query(ctx, "SELECT account_id, name, wrapped_key, key_id FROM accounts WHERE key_id <> ''")
	if err != nil {
		return nil, refusedServer(err)
	}
	wrong := map[int64]error{}
	var id int64
	var name, of string
	var kept []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &kept, &of}, func() error {
		if _, err := s.wraps.Load().unwrap(id, name, of, kept); err != nil {
			wrong[id] = err
		}
		return nil
	})
	if err != nil {
		return nil, refusedServer(err)
	}
	return wrong, nil
}

func (s *Server) sealOf(ctx context.Context, db queryer, name string) (*sealer, error) {
	_, key, err := s.unwrapped(ctx, db, name)
	if err != nil {
		return nil, err
	}
	return newSealer(key)
}

// SaveKey writes an account's sealing key into a new key file, like CreateKey, so its ledger can leave the
// database. It writes the audit log first. It fails with ErrNoAccount and ErrKeyEncryptionKey, and if there
// is a file already.
func (s *Server) SaveKey(ctx context.Context, name, path string, by Entry) error {
	var key []byte
	_, err := s.change(ctx, name, 0, func(tx pgx.Tx, _ int64) (_ Entry, err error) {
		_, key, err = s.unwrapped(ctx, tx, name)
		return Entry{Actor: by.Actor, Action: "give out key of account", Subject: name, Reason: by.Reason}, err
	})
	if err != nil {
		return err
	}
	return saveKey(path, key)
}

// Rewrap wraps the key of every account with another key-encryption key, all of them or none, and
// returns how many it were. Their sealed data stays unchanged. The server goes on with that key.
func (s *Server) Rewrap(ctx context.Context, key []byte) (n int, err error) {
	from := s.wraps.Load()
	to, err := newWrapping(key)
	if err != nil {
		return 0, err
	}
	type row struct {
		ID    int64
		Name  string
		Kept  []byte
		KeyID string
	}
	err = s.commit(ctx, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx,
			"SELECT account_id, name, wrapped_key, key_id FROM accounts WHERE key_id NOT IN ('', $1) ORDER BY account_id FOR NO KEY UPDATE", to.id)
		if err != nil {
			return err
		}
		rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
		if err != nil {
			return err
		}
		for _, r := range rows {
			key, err := from.unwrap(r.ID, r.Name, r.KeyID, r.Kept)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "UPDATE accounts SET wrapped_key = $1, key_id = $2 WHERE account_id = $3",
				to.wrap(r.ID, key), to.id, r.ID); err != nil {
				return err
			}
		}
		n = len(rows)
		return nil
	})
	if err != nil {
		return 0, ofAccountRow("", err)
	}
	s.wraps.Store(to)
	return n, nil
}
