package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state/internal/dbtest"
	"slices"
)

// kekOf is a key-encryption key.
func kekOf(n byte) []byte { return bytes.Repeat([]byte{n}, keyBytes) }

var amy = Entry{Actor: "amy", Reason: "as agreed"}

// bundle is as much of an account's files as the ledger looks at: their names.
func bundle(text string) map[string][]byte {
	return map[string][]byte{"account.yaml": []byte(text), "secrets/api": []byte("sesame " + text), "empty": nil}
}

func applied(t *testing.T, s *Server, c AccountChange) AccountInfo {
	t.Helper()
	c.By = amy
	a, err := s.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// withItsKey opens the ledger of an account with the key that the server keeps.
func withItsKey(t *testing.T, opts Options, name string) *Ledger {
	t.Helper()
	opts.KeyFile, opts.Account = "", name
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestAnAccountIsMadeChangedAndPausedAndItsLogTellsWhoDidIt(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	made := applied(t, s, AccountChange{Name: "acme", Files: bundle("one")})
	if made.State != AccountActive || made.Version != 1 || made.Author != "amy" || made.MadeAt.IsZero() ||
		len(made.HookHash) != 64 {
		t.Errorf("made %+v", made)
	}
	if other := applied(t, s, AccountChange{Name: "beta", Files: bundle("its own")}); other.HookHash == made.HookHash {
		t.Error("two accounts have one address for webhooks")
	}
	changed := applied(t, s, AccountChange{Name: "acme", Over: 1, Files: bundle("two")})
	paused, err := s.SetState(t.Context(), "acme", AccountPaused, amy)
	if err != nil || paused.State != AccountPaused || paused.Version != 3 || paused.HookHash != made.HookHash ||
		changed.Version != 2 {
		t.Errorf("paused %+v, changed %+v, %v", paused, changed, err)
	}
	docs, err := s.Documents(t.Context(), "acme")
	want := bundle("two")
	want["empty"] = []byte{}
	if diff := cmp.Diff(Documents{3, want}, docs); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	l := withItsKey(t, opts, "acme")
	log, err := l.Log(t.Context(), LogFilter{Limit: 9})
	if err != nil || len(log) != 3 {
		t.Fatalf("%d lines, %v", len(log), err)
	}
	for i, action := range []string{"set account paused", "change configuration", "make account"} {
		if log[i].Action != action || log[i].Actor != "amy" || log[i].Reason != "as agreed" ||
			!strings.HasPrefix(log[i].Subject, "acme") || strings.Contains(log[i].Subject, "sesame") {
			t.Errorf("line %d: %+v", i, log[i])
		}
	}
	if err := l.Do(t.Context(), note("bo")); err != nil {
		t.Fatal(err)
	}
	if chain, err := l.LogChain(t.Context()); err != nil || chain.Altered != 0 || chain.Lines != 4 {
		t.Errorf("the log's chain: %+v, %v", chain, err)
	}
	if wrong, err := l.Verify(t.Context(), nil); err != nil || len(wrong) > 0 {
		t.Errorf("looked through: %v, %v", wrong, err)
	}
	all, err := s.Accounts(t.Context())
	if err != nil || len(all) != 2 || all[0] != paused {
		t.Errorf("all: %+v, %v", all, err)
	}
}

func TestAnAccountThatIsNotThereIsNotMadeByOpeningIt(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 4)
	for _, key := range []string{"", opts.KeyFile} {
		o := opts
		o.KeyFile, o.Account = key, "nobody"
		for _, keyless := range []bool{false, true} {
			o.Keyless = keyless
			if _, err := Open(t.Context(), o); !errors.Is(err, ErrNoAccount) ||
				!slices.Contains(connector.StepsOf(err), connector.Step{Do: connector.DoListAccounts}) {
				t.Errorf("opened: %v", err)
			}
		}
	}
	_, err := s.Documents(t.Context(), "nobody")
	_, stateErr := s.SetState(t.Context(), "nobody", AccountPaused, amy)
	_, changeErr := s.Apply(t.Context(), AccountChange{Name: "nobody", Over: 1, By: amy})
	for _, err := range []error{err, stateErr, changeErr} {
		if !errors.Is(err, ErrNoAccount) {
			t.Errorf("got %v", err)
		}
	}
	if all, err := s.Accounts(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// Of several changes of an account over the same version, one succeeds.
func TestOfChangesOverOneVersionOneIsKept(t *testing.T) {
	t.Parallel()
	s, _ := aServer(t, 8)
	for over := range int64(3) {
		var all sync.WaitGroup
		kept := make(chan string, 8)
		for i := range 8 {
			all.Go(func() {
				text := fmt.Sprint(over, "-", i)
				_, err := s.Apply(context.Background(), AccountChange{Name: "acme", Over: over, Files: bundle(text), By: amy})
				switch {
				case err == nil:
					kept <- text
				case !errors.Is(err, ErrChangedMeanwhile) || !strings.Contains(err.Error(), "again"):
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if len(kept) != 1 {
			t.Fatalf("over version %d, %d changes were kept", over, len(kept))
		}
		if docs, err := s.Documents(t.Context(), "acme"); err != nil || string(docs.Files["account.yaml"]) != <-kept ||
			docs.Version != over+1 {
			t.Errorf("version %d: %v, %v", docs.Version, docs, err)
		}
	}
}

func TestFilesThatNoFolderCouldHoldAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := aServer(t, 4)
	for name, c := range map[string]AccountChange{
		"out of the folder": {Name: "acme", Files: map[string][]byte{"../account.yaml": nil}},
		"absolute":          {Name: "acme", Files: map[string][]byte{"/etc/passwd": nil}},
		"with a line break": {Name: "acme", Files: map[string][]byte{"a\nb": nil}},
		"a file and folder": {Name: "acme", Files: map[string][]byte{"a": nil, "a/b": nil}},
		"too large":         {Name: "acme", Files: map[string][]byte{"a": make([]byte, maxBundle+1)}},
		"a name in capital": {Name: "Acme"},
	} {
		if _, err := s.Apply(t.Context(), c); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyTheRightKeyOpensTheKeysOfAccounts(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 4)
	acme := applied(t, s, AccountChange{Name: "acme", Files: bundle("one")})
	applied(t, s, AccountChange{Name: "beta", Files: bundle("two")})
	dsn, err := dbtest.DSN(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  []byte
		says string
	}{
		"another": {kekOf(2), "is wrapped with the key " + acme.KeyID},
		"none":    {nil, "ledger.key_encryption_key"},
	} {
		o := opts
		if o.Server, err = OpenServer(t.Context(),
			ServerOptions{Address: dsn, Connections: 2, KeyEncryptionKey: c.key}); err != nil {
			t.Fatal(err)
		}
		defer o.Server.Close()
		o.KeyFile, o.Account = "", "acme"
		_, openErr := Open(t.Context(), o)
		_, docsErr := o.Server.Documents(t.Context(), "acme")
		_, changeErr := o.Server.Apply(t.Context(), AccountChange{Name: "acme", Over: 1, Files: bundle("three"), By: amy})
		_, wrapErr := o.Server.Rewrap(t.Context(), kekOf(3))
		for what, err := range map[string]error{"open": openErr, "documents": docsErr, "change": changeErr,
			"rewrap": wrapErr} {
			if !errors.Is(err, ErrKeyEncryptionKey) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		o.Keyless = true
		l, err := Open(t.Context(), o)
		if err != nil {
			t.Fatalf("%s, without what is sealed: %v", name, err)
		}
		if lines, err := l.Log(t.Context(), LogFilter{Limit: 9}); err != nil || len(lines) != 1 {
			t.Errorf("%s: %v, %v", name, lines, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := dbtest.Execute(opts.Path,
		"UPDATE main.accounts a SET wrapped_key = b.wrapped_key FROM main.accounts b WHERE a.name = 'acme' AND b.name = 'beta'"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Documents(t.Context(), "acme"); !errors.Is(err, ErrKeyEncryptionKey) ||
		!strings.Contains(err.Error(), "altered or moved") {
		t.Errorf("with the key of another account: %v", err)
	}
}

func TestAccountsAreListedAndPausedWithoutTheirKeyEncryptionKey(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	applied(t, s, AccountChange{Name: "acme", Files: bundle("one")})
	dsn, err := dbtest.DSN(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenServer(t.Context(), ServerOptions{Address: dsn, KeyEncryptionKey: []byte("short")}); !errors.Is(err,
		ErrKeyEncryptionKey) {
		t.Errorf("with half a key: %v", err)
	}
	for name, c := range map[string]struct {
		key  []byte
		want error
	}{"at hand": {kekOf(1), nil}, "none": {nil, ErrKeyEncryptionKey}, "not ours": {kekOf(2), ErrKeyEncryptionKey}} {
		elsewhere, err := OpenServer(t.Context(), ServerOptions{Address: dsn, Connections: 5, KeyEncryptionKey: c.key})
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		if all, err := elsewhere.Accounts(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
		for _, to := range []AccountState{AccountPaused, AccountActive} {
			if _, err := elsewhere.SetState(t.Context(), "acme", to, amy); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, docsErr := elsewhere.Documents(t.Context(), "acme")
		_, _, openErr := elsewhere.keyOf(t.Context(), "acme")
		for what, err := range map[string]error{"documents": docsErr, "key": openErr} {
			if !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

func TestAnotherKeyEncryptionKeyWrapsAllKeysAndSealsNothingAnew(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	for _, name := range []string{"acme", "beta", "gamma"} {
		applied(t, s, AccountChange{Name: name, Files: bundle(name)})
	}
	before := withItsKey(t, opts, "acme")
	n, err := s.Rewrap(t.Context(), kekOf(2))
	if err != nil || n != 3 {
		t.Fatalf("%d keys, %v", n, err)
	}
	if n, err := s.Rewrap(t.Context(), kekOf(2)); err != nil || n != 0 {
		t.Errorf("once more: %d keys, %v", n, err)
	}
	if err := before.Do(t.Context(), note("amy")); err != nil {
		t.Errorf("a ledger that was open: %v", err)
	}
	dsn, err := dbtest.DSN(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Server, err = OpenServer(t.Context(),
		ServerOptions{Address: dsn, Connections: 4, KeyEncryptionKey: kekOf(2)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opts.Server.Close)
	for _, name := range []string{"acme", "beta", "gamma"} {
		if docs, err := opts.Server.Documents(t.Context(), name); err != nil || string(docs.Files["account.yaml"]) != name {
			t.Errorf("%s: %v, %v", name, docs, err)
		}
		withItsKey(t, opts, name)
	}
}

func TestNothingOfAnErasedAccountIsReadAgain(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	applied(t, s, AccountChange{Name: "acme", Files: bundle("one")})
	applied(t, s, AccountChange{Name: "beta", Files: bundle("two")})
	if err := withItsKey(t, opts, "acme").Do(t.Context(), note("bo")); err != nil {
		t.Fatal(err)
	}
	erased, err := s.Erase(t.Context(), "acme", amy)
	if err != nil || erased.State != AccountLeaving || erased.KeyID != "" || erased.Version != 2 {
		t.Errorf("erased %+v, %v", erased, err)
	}
	if left := rowsOf(t, ofAccount(s.read, erased.ID, 1), "SELECT name FROM account_files"); len(left) > 0 {
		t.Errorf("these files are left: %v", left)
	}
	opts.KeyFile, opts.Account = "", "acme"
	_, openErr := Open(t.Context(), opts)
	_, docsErr := s.Documents(t.Context(), "acme")
	_, changeErr := s.Apply(t.Context(), AccountChange{Name: "acme", Over: 2, Files: bundle("three"), By: amy})
	for what, err := range map[string]error{"open": openErr, "documents": docsErr, "change": changeErr} {
		if !errors.Is(err, ErrKeyEncryptionKey) || !strings.Contains(err.Error(), "erased") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := s.Rewrap(t.Context(), kekOf(2)); err != nil || n != 1 {
		t.Errorf("%d keys are left to wrap, %v", n, err)
	}
	if docs, err := s.Documents(t.Context(), "beta"); err != nil || len(docs.Files) != 3 {
		t.Errorf("the other has %d files, %v", len(docs.Files), err)
	}
}

// A ledger that is copied in stays sealed as it is.
func TestAnAdoptedAccountHasTheKeyThatSealedItsLedger(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 4)
	key, err := ReadKey(opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Adopt(t.Context(), AccountChange{Name: "acme", Files: bundle("one"), By: amy}, key); err != nil {
		t.Fatal(err)
	}
	opts.Account = "acme"
	d, err := Open(t.Context(), opts) // with its key file, which binds the ledger to it
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	withItsKey(t, opts, "acme")
	if _, err := s.Adopt(t.Context(), AccountChange{Name: "acme", By: amy}, key); !errors.Is(err, ErrChangedMeanwhile) {
		t.Errorf("adopted twice: %v", err)
	}
}
