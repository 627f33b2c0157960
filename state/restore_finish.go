package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"payersync/connector"
	"payersync/state/files"
)

// exchange moves the ledger's files aside and puts the one that is ready, and opened, in
// their place. It can be cut off anywhere and made again.
func exchange(folder *files.Folder, name string, ready *os.File, step func(string) error) (kept []string, err error) {
	kept = []string{}
	info, err := ready.Stat()
	if err != nil {
		return nil, err
	}
	// The same at every try: the file is written to no more.
	before := name + beforeMiddle + info.ModTime().UTC().Format(beforeLayout)
	for _, ending := range []string{"", "-wal", "-shm", "-journal"} {
		if err := folder.Rename(name+ending, before+ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if ending == "" {
			if err := errors.Join(folder.Sync(), step(stageMoved)); err != nil {
				return nil, err
			}
		}
		if there, err := folder.Exists(before + ending); err != nil {
			return nil, err
		} else if there {
			kept = append(kept, filepath.Join(folder.Path(), before+ending))
		}
	}
	if err := errors.Join(folder.Sync(), step(stageSetAside)); err != nil {
		return nil, err
	}
	return kept, errors.Join(folder.Rename(name+restoredEnding, name), folder.Sync(), step(stageInPlace))
}

// ReplacedLedgers returns the ledgers that restores have replaced at path and kept, without
// SQLite's own files beside them.
func ReplacedLedgers(path string) ([]string, error) {
	found, err := filepath.Glob(path + beforeMiddle + "*Z")
	return found, connector.Wrap(err, "look for ledgers that were replaced")
}

// finishRestore completes an interrupted restore that was decided, and removes an undecided one. It
// returns the paths of the replaced files; nil if it finished nothing.
func finishRestore(folder *files.Folder, name string, step func(string) error) (kept []string, err error) {
	if err := clearRestoring(folder, name); err != nil {
		return nil, err
	}
	ready, err := folder.OpenFor(name + restoredEnding)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &OpenError{Path: filepath.Join(folder.Path(), name), Why: "a restore of it is not at its end: " +
			err.Error(), Next: "Run the command as the user that restored it, or as root."}
	}
	defer func() { err = errors.Join(err, ready.Close()) }()
	// another start, or the restore itself, is at it
	if err := syscall.Flock(int(ready.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if info, err := ready.Stat(); err != nil || !folder.Has(name+restoredEnding, info) {
		return nil, err
	}
	if kept, err = exchange(folder, name, ready, step); err != nil {
		return nil, &OpenError{Path: filepath.Join(folder.Path(), name),
			Why:  "a restore of it cannot be brought to its end: " + err.Error(),
			Next: "Look at the folder and its disk, and try again."}
	}
	return kept, nil
}

// clearRestoring removes the files of a restore that died before its decision.
func clearRestoring(folder *files.Folder, name string) error {
	f, err := folder.Open(name + restoringEnding)
	if err != nil {
		return nil //nolint:nilerr // there is none, or it is none of ours: the next restore tells
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		if info, statErr := f.Stat(); statErr == nil && folder.Has(name+restoringEnding, info) {
			err = folder.Remove(name + restoringEnding)
		}
	}
	return errors.Join(err, f.Close())
}
