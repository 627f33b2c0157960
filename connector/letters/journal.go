package letters

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"payersync/connector"
	"payersync/state"
)

// The journal is a file outside the ledger, with a line for every letter about to be sent. A restored ledger lacks the
// later letters; the journal has them. It contains keyed hashes and times, and is append-only.
//
//	payersync letters 1 LEDGER ID
//	2026-11-23T08:30:00.000Z MESSAGE RECIPIENT
//	2026-11-24T10:12:00.000Z opted_out RECIPIENT
//
// It also has opt-outs and nonexistent addresses, so a restore does not lose them. These lines follow within minutes,
// at the next look for letters.
//
// The line is on disk before the first byte is sent, and after the ledger has noted the same. A current ledger
// therefore knows every line, even after a crash.
type journal struct {
	place
	id    string
	lines []state.JournalLetter
	words []state.AddressWord
	file  os.FileInfo
}

const (
	journalHead = "payersync letters 1 "
	journalTime = "2006-01-02T15:04:05.000Z"
)

// errNoJournal means the file is missing or empty.
var errNoJournal = errors.New("there is no journal of letters")

// otherJournalError means a file is not a journal of this ledger.
type otherJournalError struct{ why string }

func (e *otherJournalError) Error() string { return e.why }

// readJournal reads the journal of a ledger.
func readJournal(p place, ledger string) (*journal, error) {
	f, err := p.open(os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoJournal
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the journal of letters: %w", err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read the journal of letters: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, errNoJournal
	}
	j := &journal{place: p, file: info}
	return j, j.parse(string(text), ledger)
}

// parse reads the journal's text. It ignores an incomplete last line from a crashed process, because its letter was
// never sent.
func (j *journal) parse(text, ledger string) error {
	head, rest, whole := strings.Cut(text, "\n")
	words := strings.Fields(strings.TrimPrefix(head, journalHead))
	switch {
	case !whole && strings.HasPrefix(journalHead, head[:min(len(head), len(journalHead))]):
		return errNoJournal // cut off when it was begun
	case !strings.HasPrefix(head, journalHead), len(words) != 2:
		return &otherJournalError{"the file is no journal of letters"}
	case words[0] != ledger:
		return &otherJournalError{"it is the journal of another ledger"}
	}
	j.id = words[1]
	var damaged error
	for {
		line, after, whole := strings.Cut(rest, "\n")
		if !whole {
			return damaged
		}
		rest = after
		t, ok := parseLine(line)
		switch {
		case !ok:
			damaged = &otherJournalError{"a line of it cannot be read"}
		case t.MessageID == state.StopOptedOut || t.MessageID == state.StopBounced:
			j.words = append(j.words, state.AddressWord{Recipient: t.Recipient, Why: t.MessageID})
		default:
			j.lines = append(j.lines, t)
		}
	}
}

func parseLine(line string) (t state.JournalLetter, ok bool) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return t, false
	}
	at, err := time.Parse(journalTime, words[0])
	return state.JournalLetter{MessageID: words[1], Recipient: words[2], At: at}, err == nil
}

// beginJournal creates a journal for a ledger, or completes one cut off at its creation.
func beginJournal(p place, ledger string) (*journal, error) {
	if p.path == "" { // for a ledger without a file
		return nil, errors.New("letters need a journal of what was sent, and there is no file for it; name one in letters.journal")
	}
	if p.within != "" { // the account's folder on the volume of the nodes
		if err := os.Mkdir(string(p.within), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make the folder of the journal of letters: %w", err)
		}
	}
	f, err := p.open(os.O_WRONLY | os.O_CREATE | os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	id := rand.Text()
	err = giveToFolder(f)
	if err == nil {
		_, err = f.WriteString(journalHead + ledger + " " + id + "\n")
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("begin the journal of letters: %w", err)
	}
	if err := syncFolder(filepath.Dir(p.path)); err != nil {
		return nil, fmt.Errorf("begin the journal of letters: %w", err)
	}
	return readJournal(p, ledger)
}

// append adds lines, and returns once they are on disk. It fails if the file differs from the one read.
func (j *journal) append(lines ...state.JournalLetter) (err error) {
	f, err := j.open(os.O_RDWR | os.O_APPEND)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("add to the journal of letters: %w", err)
		}
	}()
	if err := lockAlone(f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, j.file) {
		return errors.New("another file lies in its place")
	}
	if err := cutFragment(f, info.Size()); err != nil {
		return err
	}
	text := ""
	for _, t := range lines {
		text += t.At.UTC().Format(journalTime) + " " + t.MessageID + " " + t.Recipient + "\n"
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

// The number of tries for a file locked by another process, and the pause between them.
const (
	lockTries = 50
	lockPause = 100 * time.Millisecond
)

// lockAlone keeps other processes from appending to a file until it is closed. On a volume shared by several machines,
// two simultaneous appends would overwrite each other: a paused process may resume beside its replacement.
func lockAlone(f *os.File) error {
	for range lockTries {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		time.Sleep(lockPause)
	}
	return errors.New("another process adds to it")
}

// cutFragment removes an unfinished last line.
func cutFragment(f *os.File, size int64) error {
	const longest = 64 << 10 // more than any append
	from := max(0, size-longest)
	tail := make([]byte, size-from)
	if _, err := f.ReadAt(tail, from); err != nil {
		return err
	}
	end := from + int64(bytes.LastIndexByte(tail, '\n')) + 1
	if end == size {
		return nil
	}
	return f.Truncate(end)
}

// place is the path of a journal with its confining folder.
type place struct {
	path   string
	within connector.Within
}

// place returns the journal's place.
func (s *Settings) place() place { return place{s.Journal, s.JournalWithin} }

// open opens the file itself, through no link, for this user alone.
func (p place) open(flags int) (*os.File, error) {
	f, err := p.within.OpenFile(p.path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the journal of letters: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no ordinary file")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal of letters %s: %w", p.path, err), f.Close())
	}
	return f, nil
}

// giveToFolder gives a file created by root to the owner of its folder, because the owner's service appends to it.
func giveToFolder(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	if of, known := info.Sys().(*syscall.Stat_t); known {
		return f.Chown(int(of.Uid), int(of.Gid))
	}
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path) //nolint:gosec // the folder of the journal
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
