package queue

import (
	"context"
	_ "embed" // the table of schedules
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// schema contains River's tables, the schedules, the nodes and the holds. They contain no ledger data and no personal
// data: accounts are numbers, and jobs have configured names. No policy separates its rows, because every node works on
// the rows of all accounts. The role of nodes may read and write rows only.
const schema = "river"

// migrateLock is the key of the advisory lock for simultaneous migrations.
const migrateLock = 1919317605

//go:embed schedules.sql
var schedulesTable string

// Schema contains the queue's tables.
const Schema = schema

// Check fails if the queue's tables are older than this release needs. A role without DDL calls it.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema})
	if err != nil {
		return fmt.Errorf("look at the queue's tables: %w", err)
	}
	found, err := migrator.Validate(ctx, nil)
	if err == nil && !found.OK {
		err = errors.New(strings.Join(found.Messages, "; "))
	}
	if err == nil {
		_, err = pool.Exec(ctx, "SELECT (SELECT count(*) FROM river.schedules), (SELECT count(*) FROM river.holds), (SELECT max(clock_seconds) FROM river.nodes)")
	}
	if err != nil {
		return fmt.Errorf("the queue's tables are missing or older than this payersync needs, and the role of this node may not change them. Name the role that owns them in ledger.owner, and start the node again: %w", err)
	}
	return nil
}

// Migrate creates the queue's tables, or upgrades them to this release. Simultaneous calls take turns. Its role must be
// allowed to create a schema, and owns the tables.
func Migrate(ctx context.Context, pool *pgxpool.Pool) (err error) {
	turn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig) // no connection of the pool: it may have one only
	if err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }() // it releases the lock
	if _, err := turn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrateLock); err != nil {
		return fmt.Errorf("migrate the queue: another node is at it and comes to no end: %w. Where commits wait for a standby, see that it is there and follows the primary", err)
	}
	if _, err := turn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema})
	if err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate the tables of River: %w", err)
	}
	for what, table := range map[string]string{"schedules": schedulesTable, "nodes": nodesTable, "holds": holdsTable} {
		if _, err := turn.Exec(ctx, table); err != nil {
			return fmt.Errorf("migrate the %s: %w", what, err)
		}
	}
	return nil
}
