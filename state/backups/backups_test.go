package backups

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"payersync/connector"
	"payersync/state"
	"payersync/state/statetest"
)

// canary is an id, which stands in the clear in a ledger and in no encrypted backup.
const canary = "customer-of-the-canary-4711"

// books is a ledger with something in it, and a folder for its backups.
type books struct {
	t      *testing.T
	ledger *state.Ledger
	path   string
	folder string
	now    time.Time
}

func newBooks(t *testing.T) *books {
	t.Helper()
	b := &books{t: t, path: filepath.Join(t.TempDir(), "payersync.db"), folder: t.TempDir(),
		now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	statetest.New(t, b.path)
	b.open()
	b.receive(canary)
	return b
}

func (b *books) open() {
	b.t.Helper()
	l, err := state.Open(b.t.Context(), state.Options{Path: b.path, KeyFile: b.path + ".key"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.ledger = l
	b.t.Cleanup(func() { _ = l.Close() })
}

func (b *books) receive(key string) {
	b.t.Helper()
	if err := b.ledger.Do(b.t.Context(), func(tx *state.Tx) error {
		_, err := tx.Receive(state.Delivery{Key: key, Type: "customer", BillingID: key, Body: []byte("{}"),
			State: connector.InboxReceived})
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) options() Config {
	return Config{Target: b.folder, KeyFile: b.path + ".key", Now: func() time.Time { return b.now }}
}

func (b *books) make(change ...func(*Config)) Backup {
	b.t.Helper()
	o := b.options()
	for _, f := range change {
		f(&o)
	}
	res, err := Make(b.t.Context(), b.ledger, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// names returns what lies in the folder of the backups.
func (b *books) names() (names []string) {
	b.t.Helper()
	entries, err := os.ReadDir(b.folder)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// verify looks through a backup that was made.
func (b *books) verify(path string, ids ...age.Identity) state.Facts {
	b.t.Helper()
	f, err := OpenFile(path, ids)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	c, err := state.OpenCopy(b.t.Context(), path, f, f.Size, b.path+".key", false)
	if err != nil {
		b.t.Fatal(err)
	}
	found, err := c.Verify(b.t.Context(), nil)
	facts, factsErr := c.Facts(b.t.Context())
	if err := errors.Join(err, factsErr, c.Close()); err != nil || len(found) > 0 {
		b.t.Fatalf("%s: %v, %v", path, found, err)
	}
	return facts
}

// covers F65, F96
func TestABackupIsForItsOwnerAloneCheckedAndNamedByItsTime(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	first, second := b.make(), b.make() // in one second
	for _, r := range []Backup{first, second} {
		info, err := os.Stat(r.Path)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() != r.Bytes {
			t.Errorf("%s: %v, %v", r.Path, info, err)
		}
		if got := b.verify(r.Path); got != r.Facts || got.Deliveries != 1 {
			t.Errorf("it holds %+v, told was %+v", got, r.Facts)
		}
	}
	name := "payersync-" + strings.ToLower(first.Ledger[:8]) + "-20260302T090000Z"
	if got := b.names(); !slices.Equal(got, []string{name + "-2.db", name + ".db"}) {
		t.Errorf("there are %v", got)
	}
}

func TestANamedFileIsMadeAndNoFileIsEverOverwritten(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	target := filepath.Join(b.folder, "mine.db")
	named := func(o *Config) { o.Target, o.Keep = target, 1 }
	b.make()
	if res := b.make(named); res.Path != target || len(b.names()) != 2 {
		t.Errorf("it is at %s, and there are %v", res.Path, b.names())
	}
	before, _ := os.ReadFile(target)
	o := b.options()
	named(&o)
	if _, err := Make(t.Context(), b.ledger, o); err == nil || !strings.Contains(err.Error(), "no backup is overwritten") {
		t.Errorf("once more: %v", err)
	}
	if after, _ := os.ReadFile(target); !bytes.Equal(before, after) || len(b.names()) != 2 {
		t.Errorf("the file was changed, or there are %v", b.names())
	}
}

// Several ledgers may share a folder, and people put things there.
func TestRotationKeepsTheNewestAndTouchesNothingElse(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	foreign := []string{"payersync-zzzzzzzz-20200101T000000Z.db", "payersync.db.forgotten", "payersync.key",
		"notes-20200101T000000Z.db", "payersync-20200101T000000Z.db"}
	for _, name := range foreign {
		if err := os.WriteFile(filepath.Join(b.folder, name), []byte("of somebody else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var made []string
	for i := range 5 {
		b.now = b.now.Add(time.Hour)
		res := b.make(func(o *Config) { o.Keep = 3 })
		if made = append(made, filepath.Base(res.Path)); len(res.Removed) != min(1, max(0, i-2)) {
			t.Errorf("the %dth removed %v", i+1, res.Removed)
		}
	}
	want := append(slices.Clone(foreign), made[2:]...)
	slices.Sort(want)
	if got := b.names(); !slices.Equal(got, want) {
		t.Errorf("there are\n%v\nwant\n%v", got, want)
	}
	b.now = b.now.AddDate(-1, 0, 0) // a clock that went back
	if last := b.make(func(o *Config) { o.Keep = 1 }); !slices.Contains(b.names(), filepath.Base(last.Path)) {
		t.Error("what was just made was removed")
	}
}

// covers F65
func TestAnEncryptedBackupHoldsNothingInTheClearAndComesBack(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		t.Fatal(err)
	}
	recipients, err := ParseRecipients([]byte("# the accountant\n" + id.Recipient().String() + "\n\n" +
		string(ssh.MarshalAuthorizedKey(sshPublic))))
	if err != nil || len(recipients) != 2 {
		t.Fatal(recipients, err)
	}
	var partial []byte
	res := b.make(func(o *Config) {
		o.Recipients = recipients
		o.Step = func(stage string) error {
			if stage == stageWritten {
				partial, _ = os.ReadFile(filepath.Join(b.folder, b.names()[0]))
			}
			return nil
		}
	})
	data, err := os.ReadFile(res.Path)
	if err != nil || !strings.HasSuffix(res.Path, ".db.age") || !res.Encrypted {
		t.Fatal(res, err)
	}
	if bytes.Contains(data, []byte(canary)) || bytes.Contains(partial, []byte(canary)) || len(partial) == 0 {
		t.Error("it holds an id in the clear, or did so while it was written")
	}
	keys := filepath.Join(t.TempDir(), "keys")
	for _, text := range []string{id.String() + "\n", string(pem.EncodeToMemory(block))} {
		if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ids, err := ReadIdentities(keys)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.verify(res.Path, ids...); got != res.Facts {
			t.Errorf("it holds %+v, told was %+v", got, res.Facts)
		}
	}
	if _, err := OpenFile(res.Path, nil); !errors.Is(err, ErrEncrypted) {
		t.Errorf("without a secret key: %v", err)
	}
	other, _ := age.GenerateX25519Identity()
	if _, err := OpenFile(res.Path, []age.Identity{other}); err == nil ||
		!strings.Contains(err.Error(), "for somebody else") {
		t.Errorf("with another secret key: %v", err)
	}
}

func TestWhoMayReadABackupIsSaidInPublicKeys(t *testing.T) {
	t.Parallel()
	id, _ := age.GenerateX25519Identity()
	for text, want := range map[string]string{
		id.String(): "secret key", "age1nobody": "no public key", "": "no public key", "ssh-dss AAAA": "no public key of ssh",
		"ada@example.org": "no public key",
	} {
		_, err := ParseRecipient(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), id.String()) {
			t.Error("the secret key is repeated")
		}
	}
	if _, err := ParseRecipients([]byte("# nobody\n")); err == nil {
		t.Error("a file of nobody is taken")
	}
}

// covers F59
func TestABackupThatCannotBeMadeLeavesNothingAndRemovesNothing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		spoil func(b *books, o *Config)
		want  string
	}{
		"a disk that is full": {func(_ *books, o *Config) {
			o.Step = func(stage string) error {
				if stage == stageWritten {
					return syscall.ENOSPC
				}
				return nil
			}
		}, "make room there"},
		"a folder that is not there": {func(_ *books, o *Config) { o.Target += "/not/there" }, "there is no folder"},
		"a folder not mounted":       {func(_ *books, o *Config) { o.Target += "/not/" }, "there is no folder"},
		"a damaged ledger": {func(b *books, _ *Config) {
			if err := b.ledger.Close(); err != nil {
				b.t.Fatal(err)
			}
			data, err := os.ReadFile(b.path)
			const page, leaf = 4096, 0x0d
			at := len(data) - page
			for data[at] != leaf || bytes.Contains(data[at:at+page], []byte("CREATE ")) { // the schema is read at once
				at -= page
			}
			copy(data[at:], bytes.Repeat([]byte{0xA5}, page))
			if err := errors.Join(err, os.WriteFile(b.path, data, 0o600)); err != nil {
				b.t.Fatal(err)
			}
			b.open()
		}, "damaged"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			b.t = t
			b.make()
			before := b.names()
			o := b.options()
			o.Keep = 1
			c.spoil(b, &o)
			b.now = b.now.Add(time.Hour)
			if _, err := Make(t.Context(), b.ledger, o); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "cannot back up the ledger") {
				t.Errorf("it ends with %v, want %q", err, c.want)
			}
			if got := b.names(); !slices.Equal(got, before) {
				t.Errorf("there are %v, before %v", got, before)
			}
		})
	}
}

// covers F61
func TestBackupsAtOnceAreAllWhole(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if _, err := Make(context.Background(), b.ledger, b.options()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(b.names()) != 6 {
		t.Errorf("there are %v", b.names())
	}
	for _, name := range b.names() {
		b.verify(filepath.Join(b.folder, name))
	}
}

func TestAKeyBesideItsBackupsIsWarnedOf(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	if res := b.make(); len(res.Warnings) > 0 {
		t.Errorf("warned of %v", res.Warnings)
	}
	b.folder = filepath.Dir(b.path)
	if res := b.make(); len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "Keep them apart") {
		t.Errorf("warned of %v", res.Warnings)
	}
}

// covers F63
func TestAnEncryptedBackupWithAFlippedBitIsNoBackup(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id, _ := age.GenerateX25519Identity()
	res := b.make(func(o *Config) { o.Recipients = []age.Recipient{id.Recipient()} })
	data, err := os.ReadFile(res.Path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(res.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(res.Path, []age.Identity{id})
	if err != nil {
		return // which finds it, too
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(io.Discard, io.NewSectionReader(f, 0, f.Size)); err == nil {
		t.Error("it is read as if nothing were the matter")
	}
}

func TestALedgerThatWasNotClosedIsNoBackup(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	if _, err := OpenFile(b.path, nil); err == nil || !strings.Contains(err.Error(), "-wal") {
		t.Errorf("it ends with %v", err)
	}
}
