package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// Damage is one thing that is wrong with a ledger. It names rows by their ids and holds no
// personal value.
type Damage struct {
	Check   string `json:"check"`         // that found it
	Row     string `json:"row,omitempty"` // of which table, and which of it; "" where that cannot be told
	Problem string `json:"problem"`
}

// Error says what is wrong, and where.
func (d Damage) Error() string {
	if d.Row == "" {
		return d.Problem
	}
	return d.Row + ": " + d.Problem
}

// The checks, in the order in which they are made.
const (
	CheckFile       = "file"       // SQLite's own integrity check
	CheckReferences = "references" // rows whose other half is gone
	CheckHistory    = "history"    // the chain of the mandate history
	CheckMandates   = "mandates"   // each mandate against its history
	CheckAudit      = "audit"      // the chain of the audit log
	CheckSealed     = "sealed"     // every sealed value opens
)

// CheckProgress is how far a check has come.
type CheckProgress struct {
	Check       string
	Done, Total int // in rows; both 0 if unknown
}

// maxDamages is the number of reported damages per check; a longer list would not help.
const maxDamages = 100

// books reads a ledger's database, however it was opened.
type books interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Integrity runs SQLite's full integrity check, finds rows with broken references, verifies both
// hash chains and compares every mandate with its history.
func (l *Ledger) Integrity(ctx context.Context) error {
	v := verifier{db: l.reader, below: l.below}
	return errors.Join(v.run(ctx, []step{{CheckFile, v.file}}), v.damage(), v.run(ctx, v.structure()), v.damage())
}

// Verify runs every check of [Ledger.Integrity] and opens every sealed value. It continues after damage and
// returns all of it; watch, unless it is nil, receives the progress. An error means the checks did not
// finish.
func (l *Ledger) Verify(ctx context.Context, watch func(CheckProgress)) ([]Damage, error) {
	return verify(ctx, l.reader, l.below, l.seal, watch)
}

func verify(ctx context.Context, db books, below engine, seal *sealer, watch func(CheckProgress)) ([]Damage, error) {
	v := verifier{db: db, below: below, seal: seal, watch: watch}
	steps := append([]step{{CheckFile, v.file}}, v.structure()...)
	err := v.run(ctx, append(steps, step{CheckSealed, v.sealed}))
	return v.found, err
}

// verifier looks through a ledger.
type verifier struct {
	db    books
	below engine
	seal  *sealer
	watch func(CheckProgress)
	check string // that is being made
	found []Damage
	told  int // damages of this check
}

type step struct {
	check string
	make  func(context.Context) error
}

func (v *verifier) structure() []step {
	return []step{
		{CheckReferences, func(ctx context.Context) error { return v.below.references(ctx, v) }},
		{CheckHistory, func(ctx context.Context) error {
			return v.chain(ctx, "mandate_history", "mandate history",
				"mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause, cause_id")
		}},
		{CheckMandates, v.mandates},
		{CheckAudit, func(ctx context.Context) error {
			return v.chain(ctx, "audit", "audit log", "at, actor, action, subject, reason")
		}},
	}
}

// run makes checks. Unreadable data is damage too, unless the reading was cancelled.
func (v *verifier) run(ctx context.Context, steps []step) error {
	for _, s := range steps {
		v.check, v.told = s.check, 0
		v.tell(0, 0)
		if err := s.make(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("check the ledger: %w", ctx.Err())
			}
			v.report("", err.Error())
		}
		if more := v.told - maxDamages; more > 0 {
			v.found = append(v.found, Damage{v.check, "", fmt.Sprintf("and %d more like these", more)})
		}
	}
	return nil
}

// damage returns the damage found so far as one error; nil for none.
func (v *verifier) damage() error {
	errs := connector.Map(v.found, func(d Damage) error { return fmt.Errorf("check the ledger: %w", d) })
	v.found = nil
	return errors.Join(errs...)
}

func (v *verifier) report(row, problem string) {
	if v.told++; v.told <= maxDamages {
		v.found = append(v.found, Damage{v.check, row, problem})
	}
}

func (v *verifier) tell(done, total int) {
	if v.watch != nil {
		v.watch(CheckProgress{v.check, done, total})
	}
}

// each hands every row of a query to do, as text.
func (v *verifier) each(ctx context.Context, query string, do func(values []sql.NullString)) error {
	rows, err := v.db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	values, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("it cannot be read: %w", err)
		}
		do(values)
	}
	return connector.Wrap(rows.Err(), "it cannot be read to its end")
}

func (v *verifier) file(ctx context.Context) error { return v.below.integrity(ctx, v) }

// mandates compares each mandate's status with the last one of its history, by one query per
// mandate. A join would cost mandates times history if the server's statistics are stale.
func (v *verifier) mandates(ctx context.Context) error {
	return v.each(ctx, `SELECT m.mandate_id FROM mandates m
		WHERE m.status IS DISTINCT FROM (SELECT h.to_status FROM mandate_history h WHERE h.mandate_id = m.mandate_id ORDER BY h.seq DESC LIMIT 1) ORDER BY m.mandate_id`, func(row []sql.NullString) {
		v.report("", fmt.Sprintf("the status of mandate %s is not the last one of its history", row[0].String))
	})
}

// chain checks a chain. After an altered entry it continues with that entry's own hash, so it reports each
// altered entry.
func (v *verifier) chain(ctx context.Context, table, name, hashed string) error {
	head := ""
	var broken error
	err := v.each(ctx, "SELECT seq, prev_hash, hash, "+hashed+" FROM "+table+" ORDER BY seq", func(row []sql.NullString) {
		values := connector.Map(row[3:], func(value sql.NullString) any { return value.String })
		want, err := link(head, values...)
		broken = errors.Join(broken, err)
		if row[1].String != head || row[2].String != want {
			v.report("", fmt.Sprintf("the %s was altered at entry %s", name, row[0].String))
		}
		head = row[2].String
	})
	return errors.Join(err, broken)
}

// sealed opens everything that is sealed.
func (v *verifier) sealed(ctx context.Context) error {
	if v.seal.away != nil {
		return v.seal.away
	}
	total, done := 0, 0
	var there []sealedColumn
	for _, c := range slices.Concat(sealedColumns, sealedOnServer) {
		n, known, err := v.count(ctx, c)
		if err != nil {
			v.report(c.String(), err.Error())
		}
		if known {
			total += n
			there = append(there, c)
		}
	}
	for _, c := range there {
		if err := v.each(ctx, c.query(), func(row []sql.NullString) {
			last := len(row) - 1
			keys := make([]string, last)
			for i := range keys {
				keys[i] = row[i].String
			}
			if _, err := v.seal.open([]byte(row[last].String), c.place(keys)); err != nil {
				v.report(strings.TrimSpace(c.String()+" "+strings.Join(keys, " ")), err.Error())
			}
			if done++; done%1000 == 0 {
				v.tell(done, total)
			}
		}); err != nil {
			if ctx.Err() != nil {
				return err
			}
			v.report(c.String(), err.Error())
		}
	}
	v.tell(done, total)
	return nil
}

// count returns how many boxes a column holds; false where the schema has no such column.
func (v *verifier) count(ctx context.Context, c sealedColumn) (n int, known bool, err error) {
	if known, err = v.below.hasColumn(ctx, v.db, c.table, c.column); err == nil && known {
		err = v.db.QueryRowContext(ctx, fmt.Sprintf("SELECT count(%s) FROM %s", c.column, c.table)).Scan(&n)
	}
	return n, known, err
}

// Facts describes a ledger: its identity, its number of commits, and its size.
type Facts struct {
	Ledger     string `json:"ledger"`  // its identity; "" of versions before there was one
	Commits    int64  `json:"commits"` // that it has made
	Schema     int64  `json:"schema"`
	Records    int    `json:"records"`
	Payers     int    `json:"payers"`
	Mandates   int    `json:"mandates"`
	Deliveries int    `json:"deliveries"`
	Acts       int    `json:"acts"`                 // entries of the audit log
	AuditHash  string `json:"audit_hash,omitempty"` // of the newest of them
}

// String says in one line how much the ledger holds.
func (f Facts) String() string {
	return strings.Join([]string{
		connector.Plural(f.Records, "record"), connector.Plural(f.Payers, "payer"), connector.Plural(f.Mandates, "mandate"),
		connector.Plural(f.Deliveries, "webhook"), connector.Plural(f.Acts, "act") + " of people",
	}, ", ")
}

// readFacts reads the facts of a ledger with any schema.
func readFacts(ctx context.Context, db books) (f Facts, err error) {
	if err := db.QueryRowContext(ctx,
		"SELECT coalesce(max(version_id), 0) FROM goose_db_version").Scan(&f.Schema); err != nil {
		return f, fmt.Errorf("read the ledger's schema version: %w", err)
	}
	if f.Schema >= identitySince {
		if err := db.QueryRowContext(ctx, "SELECT identity, commits FROM ledger").Scan(&f.Ledger, &f.Commits); err != nil {
			return f, fmt.Errorf("read which ledger it is: %w", err)
		}
	}
	if err := db.QueryRowContext(ctx,
		`SELECT (SELECT count(*) FROM source_records), (SELECT count(*) FROM payers), (SELECT count(*) FROM mandates), (SELECT count(*) FROM inbox),
		(SELECT count(*) FROM audit), coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), '')`).
		Scan(&f.Records, &f.Payers, &f.Mandates, &f.Deliveries, &f.Acts, &f.AuditHash); err != nil {
		return f, fmt.Errorf("count what the ledger holds: %w", err)
	}
	return f, nil
}

// identitySince is the first schema in which a ledger has an identity and counts its commits.
const identitySince = 6

// Facts returns the ledger's facts.
func (l *Ledger) Facts(ctx context.Context) (Facts, error) { return readFacts(ctx, l.reader) }
