package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// attacks change the schema of a ledger's file: it would then act, or contain something foreign.
var attacks = []struct {
	name       string
	statements []string
	want       string // what the refusal says
}{
	{"a trigger on a table that a restore writes",
		[]string{"CREATE TRIGGER spy AFTER UPDATE ON ledger BEGIN DELETE FROM alarms; END"},
		`did not make the trigger "spy" on "ledger"`},
	{"a trigger on the versions",
		[]string{"CREATE TRIGGER spy BEFORE INSERT ON goose_db_version BEGIN DELETE FROM alarms; END"},
		`did not make the trigger "spy" on "goose_db_version"`},
	{
		"triggers that call each other",
		[]string{
			"CREATE TRIGGER ping AFTER UPDATE ON ledger BEGIN UPDATE connections SET described = described || 'x'; END",
			"CREATE TRIGGER pong AFTER UPDATE ON connections BEGIN UPDATE ledger SET restart_needed = 'x'; END",
		},
		`did not make the trigger "ping" on "ledger"; payersync did not make the trigger "pong" on "connections"`,
	},
	{"a view in the place of a table",
		[]string{"ALTER TABLE budgets RENAME TO kept", "CREATE VIEW budgets AS SELECT * FROM kept"},
		`did not make the view "budgets"`},
	{
		"a view that takes writes",
		[]string{"ALTER TABLE budgets RENAME TO kept", "CREATE VIEW budgets AS SELECT * FROM kept",
			"CREATE TRIGGER spy INSTEAD OF INSERT ON budgets BEGIN DELETE FROM alarms; END"},
		`did not make the trigger "spy" on "budgets"; payersync did not make the view "budgets"`,
	},
	{"a view that recurses", []string{"CREATE VIEW spy AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"}, `did not make the view "spy"`},
	{
		"versions that recurse",
		[]string{"ALTER TABLE goose_db_version RENAME TO kept",
			"CREATE VIEW goose_db_version AS WITH RECURSIVE r(version_id) AS (SELECT 1 UNION ALL SELECT version_id + 1 FROM r) SELECT version_id FROM r"},
		`did not make the`,
	},
	{"another table", []string{"CREATE TABLE spy (x)"}, `did not make the table "spy"`},
	{"another index", []string{"CREATE INDEX spy ON payers (billing_id) WHERE source_id > 'm'"},
		`did not make the index "spy" on "payers"`},
	{"a virtual table and its shadow tables", []string{"CREATE VIRTUAL TABLE spy USING fts5(x)"},
		`did not make the table "spy_config"`},
	{"a generated column", []string{"ALTER TABLE payers ADD COLUMN spy TEXT GENERATED ALWAYS AS (upper(source_id)) VIRTUAL"}, `the table "payers" differs`},
	{"another column", []string{"ALTER TABLE payers ADD COLUMN spy TEXT"}, `the table "payers" differs`},
	{"a law that is gone", []string{"DROP TRIGGER audit_keeps"}, `the trigger "audit_keeps" on "audit" is missing`},
	{"an index that is gone", []string{"DROP INDEX slots_scope"}, `the index "slots_scope" on "slots" is missing`},
	{"a wider CHECK", []string{"PRAGMA writable_schema = ON",
		"UPDATE sqlite_master SET sql = replace(sql, 'CHECK (', 'CHECK (1 OR ') WHERE name = 'runs'"},
		`the table "runs" differs`},
	{"a column of another type",
		[]string{"PRAGMA writable_schema = ON",
			"UPDATE sqlite_master SET sql = replace(sql, 'INTEGER', 'ANY') WHERE name = 'budgets'"},
		`the table "budgets" differs`},
	{"a name in other letters",
		[]string{"PRAGMA writable_schema = ON",
			"UPDATE sqlite_master SET name = 'Budgets', tbl_name = 'Budgets' WHERE name = 'budgets'"},
		`did not make the table "Budgets"`},
	{"text behind an end of text",
		[]string{"PRAGMA writable_schema = ON",
			"UPDATE sqlite_master SET sql = sql || char(0) || 'x' WHERE name = 'v_payers'"}, `the view "v_payers" differs`},
	{
		"a trigger that says it is a table",
		[]string{"PRAGMA writable_schema = ON",
			"INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES ('table', 'spy', 'ledger', 0, 'CREATE TRIGGER spy AFTER UPDATE ON ledger BEGIN DELETE FROM alarms; END')"},
		"malformed database schema (spy)",
	},
	{"an older version than it is", []string{"DELETE FROM goose_db_version WHERE version_id > 40"},
		"its schema is not that of version 39"},
	{"a counter at its end", []string{"UPDATE sqlite_sequence SET seq = 9223372036854775807"},
		`a row of the table "sqlite_sequence"`},
	{"a counter that is no number", []string{"UPDATE sqlite_sequence SET seq = 'x'"},
		`a row of the table "sqlite_sequence"`},
	{"a counter of another table", []string{"INSERT INTO sqlite_sequence VALUES ('payers', 7)"},
		`a row of the table "sqlite_sequence"`},
}

// covers F63
func TestAFileThatHoldsMoreThanTheMigrationsMakeIsRefusedBeforeAnyWrite(t *testing.T) {
	t.Parallel()
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			d := filled(t)
			d.t = t
			raw(t, d.opts.Path, a.statements...)
			before := readFile(t, d.opts.Path)
			refused(t, d.opts, a.want)
			if !bytes.Equal(readFile(t, d.opts.Path), before) {
				t.Error("the file was written to")
			}
			to := newFile(t, d.clock)
			if _, _, err := d.carry(to, Transfer{}); err == nil || !strings.Contains(err.Error(), a.want) {
				t.Errorf("it is carried: %v", err)
			}
			if _, err := os.Stat(to.Path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was made where it was carried to: %v", err)
			}
		})
	}
}

// covers F63
func TestABackupThatHoldsMoreThanTheMigrationsMakeIsNeitherWholeNorRestored(t *testing.T) {
	t.Parallel()
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			d := filled(t)
			d.t = t
			ours := readFile(t, d.opts.Path)
			raw(t, d.opts.Path, a.statements...)
			theirs := readFile(t, d.opts.Path)
			writeFile(t, d.opts.Path, ours)
			if _, err := d.openCopy(theirs); err == nil || !strings.Contains(err.Error(), a.want) {
				t.Errorf("it is opened: %v", err)
			}
			if _, err := Restore(t.Context(), d.restoring(theirs)); err == nil || !strings.Contains(err.Error(), a.want) {
				t.Errorf("it is restored: %v", err)
			}
			if !bytes.Equal(readFile(t, d.opts.Path), ours) {
				t.Error("the ledger was exchanged")
			}
		})
	}
}

// swapping gives other bytes once it was told to.
type swapping struct{ io.ReaderAt }

// covers F63
func TestABackupThatIsExchangedAfterItWasLookedThroughIsNotRestored(t *testing.T) {
	t.Parallel()
	d := filled(t)
	ours := readFile(t, d.opts.Path)
	raw(t, d.opts.Path, attacks[0].statements...)
	theirs := readFile(t, d.opts.Path)
	writeFile(t, d.opts.Path, ours)
	r := d.restoring(ours)
	from := &swapping{bytes.NewReader(ours)}
	r.From = from
	r.Step = func(stage string) error {
		if stage == stageBegun {
			from.ReaderAt = bytes.NewReader(theirs)
		}
		return nil
	}
	if _, err := Restore(t.Context(), r); err == nil || !strings.Contains(err.Error(), attacks[0].want) {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(readFile(t, d.opts.Path), ours) {
		t.Error("the ledger was exchanged")
	}
}

func TestALedgerWithWhatActsOnNothingIsOpened(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"statistics of ANALYZE":                      {"ANALYZE"},
		"a trigger of another connection, not in it": {"CREATE TEMP TRIGGER spy AFTER UPDATE ON ledger BEGIN DELETE FROM alarms; END"},
		"an index that was made anew":                {"REINDEX"},
		"pages that were ordered anew":               {"VACUUM"},
		"a comment of another version of a migration": {"PRAGMA writable_schema = ON",
			"UPDATE sqlite_master SET sql = replace(sql, '(', '( -- a comment' || char(10)) WHERE name = 'budgets'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := filled(t)
			d.t = t
			raw(t, d.opts.Path, statements...)
			if _, err := d.openCopy(readFile(t, d.opts.Path)); err != nil {
				t.Error(err)
			}
			if err := d.another().Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The note beside a file spares the comparison of a schema that was compared before. Only the ledger's key makes such a note.
func TestASchemaIsComparedOnceUntilItChanges(t *testing.T) {
	t.Parallel()
	d := filled(t)
	note := func(path string) (n integrityNote) {
		if err := json.Unmarshal(readFile(t, path+lookedEnding), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	db := rawDB(t, d.opts.Path)
	seal, err := loadKey(d.opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	kept := note(d.opts.Path).Schema
	if got, err := checkSchema(t.Context(), db, seal, ""); err != nil || got != kept || kept == "" {
		t.Errorf("the first start notes %q, and a comparison %q, %v", kept, got, err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE spy (x)"); err != nil {
		t.Fatal(err)
	}
	changed, err := readSchema(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := newestSchema()
	if err != nil {
		t.Fatal(err)
	}
	known := changed.fingerprint(seal, newest)
	if _, err := checkSchema(t.Context(), db, seal, known); err != nil {
		t.Errorf("a schema that was compared before is compared again: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	theirs, err := newSealer(newKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{kept, changed.fingerprint(theirs, newest), changed.fingerprint(seal, newest-1)} {
		writeFile(t, d.opts.Path+lookedEnding, []byte(`{"schema":"`+forged+`"}`))
		refused(t, d.opts, `did not make the table "spy"`)
	}
}

func TestStatementsThatDifferInSpaceAndCommentsAloneAreTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"CREATE TABLE t (a TEXT, b)", "CREATE  TABLE t(\n\ta TEXT -- of us\n,b /* it\n */ )\n", true},
		{"a b", "a/**/b", true},
		{"a b", "ab", false},
		{"'a  b'", "'a b'", false},
		{"'--'", "'", false},
		{"'it''s --' x", "'it''s --'\tx", true},
		{`"a -- " x`, `"a -- "  x`, true},
		{`"a -- " x`, `"a`, false},
		{"[a ( b]", "[a (b]", false},
		{"x /* open", "x", true},
		{"x -- end", "x", true},
		{"X", "x", false},
		{"'a''b'", "'a' 'b'", false},
	} {
		if same := plainSQL(c.a) == plainSQL(c.b); same != c.same {
			t.Errorf("%q and %q: the same is %v, want %v", c.a, c.b, same, c.same)
		}
	}
}

// covers F63
func TestEveryVersionOfTheSchemaIsMadeAndIsItself(t *testing.T) {
	t.Parallel()
	newest, err := newestSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{0, 1, 12, newest} {
		made, err := madeSchema(context.Background(), schemaVersion{version: version})
		if err != nil {
			t.Fatal(err)
		}
		if strange := (schema{version: version, objects: made}).compare(made); len(strange) > 0 || len(made) == 0 {
			t.Errorf("version %d: %v", version, strange)
		}
	}
}
