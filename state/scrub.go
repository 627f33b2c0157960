package state

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite overwrites erased data in place (secure_delete). But it may have moved the data within its
// file before, and the write-ahead log holds the old pages. A sealed value is found there by its
// beginning, the id of its key and its random nonce: without the nonce nothing opens the rest.
const boxHead = 4 + 12

// scrub clears erased boxes from the ledger's files and reports whether it succeeded. A process still reading
// an older state keeps the log from being cleared. scrub rewrites the whole file only if one of the boxes is
// found in it, or if boxes is nil. Writes of other processes wait that long. A server cleans up for itself.
func (l *Ledger) scrub(ctx context.Context, boxes [][]byte) (clean bool, err error) {
	if !l.below.isFile() {
		return true, nil
	}
	heads := map[[boxHead]byte]bool{}
	for _, b := range boxes {
		if len(b) >= boxHead {
			heads[[boxHead]byte(b[:boxHead])] = true
		}
	}
	db, err := l.cleaner(inFiles)
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close() }()
	l.reader.SetMaxIdleConns(0) // a reader at rest holds no state of the ledger, but is in doubt
	defer l.reader.SetMaxIdleConns(4)
	empty := func() (bool, error) {
		var busy, log, moved int
		if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil {
			return false, fmt.Errorf("empty the ledger's log: %w", err)
		}
		return busy == 0, nil
	}
	if clean, err = empty(); err != nil {
		return false, err
	}
	if boxes != nil {
		found, err := l.contains(ctx, db, heads)
		if err != nil || !found {
			return clean, err
		}
	}
	if err := l.vacuum(ctx, db); err != nil {
		return false, fmt.Errorf("write the ledger's file anew: %w", ofDisk(err))
	}
	if clean, err = empty(); err != nil || boxes == nil {
		return clean, err
	}
	found, err := l.contains(ctx, db, heads)
	return clean && !found, err
}

// The place of SQLite's temporary files.
const (
	inFiles  = 1 // in a folder for temporary files, without a name
	inMemory = 2
)

// cleaner opens the ledger once more, for work outside its own writes.
func (l *Ledger) cleaner(store int) (*sql.DB, error) {
	db, err := sql.Open("sqlite",
		(&url.URL{Scheme: "file", Path: l.path}).String()+fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=temp_store(%d)",
			BusyTimeout.Milliseconds(), store)+
			"&mode=rw&_pragma=trusted_schema(0)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)")
	if err != nil {
		return nil, fmt.Errorf("clean the ledger's files: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// vacuum rewrites the ledger's file. It makes a temporary copy, sealed like the ledger. The copy
// may exceed the memory, and needs the memory only without a folder for temporary files.
func (l *Ledger) vacuum(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "VACUUM")
	if primaryCode(err) != sqlite3.SQLITE_CANTOPEN {
		return err
	}
	db, err = l.cleaner(inMemory)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM")
	return errors.Join(err, db.Close())
}

// contains reports whether a box with one of these heads lies in a page of the ledger. The
// pages are asked of SQLite: to open its file beside it would drop its locks (fault F66).
func (l *Ledger) contains(ctx context.Context, db *sql.DB, heads map[[boxHead]byte]bool) (bool, error) {
	rows, err := db.QueryContext(ctx, "SELECT data FROM sqlite_dbpage")
	if err != nil {
		return false, fmt.Errorf("look through the ledger's pages: %w", err)
	}
	defer rows.Close()
	var page sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&page); err != nil {
			return false, fmt.Errorf("look through the ledger's pages: %w", err)
		}
		for rest := []byte(page); ; rest = rest[1:] {
			i := bytes.Index(rest, l.seal.id[:])
			if i < 0 || i+boxHead > len(rest) {
				break
			}
			if rest = rest[i:]; heads[[boxHead]byte(rest)] {
				return true, nil
			}
		}
	}
	return false, rows.Err()
}
