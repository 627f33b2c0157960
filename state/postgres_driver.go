package state

import (
	"context"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresConnector connects to PostgreSQL as pgx does, and sends the statements and values of
// this package as PostgreSQL takes them: see postgresSpelling, and a bool as 0 or 1, for that is what
// the columns hold.
type postgresConnector struct{ driver.Connector }

func newPostgresConnector(config *pgx.ConnConfig) postgresConnector {
	return postgresConnector{stdlib.GetConnector(*config)}
}

func (c postgresConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &postgresConn{conn.(*stdlib.Conn)}, nil
}

// postgresConn is a connection of pgx that reads the spelling of this package.
type postgresConn struct{ *stdlib.Conn }

func (c *postgresConn) Prepare(query string) (driver.Stmt, error) {
	return c.Conn.Prepare(postgresSpelling(query))
}

func (c *postgresConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.PrepareContext(ctx, postgresSpelling(query))
}

func (c *postgresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.ExecContext(ctx, postgresSpelling(query), args)
}

func (c *postgresConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.QueryContext(ctx, postgresSpelling(query), args)
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
