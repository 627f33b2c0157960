package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/sethvargo/go-retry"
)

// ErrReplica means that a replica is not read from. Its text says why, and what to do.
var ErrReplica = errors.New("the replica is not read from")

// errLooksOn refuses a write to what a replica keeps, and to a ledger that was opened for one look.
var errLooksOn = errors.New("this ledger was opened to look at, and takes no writes")

const (
	replicaWithin = 3 * time.Second        // to connect to a replica and learn how far it is
	replicaWait   = 500 * time.Millisecond // for what was committed just now to arrive there
	replicaTries  = 20 * time.Millisecond
	replicaLate   = time.Minute // behind: PostgreSQL lets a query hold a standby up for half a minute
)

// Replica returns a standby of the database as another Server, for whoever looks and neither decides nor writes, and how
// far it is behind: 0 when it has all that was committed before the call. Where it would not be that, where it is late or
// cannot tell, it fails with ErrReplica. What it says of itself counts only beside what the primary says.
func (s *Server) Replica(ctx context.Context, address string, connections int) (r *Server, behind time.Duration, err error) {
	within, cancel := context.WithTimeout(ctx, replicaWithin)
	defer cancel()
	if r, err = s.openReplica(ctx, address, connections); err == nil {
		if behind, err = s.behind(within, r); err == nil {
			return r, behind, nil
		}
		r.Close()
	}
	return nil, 0, refusedReplica(err)
}

// openReplica makes the connections, of which none is there yet.
func (s *Server) openReplica(ctx context.Context, address string, connections int) (*Server, error) {
	config, err := sessionsAt(address)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsStandby // of several hosts, the one that takes no writes
	pool, err := poolOf(ctx, config, connections, toRead)
	if err != nil {
		return nil, err
	}
	r := &Server{write: pool, read: pool, locks: newSessionLocks(pool), wraps: s.wraps, clock: s.clock, looksOn: true}
	r.heard.Store(s.heard.Load()) // its own clock is nobody's
	return r, nil
}

// whereabouts is how far a server is in what its database has written.
type whereabouts struct {
	system   int64  // which cluster it is, that of its standbys too
	database uint32 // which of its databases
	timeline string // each promotion begins another
	place    int64  // in the log: written by a primary, and to be seen on a standby
	at       *time.Time
}

// The same of a primary, by its clock, and of a standby, which has the time of the newest commit that it shows, by the
// primary's clock. A standby notes its timeline late, so that after a promotion it is left out for some minutes.
const (
	ofPrimary = `SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()), ` + timeline + `,
		(pg_current_wal_flush_lsn() - '0/0')::bigint, clock_timestamp() FROM pg_control_system()`
	ofStandby = `SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()),
		upper(lpad(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline)), 8, '0')),
		coalesce(pg_last_wal_replay_lsn() - '0/0', 0)::bigint, pg_last_xact_replay_timestamp()
		FROM pg_control_system(), pg_control_checkpoint() c, pg_control_recovery() r`
)

func (w *whereabouts) columns() []any {
	return []any{&w.system, &w.database, &w.timeline, &w.place, &w.at}
}

// behind returns how far a replica is behind, after it had a moment to catch up: whoever has just done something sees it.
func (s *Server) behind(ctx context.Context, r *Server) (behind time.Duration, err error) {
	var primary, standby whereabouts
	if err := s.read.QueryRow(ctx, ofPrimary).Scan(primary.columns()...); err != nil {
		return 0, err
	}
	catchUp := retry.WithMaxDuration(replicaWait, retry.NewConstant(replicaTries))
	err = retry.Do(ctx, catchUp, func(ctx context.Context) (err error) {
		if err = r.read.QueryRow(ctx, ofStandby).Scan(standby.columns()...); err != nil {
			return err
		}
		if behind, err = primary.ahead(standby); err == nil && behind > 0 {
			return retry.RetryableError(errBehind)
		}
		return err
	})
	switch {
	case errors.Is(err, errBehind): // a migration made just now may be on its way
		return behind, errors.Join(nearEnough(behind), s.sameTables(ctx, r))
	case err != nil:
		return 0, err
	}
	return 0, nil
}

// nearEnough fails with ErrReplica where a replica is too far behind.
func nearEnough(behind time.Duration) error {
	if behind <= replicaLate {
		return nil
	}
	return fmt.Errorf("%w: it is %s behind. Look what keeps it: the way to the primary, its disk, or a query that takes long", ErrReplica, behind.Round(time.Second))
}

// errBehind says that a replica lacks something of what the primary has.
var errBehind = errors.New("it has not caught up")

// ahead returns how long ago it was that a standby of this primary was what its primary is. It fails with ErrReplica
// where that is no standby of it, or cannot tell.
func (w whereabouts) ahead(standby whereabouts) (time.Duration, error) {
	switch {
	case standby.system != w.system:
		return 0, fmt.Errorf("%w: it is the standby of another server. Name one of the database in ledger.postgres", ErrReplica)
	case standby.database != w.database:
		return 0, fmt.Errorf("%w: it is another database of the same server. Name the one in ledger.postgres", ErrReplica)
	case standby.timeline != w.timeline:
		return 0, fmt.Errorf("%w: it follows what the primary was before a promotion (its timeline is %s, that of the primary %s). If it follows the new one, this ends by itself within minutes; else make it anew", ErrReplica, standby.timeline, w.timeline)
	case standby.place >= w.place:
		return 0, nil
	case standby.at == nil:
		return 0, fmt.Errorf("%w: it has not caught up since it was started, and cannot say how late it is. Wait, or look whether it reaches the primary", ErrReplica)
	}
	return max(w.at.Sub(*standby.at), time.Millisecond), nil
}

// sameTables fails with ErrReplica unless the tables of a replica are of the version that those of the primary are of.
func (s *Server) sameTables(ctx context.Context, r *Server) error {
	var versions [2]int64
	for i, of := range []*Server{s, r} {
		if err := of.read.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version").Scan(&versions[i]); err != nil {
			return err
		}
	}
	if versions[0] != versions[1] {
		return fmt.Errorf("%w: its tables are of version %d still, and those of the primary of %d. Try again in a moment", ErrReplica, versions[1], versions[0])
	}
	return nil
}

// refusedReplica says why a replica cannot be used, without what a driver says of its address.
func refusedReplica(err error) error {
	switch {
	case errors.Is(err, ErrReplica):
		return err
	case errors.Is(err, pgconn.ErrPrimaryConnection):
		return fmt.Errorf("%w: no standby answers, and what does takes writes itself. It was promoted, or never was a standby; name one in ledger.replica, or take that out", ErrReplica)
	case errors.Is(err, context.DeadlineExceeded), troubleOf(err) == cutOff:
		return fmt.Errorf("%w: it cannot be reached. Look whether it runs, and at its host and port in ledger.replica", ErrReplica)
	}
	return fmt.Errorf("%w: %w", ErrReplica, refusedServer(err))
}
