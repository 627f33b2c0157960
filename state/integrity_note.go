package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"payersync/state/files"
)

// If payersync closed a sound file as its last user and nobody touched it since, the file is still sound. So
// the next process writes to it at once and checks it meanwhile. Damage then ends its writing, like damage
// found by SQLite. A note beside the file records its state: its size, its place on the disk, and two times,
// one of which nobody can set back. After a crash, a power cut, a restore, a copy or a manual change they
// differ, and nothing is written before the whole file was checked.
//
// Disks do not report flipped bits by themselves. So the note is valid for a day after a full check, however
// often the ledger is opened and closed meanwhile.
const (
	lookedEnding = ".looked"
	lookedLasts  = 24 * time.Hour
)

// integrityNote records when a ledger's file was last checked, and its state after that.
type integrityNote struct {
	At     time.Time   `json:"looked_through_at"`
	Left   files.Trace `json:"left"`
	Schema string      `json:"schema,omitempty"` // fingerprint of the schema that was compared last
}

// lastIntegrityCheck returns the time of the last check if the file is unchanged since then. Zero means that
// the file must be checked before any write.
func (e *sqliteFile) lastIntegrityCheck(now time.Time) time.Time {
	text, err := e.folder.Read(e.name+lookedEnding, 1<<10)
	if err != nil || json.Unmarshal(text, &e.looked) != nil || e.shared() {
		return time.Time{}
	}
	left, err := e.folder.Trace(e.name)
	if err != nil || left != e.looked.Left || now.Before(e.looked.At) || now.Sub(e.looked.At) > lookedLasts {
		return time.Time{}
	}
	return e.looked.At
}

// shared reports whether the log holds something: a process has the ledger open, or ended without closing it.
func (e *sqliteFile) shared() bool {
	log, err := e.folder.Trace(e.name + "-wal")
	return !errors.Is(err, fs.ErrNotExist) && (err != nil || log.Size > 0)
}

// noteIntegrity records the state of a sound file at closing, and removes that record for a damaged one. If that
// fails, or another process has the ledger open, the next start checks it first.
func (e *sqliteFile) noteIntegrity(at time.Time) {
	if at.IsZero() {
		_ = e.folder.Remove(e.name + lookedEnding)
		return
	}
	if e.shared() {
		return
	}
	left, err := e.folder.Trace(e.name)
	note := integrityNote{At: at.UTC(), Left: left, Schema: e.looked.Schema}
	if err != nil || note.Left == e.looked.Left && note.At.Equal(e.looked.At) {
		return
	}
	_ = e.write(note)
}

// write does not wait for the disk: what a power cut leaves of a note matches no file, or nothing was lost.
func (e *sqliteFile) write(note integrityNote) error {
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	f, err := e.folder.OpenOrCreateFor(e.name+lookedEnding, e.name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
}
