package state

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"payersync/connector"
)

// accountConnector lends connections of a pool for one account. It sends the statements and values
// of this package in PostgreSQL's form: see postgresSQL, and a bool as 0 or 1, as in the
// columns. The previous user of a connection may have had another account; the connection itself
// stores which.
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

// accountSet stores the account that a connection is set to.
const accountSet = "account"

// setAccount sets a connection to an account.
const setAccount = "SELECT set_config('payersync.account', $1, false)"

func (c accountConnector) Connect(ctx context.Context) (driver.Conn, error) {
	lent, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, inWords(err)
	}
	conn := lent.(*stdlib.Conn)
	if of := conn.Conn().PgConn().CustomData(); of[accountSet] != c.account {
		delete(of, accountSet)
		if _, err := conn.Conn().Exec(ctx, setAccount, strconv.FormatInt(c.account, 10)); err != nil {
			return nil, errors.Join(inWords(err), conn.Close())
		}
		of[accountSet] = c.account
	}
	return &postgresConn{conn}, nil
}

// postgresConn is a connection of pgx that reads the spelling of this package.
type postgresConn struct {
	*stdlib.Conn
}

func (c *postgresConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *postgresConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.PrepareContext(ctx, postgresSQL(query))
	if err != nil {
		return nil, inWords(err)
	}
	return keptStmt{stmt.(*stdlib.Stmt), c, postgresSQL(query)}, nil
}

// keptStmt stays prepared on its connection for the next user, as long as the pool keeps the
// connection.
type keptStmt struct {
	*stdlib.Stmt

	on    *postgresConn
	query string // as the server reads it
}

// ExecContext fails with errUnreplicated if the statement was a commit without a long enough wait.
func (s keptStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (done driver.Result, err error) {
	if sent, sendErr := s.on.send(ctx, s.query, args); sent != nil {
		var tag pgconn.CommandTag
		if err = sendErr; err == nil {
			tag, err = sent.Exec()
		}
		if over := sent.Close(); err == nil {
			err = over
		}
		done = driver.RowsAffected(tag.RowsAffected())
	} else {
		done, err = s.Stmt.ExecContext(ctx, args)
	}
	return done, errors.Join(inWords(err), replicated(s.on.Conn.Conn().PgConn()))
}

// Close does nothing.
func (keptStmt) Close() error { return nil }

func (s keptStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	sent, err := s.on.send(ctx, s.query, args)
	if sent == nil {
		rows, err := s.Stmt.QueryContext(ctx, args)
		return rows, inWords(err)
	}
	var rows pgx.Rows
	if err == nil {
		rows, err = sent.Query()
	}
	if err != nil {
		_ = sent.Close() // with the same error
		return nil, inWords(err)
	}
	return &sentRows{rows, sent, s.on.Conn.Conn().TypeMap()}, nil
}

type aheadKey struct{}

// withAhead returns a context that makes a statement carry earlier ones along.
func withAhead(ctx context.Context, list []ahead) context.Context {
	if len(list) == 0 {
		return ctx
	}
	return context.WithValue(ctx, aheadKey{}, list)
}

// send sends a statement after those of its context, all at once, and reads their results; nil if
// there are none. The first that fails ends them all: it is an aheadError.
func (c *postgresConn) send(ctx context.Context, query string, args []driver.NamedValue) (pgx.BatchResults, error) {
	list, _ := ctx.Value(aheadKey{}).([]ahead)
	if len(list) == 0 {
		return nil, nil
	}
	batch := &pgx.Batch{}
	for _, a := range list {
		batch.Queue(postgresSQL(a.query), a.args...)
	}
	batch.Queue(query, valuesOf(args)...)
	sent := c.Conn.Conn().SendBatch(ctx, batch)
	for _, a := range list {
		tag, err := sent.Exec()
		a.of.l.changed += tag.RowsAffected()
		a.of.note(a.query, tag.RowsAffected())
		if err == nil && tag.RowsAffected() < a.rows {
			err = a.missing
		}
		if err != nil {
			return sent, aheadError{inWords(err)}
		}
	}
	return sent, nil
}

func valuesOf(args []driver.NamedValue) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	return values
}

// sentRows are the rows of a statement that others were sent with.
type sentRows struct {
	pgx.Rows

	sent  pgx.BatchResults
	types *pgtype.Map
}

func (r *sentRows) Columns() []string {
	return connector.Map(r.FieldDescriptions(), func(f pgconn.FieldDescription) string { return f.Name })
}

func (r *sentRows) Close() error {
	r.Rows.Close()
	return inWords(r.sent.Close())
}

func (r *sentRows) Next(dest []driver.Value) (err error) {
	if !r.Rows.Next() {
		return cmp.Or(inWords(r.Err()), io.EOF)
	}
	for i, f := range r.FieldDescriptions() {
		kind, known := r.types.TypeForOID(f.DataTypeOID)
		if !known {
			return fmt.Errorf("column %s has a type that is not known", f.Name)
		}
		if dest[i], err = kind.Codec.DecodeDatabaseSQLValue(r.types, f.DataTypeOID, f.Format, r.RawValues()[i]); err != nil {
			return fmt.Errorf("read column %s: %w", f.Name, err)
		}
	}
	return nil
}

func (c *postgresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.ExecContext(ctx, postgresSQL(query), args)
	return result, inWords(err)
}

func (c *postgresConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, postgresSQL(query), args)
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

// bit is a bool that is sent as 0 or 1 for a number, and as itself for the migrations table.
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
