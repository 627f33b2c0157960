package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// ownerConnections are those of the role that owns the tables, while a process brings them up to date.
const ownerConnections = 2

// bringUp migrates the tables with the owner's role. A role without permission to change them only checks
// whether this program works with them.
func (s *Server) bringUp(ctx context.Context, o ServerOptions) (err error) {
	if o.Owner != "" {
		if err = s.migrateAsOwner(ctx, o.Owner); err != nil {
			return err
		}
	}
	// A database without tables has no owner of them yet: the role tries to become it.
	if err = s.write.QueryRow(ctx,
		"SELECT coalesce((SELECT pg_has_role(current_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = $1), true)",
		postgresSchema).Scan(&s.ownsTables); err != nil {
		return err
	}
	switch {
	case s.owner != nil:
		return nil
	case s.ownsTables:
		return s.migrate(ctx, s.write)
	}
	return s.checkVersion(ctx)
}

// migrateAsOwner brings the tables up to date with the role of an address, and lets that of nodes work on them.
func (s *Server) migrateAsOwner(ctx context.Context, address string) (err error) {
	if s.owner, err = sessionsAt(address); err != nil {
		return err
	}
	if owned, used := s.owner.ConnConfig.Database, s.write.Config().ConnConfig.Database; owned != used {
		return fmt.Errorf("%w: ledger.owner names another database, %s, than ledger.postgres, which names %s. Name the same one in both", ErrServer, owned, used)
	}
	return s.asOwner(ctx, func(owner *pgxpool.Pool) error {
		if err := s.migrate(ctx, owner); err != nil {
			return err
		}
		return grant(ctx, owner, postgresSchema, s.role())
	})
}

// checkVersion refuses tables that are older than this program works with.
func (s *Server) checkVersion(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.write)
	defer func() { _ = db.Close() }()
	p, err := postgresSteps(db)
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) && (said.Code == "42P01" || said.Code == "42501") {
		return fmt.Errorf("%w: the role %s may not read its tables yet. Name the role that owns them in ledger.owner, and try again: it lets the other one in", ErrServer, s.role())
	}
	if err != nil {
		return fmt.Errorf("read the ledger's schema version: %w", err)
	}
	if current > target {
		return knowsTables(ctx, db, current, target)
	}
	if current < target {
		return fmt.Errorf("%w: its tables are of version %d and this payersync needs %d, and the role %s may not change them. Name the role that owns them in ledger.owner, and try again", ErrServer, current, target, s.role())
	}
	return nil
}

// OwnsTables reports whether the role that works on the tables also owns them, and so could take their policies away.
func (s *Server) OwnsTables() bool { return s.ownsTables }

// role returns the role that works on the tables.
func (s *Server) role() string { return s.write.Config().ConnConfig.User }

// asOwner lends connections of the role that owns the tables.
func (s *Server) asOwner(ctx context.Context, do func(*pgxpool.Pool) error) error {
	pool, err := poolOf(ctx, s.owner, ownerConnections, toWrite)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(pool)
}

// Migrate upgrades the tables of another schema than the ledgers', such as the queue's. It calls migrate with the role
// that owns them. If no owner is configured and the role may not change them, it calls check instead.
func (s *Server) Migrate(ctx context.Context, pool *pgxpool.Pool, schema string, migrate,
	check func(context.Context, *pgxpool.Pool) error) error {
	switch {
	case s.owner != nil:
		return s.asOwner(ctx, func(owner *pgxpool.Pool) error {
			return errors.Join(migrate(ctx, owner), grant(ctx, owner, schema, s.role()))
		})
	case s.ownsTables:
		return migrate(ctx, pool)
	}
	return check(ctx, pool)
}

// grant lets a role read and write the rows of all tables in a schema, and nothing else. Nodes that start together take
// turns.
func grant(ctx context.Context, owner *pgxpool.Pool, schema, role string) error {
	if role == owner.Config().ConnConfig.User {
		return nil
	}
	names := strings.NewReplacer("SCHEMA_NAME", pgx.Identifier{schema}.Sanitize(), "ROLE_NAME",
		pgx.Identifier{role}.Sanitize())
	err := pgx.BeginFunc(ctx, owner, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, names.Replace(fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d);
GRANT USAGE ON SCHEMA SCHEMA_NAME TO ROLE_NAME;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA SCHEMA_NAME TO ROLE_NAME;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA SCHEMA_NAME TO ROLE_NAME`, writersLock)))
		return err
	})
	if err != nil {
		return fmt.Errorf("let the role %s work on the tables: %w", role, err)
	}
	return nil
}
