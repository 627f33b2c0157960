package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
)

// Snapshot is the ledger as it was at one moment, while others go on writing. Until it is closed
// SQLite cannot restart the write-ahead log, so keep it only for a short time.
type Snapshot struct {
	db    *sql.DB
	tx    *sql.Tx
	below engine
	seal  *sealer
}

// ErrNoFile refuses an operation that only a ledger's file supports.
var ErrNoFile = errors.New("this is for a ledger that is a file, and a server keeps this one; use what PostgreSQL has for it")

// Snapshot returns the ledger as it is now.
func (l *Ledger) Snapshot(ctx context.Context) (*Snapshot, error) {
	db, tx, err := l.below.snapshot(ctx)
	s := &Snapshot{db: db, tx: tx, below: l.below, seal: l.seal}
	if err == nil {
		_, err = readFacts(ctx, s.tx) // the first read decides which moment it is
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take a snapshot of the ledger: %w", err), s.Close())
	}
	return s, nil
}

// Facts returns the ledger's facts at that moment.
func (s *Snapshot) Facts(ctx context.Context) (Facts, error) { return readFacts(ctx, s.tx) }

// Verify looks through the snapshot as [Ledger.Verify] does.
func (s *Snapshot) Verify(ctx context.Context, watch func(CheckProgress)) ([]Damage, error) {
	return verify(ctx, s.tx, s.below, s.seal, watch)
}

// Offsets of the write and read version in a SQLite file's header: 2 with a write-ahead log, 1
// without.
const (
	writeVersion = 18
	readVersion  = 19
)

// WriteTo writes the snapshot as a SQLite file of its own, page by page, without a temporary file. It merges
// the later pages of the log, so the file needs no log. watch, unless it is nil, receives the written and the
// total number of bytes. It fails with ErrNoFile for a ledger on a server.
func (s *Snapshot) WriteTo(ctx context.Context, w io.Writer, watch func(done, total int64)) error {
	if !s.below.isFile() {
		return fmt.Errorf("copy the ledger: %w", ErrNoFile)
	}
	var size int64
	if err := s.tx.QueryRowContext(ctx,
		"SELECT p.page_count * s.page_size FROM pragma_page_count p, pragma_page_size s").Scan(&size); err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	rows, err := s.tx.QueryContext(ctx, "SELECT data FROM sqlite_dbpage('main')")
	if err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	defer rows.Close()
	var done int64
	var page sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&page); err != nil {
			return fmt.Errorf("copy the ledger: %w", err)
		}
		if done == 0 && len(page) > readVersion {
			page = append(sql.RawBytes(nil), page...)
			page[writeVersion], page[readVersion] = 1, 1
		}
		if _, err := w.Write(page); err != nil {
			return err // the caller knows where to
		}
		if done += int64(len(page)); watch != nil {
			watch(done, size)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	if done != size {
		return fmt.Errorf("copy the ledger: %d of %d bytes were read", done, size)
	}
	return nil
}

// Close lets the snapshot go.
func (s *Snapshot) Close() error {
	var err error
	if s.tx != nil {
		err = s.tx.Rollback()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return err
}
