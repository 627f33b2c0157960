package sqltable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Table is a table or view of a database, for the choice of the customers' table.
type Table struct {
	Name       string // with its schema if the database needs it
	View       bool
	Columns    []string   // the readable columns
	Keys       [][]string // sets of columns, unique and never NULL, the primary key first
	Primary    bool       // the first of Keys is the primary key
	Rows       int64      // -1 if unknown
	Estimated  bool       // Rows is the database's estimate, or a lower bound
	Unreadable string     // why it cannot be read, "" where it can

	path []string // its name, with the schema if necessary
}

// The bounds of a count. A larger table shows the database's estimate.
const (
	countRows    = 100_000
	countTime    = 5 * time.Second  // for one table
	countAllTime = 20 * time.Second // for all of them
)

// Tables lists the tables and views of the configured database, in a read-only transaction. Rows are
// estimates, if the database keeps any. The errors are those of Source.Customers.
func Tables(ctx context.Context, c Config) ([]Table, error) {
	s, err := anySource(c)
	if err != nil {
		return nil, err
	}
	r, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	list := r.serverTables
	if !s.dialect.server {
		list = r.fileTables
	}
	return list(ctx)
}

// anySource is a source for a database without a configured table or query.
func anySource(c Config) (*Source, error) {
	if c.Query == "" && c.QueryFile == "" && c.Table == "" {
		c.Table = "none"
	}
	c.ID = []string{"none"}
	return New(c)
}

// catalog holds the questions about tables. Both give the tables' columns in their order:
// schema, table, is it a view, estimated rows, column, may it be read, is it in the search path.
// Keys give schema, table, name of the index, is it the primary key, column, may it be NULL.
type catalog struct{ columns, keys string }

var catalogs = map[string]catalog{
	"postgres": {
		columns: `SELECT n.nspname, c.relname, c.relkind IN ('v', 'm'), c.reltuples::bigint, a.attname,
				has_column_privilege(c.oid, a.attnum, 'SELECT'), pg_table_is_visible(c.oid)
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
				AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_t%'
			ORDER BY n.nspname, c.relname, a.attnum`,
		keys: `SELECT n.nspname, c.relname, i.indexrelid::text, i.indisprimary, a.attname, NOT a.attnotnull
			FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
			WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
			ORDER BY n.nspname, c.relname, i.indisprimary DESC, i.indexrelid, array_position(i.indkey::int2[], a.attnum)`,
	},
	"mysql": {
		columns: `SELECT t.table_schema, t.table_name, t.table_type LIKE '%VIEW%', COALESCE(t.table_rows, -1), c.column_name,
				c.privileges LIKE '%select%', TRUE
			FROM information_schema.tables t
			JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
			WHERE t.table_schema = DATABASE() ORDER BY t.table_name, c.ordinal_position`,
		keys: `SELECT table_schema, table_name, index_name, index_name = 'PRIMARY', column_name, nullable = 'YES'
			FROM information_schema.statistics WHERE table_schema = DATABASE() AND non_unique = 0
			ORDER BY table_name, index_name = 'PRIMARY' DESC, index_name, seq_in_index`,
	},
}

// serverTables lists the tables of a server.
func (r *reading) serverTables(ctx context.Context) ([]Table, error) {
	var out []Table
	at := map[[2]string]int{}
	err := r.each(ctx, catalogs[r.source.config.Driver].columns, func(scan func(...any) error) error {
		var id [2]string
		var column string
		var view, readable, visible bool
		var rows int64
		if err := scan(&id[0], &id[1], &view, &rows, &column, &readable, &visible); err != nil {
			return err
		}
		i, known := at[id]
		if !known {
			i, at[id] = len(out), len(out)
			path := id[1:]
			if !visible {
				path = id[:]
			}
			out = append(out, Table{Name: strings.Join(path, "."), View: view, Rows: max(rows, -1), Estimated: true,
				path: slices.Clone(path)})
		}
		if readable {
			out[i].Columns = append(out[i].Columns, column)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	keys := map[[2]string]*keyed{}
	err = r.each(ctx, catalogs[r.source.config.Driver].keys, func(scan func(...any) error) error {
		var id [2]string
		var index, column string
		var primary, null bool
		if err := scan(&id[0], &id[1], &index, &primary, &column, &null); err != nil {
			return err
		}
		if keys[id] == nil {
			keys[id] = &keyed{}
		}
		keys[id].add(index, primary, column, null)
		return nil
	})
	for id, k := range keys {
		if i, known := at[id]; known {
			k.give(&out[i])
		}
	}
	for i := range out {
		if len(out[i].Columns) == 0 {
			out[i].Unreadable = notAllowed
		}
	}
	return out, err
}

const notAllowed = "this user may not read it"

// keyed collects the keys of a table, one column after the other.
type keyed struct {
	indexes []string
	columns map[string][]string
	unfit   map[string]bool // a column may be NULL
	primary bool            // the first is the primary key
}

func (k *keyed) add(index string, primary bool, column string, null bool) {
	if k.columns == nil {
		k.columns, k.unfit = map[string][]string{}, map[string]bool{}
	}
	if k.columns[index] == nil {
		k.indexes = append(k.indexes, index)
		k.primary = k.primary || primary
	}
	k.columns[index] = append(k.columns[index], column)
	k.unfit[index] = k.unfit[index] || null && !primary
}

func (k *keyed) give(t *Table) {
	t.Primary = k.primary
	for _, index := range k.indexes {
		readable := !slices.ContainsFunc(k.columns[index], func(c string) bool { return !slices.Contains(t.Columns, c) })
		if readable && !k.unfit[index] {
			t.Keys = append(t.Keys, k.columns[index])
		} else if index == k.indexes[0] {
			t.Primary = false
		}
	}
}

// each runs a query and hands its rows on.
func (r *reading) each(ctx context.Context, query string, row func(scan func(...any) error) error, args ...any) error {
	rows, err := r.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return r.source.failure(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return r.source.failure(ctx, err)
		}
	}
	return r.source.check(ctx, rows.Err())
}

// fileTables lists the tables of a SQLite file. A view of missing tables does not stop it.
func (r *reading) fileTables(ctx context.Context) ([]Table, error) {
	var out []Table
	err := r.each(ctx, `SELECT name, type = 'view' FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`,
		func(scan func(...any) error) error {
			t := Table{Rows: -1}
			err := scan(&t.Name, &t.View)
			t.path = []string{t.Name}
			out = append(out, t)
			return err
		})
	if err != nil {
		return nil, err
	}
	for i := range out {
		if err := r.fileColumns(ctx, &out[i]); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			out[i].Unreadable = whyUnread(err)
		}
	}
	return out, nil
}

func (r *reading) fileColumns(ctx context.Context, t *Table) error {
	var k keyed
	null := map[string]bool{}
	err := r.each(ctx, `SELECT name, NOT "notnull", pk > 0 FROM pragma_table_info(?) ORDER BY cid`,
		func(scan func(...any) error) error {
			var column string
			var mayBeNull, primary bool
			if err := scan(&column, &mayBeNull, &primary); err != nil {
				return err
			}
			t.Columns, null[column] = append(t.Columns, column), mayBeNull
			if primary {
				k.add("primary key", true, column, false)
			}
			return nil
		}, t.Name)
	if err != nil {
		return err
	}
	err = r.each(ctx, `SELECT l.name, i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i
		WHERE l."unique" AND NOT l.partial AND l.origin <> 'pk' ORDER BY l.seq DESC, i.seqno`,
		func(scan func(...any) error) error {
			var index string
			var column sql.NullString // NULL for an expression
			if err := scan(&index, &column); err != nil {
				return err
			}
			k.add(index, false, column.String, !column.Valid || null[column.String])
			return nil
		}, t.Name)
	k.give(t)
	return err
}

// whyUnread says in a few words why a table cannot be read.
func whyUnread(err error) string {
	var refused *accounting.Disconnected
	var failed *connector.RemoteError
	switch {
	case errors.As(err, &refused):
		return notAllowed
	case errors.As(err, &failed) && failed.Fault == connector.FaultRejected:
		why, _, _ := strings.Cut(failed.Detail, ";")
		return why
	}
	return ""
}

// Count counts the rows of each table in a transaction of its own. A table with more than 100,000 rows, or
// one that takes over five seconds, keeps its estimate. An unreadable table is marked. Count ends early after
// twenty seconds in all.
func Count(ctx context.Context, c Config, tables []Table) error {
	s, err := anySource(c)
	if err != nil {
		return err
	}
	all, cancel := context.WithTimeout(ctx, countAllTime)
	defer cancel()
	r, err := s.begin(all)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.tx.Rollback(); err != nil {
		return s.failure(ctx, err)
	}
	r.tx = nil
	r.limitTime(all)
	for i := range tables {
		if tables[i].Unreadable != "" {
			continue
		}
		err := r.count(all, &tables[i])
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		case all.Err() != nil || connector.FaultOf(err) == connector.FaultUnavailable && r.conn.PingContext(all) != nil:
			return nil // the rest keep their estimates
		default:
			tables[i].Unreadable = whyUnread(err)
		}
	}
	return nil
}

// limitTime makes a server end a slow statement by itself. MySQL and MariaDB have different names for that,
// and each refuses the other's.
func (r *reading) limitTime(ctx context.Context) {
	ms := countTime.Milliseconds()
	switch r.source.config.Driver {
	case "postgres":
		_, _ = r.conn.ExecContext(ctx, fmt.Sprintf("SET statement_timeout = %d", ms))
	case "mysql":
		if _, err := r.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION max_statement_time = %d", ms/1000)); err != nil {
			_, _ = r.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION max_execution_time = %d", ms))
		}
	}
}

func (r *reading) count(ctx context.Context, t *Table) error {
	s := r.source
	if !s.dialect.server {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, countTime)
		defer cancel()
	}
	tx, err := r.conn.BeginTx(ctx, &s.dialect.options)
	if err != nil {
		return s.failure(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	column := "1"
	if len(t.Columns) > 0 { // a right to read a column need not be one to read them all
		column = s.dialect.name(t.Columns[0])
	}
	var n int64
	query := fmt.Sprintf("SELECT count(*) FROM (SELECT %s FROM %s LIMIT %d) AS counted", column, s.dialect.name(t.path...),
		countRows+1)
	if err := s.check(ctx, tx.QueryRowContext(ctx, query).Scan(&n)); err != nil {
		return err
	}
	switch {
	case n <= countRows:
		t.Rows, t.Estimated = n, false
	case t.Rows <= countRows:
		t.Rows, t.Estimated = countRows, true
	}
	return nil
}
