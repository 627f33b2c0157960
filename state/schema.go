package state

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// SQLite runs the triggers, views, CHECKs and generated columns of any file. A foreign file, such as a
// backup, can contain objects without a migration, and they would act on the first write. So payersync
// compares the schema of a file with that of the migrations before it writes to it.

// maxSchemaText is how many bytes of the text of one object are read. Those of payersync are shorter.
const maxSchemaText = 64 << 10

// maxCounter is the largest accepted counter of a table. Near the largest possible one, SQLite
// could not number another row.
const maxCounter = 1 << 48

// schemaObject is a row of sqlite_master: a table, an index, a view or a trigger.
type schemaObject struct {
	kind, name, table string
	text              string // that made it; "" for the index of a UNIQUE or PRIMARY KEY
}

// String names the object for people.
func (o schemaObject) String() string {
	if o.table != o.name && o.table != "" {
		return fmt.Sprintf("%s %q on %q", o.kind, o.name, o.table)
	}
	return fmt.Sprintf("%s %q", o.kind, o.name)
}

// schema is the schema in a SQLite file.
type schema struct {
	version int64          // that the file claims; of an unfinished migration the one that it leads to
	long    *longMigration // that is unfinished; nil for none
	objects []schemaObject
}

// readSchema reads the schema of a SQLite file. It reads no view and no virtual table, which could run for ever.
func readSchema(ctx context.Context, db books) (s schema, err error) {
	rows, err := db.QueryContext(ctx,
		`SELECT coalesce(type, ''), coalesce(name, ''), coalesce(tbl_name, ''), coalesce(substr(CAST(sql AS BLOB), 1, ?), '')
		FROM sqlite_master ORDER BY 1, 2, 3, 4`, maxSchemaText)
	if err != nil {
		return s, err
	}
	defer rows.Close()
	for rows.Next() {
		var o schemaObject
		if err := rows.Scan(&o.kind, &o.name, &o.table, &o.text); err != nil {
			return s, err
		}
		s.objects = append(s.objects, o)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || !s.hasTable(versionTable) {
		return s, err
	}
	if err := db.QueryRowContext(ctx,
		"SELECT coalesce(max(version_id), 0) FROM "+versionTable).Scan(&s.version); err != nil ||
		!s.hasTable(unfinishedTable) {
		return s, err
	}
	u, found, err := unfinished(ctx, db)
	if m := longMigrationOf(u.version); found && m != nil { // or one of a newer payersync
		s.version, s.long = m.version, m
	}
	return s, err
}

// versionTable is the table in which goose stores the applied migrations.
const versionTable = "goose_db_version"

func (s schema) hasTable(name string) bool {
	return slices.ContainsFunc(s.objects, func(o schemaObject) bool {
		return o.kind == "table" && o.name == name && strings.HasPrefix(o.text, "CREATE TABLE ")
	})
}

// fingerprint returns a keyed hash of the schema and of the newest version that this payersync knows. It returns ""
// without a key; without the key nobody can forge it.
func (s schema) fingerprint(seal *sealer, newest int64) string {
	if seal == nil || seal.away != nil {
		return ""
	}
	mac := hmac.New(sha256.New, seal.schema)
	fmt.Fprintf(mac, "%d %d", newest, s.version)
	for _, o := range s.objects {
		for _, part := range []string{o.kind, o.name, o.table, o.text} {
			fmt.Fprintf(mac, " %d %s", len(part), part)
		}
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// schemaKinds are the kinds of objects in the order of reports; objects that act come first.
var schemaKinds = []string{"trigger", "view", "table", "index"}

// compare returns how the schema differs from the one that the migrations make, one sentence for each object.
func (s schema) compare(want []schemaObject) (strange []string) {
	identity := func(o schemaObject) schemaObject { return schemaObject{kind: o.kind, name: o.name, table: o.table} }
	missing := map[schemaObject]string{}
	for _, o := range want {
		missing[identity(o)] = o.text
	}
	found := slices.SortedStableFunc(slices.Values(s.objects), func(a, b schemaObject) int {
		return cmp.Compare(slices.Index(schemaKinds, a.kind), slices.Index(schemaKinds, b.kind))
	})
	var changed []string
	for _, o := range found {
		text, known := missing[identity(o)]
		switch {
		case isStatistics(o):
			continue
		case !known:
			strange = append(strange, fmt.Sprintf("payersync did not make the %s", o))
		case text != o.text && plainSQL(text) != plainSQL(o.text):
			changed = append(changed, fmt.Sprintf("the %s differs from the one that payersync made", o))
		}
		delete(missing, identity(o)) // a second one of that name is none of ours
	}
	for _, o := range want {
		if _, lost := missing[identity(o)]; lost {
			changed = append(changed, fmt.Sprintf("the %s is missing", o))
		}
	}
	return append(strange, changed...)
}

// isStatistics reports whether an object is where SQLite's ANALYZE keeps its counts. It acts on nothing.
func isStatistics(o schemaObject) bool {
	return o.kind == "table" && o.name == o.table &&
		(o.name == "sqlite_stat1" && o.text == "CREATE TABLE sqlite_stat1(tbl,idx,stat)" ||
			o.name == "sqlite_stat4" && o.text == "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)")
}

// plainSQL returns a statement with one space at most for each run of space and comments, outside of quotes.
func plainSQL(text string) string {
	var out []byte
	for len(text) > 0 {
		n := spaceLength(text)
		if n > 0 {
			if len(out) > 0 && !besideSpace(out[len(out)-1]) {
				out = append(out, ' ')
			}
			text = text[n:]
			continue
		}
		n = 1
		if besideSpace(text[0]) {
			out = bytes.TrimRight(out, " ")
		}
		if closing := map[byte]byte{'\'': '\'', '"': '"', '`': '`', '[': ']'}[text[0]]; closing != 0 {
			end := strings.IndexByte(text[1:], closing) // a doubled quote is two quoted pieces side by side
			n = len(text)
			if end >= 0 {
				n = end + 2
			}
		}
		out = append(out, text[:n]...)
		text = text[n:]
	}
	return string(bytes.TrimRight(out, " "))
}

// besideSpace reports whether space before and after a character means nothing.
func besideSpace(c byte) bool { return c == '(' || c == ')' || c == ',' }

// spaceLength returns how many bytes of space and comments a statement begins with.
func spaceLength(text string) int {
	n := 0
	for n < len(text) {
		rest, length := text[n:], 0
		switch {
		case strings.ContainsRune(" \t\n\f\r", rune(rest[0])):
			length = 1
		case strings.HasPrefix(rest, "--"):
			length = cmp.Or(strings.IndexByte(rest, '\n')+1, len(rest))
		case strings.HasPrefix(rest, "/*"):
			length = len(rest)
			if end := strings.Index(rest[2:], "*/"); end >= 0 {
				length = end + 4
			}
		}
		if length == 0 {
			return n
		}
		n += length
	}
	return n
}

// madeSchemas are those that the migrations make, by their version.
var madeSchemas struct {
	sync.Mutex
	of map[schemaVersion][]schemaObject
}

// schemaVersion is a version, or the unfinished long migration to it.
type schemaVersion struct {
	version int64
	long    *longMigration
}

// madeSchema returns the schema that the migrations up to a version make.
func madeSchema(ctx context.Context, of schemaVersion) ([]schemaObject, error) {
	madeSchemas.Lock()
	defer madeSchemas.Unlock()
	if made, ok := madeSchemas.of[of]; ok {
		return made, nil
	}
	made, err := makeSchema(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("make the schema of version %d: %w", of.version, err)
	}
	if madeSchemas.of == nil {
		madeSchemas.of = map[schemaVersion][]schemaObject{}
	}
	madeSchemas.of[of] = made
	return made, nil
}

// makeSchema runs the migrations in a database in memory.
func makeSchema(ctx context.Context, of schemaVersion) (made []schemaObject, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	steps, err := (&sqliteFile{}).steps(&Ledger{writer: db, seal: &sealer{away: errors.New("nothing is sealed")}})
	if err != nil {
		return nil, err
	}
	if _, err := steps.GetDBVersion(ctx); err != nil { // which makes the table of versions
		return nil, err
	}
	last := of.version
	if of.long != nil {
		last--
	}
	if last > 0 {
		if _, err := steps.UpTo(ctx, last); err != nil {
			return nil, err
		}
	}
	if of.long != nil {
		if err := inTransaction(ctx, db,
			func(tx *sql.Tx) error { _, _, err := of.long.start(ctx, tx); return err }); err != nil {
			return nil, err
		}
	}
	s, err := readSchema(ctx, db)
	return s.objects, err
}

// strangeSchemaError reports a difference between a file's schema and that of the migrations.
type strangeSchemaError struct {
	version int64
	strange []string
}

// Error names a few of the objects.
func (e *strangeSchemaError) Error() string {
	const most = 3
	text := fmt.Sprintf("its schema is not that of version %d: %s", e.version,
		strings.Join(e.strange[:min(most, len(e.strange))], "; "))
	if more := len(e.strange) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// newerSchemaError says that a newer payersync made a schema.
type newerSchemaError struct{ version, newest int64 }

// Error names both versions.
func (e *newerSchemaError) Error() string {
	return fmt.Sprintf("its schema is version %d, this payersync knows up to %d", e.version, e.newest)
}

// checkSchema fails with a *strangeSchemaError or *newerSchemaError unless a SQLite file has
// exactly the schema of the migrations up to its version. It skips the comparison for the known
// fingerprint, and returns the fingerprint, which needs a key.
func checkSchema(ctx context.Context, db books, seal *sealer, known string) (fingerprint string, err error) {
	newest, err := newestSchema()
	if err != nil {
		return "", err
	}
	found, err := readSchema(ctx, db)
	if err != nil {
		return "", err
	}
	if found.version > newest {
		return "", &newerSchemaError{found.version, newest}
	}
	fingerprint = found.fingerprint(seal, newest)
	if fingerprint == "" || fingerprint != known {
		made, err := madeSchema(ctx, schemaVersion{max(found.version, 0), found.long})
		if err != nil {
			return "", err
		}
		if strange := found.compare(made); len(strange) > 0 {
			return "", &strangeSchemaError{found.version, strange}
		}
	}
	return fingerprint, checkCounters(ctx, db, found.version)
}

// checkCounters refuses numbers in SQLite's table of counters that payersync did not count. Only the table of versions
// has such a counter.
func checkCounters(ctx context.Context, db books, version int64) error {
	var odd int
	err := db.QueryRowContext(ctx,
		fmt.Sprintf("SELECT count(*) FROM sqlite_sequence WHERE name IS NOT '%s' OR typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND %d", versionTable, maxCounter)).Scan(&odd)
	if err == nil && odd > 0 {
		err = &strangeSchemaError{version, []string{"payersync did not make a row of the table \"sqlite_sequence\""}}
	}
	return err
}

// refuseSchema explains to people why a file is refused; other errors stay unchanged.
func refuseSchema(path string, err error, next string) error {
	var strange *strangeSchemaError
	var newer *newerSchemaError
	switch {
	case errors.As(err, &strange):
		return &OpenError{Path: path, Why: strange.Error(), Next: next}
	case errors.As(err, &newer):
		return &OpenError{Path: path, Why: newer.Error(), Next: "Use the payersync that wrote it, or a newer one."}
	}
	return err
}

// checkSchema compares the schema of the file with the migrations, unless the note beside the file
// shows it unchanged since the last comparison.
func (e *sqliteFile) checkSchema(ctx context.Context, db *sql.DB, seal *sealer) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // another process may migrate it meanwhile
	if err != nil {
		return unreadable(ctx, e.path, err)
	}
	defer func() { _ = tx.Rollback() }()
	fingerprint, err := checkSchema(ctx, tx, seal, e.looked.Schema)
	if err != nil {
		if err := refuseSchema(e.path, err, nextOfLedger); errors.As(err, new(*OpenError)) {
			return err
		}
		return unreadable(ctx, e.path, err)
	}
	e.keepFingerprint(fingerprint)
	return nil
}

// noteSchema records the schema just migrated by this process. It was compared before that, or is new.
func (e *sqliteFile) noteSchema(ctx context.Context, l *Ledger) error {
	newest, err := newestSchema()
	if err != nil {
		return err
	}
	made, err := readSchema(ctx, l.writer)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	e.keepFingerprint(made.fingerprint(l.seal, newest))
	return nil
}

// keepFingerprint writes the fingerprint of a compared schema into the note beside the file. If that fails,
// the next start compares the schema again.
func (e *sqliteFile) keepFingerprint(fingerprint string) {
	if fingerprint != e.looked.Schema {
		e.looked.Schema = fingerprint
		_ = e.write(e.looked)
	}
}

// nextOfLedger returns the next step for a ledger with a strange schema.
const nextOfLedger = "Nothing was written to it. Keep a copy of the file, find out who changed it, and restore a backup from before that. What you added yourself you can drop with sqlite3."
