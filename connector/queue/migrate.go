package queue

import (
	"context"
	_ "embed" // the table of schedules
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// schema contains River's tables, the schedules, the nodes and the holds. They contain no ledger data and no personal
// data: accounts are numbers, and jobs have configured names. No policy separates its rows, because every node works on
// the rows of all accounts.
const schema = "river"

// migrateLock is the key of the advisory lock for simultaneous migrations.
const migrateLock = 1919317605

//go:embed schedules.sql
var schedulesTable string

// Migrate creates the queue's tables, or upgrades them to this release. Simultaneous calls take turns. Its role must be
// allowed to create a schema, and owns the tables.
func Migrate(ctx context.Context, pool *pgxpool.Pool) (err error) {
	turn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig) // no connection of the pool: it may have one only
	if err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }() // which gives the lock back
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
