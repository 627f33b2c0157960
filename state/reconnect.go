package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// ErrConnectionLost means that the writer's connection ended during a write, and nothing was kept.
// The next write has a new one.
var ErrConnectionLost = errors.New("the connection to the ledger was lost, so nothing of the write was kept; try again")

// ErrOutcomeUnknown means that the connection ended during a commit, or a synchronous standby did not confirm
// it in time.
var ErrOutcomeUnknown = errors.New("the connection to the ledger, or the standby that commits wait for, was lost, so it is not known whether the write was kept; look, and try again")

// disconnected reports whether err means a lost connection. With SQLite that is a mistake of this
// program; it ends no process all the same.
func disconnected(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || troubleOf(err) == cutOff
}

// beginBatch begins the transaction of a batch. Nothing was under way, so a connection that turns out to be
// lost is replaced first.
func (tx *Tx) beginBatch() error {
	if tx.l.conn == nil {
		if err := tx.l.reconnect(context.Background()); err != nil {
			return err
		}
	}
	err := tx.l.below.begin(tx)
	if !errors.Is(err, ErrConnectionLost) {
		return err
	}
	tx.lost = nil
	if err := tx.l.reconnect(context.Background()); err != nil {
		return err
	}
	return tx.l.below.begin(tx)
}

// reconnect gives the writer another connection, with the same settings, to the same file.
// SQLite removes the log with its last connection, so the log may be a new one.
func (l *Ledger) reconnect(ctx context.Context) error {
	_ = l.closeWriter() // of what is lost
	conn, err := l.writer.Conn(ctx)
	if err == nil {
		l.conn = conn
		if err = l.below.readied(ctx, conn); err == nil {
			err = l.noteFiles()
		}
	}
	if troubleOf(err) == cutOff {
		err = refusedServer(err)
	}
	if err != nil {
		return fmt.Errorf("open the ledger for writing: %w", errors.Join(err, l.closeWriter()))
	}
	return nil
}

// closeWriter closes the writer's connection and its prepared statements, which are gone with a lost
// connection.
func (l *Ledger) closeWriter() error {
	defer clear(l.stmts)
	if l.conn == nil || disconnected(l.conn.PingContext(context.Background())) {
		return nil
	}
	var errs []error
	for _, s := range l.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, l.conn.Close())...)
}
