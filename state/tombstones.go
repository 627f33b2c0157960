package state

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// The ledger knows a forgotten payer only by keyed hashes, its tombstone. So the next reading of
// the books does not bring it back. The ledger has the tombstones, and so has a file beside it: a
// backup from before knows nothing of them. The file is on disk before anything is erased. Each
// opening of a ledger carries out the entries unknown to it.
//
// The hashes have a key of their own, sealed in both places: it outlives the sealing key.
const tombstonesEnding = ".forgotten"

// tombstonesHead is the first line of the file.
const tombstonesHead = "payersync forgotten 1"

// maxTombstones is how much of the file is read: some 100,000 tombstones.
const maxTombstones = 64 << 20

// forgetKey is a key of hashes.
type forgetKey struct {
	id  string
	key []byte
}

func newForgetKey(key []byte) forgetKey {
	sum := sha256.Sum256(append([]byte("payersync forget key\x00"), key...))
	return forgetKey{hex.EncodeToString(sum[:6]), key}
}

// hash returns the keyed hash of some texts of a kind.
func (k forgetKey) hash(kind string, texts ...string) string {
	m := hmac.New(sha256.New, k.key)
	for _, text := range append([]string{kind}, texts...) {
		fmt.Fprintf(m, "%d %s", len(text), text)
	}
	return hex.EncodeToString(m.Sum(nil)[:16])
}

func (k forgetKey) ofRecord(id RecordID) string { return k.hash("record", id.Connection, id.SourceID) }

// numberMark and personMark are further marks of a payer: its number in the same connection, and its name
// with its e-mail address in any. Either is "" where it says nothing.
func (k forgetKey) numberMark(connection string, of connector.Label) string {
	if of.Number == "" {
		return ""
	}
	return k.hash("number", connection, of.Number)
}

func (k forgetKey) personMark(of connector.Label) string {
	name, email := folded(of.Name), folded(of.Email)
	if name == "" || email == "" {
		return ""
	}
	return k.hash("person", name, email)
}

func (k forgetKey) marks(connection string, of connector.Label) []string {
	return slices.DeleteFunc([]string{k.numberMark(connection, of), k.personMark(of)},
		func(m string) bool { return m == "" })
}

// tombstone marks a record's payer as forgotten, or as one that may be kept after all.
type tombstone struct {
	record string // keyed hash of its id
	key    string // of the hashes
	holds  bool   // false: it may be kept
	marks  []string
	at     time.Time
}

func (t tombstone) same(o tombstone) bool {
	return t.holds == o.holds && t.key == o.key && slices.Equal(t.marks, o.marks)
}

// tombstones is the content of the file or the ledger.
type tombstones struct {
	keys  map[string]forgetKey
	stone map[string]tombstone // by record
}

func noTombstones() tombstones {
	return tombstones{map[string]forgetKey{}, map[string]tombstone{}}
}

// line returns the tombstone as the file holds it. Its end is a keyed hash of the rest, so nobody
// without the key can add a line or revoke one.
func (t tombstone) line(k forgetKey) string {
	word, marks := "keep", "-"
	if t.holds {
		word = "forget"
	}
	if len(t.marks) > 0 {
		marks = strings.Join(t.marks, ",")
	}
	text := strings.Join([]string{word, t.key, t.at.UTC().Format(layout), t.record, marks}, " ")
	return text + " " + k.hash("line", text) + "\n"
}

// errTorn means that a line is no whole one.
var errTorn = errors.New("a line of it cannot be understood")

// parse takes in a line of the file.
func (s tombstones) parse(line string, seal *sealer) error {
	words := strings.Split(line, " ")
	switch {
	case len(words) == 3 && words[0] == "key":
		box, err := base64.StdEncoding.DecodeString(words[2])
		if err != nil {
			return errTorn
		}
		plain, err := seal.open(box, placeOfForgetKey(words[1]))
		if err != nil {
			return err
		}
		s.keys[words[1]] = forgetKey{words[1], plain}
		return nil
	case len(words) == 6 && (words[0] == "forget" || words[0] == "keep"):
		k, known := s.keys[words[1]]
		at, err := time.Parse(layout, words[2])
		if !known || err != nil || k.hash("line", strings.Join(words[:5], " ")) != words[5] {
			return errTorn
		}
		t := tombstone{record: words[3], key: words[1], holds: words[0] == "forget", at: at}
		if words[4] != "-" {
			t.marks = strings.Split(words[4], ",")
		}
		s.stone[t.record] = t
		return nil
	}
	return errTorn
}

func placeOfForgetKey(id string) []byte { return place("forget_keys", "key", id) }

// keyLine is how the file holds a key.
func (s *sealer) keyLine(k forgetKey) string {
	return fmt.Sprintf("key %s %s\n", k.id, base64.StdEncoding.EncodeToString(s.box(k.key, placeOfForgetKey(k.id))))
}

// ForgottenList returns the path of the list of forgotten payers of the ledger at path, once there is one.
func ForgottenList(path string) string { return path + tombstonesEnding }

// tombstonesFile is the open file; its lock is held.
type tombstonesFile struct {
	*os.File
	said  tombstones
	whole int64 // where its last whole line ends; 0 for a new file
}

// openTombstones opens the existing file, or creates it on request, waits for other writers, and
// reads it. It returns nil if there is none, and for a ledger on a server. A last line that is cut
// short was never told to anybody.
func (l *Ledger) openTombstones(ctx context.Context, seal *sealer, make bool) (*tombstonesFile, error) {
	if !l.below.isFile() {
		return nil, nil
	}
	name := filepath.Base(l.path)
	path := l.path + tombstonesEnding
	refuse := func(why string) error {
		return &OpenError{Path: l.path, Why: "the list of forgotten payers " + path + " " + why,
			Next: "Put the file back as it was. Where the ledger is no older copy it knows them all: then move the file away, and it is made anew."}
	}
	if !make {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	f, err := l.folder.OpenOrCreateFor(name+tombstonesEnding, name)
	if err != nil {
		return nil, refuse("cannot be opened: " + err.Error())
	}
	out := &tombstonesFile{File: f, said: noTombstones()}
	fail := func(err error) (*tombstonesFile, error) { return nil, errors.Join(err, f.Close()) }
	if info, err := f.Stat(); err != nil || info.Mode().Perm()&0o077 != 0 {
		return fail(errors.Join(err,
			&OpenError{Path: l.path, Why: "other users of this machine may open " + path, Next: "Run: chmod 600 " + path}))
	}
	if err := lockFile(ctx, f); err != nil {
		return fail(refuse("is locked by another process: " + err.Error()))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTombstones+1))
	if err != nil {
		return fail(refuse("cannot be read: " + plain(err)))
	}
	if len(text) > maxTombstones {
		return fail(refuse("is too large to be one"))
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	for i, line := range strings.Split(strings.TrimSuffix(string(text[:end]), "\n"), "\n") {
		switch {
		case end == 0:
		case i == 0 && line != tombstonesHead:
			return fail(refuse("is no such list"))
		case i == 0:
		default:
			err := out.said.parse(line, seal)
			if errors.Is(err, errOtherKey) {
				return fail(&OpenError{Path: l.path, Why: "the list of forgotten payers " + path +
					" was sealed with another key than the ledger's",
					Next:  "If a backup from before a change of the key was put back, bring it to the newer key.",
					steps: []connector.Step{{Do: connector.DoRekeyTo}}})
			}
			if err != nil {
				return fail(refuse(fmt.Sprintf("is damaged in line %d", i+1)))
			}
		}
	}
	out.whole = int64(end)
	return out, nil
}

// write appends lines to the file and waits until they are on the disk.
func (l *Ledger) writeTombstones(f *tombstonesFile, lines ...string) error {
	if f.whole == 0 {
		lines = append([]string{tombstonesHead + "\n"}, lines...)
	}
	text := strings.Join(lines, "")
	err := f.Truncate(f.whole)
	if err == nil {
		_, err = f.WriteAt([]byte(text), f.whole)
	}
	if err := errors.Join(err, f.Sync(), l.folder.Sync()); err != nil {
		return fmt.Errorf("write the list of forgotten payers: %w", err)
	}
	f.whole += int64(len(text))
	return nil
}

// digest identifies the list of forgotten payers: it changes only with the list.
func (s tombstones) digest() string {
	sum := sha256.New()
	for _, record := range slices.Sorted(maps.Keys(s.stone)) {
		fmt.Fprintf(sum, "%q %t %q\n", record, s.stone[record].holds, s.stone[record].marks)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// storedTombstones returns the ledger's tombstones.
func (l *Ledger) storedTombstones(ctx context.Context) (tombstones, error) {
	out := noTombstones()
	type keyRow struct {
		id  string
		box []byte
	}
	keys, err := list(ctx, l, "SELECT key_id, key FROM forget_keys", nil,
		func(r *keyRow) []any { return []any{&r.id, &r.box} })
	if err != nil {
		return out, err
	}
	for _, r := range keys {
		plain, err := l.seal.open(r.box, placeOfForgetKey(r.id))
		if err != nil {
			return out, fmt.Errorf("read the key of forgotten payers: %w", err)
		}
		out.keys[r.id] = forgetKey{r.id, plain}
	}
	if len(keys) == 0 {
		return out, nil
	}
	type row struct {
		tombstone
		marks string
		at    sql.NullString
	}
	rows, err := list(ctx, l, "SELECT record, key_id, holds, marks, said_at FROM tombstones", nil, func(r *row) []any {
		return []any{&r.record, &r.key, &r.holds, &r.marks, &r.at}
	})
	if err != nil {
		return out, err
	}
	for _, r := range rows {
		t := r.tombstone
		var errAt error
		t.at, errAt = parseTime(r.at)
		if err := errors.Join(errAt, json.Unmarshal([]byte(r.marks), &t.marks)); err != nil {
			return out, fmt.Errorf("read who was forgotten: %w", err)
		}
		out.stone[t.record] = t
	}
	return out, nil
}

// saveTombstone stores a tombstone in the ledger, in place of the record's earlier one.
func (tx *Tx) saveTombstone(k forgetKey, t tombstone) error {
	marks, err := json.Marshal(t.marks)
	if err != nil {
		return err
	}
	if err := tx.exec("INSERT INTO forget_keys (key_id, key) VALUES (?, ?) ON CONFLICT DO NOTHING", k.id,
		tx.l.seal.box(k.key, placeOfForgetKey(k.id))); err != nil {
		return fmt.Errorf("keep the key of forgotten payers: %w", err)
	}
	return connector.Wrap(tx.exec(`INSERT INTO tombstones (record, key_id, holds, marks, said_at, scrubbed) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (record) DO UPDATE SET key_id = excluded.key_id, holds = excluded.holds, marks = excluded.marks, said_at = excluded.said_at, scrubbed = excluded.scrubbed`,
		t.record, k.id, t.holds, string(marks), stamp(t.at), !t.holds), "keep who was forgotten")
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// anyKey returns a key of these, and makes one where there is none.
func (s tombstones) anyKey() forgetKey {
	for _, id := range sorted(s.keys) {
		return s.keys[id]
	}
	return newForgetKey(newKey())
}

// heedTombstones synchronises the ledger and the file at the opening of the ledger. It erases
// payers forgotten only by the file before any read. Missing entries are added to the file.
func (l *Ledger) heedTombstones(ctx context.Context) error {
	if l.seal.away != nil {
		return nil // nothing is shown that is sealed
	}
	stored, err := l.storedTombstones(ctx)
	if err != nil {
		return err
	}
	f, err := l.openTombstones(ctx, l.seal, len(stored.stone) > 0)
	if err != nil || f == nil {
		return err
	}
	defer func() { _ = f.Close() }()                       // which lets the lock go
	if stored, err = l.storedTombstones(ctx); err != nil { // another process may have said more while this one waited
		return err
	}
	var lacking []string
	for id, k := range stored.keys {
		if _, known := f.said.keys[id]; !known {
			lacking = append(lacking, l.seal.keyLine(k))
		}
	}
	var news []tombstone
	for record, t := range f.said.stone {
		if s, known := stored.stone[record]; !known || !s.same(t) && !t.at.Before(s.at) {
			news = append(news, t)
		}
	}
	for record, s := range stored.stone {
		if t, known := f.said.stone[record]; !known || !s.same(t) && t.at.Before(s.at) {
			lacking = append(lacking, s.line(stored.keys[s.key]))
		}
	}
	if len(lacking) > 0 {
		if err := l.writeTombstones(f, lacking...); err != nil {
			return err
		}
	}
	if len(news) > 0 {
		if err := l.carryOutTombstones(ctx, f.said.keys, news); err != nil {
			return err
		}
	}
	return l.scrubLater(ctx)
}

// scrubLater removes erased values left in the ledger's files by a dying process, or by a concurrent reader.
// If this fails now, the next start tries again; no data is at risk.
func (l *Ledger) scrubLater(ctx context.Context) error {
	const due = "scrubbed = 0 AND holds = 1"
	var any bool
	if err := l.queryRow(ctx, "SELECT EXISTS (SELECT 1 FROM tombstones WHERE "+due+")").Scan(&any); err != nil || !any {
		return err
	}
	if err := l.WaitForIntegrity(ctx); err != nil {
		return err
	}
	if clean, err := l.scrub(ctx, nil); err != nil || !clean {
		return context.Cause(ctx)
	}
	return l.doAlone(func(tx *Tx) error { return tx.exec("UPDATE tombstones SET scrubbed = 1 WHERE " + due) })
}

// carryOutTombstones carries out the entries of the file that the ledger lacks.
func (l *Ledger) carryOutTombstones(ctx context.Context, keys map[string]forgetKey, news []tombstone) error {
	wanted := connector.By(news, func(t tombstone) string { return t.record })
	var found, back []RecordID
	if err := each(ctx, l, "SELECT connection, source_id FROM source_records", nil,
		func(r *RecordID) []any { return []any{&r.Connection, &r.SourceID} }, func(id RecordID) error {
			for _, k := range keys {
				if t, ok := wanted[k.ofRecord(id)]; ok && t.holds {
					found = append(found, id)
				} else if ok {
					back = append(back, id)
				}
			}
			return nil
		}); err != nil {
		return fmt.Errorf("look for payers that were forgotten: %w", err)
	}
	if err := l.WaitForIntegrity(ctx); err != nil {
		return err
	}
	return l.doAlone(func(tx *Tx) error {
		if err := connector.Each(news, func(t tombstone) error { return tx.saveTombstone(keys[t.key], t) }); err != nil {
			return err
		}
		for _, id := range found {
			if err := tx.erase(id, ForgottenPayer); err != nil {
				return err
			}
			l.heeded++
			if err := tx.Audit(Entry{Actor: "payersync", Action: "forget again", Subject: id.Connection + "/" + id.SourceID,
				Reason: "the list of forgotten payers says so"}); err != nil {
				return err
			}
		}
		return connector.Each(back, tx.permitAgain)
	})
}

// Heeded returns the number of forgotten payers with more than their id in the ledger at its opening: it was
// an older copy, and all of it was erased again.
func (l *Ledger) Heeded() int { return l.heeded }

// doAlone is Do while the ledger is being opened and nobody else writes.
func (l *Ledger) doAlone(fn func(*Tx) error) error {
	results, err := l.runBatch([]*write{{fn: fn}})
	if err != nil {
		return err
	}
	return results[0]
}
