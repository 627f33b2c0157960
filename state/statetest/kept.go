package statetest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// KeptAnywhere searches the whole ledger at path for values that some databases refuse: text with a
// U+0000, and too long values of indexes.
func KeptAnywhere(t testing.TB, path string) {
	t.Helper()
	if dbtest.OnPostgres() {
		return // it has taken all of it
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	columns, err := textColumns(t.Context(), db)
	if err != nil || !columns["remote_traits.value"] || !columns["source_records.source_id"] {
		t.Fatalf("the columns of the ledger: %v, %v", columns, err)
	}
	for name, indexed := range columns {
		table, column, _ := strings.Cut(name, ".")
		var wrong, longest int
		if err := db.QueryRowContext(t.Context(),
			fmt.Sprintf("SELECT count(*) FILTER (WHERE instr(%[2]s, char(0)) > 0), coalesce(max(length(CAST(%[2]s AS BLOB))), 0) FROM %[1]s", table, column)).
			Scan(&wrong, &longest); err != nil {
			t.Fatal(err)
		}
		const most = 3*connector.MaxIndexed + 2 // the name, the value and the scope of a key
		if wrong > 0 || indexed && longest > most {
			t.Errorf("%s: %d values hold a U+0000, the longest has %d bytes", name, wrong, longest)
		}
	}
}

// textColumns returns the columns of text by the name of their table, and whether something
// is looked up by them.
func textColumns(ctx context.Context, db *sql.DB) (map[string]bool, error) {
	rows, err := db.QueryContext(ctx,
		`SELECT m.name || '.' || c.name, EXISTS (SELECT 1 FROM pragma_index_list(m.name) l JOIN pragma_index_info(l.name) i ON i.name = c.name)
		FROM sqlite_schema m JOIN pragma_table_info(m.name) c ON c.type = 'TEXT' WHERE m.type = 'table'`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[string]bool{}
	for rows.Next() {
		var name string
		var indexed bool
		if err := rows.Scan(&name, &indexed); err != nil {
			return nil, err
		}
		out[name] = indexed
	}
	return out, rows.Err()
}
