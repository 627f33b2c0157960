package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// accountConnector lends connections of a pool for one account, and sends the statements and values of
// this package as PostgreSQL takes them: see postgresSpelling, and a bool as 0 or 1, for that is what
// the columns hold. Whoever had a connection before may have had another account; which one, stands
// in the connection itself.
type accountConnector struct {
	driver.Connector
	account int64
}

// ofAccount returns so many connections of a pool at most, for one account. None is kept from the others when it
// is not at work; the pool keeps what was prepared on it.
func ofAccount(pool *pgxpool.Pool, account int64, most int) *sql.DB {
	db := sql.OpenDB(accountConnector{stdlib.GetPoolConnector(pool), account})
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(-1)
	return db
}

// accountSet is where a connection keeps which account it is set to.
const accountSet = "account"

func (c accountConnector) Connect(ctx context.Context) (driver.Conn, error) {
	lent, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, inWords(err)
	}
	conn := lent.(*stdlib.Conn)
	if of := conn.Conn().PgConn().CustomData(); of[accountSet] != c.account {
		delete(of, accountSet)
		if _, err := conn.Conn().Exec(ctx, "SELECT set_config('payersync.account', $1, false)", strconv.FormatInt(c.account, 10)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		of[accountSet] = c.account
	}
	return &postgresConn{conn}, nil
}

// postgresConn is a connection of pgx that reads the spelling of this package.
type postgresConn struct{ *stdlib.Conn }

func (c *postgresConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *postgresConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.PrepareContext(ctx, postgresSpelling(query))
	if err != nil {
		return nil, inWords(err)
	}
	return keptStmt{stmt.(*stdlib.Stmt)}, nil
}

// keptStmt stays prepared on its connection for whoever has it next, as long as the pool keeps that.
type keptStmt struct{ *stdlib.Stmt }

// Close does nothing.
func (keptStmt) Close() error { return nil }

func (s keptStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.Stmt.ExecContext(ctx, args)
	return result, inWords(err)
}

func (s keptStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.Stmt.QueryContext(ctx, args)
	return rows, inWords(err)
}

func (c *postgresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.ExecContext(ctx, postgresSpelling(query), args)
	return result, inWords(err)
}

func (c *postgresConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, postgresSpelling(query), args)
	return rows, inWords(err)
}

func (c *postgresConn) CheckNamedValue(arg *driver.NamedValue) error {
	value, err := driver.DefaultParameterConverter.ConvertValue(arg.Value)
	if err != nil {
		return err
	}
	if b, is := value.(bool); is {
		value = bit(b)
	}
	arg.Value = value
	return nil
}

// bit is a bool that is sent as 0 or 1 where a number is wanted, and as itself where the table of
// migrations wants it.
type bit bool

// Int64Value returns b as a number.
func (b bit) Int64Value() (pgtype.Int8, error) {
	if b {
		return pgtype.Int8{Int64: 1, Valid: true}, nil
	}
	return pgtype.Int8{Valid: true}, nil
}

// BoolValue returns b as it is.
func (b bit) BoolValue() (pgtype.Bool, error) { return pgtype.Bool{Bool: bool(b), Valid: true}, nil }
