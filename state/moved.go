package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrMoved refuses commits to files that are no longer in place, because they would be lost with
// the process.
var ErrMoved = errors.New("the ledger's file was moved, replaced or deleted under this process; stop payersync, put the ledger back, and start again")

// noteFiles remembers the files opened by SQLite. The ledger must be the one in the folder checked before.
func (l *Ledger) noteFiles() error {
	if !l.below.isFile() {
		return nil
	}
	l.opened = map[string]os.FileInfo{}
	for _, ending := range []string{"", "-wal", "-shm"} {
		info, err := os.Lstat(l.path + ending)
		if err != nil {
			return fmt.Errorf("look at the ledger's files: %w", err)
		}
		l.opened[l.path+ending] = info
	}
	if !l.folder.Has(filepath.Base(l.path), l.opened[l.path]) || !os.SameFile(l.place, l.opened[l.path]) {
		return ErrMoved
	}
	return nil
}

// inPlace fails with ErrMoved unless the opened files still have their names. It
// only looks: to open the ledger and close it would drop SQLite's locks (fault F66).
func (l *Ledger) inPlace() error {
	for path, opened := range l.opened {
		info, err := os.Lstat(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("look at the ledger's files: %w", err)
		}
		if err != nil || !os.SameFile(opened, info) {
			return ErrMoved
		}
	}
	return nil
}
