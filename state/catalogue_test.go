package state

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/state/internal/dbtest"
)

// TestBothEnginesHaveTheSameTables reads what a new ledger of each has. The one of SQLite came about
// by all its migrations, that of PostgreSQL by one, so each says whether the other is complete.
func TestBothEnginesHaveTheSameTables(t *testing.T) {
	t.Parallel()
	if !dbtest.OnPostgres() {
		t.Skip("run with -engine postgres: it compares both")
	}
	d := newDesk(t)
	onSQLite := openSQLite(t)
	for _, tt := range []struct {
		name               string
		ofSQLite, ofServer func(*testing.T, *sql.DB) []string
	}{
		{"columns", sqliteColumns, serverColumns},
		{"checks", sqliteChecks, serverChecks},
		{"unique indexes", sqliteUnique, serverUnique},
		{"references", sqliteReferences, serverReferences},
		{"views", sqliteViews, serverViews},
		{"first rows", firstRowsOf, firstRowsOf},
	} {
		want, got := tt.ofSQLite(t, onSQLite), tt.ofServer(t, d.reader)
		if len(want) == 0 {
			t.Errorf("%s: SQLite has none", tt.name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-SQLite +PostgreSQL):\n%s", tt.name, diff)
		}
	}
	if other := rowsOf(t, d.reader,
		`SELECT table_name || '.' || column_name FROM information_schema.columns c JOIN pg_class r ON r.relname = c.table_name AND r.relkind = 'r'
		WHERE table_schema = 'main' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'`); len(other) > 0 {
		t.Errorf("not ordered by their bytes: %v", other)
	}
}

// openSQLite opens a new ledger's file, beside the engine that the tests run on.
func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	seal, err := loadKey(newOptions(t, newClock()).KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/payersync.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	known := make(chan struct{})
	close(known)
	steps, err := (&sqliteFile{}).steps(&Ledger{writer: db, seal: seal, sound: &integrityCheck{known: known}})
	if err == nil {
		_, err = steps.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// rowsOf returns what a query gives, the columns of a row with a space between them.
func rowsOf(t testing.TB, db *sql.DB, query string, args ...any) (out []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		text := make([]string, len(values))
		for i, v := range values {
			text[i] = v.String
		}
		out = append(out, strings.Join(text, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

const ourTables = "m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%'"

// A column's default is compared as far as both spell it alike; a key is never NULL.
func sqliteColumns(t *testing.T, db *sql.DB) []string {
	return rowsOf(t, db, `SELECT m.name || '.' || c.name, c.type, CASE WHEN c."notnull" = 1 OR c.pk > 0 THEN 'NOT NULL' ELSE '' END, replace(coalesce(c.dflt_value, ''), 'x''''', '''''')
		FROM sqlite_master m, pragma_table_info(m.name) c WHERE `+ourTables)
}

func serverColumns(t *testing.T, db *sql.DB) []string {
	return rowsOf(t, db, `SELECT table_name || '.' || column_name, CASE data_type WHEN 'bigint' THEN 'INTEGER' WHEN 'bytea' THEN 'BLOB' WHEN 'text' THEN 'TEXT' ELSE data_type END,
		CASE is_nullable WHEN 'NO' THEN 'NOT NULL' ELSE '' END, replace(regexp_replace(regexp_replace(coalesce(column_default, ''), '^''(-[0-9]+)''::integer$', '\1'), '::(text|bytea|bigint)$', ''), '''\x''', '''''')
		FROM information_schema.columns WHERE table_schema = 'main' AND table_name IN (SELECT relname FROM pg_class WHERE relkind = 'r') AND table_name NOT LIKE 'goose_%' AND table_name NOT IN ('accounts', 'account_files', 'account_hooks') AND column_name <> 'account'`)
}

// checksOf finds the conditions of CHECKs in what made a table.
func checksOf(made string) (out []string) {
	made = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(made, "")
	for {
		i := strings.Index(made, "CHECK (")
		if i < 0 {
			return out
		}
		made = made[i+len("CHECK ("):]
		depth, end := 1, 0
		for ; depth > 0; end++ {
			switch made[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		out = append(out, made[:end-1])
		made = made[end:]
	}
}

func sqliteChecks(t *testing.T, db *sql.DB) (out []string) {
	rows := rowsOf(t, db, "SELECT m.name || ' ' || m.sql FROM sqlite_master m WHERE "+ourTables)
	for _, row := range rows {
		table, made, _ := strings.Cut(row, " ")
		for _, c := range checksOf(made) {
			out = append(out, table+" "+condition(c))
		}
	}
	return out
}

func serverChecks(t *testing.T, db *sql.DB) (out []string) {
	for _, row := range rowsOf(t, db,
		`SELECT r.relname || ' ' || pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid
		WHERE c.contype = 'c' AND r.relnamespace = 'main'::regnamespace AND r.relname NOT LIKE 'goose_%' AND r.relname NOT IN ('accounts', 'account_files', 'account_hooks')`) {
		table, made, _ := strings.Cut(row, " ")
		for _, c := range checksOf(made) {
			out = append(out, table+" "+condition(c))
		}
	}
	return out
}

var (
	spelling  = regexp.MustCompile(`::(text|bigint|bytea)(\[\])?|[()\s]|COLLATE"C"`)
	oneOf     = regexp.MustCompile(`(\w+)IN((?:'[^']*',?|\d+,?)+)`)
	anyOf     = regexp.MustCompile(`(\w+)=ANYARRAY\[([^\]]*)\]`)
	dayOf     = regexp.MustCompile(`day(?:GLOB|~)'[^']*'`)
	different = strings.NewReplacer("<>", "!=")
)

// condition is c without the engines' differences in spelling: brackets, spaces, types, and lists. So it does
// not compare the nesting of OR and AND.
func condition(c string) string {
	c = different.Replace(spelling.ReplaceAllString(c, ""))
	c = anyOf.ReplaceAllString(c, "$1={$2}")
	c = oneOf.ReplaceAllString(c, "$1={$2}")
	return dayOf.ReplaceAllString(c, "day is one")
}

func sqliteUnique(t *testing.T, db *sql.DB) (out []string) {
	for _, row := range rowsOf(t, db,
		`SELECT m.name, (SELECT group_concat(c.name, ',' ORDER BY c.seqno) FROM pragma_index_info(i.name) c), coalesce((SELECT sql FROM sqlite_master WHERE name = i.name), '')
		FROM sqlite_master m, pragma_index_list(m.name) i WHERE `+ourTables+` AND i."unique" = 1
		UNION SELECT m.name, (SELECT c.name FROM pragma_table_info(m.name) c WHERE c.pk = 1), '' FROM sqlite_master m WHERE `+ourTables+` AND (SELECT count(*) FROM pragma_table_info(m.name) c WHERE c.pk > 0) = 1`) {
		out = append(out, unique(row))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func serverUnique(t *testing.T, db *sql.DB) (out []string) {
	for _, row := range rowsOf(t, db,
		`SELECT r.relname, (SELECT string_agg(a.attname, ',' ORDER BY k.place) FROM unnest(i.indkey) WITH ORDINALITY k (attnum, place)
		JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.attnum AND a.attname <> 'account'), CASE WHEN i.indpred IS NULL THEN '' ELSE pg_get_indexdef(i.indexrelid) END
		FROM pg_index i JOIN pg_class r ON r.oid = i.indrelid WHERE i.indisunique AND r.relnamespace = 'main'::regnamespace AND r.relname NOT LIKE 'goose_%' AND r.relname NOT IN ('accounts', 'account_files', 'account_hooks')`) {
		out = append(out, unique(row))
	}
	return out
}

// unique is a table with the columns of a unique index and its condition.
func unique(row string) string {
	parts := strings.SplitN(row, " ", 3)
	_, where, _ := strings.Cut(parts[2], " WHERE ")
	return fmt.Sprintf("%s(%s) %s", parts[0], parts[1], condition(where))
}

func sqliteReferences(t *testing.T, db *sql.DB) []string {
	return rowsOf(t, db, `SELECT m.name, group_concat(f."from", ',' ORDER BY f.seq), f."table", CASE f.on_delete WHEN 'CASCADE' THEN 'CASCADE' ELSE '' END
		FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE `+ourTables+` GROUP BY m.name, f.id`)
}

func serverReferences(t *testing.T, db *sql.DB) []string {
	return rowsOf(t, db, `SELECT r.relname, (SELECT string_agg(a.attname, ',' ORDER BY k.place) FROM unnest(c.conkey) WITH ORDINALITY k (attnum, place)
		JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.attnum AND a.attname <> 'account'), o.relname, CASE c.confdeltype WHEN 'c' THEN 'CASCADE' ELSE '' END
		FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid JOIN pg_class o ON o.oid = c.confrelid WHERE c.contype = 'f' AND o.relname <> 'accounts'`)
}

func sqliteViews(t *testing.T, db *sql.DB) []string {
	return rowsOf(t, db, `SELECT m.name, group_concat(c.name, ',' ORDER BY c.cid) FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'view' GROUP BY m.name`)
}

func serverViews(t *testing.T, db *sql.DB) []string {
	return rowsOf(t, db, `SELECT table_name, string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns
		WHERE table_schema = 'main' AND table_name IN (SELECT relname FROM pg_class WHERE relkind = 'v') GROUP BY table_name`)
}

func firstRowsOf(t *testing.T, db *sql.DB) (out []string) {
	for _, table := range []string{"ledger", "subscription", "letter_desk", "payers", "runs"} {
		out = append(out, table+" "+strings.Join(rowsOf(t, db, "SELECT count(*) FROM "+table), ""))
	}
	return out
}
