package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/pressly/goose/v3"

	"payersync/connector"
)

// A longMigration works through all payers. It commits its work in steps and keeps its position in the ledger, so an
// interruption loses one step at most, and the next start continues. Its schema is the one before, changed by begin;
// end completes the schema of its version.
//
// Until its end the table of versions names a version above all that this payersync knows. An older payersync
// therefore refuses the ledger.
type longMigration struct {
	version    int64
	begin, end []string
	parts      []migrationPart // in their order
}

// migrationPart is work of one kind on many rows. step works on the next rows after position and returns the
// position behind them, and how much of the part is done, from 0 to 1. At 1 the part is complete. The first position
// is "".
type migrationPart struct {
	step func(ctx context.Context, tx *sql.Tx, position string) (next string, done float64, err error)
}

// longMigrations are all of them, the oldest first.
var longMigrations = []*longMigration{likenessMigration(likenessPayers, likenessTraits)}

// longMigrationOf returns the long migration to a version; nil for none.
func longMigrationOf(version int64) *longMigration {
	for _, m := range longMigrations {
		if m.version == version {
			return m
		}
	}
	return nil
}

// unfinishedTable is the table in which a long migration keeps its position, in one row. A ledger without a long
// migration under way has no such table.
const (
	unfinishedTable     = "unfinished_migration"
	makeUnfinishedTable = "CREATE TABLE unfinished_migration (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version INTEGER NOT NULL, part INTEGER NOT NULL, position TEXT NOT NULL) STRICT"
)

// unfinishedMigration is a row of unfinishedTable.
type unfinishedMigration struct {
	version  int64
	part     int
	position string
}

// unfinished returns how far a long migration has come; found is false if none is under way.
func unfinished(ctx context.Context, db books) (u unfinishedMigration, found bool, err error) {
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)",
		unfinishedTable).Scan(&found); err != nil || !found {
		return u, false, err
	}
	err = db.QueryRowContext(ctx, "SELECT version, part, position FROM "+unfinishedTable).Scan(&u.version, &u.part,
		&u.position)
	return u, err == nil, err
}

// whole makes the migration in one transaction, for ledgers without payers.
func (m *longMigration) whole(ctx context.Context, tx *sql.Tx) error {
	if err := execAll(ctx, tx, m.begin); err != nil {
		return err
	}
	for _, p := range m.parts {
		for position, done := "", 0.0; done < 1; {
			var err error
			if position, done, err = p.step(ctx, tx, position); err != nil {
				return err
			}
		}
	}
	return execAll(ctx, tx, m.end)
}

// run makes the migration in committed steps, from where an earlier start left off. watch is told how many of 100
// parts are done. Two processes may run it side by side: each step begins with the stored position.
func (m *longMigration) run(ctx context.Context, db *sql.DB, watch func(percent int)) error {
	for done := false; !done; {
		percent := 0
		if err := inTransaction(ctx, db, func(tx *sql.Tx) (err error) {
			percent, done, err = m.next(ctx, tx)
			return err
		}); err != nil {
			return fmt.Errorf("bring the ledger to schema %d: %w. The next start continues there", m.version, err)
		}
		watch(percent)
	}
	return nil
}

// next makes one step. done reports that the migration is complete.
func (m *longMigration) next(ctx context.Context, tx *sql.Tx) (percent int, done bool, err error) {
	at, found, err := unfinished(ctx, tx)
	switch {
	case err != nil:
		return 0, false, err
	case !found:
		return m.start(ctx, tx)
	case at.part == len(m.parts):
		return 100, true, m.finish(ctx, tx)
	}
	position, part, err := m.parts[at.part].step(ctx, tx, at.position)
	if err != nil {
		return 0, false, err
	}
	percent = int(100 * (float64(at.part) + part) / float64(len(m.parts)))
	if part >= 1 {
		at.part, position = at.part+1, ""
	}
	_, err = tx.ExecContext(ctx, "UPDATE "+unfinishedTable+" SET part = ?, position = ?", at.part, position)
	return percent, false, err
}

// start changes the schema and notes that the migration is under way, unless another process has made it meanwhile.
func (m *longMigration) start(ctx context.Context, tx *sql.Tx) (percent int, done bool, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+versionTable+" WHERE version_id = ?)",
		m.version).Scan(&done); err != nil || done {
		return 100, done, err
	}
	newest, err := newestSchema()
	if err != nil {
		return 0, false, err
	}
	if err := execAll(ctx, tx, slices.Concat([]string{makeUnfinishedTable}, m.begin)); err != nil {
		return 0, false, err
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO "+unfinishedTable+" (only_row, version, part, position) VALUES (1, ?, 0, '')", m.version)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (?, 1)", newest+1)
	}
	return 0, false, err
}

// finish completes the schema and gives the ledger the version of the migration.
func (m *longMigration) finish(ctx context.Context, tx *sql.Tx) error {
	return execAll(ctx, tx, slices.Concat(m.end, []string{
		"DROP TABLE " + unfinishedTable,
		fmt.Sprintf("UPDATE %[1]s SET version_id = %[2]d WHERE version_id = (SELECT max(version_id) FROM %[1]s)",
			versionTable, m.version),
	}))
}

// upFrom makes the migrations of a SQLite ledger after a version, and reports how much of them is done. A new ledger
// takes the short ones together, and reports nothing.
func upFrom(ctx context.Context, p *goose.Provider, l *Ledger, current int64) error {
	const longWeight = 20 // a long migration counts as so many others
	done, total := 0, 0
	report := func(part int) { l.migrating((100*done + part) / total) }
	if current <= 0 {
		report = func(int) {}
	}
	var pending []*goose.Source
	for _, s := range p.ListSources() {
		long := longMigrationOf(s.Version) != nil
		if s.Version <= current || current <= 0 && !long {
			continue
		}
		if pending = append(pending, s); long {
			total += longWeight - 1
		}
		total++
	}
	for _, s := range pending {
		weight, err := 1, error(nil)
		if m := longMigrationOf(s.Version); m != nil {
			weight = longWeight
			err = upLong(ctx, p, l, m, func(percent int) { report(percent * weight) })
		} else {
			_, err = p.UpTo(ctx, s.Version)
		}
		if err != nil {
			return err
		}
		done += weight
		report(0)
	}
	_, err := p.Up(ctx)
	return err
}

// upLong makes a long migration, and those before it unless it is under way.
func upLong(ctx context.Context, p *goose.Provider, l *Ledger, m *longMigration, watch func(percent int)) error {
	_, found, err := unfinished(ctx, l.writer)
	if err == nil && !found {
		_, err = p.UpTo(ctx, m.version-1)
	}
	if err != nil {
		return err
	}
	return m.run(ctx, l.writer, watch)
}

// execAll runs statements in their order.
func execAll(ctx context.Context, tx *sql.Tx, statements []string) error {
	return connector.Each(statements, func(statement string) error {
		_, err := tx.ExecContext(ctx, statement)
		return err
	})
}

// inTransaction commits what do writes, or nothing of it.
func inTransaction(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
