package state

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// unreplicated is the connection's record that a failover may lose one of its commits.
const unreplicated = "unreplicated"

// errUnreplicated means that a commit stopped waiting for the server's synchronous standbys, because it was
// cancelled or took too long. The server calls that success and only warns.
var errUnreplicated = errors.New("the commit is not known to have reached a standby")

// heedWarning marks a connection after such a warning. It recognises the warning by the function that gives
// it: its text is in the server's language, and its code is general.
func heedWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unreplicated] = true
	}
}

// replicated fails with errUnreplicated if a connection received that warning since the last check.
// It is checked before any possible commit is reported as done.
func replicated(conn *pgconn.PgConn) error {
	of := conn.CustomData()
	if of[unreplicated] == nil {
		return nil
	}
	delete(of, unreplicated)
	return errUnreplicated
}

// commit runs do as one transaction and waits for its end even when ctx ends, so the caller always
// learns the result. It fails with ErrConnectionLost if nothing was kept, and with
// ErrOutcomeUnknown if that is unknown.
func (s *Server) commit(ctx context.Context, do func(pgx.Tx) error) error {
	var id, line string
	err := s.write.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // of uncommitted writes; a lost connection has nothing to roll back
		if err := do(tx); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text, "+timeline).Scan(&id, &line); err != nil {
			return err
		}
		return errors.Join(tx.Commit(context.WithoutCancel(ctx)), replicated(conn.Conn().PgConn()))
	})
	if id != "" && disconnected(err) {
		err = s.findOutcome(context.WithoutCancel(ctx), id, line)
	}
	return err
}

// findOutcome finds the result of a transaction. The server may not yet know that its session is gone. A
// promoted server may have reused its number, or not know it. Commits count once a later commit has
// reached the standbys too, if there are any to wait for.
func (s *Server) findOutcome(ctx context.Context, id, line string) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	unknown := tryAgain(ctx, settleTries, 0, func() (again bool, err error) {
		var became, now string
		err = s.write.QueryRow(ctx,
			"SELECT CASE WHEN "+timeline+" = $2 THEN coalesce(pg_xact_status($1::text::xid8), '') ELSE '' END, "+timeline, id,
			line).Scan(&became, &now)
		switch {
		case err == nil && now != line:
			return false, ErrOutcomeUnknown
		case err == nil && became == "committed":
			if err = s.Ping(ctx); err == nil {
				return false, nil
			}
		case err == nil && became == "aborted":
			return false, ErrConnectionLost
		}
		return true, ErrOutcomeUnknown // it cannot be reached, or the session is still there
	})
	if ctx.Err() != nil {
		return ErrOutcomeUnknown
	}
	return unknown
}

const (
	settleWithin = 15 * time.Second // longer than a server keeps a session that says no more
	settleTries  = 50 * time.Millisecond
)

// Ping checks whether the database accepts writes. After an empty commit, all earlier commits are
// at their destination, such as the server's synchronous standbys.
func (s *Server) Ping(ctx context.Context) error {
	err := s.write.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'payersync', '')")
		return errors.Join(err, replicated(conn.Conn().PgConn()))
	})
	if err != nil {
		return refusedServer(err)
	}
	return nil
}
