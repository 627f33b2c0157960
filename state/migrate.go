package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// goMigrations are the migrations that are no scripts.
func (l *Ledger) goMigrations() []*goose.Migration {
	return []*goose.Migration{
		goose.NewGoMigration(6, &goose.GoFunc{RunTx: l.sealMappings}, nil),
		goose.NewGoMigration(37, &goose.GoFunc{RunTx: l.moveReasons}, nil),
		goose.NewGoMigration(97, &goose.GoFunc{RunTx: longMigrationOf(97).whole}, nil),
	}
}

// upgrade makes the migrations that a schema lacks. versions returns its version and the newest one, and up makes the
// migrations after the present one. newer handles a version above all of them; before is called before the first
// migration.
func upgrade(ctx context.Context, versions func(context.Context) (current, target int64, err error),
	up func(ctx context.Context, current int64) error,
	newer func(current, target int64) error, before func() error) error {
	current, target, err := versions(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's schema version: %w", err)
	}
	if current > target {
		return newer(current, target)
	}
	if current < target {
		if err := before(); err != nil {
			return err
		}
	}
	for current < target {
		was := current
		err := up(ctx, current)
		if err == nil {
			return nil
		}
		// Another process may have made this step in the meantime.
		var unread error
		if current, _, unread = versions(ctx); unread != nil || current == was {
			return fmt.Errorf("migrate the ledger: %w", err)
		}
	}
	return nil
}

// newestSchema returns the version that this payersync brings a ledger to.
func newestSchema() (newest int64, err error) {
	scripts, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	for _, s := range scripts {
		version, err := goose.NumericComponent(s.Name())
		if err != nil {
			return 0, fmt.Errorf("read the migrations: %w", err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// sealMappings is migration 6. It is no script, because only this program can seal:
// a mapping's text holds what somebody wrote into it, examples of real customers
// above all. The key is looked at first, so that nothing is sealed with another.
func (l *Ledger) sealMappings(ctx context.Context, tx *sql.Tx) error {
	if err := l.checkKey(ctx, tx); err != nil {
		return err
	}
	for _, step := range []string{
		// The values that reveal a restored copy of a ledger; see generation.go.
		"ALTER TABLE ledger ADD COLUMN identity TEXT NOT NULL DEFAULT ''",
		"ALTER TABLE ledger ADD COLUMN commits INTEGER NOT NULL DEFAULT 0 CHECK (commits >= 0)",
		// when that was last noticed; NULL for never
		"ALTER TABLE ledger ADD COLUMN put_back_at TEXT",
		"ALTER TABLE mapping_versions ADD COLUMN body BLOB NOT NULL DEFAULT x''", // sealed
	} {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	texts, err := clearTexts(ctx, tx)
	if err != nil {
		return err
	}
	for hash, text := range texts {
		if _, err := tx.ExecContext(ctx, "UPDATE mapping_versions SET body = ? WHERE hash = ?",
			l.seal.box([]byte(text), placeOfMapping(hash)), hash); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "ALTER TABLE mapping_versions DROP COLUMN text")
	return err
}

// clearTexts returns the mapping texts of before migration 6, by their hash.
func clearTexts(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
	rows, err := tx.QueryContext(ctx, "SELECT hash, text FROM mapping_versions")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	texts := map[string]string{}
	for rows.Next() {
		var hash, text string
		if err := rows.Scan(&hash, &text); err != nil {
			return nil, err
		}
		texts[hash] = text
	}
	return texts, errors.Join(rows.Err())
}

func placeOfMapping(hash string) []byte { return place("mapping_versions", "body", hash) }
