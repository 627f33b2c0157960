package state

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"payersync/connector"
)

// A ledger counts its commits. That count is its generation, and the mark, a file beside it, holds it. A ledger with
// fewer commits than its mark is a restored older copy, reported or not. It lacks the requests since the copy, so a
// record could be created twice.
//
// The mark follows the ledger, never the other way round: it is written after the commit is durable
// and before anybody learns of it. A process that dies in between leaves an older mark, which is
// harmless. It is written with every commit, in place, and is on the disk before anything leaves
// for the service.
const generationEnding = ".mark"

// generationText is the text of a mark, of the same length for every number, so that it is replaced in
// one piece.
const generationText = "payersync ledger %26s commits %020d\n"

// Commits returns the number of commits of the ledger: earlier reads stay valid while it is
// unchanged.
func (l *Ledger) Commits(ctx context.Context) (int64, error) {
	return single[int64](l.queryRow(ctx, "SELECT commits FROM ledger"))
}

// generation is the content of a mark file.
type generation struct {
	ledger  string // the ledger's identity
	commits int64
}

// GenerationFinding is the result of comparing the mark at opening.
type GenerationFinding string

// The findings. Only FoundOlder means that something is wrong.
const (
	FoundInStep  GenerationFinding = ""        // the ledger is as far as it was, or new
	FoundOlder   GenerationFinding = "older"   // the ledger is a copy that was put back: it counts as restored
	FoundNoMark  GenerationFinding = "no_mark" // it was moved here, or its mark was removed: it cannot be told
	FoundForeign GenerationFinding = "foreign" // the mark is another ledger's: it cannot be told
)

// FoundGeneration returns the result of comparing the mark when this process opened the ledger.
func (l *Ledger) FoundGeneration() GenerationFinding { return l.found }

// errPutBack refuses a write to a ledger that has become older under this process.
var errPutBack = errors.New("the ledger was put back under this process: another copy lies in its place; stop every payersync that uses it, and start again")

// checkGeneration compares the ledger with its mark and brings them in step. A ledger
// that is behind counts as restored from this moment on.
func (l *Ledger) checkGeneration(ctx context.Context) error {
	if !l.below.isFile() {
		return l.identify(ctx)
	}
	name := filepath.Base(l.path)
	file, err := l.folder.OpenOrCreateFor(name+generationEnding, name)
	if err != nil {
		return &OpenError{Path: l.path, Why: "its mark cannot be opened: " + err.Error(),
			Next: "Give the file to the user that payersync runs as; if it is no ordinary file, find out how it came there and move it away."}
	}
	l.generationStore = file
	if err := l.refuseShared(file); err != nil {
		return err
	}
	said, known, err := l.readGeneration() // before the ledger, which may grow meanwhile
	if err != nil {
		return err
	}
	if inStep, err := l.inStep(ctx, said, known); err != nil || inStep {
		return err
	}
	if err := l.WaitForIntegrity(ctx); err != nil {
		return err
	}
	tx, err := l.writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("compare the ledger with its mark: %w", err)
	}
	commits, err := l.compare(ctx, tx, said, known)
	if err != nil {
		return errors.Join(fmt.Errorf("compare the ledger with its mark: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("compare the ledger with its mark: %w", err)
	}
	if err := l.advanceGeneration(ctx, commits, l.found != FoundInStep || !known); err != nil || known {
		return err
	}
	return l.folder.Sync()
}

// identify gives a ledger without a mark its identity, unless another process was sooner.
func (l *Ledger) identify(ctx context.Context) error {
	if err := l.reader.QueryRowContext(ctx, "SELECT identity FROM ledger").Scan(&l.identity); err == nil &&
		l.identity != "" {
		return nil // without waiting for who writes
	}
	err := l.writer.QueryRowContext(ctx,
		"UPDATE ledger SET identity = coalesce(nullif(identity, ''), ?) RETURNING identity", rand.Text()).Scan(&l.identity)
	return connector.Wrap(err, "give the ledger its identity")
}

// inStep reports whether the mark is the ledger's and not ahead of it, so no write is needed. The
// next commit raises an older mark, before any caller or the service learns of the commit.
func (l *Ledger) inStep(ctx context.Context, said generation, known bool) (bool, error) {
	var commits int64
	if err := l.reader.QueryRowContext(ctx, "SELECT identity, commits FROM ledger").Scan(&l.identity,
		&commits); err != nil {
		return false, fmt.Errorf("compare the ledger with its mark: %w", err)
	}
	return known && l.identity != "" && said.ledger == l.identity && said.commits <= commits, nil
}

// refuseShared refuses a mark that others may write: they could make an old ledger
// pass for the newest.
func (l *Ledger) refuseShared(mark *os.File) error {
	info, err := mark.Stat()
	if err != nil {
		return fmt.Errorf("look at the ledger's mark: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return &OpenError{Path: l.path,
			Why: fmt.Sprintf("its mark %s may be written by other users of this machine (mode %04o)", mark.Name(),
				info.Mode().Perm()), Next: "Run: chmod 600 " + mark.Name()}
	}
	return nil
}

// compare compares the ledger with its mark, and returns the mark's next number. A ledger without
// an identity is new, or of a version that did not count.
func (l *Ledger) compare(ctx context.Context, tx *sql.Tx, said generation, known bool) (commits int64, err error) {
	var identity string
	var used bool
	if err := tx.QueryRowContext(ctx,
		"SELECT identity, commits, EXISTS (SELECT 1 FROM connections) FROM ledger").Scan(&identity, &commits,
		&used); err != nil {
		return 0, err
	}
	if l.identity = identity; identity == "" {
		l.identity = rand.Text()
	}
	switch born, ours := identity == "", said.ledger == identity; {
	case known && (ours && said.commits > commits || born && used):
		l.found, commits = FoundOlder, max(commits, said.commits)+1
		now := stamp(l.Now())
		_, err = tx.ExecContext(ctx, "UPDATE ledger SET identity = ?, commits = ?, restored_at = ?, put_back_at = ?",
			l.identity, commits, now, now)
		return commits, err
	case known && !ours:
		l.found = FoundForeign
	case !known && !born && commits > 0:
		l.found = FoundNoMark
	}
	if identity == "" {
		_, err = tx.ExecContext(ctx, "UPDATE ledger SET identity = ?", l.identity)
	}
	return commits, err
}

// readGeneration returns the content of the mark; false if it cannot be understood.
func (l *Ledger) readGeneration() (m generation, known bool, err error) {
	if l.generationStore == nil {
		return m, false, nil
	}
	var buf [128]byte // more than any mark
	n, err := l.generationStore.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return m, false, fmt.Errorf("read the ledger's mark: %w", err)
	}
	m, known = parseGeneration(string(buf[:n]))
	return m, known, nil
}

func parseGeneration(text string) (m generation, known bool) {
	_, err := fmt.Sscanf(text, generationText, &m.ledger, &m.commits)
	return m, err == nil && text == m.String()
}

// String returns the mark as its file holds it.
func (m generation) String() string { return fmt.Sprintf(generationText, m.ledger, m.commits) }

// lockFile waits for other processes to let go of a file's lock, and takes it.
func lockFile(ctx context.Context, f *os.File) error {
	return tryAgain(ctx, time.Millisecond, BusyTimeout, func() (again bool, err error) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		return errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR), err
	})
}

// advanceGeneration stores the ledger's commit count, and with durable waits until it is on disk. The
// mark only grows: processes that share the ledger take turns, and a lower number leaves it
// unchanged.
func (l *Ledger) advanceGeneration(ctx context.Context, commits int64, durable bool) error {
	if l.generationStore == nil {
		return nil
	}
	if err := lockFile(ctx, l.generationStore); err != nil {
		return fmt.Errorf("lock the ledger's mark: %w", err)
	}
	err := l.raiseGeneration(commits)
	err = errors.Join(err, syscall.Flock(int(l.generationStore.Fd()), syscall.LOCK_UN))
	if err == nil && durable {
		err = l.generationStore.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the ledger's mark: %w", err)
	}
	return nil
}

// raiseGeneration writes the mark, unless it holds this count or a higher one.
func (l *Ledger) raiseGeneration(commits int64) error {
	said, known, err := l.readGeneration()
	if err != nil || known && said.ledger == l.identity && said.commits >= commits {
		return err
	}
	text := generation{l.identity, commits}.String()
	if !known {
		err = l.generationStore.Truncate(int64(len(text)))
	}
	_, writeErr := l.generationStore.WriteAt([]byte(text), 0)
	return errors.Join(err, writeErr)
}

// step counts the coming commit. It holds the ledger's write lock, so no other process can be ahead of the
// ledger's count.
func (tx *Tx) step() (commits int64, err error) {
	var key []byte
	var p transferRecord
	if err := tx.row(append(p.columns(), &key),
		"UPDATE ledger SET commits = commits + 1 RETURNING "+transferColumns+", substr(key_check, 1, 4)"); err != nil {
		return 0, fmt.Errorf("count a ledger write: %w", err)
	}
	if err := tx.l.refuse(p); err != nil {
		return 0, err
	}
	if p.identity != tx.l.identity {
		return 0, errPutBack
	}
	commits = p.commits
	if err := tx.l.sameKey(key); err != nil {
		return 0, err
	}
	said, known, err := tx.l.readGeneration()
	if err == nil && known && said.ledger == tx.l.identity && said.commits >= commits {
		err = errPutBack
	}
	return commits, err
}

// RestoredAt returns when a restore of the ledger was last detected; zero if never.
func (l *Ledger) RestoredAt(ctx context.Context) (time.Time, error) {
	var at sql.NullString
	if err := l.queryRow(ctx, "SELECT put_back_at FROM ledger").Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read when the ledger was put back: %w", err)
	}
	return parseTime(at)
}
