package state

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state/files"
)

// A new sealing key is put in use by steps. Each step can be repeated:
//
//	KEY.new ─▶ one transaction ─▶ list of forgotten ─▶ files ─▶ KEY.old, KEY
//	made       seals everything    payers             clean     exchanged
//
// Before the transaction the ledger opens with the old key alone, after it with the new one alone. If the
// process dies in between, KEY.new remains, and the next opening of the ledger asks to finish.
const (
	newEnding = ".new"
	oldEnding = ".old"
)

// sealedBox is one sealed value of a column.
type sealedBox struct {
	row   int64
	box   []byte
	place []byte
}

// reading asks for rows: a write, which reads what it writes, or the readers.
type reading func(query string, args ...any) (*sql.Rows, error)

// next returns some of the column's boxes after a row.
func (c sealedColumn) next(from reading, after int64) ([]sealedBox, error) {
	const some = 500
	key := "''"
	if len(c.keys) > 0 {
		key = strings.Join(c.keys, " || char(0) || ")
	}
	rows, err := from(fmt.Sprintf("SELECT rowid, %[1]s, %[2]s FROM %[3]s WHERE rowid > ? AND length(%[2]s) > 0 ORDER BY rowid LIMIT %[4]d", key, c.column, c.table, some), after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []sealedBox
	for rows.Next() {
		var b sealedBox
		var key string
		if err := rows.Scan(&b.row, &key, &b.box); err != nil {
			return nil, err
		}
		b.place = place(c.table, c.column)
		if len(c.keys) > 0 {
			b.place = place(c.table, c.column, key)
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// each passes on every box of the column.
func (c sealedColumn) each(from reading, do func(sealedBox) error) error {
	for after := int64(math.MinInt64); ; {
		some, err := c.next(from, after)
		if err != nil || len(some) == 0 {
			return err
		}
		if err := connector.Each(some, func(b sealedBox) error { return do(b) }); err != nil {
			return fmt.Errorf("%s.%s: %w", c.table, c.column, err)
		}
		after = some[len(some)-1].row
	}
}

// reseal seals everything sealed with l's key anew. Hashes with the old key cannot be computed anew without
// their input. The next plan stores the traits again, and the next reading of the whole list rebuilds the
// index of customers. Until then the index proves nothing.
func (tx *Tx) reseal(to *sealer) error {
	from := tx.l.seal
	if err := tx.keepLetterKey(); err != nil {
		return err
	}
	for _, c := range sealedColumns {
		update := fmt.Sprintf("UPDATE %s SET %s = ? WHERE rowid = ?", c.table, c.column)
		if err := c.each(tx.query, func(b sealedBox) error {
			plain, err := from.open(b.box, b.place)
			if err != nil {
				return err
			}
			return tx.exec(update, to.box(plain, b.place), b.row)
		}); err != nil {
			return err
		}
	}
	labels := sealedColumns[slices.IndexFunc(sealedColumns, func(c sealedColumn) bool { return c.table == "labels" })]
	if err := labels.each(tx.query, func(b sealedBox) error {
		plain, err := to.open(b.box, b.place)
		if err != nil {
			return err
		}
		return tx.exec("UPDATE labels SET digest = ? WHERE number = ? AND digest <> ''", to.digest(plain, b.place), b.row)
	}); err != nil {
		return err
	}
	for _, query := range []string{
		"DELETE FROM likenesses", "UPDATE payers SET likeness = ''", "UPDATE ledger SET indexed_to = 0",
		"UPDATE source_records SET replan = 1 WHERE forgotten = '' AND (decision = 'included' OR decision = 'held')",
		"DELETE FROM remote_traits WHERE kind <> 'key'", "DELETE FROM remote_profiles",
		"UPDATE remote_customers SET digest = 'sealed anew' WHERE digest <> ''",
		"UPDATE passes SET lacking = NULL",
	} {
		if err := tx.exec(query); err != nil {
			return err
		}
	}
	return nil
}

// Rekey says how a ledger comes to have a new sealing key.
type Rekey struct {
	NewKey string                  // a file with the key; "" to make one
	By     Entry                   // for the audit log
	Stage  func(name string) error // is told of every step that is done; nil for nobody
}

// Rekeyed is its result.
type Rekeyed struct {
	Boxes   int    // sealed values, all of them opened with the new key afterwards
	Resumed bool   // the ledger had the new key already: what was left was done
	OldKey  string // the file with the old key
}

// Why there is no new sealing key.
var (
	ErrServed  = errors.New("the service is at work on the ledger")
	ErrSameKey = errors.New("it is the key that the ledger has")
)

// Rekey replaces the ledger's sealing key in opts.KeyFile, and keeps the old one beside it. Nothing
// else may work on the ledger: it fails with ErrServed or ErrRunning. After any interruption the
// same call continues.
func (r Rekey) Rekey(ctx context.Context, opts Options) (out Rekeyed, err error) {
	if r.Stage == nil {
		r.Stage = func(string) error { return nil }
	}
	keys, err := openKeys(opts.KeyFile, r.NewKey)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, keys.folder.Close()) }()
	out.OldKey = keys.path(oldEnding)
	if keys.now.id == keys.next.id { // it was interrupted when everything was done
		out.Resumed = true
		return out, keys.removeNew()
	}
	opts.rekeying = true
	l, err := Open(ctx, opts)
	var refused *OpenError
	if errors.As(err, &refused) && refused.otherKey {
		out.Resumed = true
		opts.KeyFile = keys.path(newEnding)
		l, err = Open(ctx, opts)
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if !l.below.isFile() {
		return out, ErrNoFile
	}
	locks, err := l.holdAll(ctx)
	defer func() {
		for _, k := range locks {
			_ = k.Release()
		}
	}()
	if err != nil {
		return out, err
	}
	return r.steps(ctx, l, keys, out)
}

// steps takes those that are left, while nothing else works on the ledger.
func (r Rekey) steps(ctx context.Context, l *Ledger, keys *keyFiles, out Rekeyed) (_ Rekeyed, err error) {
	if err := r.Stage("begun"); err != nil {
		return out, err
	}
	if !out.Resumed {
		if err := l.Do(ctx, func(tx *Tx) error {
			if err := tx.reseal(keys.next); err != nil {
				return fmt.Errorf("seal the ledger anew: %w", err)
			}
			return tx.Audit(r.By)
		}); err != nil {
			return out, err
		}
	}
	if err := r.Stage("sealed"); err != nil {
		return out, err
	}
	if err := l.rekeyTombstones(ctx, keys); err != nil {
		return out, err
	}
	if err := r.Stage("list"); err != nil {
		return out, err
	}
	if clean, err := l.scrub(ctx, nil); err != nil || !clean {
		return out, errors.Join(err, errReading)
	}
	if err := r.Stage("clean"); err != nil {
		return out, err
	}
	if out.Boxes, err = l.opensAll(ctx, keys.next); err != nil {
		return out, fmt.Errorf("look whether the new key opens everything: %w", err)
	}
	if err := keys.exchange(r.Stage); err != nil {
		return out, fmt.Errorf("put the new key in the place of the old one: %w", err)
	}
	return out, r.Stage("done")
}

var errReading = connector.Advise(errors.New("another process reads the ledger, so that values which the old key opens are still in its log; stop it, and try again"), connector.Step{Do: connector.DoFinishRekey})

// holdAll keeps everybody from the ledger: it takes the lock of serving, and those of all
// connections.
func (l *Ledger) holdAll(ctx context.Context) (locks []*Lock, err error) {
	k, err := l.TryServe()
	if err != nil || k == nil {
		return nil, errors.Join(err, ErrServed)
	}
	locks = append(locks, k)
	names, err := l.ids(ctx, "SELECT name FROM connections")
	if err != nil {
		return locks, err
	}
	for _, name := range names {
		k, err := l.TryLock(name)
		if err != nil || k == nil {
			return locks, errors.Join(err, ErrRunning)
		}
		locks = append(locks, k)
	}
	return locks, nil
}

// opensAll opens every box with the new key, and returns how many there are.
func (l *Ledger) opensAll(ctx context.Context, with *sealer) (boxes int, err error) {
	from := func(query string, args ...any) (*sql.Rows, error) { return l.query(ctx, query, args...) }
	for _, c := range sealedColumns {
		if err := c.each(from, func(b sealedBox) error {
			boxes++
			_, err := with.open(b.box, b.place)
			return err
		}); err != nil {
			return boxes, err
		}
	}
	return boxes, nil
}

// rekeyTombstones seals the keys in the list of forgotten payers anew. The hashes stay: their
// key does.
func (l *Ledger) rekeyTombstones(ctx context.Context, keys *keyFiles) error {
	f, err := l.openTombstones(ctx, keys.next, false)
	if f != nil {
		return f.Close() // done before
	}
	if err == nil {
		return nil // there is none
	}
	f, oldErr := l.openTombstones(ctx, keys.now, false)
	if oldErr != nil {
		return oldErr
	}
	defer func() { _ = f.Close() }()
	text := tombstonesHead + "\n"
	for _, id := range sorted(f.said.keys) {
		text += keys.next.keyLine(f.said.keys[id])
	}
	for _, record := range sorted(f.said.stone) {
		t := f.said.stone[record]
		text += t.line(f.said.keys[t.key])
	}
	name := filepath.Base(l.path)
	return connector.Wrap(l.folder.Replace(name+tombstonesEnding, []byte(text), name+tombstonesEnding),
		"seal the list of forgotten payers anew")
}

// keyFiles are the key files of a ledger that gets a new key.
type keyFiles struct {
	folder    *files.Folder
	name      string
	now, next *sealer
}

func (k *keyFiles) path(ending string) string { return filepath.Join(k.folder.Path(), k.name+ending) }

// openKeys opens the key file and the new one beside it, which it makes unless it is there.
func openKeys(path, from string) (_ *keyFiles, err error) {
	folder, name, err := files.Locate(path)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the key file: %w", err)
	}
	k := &keyFiles{folder: folder, name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, folder.Close())
		}
	}()
	if k.now, err = loadKey(k.path("")); err != nil {
		return nil, err
	}
	var given *sealer
	if from != "" {
		if given, err = loadKey(from); err != nil {
			return nil, err
		}
		if given.id == k.now.id {
			return nil, fmt.Errorf("seal the ledger with the key in %s: %w", from, ErrSameKey)
		}
	}
	if _, err := os.Lstat(k.path(newEnding)); errors.Is(err, fs.ErrNotExist) {
		if err := k.keepsOld(); err != nil { // before anything is begun
			return nil, err
		}
		if err := k.makeNew(from); err != nil {
			return nil, err
		}
	}
	if k.next, err = loadKey(k.path(newEnding)); err != nil {
		return nil, err
	}
	if k.now.id != k.next.id {
		if err := k.keepsOld(); err != nil {
			return nil, err
		}
	}
	if given != nil && given.id != k.next.id {
		return nil, &OpenError{Path: k.path(newEnding), Why: "a change to the key in it was begun",
			Next: "Finish that first, without --new-key.", steps: []connector.Step{{Do: connector.DoFinishRekey}}}
	}
	return k, nil
}

// makeNew makes the new key, or copies the one in a file, whole or not at all.
func (k *keyFiles) makeNew(from string) error {
	text := base64.StdEncoding.EncodeToString(newKey()) + "\n"
	if from != "" {
		given, err := os.ReadFile(from) //nolint:gosec // the person at the keyboard names it, and it was looked at
		if err != nil {
			return fmt.Errorf("read the new key: %w", err)
		}
		text = string(given)
	}
	if err := k.folder.Replace(k.name+newEnding, []byte(text), k.name); err != nil {
		return &OpenError{Path: k.path(newEnding), Why: "the new key cannot be written: " + plain(err),
			Next: "The key file's folder must be one that this user may write to: where it is mounted read-only, work on a copy of it and mount that."}
	}
	return nil
}

// keepsOld fails where the old key could not be kept, because another one is in its place.
func (k *keyFiles) keepsOld() error {
	old, err := loadKey(k.path(oldEnding))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		if _, missing := os.Lstat(k.path(oldEnding)); errors.Is(missing, fs.ErrNotExist) {
			return nil
		}
		return err
	case old.id != k.now.id:
		return &OpenError{Path: k.path(oldEnding), Why: "it holds the key of an earlier change",
			Next: "Move it to where the keys of older backups are kept."}
	}
	return nil
}

// exchange puts the new key in the place of the old one, which it keeps.
func (k *keyFiles) exchange(stage func(string) error) error {
	now, err := k.folder.Read(k.name, maxKey)
	if err != nil {
		return err
	}
	if err := k.folder.Replace(k.name+oldEnding, now, k.name); err != nil {
		return err
	}
	if err := stage("kept"); err != nil {
		return err
	}
	next, err := k.folder.Read(k.name+newEnding, maxKey)
	if err != nil {
		return err
	}
	if err := k.folder.Replace(k.name, next, k.name); err != nil {
		return err
	}
	if err := stage("exchanged"); err != nil {
		return err
	}
	return k.removeNew()
}

func (k *keyFiles) removeNew() error {
	return errors.Join(os.Remove(k.path(newEnding)), k.folder.Sync())
}

// errRekeyed refuses a write with a key that is not the ledger's any more.
var errRekeyed = errors.New("the ledger has got a new sealing key under this process; start again")

// sameKey fails unless a box begins like those of the ledger's key.
func (l *Ledger) sameKey(check []byte) error {
	if !bytes.Equal(check, l.seal.id[:]) {
		return errRekeyed
	}
	return nil
}

// otherKey says why a ledger does not open with its key file.
func (l *Ledger) otherKey(ctx context.Context, db executor, keyFile string) error {
	next, steps := "Put back the key file this ledger was made with.", []connector.Step(nil)
	if keyFile == "" {
		next = "Restore the database to when its accounts had the keys that sealed their ledgers."
	}
	var check []byte
	if err := db.QueryRowContext(ctx, "SELECT key_check FROM ledger").Scan(&check); err != nil &&
		!errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if pending, err := loadKey(keyFile + newEnding); l.below.isFile() && err == nil &&
		bytes.HasPrefix(check, pending.id[:]) {
		next, steps = "A new key was being put in its place. Finish that.", []connector.Step{{Do: connector.DoFinishRekey}}
	}
	return &OpenError{Path: l.path, Why: "it was sealed with another key", Next: next, steps: steps, otherKey: true}
}
