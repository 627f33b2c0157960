package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"payersync/connector"
	"payersync/state/files"
)

// A restore replaces the ledger by another file. The new ledger is written beside it, under a temporary name,
// and completed to the last byte. The rename to its second name decides: before it nothing has happened.
// After it, the next process to open the ledger completes the exchange, even if the restore died.
const (
	restoringEnding = ".restoring" // being written; worth nothing once its process is gone
	restoredEnding  = ".restored"  // ready to take the ledger's place
	beforeMiddle    = ".before-"   // what was in its place, and when it was exchanged
)

// beforeLayout is the time format in the names of replaced ledgers.
const beforeLayout = "20060102T150405.000Z"

// The stages of a restore, for tests.
const (
	stageBegun    = "begun"    // the new file is there, with nothing in it
	stageCopied   = "copied"   // it holds the backup
	stageReady    = "ready"    // it is noted as restored, and on the disk
	stageDecided  = "decided"  // it has its second name
	stageMoved    = "moved"    // the old ledger has gone from its place; its log has not
	stageSetAside = "aside"    // all of the old one has
	stageInPlace  = "in_place" // the new one is the ledger
)

// Restoring names the backup to restore, and the place.
type Restoring struct {
	Path, KeyFile string      // of the ledger
	Name          string      // of the backup, for people
	From          io.ReaderAt // its bytes
	Size          int64
	Another       bool // it may be another ledger than the one that is there
	DryRun        bool // look, and change nothing
	Actor, Reason string
	Now           func() time.Time
	Watch         func(CheckProgress)      // learns how far the look through the backup is; nil for nobody
	Step          func(stage string) error // asked when a stage was reached, for tests that place crashes; nil for nobody
}

// Restored is the result of a restore, or of its dry run.
type Restored struct {
	Facts // of the backup
	// the identity of the ledger that is there; "" where there is none, or it cannot be told
	There      string   `json:"there"`
	Lost       int64    `json:"lost_commits"`          // how many commits the backup is behind it; 0 if unknown
	Kept       []string `json:"kept"`                  // the present places of the old ledger's files
	RestoredAt string   `json:"restored_at,omitempty"` // older data no longer allows a create
	// an earlier restore that was interrupted was brought to its end, and nothing else was done
	Finished bool `json:"finished"`
}

// ErrAnotherLedger means that a backup is of another, or an unknown, ledger.
var ErrAnotherLedger = errors.New("the backup is not of the ledger that is there, as far as that can be told")

// ErrUnfinished means that an earlier restore was decided and not completed; a dry run leaves it
// unchanged.
var ErrUnfinished = errors.New("an earlier restore was interrupted after it had been decided, and whatever opens the ledger next finishes it")

// ErrInUse means that a process works on the ledger.
var ErrInUse = errors.New("a process works on the ledger")

// Restore checks a backup and puts it in the ledger's place. The ledger counts as restored from that moment.
// The old ledger is kept beside it, as one set; the mark with its number of commits stays. It refuses a
// damaged backup, one of a newer payersync, one sealed with another key, and one of another ledger. It also
// refuses a ledger open in any process.
func Restore(ctx context.Context, o Restoring) (res Restored, err error) {
	if o.Step == nil {
		o.Step = func(string) error { return nil }
	}
	folder, err := files.OpenFolder(filepath.Dir(o.Path))
	if err != nil {
		return res, refuseFolder(filepath.Dir(o.Path), err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	r := &restore{Restoring: o, folder: folder, name: filepath.Base(o.Path)}
	if err := errors.Join(refuseNetworkFS(folder.Path()), refuseWithoutLedger(folder, r.name)); err != nil {
		return res, err
	}
	free, err := r.alone()
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, free()) }()
	if pending, err := folder.Exists(r.name + restoredEnding); err != nil || pending && o.DryRun {
		return res, errors.Join(err, ErrUnfinished)
	}
	finished, err := finishRestore(folder, r.name, o.Step)
	if err != nil || finished != nil {
		res.Kept, res.Finished = finished, err == nil
		return res, err
	}
	res.Kept = []string{}
	if err := r.look(ctx, &res); err != nil || o.DryRun {
		return res, err
	}
	return res, r.put(ctx, &res)
}

// refuseWithoutLedger refuses a place of the ledger with something other than a file.
func refuseWithoutLedger(folder *files.Folder, name string) error {
	f, err := folder.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &OpenError{Path: filepath.Join(folder.Path(), name), Why: err.Error(),
			Next: "Find out how it came there, and move it away."}
	}
	return f.Close()
}

// restore is one that is being made.
type restore struct {
	Restoring
	folder *files.Folder
	name   string // of the ledger in its folder
}

// alone keeps serve and every run away until free is called.
func (r *restore) alone() (free func() error, err error) {
	var locks []*Lock
	free = func() (err error) {
		for _, k := range locks {
			err = errors.Join(err, k.Release())
		}
		return err
	}
	names, err := r.folder.Names()
	if err != nil {
		return nil, err
	}
	endings := []string{serveLock}
	for _, n := range names {
		if rest, ours := strings.CutPrefix(n, r.name); ours && strings.HasPrefix(rest, "-") &&
			strings.HasSuffix(rest, lockEnding) {
			endings = append(endings, rest)
		}
	}
	for _, ending := range endings {
		k, err := tryLock(r.folder, r.name, ending, r.neighbour())
		if err != nil {
			return nil, errors.Join(err, free())
		}
		if k == nil {
			who := "the service works on it; stop that first"
			if run, ok := strings.CutSuffix(ending, lockEnding); ok && ending != serveLock {
				connection, _ := url.PathUnescape(strings.TrimPrefix(run, "-"))
				who = fmt.Sprintf("a run of %s works on it; let it end first", connection)
			}
			return nil, errors.Join(fmt.Errorf("%w: %s", ErrInUse, who), free())
		}
		locks = append(locks, k)
	}
	return free, nil
}

// SQLite's lock bytes: every process with the ledger open holds one of them for reading.
const (
	sqliteLockByte  = 0x40000000
	sqliteLockBytes = 512
)

// exclude keeps every process from the ledger's file until release is called, and fails with
// ErrInUse while one has it open. This process must not have it open: to close the handle
// would drop SQLite's locks (fault F66).
func (r *restore) exclude() (release func() error, err error) {
	f, err := r.folder.OpenFor(r.name)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: sqliteLockByte, Len: sqliteLockBytes}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			err = fmt.Errorf("%w: another program has it open; end that first", ErrInUse)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// look looks through the backup, and compares it with the ledger that is there.
func (r *restore) look(ctx context.Context, res *Restored) error {
	release, err := r.exclude()
	if err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	c, err := OpenCopy(ctx, r.Name, r.From, r.Size, r.KeyFile, false)
	if err != nil {
		return err
	}
	found, err := c.Verify(ctx, r.Watch)
	var factsErr error
	res.Facts, factsErr = c.Facts(ctx)
	if err := errors.Join(err, factsErr, c.Close()); err != nil {
		return err
	}
	if len(found) > 0 {
		return &OpenError{Path: r.Name, Why: fmt.Sprintf("it is damaged: %v", found[0]),
			Next:  "Use another backup. To see all that is wrong, verify this one.",
			steps: []connector.Step{{Do: connector.DoVerify}}}
	}
	return r.compare(res)
}

// compare reports whether the backup is of the present ledger, judged by its mark. A damaged ledger
// gives no reliable evidence.
func (r *restore) compare(res *Restored) error {
	there, err := r.folder.Exists(r.name)
	if err != nil {
		return err
	}
	said, known, err := r.mark()
	if err != nil {
		return err
	}
	if known {
		res.There = said.ledger
		if said.ledger == res.Ledger {
			res.Lost = max(0, said.commits-res.Commits)
		}
	}
	if (known || there) && (said.ledger != res.Ledger || res.Ledger == "") {
		if !r.Another {
			return ErrAnotherLedger
		}
		return r.refuseList()
	}
	return nil
}

// refuseList refuses another ledger beside the present ledger's list of forgotten payers. The list
// would apply to records that only have the same ids.
func (r *restore) refuseList() error {
	there, err := r.folder.Exists(r.name + tombstonesEnding)
	if err != nil || !there {
		return err
	}
	list := filepath.Join(r.folder.Path(), r.name+tombstonesEnding)
	return &OpenError{Path: r.Path, Why: "the list of forgotten payers " + list +
		" belongs to the ledger that is there, and not to the backup",
		Next: "Move the list away, and keep it with that ledger; or restore the backup under another ledger.path."}
}

func (r *restore) mark() (said generation, known bool, err error) {
	text, err := r.folder.Read(r.name+generationEnding, 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return said, false, nil
	}
	said, known = parseGeneration(string(text))
	return said, known, err
}

// put makes the new file ready and exchanges it for the ledger.
func (r *restore) put(ctx context.Context, res *Restored) (err error) {
	f, err := r.begin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // with its lock
	ready, err := r.ready(ctx, f, res)
	if err != nil {
		return errors.Join(ofDisk(err), r.folder.Remove(r.name+restoringEnding))
	}
	release, err := r.exclude()
	if err != nil {
		return errors.Join(err, r.folder.Remove(r.name+restoringEnding))
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := errors.Join(r.folder.Rename(r.name+restoringEnding, r.name+restoredEnding), r.folder.Sync(),
		r.Step(stageDecided)); err != nil {
		return err
	}
	if res.Kept, err = exchange(r.folder, r.name, f, r.Step); err != nil {
		return fmt.Errorf("the exchange was begun and is not at its end: %w; the next command that opens the ledger goes on with it", err)
	}
	if ready.ledger == "" {
		return nil // of a version without identity: the next start gives it one
	}
	return r.folder.Replace(r.name+generationEnding, []byte(ready.String()), r.name)
}

// begin makes the file of the new ledger, and holds its lock. It belongs to the owner of the
// ledger that is there, or else of its folder.
func (r *restore) begin() (*os.File, error) {
	name := r.name + restoringEnding
	if err := r.folder.Remove(name); err != nil { // of one that died: serve's lock is ours
		return nil, err
	}
	f, err := r.folder.CreateFor(name, r.neighbour())
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err := errors.Join(err, r.Step(stageBegun)); err != nil {
		return nil, errors.Join(err, r.folder.Remove(name), f.Close())
	}
	return f, nil
}

// neighbour returns the owner model for new files: the ledger, or else the folder.
func (r *restore) neighbour() string {
	if there, err := r.folder.Exists(r.name); err == nil && there {
		return r.name
	}
	return "."
}

// ready writes the backup into the file and marks it as restored. It returns the mark of the new ledger.
func (r *restore) ready(ctx context.Context, f *os.File, res *Restored) (ready generation, err error) {
	if _, err := io.Copy(f, io.NewSectionReader(logless{r.From}, 0, r.Size)); err != nil {
		return ready, fmt.Errorf("copy the backup: %w", err)
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Sync(), r.Step(stageCopied)); err != nil {
		return ready, err
	}
	if ready, err = r.note(ctx, f.Name(), res); err != nil {
		return ready, fmt.Errorf("note the restore: %w", err)
	}
	if !r.folder.Has(r.name+restoringEnding, info) {
		return ready, fmt.Errorf("the new ledger was exchanged under its name: %w", files.ErrPlanted)
	}
	return ready, errors.Join(f.Sync(), r.folder.Sync(), r.Step(stageReady))
}

// note records the restore in the file at path, with the person and the reason. It keeps no journal
// on disk: after a crash the whole file is made again.
func (r *restore) note(ctx context.Context, path string, res *Restored) (ready generation, err error) {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String()+
		"?mode=rw&_pragma=journal_mode(MEMORY)&_pragma=synchronous(FULL)&_pragma=trusted_schema(0)&_pragma=secure_delete(1)&_pragma=temp_store(2)")
	if err != nil {
		return ready, err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return ready, err
	}
	if ready, err = r.noteIn(ctx, tx, res); err != nil {
		return ready, errors.Join(err, tx.Rollback())
	}
	return ready, tx.Commit()
}

func (r *restore) noteIn(ctx context.Context, tx *sql.Tx, res *Restored) (ready generation, err error) {
	if _, err := checkSchema(ctx, tx, nil, ""); err != nil { // of what was copied, before anything in it acts
		return ready, refuseSchema(r.Name, err, nextOfCopy)
	}
	now := r.Now().UTC().Format(layout)
	res.RestoredAt = now
	if _, err := tx.ExecContext(ctx, "UPDATE ledger SET restored_at = ?", now); err != nil {
		return ready, err
	}
	if res.Schema >= identitySince {
		said, known, err := r.mark()
		if err != nil {
			return ready, err
		}
		ready = generation{res.Ledger, res.Commits + 1}
		if known && said.ledger == res.Ledger { // it has the count of the replaced one, so it is no unreported restore
			ready.commits = max(said.commits, res.Commits) + 1
		}
		if _, err := tx.ExecContext(ctx, "UPDATE ledger SET commits = ?, put_back_at = ?", ready.commits, now); err != nil {
			return ready, err
		}
	}
	var stale []string
	if res.Schema >= jobsSince { // nothing of then is at work
		stale = append(stale, "UPDATE jobs SET ended_at = begun_at, outcome = 'interrupted', problem = 'the ledger is a backup of that time' WHERE begun_at > coalesce(ended_at, '')")
	}
	if res.Schema >= alarmsSince { // what waited then may have been told since
		stale = append(stale, voidMessages...)
	}
	for _, query := range stale {
		if _, err := tx.ExecContext(ctx, query); err != nil {
			return ready, err
		}
	}
	var prev string
	if err := tx.QueryRowContext(ctx, "SELECT hash FROM audit ORDER BY seq DESC LIMIT 1").Scan(&prev); err != nil &&
		!errors.Is(err, sql.ErrNoRows) {
		return ready, err
	}
	subject := "from " + filepath.Base(r.Name)
	values, err := linked(prev, now, r.Actor, restoreAction, subject, r.Reason)
	if err != nil {
		return ready, err
	}
	_, err = tx.ExecContext(ctx, insertAudit, values...)
	return ready, err
}

// restoreAction is the name of a restore in the audit log.
const restoreAction = "restore ledger"
