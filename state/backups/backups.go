// Package backups makes and rotates backups of a ledger. It names them, writes each atomically,
// encrypts them for the configured recipients, verifies the written file, and removes the oldest.
// Package state decides on a copy's content and integrity.
package backups

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"payersync/connector"
	"payersync/state"
	"payersync/state/files"
)

// Config say where a backup goes and how many are kept.
type Config struct {
	Target     string      // a folder, in which it gets its own name, or the new file; a slash at the end marks a folder
	Keep       int         // how many of the ledger are kept in that folder; 0 for all. Of a named file nothing is counted
	Recipients []Recipient // its readers; nobody in particular if empty
	KeyFile    string      // of the ledger
	Now        func() time.Time
	Watch      func(Progress)           // learns how far it is; nil for nobody
	Step       func(stage string) error // for tests that place crashes: asked when a stage was reached; nil for nobody
}

// Progress is how far a backup has come.
type Progress struct {
	Stage       string // copy, or a check of state
	Done, Total int
}

// Backup is a backup that was made.
type Backup struct {
	Path      string `json:"path"`
	Bytes     int64  `json:"bytes"`
	Encrypted bool   `json:"encrypted"`
	state.Facts
	Removed  []string `json:"removed"`  // older backups of the same ledger
	Warnings []string `json:"warnings"` // what an operator should look at
}

// The stages of a backup, for tests.
const (
	stageMade      = "made"      // the file is there, with nothing in it
	stageWritten   = "written"   // it is whole and on the disk
	stageChecked   = "checked"   // it was looked through
	stagePublished = "published" // it has its name
)

// Make makes a backup of the ledger as it is now, while others go on writing. It never overwrites
// an existing file, and removes no older one before the new one was verified.
func Make(ctx context.Context, l *state.Ledger, o Config) (Backup, error) {
	if o.Step == nil {
		o.Step = func(string) error { return nil }
	}
	if o.Watch == nil {
		o.Watch = func(Progress) {}
	}
	m := &maker{Config: o, ledger: l}
	res, err := m.make(ctx)
	if err != nil {
		return res, fmt.Errorf("cannot back up the ledger: %w", ofRoom(err))
	}
	return res, nil
}

// ofRoom adds the next step to a full-disk error.
func ofRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w; nothing was left behind: make room there, or name another place", err)
	}
	return err
}

type maker struct {
	Config
	ledger *state.Ledger
	folder *files.Folder
	name   string // of the file to be made; "" for one of our own
	res    Backup
}

func (m *maker) make(ctx context.Context) (res Backup, err error) {
	if err := m.open(); err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, m.folder.Close()) }()
	if err := m.sweep(); err != nil {
		return res, err
	}
	m.res = Backup{Encrypted: len(m.Recipients) > 0, Removed: []string{}, Warnings: m.warnings()}
	f, temporary, err := m.begin()
	if err != nil {
		return res, err
	}
	defer func() {
		if err != nil { // what is not whole is no backup
			err = errors.Join(err, m.folder.Remove(temporary))
		}
		err = errors.Join(err, f.Close())
	}()
	if err := m.fill(ctx, f); err != nil {
		return res, err
	}
	if m.res.Path, err = m.publish(f, temporary); err != nil {
		return res, err
	}
	return m.res, m.rotate()
}

// open opens the folder that the target names, or is in.
func (m *maker) open() (err error) {
	info, err := os.Stat(m.Target)
	switch {
	case err == nil && info.IsDir():
		m.folder, err = files.OpenFolder(m.Target)
	case err == nil:
		return fmt.Errorf("%s is there already, and no backup is overwritten; name another file, or a folder", m.Target)
	case strings.HasSuffix(m.Target, "/"):
		return fmt.Errorf("there is no folder %s; make it, or look whether its disk is mounted", m.Target)
	default:
		m.name = filepath.Base(m.Target)
		m.folder, err = files.OpenFolder(filepath.Dir(m.Target))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s; make it, or look whether its disk is mounted", filepath.Dir(m.Target))
	case errors.Is(err, files.ErrPlanted):
		return fmt.Errorf("%w; name the folder itself, or make the backup as the user that the service runs as", err)
	}
	return err
}

// The name of an incomplete backup.
const (
	partialStart = ".payersync-backup-"
	partialEnd   = ".partial"
)

// sweep removes the files of dead backup processes: nobody holds the lock of such a file.
func (m *maker) sweep() error {
	names, err := m.folder.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, partialStart) || !strings.HasSuffix(name, partialEnd) {
			continue
		}
		f, err := m.folder.Open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			continue // it is done this moment, or not ours
		case errors.Is(err, files.ErrPlanted): // it has its own name already, and lost this one not quite
			if err := m.folder.Remove(name); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			err = m.folder.Remove(name)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the file and holds its lock. Between the two another backup may have taken it
// for one that was left behind, and removed it.
func (m *maker) begin() (f *os.File, name string, err error) {
	for {
		name = partialStart + rand.Text() + partialEnd
		if f, err = m.create(name); err != nil {
			return nil, "", err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, "", errors.Join(err, f.Close())
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && m.folder.Has(name, info) {
			return f, name, nil
		}
		if err := f.Close(); err != nil {
			return nil, "", err
		}
	}
}

// create makes a file for this user alone. Where root makes it in a folder of the ledger's
// owner, it is the owner's.
func (m *maker) create(name string) (*os.File, error) {
	f, err := m.folder.Create(name)
	if err != nil {
		return nil, err
	}
	_, ledger := m.ledger.Path()
	owner, ok := ledger.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return f, nil
	}
	uid, _, err := m.folder.Owner()
	if err == nil && uid == int(owner.Uid) {
		err = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		return nil, errors.Join(err, m.folder.Remove(name), f.Close())
	}
	return f, nil
}

// fill writes the ledger into the file and verifies the result.
func (m *maker) fill(ctx context.Context, f *os.File) error {
	if err := m.Step(stageMade); err != nil {
		return err
	}
	sum, err := m.write(ctx, f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, m.Step(stageWritten)); err != nil {
		return err
	}
	m.res.Bytes = info.Size()
	if m.res.Encrypted { // nobody here can read it: the snapshot was looked through, and these must be its bytes
		err = m.sameBytes(f, sum)
	} else {
		err = m.sameLedger(ctx, f)
	}
	return errors.Join(err, m.Step(stageChecked))
}

// write writes a snapshot and returns the checksum of the file.
func (m *maker) write(ctx context.Context, f *os.File) (sum hash.Hash, err error) {
	s, err := m.ledger.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if m.res.Facts, err = s.Facts(ctx); err != nil {
		return nil, err
	}
	if m.res.Encrypted {
		if err := wrong(s.Verify(ctx, m.looked)); err != nil {
			return nil, err
		}
	}
	sum = sha256.New()
	out := io.MultiWriter(f, sum)
	into := io.WriteCloser(open{out})
	if m.res.Encrypted {
		if into, err = age.Encrypt(out, m.Recipients...); err != nil {
			return nil, fmt.Errorf("it cannot be encrypted: %w", err)
		}
	}
	err = s.WriteTo(ctx, into, func(done, total int64) { m.Watch(Progress{"copy", int(done >> 20), int(total >> 20)}) })
	return sum, errors.Join(err, into.Close(), f.Sync())
}

// open is a writer that somebody else closes.
type open struct{ io.Writer }

func (open) Close() error { return nil }

func (m *maker) looked(at state.CheckProgress) { m.Watch(Progress{at.Check, at.Done, at.Total}) }

// wrong turns damages into an error.
func wrong(found []state.Damage, err error) error {
	if err != nil || len(found) == 0 {
		return err
	}
	more := ""
	if len(found) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(found)-1)
	}
	return connector.Advise(fmt.Errorf("the ledger is damaged: %w%s; no older backup was removed. Keep the file as it is, and see all that is wrong", found[0], more), connector.Step{Do: connector.DoVerify})
}

// sameLedger verifies a written file, as a restore would.
func (m *maker) sameLedger(ctx context.Context, f *os.File) error {
	c, err := state.OpenCopy(ctx, f.Name(), f, m.res.Bytes, m.KeyFile, false)
	if err != nil {
		return err
	}
	err = wrong(c.Verify(ctx, m.looked))
	facts, factsErr := c.Facts(ctx)
	if err := errors.Join(err, factsErr, c.Close()); err != nil {
		return err
	}
	if facts != m.res.Facts {
		return fmt.Errorf("what was written to %s is not the ledger; look at the disk", f.Name())
	}
	return nil
}

func (m *maker) sameBytes(f *os.File, sum hash.Hash) error {
	read := sha256.New()
	if _, err := io.Copy(read, io.NewSectionReader(f, 0, m.res.Bytes)); err != nil {
		return err
	}
	if !slices.Equal(read.Sum(nil), sum.Sum(nil)) {
		return fmt.Errorf("what was written to %s is not what was to be written; look at the disk", f.Name())
	}
	return nil
}

// publish gives the file its unique name and waits until that is durable.
func (m *maker) publish(f *os.File, temporary string) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !m.folder.Has(temporary, info) {
		return "", fmt.Errorf("the file was exchanged under its name in %s: %w", m.folder.Path(), files.ErrPlanted)
	}
	name := cmp.Or(m.name, m.family().name(m.Now(), 1, m.res.Encrypted))
	for n := 2; ; n++ {
		err := m.folder.Publish(temporary, name)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || m.name != "" || n > 1000 {
			return "", err
		}
		name = m.family().name(m.Now(), n, m.res.Encrypted) // two in one second are two
	}
	return filepath.Join(m.folder.Path(), name), errors.Join(m.folder.Sync(), m.Step(stagePublished))
}

// rotate removes the oldest backups of this ledger, and leaves other ledgers' backups and other
// files alone.
func (m *maker) rotate() error {
	if m.name != "" || m.Keep == 0 {
		return nil
	}
	names, err := m.folder.Names()
	if err != nil {
		return err
	}
	have := m.family().of(names)
	for i, b := range have {
		if i < m.Keep || b.name == filepath.Base(m.res.Path) {
			continue
		}
		if err := m.folder.Remove(b.name); err != nil {
			return fmt.Errorf("the backup %s was made, and an older one cannot be removed: %w", m.res.Path, err)
		}
		m.res.Removed = append(m.res.Removed, filepath.Join(m.folder.Path(), b.name))
	}
	return m.folder.Sync()
}

// warnings returns the problems that reduce the backup's value.
func (m *maker) warnings() []string {
	out := []string{}
	key, err := filepath.EvalSymlinks(m.KeyFile)
	if err != nil {
		return out
	}
	if within, err := filepath.Rel(m.folder.Path(), key); err == nil && filepath.IsLocal(within) {
		out = append(out, fmt.Sprintf("The key %s lies in the folder of the backups: whoever gets hold of that folder can open what is sealed. Keep them apart.", key))
	}
	return out
}

// family is the backups of one ledger in a folder: several may share it.
type family struct{ base, ledger string }

// idLength is how much of a ledger's identity is in names.
const idLength = 8

func (m *maker) family() family {
	path, _ := m.ledger.Path()
	base := filepath.Base(path)
	id := strings.ToLower(m.res.Ledger)
	return family{strings.TrimSuffix(base, filepath.Ext(base)), id[:min(idLength, len(id))]}
}

// stampLayout is the form of the time in names, in UTC.
const stampLayout = "20060102T150405Z"

func (f family) name(at time.Time, n int, encrypted bool) string {
	name := fmt.Sprintf("%s-%s-%s", f.base, f.ledger, at.UTC().Format(stampLayout))
	if n > 1 {
		name += fmt.Sprintf("-%d", n)
	}
	if name += ".db"; encrypted {
		name += ".age"
	}
	return name
}

// kept is a backup that there is.
type kept struct {
	name, at string
	n        int
}

// of returns the backups among names, the newest first.
func (f family) of(names []string) []kept {
	pattern := regexp.MustCompile("^" + regexp.QuoteMeta(f.base+"-"+f.ledger+"-") +
		`(\d{8}T\d{6}Z)(?:-(\d+))?\.db(?:\.age)?$`)
	var out []kept
	for _, name := range names {
		if found := pattern.FindStringSubmatch(name); found != nil {
			n, _ := strconv.Atoi(cmp.Or(found[2], "1"))
			out = append(out, kept{name, found[1], n})
		}
	}
	slices.SortFunc(out, func(a, b kept) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.n, a.n)) })
	return out
}
