package state

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"modernc.org/sqlite/vfs"
)

// Copy is a ledger's file that nobody writes to, a backup above all. It is read in place, and
// nothing is written beside it or elsewhere.
type Copy struct {
	db   *sql.DB
	vfs  *vfs.FS
	seal *sealer
	name string
}

// OpenCopy opens the ledger's file whose bytes file holds, size of them. It refuses with an
// *OpenError what is no ledger, what a newer payersync wrote and what was sealed with another key;
// name is how such an error calls it. Without a key (keyless), it checks no sealed value.
func OpenCopy(ctx context.Context, name string, file io.ReaderAt, size int64, keyFile string, keyless bool) (*Copy,
	error) {
	seal, err := loadKey(keyFile)
	var away *keyAwayError
	switch {
	case keyless && errors.As(err, &away):
		seal = &sealer{away: err}
	case err != nil:
		return nil, err
	}
	c := &Copy{seal: seal, name: name}
	registered, fsys, err := vfs.New(oneFile{file, size})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	c.vfs = fsys
	if c.db, err = sql.Open("sqlite",
		"file:"+copyName+"?vfs="+registered+"&mode=ro&immutable=1&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=temp_store(2)"); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), c.Close())
	}
	c.db.SetMaxOpenConns(1)
	if err := c.accept(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// nextOfCopy returns the next step for a copy with a strange schema.
const nextOfCopy = "Nothing was restored. Take another backup, and find out who changed this one."

// accept refuses a copy unusable with this ledger's key.
func (c *Copy) accept(ctx context.Context) error {
	var id int64
	if err := c.db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("open %s: %w", c.name, ctx.Err())
		}
		return c.refuse("it is damaged, or no ledger: "+err.Error(), "Take another backup.")
	}
	if id != applicationID {
		return c.refuse("it is no ledger of payersync", "Name the file of a backup.")
	}
	if _, err := checkSchema(ctx, c.db, nil, ""); err != nil {
		if err := refuseSchema(c.name, err, nextOfCopy); errors.As(err, new(*OpenError)) {
			return err
		}
		return c.refuse("it is damaged: "+err.Error(), "Take another backup.")
	}
	if c.seal.away != nil {
		return nil
	}
	var box []byte
	if err := c.db.QueryRowContext(ctx, "SELECT key_check FROM ledger").Scan(&box); err != nil {
		return c.refuse("it is damaged: "+err.Error(), "Take another backup.")
	}
	if _, err := c.seal.open(box, place("ledger", "key_check")); err != nil {
		return c.refuse("it was sealed with another key",
			"Put back the key file that was used when it was made, or name it in ledger.key_file.")
	}
	return nil
}

func (c *Copy) refuse(why, next string) error { return &OpenError{Path: c.name, Why: why, Next: next} }

// Facts returns the copy's own facts.
func (c *Copy) Facts(ctx context.Context) (Facts, error) { return readFacts(ctx, c.db) }

// Verify looks through the copy as [Ledger.Verify] does.
func (c *Copy) Verify(ctx context.Context, watch func(CheckProgress)) ([]Damage, error) {
	return verify(ctx, c.db, &sqliteFile{}, c.seal, watch)
}

// Close lets the copy go.
func (c *Copy) Close() error {
	var err error
	if c.db != nil {
		err = c.db.Close()
	}
	return errors.Join(err, c.vfs.Close())
}

// copyName is how SQLite knows the file.
const copyName = "ledger"

// oneFile is a file system of one file, for SQLite to read.
type oneFile struct {
	file io.ReaderAt
	size int64
}

// Open opens the file; there is no other, and so no log beside it.
func (o oneFile) Open(name string) (fs.File, error) {
	if name != copyName && name != "/"+copyName {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &opened{io.NewSectionReader(logless{o.file}, 0, o.size)}, nil
}

// opened is the file, opened.
type opened struct{ *io.SectionReader }

func (o *opened) Close() error               { return nil }
func (o *opened) Stat() (fs.FileInfo, error) { return o, nil }
func (o *opened) Name() string               { return copyName }
func (o *opened) Mode() fs.FileMode          { return 0o400 }
func (o *opened) ModTime() time.Time         { return time.Time{} }
func (o *opened) IsDir() bool                { return false }
func (o *opened) Sys() any                   { return nil }

// logless reads a SQLite file as one without a write-ahead log, as the file of a cleanly closed
// ledger declares.
type logless struct{ io.ReaderAt }

// ReadAt reads as the file does, but for the two bytes that tell of a log.
func (f logless) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(p, off)
	for at := int64(writeVersion); at <= readVersion; at++ {
		if i := at - off; i >= 0 && i < int64(n) && bytes.Equal(p[i:i+1], []byte{2}) {
			p[i] = 1
		}
	}
	return n, err
}
