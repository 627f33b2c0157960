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

// schema is where River's tables, the schedules, the nodes and the holds lie. Nothing in them is of the ledger, nor
// personal: accounts are numbers, and jobs have the names that a configuration gives them. No policy
// parts its rows, for every node works on those of all accounts.
const schema = "river"

// migrateLock is the key of the advisory lock that nodes which start together migrate by.
const migrateLock = 1919317605

//go:embed schedules.sql
var schedulesTable string

// Migrate makes the queue's tables, or brings them to where this release wants them. Nodes that
// call it at once take turns. Its role must be allowed to make a schema, and owns the tables.
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
